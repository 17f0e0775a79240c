"""Bounds on V*, on V^pi and on V* - V^pi for a known state space: the tightest implemented here.

All of them hold at all times at once, for every sampling rule and every stopping time. They
rest on one fact. For draws of a row p and a function f fixed in advance, a universal portfolio of
two assets (cash, and a bet against p f being as large as mu) is a martingale under p f = mu. By
Ville's inequality and its regret reg(n), with probability 1 - delta,

    n min { KL(p^, q) : q f >= mu, q on the row's successors } <= ln(1/delta) + reg(n)  for all n;

that is, p f <= max { q f : KL(p^, q) <= (ln(1/delta) + reg(n))/n }, which is monotone in f. The
regret is that of dimension one, whatever the number of successors. With V_{H+1} = 0:

1. Sets for all functions. n KL(p^, p) <= ln(rows/delta) + excess for all rows and n, where the
   excess is that of a mixture over sparse supports (`ucfh._kernels.mixtures`). It bounds the mean
   of any function, also of one that depends on the data, such as V^pi for a data-dependent policy.

2. V* from above and below. V*_{t+1} is a fixed function, so p V*_{t+1} is bounded without a cost
   for each successor. As the bound is monotone, U_{t+1} >= V*_{t+1} may take its place, and
   by induction U_t(s) = max_a r + max q U_{t+1} >= V*_t(s). Only the rows of one optimal policy
   have to hold: one event for each (t, s) that an episode may reach, not for each action. For
   L_t <= V*_t all actions have to. It never bounds the value of a data-dependent policy.

3. V^pi from episodes. Freeze a policy, the j-th; let later episodes follow it, and score each by
   its reward or, if it leaves the policy, by its reward until then plus a leaving value: a lower
   bound (by 1) on the rest of the policy's value. While the leaving values are valid, scores have
   conditional mean at most V^pi; and they are at least 0. So the wealth of bets on them is a
   supermartingale for v >= V^pi, if the score of an episode whose leaving values are too high is
   replaced by 0. That is allowed, as it is decided before the episode begins; it cannot be done in
   practice, and need not be: where 1 holds, no score is replaced. The episodes to score are also
   chosen before they begin. There is no union over states. As all scores are stored, the wealth
   sum_k w_k prod_i (1 + 2^-k (X_i/v - 1)) with weights w_k = 1/((k+1)(k+2)) is computed and not
   bounded by its regret: V^pi >= the largest v at which it reaches j(j+1)/delta.

4. The difference. With D = V* - V^pi, for pi greedy in the empirical model, and b any action,

       Q*_t(s,b) - V^pi_t(s) = [Q*_t(s,b) - Q*_t(s,pi)] + p_pi D_{t+1}            (through V*)
                             = r_b + p_b V*_{t+1} - r_pi - p_pi V^pi_{t+1}        (through V^pi)

   For b = pi it is p_pi D_{t+1}: the uncertainty about rewards and values cancels. Otherwise the
   smaller of the two, with p D bounded by 1, p_b V* and p_pi V* by 2, p_pi V^pi by 1. And
   V^pi = V* - D >= L - D.

5. Overlap. Both lines are of the form F_b(V*) - G_pi(Y) with Y = V* or V^pi, where F bounds from
   above at fixed nu = x + B, F(V) = nu - e^-eta prod (nu - V_j)^p_j, and G likewise from below. So

       F(U) - F(V*) = c [prod (1 + z_j)^p_j - 1] >= sum_j c [(1 + z_j)^p_j - 1]

   with c = nu - F(U) and z_j = (U - V*)_j / (nu - U_j): a sum of functions of (U - V*)_j that are
   concave and 0 at 0; and so for G, of (Y - Y_low)_j. The two arguments of a state sum to at least
   w_j = (U - Y_low - D)_j (or without D, for Y = V*), so that F(U) - G(Y_low) is too large by at
   least the smaller of the two functions at w_j, for each state to which both rows lead: the
   uncertainty about it cancels. A row whose one successor is certain moves by w_j itself.

6. Unknown rewards are part of the outcome (`ucfh.confidence.outcomes`): r + V*(s') is a fixed
   function of it, so 2 bounds reward and transition with one event. For all functions of the
   outcome, the ball is that of the pattern in which outcomes repeat
   (`ucfh._kernels.mixtures.pattern_excess`). Where the rewards of a next state differ, the pattern
   is not informative: then the ball is that of the next states, and the mean mu of the row's
   rewards X is bounded separately, on both sides, by one event: a portfolio of the two assets X/mu
   and (1 - X)/(1 - mu) is a martingale, and the wealth of its best constant mix, from one unit, is
   at least exp(n kl(x, mu)), x the mean of the rewards.

7. Sampling never affects validity; `ucfh.algorithms.exploration` samples the rows with the largest
   effect on the gap.

The parts share delta: with probability 1 - delta, all of them hold at once, always. So bounds that
contradict each other where an episode may be (U < L, or D < 0) refute the assumptions at level
delta; they are reported in `Bounds.contradiction`. Bounds are rounded outward: the mean of a row by
its kernel, the sums over the steps at the start, by `KnownStateBounds.rounding`.

All this is one family of bounds, over one sequence of counts. Another family over the same data,
computed separately, needs its own delta.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels.mixtures import excess, pattern_excess, portfolio_regret
from ucfh._kernels.row_bounds import KNOWN, NOTHING, REWARDS, STATES, Evidence, Pay, Rows
from ucfh._utils.arrays import Bools, Ints
from ucfh.confidence.outcomes import ROUND_UP, mean_reward, outcomes_of
from ucfh.confidence.union_bound import count_events, possible
from ucfh.confidence.value_bounds import ValueBounds
from ucfh.counts import Counts
from ucfh.mdp import Problem

SHARES = {"above": 0.5, "below": 0.1, "all": 0.25, "scores": 0.15}
"""Shares of delta by part; those of unused parts are divided among the others."""

REWARD_SHARES = {"outcomes": 0.15, "rewards": 0.05}
"""Additional shares where rewards are unknown."""


class KnownStateBounds(ValueBounds):
    """Value bounds for a `Problem` with known states, from counts over its table.

    Args:
        problem: the known part of the model.
        delta: the probability with which any of the bounds may ever fail.
        without: components to disable; see `ucfh.confidence.value_bounds.COMPONENTS`.

    Attributes (besides those of `ValueBounds`):
        eta_up, eta_low, eta_all: (rows,) budgets divided by n, for the mean of V* from above and
            below, and for any function of the next state.
        eta_outcomes: (rows,) likewise for any function of next state and reward, by patterns.
        r_up, r_low: (rows,) bounds of the mean reward, where it is unknown.

    """

    def __init__(self, problem: Problem, delta: float, without: tuple[str, ...] = ()) -> None:
        super().__init__(problem.horizon, without)
        self.problem = problem
        shares = SHARES | (REWARD_SHARES if problem.rewards is None else {})
        if not self.enabled["difference"]:
            del shares["below"]
        if not self.enabled["scores"]:
            del shares["scores"]
        # balls of next states alone do not bound rewards
        self._fixed = self.enabled["fixed"] or problem.rewards is None
        if not self._fixed:
            shares["all"] += shares.pop("above") + shares.pop("below", 0.0)
        self.divide_delta(delta, shares)
        for part, events in count_events(problem).items():
            if part in self.costs:
                self.costs[part] += log(events)
        H, S, pairs = problem.horizon, problem.states, problem.table.pairs
        self.U, self.L = np.full((H + 1, S), np.inf), np.zeros((H + 1, S))
        self.U[H] = 0.0
        self.known_start = problem.initial
        starts = 1 if problem.initial is None else int((problem.initial > 0).sum())
        self.rounding = 16.0 * H * (H + starts) * 2.0**-53
        self.roots = [np.zeros((H + 1, k)) for k in (pairs, pairs, S, S)]
        self.terminal_values = np.zeros((H + 1, S))
        self._full = self._full_support()

    def _full_support(self) -> Bools:
        """Return (rows,) True for rows with full support, which list observed successors only."""
        table, rewards = self.problem.table, self.problem.rewards
        by_successor = rewards is not None and rewards.successor is not None
        none = by_successor or table.states == 1
        return np.asarray((table.lengths == table.states) & (not none), bool)

    def possible(self) -> Bools:
        """Return (H, S) True where an episode may be in the state at the step, by the table."""
        return possible(self.problem)

    def budget(self, counts: Counts) -> None:
        """Compute the budgets, divided by n, and the bounds of unknown mean rewards."""
        table, unknown = self.problem.table, self.problem.rewards is None
        n, beyond = np.maximum(counts.visits, 1).astype(float), np.zeros(table.rows)
        where, indptr = self._listed_entries(counts)
        c = counts.successors[where]
        excess(indptr, c, counts.visits, self.enabled["sparse"], beyond, table.lengths)
        self.eta_all = (self.costs["all"] + beyond) / n * ROUND_UP
        if self._fixed:
            regret = portfolio_regret(n)
            self.eta_up = (self.costs["above"] + regret) / n * ROUND_UP
            below = self.costs.get("below", self.costs["above"])
            self.eta_low = (below + regret) / n * ROUND_UP
            if not unknown:
                # all events hold at once, so the smaller of two budgets is valid
                self.eta_up = np.minimum(self.eta_up, self.eta_all)
                self.eta_low = np.minimum(self.eta_low, self.eta_all)
        else:
            self.eta_up = self.eta_low = self.eta_all
        self.eta_outcomes = self.eta_all
        self.r_up, self.r_low = np.zeros(table.rows), np.zeros(table.rows)
        if unknown:
            pattern = np.zeros(table.rows)
            pattern_excess(indptr, c, pattern)
            repeats = np.maximum(counts.visits - distinct(indptr, c), 1)
            self.eta_outcomes = (self.costs["outcomes"] + pattern) / repeats * ROUND_UP
            row = table.row_of_entry[where]
            sums = np.bincount(row, counts.rewards[where], table.rows).astype(float)
            self.r_low, self.r_up = mean_reward(sums, counts.visits, self.costs["rewards"])
            self.r_up[:-1] *= self.problem.reward_unknown
            self.r_up[-1] = 0.0

    def update(self, data: Counts) -> None:
        """Compute the evidence about each row from counts."""
        self.budget(data)
        problem, table, rewards = self.problem, self.problem.table, self.problem.rewards
        where, indptr = self._listed_entries(data)
        H, c, n = problem.horizon, data.successors[where], data.visits
        known = np.zeros(table.rows, KNOWN)
        known["n"] = known["tries"] = known["n_one"] = known["n_outcomes"] = known[
            "n_successors"
        ] = n
        known["eta_up"], known["eta_low"] = self.eta_up, self.eta_low
        known["eta_outcomes"] = known["eta_successors"] = self.eta_all
        known["r_low"], known["r_up"] = self.r_low, self.r_up
        known["ladder"], known["missing"] = -1.0, 1.0
        known["rest"] = np.where(self._full, STATES, NOTHING)
        weight = repeats = c.astype(float)
        bonus = np.zeros((1, 0))
        if rewards is None:
            outcomes = outcomes_of(c, data.rewards[where], data.least[where], data.most[where])
            source = np.arange(table.entries)[where]
            known["noisy"][table.row_of_entry[source[outcomes.noisy]]] = True
            known["rest"][:-1][problem.reward_unknown & ~self._full[:-1]] = REWARDS
            known["eta_outcomes"], known["n_outcomes"] = self.eta_outcomes, n - distinct(indptr, c)
            where, weight, repeats = source[outcomes.source], outcomes.c, outcomes.repeats
            bonus = outcomes.reward[None]
            indptr = np.searchsorted(where, table.indptr)
        elif rewards.successor is not None:
            bonus = np.ascontiguousarray(rewards.successor[:, where])
        known["certain"] = (known["rest"] == NOTHING) & (np.diff(indptr) == 1)
        self.rows = Rows(
            first=table.first,
            action=table.action,
            step=1,
            offset=np.arange(H) * table.stride,
            indptr=indptr,
            indices=table.indices[where],
        )
        self.evidence = Evidence(known=known, one=weight, outcomes=repeats, successors=weight)
        self.pay = Pay(
            r=np.zeros((1, table.pairs)) if rewards is None else rewards.pair,
            bonus=bonus,
            cap=np.arange(H, -1.0, -1.0),
            extra=1.0 if rewards is None else 0.0,
        )

    def _listed_entries(self, counts: Counts) -> tuple[Ints | slice, Ints]:
        """Return the entries that are listed, ascending, and the indptr of the rows among them.

        Rows with full support list observed successors; the others count with the best or worst
        value. All entries are listed where a known reward depends on the next state.
        """
        table = self.problem.table
        if not self._full.any():
            return slice(None), table.indptr
        listed = (counts.successors != 0) | ~self._full[table.row_of_entry]
        return np.flatnonzero(listed), np.append(0, np.cumsum(listed))[table.indptr]


def distinct(indptr: Ints, c: Ints) -> Ints:
    """Return (rows,) the number of distinct successors observed; c (entries,) counts."""
    so_far = np.append(0, np.cumsum(c > 0))
    return np.asarray(so_far[indptr[1:]] - so_far[indptr[:-1]], np.int64)
