"""What is read from a store in SQLite."""

from __future__ import annotations

import json
import sqlite3
import time
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from math import nan
from threading import Lock

import numpy as np

from ucfh.tasks.faults import Evidence
from ucfh.tasks.sqlite_schema import explained
from ucfh.tasks.store import (
    DECISION,
    Beginning,
    Decided,
    Figures,
    StateRecord,
    StepRecord,
    StoredPolicy,
    TaskStore,
    Told,
)

EVENTS = """SELECT v.seq, v.kind, v.episode, v.t, v.state, v.action, v.policy, v.reward, e.policy
    FROM events v LEFT JOIN episodes e
    ON v.t=0 AND v.kind=0 AND e.task=v.task AND e.id=v.episode
    WHERE v.task=? AND v.seq>? ORDER BY v.seq LIMIT ?"""
STEPS = """SELECT e.name, d.seq, d.t, d.state, d.action, d.policy, d.at, o.state, o.reward, o.at,
    o.note, w.deadline
    FROM {source}
    JOIN episodes e ON e.task=d.task AND e.id=d.episode
    LEFT JOIN events o ON o.task=d.task AND o.episode=d.episode AND o.t=d.t AND o.kind=1
    LEFT JOIN waiting w ON w.task=d.task AND w.episode=d.episode AND w.kind=0 AND w.seq=d.seq
    WHERE d.task=? AND d.kind=0 AND {where} ORDER BY {order}"""
SOURCES = {
    "open": "waiting x CROSS JOIN events d ON d.task=x.task AND d.seq=x.seq",
    "lost": "events x INDEXED BY lost CROSS JOIN events d "
    "ON d.task=x.task AND d.episode=x.episode AND d.t=x.t AND x.kind=1 AND x.state=-1",
}
"""Where to look for decisions of a status, if there are much fewer than others."""
OF_EPISODE = "episodes x CROSS JOIN events d ON d.task=x.task AND d.episode=x.id AND x.name=?"
WHERE = {"open": "o.state IS NULL", "told": "o.state >= 0", "lost": "o.state = -1", "all": "1"}
EPISODES = """SELECT e.name, d.seq, d.t, d.state, d.action, d.policy, d.at, o.state, o.reward, o.at,
    o.note, NULL
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
    (SELECT v.at FROM waiting w JOIN events v ON v.task=w.task AND v.seq=w.seq
        WHERE w.task=?1 AND w.kind=0 ORDER BY w.seq LIMIT 1),
    (SELECT count(*) FROM events INDEXED BY lost WHERE task=?1 AND kind=1 AND state=-1),
    (SELECT max(number) FROM states WHERE task=?1),
    (SELECT count(*) FROM faults WHERE task=?1),
    (SELECT count(*) FROM faults WHERE task=?1 AND kind='late')"""
CHECKS = {
    "SELECT count(*) FROM (SELECT max(seq) AS last, count(*) AS n FROM events WHERE task=?1) "
    "WHERE last != n": "events are missing: their numbers have gaps",
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
}
"""Queries that count what is wrong, and what that is."""


def read_states(connection: sqlite3.Connection, task: int, after: int) -> list[StateRecord]:
    """States with numbers above ``after``."""
    rows = connection.execute(
        "SELECT number, label, actions FROM states WHERE task=? AND number>? ORDER BY number",
        (task, after),
    )
    return [
        StateRecord(number, label, None if have is None else tuple(json.loads(have)))
        for number, label, have in rows
    ]


def read_policy(
    connection: sqlite3.Connection, task: int, number: int | None = None
) -> StoredPolicy | None:
    """A policy by its number; without one, the newest."""
    which, given = ("", (task,)) if number is None else ("AND number=?", (task, number))
    row = connection.execute(
        "SELECT number, made, known, episodes, actions, width, summary FROM policies "
        f"WHERE task=? {which} ORDER BY number DESC LIMIT 1",
        given,
    ).fetchone()
    if row is None:
        return None
    found, made, known, episodes, blob, width, summary = row
    actions = np.frombuffer(zlib.decompress(blob), np.int32).reshape(-1, width)
    return StoredPolicy(found, made, known, episodes, actions.astype(np.int64), json.loads(summary))


