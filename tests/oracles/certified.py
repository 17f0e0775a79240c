"""Slow, obvious oracles for certificates, written from docs/theory/ and first principles alone.

Balls by bisection on what makes a distribution extreme, with the distribution itself as evidence;
recursions in plain Python. Mixtures are those of `oracles.mixtures`.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal, localcontext
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog

from oracles.mixtures import DIGITS
from ucfh.counts import Counts
from ucfh.mdp import Problem

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


# -- balls ---------------------------------------------------------------------------------------


def extreme_point(counts: Sequence[float], V: Sequence[Any], eta: Any, one: Any = 1.0) -> list[Any]:
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


def reach(counts: Sequence[float], V: Sequence[float], eta: float, sign: int) -> float:
    """The largest (sign = 1) or smallest (-1) q.V over the ball, in floats."""
    values = [sign * float(v) for v in V]
    if sum(counts) == 0:
        return sign * max(values)
    if eta == 0:
        return sign * math.fsum(c * v for c, v in zip(counts, values, strict=True)) / sum(counts)
    q = extreme_point(counts, values, float(eta))
    return sign * math.fsum(x * v for x, v in zip(q, values, strict=True))


def relative_entropy(counts: Sequence[float], q: Sequence[float]) -> float:
    """KL(counts/n, q); infinite where something was seen that q excludes."""
    n = sum(counts)
    if any(c and not x for c, x in zip(counts, q, strict=True)):
        return math.inf
    return math.fsum(c / n * math.log(c / n / x) for c, x in zip(counts, q, strict=True) if c)


def least_entropy(counts: Sequence[float], f: Sequence[float], mu: float) -> float:
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
        number = int(k + (t * table.pairs if table.segments > 1 else 0))
        found.append(row_of(problem, number, int(table.action[k])))
    return found


def row_of(problem: Problem, number: int, action: int = -1) -> Row:
    """One row by its number; the start's without action."""
    at = problem.table.entries_of(number)
    entries = tuple(range(at.start, at.stop))
    return Row(number, action, entries, tuple(int(x) for x in problem.table.indices[at]))


@dataclass(frozen=True)
class Outcome:
    """A next state and what is paid on the way to it; how often, and without its first time."""

    state: int
    reward: float
    c: float
    again: float


