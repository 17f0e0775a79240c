"""A lock between processes, in a file beside the database.

SQLite before 3.51.3 can damage a database if two processes write to it and restart its write-ahead
log at the same time. So a process holds this lock while it writes or closes. The operating system
releases it when a process dies. Windows has no such locks: there, SQLite uses its own lock alone.
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
    """A re-entrant exclusive lock on a dedicated lock file.

    Attributes:
        release: releases the lock.

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
        """Open the file, readable by its owner alone: access to it is access to the lock."""
        try:
            file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        self._made = True
        return file

    def acquire(self, store: str) -> None:
        """Wait for the lock.

        Raises:
            StoreBusy: another process holds it for longer than `PATIENCE`.

        """
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
        """Close the file, which releases the lock unless another process shares the file."""
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
    """Close the locks in a forked process, so that a lock of the parent ends with the parent."""
    for lock in list(_OPEN):
        lock.close()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_to_parent)
