"""The interface of a database for live tasks: records, and one transaction for each call.

The source of truth is a sequence of events, numbered 1, 2, ... by the database: decisions (state,
step, action) and outcomes (reward, next state). Events are immutable: a decision is written before
it is returned, an outcome before it is acknowledged. States get numbers, and episodes names, in the
same transactions. Everything else - open decisions, policies, the agent's counts - can be computed
from these.
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
"""Bytes of a test write: more than one call needs."""


class Transaction(ABC):
    """One transaction on one task: the reads and writes of a call."""

    @property
    @abstractmethod
    def now(self) -> float:
        """The time of the store; events are ordered by their numbers alone."""

    @property
    @abstractmethod
    def newest(self) -> int:
        """The number of the newest policy, 0 if there is none."""

    @property
    @abstractmethod
    def newest_known(self) -> int:
        """The number of outcomes behind the newest policy."""

    @abstractmethod
    def attempt(self, call: Callable[[], T]) -> T | TaskError:
        """Make a call; a `TaskError` rolls back the call alone, and is returned."""

    @abstractmethod
    def create(self, name: str, declaration: str, states: Sequence[StateRecord]) -> int:
        """Write a task unless it exists, in a transaction on no task; returns its number."""

    @abstractmethod
    def last(self, name: str) -> LastEvent | None:
        """Return the last event of an episode; None if it has not begun."""

    @abstractmethod
    def step(
        self, episode: int, t: int
    ) -> tuple[DecisionRecord | None, OutcomeRecord | None, str | None]:
        """Return the decision and the outcome of a step, if any, and the outcome's note."""

    @abstractmethod
    def begin(self, name: str, policy: int) -> int:
        """Begin an episode with its first policy; returns its number."""

    @abstractmethod
    def decide(
        self, episode: int, t: int, state: int, action: int, policy: int, deadline: float | None
    ) -> None:
        """Write an open decision."""

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
        """Write the outcome of an open decision; call `end` or `pause`, or `decide`, next.

        ``taken``: the action taken, if it differs from the recommended one.
        """

    @abstractmethod
    def return_so_far(self, episode: int) -> float:
        """Return the sum of the rewards of an episode so far."""

    @abstractmethod
    def end(self, episode: int) -> None:
        """Mark an episode as over."""

    @abstractmethod
    def pause(self, episode: int, t: int) -> None:
        """Mark an episode as ongoing after step t, without an open decision."""

    @abstractmethod
    def overdue(self) -> list[tuple[int, str, int]]:
        """Return overdue decisions: number and name of the episode, and step."""

    @abstractmethod
    def states(self, after: int) -> list[StateRecord]:
        """Return states with numbers above ``after``."""

    @abstractmethod
    def add_state(self, record: StateRecord) -> None:
        """Write a new state."""

    @abstractmethod
    def policy(self, number: int) -> StoredPolicy | None:
        """Return a policy that is still stored."""

    @abstractmethod
    def add_error(self, evidence: ErrorRecord) -> None:
        """Write an error record unless it exists."""

    @abstractmethod
    def renew_lease(self, holder: str, seconds: float) -> str | None:
        """Take or renew the lease; returns another holder if there is one."""

    @abstractmethod
    def release_lease(self, holder: str) -> None:
        """Release the lease."""

    @abstractmethod
    def add_warm_start(self, warm_start: WarmStart) -> None:
        """Write a warm start unless it exists."""

    @abstractmethod
    def publish(self, policy: StoredPolicy, seq: int, snapshot: bytes | None) -> None:
        """Write a plan with its policy, and perhaps a snapshot of the agent after event ``seq``.

        The call is idempotent. Older policies without an open decision are removed; plans are kept.
        """

    @abstractmethod
    def replace_report(self, report: Report) -> None:
        """Replace the last report."""


