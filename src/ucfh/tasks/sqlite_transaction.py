"""One transaction of a store in SQLite: what is written, and what has to be read for that."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from math import nan

import numpy as np

from ucfh.tasks.faults import Evidence
from ucfh.tasks.sqlite_reading import read_policy, read_states
from ucfh.tasks.store import (
    DECISION,
    LONGEST_LEASE,
    Beginning,
    Decided,
    LastEvent,
    StateRecord,
    StoredPolicy,
    Told,
    Transaction,
)

HEAD = """SELECT
    (SELECT seq FROM events WHERE task=?1 ORDER BY seq DESC LIMIT 1),
    (SELECT at FROM events WHERE task=?1 ORDER BY seq DESC LIMIT 1), p.number, p.known
    FROM (SELECT 1) LEFT JOIN policies p ON p.task=?1
    ORDER BY p.number DESC LIMIT 1"""
LAST = """SELECT e.id, v.kind, v.t, v.state, v.action, v.policy, v.at, v.note
    FROM episodes e JOIN events v ON v.task=e.task AND v.episode=e.id
    WHERE e.task=? AND e.name=? ORDER BY v.t DESC, v.kind DESC LIMIT 1"""
INSERT_EVENT = "INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?,?,?)"


class SqliteTransaction(Transaction):
    """A transaction of the connection that writes; see `Transaction`."""

    def __init__(self, connection: sqlite3.Connection, task: int) -> None:
        self._connection, self._task, self._run = connection, task, connection.execute
        seq, at, newest, known = self._run(HEAD, (task,)).fetchone()
        self._seq, self.newest, self.newest_known = seq or 0, newest or 0, known or 0
        self.now = max(time.time(), at or 0.0)

    def last(self, name: str) -> LastEvent | None:
        """An episode by its name; None if it has not begun."""
        row = self._run(LAST, (self._task, name)).fetchone()
        return None if row is None else LastEvent(*row)

    def step(self, episode: int, t: int) -> tuple[Decided | None, Told | None, str | None]:
        """The decision and the outcome of a step, and the outcome's note."""
        decided, told, note = None, None, None
        for seq, kind, state, action, policy, reward, about in self._run(
            "SELECT seq, kind, state, action, policy, reward, note FROM events "
            "WHERE task=? AND episode=? AND t=?",
            (self._task, episode, t),
        ).fetchall():
            if kind == DECISION:
                decided = Decided(seq, episode, t, state, action, policy, policy)
            else:
                told = Told(seq, episode, t, nan if reward is None else reward, state)
                note = about
        return decided, told, note

    def begin(self, name: str, policy: int) -> int:
        """Begin an episode with a first policy; its number."""
        (number,) = self._run(
            "INSERT INTO episodes SELECT ?1, coalesce(max(id), 0) + 1, ?2, ?3, ?4 FROM episodes "
            "WHERE task=?1 RETURNING id",
            (self._task, name, policy, self.now),
        ).fetchone()
        return int(number)

    def decide(
        self, episode: int, t: int, state: int, action: int, policy: int, deadline: float | None
    ) -> None:
        """Write a decision, which is open from now on."""
        self._seq += 1
        task, seq = self._task, self._seq
        self._run(
            INSERT_EVENT, (task, seq, 0, episode, t, state, action, policy, None, self.now, None)
        )
        self._run("REPLACE INTO waiting VALUES (?,?,?,0,?,?)", (task, episode, t, seq, deadline))

    def tell(
        self, episode: int, t: int, following: int, reward: float | None, note: str | None
    ) -> None:
        """Write the outcome of an open decision."""
        self._seq += 1
        self._run(
            INSERT_EVENT,
            (self._task, self._seq, 1, episode, t, following, None, None, reward, self.now, note),
        )

    def end(self, episode: int) -> None:
        """Note that an episode is over."""
        self._run("DELETE FROM waiting WHERE task=? AND episode=?", (self._task, episode))

    def pause(self, episode: int, t: int) -> None:
        """Note that an episode goes on, and nothing is decided yet."""
        self._run(
            "REPLACE INTO waiting VALUES (?,?,?,1,?,NULL)", (self._task, episode, t, self._seq)
        )

    def overdue(self) -> list[tuple[int, int]]:
        """Open decisions whose deadline has passed: the numbers of their episodes, and steps."""
        return self._run(
            "SELECT episode, t FROM waiting WHERE task=? AND deadline<=? ORDER BY seq",
            (self._task, self.now),
        ).fetchall()

    def states(self, after: int) -> list[StateRecord]:
        """States with numbers above ``after``."""
        return read_states(self._connection, self._task, after)

    def add_state(self, record: StateRecord) -> None:
        """Write a new state."""
        number, label, have = record
        text = None if have is None else json.dumps(have)
        self._run("INSERT INTO states VALUES (?,?,?,?)", (self._task, number, label, text))

    def policy(self, number: int) -> StoredPolicy | None:
        """A policy that is still needed."""
        return read_policy(self._connection, self._task, number)

    def keep_fault(self, evidence: Evidence) -> None:
        """Write a fault, unless the same one is there."""
        detail = json.dumps(evidence.detail, sort_keys=True, default=str, ensure_ascii=False)
        self._run(
            "INSERT OR IGNORE INTO faults SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, "
            "?6 FROM faults WHERE task=?1",
            (self._task, self.now, evidence.episode, evidence.t, evidence.kind, detail),
        )

    def renew_lease(self, holder: str, seconds: float) -> str | None:
        """Take or renew the right to plan; who else has it, or None if it is had now."""
        now = time.time()
        row = self._run("SELECT holder, until FROM leases WHERE task=?", (self._task,)).fetchone()
        if row is not None and row[0] != holder and now < row[1] <= now + LONGEST_LEASE:
            return str(row[0])
        self._run("REPLACE INTO leases VALUES (?,?,?)", (self._task, holder, now + seconds))
        return None

    def release_lease(self, holder: str) -> None:
        """Give the right to plan back."""
        self._run("DELETE FROM leases WHERE task=? AND holder=?", (self._task, holder))

    def add_beginning(self, beginning: Beginning) -> None:
        """Write what the task begins with."""
        self._run(
            "INSERT INTO beginnings(task, sentence, prior) VALUES (?,?,?)",
            (self._task, beginning.sentence, json.dumps(beginning.prior, ensure_ascii=False)),
        )

    def publish(self, policy: StoredPolicy, seq: int, snapshot: bytes | None) -> None:
        """Write a policy and a learner; remove old policies that are not needed."""
        task, actions = self._task, np.ascontiguousarray(policy.actions, np.int32)
        self._run(
            "INSERT INTO policies VALUES (?,?,?,?,?,?,?,?)",
            (
                task, policy.number, policy.made, policy.known, policy.episodes,
                zlib.compress(actions.tobytes(), 1), actions.shape[1], json.dumps(policy.summary),
            ),
        )  # fmt: skip
        self._run(
            "DELETE FROM policies WHERE task=?1 AND number<?2 AND number NOT IN (SELECT v.policy "
            "FROM waiting w JOIN events v ON v.task=w.task AND v.seq=w.seq "
            "WHERE w.task=?1 AND w.kind=0)",
            (task, policy.number),
        )
        if snapshot is not None:
            self._run("REPLACE INTO snapshots VALUES (?,?,?)", (task, seq, snapshot))
