"""Pages of the site: shown output, options, links and file names are current."""

from __future__ import annotations

import re
import shlex
import shutil
from pathlib import Path

import pytest

import ucfh
from support.command_line import run
from support.settings import DOCS, REPOSITORY
from ucfh.cli.printing import NOT_CERTIFIED


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
    assert {"learn", "certify", "compare", "plan"} <= set(used)
    for command, options in used.items():
        code, out, _ = run(capsys, *command.split(), "--help")
        assert code == 0
        assert options <= set(re.findall(r"--[a-z-]+", out)), command


LONG = ("learn env:", "serve", "verify")
"""How commands of the README begin that would take too long, or need more, for a test of all."""


def test_the_commands_of_the_readme_run_as_they_stand(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    section = (REPOSITORY / "README.md").read_text().split("## On the command line")[1]
    lines = re.findall(r"^    (.*?)(?: +#.*)?$", section.split("## In Python")[0], re.MULTILINE)
    assert lines[0] == "mkdir -p out && cd out && cp ../docs/tutorials/mine.py ."
    shutil.copy(DOCS / "tutorials" / "mine.py", tmp_path)
    python, option, source = shlex.split(lines[1])
    assert (python, option) == ("python", "-c")
    exec(source, {})
    for line in lines[2:]:
        command = line.removeprefix("ucfh ")
        if not command.startswith(LONG):
            short = "--seeds 2 --episodes 20 --workers 1" if command.startswith("compare") else ""
            code, _, err = run(capsys, *shlex.split(f"{command} {short}"))
            assert code in (0, NOT_CERTIFIED), err


def test_the_version_is_said_once() -> None:
    citation = (REPOSITORY / "CITATION.cff").read_text()
    assert f"\nversion: {ucfh.__version__}\n" in citation
    for page in (REPOSITORY / "README.md", DOCS / "citing.md"):
        assert f"version = {{{ucfh.__version__}}}" in page.read_text()
    assert f"## {ucfh.__version__}\n" in (REPOSITORY / "CHANGELOG.md").read_text()


FILES = re.compile(r"`((?:src|tests|docs|benchmarks|evaluation)/[\w./-]+)`")


@pytest.mark.parametrize("page", ["docs/architecture.md", "CONTRIBUTING.md"])
def test_every_file_that_is_named_exists(page: str) -> None:
    named = FILES.findall((REPOSITORY / page).read_text())
    assert len(named) > 10
    # where a recipe says NAME, the reader puts one
    gone = {name for name in named if "NAME" not in name and not (REPOSITORY / name).exists()}
    assert not gone


def links(page: Path) -> list[str]:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    return re.findall(r"\]\(([^)#\s]+)[^)]*\)", text)


def test_links_between_pages_lead_somewhere() -> None:
    """Without Sphinx: for those who read the pages in the repository."""
    for page in [REPOSITORY / "README.md", REPOSITORY / "CONTRIBUTING.md", *DOCS.rglob("*.md")]:
        for link in links(page):
            assert link.startswith("http") or (page.parent / link).exists(), f"{page}: {link}"
