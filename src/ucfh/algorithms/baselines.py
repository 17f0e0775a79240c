"""What to compare agents with: random actions, the simplest way of learning, and the optimum.

A random policy is worth its mean over the actions that it may take, and that is the value recorded
in simulations. To anything that follows one policy (H, S) for an episode, such an agent gives a
new one each time, with the action of each step and state drawn independently. As an episode is
never twice in the same step, its distribution is the same; and the value of that policy has the
recorded one as its mean.

epsilon-greedy: with probability ``explore`` (not the accuracy epsilon), in each step
independently, a uniformly random action, else that of the optimal policy for
p^ = n(s,a,s')/n(s,a), all that may follow being equally likely before the first visit. Nothing is
proved about it: it need not find what is many steps away.
"""

from __future__ import annotations

from math import nan
from typing import Any

import numpy as np

from ucfh._kernels import random_policies as kernels
from ucfh._kernels.groups import Chosen, Nature, Record
from ucfh._utils.arrays import Ints
from ucfh.algorithms.base import Agent, LoopResult
from ucfh.algorithms.bonus import SeededAgent
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import MDP, Problem


class EpsilonGreedy(SeededAgent):
    """The best policy for p^, and sometimes a random action.

    Args:
        problem: what it is told: the rewards, and which states may follow.
        epsilon, delta, episodes: what a comparison asks for; they make no difference to it.
        seed: the random seed of its actions.
        explore: the probability that a step is random, in (0, 1].

    Attributes:
        greedy: (H, S) the rows that it prefers. V: (H+1, S) what they would earn, were p^ true.

    """

    name = "epsilon-greedy"
    reference = "folklore"
    setting = "any, known rewards; a baseline"
    guarantee = "none"
    constants = "chosen: explore"
    randomised = True

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
        super().__init__(problem, epsilon, delta, episodes, seed)

    def _prepare(self) -> None:
        p = np.zeros(self.problem.table.entries)
        self.model = kernels.Model(p=p, **self.sheet._asdict())
        self.greedy = np.zeros((self.H, self.S), np.int64)
        self.V = np.zeros((self.H + 1, self.S))

    def _plan(self) -> None:
        self._prefer()
        self.rows = self._draw()
        self._promise(self.V[0])

    def _catch_up(self) -> None:
        self._prefer()
        self._promise(self.V[0])

    def _draw(self) -> Ints:
        """(H, S) the rows of a policy for one episode."""
        table, u = self.problem.table, self.own.random((2, self.H, self.S))
        some = (u[0] * np.diff(table.first)).astype(np.int64)
        some += np.arange(self.H)[:, None] * table.stride + table.first[:-1]
        return np.where(u[1] < self.explore, some, self.greedy)

    def _prefer(self) -> None:
        """Find what is best for p^."""
        kernels.estimate(
            self.model.indptr, self.counts.successors, self.counts.visits, self.model.p
        )
        kernels.sweep(self.model, 0.0, True, self.greedy, self.V)

    def as_model(self, nature: Nature) -> kernels.Model:
        """The world, as the kernels take it here."""
        begin, end = nature.indptr[-2:]
        start = np.zeros(self.S)
        start[nature.indices[begin:end]] = nature.p[begin:end]
        return kernels.Model(
            first=self.sheet.first,
            indptr=nature.indptr,
            indices=nature.indices,
            stride=nature.stride,
            p=nature.p,
            r=nature.r,
            extra=np.zeros((1, 0)),
            start=start,
        )

    def _learn(
        self, rng: np.random.Generator, nature: Nature, episodes: int, record: Record
    ) -> tuple[int, int]:
        walked, recorded = kernels.learn(
            rng, self.own, episodes, self.explore, nature, self.as_model(nature), self.model,
            self.counts.arrays, Chosen(self.V, self.greedy), self.followed, record,
        )  # fmt: skip
        self.rows[:] = self.greedy
        return walked, recorded

    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {**super().settings(), "explore": self.explore}


class Uniform(EpsilonGreedy):
    """Every action is drawn uniformly from those of the state.

    Args:
        problem: what it is told.
        epsilon, delta, episodes: what a comparison asks for; they make no difference to it.
        seed: the random seed of its actions.

    """

    name = "uniform"
    constants = "none"

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, seed: int = 0
    ) -> None:
        super().__init__(problem, epsilon, delta, episodes, seed, explore=1.0)

    def _prefer(self) -> None:
        self.V[:-1] = nan

    def follow(self, rng: np.random.Generator, nature: Nature, episodes: int) -> LoopResult:
        """Simulate nothing: as a random policy it never changes, and its value is known."""
        del rng, episodes
        V = np.zeros((self.H + 1, self.S))
        value = kernels.sweep(self.as_model(nature), 1.0, False, self.rows, V)
        record = Record(np.zeros(1, np.int64), np.array([value]), np.array([nan]))
        return LoopResult(0, record, self.policy)


class Optimal(Agent):
    """The best policy, from the true model.

    Args:
        problem: what it would be told.
        epsilon, delta: what a comparison asks for; they make no difference to it.
        mdp: the true model, which it knows.

    """

    name = "optimal"
    reference = "-"
    setting = "the MDP is known; an upper limit"
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
        """Its policy never changes."""
        return Limits(np.full(self.problem.table.rows, NEVER))

    def observe(self, seen: Counts) -> bool:  # noqa: ARG002
        """Nothing is left to learn."""
        return False

    def visits_of(self, row: int) -> int:  # noqa: ARG002
        """It does not count."""
        return 0

    def state(self) -> dict[str, Any]:
        """Nothing."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing to restore."""
