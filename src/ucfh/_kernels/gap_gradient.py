"""Attribution of a gap to rows, exploration of these rows, and the loss by leaving a policy.

The bounds are those of `ucfh._kernels.certificates`.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.certificates import Certified
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.row_bounds import (
    AHEAD,
    ANYTHING,
    LEAST,
    LOW,
    STATES,
    UP,
    Evidence,
    Pay,
    Rows,
    Scratch,
    ball_of,
    bound_row,
    put_in_order,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

IN_U, IN_L, IN_W, IN_D, TO_U, TO_L, TO_W, TO_D, OVER, UNDER = range(10)  # lines of weights


@njit()
def _charge(
    kind: int,
    row: int,
    t: int,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    V: Floats,
    guess: float,
    weight: float,
    scratch: Scratch,
    v: Floats,
    to: Floats,
    out: Floats,
) -> int:
    """Charge a row with eta d bound / d eta, and pass the weight on to its successors: to (S,).

    The weights are those of the distribution that attains the bound. A row without visits is
    charged with the range of its values: of the listed ones, of all states where any may follow,
    and up to the cap where unknown states may. The part that is due to the probability of
    unobserved outcomes falls like 1/n, twice as fast as the root of eta. V (S,) are values of the
    next step. Returns the state that stands for the unlisted ones, or -1.
    """
    rows, evidence, pay, V = borrow((rows, evidence, pay, V))
    scratch, v, to, out = borrow((scratch, v, to, out))
    if weight <= 0.0:
        return -1
    indices, known, order = rows.indices, evidence.known[row], scratch.order
    paid = pay.r[min(t, len(pay.r) - 1), (row - rows.offset[t]) // rows.step]
    x = bound_row(kind, row, t, paid, rows, evidence, pay, V, guess, scratch, v)
    alone = bool(kind == AHEAD or (kind > LOW and known.noisy))
    c, n, eta = ball_of(kind, row, alone, evidence)
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    left, best, worth = 1.0, x.state, x.rest
    for e in range(begin, end):
        y, j = v[e - begin], int(indices[e])
        if y > worth or (y == worth and j < best):
            best, worth = j, y
        if c[e] > 0.0 and x.x + x.B - y > 0.0:
            q = c[e] / n if x.x == inf else min(left, x.slack * c[e] / n / (x.x + x.B - y))
            to[j] += weight * q
            left -= q
    if best >= 0:  # of a state that nobody has seen nothing more can be asked
        to[best] += weight * left
    out[row] += weight * x.beyond
    if kind == LEAST and known.noisy:
        out[row] += 0.5 * weight * (known.r_up - known.r_low)
    if known.n > 0.0:
        out[row] += weight * x.slack * eta
    elif known.rest == ANYTHING:
        out[row] += weight * pay.cap[t]
    elif known.rest == STATES:
        extra = pay.extra if kind <= LOW else 0.0
        out[row] += weight * (extra + abs(V[order[0]] - V[order[-1]]))
    else:
        out[row] += weight * x.slack
    return x.state


@njit()
def blame(
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    bounds: Certified,
    by_difference: bool,
    any_state: bool,
    weights: Floats,
    states: Ints,
    v: Floats,
    out: Floats,
) -> None:
    """Attribute the gap to rows: out (rows,) = eta d gap / d eta, summed over t.

    The gap is the mean of D if ``by_difference``, else of U; the start is in weights (10, S): in
    line `IN_D` or `IN_U`, and all else is 0. Its derivative is carried forward in time through the
    rows that decided each bound, with the distributions that attain them. any_state: whether any
    state may follow some row. states (6, S), v (entries of the longest row,): scratch; states[0]
    is -1.
    """
    rows, evidence, pay, bounds = borrow((rows, evidence, pay, bounds))
    weights, states, v, out = borrow((weights, states, v, out))
    indptr, indices, first = rows.indptr, rows.indices, rows.first
    greedy, rival, branch = bounds.greedy, bounds.rival, bounds.branch
    x_up, x_low, x_pi, x_ahead = bounds.x_up, bounds.x_low, bounds.x_pi, bounds.x_ahead
    to_U, to_L, to_W, to_D = weights[TO_U], weights[TO_L], weights[TO_W], weights[TO_D]
    over, under = weights[OVER], weights[UNDER]
    by_U, by_L = Scratch(states[0], states[1]), Scratch(states[0], states[2])
    by_W, by_D = Scratch(states[0], states[3]), Scratch(states[0], states[4])
    H, S = greedy.shape
    for t in range(H):
        U1, L1, W1, D1 = bounds.U[t + 1], bounds.L[t + 1], bounds.W[t + 1], bounds.D[t + 1]
        if any_state:
            put_in_order(U1, 1.0, states[1], states[5])
            if by_difference:
                put_in_order(L1, -1.0, states[2], states[5])
                put_in_order(W1, -1.0, states[3], states[5])
                put_in_order(D1, 1.0, states[4], states[5])
        for s in range(S):
            if first[s] == first[s + 1]:
                continue
            mine, other, how = greedy[t, s], rival[t, s], branch[t, s]
            k = (mine - rows.offset[t]) // rows.step
            row, x = bounds.up[t, s], weights[IN_U, s]
            guess = x_up[t, (row - rows.offset[t]) // rows.step]
            _charge(UP, row, t, rows, evidence, pay, U1, guess, x, by_U, v, to_U, out)
            if not by_difference:
                continue
            row, x = bounds.low[t, s], weights[IN_L, s]
            guess = x_low[t, (row - rows.offset[t]) // rows.step]
            _charge(LOW, row, t, rows, evidence, pay, L1, guess, x, by_L, v, to_L, out)
            x, guess = weights[IN_W, s], x_pi[t, s]
            _charge(LEAST, mine, t, rows, evidence, pay, W1, guess, x, by_W, v, to_W, out)
            x = weights[IN_D, s]
            if x <= 0.0:
                continue
            if how < 2:
                ahead = x_ahead[t, s]
                _charge(AHEAD, mine, t, rows, evidence, pay, D1, ahead, x, by_D, v, to_D, out)
            if how == 0:
                continue
            theirs = x_up[t, (other - rows.offset[t]) // rows.step]
            last = _charge(UP, other, t, rows, evidence, pay, U1, theirs, x, by_U, v, over, out)
            if how == 1:
                ours = x_low[t, k]
                least = _charge(LOW, mine, t, rows, evidence, pay, L1, ours, x, by_L, v, under, out)
            else:
                least = _charge(
                    LEAST, mine, t, rows, evidence, pay, W1, guess, x, by_W, v, under, out
                )
            # as far as both rows lead to the same state, what is unknown there cancels
            for e in range(indptr[other], indptr[other + 1] + 1):
                j = int(indices[e]) if e < indptr[other + 1] else last
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
                j = int(indices[e]) if e < indptr[mine + 1] else least
                if j < 0:
                    continue
                if how == 1:
                    to_L[j] += under[j]
                else:
                    to_W[j] += under[j]
                under[j] = 0.0
        for line in range(4):
            for s in range(S):
                weights[IN_U + line, s], weights[TO_U + line, s] = weights[TO_U + line, s], 0.0


@njit()
def explore(rows: Rows, evidence: Evidence, gain: Floats, X: Floats, taken: Ints) -> None:
    """Write into taken (H, S) the policy of the largest total gain (rows,) in the empirical model.

    A row without visits leads to the best of its known possible next states; ties go to the row
    with the fewest tries. X (2, S): scratch, all 0.
    """
    rows, evidence, gain, X, taken = borrow((rows, evidence, gain, X, taken))
    first, indptr, indices, c = rows.first, rows.indptr, rows.indices, evidence.one
    H, S = taken.shape
    for t in range(H - 1, -1, -1):
        now, later, best_of_all = X[t % 2], X[(t + 1) % 2], 0.0
        for s in range(S):
            best_of_all = max(best_of_all, later[s])
        for s in range(S):
            best, chosen, tries = 0.0, -1, 0.0
            for k in range(first[s], first[s + 1]):
                row = k * rows.step + rows.offset[t]
                known, x = evidence.known[row], 0.0
                for e in range(indptr[row], indptr[row + 1]):
                    if known.n == 0.0:
                        x = max(x, later[indices[e]])
                    else:
                        x += c[e] * later[indices[e]]
                if known.n > 0.0:
                    x /= known.n
                elif known.rest == STATES:
                    x = best_of_all
                x += gain[row]
                tied = abs(x - best) <= 1e-9 * best and known.tries < tries
                if chosen < 0 or x > (1.0 + 1e-9) * best or tied:
                    best, chosen, tries = x, row, known.tries
            now[s] = best
            if chosen >= 0:
                taken[t, s] = chosen


@njit()
def loss_by_leaving(
    rows: Rows,
    evidence: Evidence,
    taken: Ints,
    kept: Ints,
    worth: Floats,
    counted: Floats,
    here: Floats,
) -> float:
    """Return the expected loss, in the empirical model, by leaving a policy for rows taken (H, S).

    The policy takes kept (H, S) and has the values worth (H+1, S); where it is left, the rest of
    the episode counts with the value counted (H+1, S). here (H+1, S), on entry the start in
    line 0 and 0 elsewhere, is filled with the occupancy of episodes that have not left the policy.
    """
    indptr, indices, c = rows.indptr, rows.indices, evidence.one
    H, S = taken.shape
    loss = 0.0
    for t in range(H):
        for s in range(S):
            row, x = taken[t, s], here[t, s]
            if x <= 0.0 or rows.first[s] == rows.first[s + 1]:
                continue
            if row != kept[t, s]:
                loss += x * max(0.0, worth[t, s] - counted[t, s])
                continue
            for e in range(indptr[row], indptr[row + 1]):
                if c[e] > 0.0:
                    here[t + 1, indices[e]] += x * c[e] / evidence.known[row].n
    return loss
