"""The log: one line of JSON for each request, and for whatever else happens.

A line says when, what was asked (method and path), the status, how long it took and whose token it
was: never a token, nor what was sent. A thread writes the lines, so that nobody waits for whoever
reads them; if it falls far behind, lines are dropped, and their number is written.
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
"""Lines that wait to be written."""
PAUSE, PATIENCE = 0.05, 2.0
"""Seconds for which lines are collected; for which to wait for whoever reads, at the end."""


class AccessLog:
    """Writes lines beside all else.

    Args:
        write: takes lines; None: nothing is logged.

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
        """Note a request that was answered."""
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
        """Note something else."""
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
        """Write what is left; not for long if nobody reads."""
        if self._thread.is_alive():
            with suppress(Full):
                self._lines.put(None, timeout=PATIENCE)
            self._thread.join(PATIENCE)


def place_of(error: BaseException) -> str:
    """Where an error happened; not what it says, as that may hold what was sent."""
    frames = traceback.extract_tb(error.__traceback__)[-5:]
    where = " > ".join(f"{Path(x.filename).name}:{x.lineno}" for x in frames)
    return f"{type(error).__name__} at {where}"
