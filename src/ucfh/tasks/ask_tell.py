"""What is said to a task, wherever it is kept: near, in a store, or far, behind a service.

    ask, tell, record, abandon      check what is given, make the call, raise what is refused
    asking, telling, ...            check what is given; the call, for `serve`

So a task near and a task far differ in two things alone: what a call is, and how calls are served.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, TypeVar

from ucfh.envs.spaces import plain
from ucfh.exceptions import InputError, check_count, check_type
from ucfh.tasks.errors import LateOutcomeWarning
from ucfh.tasks.protocol import Decision, LateAnswer, check_episode, check_key

AnyCall = TypeVar("AnyCall")
"""A call that is checked and not yet made."""


class AskTell(Generic[AnyCall]):
    """The methods by which a task is asked and told."""

    @abstractmethod
    def serve(self, calls: Sequence[AnyCall]) -> list[Any]:
        """Make several calls; in the place of each its answer, or the fault that refuses it."""

    @abstractmethod
    def _call(self, kind: str, episode: str, **given: Any) -> AnyCall:
        """The call of a method of `ucfh.tasks.protocol.Serving`, with what was given to it."""

    def _serve(self, call: AnyCall) -> Any:
        """Make one call; a fault is raised."""
        (answer,) = self.serve([call])
        if isinstance(answer, InputError):
            raise answer
        return answer

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
        decision: Decision = self._serve(self.asking(state, episode, t=t, actions=actions))
        return decision

    def asking(
        self,
        state: Any,
        episode: Any,
        *,
        t: int | None = None,
        actions: Sequence[Any] | None = None,
    ) -> AnyCall:
        """The call that `ask` makes, for `serve`."""
        name, step = check_episode(episode), None if t is None else check_count("t", t, least=0)
        return self._call("ask", name, state=state, **_given(t=step, actions=actions))

    def tell(
        self,
        decision: Decision | tuple[Any, int],
        *,
        reward: float,
        state: Any = None,
        done: bool = False,
        actions: Sequence[Any] | None = None,
        action: Any = None,
    ) -> Decision | None:
        """Tell what came of a decision; returns the next one, or None if the episode is over.

        Told again, it gives the same answer. An outcome that comes after its deadline is kept but
        not counted: a `LateOutcomeWarning` warns of it.

        Args:
            decision: the decision, or its episode and step, (episode, t).
            reward: what the step paid.
            state: the next state; needed unless the episode is done, also at the last step.
            done: whether the episode is over.
            actions: those of the next state, if it is new and does not have all.
            action: the action that was taken, if it is not the one given. The outcome then counts
                for that action. Whether another action is taken must not depend on the outcome.

        Raises:
            Conflict: the outcome was reported in another way before. Both reports are kept, and the
                outcome counts as missing from then on, for every action that a report names. An
                outcome that is reported first after such a conflict counts as missing, too.

        """
        answer: Decision | LateAnswer | None = self._serve(
            self.telling(
                decision, reward=reward, state=state, done=done, actions=actions, action=action
            )
        )
        if isinstance(answer, LateAnswer):
            warnings.warn(answer.message, LateOutcomeWarning, stacklevel=2)
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
        action: Any = None,
    ) -> AnyCall:
        """The call that `tell` makes, for `serve`."""
        name, t = check_key(decision)
        more = _given(state=state, done=_checked(done), actions=actions, action=action)
        return self._call("tell", name, t=t, reward=reward, **more)

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
        with it, or tell it. If the task has given another action at this step, the outcome has to
        be known, and counts for the action that was taken.
        """
        late = self._serve(self.recording(episode, t, state, action, reward, next_state, done))
        if late is not None:
            warnings.warn(late.message, LateOutcomeWarning, stacklevel=2)

    def recording(
        self,
        episode: Any,
        t: int,
        state: Any,
        action: Any,
        reward: float | None = None,
        next_state: Any = None,
        done: bool = False,
    ) -> AnyCall:
        """The call that `record` makes, for `serve`."""
        name, t = check_episode(episode), check_count("t", t, least=0)
        more = _given(reward=reward, next_state=next_state, done=_checked(done))
        return self._call("record", name, t=t, state=state, action=action, **more)

    def abandon(self, episode: Any, reason: str = "") -> None:
        """Give up an episode: what came of its open decision will never be known."""
        self._serve(self.abandoning(episode, reason))

    def abandoning(self, episode: Any, reason: str = "") -> AnyCall:
        """The call that `abandon` makes, for `serve`."""
        name = check_episode(episode)
        check_type("reason", reason, str, "a text")
        said = " ".join("".join(x if x.isprintable() else " " for x in reason).split())
        return self._call("abandon", name, reason=said)


def _given(**values: Any) -> dict[str, Any]:
    """Those that were given: not None."""
    return {name: value for name, value in values.items() if value is not None}


def _checked(done: Any) -> bool | None:
    """True, or None for what need not be said."""
    check_type("done", done := plain(done), bool, "True or False")
    return done or None
