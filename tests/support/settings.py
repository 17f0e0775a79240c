"""Paths of the repository and the length of tests."""

from __future__ import annotations

import os
from pathlib import Path

LONG = bool(os.environ.get("UCFH_LONG_TESTS"))
"""Whether tests are at full length: ``UCFH_LONG_TESTS=1 pytest ...``"""


def many(short: int, long: int) -> int:
    """Return a number of seeds, examples, runs or episodes."""
    return long if LONG else short


TESTS = Path(__file__).parents[1]
REPOSITORY = TESTS.parent
SOURCE = REPOSITORY / "src" / "ucfh"
DOCS = REPOSITORY / "docs"
