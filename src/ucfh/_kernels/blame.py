"""Which rows a gap depends on, which policy does most about them, and what it costs to leave one.

The bounds are those of `ucfh._kernels.certificates`.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.balls import extreme, value_of
from ucfh._kernels.certificates import Certified, Known
from ucfh._kernels.compiling import inner, njit, uncounted
from ucfh._kernels.groups import Layout, Seen

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit(**uncounted, **inner)
def _tilt(
    row: int,
    layout: Layout,
    seen: Seen,
    eta: Floats,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    guess: float,
    weight: float,
    to: Floats,
) -> float:
    """Add weight times the distribution that attains a row's bound to (S,); return the slack."""
    begin, end, indices = layout.indptr[row], layout.indptr[row + 1], layout.indices
    c, n = seen.c, seen.n[row]
    _, x, B, slack = extreme(row, layout, seen, eta, V, bonus, sign, guess)
    left, best = 1.0, begin
    for e in range(begin, end):
        d = B - value_of(e, indices, V, bonus, sign)
        if d < B - value_of(best, indices, V, bonus, sign):
            best = e
        if c[e] > 0 and x + d > 0.0:
            q = c[e] / n if x == inf else min(left, slack * c[e] / n / (x + d))
            to[indices[e]] += weight * q
            left -= q
    to[indices[best]] += weight * left
    return slack


@njit(**uncounted, **inner)
def _charge(
    row: int,
    layout: Layout,
    seen: Seen,
    eta: Floats,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    guess: float,
    weight: float,
    pays: float,
    to: Floats,
    out: Floats,
) -> None:
    """Charge a row with eta d bound / d eta, and pass the weight on to its successors.

    ``pays`` is how much of its reward is unknown: as if that, too, fell like the root of eta.
    """
    if weight > 0.0:
        slack = _tilt(row, layout, seen, eta, V, bonus, sign, guess, weight, to)
        out[row] += weight * (slack * (eta[row] if seen.n[row] > 0 else 1.0) + 0.5 * pays)


@njit(cache=True, nogil=True)
def blame(
    layout: Layout,
    seen: Seen,
    known: Known,
    pays: Floats,
    bonus: Floats | None,
    bounds: Certified,
    start: Floats,
    by_difference: bool,
    out: Floats,
) -> None:
    """How much of a gap each row accounts for: out (rows,) = eta d gap / d eta, summed over t.

    The gap is the mean over start (S,) of D if ``by_difference``, else of U; pays (rows,) is the
    width of the bounds on rewards. Its derivative is carried forward in time through the rows that
    decided each bound, with the distributions that attain them.
    """
    indptr, indices, stride = layout.indptr, layout.indices, layout.stride
    eta_up, eta_low, eta_all = known.eta_up, known.eta_low, known.eta_all
    U, L, W, D, up, low = bounds.U, bounds.L, bounds.W, bounds.D, bounds.up, bounds.low
    greedy, rival, branch = bounds.greedy, bounds.rival, bounds.branch
    x_up, x_low, x_pi, x_ahead = bounds.x_up, bounds.x_low, bounds.x_pi, bounds.x_ahead
    H, S = greedy.shape
    in_U, in_L, in_W, in_D = np.zeros(S), np.zeros(S), np.zeros(S), np.zeros(S)
    above, below = np.zeros(S), np.zeros(S)
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
        for s in range(S):
            row, x = up[t, s], in_U[s]
            guess = x_up[t, row - t * stride]
            _charge(row, layout, seen, eta_up, U1, bonus_t, 1.0, guess, x, pays[row], to_U, out)
            row, x = low[t, s], in_L[s]
            guess = x_low[t, row - t * stride]
            _charge(row, layout, seen, eta_low, L1, bonus_t, -1.0, guess, x, pays[row], to_L, out)
            mine, x = greedy[t, s], in_W[s]
            pay, guess = pays[mine], x_pi[t, s]
            _charge(mine, layout, seen, eta_all, W1, bonus_t, -1.0, guess, x, pay, to_W, out)
            other, how, x = rival[t, s], branch[t, s], in_D[s]
            if x <= 0.0:
                continue
            if how < 2:
                ahead = x_ahead[t, s]
                _charge(mine, layout, seen, eta_all, D1, None, 1.0, ahead, x, 0.0, to_D, out)
            if how == 0:
                continue
            guess_other = x_up[t, other - t * stride]
            _charge(
                other,
                layout,
                seen,
                eta_up,
                U1,
                bonus_t,
                1.0,
                guess_other,
                x,
                pays[other],
                above,
                out,
            )
            if how == 1:
                guess = x_low[t, mine - t * stride]
                _charge(mine, layout, seen, eta_low, L1, bonus_t, -1.0, guess, x, pay, below, out)
            else:
                _charge(mine, layout, seen, eta_all, W1, bonus_t, -1.0, guess, x, pay, below, out)
            # as far as both rows lead to the same state, what is unknown there cancels
            for e in range(indptr[other], indptr[other + 1]):
                j = indices[e]
                same = min(above[j], below[j])
                if how == 2:
                    if U1[j] - W1[j] > D1[j]:
                        to_D[j] += same
                    else:
                        same = 0.0
                to_U[j] += above[j] - same
                below[j] -= same
                above[j] = 0.0
            for e in range(indptr[mine], indptr[mine + 1]):
                j = indices[e]
                if how == 1:
                    to_L[j] += below[j]
                else:
                    to_W[j] += below[j]
                below[j] = 0.0
        in_U, in_L, in_W, in_D = to_U, to_L, to_W, to_D


