"""Nature's side of a simulation: her table, laid over the learner's."""

from __future__ import annotations

import numpy as np

from ucfh._kernels import walk as kernels
from ucfh.agents.base import NEVER, Limits
from ucfh.counts import Counts
from ucfh.errors import InputError
from ucfh.problem import MDP, Problem
from ucfh.table import Bools, Ints


class World:
    """An MDP that produces counts for a learner who was told ``problem``.

    Attributes:
        p: (learner's entries,) the true probabilities, laid over the learner's table.

    """

    def __init__(self, mdp: MDP, problem: Problem) -> None:
        if mdp.horizon != problem.horizon:
            raise InputError(
                f"the learner was told a horizon of {problem.horizon}, the MDP's is {mdp.horizon}: "
                "build it from mdp.problem"
            )
        self.mdp, self.problem = mdp, problem
        self._position = problem.table.positions_of(mdp.table)
        self.p = np.zeros(problem.table.entries)
        self.p[self._position] = mdp.p
        self._cumulative = np.empty_like(mdp.p)
        kernels.cumulate(mdp.table.indptr, mdp.p, self._cumulative)

    def walk(
        self, rng: np.random.Generator, rows: Ints, limits: Limits, episodes: int
    ) -> tuple[int, Counts]:
        """Walk at most so many episodes, taking rows (H, S), until the limits are reached."""
        mdp, table = self.mdp, self.mdp.table
        seen = Counts.zero(self.problem)
        if (limits.visits <= 0).any():
            episodes = 1
        walked = kernels.walk(
            rng,
            episodes,
            rows,
            table.indptr,
            table.indices,
            self._cumulative,
            self._position,
            limits.visits,
            limits.drop_surplus,
            seen.visits,
            seen.successors,
            table.stride,
            mdp.rewards.pair,
            mdp.rewards.successor,
            mdp.noise == "bernoulli",
            seen.rewards if self.problem.rewards is None else None,
        )
        return int(walked), seen

    def is_final(self, rows: Ints, limits: Limits) -> bool:
        """Whether the policy that takes rows (H, S) can never change again.

        So it is when no row that could still change anything can be reached, and none has
        already reached its limit and waits for its turn.
        """
        if limits.episodes is not None or (limits.visits <= 0).any():
            return False
        table = self.mdp.table
        reach: Bools = np.zeros(table.rows, bool)
        kernels.reachable(table.indptr, table.indices, self.mdp.p, rows, reach)
        return not (reach & (limits.visits < NEVER)).any()
