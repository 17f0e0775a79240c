"""What given policies earn, at least, at most and in the empirical model; and the surest policy."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.balls import TIE
from ucfh._kernels.compiling import njit, uncounted
from ucfh._kernels.evidence import (
    AHEAD,
    ANYTHING,
    LEAST,
    MOST,
    STATES,
    UP,
    Evidence,
    Pay,
    Rows,
    Scratch,
    bound_row,
    put_in_order,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(**uncounted)
def evaluate(
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    given: bool,
    taken: Ints,
    sign: float,
    any_state: bool,
    states: Ints,
    v: Floats,
    V: Floats,
) -> None:
    """What the policy that takes rows (H, S) earns at least (sign = -1), or at most (sign = 1).

    If it is not ``given``, the one that earns most for sure: among actions that differ by no more
    than rounding the first is taken. Into V (H+1, S), V[H] = 0, but for states without pairs, which
    keep what they have. any_state: whether any state may follow some row. states (3, S), v (entries
    of the longest row,): scratch; states[0] is -1.
    """
    kind, first, scratch = MOST if sign > 0.0 else LEAST, rows.first, Scratch(states[0], states[1])
    H, S = taken.shape
    for t in range(H - 1, -1, -1):
        r = pay.r[min(t, len(pay.r) - 1)]
        if any_state:
            put_in_order(V[t + 1], sign, states[1], states[2])
        for s in range(S):
            if first[s] == first[s + 1]:
                continue
            best = -inf
            for k in range(first[s], first[s + 1]):
                row = k * rows.step + rows.offset[t]
                if given and row != taken[t, s]:
                    continue
                x = bound_row(
                    kind, row, t, r[k], rows, evidence, pay, V[t + 1], 0.0, scratch, v
                ).value
                if given or r[k] + sign * x > best + TIE * H:
                    best, taken[t, s] = r[k] + sign * x, row
            V[t, s] = min(max(0.0, best), pay.cap[t])


@njit(**uncounted)
def expected(rows: Rows, evidence: Evidence, pay: Pay, taken: Ints, V: Floats) -> None:
    """What the policy that takes rows (H, S) earns in the empirical model: V (H+1, S), V[H] = 0.

    A row without visits leads to the worst that may follow. A state without pairs keeps its V.
    """
    first, indptr, indices, c = rows.first, rows.indptr, rows.indices, evidence.one
    H, S = taken.shape
    for t in range(H - 1, -1, -1):
        r, bonus = pay.r[min(t, len(pay.r) - 1)], pay.bonus[min(t, len(pay.bonus) - 1)]
        worst_of_all = inf
        for s in range(S):
            worst_of_all = min(worst_of_all, V[t + 1, s])
        for s in range(S):
            if first[s] == first[s + 1]:
                continue
            row = taken[t, s]
            known, mean, worst = evidence.known[row], 0.0, inf
            for e in range(indptr[row], indptr[row + 1]):
                x = V[t + 1, indices[e]]
                if bonus.size > 0:
                    x += bonus[e]
                mean += c[e] * x
                worst = min(worst, x)
            if known.rest == STATES:
                worst = min(worst, worst_of_all)
            elif known.rest == ANYTHING:
                worst = 0.0
            paid = r[(row - rows.offset[t]) // rows.step]
            V[t, s] = paid + (mean / known.n if known.n > 0.0 else worst)


@njit(**uncounted)
def at_start(
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    V: Floats,
    sign: float,
    fixed: bool,
    states: Ints,
    v: Floats,
) -> float:
    """The best (sign = 1) or worst mean of V (S,) over the start, which is not told.

    ``fixed``: V stands for a function that does not depend on the data. states (3, S), v (entries
    of the longest row,): scratch; states[0] is -1.
    """
    row, kind = len(rows.indptr) - 2, LEAST
    if sign > 0.0:
        kind = UP if fixed else AHEAD
    put_in_order(V, sign, states[1], states[2])
    scratch = Scratch(states[0], states[1])
    x = bound_row(kind, row, -1, -inf, rows, evidence, pay, V, 0.0, scratch, v)
    return sign * x.value
