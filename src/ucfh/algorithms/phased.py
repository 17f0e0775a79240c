"""Agents whose policy changes rarely: when a row has been visited often enough.

    n = v = 0
    loop
        plan with the counts n
        follow that policy, counting in v, until some row is due
        learn from v: move the counts of that row, or of all, to n

Between two plans nothing changes but v, so that these agents name the visits that may pass
(`Phased.room`) and run in bulk. Each is a short file: when a row is due, and with what it plans.

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
from ucfh.algorithms.bonus import LINES, check_scale, sets_of, sheet_of, told_rewards
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_count, check_unit
from ucfh.mdp import Problem
from ucfh.transitions import Table

FULL = 2**61
"""A row with this many visits no longer changes anything: counts have no room to double again."""


def next_doubling(n: Ints) -> Ints:
    """The least power of two above n, for visits n (k,): 1 above 0, 2 above 1, 4 above 2 and 3."""
    return np.asarray(1 << np.frexp(n.astype(float))[1].astype(np.int64), np.int64)


def best_rows(table: Table, x: Any) -> Ints:
    """(k, S) the row within a segment at which x (k, R) is highest in each state, lowest on
    ties."""
    top = np.maximum.reduceat(x, table.first[:-1], axis=1)[:, table.state]
    rows = np.where(x == top, np.arange(table.pairs), table.pairs)
    return np.asarray(np.minimum.reduceat(rows, table.first[:-1], axis=1), np.int64)


class Phased(Agent):
    """An agent that plans when some row is due.

    Args:
        problem: what it is told: the rewards, and which states may follow.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        episodes: K, the number of episodes, which it is told in advance.
        scale: a factor of bonus or radius, its square one of numbers of visits; 1 changes nothing.

    Attributes:
        n, v: counts that it plans with, and counts since.
        V: (H+1, S) its optimistic values; Q: (H, R) of pairs, for agents that keep those.
        rows: (H, S) the rows that its policy takes.

    """

    rule = Rule()
    drops = False
    """Whether visits of a row that is due already, later in the same episode, are not counted."""
    by_segment = False
    """Whether each step of an episode is counted separately."""
    kept: tuple[str, ...] = ()
    """Names of the arrays that an agent keeps in addition to its counts."""

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, scale: float = 1.0
    ) -> None:
        problem = problem.by_segment() if self.by_segment else problem
        self.rewards = told_rewards(problem, self.name)
        self.problem, table = problem, problem.table
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.K, self.scale = check_count("episodes", episodes), check_scale(scale)
        self.S, self.A, self.H = table.states * table.segments, table.actions, problem.horizon
        self.sheet = sheet_of(problem, self.rewards)
        self.n, self.v = Counts.zero(problem), Counts.zero(problem)
        self.terms = np.zeros((len(LINES), table.rows))
        left = np.arange(self.H, 0, -1.0)[:, None]
        self.Q = np.broadcast_to(left, (self.H, table.pairs)).copy()
        self.V = np.zeros((self.H + 1, table.states))
        self.rows = np.zeros((self.H, table.states), np.int64)
        self.outlook = kernels.Outlook(self.Q, self.V, np.zeros_like(self.V), self.rows)
        self.prepare()
        self.plan()

    def prepare(self) -> None:
        """Set up what else an agent needs, before it plans for the first time."""

    @abstractmethod
    def room(self) -> Ints:
        """(rows - 1,) visits until each pair is due: `NEVER` if it never is, 0 if it is now."""

    def coefficients(self, n: Floats) -> dict[str, Floats]:  # noqa: ARG002
        """Those of the bonus after n (k,) visits, n >= 1, by their names in `LINES`; scaled."""
        return {}

    def learn(self, due: Ints) -> None:
        """Take what was counted of the rows that are due."""
        for row in due:
            self.v.move_row(int(row), self.problem.table, to=self.n)

    def sweep(self) -> None:
        """Find V (H+1, S) and rows (H, S); rows without visits are worth all that is left."""
        n = self.n.visits
        bonus = self.coefficients(np.maximum(n, 1.0))
        for name, x in bonus.items():
            self.terms[LINES[name]] = x
        kernels.plan(
            self.sheet, self.rule, self.terms, sets_of(self.terms, bonus), self.n.arrays,
            np.zeros((0, 0)), self.outlook,
        )  # fmt: skip

    def plan(self) -> None:
        """Plan with what was learned."""
        started = perf_counter()
        self.sweep()
        self.planning_seconds += perf_counter() - started
        self.policy = self.problem.table.policy_of(self.rows)
        self.optimistic = self.problem.optimistic_start_value(self.V[0])

    def limits(self) -> Limits:
        """Until some row is due."""
        return Limits(np.append(self.room(), NEVER), drop_surplus=self.drops)

    def observe(self, seen: Counts) -> bool:
        """Count; learn and plan if a row is due."""
        self.v.add(seen)
        due = np.flatnonzero(self.room() <= 0)
        if not due.size:
            return False
        self.updated = int(due[0])
        self.learn(due)
        self.plan()
        return True

    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {**super().settings(), "episodes": self.K}

    def visits_of(self, row: int) -> int:
        """n of a row."""
        return int(self.n.visits[row])

    def state(self) -> dict[str, Any]:
        """Counts, and what else an agent keeps; the plan follows from them."""
        kept = {x: getattr(self, x).copy() for x in self.kept}
        return {**self.n.state("n"), **self.v.state("v"), **kept, "updated": self.updated}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned, and plan."""
        self.n.restore("n", state)
        self.v.restore("v", state)
        for x in self.kept:
            getattr(self, x)[...] = state[x]
        self.updated = int(state["updated"])
        self.plan()


class Threshold(Phased):
    """An agent for which m visits to a row are enough.

    Attributes:
        m: how many; a radius c times as large is reached by c^2 times as many, so ``scale`` enters
            by its square.

    """

    drops = True

    def prepare(self) -> None:
        """Find m."""
        self.m = max(1, ceil(self.scale**2 * self.enough()))
        if self.m > FULL:
            raise InputError(
                f"{self.name} needs {self.m:.3g} visits to a pair at epsilon = "
                f"{self.epsilon:g}, more than 64-bit counts hold: pass a larger epsilon, or a "
                f"scale of at most {0.99 * self.scale * (FULL / self.m) ** 0.5:.2g}"
            )

    @abstractmethod
    def enough(self) -> float:
        """The number of visits m, at scale 1."""
