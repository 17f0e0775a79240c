"""Requirements of a store in SQLite, and its version.

The file is read through SQLite alone. SQLite's locks are POSIX locks, and closing any other
descriptor of the file drops all of them that the process holds: then another process takes itself
for the last one, and removes the write-ahead log in use.
"""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from operator import methodcaller
from pathlib import Path

from ucfh.tasks import file_lock
from ucfh.tasks.errors import StoreBusy, StoreError, StoreFull, TaskError, damaged
from ucfh.tasks.file_lock import FileLock
from ucfh.tasks.sql_schema import VERSION, check_version, create_tables

APPLICATION = 0x55434648  # "UCFH"
CACHE = 32_000
"""Kilobytes of a database that a connection keeps in memory."""
CHECKPOINT = 4000
"""Pages of the write-ahead log, 16 MB, after which it is moved to the database."""


class NotAStoreError(StoreError):
    """The file belongs to another program."""


@contextmanager
def explained(store: str) -> Iterator[None]:
    """Turn errors of SQLite into ours, in one line."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise explain(store, error) from error


def explain(store: str, error: sqlite3.Error | UnicodeDecodeError) -> TaskError:
    """Return the error of a store that corresponds to an error of SQLite."""
    if isinstance(error, UnicodeDecodeError) or "decode to UTF-8" in str(error):
        return damaged(store, error)
    code = getattr(error, "sqlite_errorcode", 0) & 0xFF
    if code == sqlite3.SQLITE_FULL:
        return StoreFull(
            f"{store}: the disk is full, and nothing was written: free some room and call again"
        )
    if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
        return StoreBusy(f"{store} is locked by another process: try again, or end that process")
    if code in (sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM):
        return StoreError(f"{store} cannot be written: make the file and its folder writable")
    if code == sqlite3.SQLITE_NOTADB:
        return NotAStoreError(
            f"{store} is not a store of tasks ({error}). Fix: check the name; if it is right, "
            "restore a backup"
        )
    if code == sqlite3.SQLITE_CORRUPT:
        return damaged(store, error)
    return StoreError(f"{store} cannot be used ({error}): check its disk, and call again")


def connect(path: str) -> sqlite3.Connection:
    """A connection whose transactions are begun and ended by hand."""
    connection = sqlite3.connect(
        f"{Path(path).as_uri()}?mode=rw",  # never creates it: see `create_file`
        uri=True,
        timeout=file_lock.PATIENCE,
        isolation_level=None,
        check_same_thread=False,
    )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
    connection.execute(f"PRAGMA cache_size=-{CACHE}")
    # compiled, so that no signal is handled in it
    connection.create_function("clock", 0, partial(methodcaller("time"), time))
    return connection


def check_name(path: str, create: bool) -> None:
    """Raise unless the path is that of a file, or of one that can be created; opens nothing."""
    if path == "" or "\0" in path:
        raise StoreError(f"{path!r} is not the name of a file: pass one, such as calls.db")
    if path == ":memory:":
        raise StoreError(
            ":memory: is not the name of a file, and a store cannot be in memory. Fix: pass the "
            "name of a file, such as calls.db"
        )
    if not os.path.exists(path):
        folder = os.path.dirname(path) or "."
        if not create:
            raise StoreError(
                f"{path} does not exist: check the name, or create a task with `ucfh task create` "
                "or, in Python, with actions, horizon and epsilon"
            )
        if not os.path.isdir(folder):
            raise StoreError(f"cannot create {path}: the folder {folder} does not exist")
        return
    if not os.path.isfile(path):
        raise StoreError(f"{path} is not a file: pass the name of a file, such as calls.db")


@contextmanager
def opening(path: str, lock: FileLock) -> Iterator[None]:
    """Hold the lock while a file is opened; beside a file of another program no lock is left."""
    try:
        lock.acquire(path)
        with explained(path):
            yield
        lock.release()
    except NotAStoreError:
        lock.discard()
        raise
    except BaseException:
        lock.close()
        raise


def create_file(where: str, path: str) -> None:
    """Create an empty file that only its owner may read, unless there is one; call with the lock.

    The lock keeps the descriptor that is closed here from being one of a database in use. SQLite
    gives the files beside it the same rights.
    """
    try:
        os.close(os.open(where, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
    except FileExistsError:
        pass
    except OSError as error:
        raise StoreError(f"cannot write {path}: {error.strerror}") from None


def prepare(connection: sqlite3.Connection, path: str, create: bool) -> None:
    """Make the tables in an empty file, or check their version; call it with the lock."""
    version = read_version(connection, path)
    if version == 0:
        if not create:
            raise StoreError(f"{path} is empty: pass the store of a task")
        _create_tables(connection)
    else:
        check_version(path, version)
    if connection.execute("PRAGMA journal_mode=WAL").fetchone()[0] != "wal":
        raise StoreError(f"{path} cannot have a write-ahead log: put it on a local disk")


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
        raise NotAStoreError(f"{path} is a database of another program: pass another name")
    return int(version)


def _create_tables(connection: sqlite3.Connection) -> None:
    """Create all tables, or none."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        create_tables(connection.execute)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={VERSION}")
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise
