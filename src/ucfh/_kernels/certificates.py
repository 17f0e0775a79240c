"""Bounds of V*, of a policy's value and of their difference, over relative-entropy balls.

What is proved of them is in `ucfh.confidence.values`; what is known of a row, and the bound for all
functions, in `ucfh._kernels.evidence`.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.balls import TIE, climb, extreme, fill, longest
from ucfh._kernels.compiling import inner, njit, uncounted
from ucfh._kernels.earnings import earned
from ucfh._kernels.evidence import STATES, Evidence, Pay, Rows, rest_of, widest

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Certified(NamedTuple):
    """What `certify` fills.

    (H+1, S), 0 at H: U >= V* >= L, which hold such bounds on entry, and tighter ones after. And
    W <= V^pi and D >= V* - V^pi for pi the greedy policy of the empirical model; E and M, the mean
    and second moment of its reward in that model. All of a state without pairs stay as they are.

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


class Side(NamedTuple):
    """One row's bound as a function of its values, at fixed nu = x + B: see `_growth`.

    n: the weight of all entries; weight: the slack; sure: the bound is the value of the one entry.
    """

    begin: int
    n: float
    nu: float
    weight: float
    sure: bool


@njit(**uncounted, **inner)
def _mean(begin: int, end: int, c: Floats, n: float, v: Floats) -> float:
    """The mean of v over what one row has shown; infinity if that is nothing."""
    total = 0.0
    for e in range(begin, end):
        total += c[e] * v[e - begin]
    return total / n if n > 0 else inf


@njit(**uncounted)
def _growth(weight: float, p: float, distance: float, w: float) -> float:
    """How much a row's bound moves at least when one of its values moves by w >= 0.

    At fixed x + B the bound is B + x - slack prod_j (1 + z_j)^p_j with z_j = w_j / (x + d_j), and
    (1 + z)^p - 1 >= p z / (1 + (1-p) z/2). ``weight`` is the slack, ``distance`` x + d_j.
    """
    return weight * p * w / (distance + 0.5 * (1.0 - p) * w)


@njit(**uncounted, **inner)
def _growths(side: Side, first: int, last: int, c: Floats, v: Floats, w: float) -> float:
    """`_growth` summed over entries ``first`` to ``last`` of a row, all of one next state."""
    if side.sure:
        return w
    total = 0.0
    for e in range(first, last):
        distance = side.nu - v[e - side.begin]
        if c[e] > 0 and distance > 0.0:
            total += _growth(side.weight, c[e] / side.n, distance, w)
    return total


