"""Which rows a gap depends on, which policy does most about them, and what it costs to leave one.

The bounds are those of `ucfh._kernels.certificates`.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.balls import extreme, fill, longest
from ucfh._kernels.certificates import Certified
from ucfh._kernels.compiling import inner, njit, uncounted
from ucfh._kernels.evidence import (
    ANYTHING,
    STATES,
    Ball,
    Evidence,
    Pay,
    Rest,
    Rows,
    rest_of,
    widest,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Scratch(NamedTuple):
    """Room to work in: values of a row (size,), marks (S,), and states in an order (S,)."""

    v: Floats
    mark: Ints
    order: Ints


@njit(**uncounted, **inner)
def _pass_on(
    row: int,
    rows: Rows,
    ball: Ball,
    v: Floats,
    rest: Rest,
    guess: float,
    weight: float,
    to: Floats,
) -> float:
    """Add weight times the distribution that attains a row's bound to (S,); return the slack."""
    begin, end, indices = rows.indptr[row], rows.indptr[row + 1], rows.indices
    c, n = ball.c, ball.n[row]
    _, x, B, slack = extreme(begin, end, c, n, ball.eta[row], v, rest.value, guess)
    left, best, worth = 1.0, rest.state, rest.value
    for e in range(begin, end):
        d = B - v[e - begin]
        if v[e - begin] > worth or (v[e - begin] == worth and indices[e] < best):
            best, worth = indices[e], v[e - begin]
        if c[e] > 0 and x + d > 0.0:
            q = c[e] / n if x == inf else min(left, slack * c[e] / n / (x + d))
            to[indices[e]] += weight * q
            left -= q
    if best >= 0:  # of a state that nobody has seen nothing more can be asked
        to[best] += weight * left
    return slack


@njit(**uncounted, **inner)
def _charge(
    row: int,
    rows: Rows,
    evidence: Evidence,
    ball: Ball,
    v: Floats,
    rest: Rest,
    guess: float,
    weight: float,
    cap: float,
    spread: float,
    to: Floats,
    out: Floats,
) -> None:
    """Charge a row with eta d bound / d eta, and pass the weight on to its successors.

    Without visits, with the range of its values: that of the listed ones, ``spread`` where any
    state may follow, and ``cap`` where anything may.
    """
    slack = _pass_on(row, rows, ball, v, rest, guess, weight, to)
    if evidence.n[row] > 0:
        out[row] += weight * slack * ball.eta[row]
    elif rows.rest[row] == ANYTHING:
        out[row] += weight * cap
    else:
        out[row] += weight * (spread if rows.rest[row] == STATES else slack)


@njit(**uncounted, **inner)
def _charge_for_V(
    row: int,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    t: int,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    guess: float,
    weight: float,
    scratch: Scratch,
    to: Floats,
    out: Floats,
) -> int:
    """`_charge` for the bound of V* from above (sign = 1) or below; V (S,) is that of the next.

    Returns the state that stands for what is not listed, or -1.
    """
    if weight <= 0.0:
        return -1
    up = sign > 0
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    k = (row - rows.offset[t]) // rows.step
    most = pay.cap[t] - pay.r[min(t, len(pay.r) - 1), k] if up else inf
    fill(begin, end, rows.indices, V, bonus, sign, most, scratch.v)
    extra, anything = (pay.extra, pay.extra + pay.cap[t + 1]) if up else (0.0, 0.0)
    anew = pay.extra > 0.0
    rest = rest_of(row, rows, V, sign, anew, extra, anything, scratch.order, scratch.mark)
    rest = Rest(min(rest.value, most), rest.state)
    ball = evidence.above if up else evidence.below
    spread = pay.extra + abs(V[scratch.order[0]] - V[scratch.order[-1]])
    _charge(row, rows, evidence, ball, scratch.v, rest, guess, weight, pay.cap[t], spread, to, out)
    return rest.state


