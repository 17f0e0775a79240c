"""Agents whose policy changes rarely: when a state-action pair has enough visits.

    n = v = 0
    loop
        plan with the counts n
        follow that policy, counting in v, until some pair is due
        learn from v: move the counts of that pair, or of all, to n

Between two plans only v changes, so these agents state the visits until a pair is due
(`Phased.visits_left`) and run in bulk.

Where transitions depend on the step, states are pairs (s, t): the S of all formulas is S H then.
"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil
from time import perf_counter
from typing import Any

import numpy as np

from ucfh._kernels import online as kernels
from ucfh._kernels.online import Rule
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.base import Agent
from ucfh.algorithms.bonus import (
    TERMS,
    check_scale,
    confidence_set_terms,
    known_rewards,
    problem_arrays,
)
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_count, check_unit
from ucfh.mdp import Problem
from ucfh.transitions import Table

FULL = 2**61
"""Pairs with this many visits are not updated any more: twice as many would overflow."""


def next_doubling(n: Ints) -> Ints:
    """Return the least power of two above n (k,): 1 above 0, 2 above 1, 4 above 2 and 3."""
    return np.asarray(1 << np.frexp(n.astype(float))[1].astype(np.int64), np.int64)


def best_rows(table: Table, x: Any) -> Ints:
    """Return the pairs (k, S) within a segment with the highest x (k, R) in each state; on ties,
    the lowest."""
    top = np.maximum.reduceat(x, table.first[:-1], axis=1)[:, table.state]
    rows = np.where(x == top, np.arange(table.pairs), table.pairs)
    return np.asarray(np.minimum.reduceat(rows, table.first[:-1], axis=1), np.int64)


class Phased(Agent):
    """An agent that plans when some pair is due.

    Args:
        problem: the known part of the MDP: rewards and possible successors.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        episodes: K, the number of episodes, known in advance.
        scale: a factor of bonuses and radii; numbers of visits are multiplied by its square; 1
            changes nothing.

    Attributes:
        n, v: counts of the current plan, and counts since.
        V: (H+1, S) optimistic values; Q: (H, R) values of pairs, for agents that keep them.
        rows: (H, S) the pairs of the policy.

    """

    rule = Rule()
    drop_surplus = False
    """True to drop visits of a pair that is due already, later in the same episode."""
    by_segment = False
    """True to count each step of an episode separately."""
    learned_arrays: tuple[str, ...] = ()
    """Names of the learned arrays other than the counts."""

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, scale: float = 1.0
    ) -> None:
        problem = problem.by_segment() if self.by_segment else problem
        self.rewards = known_rewards(problem, self.name)
        self.problem, table = problem, problem.table
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.K, self.scale = check_count("episodes", episodes), check_scale(scale)
        self.S, self.A, self.H = table.states * table.segments, table.actions, problem.horizon
        self.arrays = problem_arrays(problem, self.rewards)
        self.n, self.v = Counts.zero(problem), Counts.zero(problem)
        self.terms = np.zeros((len(TERMS), table.rows))
        left = np.arange(self.H, 0, -1.0)[:, None]
        self.Q = np.broadcast_to(left, (self.H, table.pairs)).copy()
        self.V = np.zeros((self.H + 1, table.states))
        self.rows = np.zeros((self.H, table.states), np.int64)
        self.value_arrays = kernels.Outlook(self.Q, self.V, np.zeros_like(self.V), self.rows)
        self.prepare()
        self.plan()

    def prepare(self) -> None:
        """Initialize the constants and arrays of an agent, before its first plan."""

    @abstractmethod
    def visits_left(self) -> Ints:
        """Return the visits (rows - 1,) until each pair is due: `NEVER` if never, 0 if now."""

    def coefficients(self, n: Floats) -> dict[str, Floats]:  # noqa: ARG002
        """Return the scaled coefficients of the bonus after n (k,) visits, n >= 1, by name."""
        return {}

    def learn(self, due: Ints) -> None:
        """Move the counts of the pairs that are due from v to n."""
        for row in due:
            self.v.move_row(int(row), self.problem.table, to=self.n)

    def sweep(self) -> None:
        """Compute V (H+1, S) and rows (H, S) from the counts n."""
        n = self.n.visits
        bonus = self.coefficients(np.maximum(n, 1.0))
        for name, x in bonus.items():
            self.terms[TERMS[name]] = x
        kernels.plan(
            self.arrays, self.rule, self.terms, confidence_set_terms(self.terms, bonus),
            self.n.arrays, np.zeros((0, 0)), self.value_arrays,
        )  # fmt: skip

    def plan(self) -> None:
        """Plan with the counts n."""
        started = perf_counter()
        self.sweep()
        self.planning_seconds += perf_counter() - started
        self.policy = self.problem.table.policy_of(self.rows)
        self.optimistic = self.problem.optimistic_start_value(self.V[0])

    def limits(self) -> Limits:
        """Return the visits until some pair is due."""
        return Limits(np.append(self.visits_left(), NEVER), drop_surplus=self.drop_surplus)

    def observe(self, seen: Counts) -> bool:
        """Count; learn and plan if a pair is due."""
        self.v.add(seen)
        due = np.flatnonzero(self.visits_left() <= 0)
        if not due.size:
            return False
        self.updated = int(due[0])
        self.learn(due)
        self.plan()
        return True

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "episodes": self.K}

    def visits_of(self, row: int) -> int:
        """Return n of a state-action pair."""
        return int(self.n.visits[row])

    def state(self) -> dict[str, Any]:
        """Return the counts and the learned arrays; the plan follows from them."""
        kept = {x: getattr(self, x).copy() for x in self.learned_arrays}
        return {**self.n.state("n"), **self.v.state("v"), **kept, "updated": self.updated}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`, and plan."""
        self.n.restore("n", state)
        self.v.restore("v", state)
        for x in self.learned_arrays:
            getattr(self, x)[...] = state[x]
        self.updated = int(state["updated"])
        self.plan()


class Threshold(Phased):
    """An agent that needs m visits to a pair.

    Attributes:
        m: number of visits, multiplied by ``scale``^2, as radii are proportional to 1/sqrt(n).

    """

    drop_surplus = True

    def prepare(self) -> None:
        """Compute m."""
        self.m = max(1, ceil(self.scale**2 * self.required_visits()))
        if self.m > FULL:
            raise InputError(
                f"{self.name} needs {self.m:.3g} visits to a pair at epsilon = "
                f"{self.epsilon:g}, more than 64-bit counts hold: pass a larger epsilon, or a "
                f"scale of at most {0.99 * self.scale * (FULL / self.m) ** 0.5:.2g}"
            )

    @abstractmethod
    def required_visits(self) -> float:
        """Return the number of visits m at scale 1."""
