"""A progress bar that commands show on a terminal."""

from __future__ import annotations

import sys
from typing import Any

CLEAR = "\r\x1b[2K\x1b[?25h"
"""Clears the line, and shows the cursor."""


class ProgressBar:
    """What is being done, how much of it, and an estimate of the time left; on stderr.

    Attributes:
        watched: whether anybody watches; if not, nothing is shown.

    """

    def __init__(self) -> None:
        self.watched = sys.stderr is not None and sys.stderr.isatty()
        self._bar: Any = None

    def __enter__(self) -> ProgressBar:
        if self.watched:
            sys.stderr.write("running ...\r")  # what is printed next is written over it
            sys.stderr.flush()
        return self

    def _begin(self) -> None:
        """Show it, by a thread: not before processes were started, which then may be forks."""
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.percentage:>3.0f}%"),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._bar.start()
        self._task = self._bar.add_task("", total=1.0)

    def show(self, text: str, share: float) -> None:
        """Say what is being done, and that so much of it is."""
        if self.watched and self._bar is None:
            self._begin()
        if self._bar is not None:
            self._bar.update(self._task, completed=min(share, 1.0), description=text)

    def __exit__(self, *_: object) -> None:
        if self._bar is not None:
            self._bar.stop()
        elif self.watched:
            sys.stderr.write(CLEAR)
