"""The ask-tell interface of tasks in a store and of remote tasks.

    ask, tell, record, abandon      check the arguments, make the call, raise its error
    asking, telling, ...            check the arguments, return the call for `serve`

A subclass defines the type of a call and how calls are served.
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
    """The ask and tell methods of a task."""

    @abstractmethod
    def serve(self, calls: Sequence[AnyCall]) -> list[Any]:
        """Make several calls; returns the answer or the error of each."""

    @abstractmethod
    def _call(self, kind: str, episode: str, **given: Any) -> AnyCall:
        """The call of a method of `ucfh.tasks.protocol.TaskProtocol` with its arguments."""

    def _serve(self, call: AnyCall) -> Any:
        """Make one call; raise its error."""
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
        """Decide on the action in a state of an episode; an unknown name begins an episode.

        The call is idempotent.

        Args:
            state: a string, an integer, or a tuple of these.
            episode: the caller's name of the episode: a string, or an integer, which equals the
                string of its digits.
            t: the step, counted from 0; by default the current step. With it, the call may also be
                repeated after the outcome was reported.
            actions: the actions of this state, if the state is new and does not have all actions.

        Returns:
            The decision.

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
        """Return the call that `ask` makes, for `serve`."""
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
        """Report the outcome of a decision.

        The call is idempotent. An outcome after its deadline is kept but not counted, with a
        `LateOutcomeWarning`.

        Args:
            decision: the decision, or its episode and step, (episode, t).
            reward: of the step.
            state: the next state; needed unless the episode is done, also at the last step.
            done: whether the episode is over.
            actions: the actions of the next state, if it is new and does not have all actions.
            action: the action taken, if it is not the recommended one. The outcome then counts for
                that action. The choice of another action must not depend on the outcome.

        Returns:
            The next decision, or None if the episode is over.

        Raises:
            Conflict: a different outcome was reported before. Both reports are kept, and the
                outcome counts as missing from then on, for every action that a report names. Later
                outcomes of the same episode also count as missing.

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
        """Return the call that `tell` makes, for `serve`."""
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
        """Record a step whose action was not chosen by the task.

        Without a reward, a next state and done, the outcome is pending: record the step again with
        it, or tell it. If the task recommended another action at this step, the outcome is required
        and counts for the action taken.
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
        """Return the call that `record` makes, for `serve`."""
        name, t = check_episode(episode), check_count("t", t, least=0)
        more = _given(reward=reward, next_state=next_state, done=_checked(done))
        return self._call("record", name, t=t, state=state, action=action, **more)

    def abandon(self, episode: Any, reason: str = "") -> None:
        """Abandon an episode: the outcome of its open decision is missing."""
        self._serve(self.abandoning(episode, reason))

    def abandoning(self, episode: Any, reason: str = "") -> AnyCall:
        """Return the call that `abandon` makes, for `serve`."""
        name = check_episode(episode)
        check_type("reason", reason, str, "a text")
        said = " ".join("".join(x if x.isprintable() else " " for x in reason).split())
        return self._call("abandon", name, reason=said)


def _given(**values: Any) -> dict[str, Any]:
    """The arguments that are not None."""
    return {name: value for name, value in values.items() if value is not None}


def _checked(done: Any) -> bool | None:
    """True, or None for False, which is the default."""
    check_type("done", done := plain(done), bool, "True or False")
    return done or None
