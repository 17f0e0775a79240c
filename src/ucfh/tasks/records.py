"""What a store keeps of a task, as records; what the store is, `ucfh.tasks.store` says.

State 0 is the end (`ucfh.sparse_counts.END`), and -1 (`ucfh.sparse_counts.LOST`) stands for an
outcome that never came to be known.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from ucfh._utils.arrays import Ints

DECISION, OUTCOME = 0, 1
"""Kinds of events."""
BY_PERSON, BY_NONE = -1, 0
"""Policies that are none: somebody else chose; nothing was planned yet."""
NO_TASK = 0
"""The number of what belongs to no task."""
LAYOUT = "0.14.0"
"""The version since which bounds, and the arrays of an agent, are stored as they are now.

Plans, reports and snapshots of another layout are not used: they are made again from the events.
"""
LONGEST_LEASE = 3600.0
"""Seconds for which somebody may have the right to plan; what lasts longer is a clock set back."""
AHEAD = 300.0
"""Seconds by which an event may be dated later than the clock; more means a clock that jumped."""
EXPIRED, ABANDONED = "expired", "abandoned"
"""How notes begin of outcomes that nobody told."""


class DecisionRecord(NamedTuple):
    """A decision: state and action by number, by which policy.

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
    """An outcome: the reward in the user's units (nan if lost) and the number of the next state.

    ``taken`` is the action that was taken, if it differs from the one given; else None.
    """

    seq: int
    episode: int
    t: int
    reward: float
    following: int
    taken: int | None = None


class StateRecord(NamedTuple):
    """A state: its number, its label as it is stored, and its actions; None: all."""

    number: int
    label: str
    actions: tuple[int, ...] | None


class StoredPolicy(NamedTuple):
    """What a plan has found, after how many outcomes and episodes, and when.

    Attributes:
        actions: (H, S) what to do next, which is to learn from it, by number.
        best: (H, S) the policy that the bounds are about.
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
    """What is kept of a plan for good: when it was made, from how much, and its bounds."""

    number: int
    made: float
    known: int
    episodes: int
    summary: dict[str, Any]


class Report(NamedTuple):
    """What a planner reports beside a plan: after which event, and when it was made."""

    number: int
    seq: int
    made: float
    content: dict[str, Any]


class TaskProgress(NamedTuple):
    """Where a task stands.

    Attributes:
        task, name: its number, and its name.
        seq: the number of its last event, 0 if there is none.
        policy: the number of its newest policy, 0 if there is none.
        deadline: the earliest of its open decisions, if one has a deadline.

    """

    task: int
    name: str
    seq: int
    policy: int
    deadline: float | None


class LastEvent(NamedTuple):
    """An episode as its last event shows it.

    Attributes:
        episode: its number.
        kind, t, state, action, policy, at, note: the event; ``state`` of an outcome is the next
            one.

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
        reward: in the user's units; None if it is not known.
        asked, told: when, in seconds since 1970; deadline: of an open one, if there is one.
        taken: the action that was taken, if it differs from the one given; else None.

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
    """What a task was told to begin with: a sentence on what that assumes, if it assumes anything.

    ``prior``: by the name of a state in a log, the numbers (H,) of the actions to begin with.
    """

    sentence: str
    prior: dict[str, list[int]]


class StoreCounts(NamedTuple):
    """How much a store holds of a task.

    Attributes:
        oldest: when the oldest open decision was taken.
        conflicts: decisions whose outcome was reported in two different ways.
        contradictions: the reports that contradict the first report of a decision.
        ahead: the seconds by which the last event is dated later than the clock, negative if it is
            not.

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
