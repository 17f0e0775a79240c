"""The tables of a store, in any database, and their versions.

A new store is made by the same numbered migrations that bring an old one up to date, so there is
one way to the present schema. They are written as SQLite reads them; `ucfh.tasks.postgres_schema`
has the words of PostgreSQL.
"""

from __future__ import annotations

from collections.abc import Callable

from ucfh.tasks.errors import StoreError

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
    """
    CREATE TABLE plans (
        task INTEGER NOT NULL, number INTEGER NOT NULL, made REAL NOT NULL, known INTEGER NOT NULL,
        episodes INTEGER NOT NULL, summary TEXT NOT NULL,
        PRIMARY KEY (task, number)) WITHOUT ROWID;
    INSERT INTO plans SELECT task, number, made, known, episodes, summary FROM policies;
    ALTER TABLE policies DROP COLUMN made;
    ALTER TABLE policies DROP COLUMN known;
    ALTER TABLE policies DROP COLUMN episodes;
    ALTER TABLE policies DROP COLUMN summary;
    ALTER TABLE policies ADD COLUMN best BLOB;
    ALTER TABLE policies ADD COLUMN changed BLOB;
    CREATE TABLE reports (
        task INTEGER PRIMARY KEY, number INTEGER NOT NULL, seq INTEGER NOT NULL, made REAL NOT NULL,
        content TEXT NOT NULL);
    ALTER TABLE beginnings RENAME TO earlier_beginnings;
    CREATE TABLE beginnings (
        task INTEGER NOT NULL, id INTEGER NOT NULL, sentence TEXT NOT NULL, prior TEXT NOT NULL,
        PRIMARY KEY (task, id)) WITHOUT ROWID;
    INSERT INTO beginnings SELECT task, id, sentence, prior FROM earlier_beginnings;
    DROP TABLE earlier_beginnings;
    CREATE INDEX deadlines ON waiting (task, deadline) WHERE deadline IS NOT NULL;
    CREATE INDEX oldest ON waiting (task, seq);
    """,
)
"""What makes each version of the schema of the one before; the first is made of nothing."""


def check_version(store: str, version: int) -> None:
    """Raise if a store has another version of the schema than this one."""
    here = len(MIGRATIONS)
    if version > here:
        raise StoreError(
            f"{store} was made by a newer ucfh (schema {version}, here {here}): install that "
            "version"
        )
    if version < here:
        raise StoreError(
            f"{store} was made by an older ucfh (schema {version}, now {here}): run "
            f"`ucfh task upgrade {store}`"
        )


def migrate(version: int, run: Callable[[str], object]) -> None:
    """Bring a schema up to date, from a version on; in a transaction."""
    for migration in MIGRATIONS[version:]:
        for statement in migration.split(";"):
            if statement.strip():
                run(statement)
