"""What is read from a store: the queries, and the records that they make.

The queries are those that SQLite and PostgreSQL both understand. They are written as SQLite reads
them: parameters have numbers, ?1, ?2; ``INDEXED BY`` names an index that SQLite would not find, and
CROSS JOIN keeps it from looking at the second table first. ``clock()`` is the time of the database.
"""

from __future__ import annotations

import json
import os
import zlib
from abc import abstractmethod
from collections.abc import Sequence
from math import nan
from typing import Any

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.tasks.errors import ErrorRecord, StoreError, damaged, decoding
from ucfh.tasks.records import (
    AHEAD,
    DECISION,
    DecisionRecord,
    OutcomeRecord,
    PlanRecord,
    Report,
    StateRecord,
    StepRecord,
    StoreCounts,
    StoredPolicy,
    TaskProgress,
    WarmStart,
)
from ucfh.tasks.store import TaskStore

SqlRow = tuple[Any, ...]
TASKS = "SELECT name FROM tasks ORDER BY id"
TASK = "SELECT id, declaration FROM tasks WHERE name=?1"
STATES = "SELECT number, label, actions FROM states WHERE task=?1 AND number>?2 ORDER BY number"
LAST_SEQ = "SELECT coalesce(max(seq), 0) FROM events WHERE task=?1"
NEWEST = "SELECT coalesce(max(number), 0) FROM plans WHERE task=?1"
BEGINNINGS = "SELECT sentence, prior FROM beginnings WHERE task=?1 ORDER BY id"
SNAPSHOT = "SELECT seq, blob FROM snapshots WHERE task=?1"
PLANS = """SELECT number, made, known, episodes, summary FROM plans
    WHERE task=?1 AND number>?2 ORDER BY number"""
POLICY = """SELECT p.number, n.made, n.known, n.episodes, n.summary, p.width, p.actions, p.best,
    p.changed FROM policies p JOIN plans n ON n.task=p.task AND n.number=p.number
    WHERE p.task=?1 AND p.number=?2"""
NEWEST_POLICY = POLICY.replace("?2", "(SELECT max(number) FROM plans WHERE task=?1)")
REPORT = "SELECT number, seq, made, content FROM reports WHERE task=?1"
FAULTS = "SELECT at, kind, episode, t, detail FROM faults WHERE task=?1 ORDER BY number DESC"
LEASE = "SELECT holder, until - clock() FROM leases WHERE task=?1"
EVENTS = """SELECT v.seq, v.kind, v.episode, v.t, v.state, v.action, v.policy, v.reward,
    CASE WHEN v.t=0 AND v.kind=0
        THEN (SELECT e.policy FROM episodes e WHERE e.task=v.task AND e.id=v.episode) END
    FROM events v WHERE v.task=?1 AND v.seq>?2 AND v.seq<=?2 + ?3 ORDER BY v.seq"""
STEPS = """SELECT e.name, d.seq, d.t, d.state, d.action, d.policy, d.at, o.state, o.reward, o.at,
    o.note, w.deadline, o.action
    FROM {source}
    JOIN episodes e ON e.task=d.task AND e.id=d.episode
    LEFT JOIN events o ON o.task=d.task AND o.episode=d.episode AND o.t=d.t AND o.kind=1
    LEFT JOIN waiting w ON w.task=d.task AND w.episode=d.episode AND w.kind=0 AND w.seq=d.seq
    WHERE d.task=?1 AND d.kind=0 AND {where} ORDER BY {order}"""
SOURCES = {
    "open": ("waiting x CROSS JOIN events d", "d.task=x.task AND d.seq=x.seq"),
    "lost": (
        "events x INDEXED BY lost CROSS JOIN events d",
        "d.task=x.task AND d.episode=x.episode AND d.t=x.t AND x.kind=1 AND x.state=-1",
    ),
}
"""Where to look for decisions of a status, and how, if there are much fewer than others."""
EVERYWHERE = ("events d", "d.kind=0")
OF_EPISODE = ("episodes x CROSS JOIN events d", "d.task=x.task AND d.episode=x.id AND x.name=?2")
WHERE = {
    "open": "o.state IS NULL",
    "told": "o.state >= 0",
    "lost": "o.state = -1",
    "all": "d.kind=0",
}
EPISODES = """SELECT e.name, d.seq, d.t, d.state, d.action, d.policy, d.at, o.state, o.reward, o.at,
    o.note, NULL, o.action
    FROM events d
    JOIN episodes e ON e.task=d.task AND e.id=d.episode
    LEFT JOIN events o
    ON o.task=d.task AND o.episode=d.episode AND o.t=d.t AND o.kind=1 AND o.seq<=?4
    WHERE d.task=?1 AND d.episode BETWEEN ?2 AND ?3 AND d.kind=0 AND d.seq<=?4
    ORDER BY d.episode, d.t"""
