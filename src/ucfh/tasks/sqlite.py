"""A store of tasks in one SQLite file.

Two connections: one writes, in immediate transactions, with a lock between processes
(`ucfh.tasks.file_lock`); one reads, which never waits for a writer (write-ahead log). Commits are
synchronised with the disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any

from ucfh.tasks.faults import StoreBusy, StoreFault
from ucfh.tasks.file_lock import FileLock
from ucfh.tasks.sql_reading import LEFT, SqlReading, SqlRow
from ucfh.tasks.sql_transaction import HEAD, SqlTransaction
from ucfh.tasks.sqlite_schema import check_file, connect, explain, explained, prepare
from ucfh.tasks.store import T, Transaction


class SqliteStore(SqlReading):
    """A store in a file; see `TaskStore`.

    Args:
        path: the file.
        create: whether to make it if it is not there.

    """

    def __init__(self, path: str, create: bool = False) -> None:
        check_file(path, create)
        self.name, self._process, self._closed = path, os.getpid(), False
        self.reads, self._writes = Lock(), Lock()
        where = self._where = os.path.realpath(path)  # one lock, by whatever name it is opened
        self._lock = FileLock(f"{where}-lock")
        try:
            self._lock.acquire(path)
            with explained(path):
                self.connection, self.reader = connect(where), connect(where)
                try:
                    prepare(self.connection, path, create)
                    found = os.stat(where)
                    self._file = found.st_dev, found.st_ino
                except BaseException:
                    self.reader.close()
                    self.connection.close()
                    raise
        except BaseException:
            self._lock.close()
            raise
        self._lock.release()

    def transact(self, task: int, call: Callable[[Transaction], T]) -> T:
        """Make a call in a transaction on a task, which is written at its end, or not at all.

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
                    tx = SqlTransaction(connection.execute, task, lambda: head)
                    answer = call(tx)
                    tx.flush()
                    connection.execute("COMMIT")
                    return answer
                finally:
                    try:
                        if connection.in_transaction:
                            connection.execute("ROLLBACK")
                    finally:
                        self._lock.release()
            except sqlite3.Error as error:
                raise explain(self.name, error) from error

    def _check_place(self) -> None:
        """Raise if the file is no longer where it was opened: what is written would be lost."""
        try:
            found = os.stat(self._where)
        except OSError:
            found = None
        if found is None or (found.st_dev, found.st_ino) != self._file:
            raise StoreFault(
                f"{self.name} was removed or replaced since it was opened: put it back, and open "
                "the task again"
            )

    def query(self, query: str, given: Sequence[Any] = ()) -> list[SqlRow]:
        """Read all rows that a query finds."""
        self.check_open()
        with self.reads, explained(self.name):
            return self.reader.execute(query, given).fetchall()

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file, a line each."""
        return [text for (text,) in self.query("PRAGMA integrity_check") if text != "ok"]

    def close(self) -> None:
        """Let go of the file, under the lock, after calls of other threads."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        with self._writes, self.reads:
            try:
                self._lock.acquire(self.name)  # the last to close empties the write-ahead log
            except StoreBusy:
                LEFT.append((self.connection, self.reader))
            else:
                self.reader.close()
                self.connection.close()
            finally:
                self._lock.close()
