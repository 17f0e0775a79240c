"""Confidence sets of whole transition models, from counts, and planning over them.

    paper, kl        intervals of single probabilities (`intervals.py`)         at doublings of n
    l1               |p - p^|_1 <= sqrt(2 ln((2^C - 2) R j(j+1)/delta) / n)     at doublings of n
    kt               n kl(p^, p) <= ln(M/delta) + excess, for single probabilities     always
    kl-ball          n KL(p^, p) <= ln(R/delta) + (C-1) ln(e (1 + n/(C-1)))            always
    kt-ball          n KL(p^, p) <= ln(R/delta) + excess, under Dirichlet(1/2)         always

M counts the single probabilities that have to be bounded (C a row, one where C = 2, none where
C = 1), R the rows with more than one successor; means of unknown rewards count as one more each.
Sets that hold at doublings use the j-th update of a row with budget delta/(j(j+1)), whose n
must not depend on the data: visits beyond the doubling are dropped. The others are confidence
sequences, by Ville's inequality (`ucfh._kernels.mixtures`; the bound of kl-ball is that of Jonsson
et al. 2020 for the same kind of martingale).

Optimistic planning breaks ties between actions towards the one visited least.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ucfh._kernels import kl_ball, l1
from ucfh._kernels.interval import expectation
from ucfh._kernels.kl import kl_reach
from ucfh._kernels.mixtures import binary_excess, excess, portfolio_regret
from ucfh._kernels.types import PlanArrays
from ucfh._utils.arrays import Floats, Ints
from ucfh.confidence.intervals import SETS as INTERVALS
from ucfh.confidence.intervals import Box
from ucfh.counts import Counts
from ucfh.exceptions import check_unit, unknown
from ucfh.mdp import Problem
from ucfh.planning import extended_value_iteration
from ucfh.transitions import Rewards

AT_DOUBLINGS = ("paper", "kl", "l1")
ALWAYS = ("kt", "kl-ball", "kt-ball")
PREFERENCE = 1e-10
"""Reduction of the reward of an action per rank of its visits, so that ties go to the least
visited."""


class ModelSet:
    """Confidence sets of one kind, and planning over them.

    Args:
        problem: the known part of the model.
        delta: the probability with which the true model may ever lie outside.
        kind: a name of `AT_DOUBLINGS` or `ALWAYS`.

    """

    def __init__(self, problem: Problem, delta: float, kind: str) -> None:
        if kind not in AT_DOUBLINGS + ALWAYS:
            raise unknown("confidence set", kind, AT_DOUBLINGS + ALWAYS)
        self.problem, self.kind = problem, kind
        self.delta = check_unit("delta", delta)
        table = problem.table
        C = table.lengths.copy()
        if problem.initial is not None:
            C[-1] = 1  # known, so there is nothing to bound
        self._C = C
        self._certain = C <= 1
        rewards = int(problem.reward_unknown.sum())
        self._intervals = max(1, int(np.where(C > 2, C, C - 1).sum()) + rewards)
        self._rows = max(1, int((C > 1).sum()) + rewards)
        self.box: Box | None = None
        self._eta = np.ones(table.rows)
        self._reward_bounds = np.zeros(table.start), np.ones(table.start)

    def learn(self, n: Counts, updates: Ints) -> None:
        """Compute the sets from counts; updates (rows,) is the number of updates of each row."""
        j = np.maximum(updates, 1)
        delta = self.delta / (j * (j + 1)) if self.kind in AT_DOUBLINGS else self.delta + 0.0 * j
        visits = np.maximum(n.visits, 1).astype(float)
        if self.kind in ("paper", "kl", "kt"):
            self._bound_entries(n, visits, delta / self._intervals)
        else:
            self._bound_rows(n, visits, delta / self._rows)

    def _bound_entries(self, n: Counts, visits: Floats, delta_1: Floats) -> None:
        """Compute the intervals of all entries, a box."""
        table, problem = self.problem.table, self.problem
        of = table.row_of_entry
        p_hat = n.successors / visits[of]
        lo, hi = self._intervals_of(p_hat, visits[of], delta_1[of])
        unseen = n.visits[of] == 0
        lo, hi = np.where(unseen, 0.0, lo), np.where(unseen, 1.0, hi)
        certain = self._certain[of]
        one = table.lengths[of] == 1
        start = problem.initial[table.indices] if problem.initial is not None else np.ones(len(of))
        lo, hi = (np.where(certain, np.where(one, 1.0, start), x) for x in (lo, hi))
        r_lo, r_hi = self._bound_rewards(n, visits, delta_1)
        self.box = Box(lo, hi, np.append(r_lo, 0.0), np.append(r_hi, 1.0))

    def _intervals_of(self, p: Floats, n: Floats, delta_1: Floats) -> tuple[Floats, Floats]:
        if self.kind == "kt":
            budget = -np.log(delta_1) + binary_excess(np.round(p * n), n)
            return _kl_interval(p, n, budget)
        # the sets take a scalar delta_1: rows with equal numbers of updates share it
        lo, hi = np.zeros_like(p), np.ones_like(p)
        for value in np.unique(delta_1):
            at = delta_1 == value
            lo[at], hi[at] = INTERVALS[self.kind](p[at], n[at], float(value))
        return lo, hi

    def _bound_rows(self, n: Counts, visits: Floats, delta_1: Floats) -> None:
        """Compute the radius of the ball of every row."""
        table, C = self.problem.table, self._C.astype(float)
        if self.kind == "l1":
            with np.errstate(divide="ignore"):
                ways = np.log(np.maximum(np.exp2(np.minimum(C, 1000.0)) - 2.0, 1.0))
            ways = np.where(C > 1000, C * np.log(2.0), ways)
            self._eta = np.sqrt(2.0 * (ways - np.log(delta_1)) / visits)
        elif self.kind == "kl-ball":
            more = np.maximum(C - 1, 1.0)
            self._eta = (more * (1.0 + np.log1p(visits / more)) - np.log(delta_1)) / visits
        else:
            beyond = np.zeros(table.rows)
            excess(table.indptr, n.successors, n.visits, False, beyond)
            self._eta = (beyond - np.log(delta_1)) / visits
        self._eta = self._eta * (1 + 1e-12)
        self._counts = n
        self._reward_bounds = self._bound_rewards(n, visits, delta_1)

    def _bound_rewards(self, n: Counts, visits: Floats, delta_1: Floats) -> tuple[Floats, Floats]:
        """Return (rows - 1,) bounds of the mean rewards; 0 and 1 where they are known."""
        seen, few = n.visits[:-1] > 0, visits[:-1]
        if self.problem.rewards is not None:
            return np.zeros(len(few)), np.ones(len(few))
        mean = np.clip(n.reward_sums(self.problem.table)[:-1] / few, 0.0, 1.0)
        budget = np.log(2.0 / delta_1[:-1])  # Chernoff's bound, at an n fixed in advance
        if self.kind in ALWAYS:
            budget = -np.log(delta_1[:-1]) + portfolio_regret(few)
        lo, hi = _kl_interval(mean, few, budget)
        hi = np.where(self.problem.reward_unknown, np.where(seen, hi, 1.0), 0.0)
        return np.where(seen, lo, 0.0), hi

    def plan(self, n: Counts, optimistic: bool) -> tuple[Any, float]:
        """Return the optimistic or robust policy (H, S), and a bound of its value at the start."""
        problem, table, H = self.problem, self.problem.table, self.problem.horizon
        rewards = problem.rewards
        if rewards is None:
            r_lo, r_hi = self._reward_bounds
            if self.box is not None:
                r_lo, r_hi = self.box.reward_lo[:-1], self.box.reward_hi[:-1]
            rewards = Rewards((r_hi if optimistic else r_lo).reshape(-1, table.pairs))
        # rounding: each of H steps adds errors of ties between actions, and of the sum over a row,
        # in values of size H
        slack = (2 * kl_ball.TIE + 2.3e-16 * int(table.lengths.max())) * H * (H + 1)
        if optimistic:
            rewards, reduction = self._prefer_unvisited(rewards, n)
            slack += reduction
        if self.box is not None:
            plan = extended_value_iteration(table, self.box.lo, self.box.hi, rewards, H, optimistic)
            policy, V = plan.policy, plan.values
        else:
            V = np.zeros((H + 1, table.states))
            policy = np.zeros((H, table.states), np.min_scalar_type(table.actions - 1))
            kernel: Any = l1.plan if self.kind == "l1" else kl_ball.plan
            kernel(
                table.arrays,
                n.arrays,
                self._eta,
                rewards.pair,
                np.zeros((1, 0)) if rewards.successor is None else rewards.successor,
                1.0 if optimistic else -1.0,
                kl_ball.TIE * H,
                PlanArrays(V, policy),
            )
        if optimistic:
            return policy, min(self._at_start(V, n, 1.0) + slack, float(H))
        return policy, max(self._at_start(V, n, -1.0) - slack, 0.0)

    def _prefer_unvisited(self, rewards: Rewards, n: Counts) -> tuple[Rewards, float]:
        """Return rewards reduced by `PREFERENCE` per rank of visits, and the loss per episode."""
        table = self.problem.table
        visits = n.visits[:-1].reshape(table.segments, table.pairs)
        order = np.lexsort((visits.sum(0), table.state))
        rank = np.empty(table.pairs)
        rank[order] = np.arange(table.pairs) - table.first[table.state[order]]
        less = PREFERENCE * rank
        return Rewards(rewards.pair - less, rewards.successor), self.problem.horizon * less.max()

    def _at_start(self, V: Floats, n: Counts, sign: float) -> float:
        table, start = self.problem.table, self.problem.initial
        if start is not None:
            return float(start @ V[0])
        if self.box is not None:
            lo, hi = self.box.lo, self.box.hi
            return float(expectation(table.start, table.arrays, lo, hi, V[0], sign))
        row, layout, seen, eta = table.start, table.arrays, n.arrays, self._eta
        if self.kind == "l1":
            return float(l1.reach(row, layout, seen, eta, V[0], np.zeros(0), sign))
        return float(kl_ball.reach(row, layout, seen, eta, V[0], sign))


def _kl_interval(p: Floats, n: Floats, budget: Floats) -> tuple[Floats, Floats]:
    """Return the interval of all q with n kl(p, q) <= budget, rounded outward."""
    c = budget / n * (1 + 1e-12)
    lo, hi = p - kl_reach(1 - p, p, c), p + kl_reach(p, 1 - p, c)
    return np.maximum(lo - 1e-15 * p, 0.0), np.minimum(hi + 1e-15 * hi, 1.0)
