"""What a file must be to be a store in SQLite, and what version it has.

`upgrade` brings an older one up to date, and makes a copy of the file before.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from operator import methodcaller

from ucfh.tasks import file_lock, sql_schema
from ucfh.tasks.faults import StoreBusy, StoreFault, StoreFull, TaskFault
from ucfh.tasks.file_lock import FileLock
from ucfh.tasks.sql_schema import check_version, migrate

APPLICATION = 0x55434648  # "UCFH"
MAGIC = b"SQLite format 3\0"
CACHE = 32_000
"""Kilobytes of a database that a connection keeps in memory."""
CHECKPOINT = 4000
"""Pages of the write-ahead log, 16 MB, after which it is moved to the database."""


@contextmanager
def explained(store: str) -> Iterator[None]:
    """Turn errors of SQLite into ours, in one line."""
    try:
        yield
    except sqlite3.Error as error:
        raise explain(store, error) from error


def explain(store: str, error: sqlite3.Error) -> TaskFault:
    """What an error of SQLite means for a store."""
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"{store}: the disk is full, and nothing was written: free some room and call again"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{store} is locked by another process: try again, or end that process")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreFault(f"{store} cannot be written: make the file and its folder writable")
    if code in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB):
        return StoreFault(f"{store} is damaged ({error}): go back to a copy of it")
    return StoreFault(f"{store} cannot be used ({error}): check its disk, and call again")


def connect(path: str) -> sqlite3.Connection:
    """A connection whose transactions are begun and ended by hand."""
    connection = sqlite3.connect(
        path, timeout=file_lock.PATIENCE, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
    connection.execute(f"PRAGMA cache_size=-{CACHE}")
    # compiled, so that no signal is handled in it
    connection.create_function("clock", 0, partial(methodcaller("time"), time))
    return connection


def check_file(path: str, create: bool) -> None:
    """Raise unless it is an SQLite database, or can be made one, before anything is written."""
    if path == "" or "\0" in path:
        raise StoreFault(f"{path!r} is not the name of a file: pass one, such as calls.db")
    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        if not create:
            raise StoreFault(
                f"{path} does not exist: check the name, or create a task with `ucfh task create` "
                "or, in Python, with actions, horizon and epsilon"
            )
        if not os.path.isdir(folder):
            raise StoreFault(f"cannot create {path}: the folder {folder} does not exist")
        return
    if not os.path.isfile(path):
        raise StoreFault(f"{path} is not a file: pass the name of a file, such as calls.db")
    try:
        with open(path, "rb") as file:
            begin = file.read(len(MAGIC))
    except OSError as error:
        raise StoreFault(f"cannot read {path}: {error.strerror}") from None
    # with a journal, it was being made when the power failed: SQLite takes that back
    journal = f"{os.path.realpath(path)}-journal"
    if begin not in (MAGIC, b"") and not os.path.exists(journal):
        raise StoreFault(f"{path} is another file, not a store of tasks: pass another name")


def prepare(connection: sqlite3.Connection, path: str, create: bool) -> None:
    """Make the tables in an empty file, or check those of an old one; call it with the lock."""
    version = read_version(connection, path)
    if version == 0:
        if not create:
            raise StoreFault(f"{path} is empty: pass the store of a task")
        _migrate(connection, 0)
    else:
        check_version(path, version)
    if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise StoreFault(f"{path} cannot have a write-ahead log: put it on a local disk")


def read_version(connection: sqlite3.Connection, path: str) -> int:
    """The version of the schema of a file; 0 if it is empty."""
    application, version, tables = (
        connection.execute(query).fetchone()[0]
        for query in (
            "PRAGMA application_id",
            "PRAGMA user_version",
            "SELECT count(*) FROM sqlite_master",
        )
    )
    if application == 0 and version == 0 and tables == 0:
        return 0
    if application != APPLICATION:
        raise StoreFault(f"{path} is a database of another program: pass another name")
    return int(version)


def _migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a schema up to date, all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        migrate(version, connection.execute)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(sql_schema.MIGRATIONS)}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def upgrade(path: str) -> str | None:
    """Bring an old store up to date, after copying it; the path of the copy, None if it is new.

    The copy is PATH.backup-v1 and so on; one that is there is never overwritten.
    """
    check_file(path, create=False)
    lock = FileLock(f"{os.path.realpath(path)}-lock")
    try:
        lock.acquire(path)
        with explained(path):
            connection = connect(os.path.realpath(path))
            try:
                version = read_version(connection, path)
                if version == 0:
                    raise StoreFault(f"{path} is empty: pass the store of a task")
                if version >= len(sql_schema.MIGRATIONS):
                    check_version(path, version)
                    return None
                copy = f"{path}.backup-v{version}"
                _back_up(connection, copy)
                _migrate(connection, version)
                return copy
            finally:
                connection.close()
    finally:
        lock.close()


def _back_up(connection: sqlite3.Connection, copy: str) -> None:
    if os.path.exists(copy):
        raise StoreFault(f"{copy} exists: move it away, it is the copy of an earlier upgrade")
    half = f"{copy}.half"
    try:
        target = sqlite3.connect(half)
        try:
            connection.backup(target)
        finally:
            target.close()
        os.replace(half, copy)
    except (sqlite3.Error, OSError) as error:
        with suppress(OSError):
            os.unlink(half)
        raise StoreFault(f"cannot write {copy} ({error}): the store was left as it is") from None
