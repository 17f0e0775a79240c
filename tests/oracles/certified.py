"""Slow, obvious oracles for certificates, written from docs/theory/ and first principles alone.

Mixtures are computed with rationals or with sixty decimal digits; balls by bisection on what makes
a distribution extreme, with the distribution itself as evidence; recursions in plain Python.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from fractions import Fraction
from functools import cache
from itertools import combinations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from ucfh.counts import Counts
from ucfh.problem import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
DIGITS = 60


# -- mixtures ------------------------------------------------------------------------------------


def ln(x: Fraction | int) -> Decimal:
    """ln of a rational, to DIGITS digits."""
    with localcontext(prec=DIGITS):
        x = Fraction(x)
        return Decimal(x.numerator).ln() - Decimal(x.denominator).ln()


@cache
def half_ln_pi() -> Decimal:
    """ln(pi)/2, pi by Machin's formula."""
    with localcontext(prec=DIGITS + 10):
        pi = Decimal(0)
        for factor, x in ((16, 5), (-4, 239)):
            for k in range(70):
                pi += Decimal(factor * (-1) ** k) / ((2 * k + 1) * Decimal(x) ** (2 * k + 1))
        return pi.ln() / 2


@cache
def bernoulli(n: int) -> Fraction:
    """The n-th Bernoulli number, by its recursion."""
    if n == 0:
        return Fraction(1)
    return -sum((math.comb(n + 1, k) * bernoulli(k) for k in range(n)), Fraction(0)) / (n + 1)


@cache
def ln_gamma(x: Fraction) -> Decimal:
    """ln Gamma(x) for x > 0, to about sixty digits: Stirling's series from x = 60 on."""
    with localcontext(prec=DIGITS):
        shift = Decimal(0)
        while x < 60:
            shift += ln(x)
            x += 1
        z = Decimal(x.numerator) / Decimal(x.denominator)
        half_ln_2pi = half_ln_pi() + Decimal(2).ln() / 2
        total = (z - Decimal("0.5")) * z.ln() - z + half_ln_2pi
        for k in range(1, 31):
            b = bernoulli(2 * k)
            term = Decimal(b.numerator) / (b.denominator * 2 * k * (2 * k - 1))
            total += term / z ** (2 * k - 1)
        return total - shift


def ln_likelihood(counts: Sequence[int]) -> Decimal:
    """The largest log likelihood of a sequence with these counts: that of p = counts/n."""
    with localcontext(prec=DIGITS):
        n = sum(counts)
        return sum((c * ln(Fraction(c, n)) for c in counts if c), Decimal(0))


def ln_dirichlet(counts: Sequence[int]) -> Decimal:
    """Log probability of a sequence with these counts under the Dirichlet(1/2, ...) mixture."""
    m, n, half = len(counts), sum(counts), Fraction(1, 2)
    with localcontext(prec=DIGITS):
        seen = sum((ln_gamma(c + half) - half_ln_pi() for c in counts), Decimal(0))
        return seen + ln_gamma(Fraction(m, 2)) - ln_gamma(n + Fraction(m, 2))


def kt_probability(counts: Sequence[int]) -> Fraction:
    """The same as a rational: the (k+1)-th draw is j with probability (c_j + 1/2)/(k + m/2)."""
    probability, drawn = Fraction(1), 0
    for c in counts:
        for k in range(c):
            probability *= Fraction(2 * k + 1, 2 * drawn + len(counts))
            drawn += 1
    return probability


def dirichlet_excess(counts: Sequence[int]) -> Decimal:
    """ln of how much likelier the best model makes the counts than the Dirichlet(1/2) mixture."""
    with localcontext(prec=DIGITS):
        return ln_likelihood(counts) - ln_dirichlet(counts)


def sparse_excess(counts: Sequence[int]) -> Decimal:
    """The same for a mixture over supports: a uniform size, then a uniform support of that size."""
    C, terms = len(counts), []
    with localcontext(prec=DIGITS):
        for k in range(1, C + 1):
            for support in combinations(range(C), k):
                if all(j in support for j in range(C) if counts[j]):
                    inside = [counts[j] for j in support]
                    terms.append(ln_dirichlet(inside) - ln(C * math.comb(C, k)))
        top = max(terms)
        mixture = top + sum(((x - top).exp() for x in terms), Decimal(0)).ln()
        return ln_likelihood(counts) - mixture


