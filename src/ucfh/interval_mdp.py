"""Interval MDPs, with bounds of the transition probabilities, for planning."""

from __future__ import annotations

from dataclasses import dataclass
from math import frexp
from typing import TYPE_CHECKING

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh._utils.memory import check_memory
from ucfh._utils.validation import check_truth
from ucfh.mdp import MDP, Problem
from ucfh.transitions import Rewards, Table

if TYPE_CHECKING:
    from ucfh.planning import Plan


@dataclass(frozen=True, eq=False)
class IntervalMDP:
    """An interval MDP, for planning; agents cannot be run on it.

    Attributes:
        problem: the table of successors, the horizon and the names; the rewards are not in it.
        rewards: at least 0, in any unit; values have the same unit.
        initial: (S,) the start distribution.
        lo, hi: (entries,) bounds of the probabilities over the table; one array, not two, where
            the probabilities are known.
        note: a remark to show with results.

    """

    problem: Problem
    rewards: Rewards
    initial: Floats
    lo: Floats
    hi: Floats
    note: str = ""

    @property
    def table(self) -> Table:
        """The successors of each row; the last row is the start."""
        return self.problem.table

    @property
    def horizon(self) -> int:
        """H."""
        return self.problem.horizon

    @property
    def exact(self) -> bool:
        """True if the probabilities are known."""
        return self.lo is self.hi

    def plan(self, optimistic: bool = True, threads: int | None = None) -> Plan:
        """Return the optimistic or robust policy (H, S) and its values (H+1, S).

        Args:
            optimistic: True for the best model between the bounds, False for the worst; where
                the probabilities are known, both are exact planning.
            threads: the number of threads; None: all cores where that is faster. The result is the
                same.

        """
        from ucfh.planning import Plan, extended_value_iteration

        check_truth("optimistic", optimistic)
        S, H = self.table.states, self.horizon
        action = np.min_scalar_type(self.table.actions - 1).itemsize
        check_memory(f"a plan of {H} steps in {S} states", 8 * (H + 1) * S + action * H * S)
        exponent = self._exponent()
        rewards = self._scaled(-exponent)
        if self.exact:
            problem = Problem._of(**{**vars(self.problem), "rewards": rewards})
            plan = MDP._of(problem, self.lo, None, "").optimal()
        else:
            plan = extended_value_iteration(
                self.table, self.lo, self.hi, rewards, H, optimistic=optimistic, threads=threads
            )
        return Plan(plan.policy, np.ldexp(plan.values, exponent, out=plan.values))

    def at_start(self, values: Floats) -> float:
        """Return the mean of V_1 over the start; values (H+1, S)."""
        return float(self.initial @ values[0])

    def _exponent(self) -> int:
        """Return the least e for which 2^e is at least an upper bound of the rewards."""
        largest = float(self.rewards.pair.max())
        if self.rewards.successor is not None:
            body = self.table.indptr[self.table.start]  # there are no rewards at the start
            largest += float(self.rewards.successor[:, :body].max())
        mantissa, exponent = frexp(largest)
        return exponent - (mantissa == 0.5)

    def _scaled(self, exponent: int) -> Rewards:
        """Return the rewards times 2^exponent, which is exact.

        The tolerance for ties in planning assumes values of rewards in [0, 1].
        """
        if exponent == 0:
            return self.rewards
        pair, successor = self.rewards.pair, self.rewards.successor
        return Rewards(
            np.ldexp(pair, exponent), None if successor is None else np.ldexp(successor, exponent)
        )
