"""Where the stores of a test are, and the time there."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Stores = Callable[[str], str]
"""By any name, an empty store: a file, or the address of a database."""


def files(folder: Path) -> Stores:
    """Files in a folder: for tests of what no database changes, and which take long."""
    return lambda name: str(folder / f"{name}.db")


class Clock:
    """A time that is set by hand.

    Args:
        tell: lets a database know.

    """

    def __init__(self, tell: Callable[[float], object]) -> None:
        self._tell = tell
        self.now = 1000.0

    @property
    def now(self) -> float:
        """Seconds since 1970."""
        return self._now

    @now.setter
    def now(self, now: float) -> None:
        self._now = now
        self._tell(now)
