"""Bounds of policy values, empirical values, and the policy of the best lower bound."""

from __future__ import annotations

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.kl_ball import TIE
from ucfh._kernels.row_bounds import (
    ANYTHING,
    LEAST,
    MOST,
    STATES,
    Evidence,
    Pay,
    Rows,
    Scratch,
    bound_row,
    put_in_order,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

BEFORE: Any = np.int64(-1)
"""The step of the start. A plain -1 would be a type of its own, and compile kernels again."""
TOLD = -1
"""In place of a kind of bound for the mean over the start."""


@njit()
def evaluate(
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    given: bool,
    taken: Ints,
    sign: float,
    start: int,
    any_state: bool,
    states: Ints,
    v: Floats,
    V: Floats,
) -> float:
    """Bound the value of a policy from below (sign = -1) or above (sign = 1).

    The policy takes rows taken (H, S). If it is not ``given``, the policy of the best bound is
    written there: among actions that differ by no more than rounding the first is taken. V (H+1,
    S), V[H] = 0, is filled; states without pairs keep their values. any_state: whether any state
    may follow some row. states (3, S), v (entries of the longest row,): scratch; states[0] is -1.

    Returns the best (sign = 1) or worst mean of V[0] over the unknown start, by the kind of bound
    ``start``: `LEAST`, `AHEAD` or, for a function that does not depend on the data, `UP`;
    0 if it is `TOLD`. With H = 0, V (1, S) is given.
    """
    rows, evidence, pay, taken = borrow((rows, evidence, pay, taken))
    states, v, V = borrow((states, v, V))
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
    if start == TOLD:
        return 0.0
    put_in_order(V[0], sign, states[1], states[2])
    row = len(rows.indptr) - 2
    found = bound_row(start, row, BEFORE, -inf, rows, evidence, pay, V[0], 0.0, scratch, v)
    return sign * found.value


@njit()
def expected(rows: Rows, evidence: Evidence, pay: Pay, taken: Ints, V: Floats) -> None:
    """Write the empirical values of the policy that takes rows (H, S) into V (H+1, S), V[H] = 0.

    A row without visits leads to the worst possible outcome. A state without pairs keeps its V.
    """
    rows, evidence, pay, taken, V = borrow((rows, evidence, pay, taken, V))
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
