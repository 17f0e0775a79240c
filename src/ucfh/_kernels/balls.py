"""Relative-entropy balls: the best and worst mean over them, planning, and certificates.

A row has counts c_j of its successors, n in all, p^ = c/n, and a budget eta >= 0. Over the ball of
all q with KL(p^, q) <= eta, successors never seen included,

    max { q V }  =  min over x >= 0 of  F(x),   F(x) = B + x - exp( sum_j p^_j ln(x + d_j) - eta )
                                                     = B - x expm1( sum_j p^_j log1p(d_j/x) - eta )

with B = max V over the successors and d_j = B - V_j. Every x gives an upper bound, so the search
for the best one may stop at any time; the second form does not cancel, whatever n is. F is convex,
and its minimum is where KL(p^, q_x) = eta for q_x ~ p^/(x + d), which falls in x: Newton's method
in ln x and ln KL, started where it is exact for small eta. Minima over the ball come by a sign.

V is over states; ``bonus`` (entries,) is what a successor pays, or None.
"""

from __future__ import annotations

from math import exp, expm1, inf, log, log1p, sqrt

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.compiling import njit

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

STEPS = 12  # of Newton's method at most; two or three are the rule
NEAR_ZERO = 1e-7  # of the range of values: as good as x = 0
CLOSE = 0.03  # relative error of KL at which it stops; the bound's goes with its square
ROUNDING = 1e-14  # of a mean of values, relative: added outward
ROUNDING_EACH = 2.3e-16  # and for each term of its sum
TIE = 1e-13  # times H: a difference that rounding may make


@njit(cache=True, nogil=True)
def _value(e: int, indices: Index, V: Floats, bonus: Floats | None, sign: float) -> float:
    """V of one entry, times the sign."""
    x = V[indices[e]]
    return float(sign * x if bonus is None else sign * (x + bonus[e]))


@njit(cache=True, nogil=True)
def _reach(
    begin: int,
    end: int,
    indices: Index,
    c: Ints,
    n: int,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    eta: float,
    guess: float,
) -> tuple[float, float, float, float]:
    """(bound, x, B, slack) of one row; slack = d bound / d eta, times the sign.

    ``guess`` is where to look for x first; 0: where it is for small eta. A row without visits has
    the whole simplex: its bound is B, and its slack the range of V.
    """
    B, low, seen = -inf, inf, inf
    mean, square = 0.0, 0.0
    for e in range(begin, end):
        v = _value(e, indices, V, bonus, sign)
        B, low = max(B, v), min(low, v)
        if c[e] > 0:
            seen = min(seen, v)
            mean += c[e] * v
            square += c[e] * v * v
    if n == 0:
        return sign * B, 0.0, B, B - low
    span = B - seen
    if span <= 0.0:
        return sign * B, 0.0, B, 0.0
    mean /= n
    if eta <= 0.0:
        return sign * mean, inf, B, 0.0
    x = guess
    if x == 0.0:
        deviation = sqrt(max(0.0, square / n - mean * mean))
        x = mean + deviation / sqrt(2.0 * eta) - B
    x = min(max(x, 0.01 * span), 1e12 * span)
    least, most = -inf, inf  # of ln x, where KL is above and below eta
    bound, slack, best = B, 0.0, x
    for _ in range(STEPS):
        a, w1, w2 = 0.0, 0.0, 0.0
        for e in range(begin, end):
            if c[e] > 0:
                p = c[e] / n
                y = (B - _value(e, indices, V, bonus, sign)) / x
                w = y / (1.0 + y)
                a += p * log1p(y)
                w1 += p * w
                w2 += p * w * w
        more = x * expm1(a - eta)
        if B - more < bound:
            bound, slack, best = B - more, x + more, x
        variance = w2 - w1 * w1
        kl = a + log1p(-w1) if w1 < 1.0 else inf
        if x <= NEAR_ZERO * span or kl == inf:
            break
        if variance <= 1e-13 * w2 or kl <= 1e-14 * a:  # one value was seen: x = 0 is best
            x = NEAR_ZERO * span
            continue
        if abs(kl - eta) < CLOSE * eta:
            break
        off, here = log(kl / eta), log(x)
        if off > 0.0:
            least = here
        else:
            most = here
        step = here + min(4.0, max(-4.0, off * kl * (1.0 - w1) / variance))
        x = exp(step if least < step < most else 0.5 * (least + most))
    bound = min(B, bound + (ROUNDING + ROUNDING_EACH * (end - begin)) * (abs(B) + span))
    return sign * bound, best, B, slack


@njit(cache=True, nogil=True)
def _mean(
    begin: int, end: int, indices: Index, c: Ints, n: int, V: Floats, bonus: Floats | None
) -> float:
    """The mean of V over what one row has shown; infinity if that is nothing."""
    total = 0.0
    for e in range(begin, end):
        total += c[e] * _value(e, indices, V, bonus, 1.0)
    return total / n if n > 0 else inf


@njit(cache=True, nogil=True)
def reach(
    begin: int, end: int, indices: Index, c: Ints, n: int, V: Floats, sign: float, eta: float
) -> float:
    """The best (sign = 1) or worst (sign = -1) mean of V (S,) over the ball of one row."""
    return _reach(begin, end, indices, c, n, V, None, sign, eta, 0.0)[0]


@njit(cache=True, nogil=True)
def _tilt(
    begin: int,
    end: int,
    indices: Index,
    c: Ints,
    n: int,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    eta: float,
    guess: float,
    weight: float,
    out: Floats,
) -> float:
    """Add weight times the distribution that attains the bound to out (S,); return the slack."""
    _, x, B, slack = _reach(begin, end, indices, c, n, V, bonus, sign, eta, guess)
    left, best = 1.0, begin
    for e in range(begin, end):
        d = B - _value(e, indices, V, bonus, sign)
        if d < B - _value(best, indices, V, bonus, sign):
            best = e
        if c[e] > 0 and x + d > 0.0:
            q = c[e] / n if x == inf else min(left, slack * c[e] / n / (x + d))
            out[indices[e]] += weight * q
            left -= q
    out[indices[best]] += weight * left
    return slack


@njit(cache=True, nogil=True)
def plan(
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index,
    stride: int,
    c: Ints,
    n: Ints,
    eta: Floats,
    r: Floats,
    bonus: Floats | None,
    sign: float,
    tie: float,
    V: Floats,
    policy: Ints,
) -> None:
    """Optimistic (sign = 1) or robust planning over balls: V (H+1, S), V[H] = 0, policy (H, S).

    Among actions that differ by no more than ``tie`` the first is taken. An optimistic V is that of
    the best action, a robust one that of the action taken: each a bound in its direction.
    """
    H, S = policy.shape
    for t in range(H - 1, -1, -1):
        r_t, bonus_t = r[min(t, len(r) - 1)], None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        for s in range(S):
            best, chosen = -inf, -inf
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                begin, end = indptr[row], indptr[row + 1]
                x = _reach(begin, end, indices, c, n[row], V[t + 1], bonus_t, sign, eta[row], 0.0)[
                    0
                ]
                q = r_t[k] + x
                best = max(best, q)
                if q > chosen + tie:
                    chosen = q
                    policy[t, s] = action[k]
            V[t, s] = best if sign > 0.0 else chosen


@njit(cache=True, nogil=True)
def evaluate(
    indptr: Ints,
    indices: Index,
    stride: int,
    c: Ints,
    n: Ints,
    eta: Floats,
    r: Floats,
    bonus: Floats | None,
    rows: Ints,
    sign: float,
    W: Floats,
) -> None:
    """What the policy that takes rows (H, S) earns over balls: W (H+1, S), W[H] = 0.

    At least (sign = -1), or at most (sign = 1).
    """
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        r_t, bonus_t = r[min(t, len(r) - 1)], None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        for s in range(S):
            row = rows[t, s]
            begin, end = indptr[row], indptr[row + 1]
            x = _reach(begin, end, indices, c, n[row], W[t + 1], bonus_t, sign, eta[row], 0.0)[0]
            W[t, s] = r_t[row - t * stride] + x


