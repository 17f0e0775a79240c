"""What a database must do for live tasks: records, and one transaction a call.

The truth is a sequence of events, numbered 1, 2, ... by the database: a decision (in this state, at
this step, this action was taken), and its outcome (what was paid, and which state followed).
A decision is written before its action leaves, an outcome before it is acknowledged, and neither
is ever changed. States get numbers and episodes names in the same transactions. All else - which
decisions are open, the policies, the learner's counts - can be made again from these.

State 0 is the end (`ucfh.experience.END`), and -1 (`ucfh.experience.LOST`) stands for an outcome
that never came to be known.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeVar

from ucfh._support.arrays import Ints
from ucfh.tasks.faults import Evidence

T = TypeVar("T")
DECISION, OUTCOME = 0, 1
"""Kinds of events."""
BY_PERSON, BY_NONE = -1, 0
"""Policies that are none: somebody else chose; nothing was planned yet."""
LONGEST_LEASE = 3600.0
"""Seconds for which somebody may have the right to plan; what lasts longer is a clock set back."""
EXPIRED, ABANDONED = "expired", "abandoned"
"""How notes begin of outcomes that nobody told."""


class Decided(NamedTuple):
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


class Told(NamedTuple):
    """An outcome: the reward in the user's units (nan if lost) and the number of the next state."""

    seq: int
    episode: int
    t: int
    reward: float
    following: int


class StateRecord(NamedTuple):
    """A state: its number, its label as it is stored, and its actions; None: all."""

    number: int
    label: str
    actions: tuple[int, ...] | None


class StoredPolicy(NamedTuple):
    """A policy: actions (H, S) by number, made from how many outcomes and episodes, and when."""

    number: int
    made: float
    known: int
    episodes: int
    actions: Ints
    summary: dict[str, Any]


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


class Beginning(NamedTuple):
    """What a task was told to begin with: a sentence on what that assumes, if it assumes anything.

    ``prior``: by the name of a state in a log, the numbers (H,) of the actions to begin with.
    """

    sentence: str
    prior: dict[str, list[int]]


class Figures(NamedTuple):
    """How much a store holds of a task; ``oldest``: when the oldest open decision was taken."""

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


class Transaction(ABC):
    """One transaction on one task: what a call on it may read and write.

    Attributes:
        now: the time of the store, never earlier than that of its last event.
        newest: the number of the newest policy, 0 if there is none.
        newest_known: how many outcomes it was made from.

    """

    now: float
    newest: int
    newest_known: int

    @abstractmethod
    def last(self, name: str) -> LastEvent | None:
        """An episode by its name; None if it has not begun."""

    @abstractmethod
    def step(self, episode: int, t: int) -> tuple[Decided | None, Told | None, str | None]:
        """The decision and the outcome of a step, if they are there, and the outcome's note."""

    @abstractmethod
    def begin(self, name: str, policy: int) -> int:
        """Begin an episode with a first policy; its number."""

    @abstractmethod
    def decide(
        self, episode: int, t: int, state: int, action: int, policy: int, deadline: float | None
    ) -> None:
        """Write a decision, which is open from now on."""

    @abstractmethod
    def tell(
        self, episode: int, t: int, following: int, reward: float | None, note: str | None
    ) -> None:
        """Write the outcome of an open decision; what becomes of the episode, say next."""

    @abstractmethod
    def end(self, episode: int) -> None:
        """Note that an episode is over."""

    @abstractmethod
    def pause(self, episode: int, t: int) -> None:
        """Note that an episode goes on after the outcome of step t, and nothing is decided yet."""

    @abstractmethod
    def overdue(self) -> list[tuple[int, int]]:
        """Open decisions whose deadline has passed: the numbers of their episodes, and steps."""

    @abstractmethod
    def states(self, after: int) -> list[StateRecord]:
        """States with numbers above ``after``."""

    @abstractmethod
    def add_state(self, record: StateRecord) -> None:
        """Write a new state."""

    @abstractmethod
    def policy(self, number: int) -> StoredPolicy | None:
        """A policy that is still needed."""

    @abstractmethod
    def keep_fault(self, evidence: Evidence) -> None:
        """Write a fault, unless the same one is there."""

    @abstractmethod
    def renew_lease(self, holder: str, seconds: float) -> str | None:
        """Take or renew the right to plan; who else has it, or None if it is had now."""

    @abstractmethod
    def release_lease(self, holder: str) -> None:
        """Give the right to plan back."""

    @abstractmethod
    def add_beginning(self, beginning: Beginning) -> None:
        """Write what the task begins with."""

    @abstractmethod
    def publish(self, policy: StoredPolicy, seq: int, snapshot: bytes | None) -> None:
        """Write a policy, and perhaps the learner as it was after event ``seq``.

        Older policies that no open decision uses are removed.
        """