class TaskStore(ABC):
    """A database with tasks, each with a number.

    Attributes:
        name: its location, for messages.

    """

    name: str

    @abstractmethod
    def check_open(self) -> None:
        """Raise `StoreError` if the store was closed, or opened before this process was forked."""

    def check_ready(self) -> None:
        """Raise unless more than a call needs can be written now; nothing of the test stays.

        Two transactions: SQLite does not write pages that the same transaction frees, and a single
        small row may fit into what a larger, failed transaction has left.
        """
        probe = "probe".ljust(PROBE)
        self.transact(NO_TASK, lambda tx: tx.renew_lease(probe, 0.0))
        self.transact(NO_TASK, lambda tx: tx.release_lease(probe))

    @abstractmethod
    def progress(self) -> list[TaskProgress]:
        """Return the progress of each task, in order of creation."""

    @abstractmethod
    def tasks(self) -> list[str]:
        """Return the names of all tasks, in order of creation."""

    @abstractmethod
    def find(self, name: str) -> tuple[int, str] | None:
        """Return the number and the declaration of a task, or None."""

    def create(self, name: str, declaration: str, states: Sequence[StateRecord]) -> int:
        """Write a task with its declared states unless it exists; returns its number.

        Concurrent creations of the same task return the same number.
        """
        return self.transact(NO_TASK, lambda tx: tx.create(name, declaration, states))

    @abstractmethod
    def transact(self, task: int, call: Callable[[Transaction], T]) -> T:
        """Make a call in an atomic transaction on a task.

        After a lost connection the call may be made again, even if it was committed: it has to be
        idempotent.
        """

    @abstractmethod
    def events(self, task: int, after: int, limit: int) -> list[DecisionRecord | OutcomeRecord]:
        """Return up to ``limit`` events that follow number ``after``, in order."""

    @abstractmethod
    def states(self, task: int, after: int) -> list[StateRecord]:
        """Return states with numbers above ``after``."""

    @abstractmethod
    def last_seq(self, task: int) -> int:
        """Return the number of the last event, 0 if there is none."""

    @abstractmethod
    def newest_number(self, task: int) -> int:
        """Return the number of the newest policy, 0 if there is none."""

    @abstractmethod
    def warm_starts(self, task: int) -> list[WarmStart]:
        """Return the warm starts of a task."""

    @abstractmethod
    def snapshot(self, task: int) -> tuple[int, bytes] | None:
        """Return the last snapshot: its last event, and the agent in bytes."""

    @abstractmethod
    def newest_policy(self, task: int) -> StoredPolicy | None:
        """Return the newest policy."""

    @abstractmethod
    def plans(self, task: int, after: int) -> list[PlanRecord]:
        """Return plans with numbers above ``after``, in order."""

    @abstractmethod
    def report(self, task: int) -> Report | None:
        """Return the last report."""

    @abstractmethod
    def steps(
        self,
        task: int,
        status: str,
        episode: str | None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[StepRecord]:
        """Return steps in the order of their decisions, at most ``limit``.

        Args:
            task: the number of the task.
            status: "open", "told", "lost" or "all".
            episode: the name of an episode, or None for all episodes.
            limit: the largest number of steps.
            after: the number of a decision: only later ones.

        """

    @abstractmethod
    def episodes(self, task: int, first: int, last: int, moment: int) -> list[StepRecord]:
        """Return the steps of episodes with numbers first to last, each in order.

        Events with numbers above ``moment`` are left out.
        """

    @abstractmethod
    def counts(self, task: int) -> StoreCounts:
        """Return the counts of a task."""

    @abstractmethod
    def faults(self, task: int, limit: int | None = None) -> list[tuple[float, ErrorRecord]]:
        """Return the last error records and their times, the oldest first."""

    def conflicts(self, task: int) -> list[tuple[int, int]]:
        """Return the decisions, (episode, t), with contradictory reports of their outcome."""
        return list(dict.fromkeys((episode, t) for episode, t, _ in self.contradictions(task)))

    @abstractmethod
    def contradictions(self, task: int) -> list[tuple[int, int, str | None]]:
        """Return the reports, (episode, t, action), that contradict an earlier one.

        The action is the canonical label that the report names; None: the recommended one.
        """

    @abstractmethod
    def lease(self, task: int) -> tuple[str, float] | None:
        """Return the holder of the lease and its remaining seconds; None if there is none."""

    @abstractmethod
    def check(self, task: int) -> list[str]:
        """Return inconsistencies of the database, a line each."""

    @abstractmethod
    def close(self) -> None:
        """Close the store."""
