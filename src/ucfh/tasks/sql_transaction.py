"""Transactions of a store in SQL.

The statements are common to SQLite and PostgreSQL; see `ucfh.tasks.sql_reading`. Writes are
buffered until the next read or the commit: so a rejected call has mostly nothing to roll back, and
a remote database gets many statements at a time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from math import nan
from typing import Any, NamedTuple

from ucfh.tasks.errors import ErrorRecord, TaskError, decoding
from ucfh.tasks.records import (
    DECISION,
    LONGEST_LEASE,
    DecisionRecord,
    LastEvent,
    OutcomeRecord,
    Report,
    StateRecord,
    StoredPolicy,
    WarmStart,
)
from ucfh.tasks.sql_reading import (
    LEASE,
    PLANS,
    POLICY,
    STATES,
    TASK,
    WARM_STARTS,
    SqlRow,
    pack_table,
    policy_of,
    states_of,
    with_checksum,
)
from ucfh.tasks.store import T, Transaction

HEAD = """SELECT clock(),
    (SELECT seq FROM events WHERE task=?1 ORDER BY seq DESC LIMIT 1),
    (SELECT id FROM episodes WHERE task=?1 ORDER BY id DESC LIMIT 1),
    (SELECT number FROM plans WHERE task=?1 ORDER BY number DESC LIMIT 1),
    (SELECT known FROM plans WHERE task=?1 ORDER BY number DESC LIMIT 1)"""
LAST = """SELECT episode, kind, t, state, action, policy, at, note FROM events
    WHERE task=?1 AND episode=(SELECT id FROM episodes WHERE task=?1 AND name=?2)
    ORDER BY t DESC, kind DESC LIMIT 1"""
STEP = """SELECT seq, kind, state, action, policy, reward, note FROM events
    WHERE task=?1 AND episode=?2 AND t=?3 ORDER BY episode, t, kind"""
"""The ORDER BY makes SQLite use the index of episodes."""
RETURN = "SELECT sum(reward) FROM events WHERE task=?1 AND episode=?2 AND t>=0 AND kind=1"
"""The condition t>=0 always holds, and makes SQLite use the index of episodes."""
OVERDUE = """SELECT w.episode, e.name, w.t FROM waiting w
    JOIN episodes e ON e.task=w.task AND e.id=w.episode
    WHERE w.task=?1 AND w.deadline<=?2 ORDER BY w.seq"""
NEXT_TASK = "SELECT coalesce(max(id), 0) + 1 FROM tasks"
ADD_TASK = "INSERT INTO tasks VALUES (?1, ?2, ?3, ?4)"
BEGIN = "INSERT INTO episodes VALUES (?1, ?2, ?3, ?4, ?5)"
EVENT = "INSERT INTO events VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)"
WAIT = """INSERT INTO waiting VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (task, episode) DO UPDATE
    SET t=excluded.t, kind=excluded.kind, seq=excluded.seq, deadline=excluded.deadline"""
END_WAIT = "DELETE FROM waiting WHERE task=?1 AND episode=?2"
ADD_STATE = "INSERT INTO states VALUES (?1, ?2, ?3, ?4)"
ADD_ERROR = """INSERT INTO faults
    SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6 FROM faults WHERE task=?1
    ON CONFLICT DO NOTHING"""
RENEW = """INSERT INTO leases VALUES (?1, ?2, ?3 + clock()) ON CONFLICT (task) DO UPDATE
    SET holder=excluded.holder, until=excluded.until"""
RELEASE = "DELETE FROM leases WHERE task=?1 AND holder=?2"
ADD_WARM_START = """INSERT INTO beginnings
    SELECT ?1, coalesce(max(id), 0) + 1, ?2, ?3 FROM beginnings WHERE task=?1"""
ADD_PLAN = "INSERT INTO plans VALUES (?1, ?2, ?3, ?4, ?5, ?6)"
ADD_POLICY = """INSERT INTO policies (task, number, width, actions, best, changed)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6)"""
FORGET_POLICIES = """DELETE FROM policies WHERE task=?1 AND number<?2 AND number NOT IN
    (SELECT v.policy FROM waiting w JOIN events v ON v.task=w.task AND v.seq=w.seq
    WHERE w.task=?1 AND w.kind=0)"""
KEEP_SNAPSHOT = """INSERT INTO snapshots VALUES (?1, ?2, ?3) ON CONFLICT (task) DO UPDATE
    SET seq=excluded.seq, blob=excluded.blob"""
REPLACE_REPORT = """INSERT INTO reports VALUES (?1, ?2, ?3, ?4, ?5) ON CONFLICT (task) DO UPDATE
    SET number=excluded.number, seq=excluded.seq, made=excluded.made, content=excluded.content"""
Sending = Callable[[str, Sequence[Any]], Any]
"""Sends a statement with its parameters, and returns a cursor."""


class TaskSnapshot(NamedTuple):
    """The counters of a task at the beginning of a transaction."""

    now: float
    seq: int
    episode: int
    plan: int
    known: int


class SqlTransaction(Transaction):
    """An open transaction; see `Transaction`.

    Args:
        run: sends statements.
        task: the number of the task.
        head: returns the rows of `HEAD`.
        store: the name of the store, for messages.

    """

    def __init__(
        self, run: Sending, task: int, head: Callable[[], list[SqlRow]], store: str
    ) -> None:
        self._run, self._task, self._head, self._store = run, task, head, store
        self._known: TaskSnapshot | None = None
        self._events = self._episodes = 0
        self._queue: list[tuple[str, Sequence[Any]]] = []
        self._trying = self._saved = False

    @property
    def _counters(self) -> TaskSnapshot:
        if self._known is None:
            clock, *numbers = self._head()[0]
            self._known = TaskSnapshot(clock, *(number or 0 for number in numbers))
        return self._known

    @property
    def now(self) -> float:
        """The time of the store; events are ordered by their numbers alone."""
        return self._counters.now

    @property
    def newest(self) -> int:
        """The number of the newest policy, 0 if there is none."""
        return self._counters.plan

    @property
    def newest_known(self) -> int:
        """The number of outcomes behind the newest policy."""
        return self._counters.known

    def _read(self, query: str, given: Sequence[Any]) -> list[SqlRow]:
        self.flush()
        rows: list[SqlRow] = self._run(query, given).fetchall()
        return rows

    def _write(self, query: str, given: Sequence[Any]) -> None:
        self._queue.append((query, given))

    def flush(self) -> None:
        """Send buffered writes."""
        if self._queue:
            if self._trying and not self._saved:
                self._run("SAVEPOINT attempt", ())
                self._saved = True
            for query, given in self._queue:
                self._run(query, given)
            self._queue.clear()

    def attempt(self, call: Callable[[], T]) -> T | TaskError:
        """Make a call in a savepoint."""
        self.flush()
        before = self._events, self._episodes
        self._trying, self._saved = True, False
        try:
            answer: T | TaskError = call()
        except TaskError as fault:
            answer = fault
            self._queue.clear()
            self._events, self._episodes = before
            if self._saved:
                self._run("ROLLBACK TO SAVEPOINT attempt", ())
        if self._saved:
            self._write("RELEASE SAVEPOINT attempt", ())
        self._trying = False
        return answer

    def create(self, name: str, declaration: str, states: Sequence[StateRecord]) -> int:
        """Write a task unless it exists; returns its number."""
        if rows := self._read(TASK, (name,)):
            return int(rows[0][0])
        ((task,),) = self._read(NEXT_TASK, ())
        self._write(ADD_TASK, (task, name, with_checksum(declaration), self.now))
        for number, label, have in states:
            self._write(ADD_STATE, (task, number, label, _dumped(have)))
        return int(task)

    def last(self, name: str) -> LastEvent | None:
        """Return the last event of an episode; None if it has not begun."""
        rows = self._read(LAST, (self._task, name))
        return LastEvent(*rows[0]) if rows else None

    def step(
        self, episode: int, t: int
    ) -> tuple[DecisionRecord | None, OutcomeRecord | None, str | None]:
        """Return the decision and the outcome of a step, and the outcome's note."""
        decision, outcome, note = None, None, None
        for seq, kind, state, action, policy, reward, about in self._read(
            STEP, (self._task, episode, t)
        ):
            if kind == DECISION:
                decision = DecisionRecord(seq, episode, t, state, action, policy, policy)
            else:
                outcome = OutcomeRecord(
                    seq, episode, t, nan if reward is None else reward, state, action
                )
                note = about
        return decision, outcome, note

    def begin(self, name: str, policy: int) -> int:
        """Begin an episode with its first policy; returns its number."""
        self._episodes += 1
        number = self._counters.episode + self._episodes
        self._write(BEGIN, (self._task, number, name, policy, self.now))
        return number

    def decide(
        self, episode: int, t: int, state: int, action: int, policy: int, deadline: float | None
    ) -> None:
        """Write an open decision."""
        self._events += 1
        task, seq = self._task, self._counters.seq + self._events
        self._write(EVENT, (task, seq, 0, episode, t, state, action, policy, None, self.now, None))
        self._write(WAIT, (task, episode, t, 0, seq, deadline))

    def tell(
        self,
        episode: int,
        t: int,
        following: int,
        reward: float | None,
        note: str | None,
        taken: int | None = None,
    ) -> None:
        """Write the outcome of an open decision."""
        self._events += 1
        seq = self._counters.seq + self._events
        self._write(
            EVENT,
            (self._task, seq, 1, episode, t, following, taken, None, reward, self.now, note),
        )

    def return_so_far(self, episode: int) -> float:
        """Return the sum of the rewards of an episode so far."""
        ((total,),) = self._read(RETURN, (self._task, episode))
        return float(total or 0.0)

    def end(self, episode: int) -> None:
        """Mark an episode as over."""
        self._write(END_WAIT, (self._task, episode))

    def pause(self, episode: int, t: int) -> None:
        """Mark an episode as ongoing without an open decision."""
        self._write(WAIT, (self._task, episode, t, 1, self._counters.seq + self._events, None))

    def overdue(self) -> list[tuple[int, str, int]]:
        """Return overdue decisions: number and name of the episode, and step."""
        rows = self._read(OVERDUE, (self._task, self.now))
        return [(episode, str(name), t) for episode, name, t in rows]

    def states(self, after: int) -> list[StateRecord]:
        """Return states with numbers above ``after``."""
        rows = self._read(STATES, (self._task, after))
        with decoding(self._store):
            return states_of(rows, after)

    def add_state(self, record: StateRecord) -> None:
        """Write a new state."""
        number, label, have = record
        self._write(ADD_STATE, (self._task, number, label, _dumped(have)))

    def policy(self, number: int) -> StoredPolicy | None:
        """Return a policy that is still stored."""
        rows = self._read(POLICY, (self._task, number))
        with decoding(self._store):
            return policy_of(rows)

    def add_error(self, evidence: ErrorRecord) -> None:
        """Write an error record unless it exists."""
        kind, episode, t, said = evidence
        detail = json.dumps(said, sort_keys=True, default=str, ensure_ascii=False)
        self._write(ADD_ERROR, (self._task, self.now, episode, t, kind, detail))

    def renew_lease(self, holder: str, seconds: float) -> str | None:
        """Take or renew the lease; returns another holder if there is one."""
        for other, left in self._read(LEASE, (self._task,)):
            if other != holder and 0 < left <= LONGEST_LEASE:
                return str(other)
        self._write(RENEW, (self._task, holder, seconds))
        return None

    def release_lease(self, holder: str) -> None:
        """Release the lease."""
        self._write(RELEASE, (self._task, holder))

    def add_warm_start(self, warm_start: WarmStart) -> None:
        """Write a warm start unless it exists."""
        given = warm_start.sentence, with_checksum(json.dumps(warm_start.prior, ensure_ascii=False))
        if given not in self._read(WARM_STARTS, (self._task,)):
            self._write(ADD_WARM_START, (self._task, *given))

    def publish(self, policy: StoredPolicy, seq: int, snapshot: bytes | None) -> None:
        """Write a plan with its policy and a snapshot; remove unused old policies."""
        task, (number, made, known, episodes, actions, best, changed, summary) = self._task, policy
        if number == self.newest:
            (found,) = self._read(PLANS, (task, number - 1))
            if found[:4] == (number, made, known, episodes):
                return  # the transaction is made again
        self._write(
            ADD_PLAN, (task, number, made, known, episodes, with_checksum(json.dumps(summary)))
        )
        tables = map(pack_table, (actions, best, changed))
        self._write(ADD_POLICY, (task, number, actions.shape[1], *tables))
        self._write(FORGET_POLICIES, (task, number))
        if snapshot is not None:
            self._write(KEEP_SNAPSHOT, (task, seq, snapshot))

    def replace_report(self, report: Report) -> None:
        """Replace the last report."""
        number, seq, made, content = report
        self._write(
            REPLACE_REPORT, (self._task, number, seq, made, with_checksum(json.dumps(content)))
        )


def _dumped(actions: tuple[int, ...] | None) -> str | None:
    return None if actions is None else json.dumps(actions)
