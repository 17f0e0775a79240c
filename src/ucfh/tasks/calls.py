"""The calls on a live task: each is checked, made in a transaction, and perhaps shares its commit.

    ask, tell, record, abandon, expire      one call, one transaction
    serve                                   many calls, one transaction; each stands or falls alone

`asking`, `telling` and the like check what is given and make the call that `serve` takes.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from threading import Lock
from typing import Any, TypeVar, cast

from ucfh.errors import InputError, check_count, check_type
from ucfh.live.spaces import plain
from ucfh.tasks.declaration import Declaration
from ucfh.tasks.faults import LateOutcome, Refused, TaskFault
from ucfh.tasks.serving import Decision, Late, Serving, check_episode, check_key
from ucfh.tasks.store import TaskStore, Transaction

T = TypeVar("T")
Call = Callable[[Transaction], T]
"""What is done in a transaction."""
MOST_CALLS = 1000
"""Calls of one batch over HTTP, at most."""


class TaskCalls:
    """Takes the calls on a task.

    Attributes:
        name: of the task. declaration: what it is.
        store, number: where it is kept, and its number there.

    """

    def __init__(self, store: TaskStore, number: int, declaration: Declaration) -> None:
        self.store, self.number, self.declaration = store, number, declaration
        self.name = declaration.name
        self._serving = Serving(declaration)
        self._serving.known.states.add(store.states(number, 0))
        self._calls = Lock()

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
        return self._serve(self.asking(state, episode, t=t, actions=actions))

    def asking(
        self,
        state: Any,
        episode: Any,
        *,
        t: int | None = None,
        actions: Sequence[Any] | None = None,
    ) -> Call[Decision | TaskFault]:
        """The call that `ask` makes, for `serve`."""
        name, step = check_episode(episode), None if t is None else check_count("t", t, least=0)
        return lambda tx: self._serving.ask(tx, name, state, actions, step)

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
        answer = self._serve(
            self.telling(decision, reward=reward, state=state, done=done, actions=actions)
        )
        if isinstance(answer, Late):
            warnings.warn(answer.message, LateOutcome, stacklevel=2)
            return None
        return answer

    def telling(
        self,
        decision: Decision | tuple[Any, int],
        *,
        reward: float,
        state: Any = None,
        done: bool = False,
        actions: Sequence[Any] | None = None,
    ) -> Call[Decision | Late | None]:
        """The call that `tell` makes, for `serve`."""
        name, t = check_key(decision)
        check_type("done", done := plain(done), bool, "True or False")
        return lambda tx: self._serving.tell(tx, name, t, reward, state, done, actions)

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
        late = self._serve(self.recording(episode, t, state, action, reward, next_state, done))
        if late is not None:
            warnings.warn(late.message, LateOutcome, stacklevel=2)

    def recording(
        self,
        episode: Any,
        t: int,
        state: Any,
        action: Any,
        reward: float | None = None,
        next_state: Any = None,
        done: bool = False,
    ) -> Call[Late | None]:
        """The call that `record` makes, for `serve`."""
        name, t = check_episode(episode), check_count("t", t, least=0)
        check_type("done", done := plain(done), bool, "True or False")
        return lambda tx: self._serving.record(tx, name, t, state, action, reward, next_state, done)

    def abandon(self, episode: Any, reason: str = "") -> None:
        """Give up an episode: what came of its open decision will never be known."""
        self._serve(self.abandoning(episode, reason))

    def abandoning(self, episode: Any, reason: str = "") -> Call[None]:
        """The call that `abandon` makes, for `serve`."""
        name = check_episode(episode)
        check_type("reason", reason, str, "a text")
        said = " ".join("".join(x if x.isprintable() else " " for x in reason).split())
        return lambda tx: self._serving.abandon(tx, name, said)

    def expire(self) -> int:
        """Expire the open decisions whose deadline has passed; returns how many there were."""
        return self._serve(self.expiring())

    def expiring(self) -> Call[int]:
        """The call that `expire` makes, for `serve`."""
        return self._serving.expire

    def write(self, call: Callable[[Transaction, Serving], T]) -> T:
        """Do several things in one transaction, all or nothing."""
        return self._serve(lambda tx: call(tx, self._serving))

    def serve(self, calls: Sequence[Call[Any]]) -> list[Any]:
        """Make several calls, and write all that they change at once: one commit serves them all.

        Each stands or falls by itself: its answer is in its place, or the fault with which it is
        refused, which is not raised.
        """
        self.store.check_open()
        with self._calls:
            states = self._serving.known.states
            known = len(states)

            def together(tx: Transaction) -> list[Any]:
                states.keep(known)  # if the connection was lost, all are made again
                return [self._attempt(tx, call) for call in calls]

            try:
                answers = self.store.transact(self.number, together)
            except BaseException:
                states.keep(known)
                raise
        self._plan_later()
        return answers

    def _attempt(self, tx: Transaction, call: Call[T]) -> T | TaskFault:
        """Make a call that is written as a whole or not at all; keep the fault if it is refused."""
        states = self._serving.known.states
        known = len(states)

        def made() -> T:
            try:
                return call(tx)
            except TaskFault:
                raise
            except InputError as error:
                raise Refused(str(error)) from error

        answer = tx.attempt(made)
        if isinstance(answer, TaskFault):
            states.keep(known)
            if answer.kept is not None:
                tx.keep_fault(answer.kept)
        return answer

    def _serve(self, call: Call[T | TaskFault]) -> T:
        """Make one call; a fault is raised."""
        (answer,) = self.serve([call])
        if isinstance(answer, TaskFault):
            raise answer
        return cast(T, answer)

    def _plan_later(self) -> None:
        """Called when something was written."""
