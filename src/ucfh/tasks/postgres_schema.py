"""Requirements of a store in PostgreSQL: connections, versions, and errors in one line.

The tables live in the first schema of the user's search path, beside one of their own version,
``ucfh_schema``. Where that is not there, nothing of these names may be.
"""

from __future__ import annotations

import logging
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from ucfh.tasks.errors import StoreBusy, StoreError, StoreFull, TaskError
from ucfh.tasks.sql_schema import TABLES, VERSION, check_version, create_tables

if TYPE_CHECKING:
    import psycopg

    Connection = psycopg.Connection[tuple[Any, ...]]

SCHEMES = ("postgresql://", "postgres://")
NEARLY = re.compile(
    r"\s*postgres(ql)?\s*[+:]|.*\b\w*password\s*=|\s*(host|hostaddr|dbname|user|service)\s*=",
    re.DOTALL | re.IGNORECASE,
)
"""Addresses in other forms than ours, which may hold a password and are no names of files."""
IN_HOST = re.compile(r"(:/*[^:@/?]*:)(.*)(?=@)", re.DOTALL)
PARAMETERS = (
    "host|hostaddr|port|dbname|user|passfile|service|options|application_name|client_encoding|"
    "connect_timeout|target_session_attrs|channel_binding|require_auth|"
    r"ssl\w*|gss\w*|krb\w*|keepalives\w*|tcp_\w*"
)
"""libpq's parameters; anything else after a password is taken for a part of it."""
IN_QUERY = re.compile(rf"([?&][\w%]+=)(?=(.*?)(?:&(?:{PARAMETERS})=|$))", re.DOTALL)
IN_WORDS = re.compile(
    r"(\w*password\s*=\s*)('(?:[^'\\]|\\.)*'?|[^\s&]+)", re.DOTALL | re.IGNORECASE
)
"""Where an address may have passwords."""
PATIENCE = 10.0
"""Seconds for which to wait for others, or for a database that is started again."""
SETTINGS: dict[str, Any] = {
    "application_name": "ucfh",
    "client_encoding": "UTF8",
    "connect_timeout": 5,  # seconds, as are those of keepalives
    "tcp_user_timeout": 10_000,  # milliseconds
    "keepalives_idle": 10,
    "keepalives_interval": 3,
    "keepalives_count": 3,
}
"""Of a connection, unless its address has others: a server that is gone is noticed soon."""
WORDS = (
    (r"\?(\d+)", r"$\1"),
    (r"\bclock\(\)", "extract(epoch FROM clock_timestamp())::float8"),
    (r" INDEXED BY \w+", ""),
    (r" WITHOUT ROWID", ""),
    (r"\bINTEGER\b", "BIGINT"),
    (r"\bREAL\b", "DOUBLE PRECISION"),
    (r"\bBLOB\b", "BYTEA"),
)
"""What PostgreSQL writes otherwise than SQLite."""
NAMES = sorted(set(re.findall(r"CREATE (?:TABLE|INDEX) (\w+)", TABLES)))
FIND = """SELECT coalesce(k.nspname, current_schema()), k.nspname IS NOT NULL, array(
    SELECT c.relname::text FROM unnest($1::text[]) x JOIN pg_class c ON c.oid=to_regclass(x)
    JOIN pg_namespace n ON n.oid=c.relnamespace
    WHERE (n.nspname=coalesce(k.nspname, current_schema())) != (k.nspname IS NOT NULL))
    FROM (SELECT 1) one
    LEFT JOIN (pg_class m JOIN pg_namespace k ON k.oid=m.relnamespace)
    ON m.oid=to_regclass('ucfh_schema')"""
"""The schema of our tables, whether they are there, and tables of others that are in their way."""
HOME = """SELECT
    set_config('search_path', quote_ident($1) || ',' || current_setting('search_path'), true)"""
"""Lets new tables go where the others are, until the transaction ends."""
WITH_TASKS = """SELECT table_name FROM information_schema.columns
    WHERE table_schema=current_schema() AND column_name='task' AND table_name=ANY($1)"""
"""Tables with rows of many tasks. From what it knows of older tasks, PostgreSQL would conclude that
a new one has no rows, and look through all of them for one: so it must not know anything."""
AGAIN = {"40001", "40P01", "57P01", "57P02", "57P03", "25P03", "53300"}
"""Codes of what passes: a restart, a deadlock, too many connections."""
BUSY = {"55P03", "57014"}
"""Codes of having waited too long."""


def is_address(store: object) -> bool:
    """Return whether a store is the address of a PostgreSQL database; raise if it is nearly one."""
    if not isinstance(store, str):
        return False
    if not store.startswith(SCHEMES) and NEARLY.match(store):
        raise StoreError(
            f"{masked(store)} is not the address of a PostgreSQL database. Fix: write it as "
            "postgresql://user@host/name"
        )
    return store.startswith(SCHEMES)


@lru_cache(maxsize=256)
def translated(query: str) -> str:
    """A statement of ours as PostgreSQL reads it."""
    for ours, theirs in WORDS:
        query = re.sub(ours, theirs, query)
    return query


def masked(address: str) -> str:
    """An address without its password."""
    shown, end = "", 0
    for first, last in sorted(match.span(2) for match in _passwords(address)):
        if first >= end:
            shown += f"{address[end:first]}***"
        end = max(end, last)
    return shown + address[end:]


