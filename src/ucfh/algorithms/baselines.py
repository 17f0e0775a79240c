"""Baselines: epsilon-greedy exploration, uniformly random actions, and the optimal policy.

Simulations record the value of a random policy, a mean over its actions. A runner that follows one
policy (H, S) for an episode gets a new one each time, with the action of each step and state drawn
independently. An episode is never twice in the same step, so its distribution is the same, and the
expected value of that policy is the recorded value.

epsilon-greedy: with probability ``explore`` (not the accuracy epsilon), in each step
independently, a uniformly random action, else that of the optimal policy for
p^ = n(s,a,s')/n(s,a), uniform over the possible successors before the first visit. It has no
guarantee: it may miss rewards that are many steps away.
"""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from ucfh._kernels import random_policies as kernels
from ucfh._kernels.types import EnvironmentArrays, Record, RowPolicy
from ucfh._utils.arrays import Ints
from ucfh.algorithms.base import Agent, LoopResult
from ucfh.algorithms.bonus import SeededAgent
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import MDP, Problem


class EpsilonGreedy(SeededAgent):
    """The optimal policy for p^, mixed with uniformly random actions.

    Args:
        problem: the known part of the MDP: rewards and possible successors.
        epsilon, delta, episodes: accepted for comparisons, without effect.
        seed: the random seed of its actions.
        explore: the probability that a step is random, in (0, 1].

    Attributes:
        greedy: (H, S) the pairs of the optimal policy for p^. V: (H+1, S) its values under p^.

    """

    name = "epsilon-greedy"
    reference = "folklore"
    setting = "any, known rewards; a baseline"
    guarantee = "none"
    constants = "chosen: explore"
    randomized = True

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        episodes: int,
        seed: int = 0,
        explore: float = 0.1,
    ) -> None:
        self.explore = check_unit("explore", explore)
        super().__init__(problem, epsilon, delta, episodes, seed=seed)

    def _prepare(self) -> None:
        p = np.zeros(self.problem.table.entries)
        self.model = kernels.Model(p=p, **self.arrays._asdict())
        self.greedy = np.zeros((self.H, self.S), np.int64)
        self.V = np.zeros((self.H + 1, self.S))

    def _plan(self) -> None:
        self._plan_greedy()
        self.rows = self._draw()
        self._set_policy(self.V[0])

    def _refresh_policy(self) -> None:
        self._plan_greedy()
        self._set_policy(self.V[0])

    def _draw(self) -> Ints:
        """Draw the pairs (H, S) of a policy for one episode."""
        table, u = self.problem.table, self.generator.random((2, self.H, self.S))
        random_rows = (u[0] * np.diff(table.first)).astype(np.int64)
        random_rows += np.arange(self.H)[:, None] * table.stride + table.first[:-1]
        return np.where(u[1] < self.explore, random_rows, self.greedy)

    def _plan_greedy(self) -> None:
        """Compute the optimal policy for p^."""
        kernels.estimate(
            self.model.indptr, self.counts.successors, self.counts.visits, self.model.p
        )
        kernels.sweep(self.model, 0.0, True, self.greedy, self.V)

    def as_model(self, nature: EnvironmentArrays) -> kernels.Model:
        """Return the environment model as these kernels take it."""
        begin, end = nature.indptr[-2:]
        start = np.zeros(self.S)
        start[nature.indices[begin:end]] = nature.p[begin:end]
        return kernels.Model(
            first=self.arrays.first,
            indptr=nature.indptr,
            indices=nature.indices,
            stride=nature.stride,
            p=nature.p,
            r=nature.r,
            extra=np.zeros((1, 0)),
            start=start,
        )

    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        walked, recorded = kernels.learn(
            rng, self.generator, episodes, self.explore, nature, self.as_model(nature), self.model,
            self.counts.arrays, RowPolicy(self.V, self.greedy), self.followed, record,
        )  # fmt: skip
        self.rows[:] = self.greedy
        return walked, recorded

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "explore": self.explore}


class Uniform(EpsilonGreedy):
    """Uniformly random actions.

    Args:
        problem: the known part of the MDP.
        epsilon, delta, episodes: accepted for comparisons, without effect.
        seed: the random seed of its actions.

    """

    name = "uniform"
    constants = "none"

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, seed: int = 0
    ) -> None:
        super().__init__(problem, epsilon, delta, episodes, seed, explore=1.0)

    def _plan_greedy(self) -> None:
        self.V[:-1] = nan

    def follow(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int
    ) -> LoopResult:
        """Return the value of the policy without simulation, as it never changes."""
        del rng, episodes
        V = np.zeros((self.H + 1, self.S))
        value = kernels.sweep(self.as_model(nature), 1.0, False, self.rows, V)
        record = Record(np.zeros(1, np.int64), np.array([value]), np.array([nan]))
        return LoopResult(0, record, self.policy)


class Optimal(Agent):
    """The optimal policy of the true model.

    Args:
        problem: the known part of the MDP.
        epsilon, delta: accepted for comparisons, without effect.
        mdp: the true model.

    """

    name = "optimal"
    reference = "-"
    setting = "known MDP; an upper bound"
    guarantee = "optimal"
    constants = "none"

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, mdp: MDP | None = None
    ) -> None:
        if mdp is None:
            raise InputError("optimal needs the true model: pass mdp, or use an agent such as ucfh")
        self.problem = problem
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        plan = mdp.optimal()
        self.policy, self.optimistic = plan.policy, mdp.at_start(plan.values)

    def limits(self) -> Limits:
        """Return no limits: the policy never changes."""
        return Limits(np.full(self.problem.table.rows, NEVER))

    def observe(self, seen: Counts) -> bool:  # noqa: ARG002
        """Ignore the counts."""
        return False

    def visits_of(self, row: int) -> int:  # noqa: ARG002
        """Return 0: the agent does not count."""
        return 0

    def state(self) -> dict[str, Any]:
        """Return an empty state."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore nothing."""