FIGURES = """SELECT (SELECT max(id) FROM episodes WHERE task=?1),
    (SELECT max(seq) FROM events WHERE task=?1),
    (SELECT count(*) FROM waiting WHERE task=?1),
    (SELECT count(*) FROM waiting WHERE task=?1 AND kind=0),
    (SELECT at FROM events
        WHERE task=?1 AND seq=(SELECT min(seq) FROM waiting WHERE task=?1 AND kind=0)),
    (SELECT count(*) FROM events INDEXED BY lost WHERE task=?1 AND kind=1 AND state=-1),
    (SELECT max(number) FROM states WHERE task=?1),
    (SELECT count(*) FROM faults WHERE task=?1),
    (SELECT count(*) FROM faults WHERE task=?1 AND kind='late'),
    (SELECT count(*) FROM
        (SELECT DISTINCT episode, t FROM faults WHERE task=?1 AND kind='outcome') AS twice),
    (SELECT count(*) FROM faults WHERE task=?1 AND kind='outcome'),
    (SELECT at FROM events WHERE task=?1 ORDER BY seq DESC LIMIT 1) - clock()"""
CONTRADICTIONS = """SELECT e.id, f.t, f.detail FROM faults f
    JOIN episodes e ON e.task=f.task AND e.name=f.episode
    WHERE f.task=?1 AND f.kind='outcome' ORDER BY e.id, f.t, f.number"""
HEADS = """SELECT k.id, k.name,
    coalesce((SELECT max(seq) FROM events WHERE task=k.id), 0),
    coalesce((SELECT max(number) FROM plans WHERE task=k.id), 0),
    (SELECT min(deadline) FROM waiting WHERE task=k.id AND deadline IS NOT NULL)
    FROM tasks k ORDER BY k.id"""
CHECKS = {
    "SELECT count(*) FROM (SELECT max(seq) AS last, count(*) AS n FROM events WHERE task=?1) "
    "AS found WHERE last != n": "events are missing: their numbers have gaps",
    "SELECT count(*) FROM events o LEFT JOIN events d ON d.task=o.task AND d.episode=o.episode "
    "AND d.t=o.t AND d.kind=0 AND d.seq<o.seq WHERE o.task=?1 AND o.kind=1 AND d.seq IS NULL": (
        "{} outcomes have no decision before them"
    ),
    "SELECT count(*) FROM events v LEFT JOIN episodes e ON e.task=v.task AND e.id=v.episode "
    "WHERE v.task=?1 AND e.id IS NULL": "{} events are of episodes that never began",
    "SELECT count(*) FROM events v LEFT JOIN states s ON s.task=v.task AND s.number=v.state "
    "WHERE v.task=?1 AND v.state>0 AND s.number IS NULL": "{} events are in unknown states",
    "SELECT count(*) FROM events d LEFT JOIN events o ON o.task=d.task AND o.episode=d.episode "
    "AND o.t=d.t AND o.kind=1 LEFT JOIN waiting w ON w.task=d.task AND w.episode=d.episode "
    "AND w.seq=d.seq AND w.t=d.t AND w.kind=0 WHERE d.task=?1 AND d.kind=0 "
    "AND (o.seq IS NULL) != (w.seq IS NOT NULL)": (
        "{} decisions are listed as open, or not, against what the events say"
    ),
    "SELECT count(*) FROM waiting w LEFT JOIN events v ON v.task=w.task AND v.seq=w.seq "
    "AND v.episode=w.episode AND v.t=w.t AND v.kind=w.kind WHERE w.task=?1 AND v.seq IS NULL": (
        "{} open episodes are listed with events that are not there"
    ),
    "SELECT count(*) FROM waiting w JOIN events v ON v.task=w.task AND v.seq=w.seq "
    f"WHERE w.task=?1 AND w.kind=0 AND v.at > clock() + {AHEAD}": (
        "{} open decisions are dated later than the clock, which jumped: they expire too late. "
        "Fix: set the clock, then tell their outcomes or abandon their episodes"
    ),
    "SELECT count(*) FROM events v WHERE v.task=?1 AND v.seq=(SELECT max(seq) FROM events "
    f"WHERE task=?1) AND v.at > clock() + {AHEAD}": (
        "the last event is dated later than the clock, which jumped. Fix: set the clock"
    ),
}
"""Queries that count what is wrong, and what that is."""


