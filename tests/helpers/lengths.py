"""How long tests take: short in ``make test``, at full length in ``make verify``.

The short ones are long enough to fail for the same reasons; what they count is the same.
"""

from __future__ import annotations

import os

LONG = bool(os.environ.get("UCFH_LONG_TESTS"))
"""Whether tests are at full length: ``UCFH_LONG_TESTS=1 pytest ...``"""


def many(short: int, long: int) -> int:
    """How many seeds, examples, runs or episodes."""
    return long if LONG else short