def portfolio_regret(n: int) -> Decimal:
    """reg(n) = ln[sqrt(pi) Gamma(n+1)/Gamma(n+1/2)]."""
    with localcontext(prec=DIGITS):
        return half_ln_pi() + ln_gamma(Fraction(n + 1)) - ln_gamma(n + Fraction(1, 2))


def ln_wealth(scores: dict[float, int], v: float) -> float:
    """ln of what bets on scores above v have won: stakes 2^-k with shares 1/((k+1)(k+2))."""
    terms = []
    for k in range(60):
        gains = [(m, 2.0**-k * (x / v - 1)) for x, m in scores.items()]
        if all(gain > -1 for _, gain in gains):
            won = math.fsum(m * math.log1p(gain) for m, gain in gains)
            terms.append(won - math.log((k + 1) * (k + 2)))
    top = max(terms)
    return top + math.log(math.fsum(math.exp(x - top) for x in terms))


def lower_mean(scores: dict[float, int], goal: float) -> float:
    """The v at which such bets have won e^goal, by bisection; 0 if nothing was scored."""
    low, high = 0.0, sum(x * m for x, m in scores.items()) / sum(scores.values())
    while high - low > 1e-10 * high:
        v = (low + high) / 2
        low, high = (v, high) if ln_wealth(scores, v) >= goal else (low, v)
    return low


# -- balls ---------------------------------------------------------------------------------------


def extreme_point(counts: Sequence[int], V: Sequence[Any], eta: Any, one: Any = 1.0) -> list[Any]:
    """The q with the largest q.V among those with KL(counts/n, q) <= eta, eta > 0.

    By Lagrange q_j = lambda p_j/(nu - V_j) where the count is positive, nu >= max V; what is left
    goes to the best successor, if nu = max V. In floats, or in Decimals where one = Decimal(1).
    """
    best, n = max(V), sum(counts)
    log = (lambda x: x.ln()) if isinstance(one, Decimal) else math.log
    exp = (lambda x: x.exp()) if isinstance(one, Decimal) else math.exp
    # p by its numerator and denominator: one and the other are exact
    seen = [(j, one * c / n) for j, c in enumerate(counts) if c]
    span = best - min(V[j] for j, _ in seen)
    q = [0 * one for _ in V]
    if span == 0:
        for j, p in seen:
            q[j] = p
        return q

    def tilted(x: Any) -> tuple[Any, list[Any]]:
        """KL(p, q) for nu = best + x, and q."""
        weights = [p / (x + (best - V[j])) for j, p in seen]
        total = sum(weights)
        kl = sum(p * log(x + (best - V[j])) for j, p in seen) + log(total)
        return kl, [w / total for w in weights]

    if all(V[j] < best for j, _ in seen):
        scale = exp(sum(p * log(best - V[j]) for j, p in seen) - eta)
        q = [0 * one for _ in V]
        for j, p in seen:
            q[j] = scale * p / (best - V[j])
        if sum(q) <= 1:
            top = V.index(best)
            q[top] = one - sum(q)
            return q
    low, high = span * one / 10**30, span * one * 10**20  # nu - best, between which KL passes eta
    for _ in range(110 if isinstance(one, Decimal) else 90):
        x = (low * high).sqrt() if isinstance(one, Decimal) else math.sqrt(low * high)
        if tilted(x)[0] > eta:
            low = x
        else:
            high = x
    q = [0 * one for _ in V]
    for (j, _), mass in zip(seen, tilted(high)[1], strict=True):
        q[j] = mass
    return q


def dual_value(counts: Sequence[int], V: Sequence[Any], eta: Any, x: Any) -> Decimal:
    """nu - exp(sum p ln(nu - V) - eta) at nu = max V + x: an upper bound of q.V over the ball."""
    with localcontext(prec=DIGITS):
        n, nu = sum(counts), max(V) + x
        inside = sum((Decimal(c) / n * (nu - v).ln() for c, v in zip(counts, V, strict=True) if c))
        return Decimal(nu - (inside - eta).exp())


