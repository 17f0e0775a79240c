"""The tutorial of a service: killed or not, it comes to the same, and bounds hold."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from helpers.paths import DOCS

PAGE = DOCS / "tutorials" / "service.md"
SHORT = ["--students", "300", "--seed", "3"]


def serve(folder: Path, *options: str) -> dict[str, str]:
    """What a short run prints, by the names of its lines."""
    script = [sys.executable, str(PAGE.with_suffix(".py")), *SHORT, *options]
    done = subprocess.run(script, cwd=folder, capture_output=True, text=True, check=True)
    assert done.stderr == ""
    return dict(re.findall(r"^ *(.*?)  (.*)$", done.stdout, re.MULTILINE))


@pytest.mark.slow
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


def test_a_store_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "course.db").write_text("mine")
    script = [sys.executable, str(PAGE.with_suffix(".py"))]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "course.db exists: remove it, or pass another --store\n"
    assert (tmp_path / "course.db").read_text() == "mine"