def sealed(text: str) -> str:
    """A text with its checksum in front: digits in it decide what a certificate says."""
    return f"{zlib.crc32(text.encode('utf-8', 'surrogatepass')):08x} {text}"


def unsealed(kept: str) -> str:
    """Return the text that was sealed; raise ValueError if it was changed."""
    if sealed(kept[9:]) != kept:
        raise ValueError("a checksum does not match")
    return kept[9:]


def states_of(rows: Sequence[SqlRow], after: int) -> list[StateRecord]:
    """The states that `STATES` finds after a number; raises unless they are what was written."""
    if [row[0] for row in rows] != list(range(after + 1, after + 1 + len(rows))):
        raise ValueError("a state is missing")
    for _, label, _ in rows:
        json.loads(label)
    return [
        StateRecord(number, label, None if have is None else tuple(json.loads(have)))
        for number, label, have in rows
    ]


def policy_of(rows: Sequence[SqlRow]) -> StoredPolicy | None:
    """The policy that `POLICY` finds, if it does."""
    if not rows:
        return None
    number, made, known, episodes, summary, width, actions, best, changed = rows[0]
    return StoredPolicy(
        number, made, known, episodes, unpack_table(actions, width),
        unpack_table(best, width), unpack_table(changed, width), summary_of(summary),
    )  # fmt: skip


def summary_of(kept: str) -> dict[str, Any]:
    """The bounds of a plan."""
    found: dict[str, Any] = json.loads(unsealed(kept))
    return found


def pack_table(table: Ints) -> bytes:
    """A table of whole numbers in bytes."""
    return zlib.compress(np.ascontiguousarray(table, np.int32).tobytes(), 1)


def unpack_table(blob: bytes, width: int) -> Ints:
    """A table that was packed, with that many columns."""
    return np.frombuffer(zlib.decompress(blob), np.int32).reshape(-1, width).astype(np.int64)


def leave_open(connection: object) -> None:
    """Keep a connection, or what holds it, from ever being closed, also when Python ends.

    Closing a connection of the parent of a forked process, or one whose write-ahead log was
    replaced, may write to files that others use.
    """
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))