class SqliteReading(TaskStore):
    """The part of a store that reads; see `TaskStore`.

    Attributes:
        reader: a connection that only reads. reads: held while it does.

    """

    reader: sqlite3.Connection
    reads: Lock

    @contextmanager
    def _reading(self) -> Iterator[sqlite3.Connection]:
        self.check_open()
        with self.reads, explained(self.name):
            yield self.reader

    def tasks(self) -> list[str]:
        """The names of all tasks, in the order of creation."""
        with self._reading() as c:
            return [name for (name,) in c.execute("SELECT name FROM tasks ORDER BY id")]

    def find(self, name: str) -> tuple[int, str] | None:
        """The number and the declaration of a task, or None."""
        with self._reading() as c:
            row = c.execute("SELECT id, declaration FROM tasks WHERE name=?", (name,)).fetchone()
        return None if row is None else (int(row[0]), str(row[1]))

    def events(self, task: int, after: int, limit: int) -> list[Decided | Told]:
        """Events that follow number ``after``."""
        with self._reading() as c:
            rows = c.execute(EVENTS, (task, after, limit)).fetchall()
        return [
            Decided(seq, episode, t, state, action, policy, policy if first is None else first)
            if kind == DECISION
            else Told(seq, episode, t, nan if reward is None else reward, state)
            for seq, kind, episode, t, state, action, policy, reward, first in rows
        ]

    def states(self, task: int, after: int) -> list[StateRecord]:
        """States with numbers above ``after``."""
        with self._reading() as c:
            return read_states(c, task, after)

    def last_seq(self, task: int) -> int:
        """The number of the last event, 0 if there is none."""
        with self._reading() as c:
            row = c.execute("SELECT max(seq) FROM events WHERE task=?", (task,)).fetchone()
        return int(row[0] or 0)

    def newest_number(self, task: int) -> int:
        """The number of the policy that was made last, 0 if there is none."""
        with self._reading() as c:
            row = c.execute("SELECT max(number) FROM policies WHERE task=?", (task,)).fetchone()
        return int(row[0] or 0)

    def beginnings(self, task: int) -> list[Beginning]:
        """What the task was told to begin with."""
        with self._reading() as c:
            rows = c.execute(
                "SELECT sentence, prior FROM beginnings WHERE task=? ORDER BY id", (task,)
            ).fetchall()
        return [Beginning(sentence, json.loads(prior)) for sentence, prior in rows]

    def snapshot(self, task: int) -> tuple[int, bytes] | None:
        """The learner as it was written last, and after which event."""
        with self._reading() as c:
            row = c.execute("SELECT seq, blob FROM snapshots WHERE task=?", (task,)).fetchone()
        return None if row is None else (int(row[0]), bytes(row[1]))

    def newest_policy(self, task: int) -> StoredPolicy | None:
        """The policy that was made last."""
        with self._reading() as c:
            return read_policy(c, task)

    def steps(self, task: int, status: str, episode: str | None) -> list[StepRecord]:
        """Steps in the order of their decisions."""
        source = SOURCES.get(status, "events d") if episode is None else OF_EPISODE
        order = "d.seq" if episode is None else "d.t"
        query = STEPS.format(source=source, where=WHERE[status], order=order)
        given = (task,) if episode is None else (episode, task)
        with self._reading() as c:
            return [StepRecord(*row) for row in c.execute(query, given).fetchall()]

    def episode_names(self, task: int) -> list[str]:
        """The names of all episodes, in the order of beginning."""
        with self._reading() as c:
            found = c.execute("SELECT name FROM episodes WHERE task=? ORDER BY id", (task,))
            return [name for (name,) in found.fetchall()]

    def episodes(self, task: int, first: int, last: int, moment: int) -> list[StepRecord]:
        """The steps of episodes, each in order, at a moment."""
        with self._reading() as c:
            rows = c.execute(EPISODES, (task, first, last, moment)).fetchall()
        return [StepRecord(*row) for row in rows]

    def figures(self, task: int) -> Figures:
        """How much there is of everything; what is read does not grow with the number of steps."""
        with self._reading() as c:
            row = c.execute(FIGURES, (task,)).fetchone()
        begun, last, open_, waiting, oldest, lost, states, faults, late = row
        decisions = ((last or 0) + waiting) // 2  # an outcome each, but for those that wait
        return Figures(
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
        )

    def faults(self, task: int) -> list[tuple[float, Evidence]]:
        """What was kept of faults, and when."""
        with self._reading() as c:
            rows = c.execute(
                "SELECT at, kind, episode, t, detail FROM faults WHERE task=? ORDER BY number",
                (task,),
            ).fetchall()
        return [(at, Evidence(kind, name, t, json.loads(said))) for at, kind, name, t, said in rows]

    def lease(self, task: int) -> tuple[str, float] | None:
        """Who may plan, and for how many seconds yet; None if nobody does."""
        with self._reading() as c:
            row = c.execute("SELECT holder, until FROM leases WHERE task=?", (task,)).fetchone()
        return None if row is None else (str(row[0]), float(row[1]) - time.time())

    def check(self, task: int) -> list[str]:
        """What is wrong with the database, a line each."""
        with self._reading() as c:
            found = [text for (text,) in c.execute("PRAGMA integrity_check") if text != "ok"]
            for query, what in CHECKS.items():
                if wrong := c.execute(query, (task,)).fetchone()[0]:
                    found.append(what.format(wrong))
        return found
