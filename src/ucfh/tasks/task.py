"""A live task: ask what to do, do it, tell what came of it; at any time, in any order, for good.

    task = ucfh.open_task("calls.db", actions=["call", "mail"], horizon=8, epsilon=0.2)
    decision = task.ask("new", episode="customer-17")
    ...                                             # days later, perhaps in another process
    decision = task.tell(decision, reward=0.2, state="interested")

Every decision is on disk before it is given out, and every outcome before it is acknowledged. Each
call may be repeated: (episode, t) is the key of a decision, and the answer is the same.
"""

from __future__ import annotations

import atexit
import time
import warnings
from collections.abc import Callable, Sequence
from contextlib import suppress
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakSet, finalize

from ucfh._support.files import AnyPath
from ucfh.errors import check_count, check_type, unknown
from ucfh.experience import END, LOST
from ucfh.live.spaces import plain
from ucfh.tasks.declaration import Declaration
from ucfh.tasks.faults import EpisodeOver, LateOutcome, TaskFault
from ucfh.tasks.labels import StateBook
from ucfh.tasks.serving import Decision, Late, Serving, check_episode, check_key
from ucfh.tasks.status import TaskStatus
from ucfh.tasks.store import Beginning, StepRecord, StoredPolicy, TaskStore, Transaction

if TYPE_CHECKING:
    from ucfh.auditing.findings import AuditReport
    from ucfh.certificate import Certificate
    from ucfh.live.policy import LearnedPolicy
    from ucfh.tasks.exporting import Exported
    from ucfh.tasks.planner import PlannerThread, TaskPlanner

STATUSES = ("open", "told", "lost", "all")
T = TypeVar("T")
_OPEN: WeakSet[Task] = WeakSet()


