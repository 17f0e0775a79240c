"""What a database must do for live tasks: keep records, and one transaction a call.

The truth is a sequence of events, numbered 1, 2, ... by the database: a decision (in this state, at
this step, this action was taken), and its outcome (what was paid, and which state followed).
A decision is written before its action leaves, an outcome before it is acknowledged, and neither
is ever changed. States get numbers and episodes names in the same transactions. All else - which
decisions are open, the policies, the agent's counts - can be made again from these.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from typing import TypeVar

from ucfh.tasks.errors import ErrorRecord, TaskError
from ucfh.tasks.records import (
    NO_TASK,
    DecisionRecord,
    LastEvent,
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

T = TypeVar("T")
PROBE = 65_536
"""Bytes written to see whether a store can be written: more than one call needs."""


class Transaction(ABC):
    """One transaction on one task: what a call on it may read and write."""

    @property
    @abstractmethod
    def now(self) -> float:
        """The time by the clock of the store; events are ordered by their numbers alone."""

    @property
    @abstractmethod
    def newest(self) -> int:
        """The number of the newest policy, 0 if there is none."""

    @property
    @abstractmethod
    def newest_known(self) -> int:
        """How many outcomes it was made from."""

    @abstractmethod
    def attempt(self, call: Callable[[], T]) -> T | TaskError:
        """Make a call whose writes stand or fall together, whatever becomes of others.

        A `TaskError` that it raises takes back what it wrote, and is the answer.
        """

    @abstractmethod
    def create(self, name: str, declaration: str, states: Sequence[StateRecord]) -> int:
        """Write a new task, in a transaction on none, unless one of that name is there."""

    @abstractmethod
    def last(self, name: str) -> LastEvent | None:
        """An episode by its name; None if it has not begun."""

    @abstractmethod
    def step(
        self, episode: int, t: int
    ) -> tuple[DecisionRecord | None, OutcomeRecord | None, str | None]:
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
        self,
        episode: int,
        t: int,
        following: int,
        reward: float | None,
        note: str | None,
        taken: int | None = None,
    ) -> None:
        """Write the outcome of an open decision; what becomes of the episode, say next.

        ``taken``: the action that was taken, if it differs from the one given.
        """

    @abstractmethod
    def paid(self, episode: int) -> float:
        """Return the sum of the rewards of an episode so far."""

    @abstractmethod
    def end(self, episode: int) -> None:
        """Note that an episode is over."""

    @abstractmethod
    def pause(self, episode: int, t: int) -> None:
        """Note that an episode goes on after the outcome of step t, and nothing is decided yet."""

    @abstractmethod
    def overdue(self) -> list[tuple[int, str, int]]:
        """Open decisions whose deadline has passed: number and name of the episode, and step."""

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
    def keep_fault(self, evidence: ErrorRecord) -> None:
        """Write a fault, unless the same one is there."""

    @abstractmethod
    def renew_lease(self, holder: str, seconds: float) -> str | None:
        """Take or renew the right to plan; who else has it, or None if it is had now."""

    @abstractmethod
    def release_lease(self, holder: str) -> None:
        """Give the right to plan back."""

    @abstractmethod
    def add_beginning(self, beginning: WarmStart) -> None:
        """Write what the task begins with, unless that is there."""

    @abstractmethod
    def publish(self, policy: StoredPolicy, seq: int, snapshot: bytes | None) -> None:
        """Write a plan with its policy, and perhaps the agent as it was after event ``seq``.

        Written again, it stays as it is. Older policies that no open decision uses are removed;
        plans are kept.
        """

    @abstractmethod
    def keep_report(self, report: Report) -> None:
        """Write a report, in place of the last one."""


class TaskStore(ABC):
    """A database with tasks, each known by its number.

    Attributes:
        name: where it is, for messages.

    """

    name: str

    @abstractmethod
    def check_open(self) -> None:
        """Raise if it was closed, or opened before this process was forked."""

    def check_ready(self) -> None:
        """Raise unless more than a call needs can be written now; nothing of it stays.

        Two transactions: SQLite does not write pages that the same transaction frees, and a single
        small row may fit into what a larger, failed transaction has left.
        """
        probe = "probe".ljust(PROBE)
        self.transact(NO_TASK, lambda tx: tx.renew_lease(probe, 0.0))
        self.transact(NO_TASK, lambda tx: tx.release_lease(probe))

    @abstractmethod
    def heads(self) -> list[TaskProgress]:
        """Where each task stands, in the order of creation."""

    @abstractmethod
    def tasks(self) -> list[str]:
        """The names of all tasks, in the order of creation."""

    @abstractmethod
    def find(self, name: str) -> tuple[int, str] | None:
        """The number and the declaration of a task, or None."""

    def create(self, name: str, declaration: str, states: Sequence[StateRecord]) -> int:
        """Write a new task with its declared states, unless one of that name is there; its number.

        Two that create the same task at once get the same number.
        """
        return self.transact(NO_TASK, lambda tx: tx.create(name, declaration, states))

    @abstractmethod
    def transact(self, task: int, call: Callable[[Transaction], T]) -> T:
        """Make a call in a transaction on a task, which is written at its end, or not at all.

        A call may be made again, if a connection was lost on the way and nobody knows whether it
        was written: it finds what it did.
        """

    @abstractmethod
    def events(self, task: int, after: int, limit: int) -> list[DecisionRecord | OutcomeRecord]:
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
    def beginnings(self, task: int) -> list[WarmStart]:
        """What the task was told to begin with."""

    @abstractmethod
    def snapshot(self, task: int) -> tuple[int, bytes] | None:
        """The agent as it was written last, and after which event."""

    @abstractmethod
    def newest_policy(self, task: int) -> StoredPolicy | None:
        """The policy that was made last."""

    @abstractmethod
    def plans(self, task: int, after: int) -> list[PlanRecord]:
        """Plans with numbers above ``after``, in their order."""

    @abstractmethod
    def report(self, task: int) -> Report | None:
        """The last report."""

    @abstractmethod
    def steps(
        self,
        task: int,
        status: str,
        episode: str | None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[StepRecord]:
        """Steps in the order of their decisions: all, or those of one episode; the first few.

        ``status``: "open", "told", "lost" or "all"; ``after``: the decision that they follow.
        """

    @abstractmethod
    def episodes(self, task: int, first: int, last: int, moment: int) -> list[StepRecord]:
        """The steps of episodes with numbers first to last, each in order, at a moment.

        Of what was written after the event with that number, nothing is shown.
        """

    @abstractmethod
    def figures(self, task: int) -> StoreCounts:
        """How much there is of everything."""

    @abstractmethod
    def faults(self, task: int, limit: int | None = None) -> list[tuple[float, ErrorRecord]]:
        """What was kept of faults, and when, in this order; the last ones."""

    def conflicts(self, task: int) -> list[tuple[int, int]]:
        """Return the decisions, (episode, t), whose outcome was reported in different ways."""
        return list(dict.fromkeys((episode, t) for episode, t, _ in self.contradictions(task)))

    @abstractmethod
    def contradictions(self, task: int) -> list[tuple[int, int, str | None]]:
        """Return the reports, (episode, t, action), that contradict an earlier one.

        The action is the one that the report names, as it is stored; None: the one given.
        """

    @abstractmethod
    def lease(self, task: int) -> tuple[str, float] | None:
        """Who may plan, and for how many seconds yet; None if nobody does."""

    @abstractmethod
    def check(self, task: int) -> list[str]:
        """What is wrong with the database and its caches of open decisions, a line each."""

    @abstractmethod
    def close(self) -> None:
        """Let go of it."""
