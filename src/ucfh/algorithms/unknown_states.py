"""The certified agent for an unknown state space.

    loop
        plan from the data: V* <= upper, V^pi >= lower for a policy pi
        stop if pi is known to be within epsilon of optimal, or if bounds contradict each other
        follow a policy for 2% more episodes; in states discovered meanwhile, take the first action

It is `ucfh.CertifiedUCFH` with the bounds of `ucfh.confidence.unknown_states`: states, successors,
rewards and the start are learned, and memory is used for observed ones only. Rewards are in [0, 1]
here; `ucfh.envs` rescales them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.exploration import GapExploration
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.counts import ScoringRule, due_after
from ucfh.sparse_counts import LOST, SparseCounts, Steps


class UnknownStatesUCFH:
    """An agent that stops once its policy is certified epsilon-optimal, with probability 1 - delta.

    Args:
        horizon: H.
        actions: A, the largest number of actions of a state.
        epsilon: the largest acceptable loss per episode.
        delta: the probability that the certificate may be wrong, in (0, 1].
        segments: the first step of each segment after the first; see `ucfh.sparse_counts`.
        max_return: the largest sum of the rewards of an episode; None: H.
        after_end: reward of each step after the end of an episode.
        without: components to switch off; see `ucfh.confidence.value_bounds.COMPONENTS`.

    Attributes:
        experience: the counts.
        exploration: the bounds, and the policy to follow next.
        done: whether the agent has stopped.

    """

    def __init__(
        self,
        horizon: int,
        actions: int,
        epsilon: float,
        delta: float,
        *,
        segments: Sequence[int] = (),
        max_return: float | None = None,
        after_end: float = 0.0,
        without: tuple[str, ...] = (),
    ) -> None:
        self.epsilon, self.delta = epsilon, delta
        self.experience = SparseCounts(horizon, actions, segments)
        self.best = UnknownStateBounds(horizon, delta, max_return, after_end, without)
        self.exploration = GapExploration(self.best, epsilon, self.experience)
        self._planned = 0

    @property
    def done(self) -> bool:
        """True if the policy is certified, or the assumptions are refuted."""
        return self.exploration.gap <= self.epsilon or self.exploration.contradiction is not None

    @property
    def episodes_left(self) -> int:
        """Number of episodes until the next plan."""
        return max(1, due_after(self._planned) - self.experience.episodes)

    @property
    def actions(self) -> Ints:
        """(H, S) actions to take next, in the states known at the last plan."""
        return self.best.actions_of(self.exploration.following)

    @property
    def policy(self) -> Ints:
        """(H, S) actions of the policy whose value is bounded."""
        return self.best.actions_of(self.exploration.certified)

    def observe(self, steps: Steps) -> bool:
        """Count steps, and replan if that is due.

        Args:
            steps: the steps of the episodes since the last call.

        Returns:
            True if the agent has replanned.

        """
        rule = self.exploration.scoring_rule
        self.experience.add(steps)
        if rule is not None:
            self.exploration.score(self.scores(steps, rule))
        if self.experience.episodes < due_after(self._planned):
            return False
        self.plan()
        return True

    def plan(self) -> None:
        """Plan from all data."""
        self._planned = self.experience.episodes
        self.exploration.learn(self.experience)

    def scores(self, steps: Steps, rule: ScoringRule) -> Floats:
        """Return the score (k,) of each episode: its return while it follows the frozen policy.

        From the first deviation, the score is the leaving value, or 0 in a state discovered since.
        An episode that was truncated, or with a missing outcome, scores its known rewards.
        """
        data, known = self.experience, rule.rows.shape[1]
        old = np.minimum(steps.state, known - 1)
        first = data.pairs.first[steps.state] * data.P + data.segment[steps.t]
        frozen = np.where(steps.state < known, rule.rows[steps.t, old], first)
        deviates = data.rows_of(steps.t, steps.state, steps.action) != frozen
        episode = np.cumsum(steps.t == 0) - 1
        begins = np.flatnonzero(steps.t == 0)
        deviations = np.cumsum(deviates)
        deviations -= (deviations - deviates)[begins][episode]
        scores = np.where((deviations == 0) & ~np.isnan(steps.reward), steps.reward, 0.0)
        leaving = np.where(steps.state < known, rule.leaving[steps.t, old], 0.0)
        scores += np.where(deviates & (deviations == 1), leaving, 0.0)
        ended = self.best.terminal_values[steps.t + 1, np.minimum(steps.following, known - 1)]
        over = (deviations == 0) & (steps.following < known) & (steps.following != LOST)
        scores += np.where(over, ended, 0.0)  # rewards after the end
        return np.bincount(episode, scores, len(steps.starts)).astype(float)

    def state(self) -> dict[str, Any]:
        """Return the learned state as arrays by name."""
        own = {"planned": self._planned, "missing": self.best.missing.copy()}
        return {**self.experience.state(), **self.exploration.state(), **own}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.experience.restore(state)
        self.exploration.restore(state, self.experience)
        self.best.missing = state["missing"].copy()
        self.best.update(self.experience)
        self._planned = int(state["planned"])
