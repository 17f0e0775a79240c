"""The records of a task in a store (`ucfh.tasks.store`).

State 0 is the end (`ucfh.sparse_counts.END`); next state -1 (`ucfh.sparse_counts.LOST`) is a
missing outcome.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ucfh._utils.arrays import Ints

DECISION, OUTCOME = 0, 1
"""Kinds of events."""
BY_PERSON, BY_NONE = -1, 0
"""Numbers of no policy: the task did not choose the action; there was no policy yet."""
NO_TASK = 0
"""The task number of records that belong to no task."""
LAYOUT = "0.15.0"
"""The layout of stored bounds and snapshots, named by its first version.

Plans, reports and snapshots of another layout are not used, but made again from the events.
"""
LONGEST_LEASE = 3600.0
"""Longest lease in seconds; a longer one is due to a clock that was set back."""
AHEAD = 300.0
"""Seconds by which an event may be ahead of the clock; more is due to a clock that jumped."""
EXPIRED, ABANDONED = "expired", "abandoned"
"""The beginnings of the notes of outcomes that were not reported."""


class DecisionRecord(NamedTuple):
    """A decision, with the numbers of its state, action and policy.

    ``first`` is the first policy of its episode; it is only meaningful at t = 0.
    """

    seq: int
    episode: int
    t: int
    state: int
    action: int
    policy: int
    first: int


class OutcomeRecord(NamedTuple):
    """An outcome: the reward in the user's units (nan if missing) and the number of the next state.

    ``taken`` is the action taken, if it differs from the recommended one; else None.
    """

    seq: int
    episode: int
    t: int
    reward: float
    following: int
    taken: int | None = None


class StateRecord(NamedTuple):
    """A state: its number, its canonical label, and the numbers of its actions; None: all."""

    number: int
    label: str
    actions: tuple[int, ...] | None


class StoredPolicy(NamedTuple):
    """A plan with its policies.

    Attributes:
        number, made: of the plan, and its time.
        known, episodes: numbers of outcomes and episodes at planning time.
        actions: (H, S) the exploration policy, by number.
        best: (H, S) the policy that the bounds apply to.
        changed: (H, S) the number of the plan that last changed an action of it.
        summary: the bounds.

    """

    number: int
    made: float
    known: int
    episodes: int
    actions: Ints
    best: Ints
    changed: Ints
    summary: dict[str, Any]


class PlanRecord(NamedTuple):
    """The permanent record of a plan; see `StoredPolicy`."""

    number: int
    made: float
    known: int
    episodes: int
    summary: dict[str, Any]


class Report(NamedTuple):
    """The certificate and the audit report of a plan, after event ``seq``."""

    number: int
    seq: int
    made: float
    content: dict[str, Any]


class TaskProgress(NamedTuple):
    """The progress of a task.

    Attributes:
        task, name: its number, and its name.
        seq: the number of its last event, 0 if there is none.
        policy: the number of its newest policy, 0 if there is none.
        deadline: the earliest deadline of its open decisions, if there is one.

    """

    task: int
    name: str
    seq: int
    policy: int
    deadline: float | None


class LastEvent(NamedTuple):
    """The last event of an episode.

    Attributes:
        episode: its number.
        kind, t, state, action, policy, at, note: the event; ``state`` of an outcome is the next
            state.

    """

    episode: int
    kind: int
    t: int
    state: int
    action: int
    policy: int
    at: float
    note: str | None


class StepRecord(NamedTuple):
    """A step of an episode: its decision, and its outcome if there is one (following None: open).

    Attributes:
        reward: in the user's units; None if it is unknown.
        asked, told, deadline: times in seconds since 1970; deadline: only of an open decision.
        taken: the action taken, if it differs from the recommended one; else None.

    """

    name: str
    seq: int
    t: int
    state: int
    action: int
    policy: int
    asked: float
    following: int | None
    reward: float | None
    told: float | None
    note: str | None
    deadline: float | None
    taken: int | None


class WarmStart(NamedTuple):
    """The prior knowledge of a task: a sentence on its assumption, or "", and a prior policy.

    ``prior``: by the name of a state in a log, the numbers (H,) of its actions.
    """

    sentence: str
    prior: dict[str, list[int]]


class StoreCounts(NamedTuple):
    """The counts of a task in a store.

    Attributes:
        oldest: the time of the oldest open decision.
        conflicts: decisions with contradictory reports of their outcome.
        contradictions: reports that contradict the first report of a decision.
        ahead: the seconds by which the last event is ahead of the clock, negative if it is behind.

    """

    begun: int
    open: int
    waiting: int
    oldest: float | None
    decisions: int
    outcomes: int
    lost: int
    states: int
    faults: int
    late: int
    conflicts: int
    contradictions: int
    ahead: float
