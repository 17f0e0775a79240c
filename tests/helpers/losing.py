"""Worlds in which outcomes are lost, for what they are: who failed does not come back to tell."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ucfh import MDP
from ucfh._utils.arrays import Bools
from ucfh.envs.environment import RunOutput
from ucfh.envs.simulated import SteppedMDP
from ucfh.sparse_counts import LOST, SparseCounts, Steps


def lose(steps: Steps, gone: Bools, unpaid: Bools | bool = False) -> Steps:
    """Steps with the outcomes lost where gone (n,); their episodes are not seen any further.

    ``unpaid`` (n,): whether it is not known what was paid, either.
    """
    episode, at = np.cumsum(steps.t == 0), np.arange(len(steps))
    begins = np.flatnonzero(steps.t == 0)
    before = np.append(0, np.cumsum(gone))
    left = before[at] == before[begins][episode - 1]  # nothing was lost earlier in its episode
    reward = np.where(gone & unpaid, np.nan, steps.reward)
    following = np.where(gone, LOST, steps.following)
    return Steps(
        steps.t[left], steps.state[left], steps.action[left], reward[left], following[left],
        steps.starts,
    )  # fmt: skip


class Losing(SteppedMDP):
    """Outcomes are lost with a chance that depends on them.

    Args:
        mdp: the world.
        seed: of all draws.
        share: how often bad outcomes are lost, after which less can be earned than before.
        others: how often all others are.
        unpaid: how often a loss takes with it what was paid.

    """

    def __init__(
        self, mdp: MDP, seed: int, share: float, others: float = 0.0, unpaid: float = 0.5
    ) -> None:
        super().__init__(mdp, seed)
        self.share, self.others, self.unpaid = share, others, unpaid
        self.V = mdp.optimal().values

    def run(
        self, experience: SparseCounts, actions: Sequence[Sequence[int]], episodes: int
    ) -> RunOutput:
        """Run episodes; some outcomes are lost."""
        ran = super().run(experience, actions, episodes)
        steps, n = ran.steps, len(ran.steps)
        of = np.array([0, *(int(str(label)) for label in self.labels[1:])])
        ahead = np.where(steps.following > 0, self.V[steps.t + 1, of[steps.following]], 0.0)
        bad = steps.reward + ahead < self.V[steps.t, of[steps.state]] - 1e-9
        gone = self.rng.random(n) < np.where(bad, self.share, self.others)
        return RunOutput(lose(steps, gone, self.rng.random(n) < self.unpaid), ran.episodes)