def decimals(values: Sequence[float]) -> list[Decimal]:
    """Doubles as they are."""
    return [Decimal(float(v)) for v in values]


def ball_max(counts: Sequence[int], V: Sequence[float], eta: float) -> Decimal:
    """The largest q.V over the ball, to some twenty digits; the whole simplex without counts."""
    values = decimals(V)
    if sum(counts) == 0:
        return max(values)
    with localcontext(prec=DIGITS):
        q = extreme_point(counts, values, Decimal(eta), Decimal(1))
        return sum((x * v for x, v in zip(q, values, strict=True)), Decimal(0))


def reach(counts: Sequence[int], V: Sequence[float], eta: float, sign: int) -> float:
    """The largest (sign = 1) or smallest (-1) q.V over the ball, in floats."""
    values = [sign * float(v) for v in V]
    if sum(counts) == 0:
        return sign * max(values)
    if eta == 0:
        return sign * math.fsum(c * v for c, v in zip(counts, values, strict=True)) / sum(counts)
    q = extreme_point(counts, values, float(eta))
    return sign * math.fsum(x * v for x, v in zip(q, values, strict=True))


def relative_entropy(counts: Sequence[int], q: Sequence[float]) -> float:
    """KL(counts/n, q); infinite where something was seen that q excludes."""
    n = sum(counts)
    if any(c and not x for c, x in zip(counts, q, strict=True)):
        return math.inf
    return math.fsum(c / n * math.log(c / n / x) for c, x in zip(counts, q, strict=True) if c)


def least_entropy(counts: Sequence[int], f: Sequence[float], mu: float) -> float:
    """min { KL(counts/n, q) : q.f >= mu } over distributions on the successors.

    By duality the largest mean of ln(1 + b (mu - f)) over bets 0 <= b <= 1/(max f - mu), found by
    bisection on its slope.
    """
    n, best = sum(counts), max(f)
    seen = [(c / n, mu - v) for c, v in zip(counts, f, strict=True) if c]
    if sum(p * x for p, x in seen) <= 0:
        return 0.0
    if mu >= best:
        return math.inf if any(v < best for c, v in zip(counts, f, strict=True) if c) else 0.0
    low, high = 0.0, 1 / (best - mu)
    for _ in range(200):
        b = (low + high) / 2
        if all(1 + b * x > 0 for _, x in seen) and sum(p * x / (1 + b * x) for p, x in seen) > 0:
            low = b
        else:
            high = b
    return math.fsum(p * math.log1p(low * x) for p, x in seen)


def l1_reach(counts: Sequence[int], V: Sequence[float], d: float, sign: int) -> float:
    """The largest or smallest q.V with |q - counts/n|_1 <= d, by linear programming."""
    m, n = len(counts), sum(counts)
    if n == 0:
        return sign * max(sign * v for v in V)
    p, eye = np.array(counts) / n, np.eye(m)
    cost = np.concatenate([-sign * np.asarray(V), np.zeros(m)])
    # q - p <= u, p - q <= u, sum u <= d, sum q = 1
    A = np.vstack([np.hstack([eye, -eye]), np.hstack([-eye, -eye]), [np.repeat([0.0, 1.0], m)]])
    b = np.concatenate([p, -p, [d]])
    total = np.repeat([1.0, 0.0], m)[None]
    found = linprog(cost, A, b, total, [1.0], bounds=[(0, None)] * (2 * m))
    assert found.x is not None, found.message
    return float(np.dot(found.x[:m], V))


# -- whole problems ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Row:
    """A row of a problem's table: its number and action, its entries and their states."""

    number: int
    action: int
    entries: tuple[int, ...]
    states: tuple[int, ...]


def rows_at(problem: Problem, t: int, s: int) -> list[Row]:
    """What state s can do at step t."""
    table = problem.table
    found = []
    for k in range(table.first[s], table.first[s + 1]):
        number = int(k + (t * table.pairs if table.stages > 1 else 0))
        found.append(row_of(problem, number, int(table.action[k])))
    return found


def row_of(problem: Problem, number: int, action: int = -1) -> Row:
    """One row by its number; the start's without action."""
    at = problem.table.entries_of(number)
    entries = tuple(range(at.start, at.stop))
    return Row(number, action, entries, tuple(int(x) for x in problem.table.indices[at]))


