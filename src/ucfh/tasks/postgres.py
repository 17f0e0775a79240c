"""A store of tasks in a PostgreSQL database, which several machines share.

    write   lock the task, read where it stands and what the call needs; write; commit
    read    whatever is committed

A transaction is sent in few parts: statements whose answers nobody waits for travel with the next
one (pipeline mode). Of those that write to one task there is one at a time (an advisory lock, which
ends with the transaction, also if a process dies). Nothing is kept in a session beyond a
transaction, so a pooler may stand in between.

A connection that is lost is made again, for some seconds, and the call with it. Perhaps it was
written already, and only the answer was lost: then it finds what it did.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from threading import Lock, get_ident
from time import monotonic, sleep
from typing import TYPE_CHECKING, Any

from ucfh.tasks import postgres_schema
from ucfh.tasks.postgres_schema import (
    connect,
    explain,
    explained,
    is_lost,
    masked,
    prepare,
    translated,
)
from ucfh.tasks.sql_reading import SqlReading, SqlRow
from ucfh.tasks.sql_transaction import HEAD, SqlTransaction
from ucfh.tasks.store import T, Transaction

if TYPE_CHECKING:
    from ucfh.tasks.postgres_schema import Connection

WRITERS, READERS = 4, 4
"""Connections at most; they are made when they are needed."""
PAUSE, LONGEST_PAUSE = 0.05, 1.0
"""Seconds between two attempts, from the first to the last ones."""
IDLE = 30.0
"""Seconds after which the database ends a transaction whose process is silent, and its lock."""
BEGIN = "BEGIN ISOLATION LEVEL READ COMMITTED READ WRITE"
LOCK = """SELECT set_config('lock_timeout', $3, true),
    set_config('idle_in_transaction_session_timeout', $4, true),
    CASE current_setting('synchronous_commit') WHEN 'off'
        THEN set_config('synchronous_commit', 'on', true) END,
    pg_advisory_xact_lock($1::int4, $2::int4)"""


class SharedConnection:
    """A connection that one thread uses at a time.

    Attributes:
        lock: held while it is used.

    """

    def __init__(self, address: str) -> None:
        self.lock, self._address = Lock(), address
        self.connection: Connection | None = None

    def connected(self) -> Connection:
        """The connection, made if there is none."""
        if self.connection is None:
            self.connection = connect(self._address)
        return self.connection

    def drop(self) -> None:
        """Close it; what was not committed is taken back."""
        connection, self.connection = self.connection, None
        if connection is not None:
            connection.close()


class PostgresStore(SqlReading):
    """A store in a database; see `TaskStore`.

    Args:
        address: of the database, such as postgresql://user@host/name.
        create: whether to make the tables if they are not there.

    """

    def __init__(self, address: str, create: bool = False) -> None:
        self.name, self._address = masked(address), address
        self._process, self._closed = os.getpid(), False
        self._writers = [SharedConnection(address) for _ in range(WRITERS)]
        self._readers = [SharedConnection(address) for _ in range(READERS)]
        with explained(address):
            first = self._readers[0]
            try:
                self._key = prepare(first.connected(), self.name, create)
            except BaseException:
                first.drop()
                raise

    def transact(self, task: int, call: Callable[[Transaction], T]) -> T:
        """Make a call in a transaction on a task, which is written at its end, or not at all."""

        def work(connection: Connection) -> T:
            with connection.pipeline():
                send = connection.execute
                send(BEGIN)
                wait = f"{postgres_schema.PATIENCE}s", f"{IDLE}s"
                send(LOCK, (self._key, task, *wait))
                head = send(translated(HEAD), (task,))
                tx = SqlTransaction(
                    lambda query, given: send(translated(query), given),
                    task,
                    head.fetchall,
                    self.name,
                )
                answer = call(tx)
                tx.flush()
                send("COMMIT")
            return answer

        return self._persist(self._writers[task % WRITERS], work)

    def query(self, query: str, given: Sequence[Any] = ()) -> list[SqlRow]:
        """Read all rows that a query finds."""
        text, own = translated(query), self._readers[get_ident() % READERS]
        line = next((line for line in self._readers if not line.lock.locked()), own)
        return self._persist(line, lambda connection: connection.execute(text, given).fetchall())

    def _persist(self, line: SharedConnection, work: Callable[[Connection], T]) -> T:
        """Do something with a connection; if that is lost, again with another one, for a while.

        Whatever else ends it in the middle, the connection is closed.
        """
        import psycopg

        pause, until = PAUSE, monotonic() + postgres_schema.PATIENCE
        self.check_open()
        while True:
            try:
                with line.lock:
                    self.check_open()
                    done = False
                    try:
                        answer = work(line.connected())
                        done = True
                        return answer
                    finally:
                        if not done:
                            line.drop()
            except psycopg.Error as error:
                if not is_lost(error) or monotonic() + pause > until:
                    raise explain(self._address, error) from error
            sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    def damage(self) -> list[str]:
        """Nothing: what PostgreSQL finds damaged, it refuses to read."""
        return []

    def close(self) -> None:
        """Let go of the database, after calls of other threads."""
        if self._closed or self._process != os.getpid():
            return
        self._closed = True
        for line in (*self._writers, *self._readers):
            with line.lock:
                line.drop()
