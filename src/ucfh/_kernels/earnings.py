"""What given policies earn, at least, at most and in the empirical model; and the surest policy."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.balls import TIE, extreme, fill, longest
from ucfh._kernels.compiling import inner, njit, uncounted
from ucfh._kernels.evidence import ANYTHING, STATES, Evidence, Pay, Rows, Wide, rest_of, widest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(**uncounted, **inner)
def earned(
    row: int,
    t: int,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    order: Ints,
    mark: Ints,
    guess: float,
    v: Floats,
) -> Wide:
    """The best (sign = 1) or worst mean of reward and V (S,) of a row at step t, times the sign.

    By the ball of outcomes or, if the row is noisy, by that of the next states and the mean reward
    apart. order, mark: see `rest_of`. v is filled.
    """
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    anything = pay.cap[t + 1] if sign > 0 else 0.0
    if evidence.noisy[row]:
        fill(begin, end, rows.indices, V, None, sign, inf, v)
        rest = rest_of(row, rows, V, sign, False, 0.0, anything, order, mark).value
        x = widest(row, rows, evidence, evidence.successors, v, rest, guess)
        paid = evidence.r_up[row] if sign > 0 else -evidence.r_low[row]
        return Wide(x.bound + paid, x.x, x.B, x.slack, x.beyond)
    fill(begin, end, rows.indices, V, bonus, sign, inf, v)
    anew, extra = pay.extra > 0.0, pay.extra if sign > 0 else 0.0
    rest = rest_of(row, rows, V, sign, anew, extra, extra + anything, order, mark).value
    return widest(row, rows, evidence, evidence.outcomes, v, rest, guess)


@njit(cache=True, nogil=True)
def evaluate(
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    bonus: Floats | None,
    taken: Ints,
    sign: float,
    V: Floats,
) -> None:
    """What the policy that takes rows (H, S) earns at least (sign = -1), or at most (sign = 1).

    Into V (H+1, S), V[H] = 0, but for states without pairs, which keep what they have.
    """
    first, cap = rows.first, pay.cap
    H, S = taken.shape
    v, mark, order = np.empty(longest(rows.indptr)), np.full(S, -1), np.arange(S)
    any_state = (rows.rest == STATES).any()
    for t in range(H - 1, -1, -1):
        bonus_t = None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        if any_state:
            order[:] = np.argsort(-sign * V[t + 1], kind="mergesort")
        for s in range(S):
            if first[s] == first[s + 1]:
                continue
            row = taken[t, s]
            paid = pay.r[min(t, len(pay.r) - 1), (row - rows.offset[t]) // rows.step]
            x = earned(
                row, t, rows, evidence, pay, V[t + 1], bonus_t, sign, order, mark, 0.0, v
            ).bound
            V[t, s] = min(max(0.0, paid + sign * x), cap[t])


@njit(cache=True, nogil=True)
def best_guaranteed(
    rows: Rows, evidence: Evidence, pay: Pay, bonus: Floats | None, taken: Ints, V: Floats
) -> None:
    """The rows (H, S) of the policy that earns most for sure, and that: V (H+1, S), V[H] = 0.

    Among actions that differ by no more than rounding the first is taken. A state without pairs
    keeps the V that it has.
    """
    first, r = rows.first, pay.r
    H, S = taken.shape
    v, mark, order = np.empty(longest(rows.indptr)), np.full(S, -1), np.arange(S)
    any_state = (rows.rest == STATES).any()
    for t in range(H - 1, -1, -1):
        bonus_t = None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        if any_state:
            order[:] = np.argsort(V[t + 1], kind="mergesort")
        for s in range(S):
            best = -inf
            for k in range(first[s], first[s + 1]):
                row = k * rows.step + rows.offset[t]
                x = (
                    r[min(t, len(r) - 1), k]
                    - earned(
                        row, t, rows, evidence, pay, V[t + 1], bonus_t, -1.0, order, mark, 0.0, v
                    ).bound
                )
                if x > best + TIE * H:
                    best, taken[t, s] = x, row
            if best > -inf:
                V[t, s] = max(0.0, best)


@njit(cache=True, nogil=True)
def expected(
    rows: Rows, evidence: Evidence, r: Floats, bonus: Floats | None, taken: Ints, V: Floats
) -> None:
    """What the policy that takes rows (H, S) earns in the empirical model: V (H+1, S), V[H] = 0.

    A row without visits leads to the worst that may follow. A state without pairs keeps its V.
    """
    first, indptr, indices, c, n = (
        rows.first,
        rows.indptr,
        rows.indices,
        evidence.above.c,
        evidence.n,
    )
    H, S = taken.shape
    for t in range(H - 1, -1, -1):
        worst_of_all = V[t + 1].min()
        for s in range(S):
            if first[s] == first[s + 1]:
                continue
            row = taken[t, s]
            mean, worst = 0.0, inf
            for e in range(indptr[row], indptr[row + 1]):
                x = V[t + 1, indices[e]]
                if bonus is not None:
                    x += bonus[min(t, len(bonus) - 1), e]
                mean += c[e] * x
                worst = min(worst, x)
            if rows.rest[row] == STATES:
                worst = min(worst, worst_of_all)
            elif rows.rest[row] == ANYTHING:
                worst = 0.0
            paid = r[min(t, len(r) - 1), (row - rows.offset[t]) // rows.step]
            V[t, s] = paid + (mean / n[row] if n[row] > 0 else worst)


@njit(cache=True, nogil=True)
def at_start(
    rows: Rows, evidence: Evidence, V: Floats, sign: float, anything: float, fixed: bool
) -> float:
    """The best (sign = 1) or worst mean of V (S,) over the start, which is not told.

    ``fixed``: V stands for a function that does not depend on the data. ``anything``: what a state
    that nobody has seen is worth.
    """
    row, S = len(rows.indptr) - 2, len(V)
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    v, mark, order = np.empty(end - begin), np.full(S, -1), np.argsort(-sign * V, kind="mergesort")
    fill(begin, end, rows.indices, V, None, sign, inf, v)
    rest = rest_of(row, rows, V, sign, False, 0.0, anything, order, mark).value
    if fixed:
        ball = evidence.above
        return sign * extreme(begin, end, ball.c, ball.n[row], ball.eta[row], v, rest, 0.0).bound
    return sign * widest(row, rows, evidence, evidence.successors, v, rest, 0.0).bound
