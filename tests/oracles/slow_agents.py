"""Agents that plan with a bonus, the slow and obvious way: one row at a time, from the formulas.

A backward sweep asks a function for the bounds of one row, which sees the successors' values as
plain lists. There are two kinds of such functions: `from_terms` puts the terms of
`ucfh._kernels.online` together, and `PAPERS` has one for each agent, written from its paper.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import ceil, e, fsum, inf, log, pi, sqrt
from typing import Any

import numpy as np

from oracles.certified import Row, l1_reach, reach, rows_at
from oracles.dirichlet import exact_quantile, saddle_quantile
from ucfh._kernels.online import (
    CAP_HORIZON,
    CAP_LEFT,
    CAP_NEXT,
    LOWER_OF_BEST,
    LOWER_OF_PLAYED,
    NO_CAP,
    Rule,
)  # fmt: skip
from ucfh._utils.arrays import Floats
from ucfh.counts import Counts
from ucfh.mdp import Problem


@dataclass
class Look:
    """One row at one step: what is known of it, and the values that may follow.

    t: counted from 1. r: the reward of the pair. c: (k,) successors counted. V, L: (k,) the bounds
    of the next states, with what is paid for them; pays: whether anything is. G: (k,) of them.
    """

    row: int
    t: int
    H: int
    r: float
    n: int
    c: list[int]
    V: list[float]
    L: list[float]
    G: list[float]
    pays: bool

    @property
    def p(self) -> list[float]:
        """p^, all alike without visits."""
        return [x / self.n for x in self.c] if self.n else [1 / len(self.c)] * len(self.c)

    @property
    def worth(self) -> int:
        """What the next state can be worth: H - t, one more where it is paid for."""
        return self.H - self.t + self.pays

    def mean(self, f: Sequence[float]) -> float:
        return fsum(p * x for p, x in zip(self.p, f, strict=True))

    def sd(self, f: Sequence[float]) -> float:
        mean = self.mean(f)
        return sqrt(self.mean([(x - mean) ** 2 for x in f]))

    def with_one_more(self, parameter: float, value: float) -> tuple[Floats, Floats]:
        """The parameters of a Dirichlet law on the next states and one more, and their values."""
        return np.array([*self.c, parameter], float), np.array([*self.V, value])

    @property
    def gap(self) -> list[float]:
        return [v - low for v, low in zip(self.V, self.L, strict=True)]


Bounds = tuple[float, float]
Backup = Callable[[Look], Bounds]


@dataclass
class Swept:
    """Q (H, R), V, L (H+1, S)."""

    Q: Floats
    V: Floats
    L: Floats


def look_at(
    problem: Problem, counts: Counts, t: int, row: Row, V: Floats, L: Floats, G: Floats
) -> Look:
    """What there is to know of a row at step t; V, L, G (S,) of the next states."""
    rewards, table = problem.rewards, problem.table
    assert rewards is not None
    pair, extra = rewards.pair[min(t, len(rewards.pair)) - 1], rewards.successor
    paid = [0.0] * len(row.states)
    if extra is not None:
        paid = [float(extra[min(t, len(extra)) - 1, x]) for x in row.entries]
    return Look(
        row=row.number,
        t=t,
        H=problem.horizon,
        r=float(pair[row.number - (t - 1) * table.stride]),
        n=int(counts.visits[row.number]),
        c=[int(counts.successors[x]) for x in row.entries],
        V=[float(V[y]) + x for y, x in zip(row.states, paid, strict=True)],
        L=[float(L[y]) + x for y, x in zip(row.states, paid, strict=True)],
        G=[float(G[y]) for y in row.states],
        pays=extra is not None,
    )


def sweep(
    problem: Problem,
    counts: Counts,
    backup: Backup,
    lower: int = LOWER_OF_PLAYED,
    G: Floats | None = None,
    before: Floats | None = None,
    played: Any = None,
) -> Swept:
    """Back in time. ``before`` (H, R): Q never rises above it. G (H+1, S).

    ``played`` (H, S) are the rows of a policy: where Q is as good as the best there, ties are taken
    as it takes them.
    """
    table, H = problem.table, problem.horizon
    out = Swept(
        np.zeros((H, table.pairs)), np.zeros((H + 1, table.states)), np.zeros((H + 1, table.states))
    )
    G = np.zeros_like(out.V) if G is None else G
    for t in range(H, 0, -1):
        for s in range(table.states):
            found = []
            for row in rows_at(problem, t - 1, s):
                k = row.number - (t - 1) * table.stride
                look = look_at(problem, counts, t, row, out.V[t], out.L[t], G[t])
                q, low = backup(look)
                q = q if before is None else min(q, float(before[t - 1, k]))
                out.Q[t - 1, k] = q
                found.append((q, low, row.number))
            best = max(q for q, _, _ in found)
            near = [x for x in found if x[0] >= best - slack(best, H)]
            mine = [x for x in near if played is not None and x[2] == played[t - 1, s]]
            q, low, _ = (mine or near)[0]
            out.V[t - 1, s] = q
            out.L[t - 1, s] = max(x[1] for x in found) if lower == LOWER_OF_BEST else low
    return out


def slack(value: float, H: int) -> float:
    """How much two sweeps may differ by rounding.

    Var = p V^2 - (p V)^2 is exact to a few units of V^2 in the last place, so a deviation to 1e-7 V
    or so; coefficients up to about 10 and H steps make that 1e-6 H V.
    """
    return 1e-6 * H * (1 + abs(value))


def ball_slack(value: float, H: int) -> float:
    """The same where there are budgets.

    The kernel stops at an x whose KL is off by 3 %. Bounds are tangents of the true one as a
    function of the budget, which is about sqrt(budget): they are off by .03^2/8 of a width.
    """
    return 2e-4 * H * (1 + abs(value))


def from_terms(rule: Rule, terms: dict[str, Floats]) -> Backup:
    """The formula of `ucfh._kernels.online`, term by term."""

    def backup(x: Look) -> Bounds:
        caps = {
            NO_CAP: inf, CAP_LEFT: x.H - x.t + 1, CAP_HORIZON: x.H, CAP_NEXT: x.worth,
        }  # fmt: skip
        cap = float(caps[rule.cap])
        if x.n == 0 and rule.cap != NO_CAP:
            return cap, 0.0
        a = {name: float(line[x.row]) for name, line in terms.items()}
        common = a["flat"] * (x.worth if rule.by_left else 1)
        common += a["crowd"] * sqrt(x.mean(x.G))
        if rule.lower:
            common += a["spread"] * x.mean(x.gap)
            common += a["distance"] * sqrt(x.mean([d * d for d in x.gap]))
        mean = l1_reach(x.c, x.V, a["radius"], 1) if a["radius"] else x.mean(x.V)
        mean = reach(x.c, x.V, a["budget"], 1) if a["budget"] else mean
        if a["deviate"]:
            law = x.with_one_more(rule.apart, rule.pays * x.worth)
            mean = saddle_quantile(*law, a["deviate"])
        hope = mean + common + a["deviation"] * x.sd(x.V)
        if rule.best_next:
            hope = min(hope, max(x.V))
        fear = x.mean(x.L) - common - a["deviation"] * x.sd(x.L if rule.own else x.V)
        return min(cap, x.r + hope), max(0.0, x.r + fear)

    return backup


# -- papers --------------------------------------------------------------------------------------


@dataclass
class Told:
    """What an agent is told, by the letters of the papers."""

    S: int
    A: int
    H: int
    K: int
    epsilon: float
    delta: float
    m: float = 1000.0
    segments: int = 1


def ucbvi_ch(w: Told, x: Look) -> Bounds:
    L = log(5 * w.S * w.A * w.K * w.H / w.delta)
    bonus = 7 * w.H * L / sqrt(x.n) if x.n else inf
    return min(w.H, x.r + x.mean(x.V) + bonus), 0.0


def ucbvi_bf(w: Told, x: Look) -> Bounds:
    """Here x.G are the visits N'_{h+1} of the next states."""
    if x.n == 0:
        return float(w.H), 0.0
    L = log(5 * w.S * w.A * w.K * w.H / w.delta)
    top = 100**2 * w.H**3 * w.S**2 * w.A * L**2
    crowd = x.mean([min(top / y, w.H**2) if y else w.H**2 for y in x.G])
    bonus = sqrt(8 * L / x.n) * x.sd(x.V) + 14 * w.H * L / (3 * x.n) + sqrt(8 / x.n * crowd)
    return min(w.H, x.r + x.mean(x.V) + bonus), 0.0