@njit(cache=True, nogil=True)
def _growth(weight: float, p: float, distance: float, w: float) -> float:
    """How much a row's bound moves at least when one of its values moves by w >= 0.

    At fixed x + B the bound is B + x - slack prod_j (1 + z_j)^p_j with z_j = w_j / (x + d_j), and
    (1 + z)^p - 1 >= p z / (1 + (1-p) z/2). ``weight`` is the slack, ``distance`` x + d_j.
    """
    return weight * p * w / (distance + 0.5 * (1.0 - p) * w)


@njit(cache=True, nogil=True)
def certify(
    first: Ints,
    indptr: Ints,
    indices: Index,
    stride: int,
    c: Ints,
    n: Ints,
    eta_up: Floats,
    eta_low: Floats,
    eta_all: Floats,
    r_up: Floats,
    r_low: Floats,
    r: Floats,
    bonus: Floats | None,
    difference: bool,
    overlap: bool,
    U: Floats,
    L: Floats,
    W: Floats,
    D: Floats,
    E: Floats,
    M: Floats,
    up: Ints,
    low: Ints,
    greedy: Ints,
    rival: Ints,
    branch: Ints,
    x_up: Floats,
    x_low: Floats,
    x_pi: Floats,
    x_ahead: Floats,
) -> None:
    """All bounds of `ucfh.confidence.values`, in one sweep back in time; see there for the proofs.

    eta_up, eta_low, eta_all (rows,) are budgets divided by n: for the mean of V*, from above and
    below, and for that of any function. r_up, r_low, r (1 or H, R): bounds and estimates of
    rewards. U >= V* >= L, all (H+1, S), hold such bounds on entry, and tighter ones after. Fills,
    all (H+1, S) and 0 on entry: W <= V^pi and D >= V* - V^pi for pi the greedy policy of the
    empirical model; E and M, the mean and second moment of its
    reward in that model. And (H, S): the rows taken for U, L and by pi, the rival row that
    decided D, and how (0: no rival, 1: through V*, 2: through V^pi). And x of the bounds,
    where it was when there were less data, or 0: x_up, x_low (H+1, R) of the rows, x_pi, x_ahead
    (H+1, S) of W and of p D. D is left alone unless ``difference``.
    """
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
                x, x_up[t, k], top[i], slack[i] = _reach(
                    begin, end, indices, c, n[row], U1, bonus_t, 1.0, eta_up[row], guess
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
            visits, eta = n[mine], eta_all[mine]
            guess = x_low[t if x_low[t, k] > 0.0 else t + 1, k]
            x, x_low[t, k], bottom, give = _reach(
                begin, end, indices, c, visits, L1, bonus_t, -1.0, eta_low[mine], guess
            )
            certain = r_low[line, k] + x
            best_low, low[t, s] = certain, mine
            for other in range(first[s], first[s + 1]):
                row = t * stride + other
                x = _mean(indptr[row], indptr[row + 1], indices, c, n[row], L1, bonus_t)
                # no bound from below is above the mean that was seen
                if other == k or r_low[line, other] + x <= best_low:
                    continue
                guess = x_low[t if x_low[t, other] > 0.0 else t + 1, other]
                begin_o, end_o = indptr[row], indptr[row + 1]
                x, x_low[t, other], _, _ = _reach(
                    begin_o, end_o, indices, c, n[row], L1, bonus_t, -1.0, eta_low[row], guess
                )
                if r_low[line, other] + x > best_low:
                    best_low, low[t, s] = r_low[line, other] + x, row
            L[t, s] = max(L[t, s], best_low)
            guess = x_pi[t if x_pi[t, s] > 0.0 else t + 1, s]
            x, x_pi[t, s], least, give_pi = _reach(
                begin, end, indices, c, visits, W1, bonus_t, -1.0, eta, guess
            )
            W[t, s] = r_low[line, k] + x
            guess = x_ahead[t if x_ahead[t, s] > 0.0 else t + 1, s]
            ahead, x_ahead[t, s], _, _ = _reach(
                begin, end, indices, c, visits, D1, None, 1.0, eta, guess
            )
            D[t, s], branch[t, s], rival[t, s] = ahead, 0, mine
            for e in range(begin, end):
                if overlap and c[e] > 0:
                    j = indices[e]
                    share[j] = c[e] / visits
                    in_L[j] = x_low[t, k] + bottom - _value(e, indices, L1, bonus_t, -1.0)
                    in_W[j] = x_pi[t, s] + least - _value(e, indices, W1, bonus_t, -1.0)
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
                        away = x_up[t, other] + top[o] - _value(e, indices, U1, bonus_t, 1.0)
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


@njit(cache=True, nogil=True)
def _charge(
    row: int,
    indptr: Ints,
    indices: Index,
    c: Ints,
    n: Ints,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    eta: Floats,
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
        begin, end = indptr[row], indptr[row + 1]
        slack = _tilt(begin, end, indices, c, n[row], V, bonus, sign, eta[row], guess, weight, to)
        out[row] += weight * (slack * (eta[row] if n[row] > 0 else 1.0) + 0.5 * pays)


@njit(cache=True, nogil=True)
def blame(
    indptr: Ints,
    indices: Index,
    c: Ints,
    n: Ints,
    eta_up: Floats,
    eta_low: Floats,
    eta_all: Floats,
    pays: Floats,
    bonus: Floats | None,
    U: Floats,
    L: Floats,
    W: Floats,
    D: Floats,
    up: Ints,
    low: Ints,
    greedy: Ints,
    rival: Ints,
    branch: Ints,
    x_up: Floats,
    x_low: Floats,
    x_pi: Floats,
    x_ahead: Floats,
    stride: int,
    start: Floats,
    by_difference: bool,
    out: Floats,
) -> None:
    """How much of a gap each row accounts for: out (rows,) = eta d gap / d eta, summed over t.

    The gap is the mean over start (S,) of D if ``by_difference``, else of U; pays (rows,) is the
    width of the bounds on rewards. Its derivative is
    carried forward in time through the rows that decided each bound, with the distributions that
    attain them.
    """
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
            _charge(
                row, indptr, indices, c, n, U1, bonus_t, 1.0, eta_up, guess, x, pays[row], to_U, out
            )
            row, x = low[t, s], in_L[s]
            guess = x_low[t, row - t * stride]
            _charge(
                row,
                indptr,
                indices,
                c,
                n,
                L1,
                bonus_t,
                -1.0,
                eta_low,
                guess,
                x,
                pays[row],
                to_L,
                out,
            )
            mine, x = greedy[t, s], in_W[s]
            pay, guess = pays[mine], x_pi[t, s]
            _charge(
                mine, indptr, indices, c, n, W1, bonus_t, -1.0, eta_all, guess, x, pay, to_W, out
            )
            other, how, x = rival[t, s], branch[t, s], in_D[s]
            if x <= 0.0:
                continue
            if how < 2:
                ahead = x_ahead[t, s]
                _charge(
                    mine, indptr, indices, c, n, D1, None, 1.0, eta_all, ahead, x, 0.0, to_D, out
                )
            if how == 0:
                continue
            known = x_up[t, other - t * stride]
            _charge(
                other,
                indptr,
                indices,
                c,
                n,
                U1,
                bonus_t,
                1.0,
                eta_up,
                known,
                x,
                pays[other],
                above,
                out,
            )
            if how == 1:
                guess = x_low[t, mine - t * stride]
                _charge(
                    mine,
                    indptr,
                    indices,
                    c,
                    n,
                    L1,
                    bonus_t,
                    -1.0,
                    eta_low,
                    guess,
                    x,
                    pay,
                    below,
                    out,
                )
            else:
                _charge(
                    mine,
                    indptr,
                    indices,
                    c,
                    n,
                    W1,
                    bonus_t,
                    -1.0,
                    eta_all,
                    guess,
                    x,
                    pay,
                    below,
                    out,
                )
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
def explore(
    first: Ints,
    indptr: Ints,
    indices: Index,
    stride: int,
    c: Ints,
    n: Ints,
    gain: Floats,
    rows: Ints,
) -> None:
    """The rows (H, S) of the policy that collects most of gain (rows,) in the empirical model.

    A row without visits leads to the best of its successors; ties go to the least visited row.
    """
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
    indptr: Ints,
    indices: Index,
    c: Ints,
    n: Ints,
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
