"""Bounds of V*, of a policy's value and of their difference, over relative-entropy balls.

What is proved of them is in `ucfh.confidence.values`; the ball of a row in `ucfh._kernels.balls`.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.balls import TIE, extreme, value_of
from ucfh._kernels.compiling import inner, njit, uncounted
from ucfh._kernels.groups import Layout, Seen

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Known(NamedTuple):
    """What the counts say of the rows.

    Budgets divided by n, (rows,) each: eta_up, eta_low for the mean of V*, from above and below,
    eta_all for that of any function. Rewards of pairs, (1 or H, R) each: r_up, r_low bounds from
    above and below, r estimates.
    """

    eta_up: Floats
    eta_low: Floats
    eta_all: Floats
    r_up: Floats
    r_low: Floats
    r: Floats


class Certified(NamedTuple):
    """What `certify` fills.

    (H+1, S), 0 at H: U >= V* >= L, which hold such bounds on entry, and tighter ones after. And, 0
    on entry: W <= V^pi and D >= V* - V^pi for pi the greedy policy of the empirical model; E and
    M, the mean and second moment of its reward in that model.

    (H, S): the rows taken for U (up), L (low) and by pi (greedy), the rival row that decided D,
    and the branch (0: no rival, 1: through V*, 2: through V^pi).

    x of the bounds, where it was when there were less data, or 0: x_up, x_low (H+1, R) of the
    rows, x_pi, x_ahead (H+1, S) of W and of p D.
    """

    U: Floats
    L: Floats
    W: Floats
    D: Floats
    E: Floats
    M: Floats
    up: Ints
    low: Ints
    greedy: Ints
    rival: Ints
    branch: Ints
    x_up: Floats
    x_low: Floats
    x_pi: Floats
    x_ahead: Floats


@njit(**uncounted, **inner)
def _mean(row: int, layout: Layout, seen: Seen, V: Floats, bonus: Floats | None) -> float:
    """The mean of V over what one row has shown; infinity if that is nothing."""
    total = 0.0
    for e in range(layout.indptr[row], layout.indptr[row + 1]):
        total += seen.c[e] * value_of(e, layout.indices, V, bonus, 1.0)
    return total / seen.n[row] if seen.n[row] > 0 else inf


@njit(**uncounted)
def _growth(weight: float, p: float, distance: float, w: float) -> float:
    """How much a row's bound moves at least when one of its values moves by w >= 0.

    At fixed x + B the bound is B + x - slack prod_j (1 + z_j)^p_j with z_j = w_j / (x + d_j), and
    (1 + z)^p - 1 >= p z / (1 + (1-p) z/2). ``weight`` is the slack, ``distance`` x + d_j.
    """
    return weight * p * w / (distance + 0.5 * (1.0 - p) * w)


@njit(cache=True, nogil=True)
def certify(
    layout: Layout,
    seen: Seen,
    known: Known,
    bonus: Floats | None,
    difference: bool,
    overlap: bool,
    out: Certified,
) -> None:
    """All bounds of `ucfh.confidence.values`, in one sweep back in time; see there for the proofs.

    D is left alone unless ``difference``.
    """
    first, indptr, indices, stride = layout.first, layout.indptr, layout.indices, layout.stride
    c, n = seen.c, seen.n
    eta_up, eta_low, eta_all = known.eta_up, known.eta_low, known.eta_all
    r_up, r_low, r = known.r_up, known.r_low, known.r
    U, L, W, D, E, M = out.U, out.L, out.W, out.D, out.E, out.M
    up, low, greedy, rival, branch = out.up, out.low, out.greedy, out.rival, out.branch
    x_up, x_low, x_pi, x_ahead = out.x_up, out.x_low, out.x_pi, out.x_ahead
    H, S = greedy.shape
    most = 0
    for s in range(S):
        most = max(most, first[s + 1] - first[s])
    q_up, top, slack = np.empty(most), np.empty(most), np.empty(most)
    in_L, in_W, share = np.zeros(S), np.zeros(S), np.zeros(S)  # x + d and p of pi's successors
    for t in range(H - 1, -1, -1):
        line = min(t, len(r) - 1)
        bonus_t = None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        U1, L1, W1, D1, E1 = U[t + 1], L[t + 1], W[t + 1], D[t + 1], E[t + 1]
        for s in range(S):
            best_up = -inf
            E[t, s] = -inf
            for k in range(first[s], first[s + 1]):
                row, i = t * stride + k, k - first[s]
                begin, end = indptr[row], indptr[row + 1]
                guess = x_up[t if x_up[t, k] > 0.0 else t + 1, k]  # where x was last
                x, x_up[t, k], top[i], slack[i] = extreme(
                    row, layout, seen, eta_up, U1, bonus_t, 1.0, guess
                )
                q_up[i] = r_up[line, k] + x
                if q_up[i] > best_up or (q_up[i] == best_up and n[row] < n[up[t, s]]):
                    best_up, up[t, s] = q_up[i], row
                x, square = r[line, k], r[line, k] ** 2
                if n[row] > 0 or end == begin + 1:  # a row with one successor is known
                    x, square = 0.0, 0.0
                    for e in range(begin, end):
                        p = c[e] / n[row] if n[row] > 0 else 1.0
                        paid, old = r[line, k], E1[indices[e]]
                        if bonus_t is not None:
                            paid += bonus_t[e]
                        x += p * (paid + old)
                        square += p * (paid * paid + 2.0 * paid * old + M[t + 1, indices[e]])
                if x > E[t, s] + TIE * H:
                    E[t, s], M[t, s], greedy[t, s] = x, square, row
            U[t, s] = min(U[t, s], best_up)
            if not difference:
                continue
            mine = greedy[t, s]
            k = mine - t * stride
            begin, end = indptr[mine], indptr[mine + 1]
            visits = n[mine]
            guess = x_low[t if x_low[t, k] > 0.0 else t + 1, k]
            x, x_low[t, k], bottom, give = extreme(
                mine, layout, seen, eta_low, L1, bonus_t, -1.0, guess
            )
            certain = r_low[line, k] + x
            best_low, low[t, s] = certain, mine
            for other in range(first[s], first[s + 1]):
                row = t * stride + other
                x = _mean(row, layout, seen, L1, bonus_t)
                # no bound from below is above the mean that was seen
                if other == k or r_low[line, other] + x <= best_low:
                    continue
                guess = x_low[t if x_low[t, other] > 0.0 else t + 1, other]
                x, x_low[t, other], _, _ = extreme(
                    row, layout, seen, eta_low, L1, bonus_t, -1.0, guess
                )
                if r_low[line, other] + x > best_low:
                    best_low, low[t, s] = r_low[line, other] + x, row
            L[t, s] = max(L[t, s], best_low)
            guess = x_pi[t if x_pi[t, s] > 0.0 else t + 1, s]
            x, x_pi[t, s], least, give_pi = extreme(
                mine, layout, seen, eta_all, W1, bonus_t, -1.0, guess
            )
            W[t, s] = r_low[line, k] + x
            guess = x_ahead[t if x_ahead[t, s] > 0.0 else t + 1, s]
            ahead, x_ahead[t, s], _, _ = extreme(mine, layout, seen, eta_all, D1, None, 1.0, guess)
            D[t, s], branch[t, s], rival[t, s] = ahead, 0, mine
            for e in range(begin, end):
                if overlap and c[e] > 0:
                    j = indices[e]
                    share[j] = c[e] / visits
                    in_L[j] = x_low[t, k] + bottom - value_of(e, indices, L1, bonus_t, -1.0)
                    in_W[j] = x_pi[t, s] + least - value_of(e, indices, W1, bonus_t, -1.0)
            for other in range(first[s], first[s + 1]):
                if other == k:
                    continue
                row, o = t * stride + other, other - first[s]
                through_V, through_pi = q_up[o] - certain, q_up[o] - W[t, s]
                if overlap and through_pi > 0.0:
                    for e in range(indptr[row], indptr[row + 1]):
                        j = indices[e]
                        if c[e] == 0 or share[j] == 0.0:
                            continue
                        p = c[e] / n[row]
                        away = x_up[t, other] + top[o] - value_of(e, indices, U1, bonus_t, 1.0)
                        w = max(0.0, U1[j] - L1[j])
                        if w > 0.0 and away > 0.0 and in_L[j] > 0.0:
                            through_V -= min(
                                _growth(slack[o], p, away, w),
                                _growth(give, share[j], in_L[j], w),
                            )
                        w = max(0.0, U1[j] - W1[j] - D1[j])
                        if w > 0.0 and away > 0.0 and in_W[j] > 0.0:
                            through_pi -= min(
                                _growth(slack[o], p, away, w),
                                _growth(give_pi, share[j], in_W[j], w),
                            )
                through_V = max(through_V, 0.0) + ahead
                x = min(through_V, through_pi)
                if x > D[t, s]:
                    D[t, s], rival[t, s] = x, row
                    branch[t, s] = 1 if through_V < through_pi else 2
            for e in range(begin, end):
                share[indices[e]] = 0.0
            D[t, s] = min(D[t, s], U[t, s] - W[t, s])
            # what is known of V* and of the difference bounds V^pi as well
            W[t, s] = max(W[t, s], L[t, s] - D[t, s])