def mbie(w: Told, x: Look) -> Bounds:
    if x.n == 0:
        return w.H - x.t + 1.0, 0.0
    sets = log(2**w.S - 2) if w.S > 1 else -inf
    radius = sqrt(max(0.0, 2 * (sets + log(2 * w.S * w.A * w.m / w.delta)) / x.n))
    return min(w.H - x.t + 1, x.r + l1_reach(x.c, x.V, radius, 1)), 0.0


def mbie_eb(w: Told, x: Look) -> Bounds:
    if x.n == 0:
        return w.H - x.t + 1.0, 0.0
    beta = w.H * sqrt(log(2 * w.S * w.A * w.H * w.m / w.delta) / 2)
    return min(w.H - x.t + 1, x.r + x.mean(x.V) + beta / sqrt(x.n)), 0.0


def beb(w: Told, x: Look) -> Bounds:
    return x.r + x.mean(x.V) + 2 * w.H**2 / (1 + x.n), 0.0


def ubev(w: Told, x: Look) -> Bounds:
    if x.n == 0:
        return x.r + max(x.V), 0.0
    llnp = log(max(1.0, log(x.n)))
    phi = sqrt((2 * llnp + log(18 * w.S * w.A * w.H / w.delta)) / x.n)
    return x.r + min(max(x.V), x.mean(x.V) + x.worth * phi), 0.0