@njit(**uncounted, **inner)
def _charge_for_all(
    row: int,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    t: int,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    guess: float,
    weight: float,
    scratch: Scratch,
    to: Floats,
    out: Floats,
) -> int:
    """`_charge` for the bound of W (sign = -1) or of p D (sign = 1); V (S,) is that of the next.

    What rests on the probability of the unseen falls like 1/n, twice as fast as the root of eta.
    Returns the state that stands for what is not listed, or -1.
    """
    if weight <= 0.0:
        return -1
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    alone = sign > 0 or evidence.noisy[row]
    ball = evidence.successors if alone else evidence.outcomes
    fill(begin, end, rows.indices, V, None if alone else bonus, sign, inf, scratch.v)
    anything = pay.cap[t + 1] if sign > 0 else 0.0
    anew = pay.extra > 0.0 and not alone
    rest = rest_of(row, rows, V, sign, anew, 0.0, anything, scratch.order, scratch.mark)
    wide = widest(row, rows, evidence, ball, scratch.v, rest.value, guess)
    if wide.beyond > 0.0:
        rest = Rest(-inf, -1)
        out[row] += weight * wide.beyond
    if alone and sign < 0:
        out[row] += 0.5 * weight * (evidence.r_up[row] - evidence.r_low[row])
    spread = abs(V[scratch.order[0]] - V[scratch.order[-1]])
    _charge(row, rows, evidence, ball, scratch.v, rest, guess, weight, pay.cap[t], spread, to, out)
    return rest.state


