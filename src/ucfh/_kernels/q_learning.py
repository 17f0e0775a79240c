"""Q-learning with a bonus, step by step, over rows (t, s, a)."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.episodes import note, walk_once
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.types import (
    CountArrays,
    EnvironmentArrays,
    ProblemArrays,
    Progress,
    Record,
    RowPolicy,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Learned(NamedTuple):
    """Q (rows,), beta (rows,), and sums (2, rows): of V_{t+1}(s') and of its square."""

    Q: Floats
    beta: Floats
    sums: Floats


@njit()
def update_q(
    H: int,
    t: int,
    row: int,
    e: int,
    ahead: float,
    sheet: ProblemArrays,
    bernstein: bool,
    tables: Floats,
    n: Ints,
    out: Learned,
) -> None:
    """Learn Q from one step of a row (t, s, a): its entry e, and ahead = V_{t+1}(s').

    tables (5, most + 1) by n (rows,): alpha, b, and of beta: the factor of sqrt(W + H), the rest,
    the cap.
    """
    sheet, tables, n, out = borrow((sheet, tables, n, out))
    Q, beta, sums = out.Q, out.beta, out.sums
    paid = sheet.r[min(t, len(sheet.r) - 1), row - t * sheet.stride]
    if sheet.extra.shape[1]:
        paid += sheet.extra[0, e]
    at = n[row]
    alpha, bonus = tables[0, at], tables[1, at]
    if bernstein:
        sums[0, row] += ahead
        sums[1, row] += ahead * ahead
        mean = sums[0, row] / at
        W = max(0.0, sums[1, row] / at - mean * mean)
        now = min(tables[2, at] * sqrt(W + H) + tables[3, at], tables[4, at])
        bonus = (now - (1.0 - alpha) * beta[row]) / (2.0 * alpha)
        beta[row] = now
    Q[row] += alpha * (paid + ahead + bonus - Q[row])


@njit(forceinline=True)
def greedy(t: int, s: int, first: Ints, stride: int, Q: Floats) -> int:
    """Return the row of highest Q (rows,) in a state."""
    first, Q = borrow((first, Q))
    best = t * stride + first[s]
    for row in range(best + 1, t * stride + first[s + 1]):
        if Q[row] > Q[best]:
            best = row
    return int(best)


@njit()
def learn_by_rates(
    rng: np.random.Generator,
    episodes: int,
    nature: EnvironmentArrays,
    sheet: ProblemArrays,
    bernstein: bool,
    tables: Floats,
    seen: CountArrays,
    learned: Learned,
    out: RowPolicy,
    followed: Ints,
    record: Record,
) -> Progress:
    """Walk an episode, count, and `update_q` by each of its steps, again and again.

    Stops early if there is no room for another record, or in the tables. followed (H, S): the rows
    of the policy recorded last.
    """
    nature, sheet, tables, seen, learned = borrow((nature, sheet, tables, seen, learned))
    out, followed, record = borrow((out, followed, record))
    V, rows, c, n, Q = out.V, out.rows, seen.c, seen.n, learned.Q
    H = len(rows)
    path, recorded = np.empty(H + 1, np.int64), 0
    for episode in range(episodes):
        now = note(episode, recorded, nature, sheet.start, out.V[0], rows, followed, record)
        if now < 0:
            return Progress(episode, recorded)
        recorded = now
        walk_once(rng, nature, rows, path)
        s, full = nature.indices[path[0]], False
        for t in range(H):
            row, following = rows[t, s], nature.indices[path[t + 1]]
            n[row] += 1
            c[nature.position[path[t + 1]]] += 1
            ahead = V[t + 1, following]
            e = nature.position[path[t + 1]]
            update_q(H, t, row, e, ahead, sheet, bernstein, tables, n, learned)
            rows[t, s] = greedy(t, s, sheet.first, sheet.stride, Q)
            V[t, s] = min(float(H), Q[rows[t, s]])
            full |= n[row] + 1 >= tables.shape[1]
            s = following
        if full:
            return Progress(episode + 1, recorded)
    return Progress(episodes, recorded)
