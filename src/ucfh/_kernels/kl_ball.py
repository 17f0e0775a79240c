"""Relative-entropy balls: the best and worst mean over them, and planning.

A row has counts c_j of its successors, n in all, p^ = c/n, and a budget eta >= 0. Over the ball of
all q with KL(p^, q) <= eta, which may have unobserved successors,

    max { q V }  =  min over x >= 0 of  F(x),   F(x) = B + x - exp( sum_j p^_j ln(x + d_j) - eta )
                                                     = B - x expm1( sum_j p^_j log1p(d_j/x) - eta )

with B = max V over the successors and d_j = B - V_j. Every x gives an upper bound, so the search
for the best one may stop at any time; the second form does not cancel, whatever n is. F is convex,
and its minimum is where KL(p^, q_x) = eta for q_x ~ p^/(x + d), which falls in x: Newton's method
in ln x and ln KL, started where it is exact for small eta. Minima over the ball come by a sign.

A logarithm that is too small makes F larger, so that it still bounds. With 1 + y = 2^k (1 + f),
k an integer and 0 <= f < 1, and s = f/(2 + f) <= 1/3,

    ln(1+y)  =  k ln 2 + 2 artanh(s)  =  k ln 2 + 2 (s + s^3/3 + s^5/5 + ...)

all terms of which are positive: every partial sum is a bound. `weigh_ball` takes eight, less than
all by at most 3e-9 of the sum. That is a third of the time that a library's logarithm takes.
"""

from __future__ import annotations

from math import exp, expm1, floor, inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.types import CountArrays, Layout, PlanArrays

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

STEPS = 12  # of Newton's method at most; two or three are the rule
NEAR_ZERO = 1e-7  # of the range of values: as good as x = 0
CLOSE = 0.03  # relative error of KL at which it stops; the bound's goes with its square
ROUNDING = 1e-14  # of a mean of values, relative: added outward
ROUNDING_EACH = 2.3e-16  # and for each term of its sum
LN_2 = 0.6931471805599453  # a little less than ln 2
ONE, FRACTION = 1023 << 52, (1 << 52) - 1  # the bits of 1.0, and those of a number's fraction
TIE = 1e-13  # times H: a difference that rounding may make


class Extreme(NamedTuple):
    """The bound of one row; x and B as above; slack = d bound / d eta."""

    bound: float
    x: float
    B: float
    slack: float


class Weighed(NamedTuple):
    """Sums over a row, by its weights, of ln(1+y), w and w^2; y = d/x and w = y/(1+y)."""

    log: float
    w: float
    square: float


@njit(forceinline=True, error_model="numpy", fastmath={"contract", "nsz", "reassoc"})
def weigh_ball(begin: int, end: int, c: Ints | Floats, v: Floats, B: float, x: float) -> Weighed:
    """Return the sums of a row at x, ln(1+y) from below; v (end-begin,) <= B."""
    c, v = borrow((c, v))
    log, first, square, scale = 0.0, 0.0, 0.0, 1.0 / x
    for e in range(begin, end):
        y = (B - v[e - begin]) * scale
        u = np.float64(1.0 + y)
        bits = u.view(np.int64)
        k = (bits >> 52) - 1023
        f = y if u < 2.0 else np.int64((bits & FRACTION) | ONE).view(np.float64) - 1.0
        over = 1.0 / (u * (2.0 + f))
        s, w = f * u * over, y * (2.0 + f) * over
        z = s * s
        tail = 1 / 9 + z * (1 / 11 + z * (1 / 13 + z * (1 / 15)))
        tail = 1.0 + z * (1 / 3 + z * (1 / 5 + z * (1 / 7 + z * tail)))
        log += c[e] * (k * LN_2 + 2.0 * s * tail)
        first += c[e] * w
        square += c[e] * (w * w)
    return Weighed(log, first, square)