def orlc(w: Told, x: Look) -> Bounds:
    top = w.H - x.t + 1.0
    if x.n == 0:
        return top, 0.0
    rest = log(26 * w.S * w.A * (w.H + 1 + w.S) / w.delta)
    phi = min(1.0, sqrt(0.52 / x.n * (1.4 * log(log(max(e, 2 * x.n))) + rest)))
    psi = sqrt(12) * x.sd(x.V) * phi + 45 * w.S * w.H**2 * phi**2 + x.mean(x.gap) / w.H
    return min(top, x.r + x.mean(x.V) + psi), max(0.0, x.r + x.mean(x.L) - psi)


def euler(w: Told, x: Look) -> Bounds:
    top = w.H - x.t + 1.0
    if x.n == 0:
        return top, 0.0
    ell = log(4 * w.S * w.A * w.K * w.H / (w.delta / 7))
    J, B_v, B_p = w.H * ell / 3, sqrt(2 * ell), w.H * sqrt(2 * ell)

    def bonus(V: list[float]) -> float:
        phi = x.sd(V) * sqrt(2 * ell / x.n) + J / max(1, x.n - 1)
        norm = sqrt(x.mean([d * d for d in x.gap]))
        return phi + (4 * J + B_p) / x.n + B_v * norm / sqrt(x.n)

    return min(top, x.r + x.mean(x.V) + bonus(x.V)), max(0.0, x.r + x.mean(x.L) - bonus(x.L))


def betas(w: Told, n: int) -> tuple[float, float]:
    first, more = log(3 * w.S * w.A * w.H / w.delta), log(8 * e * (n + 1))
    return first + w.S * more, first + more


def bpi_ucbvi(w: Told, x: Look) -> Bounds:
    if x.n == 0:
        return float(w.H), 0.0
    beta, star = betas(w, x.n)

    def bonus(V: list[float]) -> float:
        width = 3 * x.sd(V) * sqrt(star / x.n) + 14 * w.H**2 * beta / x.n
        return width + x.mean(x.gap) / w.H

    return min(w.H, x.r + x.mean(x.V) + bonus(x.V)), max(0.0, x.r + x.mean(x.L) - bonus(x.L))


def bpi_gap(w: Told, x: Look) -> float:
    """G of a row; x.G are those of the next states."""
    if x.n == 0:
        return float(w.H)
    beta, star = betas(w, x.n)
    width = 6 * x.sd(x.V) * sqrt(star / x.n) + 36 * w.H**2 * beta / x.n
    return min(w.H, width + (1 + 3 / w.H) * x.mean(x.G))


