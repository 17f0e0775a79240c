"""The pages on theory: propositions are numbered, computed by what exists, attacked by tests."""

from __future__ import annotations

import re
from importlib import import_module
from itertools import pairwise
from typing import Any

import pytest

from support.settings import DOCS, TESTS

PAGES = DOCS / "theory"
INDEX = (PAGES / "index.md").read_text()
ORDER = re.findall(r"^[a-z]+$", INDEX.split("```")[1], re.M)
HEADING = re.compile(r"^\((prop-[a-z0-9-]+)\)=\n### Proposition (\d+) \((.+)\)$", re.M)


def propositions() -> list[tuple[int, str, str, str]]:
    """(number, label, name, text) of each, in the order of the pages."""
    out = []
    for page in ORDER:
        text = (PAGES / f"{page}.md").read_text()
        found = [*HEADING.finditer(text)]
        ends = [later.start() for _, later in pairwise(found)] + [len(text)]
        for heading, end in zip(found, ends, strict=True):
            label, number, name = heading.groups()
            out.append((int(number), label, name, text[heading.end() : end]))
    return out


ALL = propositions()


def named(text: str, what: str) -> list[str]:
    """The names in the paragraph that begins with **what**."""
    (paragraph,) = re.findall(rf"^\*\*{what}\*\* (.+?)(?:\n\n|\n?\Z)", text, re.M | re.S)
    return re.findall(r"`([^`]+)`", paragraph)


def load(name: str) -> Any:
    """Return the object of a dotted name: the longest module, then attributes."""
    parts = name.split(".")
    for k in range(len(parts), 0, -1):
        try:
            found: Any = import_module(".".join(parts[:k]))
        except ModuleNotFoundError:
            continue
        for part in parts[k:]:
            found = getattr(found, part)
        return found
    raise ModuleNotFoundError(name)


def test_numbers_are_consecutive_and_labels_unique() -> None:
    assert [number for number, *_ in ALL] == list(range(1, len(ALL) + 1))
    assert len({label for _, label, *_ in ALL}) == len(ALL)
    every = "".join((PAGES / f"{page}.md").read_text() for page in ORDER)
    assert len(re.findall(r"^#+ Proposition", every, re.M)) == len(ALL)


def test_references_name_the_number_of_their_label() -> None:
    number = {label: str(n) for n, label, *_ in ALL}
    for page in ORDER:
        text = (PAGES / f"{page}.md").read_text()
        for shown, label in re.findall(r"\[(?:Propositions? )?(\d+)\]\(#(prop-.+?)\)", text):
            assert number[label] == shown, (page, shown, label)


@pytest.mark.parametrize("proposition", ALL, ids=lambda x: str(x[0]))
def test_computed_by_what_exists_and_attacked_by_tests(proposition: Any) -> None:
    _, _, _, text = proposition
    assert r"\square" in text
    computed, attacked = named(text, "Computed by"), named(text, "Attacked by")
    assert computed
    assert attacked
    for name in computed:
        load(name)
    for name in attacked:
        file, test = name.split("::")
        (path,) = TESTS.rglob(file)
        assert f"\ndef {test}(" in path.read_text(), name