@njit(cache=True, nogil=True)
def certify(
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    bonus: Floats | None,
    difference: bool,
    overlap: bool,
    out: Certified,
) -> None:
    """All bounds of `ucfh.confidence.values`, in one sweep back in time; see there for the proofs.

    bonus (1 or H, entries): what an entry pays. D is left alone unless ``difference``.
    """
    first, indptr, indices, cap, r = rows.first, rows.indptr, rows.indices, pay.cap, pay.r
    n, certain, noisy, extra = evidence.n, evidence.certain, evidence.noisy, pay.extra
    lost, tries = evidence.lost, evidence.tries
    anew = extra > 0.0
    ladder, above, below = evidence.ladder, evidence.above, evidence.below
    successors = evidence.successors
    U, L, W, D, E, M = out.U, out.L, out.W, out.D, out.E, out.M
    up, low, greedy, rival, branch = out.up, out.low, out.greedy, out.rival, out.branch
    x_up, x_low, x_pi, x_ahead = out.x_up, out.x_low, out.x_pi, out.x_ahead
    H, S = greedy.shape
    choices = 0
    for s in range(S):
        choices = max(choices, first[s + 1] - first[s])
    q_up, nu_up, slack = np.empty(choices), np.empty(choices), np.empty(choices)
    size = longest(indptr)
    v, in_L, in_W = np.empty(size), np.empty(size), np.empty(size)
    head, tail = np.zeros(S, np.int64), np.zeros(S, np.int64)  # pi's entries of each next state
    any_state, mark = (rows.rest == STATES).any(), np.full(S, -1)
    by_U, by_L, by_W, by_D = np.arange(S), np.arange(S), np.arange(S), np.arange(S)
    for t in range(H - 1, -1, -1):
        line, offset = min(t, len(r) - 1), rows.offset[t]
        bonus_t = None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        U1, L1, W1, D1, E1 = U[t + 1], L[t + 1], W[t + 1], D[t + 1], E[t + 1]
        if any_state:
            by_U[:], by_L[:] = np.argsort(-U1, kind="mergesort"), np.argsort(L1, kind="mergesort")
            by_W[:], by_D[:] = np.argsort(W1, kind="mergesort"), np.argsort(-D1, kind="mergesort")
        for s in range(S):
            if first[s] == first[s + 1]:
                continue
            best_up = -inf
            E[t, s] = -inf
            for k in range(first[s], first[s + 1]):
                row, i = k * rows.step + offset, k - first[s]
                begin, end, paid = indptr[row], indptr[row + 1], r[line, k]
                guess = x_up[t if x_up[t, k] > 0.0 else t + 1, k]  # where x was last
                room = cap[t] - paid
                fill(begin, end, indices, U1, bonus_t, 1.0, room, v)
                rest = rest_of(
                    row, rows, U1, 1.0, anew, extra, extra + cap[t + 1], by_U, mark
                ).value
                gone, worth = lost.up[row], min(rest - extra + lost.up_pays[row], room)
                rest, visits = min(rest, room), above.n[row]
                x, x_up[t, k], B, slack[i] = extreme(
                    begin, end, above.c, visits, above.eta[row], v, rest, guess, gone, worth
                )
                nu_up[i] = x_up[t, k] + B
                if ladder[row] >= 0.0 and n[row] > 0:
                    others = lost.n[row] - gone
                    step = climb(
                        begin, end, above.c, visits, ladder[row], v, cap[t], nu_up[i],
                        gone, worth, others, rest,
                    )  # fmt: skip
                    if step.bound < x:
                        x, nu_up[i], slack[i] = step.bound, step.x + step.B, step.slack
                q_up[i] = paid + x
                if q_up[i] > best_up or (q_up[i] == best_up and tries[row] < tries[up[t, s]]):
                    best_up, up[t, s] = q_up[i], row
                x, square = paid, paid**2
                if n[row] > 0 or certain[row]:
                    x, square = 0.0, 0.0
                    for e in range(begin, end):
                        p = above.c[e] / n[row] if n[row] > 0 else 1.0
                        gets, old = paid, E1[indices[e]]
                        if bonus_t is not None:
                            gets += bonus_t[e]
                        x += p * (gets + old)
                        square += p * (gets * gets + 2.0 * gets * old + M[t + 1, indices[e]])
                if x > E[t, s] + TIE * H:
                    E[t, s], M[t, s], greedy[t, s] = x, square, row
            U[t, s] = min(U[t, s], best_up)
            if not difference:
                continue
            mine = greedy[t, s]
            k = (mine - offset) // rows.step
            begin, end, paid = indptr[mine], indptr[mine + 1], r[line, k]
            guess = x_low[t if x_low[t, k] > 0.0 else t + 1, k]
            fill(begin, end, indices, L1, bonus_t, -1.0, inf, in_L)
            rest = rest_of(mine, rows, L1, -1.0, anew, 0.0, 0.0, by_L, mark).value
            gone, worth = lost.low[mine], rest - lost.low_pays[mine]
            x, x_low[t, k], B, give = extreme(
                begin, end, below.c, below.n[mine], below.eta[mine], in_L, rest, guess, gone, worth
            )
            surely = paid - x
            side_L = Side(begin, below.n[mine], x_low[t, k] + B, give, certain[mine])
            best_low, low[t, s] = surely, mine
            for o in range(first[s], first[s + 1]):
                row = o * rows.step + offset
                lo, hi = indptr[row], indptr[row + 1]
                fill(lo, hi, indices, L1, bonus_t, -1.0, inf, v)
                # no bound from below is above the mean that was seen, or that of what is lost
                x, gone = -_mean(lo, hi, above.c, n[row], v), lost.low[row]
                if row == mine or (n[row] > 0 and gone <= 0.0 and r[line, o] + x <= best_low):
                    continue
                guess = x_low[t if x_low[t, o] > 0.0 else t + 1, o]
                rest = rest_of(row, rows, L1, -1.0, anew, 0.0, 0.0, by_L, mark).value
                worth = rest - lost.low_pays[row]
                x, x_low[t, o], _, _ = extreme(
                    lo, hi, below.c, below.n[row], below.eta[row], v, rest, guess, gone, worth
                )
                if r[line, o] - x > best_low:
                    best_low, low[t, s] = r[line, o] - x, row
            L[t, s] = max(L[t, s], best_low)
            guess = x_pi[t if x_pi[t, s] > 0.0 else t + 1, s]
            x, x_pi[t, s], B, give, _ = earned(
                mine, t, rows, evidence, pay, W1, bonus_t, -1.0, by_W, mark, guess, in_W
            )
            W[t, s] = max(0.0, paid - x)
            ball_W = successors if noisy[mine] else evidence.outcomes
            side_W = Side(begin, ball_W.n[mine], x_pi[t, s] + B, give, certain[mine])
            guess = x_ahead[t if x_ahead[t, s] > 0.0 else t + 1, s]
            fill(begin, end, indices, D1, None, 1.0, inf, v)
            rest = rest_of(mine, rows, D1, 1.0, False, 0.0, cap[t + 1], by_D, mark).value
            ahead, x_ahead[t, s], _, _, _ = widest(mine, rows, evidence, successors, v, rest, guess)
            D[t, s], branch[t, s], rival[t, s] = ahead, 0, mine
            if overlap:
                for e in range(end - 1, begin - 1, -1):
                    j = indices[e]
                    tail[j] = e + 1 if head[j] == 0 else tail[j]
                    head[j] = e + 1  # the first, and one more: 0 says that there is none
            for o in range(first[s], first[s + 1]):
                row, i = o * rows.step + offset, o - first[s]
                if row == mine:
                    continue
                through_V, through_pi = q_up[i] - surely, q_up[i] - W[t, s]
                if overlap and through_pi > 0.0 and (n[row] > 0 or certain[row]):
                    lo, hi, room = indptr[row], indptr[row + 1], cap[t] - r[line, o]
                    fill(lo, hi, indices, U1, bonus_t, 1.0, room, v)
                    side_U = Side(lo, above.n[row], nu_up[i], slack[i], certain[row])
                    e = lo
                    while e < hi:
                        j, here, most = indices[e], e, U1[indices[e]]
                        while e < hi and indices[e] == j:
                            if bonus_t is not None:
                                most = min(most, room - bonus_t[e])
                            e += 1
                        if head[j] == 0:
                            continue
                        w = most - L1[j]
                        if w > 0.0:
                            through_V -= min(
                                _growths(side_U, here, e, above.c, v, w),
                                _growths(side_L, head[j] - 1, tail[j], below.c, in_L, w),
                            )
                        w = most - W1[j] - D1[j]
                        if w > 0.0:
                            through_pi -= min(
                                _growths(side_U, here, e, above.c, v, w),
                                _growths(side_W, head[j] - 1, tail[j], ball_W.c, in_W, w),
                            )
                through_V = max(through_V, 0.0) + ahead
                x = min(through_V, through_pi)
                if x > D[t, s]:
                    D[t, s], rival[t, s] = x, row
                    branch[t, s] = 1 if through_V < through_pi else 2
            for e in range(begin, end):
                head[indices[e]] = 0
            D[t, s] = min(D[t, s], U[t, s] - W[t, s])
            # what is known of V* and of the difference bounds V^pi as well
            W[t, s] = max(W[t, s], L[t, s] - D[t, s])