def eqo(w: Told, x: Look) -> Bounds:
    if x.n == 0:
        return float(w.H), 0.0
    ell = log(w.S * w.A * w.H / w.delta)
    L = 1 + log(1 + w.K * w.H / (w.S * w.A))
    lam = min(1.0, sqrt(w.S * w.A * ell * L / (2 * w.K)))
    return min(w.H, x.r + x.mean(x.V) + (w.H * ell / (2 * lam) + w.H * ell / 3) / x.n), 0.0


def bayes_ucbvi(w: Told, x: Look) -> Bounds:
    base = log(17 / 16)
    c0 = ((2 * sqrt(2) / sqrt(base) + 98 * sqrt(6) / 9) / (sqrt(2 * pi) - 1)) ** 2
    c0 += log(10 * pi) / base
    n0 = ceil(c0 + log(w.K * w.H if w.segments == 1 else w.K, 17 / 16))
    others = w.S * w.A * w.H * (2 * x.n + 1) ** 3 * (x.n + n0) ** 1.5
    tail = w.delta / (5 * (e * pi) ** 3 * others)
    return x.r + exact_quantile(*x.with_one_more(n0, 2 * x.worth), tail), 0.0


def fiechter(w: Told, x: Look) -> Bounds:
    """E; to be swept with rewards of zero."""
    if x.n == 0:
        return float(x.worth), 0.0
    sets = log(2**w.S - 2) if w.S > 1 else -inf
    rad = sqrt(max(0.0, 2 * (sets + log(w.S * w.A * x.n * (x.n + 1) / w.delta)) / x.n))
    return min(x.worth, x.worth * min(1.0, rad / 2) + x.mean(x.V)), 0.0


def mixture_beta(w: Told, n: int) -> float:
    more = (w.S - 1) * log(e * (1 + n / (w.S - 1))) if w.S > 1 else 0.0
    return log(2 * w.S * w.A * w.H / w.delta) + more


def rf_ucrl(w: Told, x: Look) -> Bounds:
    """E; to be swept with rewards of zero."""
    width = sqrt(2 * mixture_beta(w, x.n) / x.n) if x.n else inf
    return (min(x.worth, x.worth * width + x.mean(x.V)) if x.worth else 0.0), 0.0


def rf_express(w: Told, x: Look) -> Bounds:
    """W; to be swept with rewards of zero."""
    width = 15 * w.H**2 * betas(w, x.n)[0] / x.n if x.n else inf
    return min(w.H, width + (1 + 1 / w.H) * x.mean(x.V)), 0.0


def bpi_ucrl(w: Told, x: Look) -> Bounds:
    eta = mixture_beta(w, x.n) / x.n if x.n else inf
    return x.r + reach(x.c, x.V, eta, 1), x.r + reach(x.c, x.L, eta, -1)


PAPERS: dict[str, tuple[Callable[[Told, Look], Bounds], int]] = {
    "ucbvi-ch": (ucbvi_ch, 0),
    "ucbvi-bf": (ucbvi_bf, 0),
    "mbie": (mbie, 0),
    "mbie-eb": (mbie_eb, 0),
    "beb": (beb, 0),
    "ubev": (ubev, 0),
    "orlc": (orlc, LOWER_OF_PLAYED),
    "euler": (euler, LOWER_OF_PLAYED),
    "bpi-ucbvi": (bpi_ucbvi, LOWER_OF_BEST),
    "eqo": (eqo, 0),
    "bayes-ucbvi": (bayes_ucbvi, 0),
    "fiechter": (fiechter, 0),
    "rf-ucrl": (rf_ucrl, 0),
    "rf-express": (rf_express, 0),
    "bpi-ucrl": (bpi_ucrl, LOWER_OF_BEST),
}
"""Each agent's bounds of a row, and whose lower bound it keeps."""


def bpi_gap_at_start(w: Told, problem: Problem, counts: Counts, V: Floats, rows: Any) -> float:
    """G of the policy that takes rows (H, S), given V~ (H+1, S): at the start."""
    G = np.zeros_like(V)
    for t in range(w.H, 0, -1):
        for s in range(w.S):
            row = next(x for x in rows_at(problem, t - 1, s) if x.number == rows[t - 1, s])
            look = look_at(problem, counts, t, row, V[t], V[t], G[t])
            G[t - 1, s] = bpi_gap(w, look)
    start = problem.initial
    return float(G[0].max() if start is None else fsum(start * G[0]))
