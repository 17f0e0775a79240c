"""The protocol of calls on a task, each within one transaction.

    ask     the open decision, or the next one; the first begins the episode
    tell    the outcome of a decision, and the next decision
    record  a decision that the task did not make, with or without its outcome

A repeated call has the same answer. A different report of the same step is rejected. If it reports
another outcome, it is recorded as a conflict, and the outcome counts as missing
(`ucfh.tasks.delayed_outcomes`).

An episode follows its first policy, the newest at its beginning, until there is a policy from twice
as many outcomes. In a state that its policy does not know, it takes the first action.

An open decision expires at its deadline: a later outcome is kept as an error record, and not
counted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from numbers import Real
from typing import Any, NamedTuple

from ucfh.envs.spaces import plain, short
from ucfh.exceptions import check_count, wrong_type
from ucfh.rewards import ROUNDING
from ucfh.sparse_counts import END, LOST
from ucfh.tasks.config import Declaration, check_length
from ucfh.tasks.errors import (
    Conflict,
    EpisodeOver,
    ErrorRecord,
    InvalidReport,
    OutOfOrder,
    UnknownEpisode,
    concise,
)
from ucfh.tasks.label_cache import LabelCache
from ucfh.tasks.records import (
    ABANDONED,
    BY_PERSON,
    DECISION,
    EXPIRED,
    OUTCOME,
    DecisionRecord,
    LastEvent,
)
from ucfh.tasks.store import Transaction


@dataclass(frozen=True)
class Decision:
    """The action of step t, counted from 0, of an episode in a state.

    ``policy`` is the number of the policy that chose it; 0: there was no policy yet, -1: the action
    was not chosen by the task.
    """

    episode: str
    t: int
    state: Any
    action: Any
    policy: int


class LateAnswer(NamedTuple):
    """The answer to an outcome that came too late."""

    message: str


class TaskProtocol:
    """The protocol of one task.

    Attributes:
        cache: the cached states, actions and policies.

    """

    def __init__(self, declaration: Declaration) -> None:
        self.cache = LabelCache(declaration)
        self._task, self._timeout = declaration.name, declaration.timeout
        self._expiry = declaration.on_timeout

    def ask(
        self, tx: Transaction, name: str, state: Any, actions: Any = None, t: int | None = None
    ) -> Decision | EpisodeOver:
        """Return the decision of an episode at step t, by default the current one.

        An `EpisodeOver` is returned, not raised, if the decision has just expired: so the expiry is
        committed.
        """
        last = self._last(tx, name)
        due = 0 if last is None else last.t + last.kind
        if t is not None and t > due:
            raise OutOfOrder(f"episode {name!r} is at step {due}, not {t}: tell the steps in order")
        if last is None:
            s = self.cache.find_state(tx, state, actions, name, 0)
            if self.cache.states.actions[s] == ():
                raise InvalidReport(
                    f"episode {name!r} cannot begin in state {self.cache.states.texts[s]}, which "
                    "has no actions: there is nothing to decide"
                )
            return self._decide(tx, name, tx.begin(name, tx.newest), 0, s, tx.newest)
        if t is not None and t < due:
            decision, _, note = tx.step(last.episode, t)
            assert decision is not None
            self.cache.load_states(tx, decision.state)
            s = self.cache.find_state(tx, state, actions, name, t)
            self._check_is_in(decision.state, s, name, t)
            if note is not None:  # nobody told what came of it, and nobody can now
                raise self._episode_over(name, t, note)
            return self._decision(name, t, s, decision.action, decision.policy)
        self._check_goes_on(last, name)
        s = self.cache.find_state(tx, state, actions, name, due)
        self._check_is_in(last.state, s, name, due)
        if last.kind == OUTCOME:
            return self._decide(tx, name, last.episode, due, s, tx.newest)
        if self._is_overdue(tx, last):
            self._expire(tx, last.episode, name, due)
            return self._episode_over(name, due, EXPIRED)
        return self._decision(name, due, s, last.action, last.policy)

    def tell(
        self,
        tx: Transaction,
        name: str,
        t: int,
        reward: Any,
        state: Any = None,
        done: bool = False,
        actions: Any = None,
        action: Any = None,
    ) -> Decision | LateAnswer | None:
        """Write an outcome and return the next decision; None: the episode is over.

        ``action``: the action taken, if it is not the recommended one.
        """
        with self._contradiction_checked(tx, name, t, reward):
            last = self._last(tx, name)
            if last is None:
                raise self._unknown(name)
            if t > last.t:
                raise OutOfOrder(
                    f"episode {name!r} has no decision at step {t}, its last is at step {last.t}: "
                    "tell the steps in order"
                )
            reward = self.cache.check_reward(reward, name, t)
            if (why := self._too_late(tx, last, name, t)) is not None:
                return self._late(tx, name, t, reward, state, done, why)
            following = self.cache.find_next_state(tx, name, t, state, done, actions)
            decision = None if action is None else tx.step(last.episode, t)[0]
            taken = None if decision is None else self._taken(tx, decision, action, name)
            if last.kind == OUTCOME or last.t > t:
                return self._repeat_answer(tx, last.episode, name, t, reward, following, taken)
            self._check_return(tx, last.episode, name, t, reward, following)
            tx.tell(last.episode, t, following, reward, None, taken)
            if self.cache.is_over(t, following):
                tx.end(last.episode)
                return None
            policy = self.cache.continuing_policy(tx, last.policy)
            return self._decide(tx, name, last.episode, t + 1, following, policy)

    def record(
        self,
        tx: Transaction,
        name: str,
        t: int,
        state: Any,
        action: Any,
        reward: Any = None,
        next_state: Any = None,
        done: bool = False,
    ) -> LateAnswer | None:
        """Write a step whose action the task did not choose, with its outcome if that is known."""
        with self._contradiction_checked(tx, name, t, reward):
            last = self._last(tx, name)
            due, taken = 0 if last is None else last.t + last.kind, None
            if t > due:
                raise OutOfOrder(
                    f"episode {name!r} is at step {due}, not {t}: record, or tell, that first"
                )
            s = self.cache.find_state(tx, state, None, name, t)
            a = self.cache.find_action(action, s)
            known = reward is not None or next_state is not None or done
            reward = self.cache.check_reward(reward, name, t) if known else 0.0
            if last is None:
                episode = tx.begin(name, BY_PERSON)
                tx.decide(episode, t, s, a, BY_PERSON, self._deadline(tx))
            elif last.kind == OUTCOME and t == due:
                self._check_goes_on(last, name)
                self._check_is_in(last.state, s, name, t)
                episode = last.episode
                tx.decide(episode, t, s, a, BY_PERSON, self._deadline(tx))
            else:
                episode = last.episode
                is_open, taken = self._check_taken(tx, episode, name, t, s, a, known)
                if known and (why := self._too_late(tx, last, name, t)) is not None:
                    return self._late(tx, name, t, reward, next_state, done, why)
                if known and not is_open:
                    following = self.cache.find_next_state(tx, name, t, next_state, done, None)
                    self._check_repeated(tx, episode, name, t, reward, following, taken)
                    return None
            if known:
                following = self.cache.find_next_state(tx, name, t, next_state, done, None)
                self._check_return(tx, episode, name, t, reward, following)
                tx.tell(episode, t, following, reward, None, taken)
                if self.cache.is_over(t, following):
                    tx.end(episode)
                else:
                    tx.pause(episode, t)
            return None

    def abandon(self, tx: Transaction, name: str, reason: str) -> None:
        """Abandon an episode: its open decision is missing; idempotent."""
        last = self._last(tx, name)
        if last is None:
            raise self._unknown(name)
        if last.kind == DECISION:
            note = f"{ABANDONED}: {reason}" if reason else ABANDONED
            tx.tell(last.episode, last.t, LOST, None, note)
        elif (last.note or "").startswith(ABANDONED):
            return
        elif self.cache.is_over(last.t, last.state):
            raise EpisodeOver(f"episode {name!r} is over since step {last.t}: nothing to abandon")
        else:
            raise OutOfOrder(
                f"episode {name!r} has no open decision: ask for the next one, or leave it as it is"
            )
        tx.end(last.episode)

    def expire(self, tx: Transaction) -> int:
        """Expire all open decisions whose deadline has passed; returns their number."""
        overdue = tx.overdue()
        for episode, name, t in overdue:
            self._expire(tx, episode, name, t)
        return len(overdue)

    def _last(self, tx: Transaction, name: str) -> LastEvent | None:
        """The last event of an episode, with its state cached."""
        last = tx.last(name)
        if last is not None:
            self.cache.load_states(tx, last.state)
        return last

    def _unknown(self, name: str) -> UnknownEpisode:
        return UnknownEpisode(
            f"task {self._task!r} has no episode {name!r}: check the name, or ask for its first "
            "decision"
        )

    def _check_goes_on(self, last: LastEvent, name: str) -> None:
        if last.kind == OUTCOME and self.cache.is_over(last.t, last.state):
            how = f" ({last.note})" if last.note else ""
            raise EpisodeOver(
                f"episode {name!r} is over since step {last.t}{how}: name another episode"
            )

    def _check_is_in(self, there: int, s: int, name: str, t: int) -> None:
        """Raise `Conflict` if an episode is in another state."""
        if there != s:
            texts = self.cache.states.texts
            raise Conflict(
                f"episode {name!r} is in state {texts[there]} at step {t}, not {texts[s]}: "
                "give that state, or name another episode",
                ErrorRecord("state", name, t, {"state": short(texts[s])}),
            )

    def _check_taken(
        self, tx: Transaction, episode: int, name: str, t: int, s: int, a: int, known: bool
    ) -> tuple[bool, int | None]:
        """Check a recorded step against its decision, with its outcome if that is ``known``.

        Returns whether the decision is open, and the action taken if it is not the recommended one.
        """
        decision, outcome, _ = tx.step(episode, t)
        assert decision is not None
        self.cache.load_states(tx, decision.state)
        self._check_is_in(decision.state, s, name, t)
        replaced = outcome is not None and outcome.taken == a
        if known or replaced or decision.policy == BY_PERSON:
            return outcome is None, self._check_replaced(decision, a, name)
        if decision.action != a:
            actions = self.cache.declaration.actions
            raise Conflict(
                f"at step {t} of episode {name!r} the action {actions[decision.action]} was given. "
                "Fix: report the action that was taken together with its outcome",
                ErrorRecord("action", name, t, {"action": short(actions[a])}),
            )
        return outcome is None, None

    def _taken(
        self, tx: Transaction, decision: DecisionRecord, action: Any, name: str
    ) -> int | None:
        """The number of the action taken, if it is not the recommended one."""
        self.cache.load_states(tx, decision.state)
        return self._check_replaced(decision, self.cache.find_action(action, decision.state), name)

    def _check_replaced(self, decision: DecisionRecord, a: int, name: str) -> int | None:
        """The number of an action taken, if it is not that of a decision by the task.

        Raises:
            Conflict: the step was recorded with another action.

        """
        if a == decision.action:
            return None
        if decision.policy == BY_PERSON:
            actions = self.cache.declaration.actions
            raise Conflict(
                f"step {decision.t} of episode {name!r} was recorded with the action "
                f"{actions[decision.action]}, not {actions[a]}; its outcome counts as missing. "
                "Fix: give each episode its own name",
                ErrorRecord(
                    "outcome",
                    name,
                    decision.t,
                    {"before": f"action {actions[decision.action]}", "action": actions[a]},
                ),
            )
        return a

    def _check_return(
        self, tx: Transaction, episode: int, name: str, t: int, reward: float, following: int
    ) -> None:
        """Raise `InvalidReport` if an outcome takes the return above the declared max_return."""
        if (error := self._above_return(tx, episode, name, t, reward, following)) is not None:
            raise error

    def _above_return(
        self, tx: Transaction, episode: int, name: str, t: int, reward: float, following: int
    ) -> InvalidReport | None:
        """The error of an outcome that takes the return above max_return, else None.

        If rewards may be negative, the return is only known at the end of an episode.
        """
        most, units = self.cache.declaration.max_return, self.cache.declaration.units
        if most is None or (units.low < 0 and not self.cache.is_over(t, following)):
            return None
        total = tx.return_so_far(episode) + reward
        if total <= most + ROUNDING * self.cache.declaration.horizon * units.span:
            return None
        return InvalidReport(
            f"with step {t}, the rewards of episode {name!r} sum to {total:g}, more than the "
            f"declared max_return {most:g}. Fix: create a task with a larger max_return",
            ErrorRecord("return", name, t, {"return": short(total)}),
        )

    def _episode_over(self, name: str, t: int, note: str) -> EpisodeOver:
        return EpisodeOver(f"episode {name!r} is over: step {t} was {note}; name another episode")

    def _repeat_answer(
        self,
        tx: Transaction,
        episode: int,
        name: str,
        t: int,
        reward: float,
        following: int,
        taken: int | None,
    ) -> Decision | None:
        """The answer to a repeated outcome."""
        self._check_repeated(tx, episode, name, t, reward, following, taken)
        if self.cache.is_over(t, following):
            return None
        decision, _, _ = tx.step(episode, t + 1)
        if decision is None:  # it was recorded
            return self._decide(tx, name, episode, t + 1, following, tx.newest)
        return self._decision(name, t + 1, decision.state, decision.action, decision.policy)

    def _check_repeated(
        self,
        tx: Transaction,
        episode: int,
        name: str,
        t: int,
        reward: float,
        following: int,
        taken: int | None,
    ) -> None:
        """Raise `Conflict` if a different outcome is already stored; both are kept."""
        _, outcome, _ = tx.step(episode, t)
        assert outcome is not None
        self.cache.load_states(tx, outcome.following)
        if (outcome.reward, outcome.following, outcome.taken) != (reward, following, taken):
            before = self._outcome(outcome.reward, outcome.following, outcome.taken)
            now = {"before": before, "told": self._outcome(reward, following, taken)}
            if taken is not None:
                now["action"] = self.cache.declaration.actions[taken]
            raise Conflict(
                f"the outcome of step {t} of episode {name!r} was reported before as {before}; it "
                "now counts as missing. Fix: give each episode its own name, and report each "
                "outcome once",
                ErrorRecord("outcome", name, t, now),
            )

    @contextmanager
    def _contradiction_checked(
        self, tx: Transaction, name: str, t: int, reward: Any
    ) -> Iterator[None]:
        """Raise `Conflict` if a report is rejected and contradicts a stored outcome."""
        try:
            yield
        except InvalidReport as error:
            if isinstance(reward, Real | None) and not isinstance(reward, bool):
                self._check_contradiction(tx, name, t, error)
            raise

    def _check_contradiction(
        self, tx: Transaction, name: str, t: int, error: InvalidReport
    ) -> None:
        """Raise `Conflict` if a rejected report contradicts a stored outcome."""
        last = self._last(tx, name)
        if error.kept is None or error.kept.kind == "return" or last is None or t > last.t:
            return
        _, outcome, note = tx.step(last.episode, t)
        if outcome is not None and note is None:
            self.cache.load_states(tx, outcome.following)
            before = self._outcome(outcome.reward, outcome.following, outcome.taken)
            raise Conflict(
                f"the outcome of step {t} of episode {name!r} was reported before as {before}; it "
                f"now counts as missing, as another report contradicts it ({error}). Fix: give "
                "each episode its own name, and report each outcome once",
                ErrorRecord("outcome", name, t, {"before": before, **error.kept.detail}),
            ) from error

    def _too_late(self, tx: Transaction, last: LastEvent, name: str, t: int) -> str | None:
        """The reason why an outcome is too late, or None; an expiry is written."""
        if last.kind == DECISION and last.t == t:
            if not self._is_overdue(tx, last):
                return None
            self._expire(tx, last.episode, name, t)
            return "its deadline had passed"
        _, _, note = tx.step(last.episode, t)
        return None if note is None else f"it was {note}"

    def _late(
        self, tx: Transaction, name: str, t: int, reward: float, state: Any, done: bool, why: str
    ) -> LateAnswer:
        """Keep a late outcome as an error record; its next state is not added."""
        then = "done" if done else f"state {short(self.cache.text_of(state, name, t))}"
        tx.add_error(ErrorRecord("late", name, t, {"told": f"reward {reward!r}, {then}"}))
        said = f"step {t} of episode {name!r} was reported too late ({why})"
        return LateAnswer(concise(f"{said}: kept as a fault, not counted"))

    def _outcome(self, reward: float, following: int, taken: int | None) -> str:
        """Format an outcome."""
        then = "done"
        if following != END:
            then = f"state {short(self.cache.states.texts[following])}"
        by = "" if taken is None else f", action {self.cache.declaration.actions[taken]}"
        return f"reward {reward!r}, {then}{by}"

    def _deadline(self, tx: Transaction) -> float | None:
        return None if self._timeout is None else tx.now + self._timeout

    def _is_overdue(self, tx: Transaction, last: LastEvent) -> bool:
        return self._timeout is not None and last.at + self._timeout <= tx.now

    def _expire(self, tx: Transaction, episode: int, name: str, t: int) -> None:
        """Write the declared timeout outcome.

        It is missing if its reward would take the return above the declared max_return.
        """
        following, reward = LOST, None
        if isinstance(self._expiry, tuple):
            following, reward = (
                self.cache.states.number[self._expiry[0]],
                self._expiry[1],
            )
            above = self._above_return(tx, episode, name, t, reward, following)
            if above is not None and above.kept is not None:
                tx.add_error(above.kept)
                following, reward = LOST, None
        tx.tell(episode, t, following, reward, EXPIRED)
        tx.end(episode)

    def _decide(
        self, tx: Transaction, name: str, episode: int, t: int, s: int, policy: int
    ) -> Decision:
        """Write and return the decision of a policy."""
        a = self.cache.choose(tx, policy, t, s)
        tx.decide(episode, t, s, a, policy, self._deadline(tx))
        return self._decision(name, t, s, a, policy)

    def _decision(self, name: str, t: int, s: int, a: int, policy: int) -> Decision:
        return Decision(name, t, self.cache.states.labels[s], self.cache.actions[a], policy)


def check_episode(episode: Any) -> str:
    """Return the name of an episode."""
    episode = plain(episode)
    if type(episode) is int:
        return str(episode)
    if not isinstance(episode, str) or not episode.strip() or not episode.isprintable():
        raise wrong_type("episode", episode, "a name, such as 'student-17'")
    return check_length("episode", episode)


def check_key(decision: Any) -> tuple[str, int]:
    """Return the episode and the step of a decision."""
    if isinstance(decision, Decision):
        return decision.episode, decision.t
    if not isinstance(decision, tuple | list) or len(decision) != 2:
        raise wrong_type("decision", decision, "a Decision, or its (episode, t)")
    return check_episode(decision[0]), check_count("t", decision[1], least=0)
