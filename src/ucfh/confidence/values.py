"""The tightest bounds known here on V*, on what a policy earns, and on the difference of the two.

All of them hold at all times at once, however samples are chosen and whenever one stops. They
rest on one fact. For draws of a row p and a function f fixed in advance, a universal portfolio of
two assets (cash, and a bet against p f being as large as mu) is a martingale under p f = mu. By
Ville's inequality and its regret reg(n), with probability 1 - delta,

    n min { KL(p^, q) : q f >= mu, q on the row's successors } <= ln(1/delta) + reg(n)  for all n;

that is, p f <= max { q f : KL(p^, q) <= (ln(1/delta) + reg(n))/n }, which is monotone in f. The
price is one of dimension one, whatever the number of successors. With V_{H+1} = 0:

1. Sets for all functions. n KL(p^, p) <= ln(rows/delta) + excess for all rows and n, where the
   excess is that of a mixture over sparse supports (`ucfh._kernels.mixtures`). It bounds the mean
   of any function, also of one that depends on the data, such as V^pi for a policy found in them.

2. V* from above and below. V*_{t+1} is a fixed function, so p V*_{t+1} is bounded without the
   price of the successors. As the bound is monotone, U_{t+1} >= V*_{t+1} may take its place, and
   by induction U_t(s) = max_a r + max q U_{t+1} >= V*_t(s). Only the rows of one optimal policy
   have to hold: one event for each (t, s) that an episode may reach, not for each action. For
   L_t <= V*_t all actions have to. It never bounds the value of a policy found in the data.

3. What a policy earns, from episodes. Freeze a policy, the j-th; let later episodes follow it, and
   score each by its reward or, if it leaves the policy, by its reward until then plus a leaving
   value: a bound from below (by 1) on what the policy would still have earned. While the leaving
   values are right, scores have conditional mean at most V^pi; and they are at least 0. Betting
   on them is a losing game for v >= V^pi, if the score of an episode whose leaving values are too
   high is replaced by 0. That is allowed, as it is decided before the episode begins; it cannot be
   done in practice, and need not be: where 1 holds, no score is replaced. Which episodes are scored
   is decided before they begin, too. There is no union over states. As all scores are at hand, the
   wealth of bets on them, sum_k w_k prod_i (1 + 2^-k (X_i/v - 1)) with weights
   w_k = 1/((k+1)(k+2)), is computed and not bounded by its regret: V^pi >= the largest v at which
   it reaches j(j+1)/delta.

4. The difference. With D = V* - V^pi, for pi greedy in the empirical model, and b any action,

       Q*_t(s,b) - V^pi_t(s) = [Q*_t(s,b) - Q*_t(s,pi)] + p_pi D_{t+1}            (through V*)
                             = r_b + p_b V*_{t+1} - r_pi - p_pi V^pi_{t+1}        (through V^pi)

   For b = pi it is p_pi D_{t+1}: what is unknown about rewards and values cancels. Otherwise the
   smaller of the two, with p D bounded by 1, p_b V* and p_pi V* by 2, p_pi V^pi by 1. And
   V^pi = V* - D >= L - D.

5. Overlap. Both lines are of the form F_b(V*) - G_pi(Y) with Y = V* or V^pi, where F bounds from
   above at fixed nu = x + B, F(V) = nu - e^-eta prod (nu - V_j)^p_j, and G likewise from below. So

       F(U) - F(V*) = c [prod (1 + z_j)^p_j - 1] >= sum_j c [(1 + z_j)^p_j - 1]

   with c = nu - F(U) and z_j = (U - V*)_j / (nu - U_j): a sum of functions of (U - V*)_j that are
   concave and 0 at 0; and so for G, of (Y - Y_low)_j. The two arguments of a state sum to at least
   w_j = (U - Y_low - D)_j (or without D, for Y = V*), so that F(U) - G(Y_low) is too large by at
   least the smaller of the two functions at w_j, for each state to which both rows lead: what is
   unknown about it cancels.

6. Rewards that are not told. The mean mu of a row's rewards X is bounded on both sides by one
   event: a portfolio of the two assets X/mu and (1 - X)/(1 - mu) is a martingale, and its best
   constant mix has made exp(n kl(x, mu)) or more of one unit, x the mean of what was paid.

7. Sampling never affects validity; `ucfh.agents.beliefs` samples what the gap depends on most.

The parts share delta: with probability 1 - delta, all of them hold at once, always. So bounds that
contradict each other where an episode may be (U < L, or D < 0) refute, at level delta, what was
assumed: `Bounds.crossing` says so. Bounds are rounded outward: the mean of a row by its kernel, the
sums over the steps at the start, by `Best.rounding`.

All this is one family of bounds, over one sequence of counts. Another one over the same data,
computed separately, has a delta of its own.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from ucfh._kernels import balls, certificates
from ucfh._kernels import blame as kernels
from ucfh._kernels.groups import Planned
from ucfh._kernels.kl import kl_reach
from ucfh._kernels.mixtures import excess, lower_mean, portfolio_regret
from ucfh._support.arrays import Floats, Ints
from ucfh.confidence.events import count_events, possible
from ucfh.counts import Counts
from ucfh.errors import unknown
from ucfh.problem import Problem
from ucfh.table import Table

IDEAS = ("sparse", "fixed", "scores", "difference", "overlap", "directed")
"""What can be switched off, to measure its effect: 1 to 5 and 7 above."""

SHARES = {"above": 0.5, "below": 0.1, "all": 0.25, "scores": 0.15, "rewards": 0.1}
"""How delta is split; what is not needed is divided among the others."""


@dataclass(frozen=True)
class Crossing:
    """A contradiction: what is earned from a state is at most ``above``, and at least ``below``.

    Attributes:
        step: from 0; state: -1 for the start.
        above, below: of the two bounds, with below > above.

    """

    step: int
    state: int
    above: float
    below: float


@dataclass(eq=False)
class Bounds:
    """What holds for all values at once.

    Attributes:
        U, L: (H+1, S) bounds of V*.
        W, D: (H+1, S) of V^pi from below and of V* - V^pi from above, pi the greedy policy of
            the empirical model.
        E, M: (H+1, S) mean and second moment of pi's reward in that model.
        up, low, greedy: (H, S) the rows that U and L take, and pi.
        rival, branch: (H, S) the row that decided D, and how.
        x_up, x_low, x_pi, x_ahead: where the bounds were found; see the kernel.
        upper, lower, difference, estimate, second: the above at the start.
        crossing: where two of them contradict each other; None if they do not.

    """

    U: Floats
    L: Floats
    W: Floats
    D: Floats
    E: Floats
    M: Floats
    up: Ints
    low: Ints
    greedy: Ints
    rival: Ints
    branch: Ints
    x_up: Floats
    x_low: Floats
    x_pi: Floats
    x_ahead: Floats
    upper: float = 0.0
    lower: float = 0.0
    difference: float = 0.0
    estimate: float = 0.0
    second: float = 0.0
    crossing: Crossing | None = None

    @property
    def arrays(self) -> certificates.Certified:
        """The bounds as the kernels take them."""
        return certificates.Certified(
            U=self.U, L=self.L, W=self.W, D=self.D, E=self.E, M=self.M,
            up=self.up, low=self.low, greedy=self.greedy, rival=self.rival, branch=self.branch,
            x_up=self.x_up, x_low=self.x_low, x_pi=self.x_pi, x_ahead=self.x_ahead,
        )  # fmt: skip


class Best:
    """The bounds, from counts that grow: what held before still does, and is used.

    Args:
        problem: what the learner is told.
        delta: the probability with which any of the bounds may ever fail.
        without: ideas that are switched off; see `IDEAS`.

    Attributes:
        rounding: how far a value at the start may be off. Each of H steps rounds a handful of
            numbers of size H, and so does the mean over the start, once for each of its states.

    """

    def __init__(self, problem: Problem, delta: float, without: tuple[str, ...] = ()) -> None:
        for idea in without:
            if idea not in IDEAS:
                raise unknown("idea", idea, IDEAS)
        self.problem = problem
        self.on = {idea: idea not in without for idea in IDEAS}
        used = {"above", "all"}
        used |= {"below"} if self.on["difference"] else set()
        used |= {"scores"} if self.on["scores"] else set()
        used |= {"rewards"} if problem.rewards is None else set()
        total = sum(SHARES[part] for part in used)
        share = {part: delta * SHARES[part] / total for part in used}
        events = dict(zip(("above", "below", "all"), count_events(problem), strict=True))
        if not self.on["fixed"]:
            share["all"] += share.pop("above") + share.pop("below", 0.0)
        self._log = {part: log(events.get(part, 1) / share[part]) for part in share}
        if problem.rewards is None:
            self._log["rewards"] += log(max(1, int(problem.pays_unknown.sum())))
        H, S = problem.horizon, problem.states
        self.U, self.L = np.full((H + 1, S), np.inf), np.zeros((H + 1, S))
        self.U[H] = 0.0
        starts = 1 if problem.initial is None else int((problem.initial > 0).sum())
        self.rounding = 16.0 * H * (H + starts) * 2.0**-53
        pairs = problem.table.pairs
        self.found = [np.zeros((H + 1, k)) for k in (pairs, pairs, S, S)]
        self._zero_eta()

    def _zero_eta(self) -> None:
        rows = self.problem.table.rows
        self.eta_up, self.eta_low, self.eta_all = np.ones(rows), np.ones(rows), np.ones(rows)
        told = self.problem.rewards
        pair = np.zeros((self.problem.table.stages, self.problem.table.pairs))
        self.r_up: Floats = pair + 1 if told is None else told.pair
        self.r_low: Floats = pair if told is None else told.pair
        self.r: Floats = self.r_low

    def budget(self, counts: Counts) -> None:
        """Divide the budgets by n, and bound the rewards where they are not told."""
        table = self.problem.table
        n = np.maximum(counts.visits, 1).astype(float)
        beyond = np.zeros(table.rows)
        excess(table.indptr, counts.successors, counts.visits, self.on["sparse"], beyond)
        round_up = 1 + 1e-12
        self.eta_all = (self._log["all"] + beyond) / n * round_up
        if self.on["fixed"]:
            regret = portfolio_regret(n)
            self.eta_up = (self._log["above"] + regret) / n * round_up
            below = self._log.get("below", self._log["above"])
            self.eta_low = (below + regret) / n * round_up
            # all events hold at once, so the smaller of two budgets is right too
            self.eta_up = np.minimum(self.eta_up, self.eta_all)
            self.eta_low = np.minimum(self.eta_low, self.eta_all)
        else:
            self.eta_up = self.eta_low = self.eta_all
        if self.problem.rewards is None:
            mean = np.clip(counts.rewards[:-1] / n[:-1], 0.0, 1.0)
            c = (self._log["rewards"] + portfolio_regret(n[:-1])) / n[:-1] * round_up
            seen = counts.visits[:-1] > 0
            high = np.where(seen, mean + kl_reach(mean, 1 - mean, c), 1.0)
            high = np.where(self.problem.pays_unknown, high, 0.0)
            low = np.where(seen, mean - kl_reach(1 - mean, mean, c), 0.0)
            shape = (table.stages, table.pairs)
            self.r_up = np.minimum(high + 1e-15, 1.0).reshape(shape)
            self.r_low = np.maximum(low - 1e-15, 0.0).reshape(shape)
            self.r = mean.reshape(shape)

    def bounds(self, counts: Counts) -> Bounds:
        """All bounds that follow from counts."""
        self.budget(counts)
        problem, table = self.problem, self.problem.table
        H, S = problem.horizon, problem.states
        W, D, E, M = np.zeros((4, H + 1, S))
        up, low, greedy, rival, branch = np.zeros((5, H, S), np.int64)
        x_up, x_low, x_pi, x_ahead = self.found
        b = Bounds(
            U=self.U.copy(), L=self.L.copy(), W=W, D=D, E=E, M=M,
            up=up, low=low, greedy=greedy, rival=rival, branch=branch,
            x_up=x_up, x_low=x_low, x_pi=x_pi, x_ahead=x_ahead,
        )  # fmt: skip
        certificates.certify(
            table.arrays,
            counts.arrays,
            self.known,
            self.bonus,
            self.on["difference"],
            self.on["overlap"],
            b.arrays,
        )
        self.U, self.L = b.U, b.L
        b.upper = self.at_start(b.U, counts, 1.0, self.eta_up)
        b.estimate = self.at_start(b.E, counts, 0.0, self.eta_up)
        b.second = self.at_start(b.M, counts, 0.0, self.eta_up)
        b.difference = np.inf
        if self.on["difference"]:
            b.lower = self.at_start(b.W, counts, -1.0, self.eta_all)
            b.difference = self.at_start(b.D, counts, 1.0, self.eta_all)
            b.difference = min(b.difference, b.upper - b.lower)
        b.crossing = self._find_crossing(b)
        return b

    def _find_crossing(self, b: Bounds) -> Crossing | None:
        """Where an episode may be and bounds contradict each other by more than rounding."""
        crossed = np.minimum(b.U - b.L, b.D) + self.rounding < 0
        if not crossed.any():
            return None
        # the last of them: what is before it in time rests on bounds that are contradicted already
        for t, s in np.argwhere(crossed[:-1] & possible(self.problem))[-1:]:
            below = max(b.L[t, s], b.U[t, s] - b.D[t, s])
            return Crossing(int(t), int(s), float(b.U[t, s]), float(below))
        return None

    @property
    def known(self) -> certificates.Known:
        """Budgets and rewards as the kernels take them."""
        return certificates.Known(
            self.eta_up, self.eta_low, self.eta_all, self.r_up, self.r_low, self.r
        )

    @property
    def bonus(self) -> Floats | None:
        """(1 or H, entries) rewards on the next state, or None."""
        told = self.problem.rewards
        return None if told is None else told.successor

    def start(self, counts: Counts) -> Floats:
        """(S,) the start: as told, or as seen."""
        if self.problem.initial is not None:
            return self.problem.initial
        table = self.problem.table
        at = table.entries_of(table.start)
        out = np.zeros(table.states)
        out[table.indices[at]] = counts.successors[at] / max(1, counts.visits[-1])
        return out

    def at_start(self, V: Floats, counts: Counts, sign: float, eta: Floats) -> float:
        """The mean of V[0] over the start: a bound from above (1) or below (-1), or as seen (0)."""
        if sign == 0.0:
            return float(self.start(counts) @ V[0])
        if self.problem.initial is not None:
            x = float(self.problem.initial @ V[0])
        else:
            table = self.problem.table
            x = float(balls.reach(table.start, table.arrays, counts.arrays, eta, V[0], sign))
        return min(max(x + sign * self.rounding, 0.0), float(self.problem.horizon))

    def blame(self, counts: Counts, b: Bounds, by_difference: bool) -> Floats:
        """(rows,) how much of the gap each row accounts for; see the kernel."""
        table = self.problem.table
        out, pays = np.zeros(table.rows), np.zeros(table.rows)
        if self.problem.rewards is None:
            pays[:-1] = (self.r_up - self.r_low).ravel()
        kernels.blame(
            table.arrays,
            counts.arrays,
            self.known,
            pays,
            self.bonus,
            b.arrays,
            self.start(counts),
            by_difference,
            out,
        )
        return out

    def lower_values(self, counts: Counts, rows: Ints) -> Floats:
        """(H+1, S) what the policy that takes rows (H, S) earns at least, by 1."""
        return self._evaluate(counts, rows, self.eta_all, self.r_low, -1.0)

    def most_of(self, counts: Counts, rows: Ints) -> float:
        """What the policy that takes rows (H, S) earns at most, by 1, from the start."""
        values = self._evaluate(counts, rows, self.eta_all, self.r_up, 1.0)
        return self.at_start(values, counts, 1.0, self.eta_all)

    def price_of_scores(self, j: int) -> float:
        """ln(j(j+1)/delta): what bets on the scores of the j-th frozen policy have to win."""
        return self._log["scores"] + log(j * (j + 1))

    def mean_values(self, counts: Counts, rows: Ints) -> Floats:
        """(H+1, S) what the policy that takes rows (H, S) earns in the empirical model."""
        return self._evaluate(counts, rows, np.zeros(self.problem.table.rows), self.r, -1.0)

    def _evaluate(self, counts: Counts, rows: Ints, eta: Floats, r: Floats, sign: float) -> Floats:
        """(H+1, S) what the policy that takes rows (H, S) earns; see the kernel."""
        table = self.problem.table
        W = np.zeros((len(rows) + 1, table.states))
        balls.evaluate(table.arrays, counts.arrays, eta, r, self.bonus, rows, sign, W)
        return W

    def by_scores(self, scores: dict[float, int], j: int) -> float:
        """What the j-th frozen policy earns at least, by how often each score was seen."""
        if not scores:
            return 0.0
        x, times = np.array([*scores]), np.array([*scores.values()])
        return max(0.0, float(lower_mean(x, times, self.price_of_scores(j))) - self.rounding)

    def robust(self, counts: Counts) -> tuple[Any, float]:
        """The policy (H, S) of the highest guaranteed value, by 1, and that value at the start."""
        table: Table = self.problem.table
        H = self.problem.horizon
        V = np.zeros((H + 1, table.states))
        policy = np.zeros((H, table.states), np.min_scalar_type(table.actions - 1))
        balls.plan(
            table.arrays,
            counts.arrays,
            self.eta_all,
            self.r_low,
            self.bonus,
            -1.0,
            balls.TIE * H,
            Planned(V, policy),
        )
        return policy, self.at_start(V, counts, -1.0, self.eta_all)