class SqlReading(TaskStore):
    """The part of a store that reads; see `TaskStore`."""

    _process: int
    _closed: bool

    def check_open(self) -> None:
        """Raise if it was closed, or opened before this process was forked."""
        if self._process != os.getpid():
            leave_open(self)
            raise StoreError(
                f"{self.name} was opened before this process was forked: open the task again in "
                "each process"
            )
        if self._closed:
            raise StoreError(f"{self.name} was closed: open the task again")

    @abstractmethod
    def query(self, query: str, given: Sequence[Any] = ()) -> list[SqlRow]:
        """Read all rows that a query finds."""

    @abstractmethod
    def damage(self) -> list[str]:
        """What the database itself finds wrong with its files, a line each."""

    def tasks(self) -> list[str]:
        """The names of all tasks, in the order of creation."""
        return [name for (name,) in self.query(TASKS)]

    def find(self, name: str) -> tuple[int, str] | None:
        """The number and the declaration of a task, or None."""
        rows = self.query(TASK, (name,))
        with decoding(self.name):
            return (int(rows[0][0]), unsealed(rows[0][1])) if rows else None

    def events(self, task: int, after: int, limit: int) -> list[DecisionRecord | OutcomeRecord]:
        """Events that follow number ``after``."""
        rows = self.query(EVENTS, (task, after, limit))
        for number, row in enumerate(rows, after + 1):
            if row[0] != number:
                raise damaged(self.name, f"event {number} of task {task} is missing")
        return [
            DecisionRecord(
                seq, episode, t, state, action, policy, policy if first is None else first
            )
            if kind == DECISION
            else OutcomeRecord(seq, episode, t, nan if reward is None else reward, state, action)
            for seq, kind, episode, t, state, action, policy, reward, first in rows
        ]

    def states(self, task: int, after: int) -> list[StateRecord]:
        """States with numbers above ``after``."""
        rows = self.query(STATES, (task, after))
        with decoding(self.name):
            return states_of(rows, after)

    def last_seq(self, task: int) -> int:
        """The number of the last event, 0 if there is none."""
        return int(self.query(LAST_SEQ, (task,))[0][0])

    def newest_number(self, task: int) -> int:
        """The number of the policy that was made last, 0 if there is none."""
        return int(self.query(NEWEST, (task,))[0][0])

    def beginnings(self, task: int) -> list[WarmStart]:
        """What the task was told to begin with."""
        rows = self.query(BEGINNINGS, (task,))
        with decoding(self.name):
            return [WarmStart(sentence, json.loads(unsealed(prior))) for sentence, prior in rows]

    def snapshot(self, task: int) -> tuple[int, bytes] | None:
        """The agent as it was written last, and after which event."""
        rows = self.query(SNAPSHOT, (task,))
        with decoding(self.name):
            return (int(rows[0][0]), bytes(rows[0][1])) if rows else None

    def newest_policy(self, task: int) -> StoredPolicy | None:
        """The policy that was made last."""
        rows = self.query(NEWEST_POLICY, (task,))
        with decoding(self.name):
            return policy_of(rows)

    def plans(self, task: int, after: int) -> list[PlanRecord]:
        """Plans with numbers above ``after``, in their order."""
        rows = self.query(PLANS, (task, after))
        with decoding(self.name):
            return [
                PlanRecord(number, made, known, episodes, summary_of(summary))
                for number, made, known, episodes, summary in rows
            ]

    def report(self, task: int) -> Report | None:
        """The last report."""
        rows = self.query(REPORT, (task,))
        if not rows:
            return None
        number, seq, made, content = rows[0]
        with decoding(self.name):
            return Report(number, seq, made, json.loads(unsealed(content)))

    def heads(self) -> list[TaskProgress]:
        """Where each task stands, in the order of creation."""
        return [TaskProgress(*row) for row in self.query(HEADS)]

    def steps(
        self,
        task: int,
        status: str,
        episode: str | None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[StepRecord]:
        """Steps in the order of their decisions."""
        source, found = SOURCES.get(status, EVERYWHERE) if episode is None else OF_EPISODE
        order = "d.t" if episode is not None else "x.seq" if status == "open" else "d.seq"
        where = f"{found} AND {WHERE[status]} AND {order.replace('d.t', 'd.seq')}>{after:d}"
        most = "" if limit is None else f" LIMIT {limit:d}"
        query = STEPS.format(source=source, where=where, order=order) + most
        given = (task,) if episode is None else (task, episode)
        return [StepRecord(*row) for row in self.query(query, given)]

    def episodes(self, task: int, first: int, last: int, moment: int) -> list[StepRecord]:
        """The steps of episodes, each in order, at a moment."""
        return [StepRecord(*row) for row in self.query(EPISODES, (task, first, last, moment))]

    def figures(self, task: int) -> StoreCounts:
        """How much there is of everything; what is read does not grow with the number of steps."""
        (row,) = self.query(FIGURES, (task,))
        begun, last, open_, waiting, oldest, lost, states, faults, late, *twice, ahead = row
        decisions = ((last or 0) + waiting) // 2  # an outcome each, but for those that wait
        return StoreCounts(
            begun=begun or 0,
            open=open_,
            waiting=waiting,
            oldest=oldest,
            decisions=decisions,
            outcomes=decisions - waiting - lost,
            lost=lost,
            states=states or 0,
            faults=faults,
            late=late,
            conflicts=twice[0],
            contradictions=twice[1],
            ahead=ahead or 0.0,
        )

    def faults(self, task: int, limit: int | None = None) -> list[tuple[float, ErrorRecord]]:
        """What was kept of faults, and when."""
        most = "" if limit is None else f" LIMIT {limit:d}"
        rows = self.query(FAULTS + most, (task,))[::-1]
        with decoding(self.name):
            return [
                (at, ErrorRecord(kind, name, t, json.loads(said)))
                for at, kind, name, t, said in rows
            ]

    def contradictions(self, task: int) -> list[tuple[int, int, str | None]]:
        """Return the reports that contradict an earlier one, with the actions that they name."""
        rows = self.query(CONTRADICTIONS, (task,))
        with decoding(self.name):
            return [(episode, t, json.loads(said).get("action")) for episode, t, said in rows]

    def lease(self, task: int) -> tuple[str, float] | None:
        """Who may plan, and for how many seconds yet; None if nobody does."""
        rows = self.query(LEASE, (task,))
        return (str(rows[0][0]), float(rows[0][1])) if rows else None

    def check(self, task: int) -> list[str]:
        """What is wrong with the database, a line each.

        If the database is not sound, what else could be read from it means nothing.
        """
        self.check_open()
        found = self.damage()
        if found:
            return found
        if (kept := self.snapshot(task)) is not None:
            try:
                zlib.decompress(kept[1])
            except zlib.error:
                found.append(
                    "the snapshot is damaged: bounds come from the events alone, and are wider "
                    "until the next plan. Fix: check the disk"
                )
        for query, what in CHECKS.items():
            if wrong := self.query(query, (task,))[0][0]:
                found.append(what.format(wrong))
        return found
