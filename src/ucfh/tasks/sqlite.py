"""A store of tasks in one SQLite file.

Two connections: one writes, in immediate transactions, with a lock between processes
(`ucfh.tasks.sqlite_lock`); one reads, which never waits for a writer (write-ahead log). Commits are
synchronised with the disk.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Sequence
from contextlib import suppress
from threading import Lock

from ucfh.tasks.faults import StoreBusy, StoreFault
from ucfh.tasks.sqlite_lock import FileLock
from ucfh.tasks.sqlite_reading import SqliteReading
from ucfh.tasks.sqlite_schema import check_file, connect, explain, explained, prepare
from ucfh.tasks.sqlite_transaction import SqliteTransaction
from ucfh.tasks.store import StateRecord

_LEFT: list[object] = []
"""Connections that must not be closed: those of the parent of a forked process, for one."""


class SqliteStore(SqliteReading):
    """A store in a file; see `TaskStore`.

    Args:
        path: the file.
        create: whether to make it if it is not there.

    """

    def __init__(self, path: str, create: bool = False) -> None:
        check_file(path, create)
        self.name, self._process, self._closed = path, os.getpid(), False
        self.reads, self._writes = Lock(), Lock()
        where = os.path.realpath(path)  # one lock, by whatever name it is opened
        self._lock = FileLock(f"{where}-lock")
        try:
            self._lock.acquire(path)
            with explained(path):
                self.connection, self.reader = connect(where), connect(where)
                try:
                    prepare(self.connection, path, create)
                except BaseException:
                    self.reader.close()
                    self.connection.close()
                    raise
        except BaseException:
            self._lock.close()
            raise
        self._lock.release()

    def check_open(self) -> None:
        """Raise if it was closed, or opened before this process was forked."""
        if self._process != os.getpid():
            _LEFT.append((self.connection, self.reader))
            raise StoreFault(
                f"{self.name} was opened before this process was forked: open the task again in "
                "each process"
            )
        if self._closed:
            raise StoreFault(f"{self.name} was closed: open the task again")

    def enter(self) -> None:
        """Begin to write."""
        self.check_open()
        self._writes.acquire()
        try:
            self._lock.acquire(self.name)
        except BaseException:
            self._writes.release()
            raise
        try:
            if self.connection.in_transaction:  # a signal came between two statements
                self.connection.execute("ROLLBACK")
            self.connection.execute("BEGIN IMMEDIATE")
        except BaseException as error:
            self._lock.release()
            self._writes.release()
            if isinstance(error, sqlite3.Error):
                raise explain(self.name, error) from error
            raise

    def leave(self, error: BaseException | None) -> None:
        """Write all, or nothing if there was an error."""
        connection = self.connection
        try:
            if error is None:
                connection.execute("COMMIT")
                return
        except BaseException as late:
            error = late
            raise
        finally:
            try:
                if error is not None and connection.in_transaction:
                    with suppress(sqlite3.Error):
                        connection.execute("ROLLBACK")
            finally:
                self._lock.release()
                self._writes.release()
                if isinstance(error, sqlite3.Error):
                    raise explain(self.name, error) from error

    def create(self, name: str, declaration: str, states: Sequence[StateRecord]) -> int:
        """Write a new task with its declared states, unless it is there; its number."""
        with self.writing(0) as tx:
            run = self.connection.execute
            row = run("SELECT id FROM tasks WHERE name=?", (name,)).fetchone()
            if row is not None:
                return int(row[0])
            task = run(
                "INSERT INTO tasks(name, declaration, created) VALUES (?,?,?)",
                (name, declaration, tx.now),
            ).lastrowid
            of_task = SqliteTransaction(self, int(task or 0))
            for record in states:
                of_task.add_state(record)
        return int(task or 0)

    def writing(self, task: int) -> SqliteTransaction:
        """A transaction on a task, to be entered again and again."""
        return SqliteTransaction(self, task)

    def close(self) -> None:
        """Let go of the file, under the lock, after calls of other threads."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        with self._writes, self.reads:
            try:
                self._lock.acquire(self.name)  # the last to close empties the write-ahead log
            except StoreBusy:
                _LEFT.append((self.connection, self.reader))
            else:
                self.reader.close()
                self.connection.close()
            finally:
                self._lock.close()
