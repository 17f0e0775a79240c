"""The tables of a store, in any database, and their version.

They are written as SQLite reads them; `ucfh.tasks.postgres_schema` has the words of PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable

from ucfh.tasks.errors import StoreError

VERSION = 100
"""The version of the tables: a new number for every change, since no other is read."""

TABLES = """
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
CREATE INDEX deadlines ON waiting (task, deadline) WHERE deadline IS NOT NULL;
CREATE INDEX oldest ON waiting (task, seq);
CREATE TABLE policies (
    task INTEGER NOT NULL, number INTEGER NOT NULL, width INTEGER NOT NULL,
    actions BLOB NOT NULL, best BLOB NOT NULL, changed BLOB NOT NULL,
    PRIMARY KEY (task, number));
CREATE TABLE plans (
    task INTEGER NOT NULL, number INTEGER NOT NULL, made REAL NOT NULL, known INTEGER NOT NULL,
    episodes INTEGER NOT NULL, summary TEXT NOT NULL,
    PRIMARY KEY (task, number)) WITHOUT ROWID;
CREATE TABLE reports (
    task INTEGER PRIMARY KEY, number INTEGER NOT NULL, seq INTEGER NOT NULL, made REAL NOT NULL,
    content TEXT NOT NULL);
CREATE TABLE snapshots (task INTEGER PRIMARY KEY, seq INTEGER NOT NULL, blob BLOB NOT NULL);
CREATE TABLE beginnings (
    task INTEGER NOT NULL, id INTEGER NOT NULL, sentence TEXT NOT NULL, prior TEXT NOT NULL,
    PRIMARY KEY (task, id)) WITHOUT ROWID;
CREATE TABLE leases (task INTEGER PRIMARY KEY, holder TEXT NOT NULL, until REAL NOT NULL);
CREATE TABLE faults (
    task INTEGER NOT NULL, number INTEGER NOT NULL, at REAL NOT NULL, episode TEXT NOT NULL,
    t INTEGER NOT NULL, kind TEXT NOT NULL, detail TEXT NOT NULL,
    PRIMARY KEY (task, number), UNIQUE (task, episode, t, kind, detail)) WITHOUT ROWID;
"""


def check_version(store: str, version: int) -> None:
    """Raise if the tables of a store have another version."""
    if version != VERSION:
        raise StoreError(
            f"{store} has tables of version {version}, and this version of ucfh reads version "
            f"{VERSION}. Fix: export its log with the version of ucfh that made it (`ucfh task "
            "export`), and import that into a new store (`ucfh task import`)"
        )


def create_tables(run: Callable[[str], object]) -> None:
    """Create all tables; in a transaction."""
    for statement in TABLES.split(";"):
        if statement.strip():
            run(statement)