@dataclass
class Belief:
    """Counts and budgets of every row, and bounds of its reward; as plain lists and dicts.

    up, low, every: (rows,) budgets divided by n. r_up, r_low, r: per (t, row number).
    """

    problem: Problem
    counts: Counts
    up: Floats
    low: Floats
    every: Floats
    r_up: Any
    r_low: Any
    r: Any

    def seen(self, row: Row) -> list[int]:
        """Counts of the row's successors."""
        return [int(self.counts.successors[e]) for e in row.entries]

    def values(self, t: int, row: Row, V: Sequence[float], paid: bool = True) -> list[float]:
        """V of each successor, and what reaching it pays at step t."""
        told = self.problem.rewards
        bonus = None if told is None or not paid else told.successor
        if bonus is None:
            return [float(V[j]) for j in row.states]
        line = bonus[min(t, len(bonus) - 1)]
        return [float(V[j] + line[e]) for j, e in zip(row.states, row.entries, strict=True)]

    def reward(self, which: Any, t: int, row: Row) -> float:
        """The reward of a row at step t in an array (1 or H or stages, R)."""
        table = self.problem.table
        k = row.number - (t * table.pairs if table.stages > 1 else 0)
        return float(which[min(t, len(which) - 1)][k])


@dataclass
class Values:
    """Bounds (H+1, S) and rows (H, S), as lists."""

    U: list[list[float]]
    L: list[list[float]]
    W: list[list[float]]
    D: list[list[float]]
    greedy: list[list[int]] = field(default_factory=list)


def recursion(b: Belief, greedy: Ints) -> Values:
    """U, L, W and D of docs/theory/values.md, without the overlap; greedy (H, S) rows.

    D is the largest over rivals of the smaller of two bounds of Q*(s, rival) - V^pi(s), and at most
    U - W; then W is raised to L - D.
    """
    H, S = b.problem.horizon, b.problem.states
    U, L, W, D = ([[0.0] * S for _ in range(H + 1)] for _ in range(4))
    for t in reversed(range(H)):
        for s in range(S):
            over, under = {}, {}
            for row in rows_at(b.problem, t, s):
                c, i = b.seen(row), row.number
                best = reach(c, b.values(t, row, U[t + 1]), b.up[i], 1)
                worst = reach(c, b.values(t, row, L[t + 1]), b.low[i], -1)
                over[i] = b.reward(b.r_up, t, row) + best
                under[i] = b.reward(b.r_low, t, row) + worst
                if i == greedy[t, s]:
                    mine = row
            U[t][s], L[t][s] = max(over.values()), max(under.values())
            c, eta = b.seen(mine), b.every[mine.number]
            earns = reach(c, b.values(t, mine, W[t + 1]), eta, -1)
            W[t][s] = b.reward(b.r_low, t, mine) + earns
            ahead = reach(c, b.values(t, mine, D[t + 1], paid=False), eta, 1)
            D[t][s] = ahead
            for i in over:
                if i != mine.number:
                    through_best = max(over[i] - under[mine.number], 0.0) + ahead
                    D[t][s] = max(D[t][s], min(through_best, over[i] - W[t][s]))
            D[t][s] = min(D[t][s], U[t][s] - W[t][s])
            W[t][s] = max(W[t][s], L[t][s] - D[t][s])
    return Values(U, L, W, D)


def evaluate(b: Belief, rows: Ints, r: Any, eta: Floats) -> list[list[float]]:
    """What the policy that takes rows (H, S) earns at least over balls: (H+1, S)."""
    H, S = rows.shape
    W = [[0.0] * S for _ in range(H + 1)]
    for t in reversed(range(H)):
        for s in range(S):
            row = row_of(b.problem, int(rows[t, s]))
            worst = reach(b.seen(row), b.values(t, row, W[t + 1]), eta[row.number], -1)
            W[t][s] = b.reward(r, t, row) + worst
    return W


def every_policy(problem: Problem) -> list[Ints]:
    """All policies, as rows (H, S)."""
    H, S = problem.horizon, problem.states
    choices = [[row.number for row in rows_at(problem, t, s)] for t in range(H) for s in range(S)]
    return [np.array(x, np.int64).reshape(H, S) for x in product(*choices)]
