"""The tutorial from a school's file to a decision: its commands print what it shows."""

from __future__ import annotations

import importlib.util
import re
import shlex
from pathlib import Path
from types import ModuleType

import pytest

from support.command_line import run
from support.settings import DOCS

PAGE = DOCS / "tutorials" / "students.md"
REFUSED, NOT_CERTIFIED = 2, 3


def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("students", PAGE.with_suffix(".py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def plain(text: str) -> list[str]:
    """Its lines without the blanks at their ends, and without blank ones."""
    return [line.rstrip() for line in text.splitlines() if line.strip()]


def test_its_commands_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")
    script().write("students.csv")
    blocks = re.findall(r"```console\n\$ ucfh (.*?)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    codes = []
    for command, shown in blocks:
        code, out, err = run(capsys, *shlex.split(command))
        codes.append(code)
        printed, wanted = plain(out or err), plain(shown)
        if wanted[-1] == "...":  # the beginning
            wanted = wanted[:-1]
            printed = printed[: len(wanted)]
        if wanted[0] == "...":  # the end
            printed = [wanted[0], *printed[-len(wanted) + 1 :]]
        assert printed == wanted, command
    assert codes == [REFUSED, 0, NOT_CERTIFIED, 0, NOT_CERTIFIED, 0, 0]
    for option in ("outcome", "lost"):
        code, out, _ = run(capsys, "certify", "students.csv", "--dropouts", option)
        bounds = re.findall(r"at least (\S+) per episode; no policy earns more than (\S+)\.\n", out)
        least, most = map(float, bounds[0])
        row = re.search(rf"\| `{option}` \|.*\| (\S+) \| (\S+) \|", PAGE.read_text())
        assert row is not None
        assert 0 <= least - float(row[1]) < 0.1
        assert 0 <= float(row[2]) - most < 0.1
    code, out, _ = run(capsys, "certify", "students.csv", "--dropouts", "random")
    assert code == NOT_CERTIFIED
    assert "refuted  in the whole log: after action 'project' in state 'Quiz<50'" in out


def test_the_file_is_what_the_page_says(tmp_path: Path) -> None:
    path = tmp_path / "students.csv"
    script().write(str(path))
    lines = path.read_text(encoding="cp1252").splitlines()
    shown = re.findall(r"^    ((?:Student no|1001).*)$", PAGE.read_text(), re.MULTILINE)
    assert lines[: len(shown)] == shown
    assert len({line.split(";")[0] for line in lines[1:]}) == 3000