class TaskStore(ABC):
    """A database with tasks, each known by its number.

    Attributes:
        name: where it is, for messages.

    """

    name: str

    @abstractmethod
    def check_open(self) -> None:
        """Raise if it was closed, or opened before this process was forked."""

    @abstractmethod
    def tasks(self) -> list[str]:
        """The names of all tasks, in the order of creation."""

    @abstractmethod
    def find(self, name: str) -> tuple[int, str] | None:
        """The number and the declaration of a task, or None."""

    @abstractmethod
    def create(self, name: str, declaration: str, states: Sequence[StateRecord]) -> int:
        """Write a new task with its declared states, unless one of that name is there; its number.

        Two that create the same task at once get the same number.
        """

    @abstractmethod
    def transact(self, task: int, call: Callable[[Transaction], T]) -> T:
        """Make a call in a transaction on a task, which is written at its end, or not at all."""

    @abstractmethod
    def events(self, task: int, after: int, limit: int) -> list[Decided | Told]:
        """Up to ``limit`` events that follow number ``after``, in their order."""

    @abstractmethod
    def states(self, task: int, after: int) -> list[StateRecord]:
        """States with numbers above ``after``."""

    @abstractmethod
    def last_seq(self, task: int) -> int:
        """The number of the last event, 0 if there is none."""

    @abstractmethod
    def newest_number(self, task: int) -> int:
        """The number of the policy that was made last, 0 if there is none."""

    @abstractmethod
    def beginnings(self, task: int) -> list[Beginning]:
        """What the task was told to begin with."""

    @abstractmethod
    def snapshot(self, task: int) -> tuple[int, bytes] | None:
        """The learner as it was written last, and after which event."""

    @abstractmethod
    def newest_policy(self, task: int) -> StoredPolicy | None:
        """The policy that was made last."""

    @abstractmethod
    def steps(self, task: int, status: str, episode: str | None) -> list[StepRecord]:
        """Steps in the order of their decisions: all, or those of one episode.

        ``status``: "open", "told", "lost" or "all".
        """

    @abstractmethod
    def episode_names(self, task: int) -> list[str]:
        """The names of all episodes, in the order of beginning."""

    @abstractmethod
    def episodes(self, task: int, first: int, last: int, moment: int) -> list[StepRecord]:
        """The steps of episodes with numbers first to last, each in order, at a moment.

        Of what was written after the event with that number, nothing is shown.
        """

    @abstractmethod
    def figures(self, task: int) -> Figures:
        """How much there is of everything."""

    @abstractmethod
    def faults(self, task: int) -> list[tuple[float, Evidence]]:
        """What was kept of faults, and when, in this order."""

    @abstractmethod
    def lease(self, task: int) -> tuple[str, float] | None:
        """Who may plan, and for how many seconds yet; None if nobody does."""

    @abstractmethod
    def check(self, task: int) -> list[str]:
        """What is wrong with the database and its caches of open decisions, a line each."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""
