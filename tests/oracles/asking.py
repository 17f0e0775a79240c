"""Asking and telling as obvious as can be: lists in memory, and the rules one after the other."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import ucfh

Answer = tuple[str, int, Any, Any, int] | str | None
"""(episode, t, state, action, policy), the name of an error or "late"; None: it is over."""


@dataclass
class Step:
    """A decision, and what became of it: None, "lost", or (reward, next state or "end")."""

    state: Any
    action: Any
    policy: int
    at: float
    outcome: Any = None
    unsaid: bool = False  # nobody told it: it expired, or was abandoned
    taken: Any = None  # the action that was taken, if it is not the one given


@dataclass
class ObviousTask:
    """A task with one set of actions for every state.

    Attributes:
        policies: by number, how many outcomes it was made from, and its one action.

    """

    actions: list[str]
    horizon: int
    timeout: float
    now: float = 0.0
    episodes: dict[str, list[Step]] = field(default_factory=dict)
    policies: list[tuple[int, str]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.policies.append((0, self.actions[0]))

    def _over(self, steps: list[Step]) -> bool:
        last = steps[-1].outcome
        if last is None:
            return False
        return last == "lost" or last[1] == "end" or len(steps) == self.horizon

    def _answer(self, episode: str, t: int) -> Answer:
        step = self.episodes[episode][t]
        return episode, t, step.state, step.action, step.policy

    def _decide(self, episode: str, state: Any, policy: int) -> Answer:
        steps = self.episodes.setdefault(episode, [])
        steps.append(Step(state, self.policies[policy][1], policy, self.now))
        return self._answer(episode, len(steps) - 1)

    def _expire(self, step: Step) -> bool:
        if step.outcome is None and step.at + self.timeout <= self.now:
            step.outcome, step.unsaid = "lost", True
            return True
        return False

    def ask(self, episode: str, state: Any) -> Answer:
        newest = len(self.policies) - 1
        if episode not in self.episodes:
            return self._decide(episode, state, newest)
        steps = self.episodes[episode]
        if self._over(steps):
            return "EpisodeOver"
        last = steps[-1]
        there = last.state if last.outcome is None else last.outcome[1]
        if there != state:
            return "Conflict"
        if last.outcome is not None:
            return self._decide(episode, state, newest)
        return "EpisodeOver" if self._expire(last) else self._answer(episode, len(steps) - 1)

    def tell(self, episode: str, t: int, reward: float, state: Any) -> Answer:
        if episode not in self.episodes:
            return "UnknownEpisode"
        steps = self.episodes[episode]
        if t >= len(steps):
            return "OutOfOrder"
        step = steps[t]
        if self._expire(step) or step.unsaid:
            return "late"
        if step.outcome is None:
            step.outcome = reward, state
            if self._over(steps):
                return None
            newest, mine = len(self.policies) - 1, step.policy
            if mine >= 0:
                now, then = self.policies[newest][0], self.policies[mine][0]
            if mine < 0 or (now >= 2 * then and now > then):
                mine = newest
            return self._decide(episode, state, mine)
        if step.outcome != (reward, state) or step.taken is not None:
            return "Conflict"
        if state == "end" or t + 1 == self.horizon:
            return None
        if t + 1 == len(steps):  # it was recorded
            return self._decide(episode, state, len(self.policies) - 1)
        return self._answer(episode, t + 1)

    def record(
        self, episode: str, t: int, state: Any, action: str, outcome: tuple[float, Any] | None
    ) -> Answer:
        steps = self.episodes.get(episode, [])
        due = 0
        if steps:
            due = len(steps) - 1 if steps[-1].outcome is None else len(steps)
        if t > due:
            return "OutOfOrder"
        if t == len(steps):
            if steps and self._over(steps):
                return "EpisodeOver"
            if steps and steps[-1].outcome[1] != state:
                return "Conflict"
            steps = self.episodes.setdefault(episode, steps)
            steps.append(Step(state, action, -1, self.now, outcome))
            return None
        step = steps[t]
        if step.state != state:
            return "Conflict"
        if outcome is None:
            return None if action in (step.action, step.taken) else "Conflict"
        taken = None if action == step.action else action
        if taken is not None and step.policy == -1:
            return "Conflict"
        if self._expire(step) or step.unsaid:
            return "late"
        if step.outcome is None:
            step.outcome, step.taken = outcome, taken
        return None if (step.outcome, step.taken) == (outcome, taken) else "Conflict"

    def abandon(self, episode: str) -> Answer:
        if episode not in self.episodes:
            return "UnknownEpisode"
        steps = self.episodes[episode]
        last = steps[-1]
        if last.outcome is None:
            last.outcome, last.unsaid = "lost", True
            last.at = -1.0  # by hand, and not by time
            return None
        if last.unsaid and last.at == -1.0:
            return None
        return "EpisodeOver" if self._over(steps) else "OutOfOrder"

    def expire(self) -> int:
        return sum(self._expire(steps[-1]) for steps in self.episodes.values())


def answer_of(decision: ucfh.Decision | None) -> Answer:
    """A decision in the same words."""
    if decision is None:
        return None
    return decision.episode, decision.t, decision.state, decision.action, decision.policy