class Task:
    """A task that is open; `open_task` makes it. It may be used by several threads at once.

    Attributes:
        name: of the task. declaration: what it is.
        store, number: where it is kept, and its number there.

    """

    def __init__(self, store: TaskStore, number: int, declaration: Declaration, planning: str):
        self.store, self.declaration, self.name = store, declaration, declaration.name
        self.number, self._planning = number, planning
        self._serving = Serving(declaration)
        self._serving.known.states.add(store.states(number, 0))
        self._calls, self._made = Lock(), Lock()
        self._planner: TaskPlanner | None = None
        self._thread: PlannerThread | None = None
        if planning == "background":
            from ucfh.tasks.planner import PlannerThread

            self._thread = PlannerThread(self.planner)
            self._thread.start()
        _OPEN.add(self)
        finalize(self, store.close).atexit = False

    # asking and telling

    def ask(
        self,
        state: Any,
        episode: Any,
        *,
        t: int | None = None,
        actions: Sequence[Any] | None = None,
    ) -> Decision:
        """Decide what to do in a state of an episode; one that is not known begins.

        Asked again, it gives the same answer.

        Args:
            state: a text, a whole number, or a tuple of such.
            episode: the caller's name of it: a text, or a whole number, which is the same as its
                digits.
            t: the step, counted from 0. With it, a question may also be repeated after others have
                told what came of it; without it, it is about the step that the episode is at.
            actions: those of this state, if it is seen for the first time and does not have all.

        """
        name, step = check_episode(episode), None if t is None else check_count("t", t, least=0)
        decision = self._serve(lambda tx: self._serving.ask(tx, name, state, actions, step))
        if decision is None:
            raise EpisodeOver(
                f"episode {name!r} is over: its last decision expired; name another episode"
            )
        return decision

    def tell(
        self,
        decision: Decision | tuple[Any, int],
        *,
        reward: float,
        state: Any = None,
        done: bool = False,
        actions: Sequence[Any] | None = None,
    ) -> Decision | None:
        """Tell what came of a decision; returns the next one, or None if the episode is over.

        Told again, it gives the same answer. An outcome that comes after its deadline is kept but
        not counted: a `LateOutcome` warns of it.

        Args:
            decision: the decision, or its episode and step, (episode, t).
            reward: what the step paid.
            state: the next state; needed unless the episode is done, also at the last step.
            done: whether the episode is over.
            actions: those of the next state, if it is new and does not have all.

        """
        name, t = check_key(decision)
        check_type("done", done := plain(done), bool, "True or False")
        answer = self._serve(
            lambda tx: self._serving.tell(tx, name, t, reward, state, done, actions)
        )
        if isinstance(answer, Late):
            warnings.warn(answer.message, LateOutcome, stacklevel=2)
            return None
        return answer

    def record(
        self,
        episode: Any,
        t: int,
        state: Any,
        action: Any,
        reward: float | None = None,
        next_state: Any = None,
        done: bool = False,
    ) -> None:
        """Record a step in which somebody else chose the action.

        Without a reward, a next state and done, the outcome is not known yet: record the step again
        with it, or tell it.
        """
        name, t = check_episode(episode), check_count("t", t, least=0)
        check_type("done", done := plain(done), bool, "True or False")
        late = self._serve(
            lambda tx: self._serving.record(tx, name, t, state, action, reward, next_state, done)
        )
        if late is not None:
            warnings.warn(late.message, LateOutcome, stacklevel=2)

    def abandon(self, episode: Any, reason: str = "") -> None:
        """Give up an episode: what came of its open decision will never be known."""
        name = check_episode(episode)
        check_type("reason", reason, str, "a text")
        self._serve(lambda tx: self._serving.abandon(tx, name, " ".join(reason.split())))

    def expire(self) -> int:
        """Expire the open decisions whose deadline has passed; returns how many there were."""
        return self._serve(self._serving.expire)

    def _serve(self, call: Callable[[Transaction], T]) -> T:
        """Make a call in a transaction of its own; keep the fault if it is refused."""
        self.store.check_open()
        with self._calls:
            states = self._serving.known.states
            known = len(states)
            try:
                answer = self.store.transact(self.number, call)
            except BaseException as error:
                states.keep(known)
                if isinstance(error, TaskFault) and (kept := error.kept) is not None:
                    with suppress(TaskFault):
                        self.store.transact(self.number, lambda tx: tx.keep_fault(kept))
                raise
        if self._thread is not None:
            self._thread.nudge()
        elif self._planning == "inline":
            self.planner.try_step()
        return answer

    # looking

    def decisions(self, status: str = "open", episode: Any = None) -> list[dict[str, Any]]:
        """Decisions and what came of them, in the order in which they were taken.

        Args:
            status: "open", "told", "lost" or "all".
            episode: only those of one.

        """
        if status not in STATUSES:
            raise unknown("status", status, STATUSES)
        name = None if episode is None else check_episode(episode)
        found = self.store.steps(self.number, status, name)
        labels = self.states.labels  # all that were found by then
        return [self._entry(step, labels) for step in found]

    def _entry(self, step: StepRecord, labels: Sequence[Any]) -> dict[str, Any]:
        s = step.following
        return {
            "episode": step.name,
            "t": step.t,
            "state": labels[step.state],
            "action": self._serving.known.actions[step.action],
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
    def states(self) -> StateBook:
        """All states that were found so far."""
        known = self._serving.known.states
        with self._calls:
            known.add(self.store.states(self.number, len(known) - 1))
        return known

    def faults(self) -> list[dict[str, Any]]:
        """What was refused, or came too late, and is kept; the oldest first."""
        return [
            {"at": at, "kind": x.kind, "episode": x.episode, "t": x.t, **x.detail}
            for at, x in self.store.faults(self.number)
        ]

    def status(self) -> TaskStatus:
        """How the task is doing."""
        n, newest = self.store.figures(self.number), self.store.newest_policy(self.number)
        lease, now = self.store.lease(self.number), time.time()
        known = {} if newest is None else newest.summary
        return TaskStatus(
            task=self.name,
            store=self.store.name,
            begun=n.begun,
            open=n.open,
            over=n.begun - n.open,
            decisions=n.decisions,
            waiting=n.waiting,
            oldest=None if n.oldest is None else max(0.0, now - n.oldest),
            outcomes=n.outcomes,
            lost=n.lost,
            late=n.late,
            faults=n.faults,
            states=n.states,
            policy=0 if newest is None else newest.number,
            age=None if newest is None else max(0.0, now - newest.made),
            made_from=0 if newest is None else newest.episodes,
            upper=known.get("upper"),
            lower=known.get("lower"),
            gap=known.get("gap"),
            certified=bool(known.get("certified", False)),
            planner=None if lease is None or lease[1] < 0 else lease[0],
            error=None if self._planner is None else self._planner.error,
        )

    # what was learned

    @property
    def planner(self) -> TaskPlanner:
        """What follows the store and plans; made when it is first needed."""
        self.store.check_open()
        with self._made:
            if self._planner is None:
                from ucfh.tasks.planner import TaskPlanner

                self._planner = TaskPlanner(
                    self.store,
                    self.number,
                    self.declaration,
                    self._take_policy,
                    sparing=self._planning == "background",
                )
            return self._planner

    def _take_policy(self, policy: StoredPolicy) -> None:
        self._serving.known.policies[policy.number] = policy

    def certificate(self) -> Certificate:
        """What is known of the policy, from all that was told so far."""
        with self.planner.lock:
            learner = self.planner.learner()
            return learner.certificate(*self._names(learner.experience.states))

    def policy(self) -> LearnedPolicy:
        """The policy that the certificate is about."""
        from ucfh.live.policy import LearnedPolicy
        from ucfh.tasks.exporting import TaskNames

        with self.planner.lock:
            actions = self.planner.learner().learner.policy
        return LearnedPolicy(TaskNames(self.declaration, self.states), actions)

    def audit(self) -> AuditReport:
        """What was tested of all that is assumed, and found."""
        with self.planner.lock:
            learner = self.planner.learner()
            return learner.audited(*self._names(learner.experience.states))

    def _names(self, count: int) -> tuple[list[str], list[str]]:
        """What the first states, the end among them, and the actions are called in a log."""
        from ucfh.tasks.exporting import TaskNames

        named = TaskNames(self.declaration, self.states)
        return [named.name_of(s) for s in range(count)], self.declaration.action_names

    def export(self, path: AnyPath, force: bool = False) -> Exported:
        """Write a log that `ucfh.read_log` reads to the same counts; see `ucfh.tasks.exporting`."""
        from ucfh.tasks.exporting import export

        return export(path, self.store, self.number, self.declaration, self.states, force)

    def warm_start(self, source: Any) -> int | None:
        """Begin with what is known from elsewhere; returns how many episodes were added.

        An episode that is there already is not counted again. None: a model has no episodes.

        Args:
            source: a log that `ucfh.read_log` reads; another `Task`; or a model, an `MDP` or its
                file, whose optimal policy is followed as long as nothing better is known.

        """
        from ucfh.tasks.beginning import begin_with_task, warm_start

        if isinstance(source, Task):
            return begin_with_task(self, source)
        return warm_start(self, source)

    def begin_with(self, beginning: Beginning) -> None:
        """Write what the task begins with, unless that is written already."""
        if beginning not in self.store.beginnings(self.number):
            self.write(lambda tx, _: tx.add_beginning(beginning))

    def write(self, call: Callable[[Transaction, Serving], T]) -> T:
        """Make several calls in one transaction."""
        return self._serve(lambda tx: call(tx, self._serving))

    def check(self) -> list[str]:
        """What is wrong with the store, a line each: everything is counted again and compared."""
        found = self.store.check(self.number)
        with self.planner.lock:
            learner = self.planner.learner()
            return [*found, *learner.differences(self.planner.rebuilt(learner))]

    # closing

    def close(self) -> None:
        """Let go of the store; all that was asked and told is in it."""
        with suppress(TaskFault):
            self.store.check_open()
            if self._thread is not None:
                self._thread.stop()
                self._thread = None
            if self._planner is not None:
                self._planner.release()
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
    """No thread may plan while Python shuts down."""
    for task in list(_OPEN):
        task.close()
