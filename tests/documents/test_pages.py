"""What the pages of the site show of commands is what these print."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from helpers.command_line import run
from helpers.paths import DOCS, REPOSITORY


def test_the_start_page_shows_what_its_command_prints(capsys: pytest.CaptureFixture[str]) -> None:
    ((line, printed),) = re.findall(
        r"```console\n\$ ucfh (.*?)\n(.*?)```", (DOCS / "index.md").read_text(), re.DOTALL
    )
    code, out, err = run(capsys, *shlex.split(line))
    assert (code, err) == (0, "")
    assert re.sub(r" +took .*\n", "", out).strip() == printed.strip()


def test_commands_in_pages_have_the_options_that_they_are_given(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pages = [REPOSITORY / "README.md", *DOCS.rglob("*.md")]
    used: dict[str, set[str]] = {}
    for page in pages:
        text = page.read_text().replace("\\\n", " ")
        for command, rest in re.findall(
            r"^(?:    |\$ )ucfh (task \w+|\w+)(.*)$", text, re.MULTILINE
        ):
            given = re.findall(r"--[a-z-]+", rest.partition("  #")[0])
            used.setdefault(command, set()).update(given)
    assert {"learn", "certify", "compare", "plan", "study"} <= set(used)
    for command, options in used.items():
        code, out, _ = run(capsys, *command.split(), "--help")
        assert code == 0
        assert options <= set(re.findall(r"--[a-z-]+", out)), command


def test_the_version_is_said_once() -> None:
    (version,) = re.findall(
        r'^version = "(.*)"$', (REPOSITORY / "pyproject.toml").read_text(), re.MULTILINE
    )
    citation = (REPOSITORY / "CITATION.cff").read_text()
    assert f"\nversion: {version}\n" in citation
    for page in (REPOSITORY / "README.md", DOCS / "citing.md"):
        assert f"version = {{{version}}}" in page.read_text()
    assert f"## {version}\n" in (REPOSITORY / "CHANGELOG.md").read_text()


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)


def test_links_between_pages_lead_somewhere() -> None:
    """Without Sphinx: for those who read the pages in the repository."""
    for page in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        for link in links(page):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page}: {link}"
