"""The tutorial from an idea to a figure: its file is the one it shows, its commands print this."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path

import pytest

from support.command_line import run
from support.settings import DOCS

PAGE = DOCS / "tutorials" / "research.md"


def test_the_file_beside_it_is_the_one_it_shows() -> None:
    shown = re.findall(r"```python\n(?!>>>)(.*?)```", PAGE.read_text(), re.DOTALL)
    assert shown == [(PAGE.parent / "mine.py").read_text()]


@pytest.mark.slow
def test_its_commands_print_what_it_shows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    monkeypatch.delitem(sys.modules, "mine", raising=False)
    Path("mine.py").write_text((PAGE.parent / "mine.py").read_text())
    blocks = re.findall(r"```console\n\$ ucfh (.*?)\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 3

    def timeless(text: str) -> str:
        return re.sub(r" +[\d.e-]+ s ", " ? s ", text).strip()

    for command, shown in blocks:
        code, out, err = run(capsys, *shlex.split(command))
        assert (code, err) == (0, "")
        assert timeless(out) == timeless(shown), command
    monkeypatch.delitem(sys.modules, "mine")
    (command, _) = blocks[-1]
    code, out, _ = run(capsys, *shlex.split(command), "--force", "--until-significant")
    rows = out.split("\n\n")[1].splitlines()[1:]
    ranked = ["psrl", "mine:Eager:c=0.1", "mine:Eager", "ucbvi-bf"]
    assert [row.split()[1] for row in rows] == ranked
    seeds = [int(row.split()[-1]) for row in rows]
    assert (sum(seeds), seeds[0], seeds[-1]) == (126, 50, 13)  # as the page says