def _passwords(address: str) -> list[re.Match[str]]:
    """Return the matches of passwords in an address: the name of each, and the password."""
    found = [*IN_HOST.finditer(address), *IN_QUERY.finditer(address), *IN_WORDS.finditer(address)]
    return [x for x in found if x.re is not IN_QUERY or "password" in unquote(x[1]).lower()]


def secrets(address: str) -> list[str]:
    """Return the secrets of an address: its passwords and their parts, also decoded or escaped."""
    found = [match[2] for match in _passwords(address)]
    parts = {part for text in found for part in (text, *re.split("[@/:?&=#]", text))}
    forms = {form for x in parts for form in (x, unquote(x), repr(x)[1:-1], repr(unquote(x))[1:-1])}
    return sorted(forms - {""}, key=len, reverse=True)


def connect(address: str) -> Connection:
    """A connection whose transactions are begun and ended by hand."""
    try:
        import psycopg
    except ImportError:
        raise StoreError(
            f'{masked(address)} needs a driver of PostgreSQL: pip install "psycopg[binary]"'
        ) from None
    logging.getLogger("psycopg").addFilter(_is_news)
    return psycopg.connect(
        address,
        autocommit=True,
        prepare_threshold=None,  # a pooler may give each transaction another session
        cursor_factory=psycopg.RawCursor,
        **{name: value for name, value in SETTINGS.items() if f"{name}=" not in address},
    )


def _is_news(record: logging.LogRecord) -> bool:
    """Return False for lines of the driver's log on a lost connection that is already handled."""
    return not str(record.msg).startswith("error ignored terminating")


@contextmanager
def explained(address: str) -> Iterator[None]:
    """Turn errors of PostgreSQL into ours, in one line."""
    try:
        yield
    except TaskError:
        raise
    except Exception as error:
        import psycopg

        if not isinstance(error, psycopg.Error):
            raise
        raise explain(address, error) from error


def explain(address: str, error: psycopg.Error) -> TaskError:
    """Return the error of a store that corresponds to an error of PostgreSQL."""
    store, code = masked(address), error.sqlstate or ""
    said = " ".join((error.diag.message_primary or str(error)).split())
    for secret in secrets(address):
        said = said.replace(secret, "***")
    if code == "53100":
        return StoreFull(
            f"{store}: the disk is full, and nothing was written: free some room and call again"
        )
    if code in BUSY:
        return StoreBusy(f"{store} is locked by others: try again, or end them ({said})")
    if is_lost(error):
        return StoreBusy(
            f"{store} cannot be reached ({said}): check address, user and password, start the "
            "database, and call again"
        )
    if code in ("25006", "42501"):
        return StoreError(f"{store} cannot be written ({said}): use a role and a server that may")
    if code in ("42P01", "42703"):
        return StoreError(f"{store} is not as it was ({said}): open the task again")
    return StoreError(f"{store} cannot be used ({said}): check the address and the database")


def is_lost(error: psycopg.Error) -> bool:
    """Return whether a connection was lost, or another error is transient."""
    import psycopg

    if error.sqlstate is None:
        return isinstance(error, psycopg.OperationalError | psycopg.InterfaceError)
    return error.sqlstate in AGAIN or error.sqlstate.startswith("08")


def prepare(connection: Connection, store: str, create: bool) -> int:
    """Make the tables where there are none, or check those that are there; the key of their locks.

    Locks belong to a database. So that stores in several schemas do not wait for each other, a
    schema has its own.
    """
    version, schema = read_version(connection, store)
    if version == 0 and not create:
        raise StoreError(
            f"{store} has no tables of tasks: check the address, or create a task with "
            "`ucfh task create` or, in Python, with actions, horizon and epsilon"
        )
    if version == 0:
        _create_tables(connection, store)
    else:
        check_version(store, version)
    return _key(schema)


def read_version(connection: Connection, store: str) -> tuple[int, str]:
    """The version of the tables, 0 if there are none, and the schema that they are, or will be in.

    Raises if tables of others are in their way.
    """
    ((schema, found, others),) = connection.execute(FIND, (NAMES,)).fetchall()
    if others:
        raise StoreError(
            f"{store} has tables of another program ({', '.join(others)}): use another database, "
            "or a schema of its own"
        )
    if schema is None:
        raise StoreError(f"{store} has no schema in its search_path: create one")
    rows = connection.execute("SELECT version FROM ucfh_schema").fetchall() if found else []
    return (int(rows[0][0]) if rows else 0), str(schema)


def _key(schema: str) -> int:
    return zlib.crc32(schema.encode()) - 2**31


def _create_tables(connection: Connection, store: str) -> None:
    """Create all tables, or none, unless another process does."""
    with connection.transaction():
        _, schema = read_version(connection, store)
        connection.execute(HOME, (schema,))
        connection.execute("SELECT pg_advisory_xact_lock($1::int4, -1)", (_key(schema),))
        version, _ = read_version(connection, store)
        if version != 0:
            check_version(store, version)
            return
        connection.execute("CREATE TABLE ucfh_schema (version BIGINT NOT NULL)")
        connection.execute("INSERT INTO ucfh_schema VALUES ($1)", (VERSION,))
        create_tables(lambda statement: connection.execute(translated(statement)))
        for (table,) in connection.execute(WITH_TASKS, (NAMES,)).fetchall():
            connection.execute(f"ALTER TABLE {table} ALTER COLUMN task SET STATISTICS 0")
