"""A store of tasks in one SQLite file.

One connection writes, in immediate transactions under a lock between processes
(`ucfh.tasks.file_lock`); one reads, and never waits for a writer (write-ahead log). Commits are
synchronized with the disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from ucfh._utils.files import IN_USE, Identity, identity
from ucfh.tasks.errors import StoreBusy, StoreError
from ucfh.tasks.file_lock import FileLock
from ucfh.tasks.sql_reading import SqlRow, SqlStore, leave_open
from ucfh.tasks.sql_transaction import HEAD, SqlTransaction
from ucfh.tasks.sqlite_schema import (
    check_name,
    connect,
    create_file,
    explain,
    explained,
    opening,
    prepare,
)
from ucfh.tasks.store import T, Transaction


class SqliteStore(SqlStore):
    """A store in an SQLite file; see `TaskStore`.

    Args:
        path: of the file.
        create: whether to create a missing file.

    """

    def __init__(self, path: str, create: bool = False) -> None:
        check_name(path, create)
        self.name, self._process, self._closed = path, os.getpid(), False
        self.reads, self._writes = Lock(), Lock()
        where = self._where = os.path.realpath(path)  # one lock, by whatever name it is opened
        self._lock = FileLock(f"{where}-lock")
        self._files: dict[str, Identity | None] = {}
        with opening(path, self._lock):
            if create:
                create_file(where, path)
            opened: list[sqlite3.Connection] = []
            try:
                for _ in range(2):
                    opened.append(connect(where))
                self.connection, self.reader = opened
                prepare(self.connection, path, create)
                for connection in opened:
                    # from now on it holds SQLite's lock, so that nobody removes the log
                    connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
                names = (where, f"{where}-wal", f"{where}-shm")
                self._files = {name: identity(name) for name in names}
            except BaseException:
                for connection in opened:
                    connection.close()
                raise
        IN_USE.update(self._files.values())

    def transact(self, task: int, call: Callable[[Transaction], T]) -> T:
        """Make a call in an atomic transaction on a task.

        It is one function, so that Ctrl-C at any moment leaves no lock behind.
        """
        self.check_open()
        connection = self.connection
        with self._writes:
            try:
                try:
                    self._lock.acquire(self.name)
                    self._check_place()
                    connection.execute("BEGIN IMMEDIATE")
                    head = connection.execute(HEAD, (task,)).fetchall()
                    tx = SqlTransaction(connection.execute, task, lambda: head, self.name)
                    answer = call(tx)
                    tx.flush()
                    connection.execute("COMMIT")
                    self._check_place()
                    return answer
                finally:
                    try:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    finally:
                        self._lock.release()
            except (sqlite3.Error, UnicodeDecodeError) as error:
                raise explain(self.name, error) from error

    def _check_place(self) -> None:
        """Raise `StoreError` if a file was replaced since it was opened: writes would be lost."""
        for name, opened in self._files.items():
            if identity(name) != opened:
                ending = name.removeprefix(self._where)
                raise StoreError(
                    f"{self.name}{ending} was removed or replaced since the store was opened. "
                    "Fix: end what opens, copies or moves the store's files other than through "
                    "SQLite, and open the task again"
                )

    def query(self, query: str, given: Sequence[Any] = ()) -> list[SqlRow]:
        """Return all rows of a query."""
        self.check_open()
        with self.reads, explained(self.name):
            return self.reader.execute(query, given).fetchall()

    def damage(self) -> list[str]:
        """Return the result of SQLite's integrity check, a line for each problem."""
        try:
            rows = self.query("PRAGMA integrity_check(20)")
        except StoreError as fault:
            return [str(fault)]
        lines = [line for (text,) in rows for line in str(text).splitlines()]
        return [line for line in lines if line != "ok" and not line.startswith("***")]

    def close(self) -> None:
        """Close the file, under the lock, after the calls of other threads."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        with self._writes, self.reads:
            IN_USE.subtract(self._files.values())
            try:
                self._lock.acquire(self.name)  # the last to close empties the write-ahead log
                self._check_place()
            except (StoreBusy, StoreError):
                leave_open(self.connection)
                leave_open(self.reader)
            else:
                self.reader.close()
                self.connection.close()
            finally:
                self._lock.close()