@dataclass
class Belief:
    """Counts, and what bounds of every row rest on.

    up, low, every, outcomes: (rows,) budgets divided by n, or by the number of repetitions for
    the last. r_up, r_low: (rows,) bounds of the mean reward, where it is not told.
    """

    problem: Problem
    counts: Counts
    up: Floats
    low: Floats
    every: Floats
    outcomes: Floats
    r_up: Floats
    r_low: Floats

    def seen(self, row: Row) -> list[int]:
        """Counts of the row's successors."""
        return [int(self.counts.successors[e]) for e in row.entries]

    def pays(self, row: Row) -> bool:
        """Whether what the row pays has to be learned: not after the end, nor at the start."""
        problem, table = self.problem, self.problem.table
        if problem.rewards is not None or row.number == table.start:
            return False
        return int(table.state[row.number % table.pairs]) not in problem.terminal

    def told(self, t: int, row: Row) -> float:
        """What the row pays at step t, whatever follows, if that is told."""
        told, table = self.problem.rewards, self.problem.table
        if told is None:
            return 0.0
        k = row.number - (t * table.pairs if table.segments > 1 else 0)
        return float(told.pair[min(t, len(told.pair) - 1), k])

    def is_noisy(self, row: Row) -> bool:
        """Whether the same next state was paid differently."""
        x = self.counts
        return self.pays(row) and any(
            x.successors[e] > 0 and x.least[e] < x.most[e] for e in row.entries
        )

    def listed(self, t: int, row: Row) -> list[Outcome]:
        """The outcomes that were seen, and next states that were not, which pay nothing then.

        A next state that was paid differently is two, at the least and the most that it was paid;
        the sum is kept.
        """
        told, x, found = self.problem.rewards, self.counts, []
        start = self.problem.table.start
        for e, j in zip(row.entries, row.states, strict=True):
            c, pays = int(x.successors[e]), 0.0
            if told is not None and told.successor is not None and row.number != start:
                pays = float(told.successor[min(t, len(told.successor) - 1), e])
            if not self.pays(row) or c == 0:
                found.append(Outcome(j, pays, c, max(c - 1, 0)))
                continue
            least, most, paid = float(x.least[e]), float(x.most[e]), float(x.rewards[e])
            if least == most:
                found.append(Outcome(j, least, c, c - 1))
                continue
            high = min(max((paid - c * least) / (most - least), 0.0), float(c))
            found.append(Outcome(j, least, c - high, math.nan))
            found.append(Outcome(j, most, high, math.nan))
        return found

    def values(self, t: int, row: Row, V: Sequence[float], sign: int) -> list[float]:
        """What each outcome is worth, at most what the steps that are left can pay.

        And, last of all, what was never seen: any next state, paid 1 at most and 0 at least.
        """
        room = self.problem.horizon - t - self.told(t, row)
        worth = [min(x.reward + float(V[x.state]), room) for x in self.listed(t, row)]
        if self.pays(row):
            later = [float(V[j]) for j in row.states]
            worth.append(min(1 + max(later), room) if sign > 0 else min(later))
        return worth

    def mean(self, t: int, row: Row, V: Sequence[float], eta: float, sign: int) -> float:
        """Reward and V of what follows, from above or below, for a V that is fixed in advance."""
        c = [x.c for x in self.listed(t, row)] + [0] * self.pays(row)
        return self.told(t, row) + reach(c, self.values(t, row, V, sign), eta, sign)

    def mean_of_any(self, t: int, row: Row, V: Sequence[float], sign: int) -> float:
        """The same for any V: by the repetitions of outcomes, unless the row is noisy.

        Then by its next states, and its mean reward apart.
        """
        i = row.number
        if not self.pays(row):
            return self.mean(t, row, V, self.every[i], sign)
        if self.is_noisy(row):
            r = float((self.r_up if sign > 0 else self.r_low)[i])
            return r + self.next(row, V, sign)
        again = [x.again for x in self.listed(t, row)] + [0]
        return reach(again, self.values(t, row, V, sign), self.outcomes[i], sign)

    def next(self, row: Row, V: Sequence[float], sign: int) -> float:
        """V of the next state, from above or below, for any V."""
        return reach(self.seen(row), [V[j] for j in row.states], self.every[row.number], sign)


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
                i = row.number
                over[i] = b.mean(t, row, U[t + 1], b.up[i], 1)
                under[i] = b.mean(t, row, L[t + 1], b.low[i], -1)
                if i == greedy[t, s]:
                    mine = row
            U[t][s], L[t][s] = max(over.values()), max(under.values())
            W[t][s] = b.mean_of_any(t, mine, W[t + 1], -1)
            ahead = b.next(mine, D[t + 1], 1)
            D[t][s] = ahead
            for i in over:
                if i != mine.number:
                    through_best = max(over[i] - under[mine.number], 0.0) + ahead
                    D[t][s] = max(D[t][s], min(through_best, over[i] - W[t][s]))
            D[t][s] = min(D[t][s], U[t][s] - W[t][s])
            W[t][s] = max(W[t][s], L[t][s] - D[t][s])
    return Values(U, L, W, D)


def evaluate(b: Belief, rows: Ints, sign: int) -> list[list[float]]:
    """What the policy that takes rows (H, S) earns at most, or at least: (H+1, S)."""
    H, S = rows.shape
    V = [[0.0] * S for _ in range(H + 1)]
    for t in reversed(range(H)):
        for s in range(S):
            found = b.mean_of_any(t, row_of(b.problem, int(rows[t, s])), V[t + 1], sign)
            V[t][s] = min(found, float(H - t))
    return V


def expected(b: Belief, rows: Ints) -> list[list[float]]:
    """What it earns in the empirical model; a row without visits leads to the worst."""
    H, S = rows.shape
    V = [[0.0] * S for _ in range(H + 1)]
    for t in reversed(range(H)):
        for s in range(S):
            row = row_of(b.problem, int(rows[t, s]))
            found = [(x.c, x.reward + V[t + 1][x.state]) for x in b.listed(t, row)]
            n = math.fsum(c for c, _ in found)
            mean = math.fsum(c * v for c, v in found) / n if n else min(v for _, v in found)
            V[t][s] = b.told(t, row) + mean
    return V


def every_policy(problem: Problem) -> list[Ints]:
    """All policies, as rows (H, S)."""
    H, S = problem.horizon, problem.states
    choices = [[row.number for row in rows_at(problem, t, s)] for t in range(H) for s in range(S)]
    return [np.array(x, np.int64).reshape(H, S) for x in product(*choices)]