@njit(cache=True, nogil=True)
def blame(
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    bonus: Floats | None,
    bounds: Certified,
    start: Floats,
    by_difference: bool,
    out: Floats,
) -> None:
    """How much of a gap each row accounts for: out (rows,) = eta d gap / d eta, summed over t.

    The gap is the mean over start (S,) of D if ``by_difference``, else of U. Its derivative is
    carried forward in time through the rows that decided each bound, with the distributions that
    attain them.
    """
    indptr, indices, first = rows.indptr, rows.indices, rows.first
    U, L, W, D, up, low = bounds.U, bounds.L, bounds.W, bounds.D, bounds.up, bounds.low
    greedy, rival, branch = bounds.greedy, bounds.rival, bounds.branch
    x_up, x_low, x_pi, x_ahead = bounds.x_up, bounds.x_low, bounds.x_pi, bounds.x_ahead
    H, S = greedy.shape
    v, mark = np.empty(longest(indptr)), np.full(S, -1)
    any_state = (rows.rest == STATES).any()
    none = np.arange(S)
    by_U, by_L = Scratch(v, mark, none), Scratch(v, mark, none)
    by_W, by_D = Scratch(v, mark, none), Scratch(v, mark, none)
    in_U, in_L, in_W, in_D = np.zeros(S), np.zeros(S), np.zeros(S), np.zeros(S)
    over, under = np.zeros(S), np.zeros(S)
    if by_difference:
        in_D[:] = start
    else:
        in_U[:] = start
    for t in range(H):
        to_U, to_L, to_W, to_D = np.zeros(S), np.zeros(S), np.zeros(S), np.zeros(S)
        bonus_t = None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        U1, L1, W1, D1 = U[t + 1], L[t + 1], W[t + 1], D[t + 1]
        if any_state:
            by_U, by_L = (
                Scratch(v, mark, np.argsort(-U1, kind="mergesort")),
                Scratch(v, mark, np.argsort(L1, kind="mergesort")),
            )
            by_W, by_D = (
                Scratch(v, mark, np.argsort(W1, kind="mergesort")),
                Scratch(v, mark, np.argsort(-D1, kind="mergesort")),
            )
        for s in range(S):
            if first[s] == first[s + 1]:
                continue
            row, x = up[t, s], in_U[s]
            guess = x_up[t, (row - rows.offset[t]) // rows.step]
            _charge_for_V(row, rows, evidence, pay, t, U1, bonus_t, 1.0, guess, x, by_U, to_U, out)
            row, x = low[t, s], in_L[s]
            guess = x_low[t, (row - rows.offset[t]) // rows.step]
            _charge_for_V(row, rows, evidence, pay, t, L1, bonus_t, -1.0, guess, x, by_L, to_L, out)
            mine, x = greedy[t, s], in_W[s]
            guess = x_pi[t, s]
            _charge_for_all(
                mine, rows, evidence, pay, t, W1, bonus_t, -1.0, guess, x, by_W, to_W, out
            )
            other, how, x = rival[t, s], branch[t, s], in_D[s]
            if x <= 0.0:
                continue
            if how < 2:
                ahead = x_ahead[t, s]
                _charge_for_all(
                    mine, rows, evidence, pay, t, D1, None, 1.0, ahead, x, by_D, to_D, out
                )
            if how == 0:
                continue
            guess_other = x_up[t, (other - rows.offset[t]) // rows.step]
            theirs = _charge_for_V(
                other, rows, evidence, pay, t, U1, bonus_t, 1.0, guess_other, x, by_U, over, out
            )
            if how == 1:
                guess = x_low[t, (mine - rows.offset[t]) // rows.step]
                ours = _charge_for_V(
                    mine, rows, evidence, pay, t, L1, bonus_t, -1.0, guess, x, by_L, under, out
                )
            else:
                ours = _charge_for_all(
                    mine, rows, evidence, pay, t, W1, bonus_t, -1.0, guess, x, by_W, under, out
                )
            # as far as both rows lead to the same state, what is unknown there cancels
            for e in range(indptr[other], indptr[other + 1] + 1):
                j = indices[e] if e < indptr[other + 1] else theirs
                if j < 0:
                    continue
                same = min(over[j], under[j])
                if how == 2:
                    if U1[j] - W1[j] > D1[j]:
                        to_D[j] += same
                    else:
                        same = 0.0
                to_U[j] += over[j] - same
                under[j] -= same
                over[j] = 0.0
            for e in range(indptr[mine], indptr[mine + 1] + 1):
                j = indices[e] if e < indptr[mine + 1] else ours
                if j < 0:
                    continue
                if how == 1:
                    to_L[j] += under[j]
                else:
                    to_W[j] += under[j]
                under[j] = 0.0
        in_U, in_L, in_W, in_D = to_U, to_L, to_W, to_D


@njit(cache=True, nogil=True)
def explore(rows: Rows, evidence: Evidence, gain: Floats, taken: Ints) -> None:
    """The rows (H, S) of the policy that collects most of gain (rows,) in the empirical model.

    A row without visits leads to the best that may follow, as far as it is known; ties go to the
    row that was tried least.
    """
    first, indptr, indices = rows.first, rows.indptr, rows.indices
    c, n, tries = evidence.above.c, evidence.n, evidence.tries
    H, S = taken.shape
    X = np.zeros(S)
    for t in range(H - 1, -1, -1):
        now, best_of_all = np.zeros(S), X.max()
        for s in range(S):
            best, chosen = 0.0, -1
            for k in range(first[s], first[s + 1]):
                row = k * rows.step + rows.offset[t]
                x = 0.0
                for e in range(indptr[row], indptr[row + 1]):
                    if n[row] == 0:
                        x = max(x, X[indices[e]])
                    elif c[e] > 0:
                        x += c[e] / n[row] * X[indices[e]]
                if n[row] == 0 and rows.rest[row] == STATES:
                    x = best_of_all
                x += gain[row]
                tied = abs(x - best) <= 1e-9 * best and tries[row] < tries[chosen]
                if chosen < 0 or x > (1.0 + 1e-9) * best or tied:
                    best, chosen = x, row
            if chosen >= 0:
                now[s], taken[t, s] = best, chosen
        X = now


@njit(cache=True, nogil=True)
def loss_by_leaving(
    rows: Rows,
    evidence: Evidence,
    taken: Ints,
    kept: Ints,
    worth: Floats,
    counted: Floats,
    start: Floats,
) -> float:
    """What an episode that takes rows (H, S) loses, in the empirical model, by leaving a policy.

    The policy takes kept (H, S) and is worth ``worth`` (H+1, S); where it is left, only
    ``counted`` (H+1, S) is counted for the rest. From start (S,).
    """
    indptr, indices, c, n = rows.indptr, rows.indices, evidence.above.c, evidence.n
    H, S = taken.shape
    here = start.copy()
    loss = 0.0
    for t in range(H):
        there = np.zeros(S)
        for s in range(S):
            row = taken[t, s]
            if here[s] <= 0.0 or rows.first[s] == rows.first[s + 1]:
                continue
            if row != kept[t, s]:
                loss += here[s] * max(0.0, worth[t, s] - counted[t, s])
                continue
            for e in range(indptr[row], indptr[row + 1]):
                if c[e] > 0:
                    there[indices[e]] += here[s] * c[e] / n[row]
        here = there
    return loss
