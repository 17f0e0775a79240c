"""Live tasks: ask for a decision, and report its outcome later.

    task = ucfh.open_task("calls.db", actions=["call", "mail"], horizon=8, epsilon=0.2)
    decision = task.ask("new", episode="customer-17")
    ...                                             # days later, perhaps in another process
    decision = task.tell(decision, reward=0.2, state="interested")

Decisions are durable before they are returned, and outcomes before they are acknowledged. All calls
are idempotent: (episode, t) is the key of a decision.
"""

from __future__ import annotations

import atexit
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet, finalize

from ucfh._utils.files import AnyPath
from ucfh.exceptions import InputError, check_count, unknown
from ucfh.sparse_counts import END, LOST
from ucfh.tasks.ask_tell import AskTell
from ucfh.tasks.config import Declaration
from ucfh.tasks.errors import InvalidReport, StoreError, TaskError, decoding
from ucfh.tasks.labels import StateIndex
from ucfh.tasks.protocol import TaskProtocol, check_episode
from ucfh.tasks.records import StepRecord, StoredPolicy, WarmStart
from ucfh.tasks.status import TaskStatus
from ucfh.tasks.store import TaskStore, Transaction

if TYPE_CHECKING:
    from ucfh.auditing.report import AuditReport
    from ucfh.certificate import Certificate
    from ucfh.envs.policy import LearnedPolicy
    from ucfh.tasks.exporting import ExportResult
    from ucfh.tasks.planner import PlannerThread, TaskPlanner

T = TypeVar("T")
Call = Callable[[Transaction], T]
"""A function of a transaction."""
MOST_CALLS = 1000
"""Calls of one batch over HTTP, at most."""
STATUSES = ("open", "told", "lost", "all")
_OPEN: WeakSet[Task] = WeakSet()


