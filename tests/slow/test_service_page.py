"""The tutorial of a service, in full: it prints what its page shows."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from helpers.paths import DOCS

PAGE = DOCS / "tutorials" / "service.md"


def test_it_prints_what_the_page_shows(tmp_path: Path) -> None:
    (shown,) = re.findall(r"```console\n(.*?)```", PAGE.read_text(), re.DOTALL)
    script = [sys.executable, str(PAGE.with_suffix(".py"))]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert done.stdout == shown


def test_silence_without_a_meaning_costs_what_the_page_says(tmp_path: Path) -> None:
    (line,) = re.findall(r"\| nothing \(lost\) \| (.*) \|", PAGE.read_text())
    silent, lower, upper, gap = line.replace(",", "").split(" | ")
    options = ["--silence", "lost", "--students", "4047"]
    script = [sys.executable, str(PAGE.with_suffix(".py")), *options]
    out = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    assert f"told, {silent} silent" in out
    assert f"earns {lower} at least" in out
    assert f"earns {upper} at most" in out
    assert f"within {gap} points" in out
