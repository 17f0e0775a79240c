"""The tables of a store in SQLite, their versions, and what a file must be to be one.

A new store is made by the same numbered migrations that bring an old one up to date, so there is
one way to the present schema. `upgrade` makes a copy of the file before.
"""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ucfh.tasks import sqlite_lock
from ucfh.tasks.faults import StoreBusy, StoreFault, StoreFull, TaskFault
from ucfh.tasks.sqlite_lock import FileLock

APPLICATION = 0x55434648  # "UCFH"
MIGRATIONS = (
    """
    CREATE TABLE tasks (
        id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, declaration TEXT NOT NULL,
        created REAL NOT NULL);
    CREATE TABLE states (
        task INTEGER NOT NULL, number INTEGER NOT NULL, label TEXT NOT NULL, actions TEXT,
        PRIMARY KEY (task, number), UNIQUE (task, label)) WITHOUT ROWID;
    CREATE TABLE episodes (
        task INTEGER NOT NULL, id INTEGER NOT NULL, name TEXT NOT NULL, policy INTEGER NOT NULL,
        began REAL NOT NULL,
        PRIMARY KEY (task, id), UNIQUE (task, name)) WITHOUT ROWID;
    CREATE TABLE events (
        task INTEGER NOT NULL, seq INTEGER NOT NULL, kind INTEGER NOT NULL,
        episode INTEGER NOT NULL, t INTEGER NOT NULL, state INTEGER NOT NULL, action INTEGER,
        policy INTEGER, reward REAL, at REAL NOT NULL, note TEXT,
        PRIMARY KEY (task, seq), UNIQUE (task, episode, t, kind)) WITHOUT ROWID;
    CREATE INDEX lost ON events (task) WHERE kind = 1 AND state = -1;
    CREATE TABLE waiting (
        task INTEGER NOT NULL, episode INTEGER NOT NULL, t INTEGER NOT NULL, kind INTEGER NOT NULL,
        seq INTEGER NOT NULL, deadline REAL,
        PRIMARY KEY (task, episode)) WITHOUT ROWID;
    CREATE TABLE policies (
        task INTEGER NOT NULL, number INTEGER NOT NULL, made REAL NOT NULL, known INTEGER NOT NULL,
        episodes INTEGER NOT NULL, actions BLOB NOT NULL, width INTEGER NOT NULL,
        summary TEXT NOT NULL,
        PRIMARY KEY (task, number));
    CREATE TABLE snapshots (task INTEGER PRIMARY KEY, seq INTEGER NOT NULL, blob BLOB NOT NULL);
    CREATE TABLE beginnings (
        id INTEGER PRIMARY KEY, task INTEGER NOT NULL, sentence TEXT NOT NULL, prior TEXT NOT NULL);
    CREATE TABLE leases (task INTEGER PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL);
    CREATE TABLE faults (
        task INTEGER NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, episode TEXT NOT NULL,
        t INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL,
        PRIMARY KEY (task, number), UNIQUE (task, episode, t, kind, detail)) WITHOUT ROWID;
    """,
)
"""What makes each version of the schema of the one before; the first is made of nothing."""
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
        path, timeout=sqlite_lock.PATIENCE, isolation_level=None, check_same_thread=False
    )
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute(f"PRAGMA wal_autocheckpoint={CHECKPOINT}")
    connection.execute(f"PRAGMA cache_size=-{CACHE}")
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
        migrate(connection, 0)
    elif version < len(MIGRATIONS):
        raise StoreFault(
            f"{path} was made by an older ucfh (schema {version}, now {len(MIGRATIONS)}): run "
            f"`ucfh task upgrade {path}`, which keeps a copy of it"
        )
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
    if version > len(MIGRATIONS):
        raise StoreFault(
            f"{path} was made by a newer ucfh (schema {version}, here {len(MIGRATIONS)}): install "
            "that version"
        )
    return int(version)


def migrate(connection: sqlite3.Connection, version: int) -> None:
    """Bring a schema up to date, all or nothing."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        for migration in MIGRATIONS[version:]:
            for statement in migration.split(";"):
                if statement.strip():
                    connection.execute(statement)
        connection.execute(f"PRAGMA application_id={APPLICATION}")
        connection.execute(f"PRAGMA user_version={len(MIGRATIONS)}")
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
                if version == len(MIGRATIONS):
                    return None
                copy = f"{path}.backup-v{version}"
                _back_up(connection, copy)
                migrate(connection, version)
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
