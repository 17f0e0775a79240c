"""Parts of pages that are made from the package itself, so that they cannot go stale.

``{names}`` lists the public names, ``{commands}`` the help of every command, ``{sources}`` where
agents come from, ``{agents}`` and ``{problems}`` what they say of themselves, ``{requests}``
what a service answers.
"""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

COLUMNS = 88
"""How wide the help of commands is printed."""


def _first_sentence(thing: Any) -> str:
    """The summary of a docstring, one line."""
    return " ".join((inspect.getdoc(thing) or "").split("\n\n")[0].split())


def _cell(text: str) -> str:
    """A text as it may stand in a table of Markdown, to be read as it is."""
    text = re.sub(r"``?([^`]+)``?", r"\1", text)
    return re.sub(r"([\\`*_{}\[\]<>|$~^])", r"\\\1", text)


def _table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def names() -> Iterator[str]:
    """Every public name with its summary, as links."""
    import ucfh

    rows = []
    for name in sorted(ucfh.__all__, key=str.lower):
        if name != "__version__":
            thing = getattr(ucfh, name)
            role = "class" if inspect.isclass(thing) else "func"
            rows.append([f"{{py:{role}}}`~ucfh.{name}`", _cell(_first_sentence(thing))])
    yield _table(["name", "what it is"], rows)


def _help(*arguments: str) -> str:
    """What a command prints with --help."""
    done = subprocess.run(
        [sys.executable, "-m", "ucfh", *arguments, "--help"],
        env={**os.environ, "COLUMNS": str(COLUMNS), "NO_COLOR": "1"},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    return done.stdout.strip("\n")


def commands(*within: str) -> Iterator[str]:
    """The help of every command, those within another one after it."""
    listed = _help(*within).partition("Commands:\n")[2]
    for name in re.findall(r"^  (\w+)", listed, re.MULTILINE):
        command = (*within, name)
        yield f"## ucfh {' '.join(command)}\n\n```text\n{_help(*command)}\n```"
        yield from commands(*command)


def sources() -> Iterator[str]:
    """Every agent and where it comes from."""
    from ucfh.algorithms.registry import AGENTS, agent_class

    rows = [[f"[{name}](#{name})", _cell(agent_class(name).reference)] for name in AGENTS]
    yield _table(["agent", "source"], rows)


def agents() -> Iterator[str]:
    """What every agent says of itself."""
    from ucfh.algorithms.registry import AGENTS, agent_class, describe_parameters

    for name in AGENTS:
        cls = agent_class(name)
        facts = {
            "Source": cls.reference,
            "Setting": cls.setting,
            "What is proved": cls.guarantee,
            "Constants": cls.constants,
        }
        for x in describe_parameters(cls):
            default = "" if x.default is None else f", by default {x.default}"
            facts[f"Parameter {x.name}"] = f"{x.kind}{default}: {x.words}"
        said = "\n".join(f"- **{key}**: {_cell(value)}" for key, value in facts.items())
        yield f"## {name}\n\n{_cell(_first_sentence(cls))}\n\n{said}"


def problems() -> Iterator[str]:
    """What every named problem is, with its parameters and their defaults."""
    from ucfh.problems import catalogue

    for name, builder in catalogue().items():
        parameters = inspect.signature(builder).parameters.values()
        without = (inspect.Parameter.empty, None, "")
        given = [f"{p.name}={p.default}" for p in parameters if p.default not in without]
        text = (inspect.getdoc(builder) or "").replace("`", "``").replace("````", "``")
        text = text.partition(">>>")[0].replace("*", r"\*").replace("|", r"\|")
        text = re.sub(r"^Args:\n((?:    .*\n?)*)", _parameters, text, flags=re.MULTILINE)
        full = f"{name}:{','.join(given)}"
        yield f"## {name}\n\n```text\n{full}\n```\n\n~~~~{{eval-rst}}\n{text}\n~~~~"


def _parameters(found: re.Match[str]) -> str:
    """The section Args of a docstring as a list."""
    joined = re.sub(r"\n {8,}", " ", found[1])
    return re.sub(r"^    ([\w, ]+):", r"- **\1**:", joined, flags=re.MULTILINE)


def requests() -> Iterator[str]:
    """Every request that a service answers."""
    from ucfh.server.endpoints import ENDPOINTS

    who = {"all": "all", "read": "any token", "write": "a token that may write"}
    rows = [
        [f"`{x.method}`", f"`{x.path}`", _cell(x.summary), who[x.role]]
        for x in sorted(ENDPOINTS, key=lambda x: x.path)
    ]
    yield _table(["method", "address", "what it does", "who may"], rows)


MADE = (names, commands, sources, agents, problems, requests)


class Generated(SphinxDirective):
    """A directive whose Markdown is made by the function of its name."""

    def run(self) -> list[nodes.Node]:
        """Sphinx calls this."""
        made = {x.__name__: x for x in MADE}[self.name]
        return self.parse_text_to_nodes("\n\n".join(made()), allow_section_headings=True)


def setup(app: Sphinx) -> dict[str, bool]:
    """Sphinx calls this."""
    for made in MADE:
        app.add_directive(made.__name__, Generated)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
