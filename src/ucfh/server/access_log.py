"""The access log: one line of JSON for each request and each other event.

A line has the time, method, path, status, duration and the name of the token: never a token or a
body. A thread writes the lines, so that requests do not wait for a slow reader; if it falls far
behind, lines are dropped, and their number is logged.
"""

from __future__ import annotations

import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from queue import Empty, Full, Queue
from threading import Thread
from typing import Any

import msgspec

MOST_WAITING = 100_000
"""Largest number of queued lines."""
PAUSE, PATIENCE = 0.05, 2.0
"""Seconds for which lines are collected; for which to wait for the reader at the end."""


class AccessLog:
    """A log that is written by a thread.

    Args:
        write: writes lines; None: nothing is logged.

    """

    def __init__(self, write: Callable[[bytes], Any] | None) -> None:
        self._lines: Queue[dict[str, Any] | None] = Queue(MOST_WAITING)
        self._write, self._dropped = write, 0
        self._thread = Thread(target=self._run, name="ucfh-log", daemon=True)
        if write is not None:
            self._thread.start()

    def request(
        self, method: str, path: bytes, status: int, took: float, who: str | None, fault: str | None
    ) -> None:
        """Log an answered request."""
        line = {
            "at": time.time(),
            "method": method,
            "path": path.decode("latin-1"),
            "status": status,
            "ms": round(1000 * took, 2),
        }
        if who is not None:
            line["token"] = who
        if fault is not None:
            line["fault"] = fault
        self._add(line)

    def event(self, name: str, **more: Any) -> None:
        """Log another event."""
        self._add({"at": time.time(), "event": name, **more})

    def _add(self, line: dict[str, Any]) -> None:
        if self._write is not None:
            try:
                self._lines.put_nowait(line)
            except Full:
                self._dropped += 1

    def _run(self) -> None:
        assert self._write is not None
        encode, ended = msgspec.json.Encoder().encode, False
        while not ended:
            lines = [self._lines.get()]
            time.sleep(0 if lines[0] is None else PAUSE)
            with suppress(Empty):
                while True:
                    lines.append(self._lines.get_nowait())
            if self._dropped:
                lines.append({"at": time.time(), "event": "dropped", "lines": self._dropped})
                self._dropped = 0
            ended = None in lines
            text = b"".join(encode(line) + b"\n" for line in lines if line is not None)
            try:
                self._write(text)
            except (OSError, ValueError):  # nobody reads them
                return

    def close(self) -> None:
        """Write the queued lines, for at most some seconds."""
        if self._thread.is_alive():
            with suppress(Full):
                self._lines.put(None, timeout=PATIENCE)
            self._thread.join(PATIENCE)


def place_of(error: BaseException) -> str:
    """Return the type and place of an error, without its message, which may contain user data."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = " > ".join(f"{Path(x.filename).name}:{x.lineno}" for x in frames)
    return f"{type(error).__name__} at {where}"
