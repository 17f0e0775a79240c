"""The tutorial of a service: it overwrites nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from support.settings import DOCS

PAGE = DOCS / "tutorials" / "service.md"


def test_a_store_that_exists_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "course.db").write_text("mine")
    script = [sys.executable, str(PAGE.with_suffix(".py"))]
    done = subprocess.run(script, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert done.stderr == "course.db exists: remove it, or pass another --store\n"
    assert (tmp_path / "course.db").read_text() == "mine"