@njit(forceinline=True)
def fill(
    begin: int,
    end: int,
    indices: Index,
    V: Floats,
    bonus: Floats,
    sign: float,
    most: float,
    v: Floats,
) -> None:
    """Write min(sign V, most) of the entries from ``begin`` to ``end`` into v (end-begin,).

    V (S,) is over states; bonus (entries,) are rewards of entries, or (0,).
    """
    indices, V, bonus, v = borrow((indices, V, bonus, v))
    for e in range(begin, end):
        x = V[indices[e]]
        if bonus.size > 0:
            x += bonus[e]
        v[e - begin] = min(sign * x, most)


@njit()
def extreme(
    begin: int,
    end: int,
    c: Ints | Floats,
    n: float,
    budget: float,
    v: Floats,
    rest: float,
    guess: float,
    lost: float,
    worth: float,
) -> Extreme:
    """Return the largest mean of v (end-begin,) over the ball of a row: entries begin <= e < end.

    c (entries,) sums to n there, or to less: missing outcomes count in n, ``lost`` of them with the
    value ``worth``, and the others with B. ``rest`` is the best value of an unlisted outcome; -inf
    if there is none. ``guess`` is the first x; 0: the x of small eta. A row without
    visits has the whole simplex: its bound is B, and its slack the range of v.
    """
    c, v = borrow((c, v))
    B, low, least_seen = rest, inf, inf
    for e in range(begin, end):
        y = v[e - begin]
        B, low = max(B, y), min(low, y)
        if c[e] > 0:
            least_seen = min(least_seen, y)
    if lost > 0.0:
        least_seen = min(least_seen, worth)
    if n <= 0:
        return Extreme(B, 0.0, B, B - min(low, B))
    span = B - least_seen
    if span <= 0.0:
        return Extreme(B, 0.0, B, 0.0)
    x = guess
    if x == 0.0 or budget <= 0.0:
        mean, square = 0.0, 0.0
        for e in range(begin, end):
            y = v[e - begin]
            mean += c[e] * y
            square += c[e] * y * y
        if lost > 0.0:
            mean += lost * worth
            square += lost * worth * worth
        mean /= n
        if budget <= 0.0:
            return Extreme(mean, inf, B, 0.0)
        x = mean + sqrt(max(0.0, square / n - mean * mean) / (2.0 * budget)) - B
        x = max(x, 0.01 * span)
    near = NEAR_ZERO * span
    x = min(max(x, near), 1e12 * span)
    least, most = -inf, inf  # of ln x, where KL is above and below budget
    bound, slack, best = B, 0.0, x
    for _ in range(STEPS):
        a, w1, w2 = weigh_ball(begin, end, c, v, B, x)
        if lost > 0.0:
            y = (B - worth) / x
            w = y / (1.0 + y)
            a, w1, w2 = a + lost * log1p(y), w1 + lost * w, w2 + lost * w * w
        a, w1, w2 = a / n, w1 / n, w2 / n
        more = expm1(a - budget)
        off = more - w1 - w1 * more  # expm1(KL - budget)
        if -x * more < bound - B:
            bound, slack, best = B - x * more, x + x * more, x
        if abs(off) < CLOSE * budget or (x <= near and off <= 0.0):
            break
        variance, kl = w2 - w1 * w1, a + log1p(-w1) if w1 < 1.0 else inf
        if off <= 0.0 and (variance <= 1e-13 * w2 or kl <= 1e-14 * a):
            x = near  # one value was seen: x = 0 is best
            continue
        step, here = 4.0, log(x)
        if variance > 0.0 and kl < inf:
            step = min(4.0, max(-4.0, log(kl / budget) * kl * (1.0 - w1) / variance))
        if off > 0.0:
            least = here
        else:
            most = here
        step += here
        x = exp(step if least < step < most else 0.5 * (least + most))
    bound = min(B, bound + (ROUNDING + ROUNDING_EACH * (end - begin)) * (abs(B) + span))
    return Extreme(bound, best, B, slack)


