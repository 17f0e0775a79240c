"""The examples of the pages run as tests, each page in an empty folder of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

# the code of the site needs Sphinx, which tests do not; and a conftest has no examples
collect_ignore_glob = ["conf*.py", "_ext/*", "_build/*"]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a page writes goes there."""
    monkeypatch.chdir(tmp_path)