@njit(cache=True, nogil=True)
def explore(layout: Layout, seen: Seen, gain: Floats, rows: Ints) -> None:
    """The rows (H, S) of the policy that collects most of gain (rows,) in the empirical model.

    A row without visits leads to the best of its successors; ties go to the least visited row.
    """
    first, indptr, indices, stride = layout.first, layout.indptr, layout.indices, layout.stride
    c, n = seen.c, seen.n
    H, S = rows.shape
    X = np.zeros(S)
    for t in range(H - 1, -1, -1):
        now = np.zeros(S)
        for s in range(S):
            best, taken = 0.0, -1
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                x = 0.0
                for e in range(indptr[row], indptr[row + 1]):
                    if n[row] == 0:
                        x = max(x, X[indices[e]])
                    elif c[e] > 0:
                        x += c[e] / n[row] * X[indices[e]]
                x += gain[row]
                tied = abs(x - best) <= 1e-9 * best and n[row] < n[taken]
                if taken < 0 or x > (1.0 + 1e-9) * best or tied:
                    best, taken = x, row
            now[s] = best
            rows[t, s] = taken
        X = now


@njit(cache=True, nogil=True)
def loss_by_leaving(
    layout: Layout,
    seen: Seen,
    rows: Ints,
    kept: Ints,
    worth: Floats,
    counted: Floats,
    start: Floats,
) -> float:
    """What an episode that takes rows (H, S) loses, in the empirical model, by leaving a policy.

    The policy takes kept (H, S) and is worth ``worth`` (H+1, S); where it is left, only
    ``counted`` (H+1, S) is counted for the rest. From start (S,).
    """
    indptr, indices, c, n = layout.indptr, layout.indices, seen.c, seen.n
    H, S = rows.shape
    here = start.copy()
    loss = 0.0
    for t in range(H):
        there = np.zeros(S)
        for s in range(S):
            row = rows[t, s]
            if here[s] <= 0.0:
                continue
            if row != kept[t, s]:
                loss += here[s] * max(0.0, worth[t, s] - counted[t, s])
                continue
            for e in range(indptr[row], indptr[row + 1]):
                if c[e] > 0:
                    there[indices[e]] += here[s] * c[e] / n[row]
        here = there
    return loss