@njit()
def climb(
    begin: int,
    end: int,
    c: Floats,
    n: float,
    budget: float,
    v: Floats,
    top: float,
    nu: float,
    lost: float,
    worth: float,
    others: float,
    best: float,
) -> Extreme:
    """Return a bound of the mean of one function v (end-begin,) <= top, top fixed in advance.

    For a fixed nu, prod (nu - v)/(nu - mean) is a martingale. A union bound over the ladder
    nu_k = 2^k top, k = 0, 1, ..., costs ln((k+1)(k+2)) for nu_k. So

        mean  <=  nu_k - exp( sum_j p^_j ln(nu_k - v_j) - (budget + ln((k+1)(k+2)))/n ).

    The result is the smaller of the two bounds next to ``nu``; ``budget`` is not divided by n here.
    Missing outcomes count in n: ``lost`` with the value ``worth``, ``others`` with ``best``.
    """
    c, v = borrow((c, v))
    k = max(0.0, floor(log(max(nu, top) / top) / log(2.0)))
    out = Extreme(top, 0.0, top, 0.0)
    for _ in range(2):
        at, mean = top * 2.0**k, 0.0
        for e in range(begin, end):
            if c[e] > 0:
                mean += c[e] / n * log(at - v[e - begin])
        if lost > 0.0:
            mean += lost / n * log(at - worth)
        if others > 0.0:
            mean += others / n * log(at - best)
        slack = exp(mean - (budget + log((k + 1.0) * (k + 2.0))) / n)
        rounding = (ROUNDING + ROUNDING_EACH * (end - begin)) * 2.0 * at
        if at - slack + rounding < out.bound:
            out = Extreme(at - slack + rounding, at - top, top, slack)
        k += 1.0
    return out


@njit()
def longest(indptr: Ints) -> int:
    """Return the number of entries of the longest row."""
    most = 0
    for row in range(len(indptr) - 1):
        most = max(most, indptr[row + 1] - indptr[row])
    return most


@njit()
def reach(
    row: int, layout: Layout, seen: CountArrays, eta: Floats, V: Floats, sign: float
) -> float:
    """Return the largest (sign = 1) or smallest (-1) mean of V (S,) over the ball of a row."""
    begin, end = layout.indptr[row], layout.indptr[row + 1]
    v = np.empty(end - begin)
    fill(begin, end, layout.indices, V, V[:0], sign, inf, v)
    n = float(seen.n[row])
    return sign * extreme(begin, end, seen.c, n, eta[row], v, -inf, 0.0, 0.0, 0.0).bound


@njit()
def plan(
    layout: Layout,
    seen: CountArrays,
    eta: Floats,
    r: Floats,
    bonus: Floats,
    sign: float,
    tie: float,
    out: PlanArrays,
) -> None:
    """Plan optimistically (sign = 1) or robustly (-1) over balls; eta (rows,), r (1 or H, R).

    bonus (1 or H, entries): rewards of entries; (1, 0) if there are none. Among actions that differ
    by no more than ``tie`` the first is taken. An optimistic V is the value of the best action, a
    robust V the value of the action taken: each is a bound in its direction.
    """
    first, action, V, policy = layout.first, layout.action, out.V, out.policy
    indptr, indices = layout.indptr, layout.indices
    H, S = policy.shape
    v = np.empty(longest(indptr))
    for t in range(H - 1, -1, -1):
        r_t, bonus_t = r[min(t, len(r) - 1)], bonus[min(t, len(bonus) - 1)]
        for s in range(S):
            best, chosen = -inf, -inf
            for k in range(first[s], first[s + 1]):
                row = t * layout.stride + k
                begin, end = indptr[row], indptr[row + 1]
                fill(begin, end, indices, V[t + 1], bonus_t, sign, inf, v)
                n = float(seen.n[row])
                x = extreme(begin, end, seen.c, n, eta[row], v, -inf, 0.0, 0.0, 0.0).bound
                q = r_t[k] + sign * x
                best = max(best, q)
                if q > chosen + tie:
                    chosen = q
                    policy[t, s] = action[k]
            V[t, s] = best if sign > 0.0 else chosen