class Task(AskTell[Call[Any]]):
    """An open task, made by `open_task`. Several threads may use it at once.

    A call is one transaction; `serve` makes many calls in one transaction.

    Attributes:
        name, declaration: of the task.
        store, number: its store, and its number there.

    """

    def __init__(
        self,
        store: TaskStore,
        number: int,
        declaration: Declaration,
        planning: str,
        owns_store: bool,
    ) -> None:
        self.store, self.number, self.declaration = store, number, declaration
        self.name = declaration.name
        self._protocol = TaskProtocol(declaration)
        self._protocol.cache.states.add(store.states(number, 0))
        self._calls = Lock()
        self._planning, self._owns_store, self._planner_lock = planning, owns_store, Lock()
        self._planner: TaskPlanner | None = None
        self._thread: PlannerThread | None = None
        if planning == "background":
            from ucfh.tasks.planner import PlannerThread

            self._thread = PlannerThread(self.planner)
            self._thread.start()
        _OPEN.add(self)
        if owns_store:
            finalize(self, store.close).atexit = False

    # calls

    def _call(self, kind: str, episode: str, **given: Any) -> Call[Any]:
        method = getattr(self._protocol, kind)
        return lambda tx: method(tx, episode, **given)

    def expire(self) -> int:
        """Expire the open decisions whose deadline has passed; returns their number."""
        return int(self._serve(self.expiring()))

    def expiring(self) -> Call[int]:
        """Return the call that `expire` makes, for `serve`."""
        return self._protocol.expire

    def write(self, call: Callable[[Transaction, TaskProtocol], T]) -> T:
        """Make several calls of the protocol in one atomic transaction."""
        written: T = self._serve(lambda tx: call(tx, self._protocol))
        return written

    def serve(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Make several calls with one commit.

        Returns:
            The answer of each call, or its error, which is not raised. A rejected call is rolled
            back alone.

        """
        self.store.check_open()
        with self._calls:
            states = self._protocol.cache.states
            known = len(states)

            def make_all(tx: Transaction) -> list[Any]:
                states.truncate(known)  # if the connection was lost, all are made again
                return [self._attempt(tx, call) for call in calls]

            try:
                answers = self.store.transact(self.number, make_all)
            except BaseException:
                states.truncate(known)
                raise
        self._after_commit()
        return answers

    def _attempt(self, tx: Transaction, call: Call[T]) -> T | TaskError:
        """Make one atomic call; if it is rejected, keep the record of its error."""
        states = self._protocol.cache.states
        known = len(states)

        def made() -> T:
            try:
                return call(tx)
            except TaskError:
                raise
            except InputError as error:
                raise InvalidReport(str(error)) from error

        answer = tx.attempt(made)
        if isinstance(answer, TaskError):
            states.truncate(known)
            if answer.kept is not None:
                tx.add_error(answer.kept)
        return answer

    def _after_commit(self) -> None:
        if self._thread is not None:
            self._thread.notify()
        elif self._planning == "inline":
            self.planner.try_step()

    # queries

    def decisions(
        self,
        status: str = "open",
        episode: Any = None,
        limit: int | None = None,
        after: int = 0,
    ) -> list[dict[str, Any]]:
        """Return decisions with their outcomes, in the order in which they were taken.

        Args:
            status: "open", "told", "lost" or "all".
            episode: the name of an episode; all by default.
            limit: the largest number of decisions.
            after: the number of a decision: only later ones.

        """
        if status not in STATUSES:
            raise unknown("status", status, STATUSES)
        name = None if episode is None else check_episode(episode)
        most = None if limit is None else check_count("limit", limit)
        last = check_count("after", after, least=0)
        found = self.store.steps(self.number, status, name, most, last)
        labels = self.states.labels  # all that were found by then
        with decoding(self.store.name):
            return [self._entry(step, labels) for step in found]

    def _entry(self, step: StepRecord, labels: Sequence[Any]) -> dict[str, Any]:
        s = step.following
        return {
            "number": step.seq,
            "episode": step.name,
            "t": step.t,
            "state": labels[step.state],
            "action": self._protocol.cache.actions[step.action],
            "taken": self._protocol.cache.actions[
                step.action if step.taken is None else step.taken
            ],
            "policy": step.policy,
            "status": "open" if s is None else "lost" if s == LOST else "told",
            "asked": step.asked,
            "deadline": step.deadline,
            "reward": step.reward,
            "next_state": None if s is None or s <= END else labels[s],
            "done": s == END,
            "told": step.told,
            "note": step.note,
        }

    @property
    def states(self) -> StateIndex:
        """All states so far."""
        known = self._protocol.cache.states
        with self._calls:
            known.add(self.store.states(self.number, len(known) - 1))
        return known

    def faults(self, limit: int | None = None) -> list[dict[str, Any]]:
        """Return the records of rejected reports and late outcomes, the oldest first.

        Args:
            limit: only the last ones, at most that many.

        """
        most = None if limit is None else check_count("limit", limit)
        return [
            {"at": at, "kind": x.kind, "episode": x.episode, "t": x.t, **x.detail}
            for at, x in self.store.faults(self.number, most)
        ]

    def status(self) -> TaskStatus:
        """Return the status of the task."""
        from ucfh.tasks.status import status_of

        return status_of(self)

    def view(self, after: int = 0) -> dict[str, Any]:
        """Return the dashboard data of the task; see `ucfh.tasks.status`.

        Args:
            after: the number of a plan: only later plans are listed.

        """
        from ucfh.tasks.status import view_of

        return view_of(self, after)

    def policy_table(self) -> dict[str, Any]:
        """Return the policy of the newest plan for the dashboard; see `ucfh.tasks.status`."""
        from ucfh.tasks.status import policy_table

        return policy_table(self)

    # results

    @property
    def planner(self) -> TaskPlanner:
        """The planner of this task, created on first use."""
        self.store.check_open()
        with self._planner_lock:
            if self._planner is None:
                from ucfh.tasks.planner import TaskPlanner

                self._planner = TaskPlanner(
                    self.store,
                    self.number,
                    self.declaration,
                    self._cache_policy,
                    self._names,
                    sparing=self._planning != "inline",
                )
            return self._planner

    @property
    def planning_error(self) -> str | None:
        """The last planning error in this process, None after success."""
        return None if self._planner is None else self._planner.error

    def _cache_policy(self, policy: StoredPolicy) -> None:
        self._protocol.cache.policies[policy.number] = policy

    def certificate(self) -> Certificate:
        """Return the certificate of the policy from all events so far."""
        with self.planner.lock:
            agent = self.planner.agent()
            return agent.certificate(*self._names(agent.experience.states))

    def policy(self) -> LearnedPolicy:
        """Return the policy that the certificate applies to."""
        from ucfh.envs.policy import LearnedPolicy
        from ucfh.tasks.exporting import TaskLabels

        with self.planner.lock:
            agent = self.planner.agent()
            agent.update_bounds()
            actions = agent.agent.policy
        return LearnedPolicy(TaskLabels(self.declaration, self.states), actions)

    def audit(self) -> AuditReport:
        """Return the audit report: tested assumptions and findings."""
        with self.planner.lock:
            agent = self.planner.agent()
            return agent.audit_report(*self._names(agent.experience.states))

    def _names(self, count: int) -> tuple[list[str], list[str]]:
        """The names in a log of the first ``count`` states, with the end, and of the actions."""
        from ucfh.tasks.exporting import TaskLabels

        named = TaskLabels(self.declaration, self.states)
        return [named.name_of(s) for s in range(count)], self.declaration.action_names

    def export(self, path: AnyPath, force: bool = False) -> ExportResult:
        """Write a log that `ucfh.read_log` reads to the same counts; see `ucfh.tasks.exporting`.

        Args:
            path: of a .csv file.
            force: whether to overwrite existing files.

        Returns:
            The files, and the numbers of their contents.

        Raises:
            InvalidReport: the task has conflicting reports.

        """
        from ucfh.tasks.exporting import export

        return export(path, self.store, self.number, self.declaration, self.states, force)

    def warm_start(self, source: Any) -> int | None:
        """Add prior knowledge; of imported episodes, only new steps are added.

        Args:
            source: a log that `ucfh.read_log` reads; another `Task`; or a model, an `MDP` or its
                file, whose optimal policy is the prior policy.

        Returns:
            The number of episodes that were added; None for a model.

        Raises:
            Conflict: an episode differs from the one that was imported under its name.
            InvalidReport: the source does not fit the task, or is a task with conflicting reports.

        """
        from ucfh.tasks.warm_start import warm_start, warm_start_from_task

        if isinstance(source, Task):
            return warm_start_from_task(self, source)
        return warm_start(self, source)

    def add_warm_start(self, warm_start: WarmStart) -> None:
        """Write a warm start unless it exists."""
        if warm_start not in self.store.warm_starts(self.number):
            self.write(lambda tx, _: tx.add_warm_start(warm_start))

    def check(self) -> list[str]:
        """Return inconsistencies of the store and of the agent's counts, a line each."""
        found = self.store.check(self.number)
        if found:
            return found
        try:
            with self.planner.lock:
                agent = self.planner.agent()
                return agent.differences(self.planner.rebuild(agent))
        except StoreError as fault:
            return [str(fault)]

    # closing

    def close(self) -> None:
        """Stop planning, and close the store if this task opened it."""
        with suppress(TaskError):
            self.store.check_open()
            if self._thread is not None:
                self._thread.stop()
                self._thread = None
            if self._planner is not None:
                self._planner.release()
        if self._owns_store:
            self.store.close()
        _OPEN.discard(self)

    def __enter__(self) -> Task:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Task({self.name!r} in {self.store.name})"


@atexit.register
def _close_all() -> None:
    """Close all tasks, since no thread may plan while Python shuts down."""
    for task in list(_OPEN):
        task.close()
