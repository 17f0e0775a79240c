"""A lock between processes, beside a file.

SQLite before 3.51.3 can damage a database if two processes write to it and start its write-ahead
log anew at the same moment. So whoever writes, or closes, holds this lock: of those that do, there
is one at a time. The system frees it when a process dies. Where there are no such locks (Windows),
that of SQLite is the only one.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from errno import ENOSPC
from functools import partial
from time import monotonic, sleep
from weakref import WeakSet

from ucfh.tasks.errors import StoreBusy, StoreError, StoreFull

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

PATIENCE = 10.0
"""Seconds for which to wait for others before giving up."""
SHORTEST, LONGEST = 5e-5, 2e-3
"""Seconds between two attempts, from the first to the last ones."""


class FileLock:
    """An exclusive lock on a file that is made for it. Taking it twice is taking it once.

    Attributes:
        release: lets others have it.

    """

    def __init__(self, path: str) -> None:
        self.path, self._file, self._made = path, -1, False
        self.release: Callable[[], object] = bool
        if fcntl is not None:
            try:
                self._file = self._open(path)
            except OSError as error:
                if error.errno == ENOSPC:
                    raise StoreFull(
                        f"cannot write {path}: the disk is full; free some room"
                    ) from None
                raise StoreError(
                    f"cannot write {path}: {error.strerror}; make its folder and the file writable"
                ) from None
            # a compiled function, as no signal is handled before that has done its work
            self.release = partial(fcntl.flock, self._file, fcntl.LOCK_UN)
            _OPEN.add(self)

    def _open(self, path: str) -> int:
        """Open the file, which only its owner may read: who can open it, can hold the lock."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._made = True
        return file

    def acquire(self, store: str) -> None:
        """Wait for it."""
        if fcntl is None:
            return
        pause, until = SHORTEST, 0.0
        while True:
            try:
                fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except BlockingIOError:
                until = until or monotonic() + PATIENCE
                if monotonic() > until:
                    raise StoreBusy(
                        f"{store} is locked by another process: try again, or end that process"
                    ) from None
                sleep(pause)
                pause = min(1.5 * pause, LONGEST)

    def close(self) -> None:
        """Let go of the file; what is locked is free then, unless another process shares it."""
        if self._file >= 0:
            with suppress(OSError):
                os.close(self._file)
            self._file = -1

    def discard(self) -> None:
        """Close the lock, and remove its file if this object created it."""
        if self._made:
            with suppress(OSError):
                os.unlink(self.path)
        self.close()


_OPEN: WeakSet[FileLock] = WeakSet()


def _leave_to_parent() -> None:
    """In a forked process: a lock that the parent holds must end with the parent."""
    for lock in list(_OPEN):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
