"""The certified agent for a world of which nothing is listed in advance.

    loop
        plan from what was seen: V* <= upper, V^pi >= lower for a policy pi
        stop if pi is known to be within epsilon of optimal, or if bounds contradict each other
        follow a policy for 2 % more episodes; in states found meanwhile, take the first action

It is `ucfh.CertifiedUCFH` with the bounds of `ucfh.confidence.unknown_states`: states, successors,
rewards and the start are learned, and only what was seen takes room. Rewards are in [0, 1] here;
`ucfh.envs` rescales them.
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
    """Learns until its policy is certified to be epsilon-optimal, with probability 1 - delta.

    Args:
        horizon: H.
        actions: A, the largest number of actions of a state.
        epsilon: the largest acceptable loss per episode.
        delta: the probability that the certificate may be wrong, in (0, 1].
        segments: the first step of each segment after the first; see `ucfh.sparse_counts`.
        max_return: the largest sum of the rewards of an episode; None: H.
        after_end: what a step pays after the end of an episode.
        without: ideas that are switched off; see `ucfh.confidence.value_bounds.COMPONENTS`.

    Attributes:
        experience: what was seen.
        beliefs: the bounds, and what to do next.
        done: whether it has stopped.

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
        self.beliefs = GapExploration(self.best, epsilon, self.experience)
        self._planned = 0

    @property
    def done(self) -> bool:
        """Whether the policy is certified, or what was assumed is refuted."""
        return self.beliefs.gap <= self.epsilon or self.beliefs.crossing is not None

    @property
    def room(self) -> int:
        """How many episodes to run before it wants to plan again."""
        return max(1, due_after(self._planned) - self.experience.episodes)

    @property
    def actions(self) -> Ints:
        """(H, S) what to do next, in the states that were known when it planned."""
        return self.best.actions_of(self.beliefs.following)

    @property
    def policy(self) -> Ints:
        """(H, S) the actions of the policy that the bounds are about."""
        return self.best.actions_of(self.beliefs.certified)

    def observe(self, steps: Steps) -> bool:
        """Count steps; plan again if that is due, and say whether it was."""
        watch = self.beliefs.watch
        self.experience.add(steps)
        if watch is not None:
            self.beliefs.score(self.scores(steps, watch))
        if self.experience.episodes < due_after(self._planned):
            return False
        self.plan()
        return True

    def plan(self) -> None:
        """Plan from all that was seen."""
        self._planned = self.experience.episodes
        self.beliefs.learn(self.experience)

    def scores(self, steps: Steps, watch: ScoringRule) -> Floats:
        """(k,) the score of each episode: its reward while it takes the watched rows.

        From where it leaves them, the leaving value counts for the rest, or nothing in a state
        found since. An episode that was broken off, or lost, scores what it is known to have
        earned.
        """
        data, known = self.experience, watch.rows.shape[1]
        old = np.minimum(steps.state, known - 1)
        first = data.pairs.first[steps.state] * data.P + data.segment[steps.t]
        kept = np.where(steps.state < known, watch.rows[steps.t, old], first)
        left = data.rows_of(steps.t, steps.state, steps.action) != kept
        episode = np.cumsum(steps.t == 0) - 1
        begins = np.flatnonzero(steps.t == 0)
        so_far = np.cumsum(left)
        so_far -= (so_far - left)[begins][episode]
        earned = np.where((so_far == 0) & ~np.isnan(steps.reward), steps.reward, 0.0)
        leaving = np.where(steps.state < known, watch.leaving[steps.t, old], 0.0)
        earned += np.where(left & (so_far == 1), leaving, 0.0)
        ended = self.best.terminal_values[steps.t + 1, np.minimum(steps.following, known - 1)]
        over = (so_far == 0) & (steps.following < known) & (steps.following != LOST)
        earned += np.where(over, ended, 0.0)  # what is paid after the end
        return np.bincount(episode, earned, len(steps.starts)).astype(float)

    def state(self) -> dict[str, Any]:
        """All that it has learned, as arrays by name."""
        own = {"planned": self._planned, "missing": self.best.missing.copy()}
        return {**self.experience.state(), **self.beliefs.state(), **own}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
        self.experience.restore(state)
        self.beliefs.restore(state, self.experience)
        self.best.missing = state["missing"].copy()
        self.best.update(self.experience)
        self._planned = int(state["planned"])
