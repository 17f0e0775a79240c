"""The tutorial of a service: it prints what its page shows, and comes to the same if killed."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from support.settings import DOCS

PAGE = DOCS / "tutorials" / "service.md"
SHORT = ["--students", "300", "--seed", "3"]


def serve(folder: Path, *options: str) -> dict[str, str]:
    """Return the lines that a short run prints, by name."""
    script = [sys.executable, str(PAGE.with_suffix(".py")), *SHORT, *options]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(re.findall(r"^ *(.*?)  (.*)$", done.stdout, re.MULTILINE))


def test_a_crash_changes_nothing(tmp_path: Path) -> None:
    killed = serve(tmp_path, "--kill-at", "220", "--plot", "one.png")
    straight = serve(tmp_path, "--kill-at", "0", "--store", "other.db", "--plot", "two.png")
    assert re.fullmatch(r"on day \d+, with 200 decisions open; started again", killed.pop("killed"))
    assert killed.pop("checked") == "nothing is missing, nothing is doubled"
    assert (killed.pop("figure"), straight.pop("figure")) == ("one.png", "two.png")
    assert killed == straight
    for line in ("this policy", "any policy"):
        bound, truth = map(float, re.findall(r"\d+\.\d", killed[line]))
        assert bound <= truth if line == "this policy" else truth <= bound
    assert (tmp_path / "one.png").read_bytes().startswith(b"\x89PNG")
    silent = re.findall(r"(\d+) silent until", killed["outcomes"])
    assert int(silent[0]) > 0


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
