"""FixedHorizonEVI: dynamic programming over transition probabilities between bounds.

    first (S+1,), action (R,), indptr (rows+1,)    the table (`ucfh.table`)
    indices (entries,)   successors, or None if every row lists all states in order
    stride               the row of (t, s, i) is t*stride + first[s] + i
    lo, hi (entries,)    bounds of the probabilities
    r (1 or H, R)        rewards of pairs; the last line serves on
    bonus                (1 or H, entries) rewards on the next state, or None
    sign                 1 for the best model between the bounds, -1 for the worst
    V (H+1, S)           values, V[H] = 0 on entry

The inner problem, over one row with values z_j = sign (V_{t+1}(s'_j) + bonus_j), is

    max { sum_j p_j z_j :  lo <= p <= hi,  sum_j p_j = 1 }

Its solution has a pivot value z*: successors above it get hi, those below it lo, and the lump of
those equal to it lo and the rest of the mass, which must lie between 0 and the lump's summed
hi - lo. Given the pivot, one pass without branches solves the row: no sorting. The pivot of the
last time step is nearly always right again; where it is not, the same pass tells in which
direction to look, and the next pivot is the middle one of the candidates left.
"""

from __future__ import annotations

import numpy as np
from numba import njit, prange
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

SLACK = 1e-14  # rounding allowed when the rest of the mass is held against the lump
TIE = 1e-13  # times H, the size of values: a difference that rounding may make
REORDER = {"reassoc", "contract", "nsz"}  # sums in the order that the processor likes


@njit(cache=True, nogil=True, fastmath=REORDER)
def _weigh(
    begin: int,
    end: int,
    indices: Index | None,
    lo: Floats,
    hi: Floats,
    z: Floats,
    bonus: Floats | None,
    sign: float,
    pivot: float,
) -> tuple[float, float, float]:
    """(mass, mass times value, width of the lump) of one row, before the rest is given out."""
    mass, total, width = 0.0, 0.0, 0.0
    low, high = lo[begin:end], hi[begin:end]
    following = None if indices is None else indices[begin:end]
    extra = None if bonus is None else bonus[begin:end]
    for j in range(low.size):
        x = z[j] if following is None else z[np.uint32(following[j])]
        if extra is not None:
            x += sign * extra[j]
        p = high[j] if x > pivot else low[j]
        mass += p
        total += p * x
        width += high[j] - low[j] if x == pivot else 0.0
    return mass, total, width


@njit(cache=True, nogil=True)
def _value(
    e: int, begin: int, indices: Index | None, z: Floats, bonus: Floats | None, sign: float
) -> float:
    """z of one entry, rounded as in `_weigh`."""
    x = z[e - begin] if indices is None else z[indices[e]]
    return float(x if bonus is None else x + sign * bonus[e])


@njit(cache=True, nogil=True)
def _next_pivot(
    begin: int,
    end: int,
    indices: Index | None,
    z: Floats,
    bonus: Floats | None,
    sign: float,
    floor: float,
    ceiling: float,
) -> int:
    """The middle one of the entries whose value lies strictly between, or -1."""
    candidates = 0
    for e in range(begin, end):
        candidates += floor < _value(e, begin, indices, z, bonus, sign) < ceiling
    skip = candidates // 2
    for e in range(begin, end):
        if floor < _value(e, begin, indices, z, bonus, sign) < ceiling:
            if skip == 0:
                return e
            skip -= 1
    return -1


@njit(cache=True, nogil=True)
def _search(
    begin: int,
    end: int,
    indices: Index | None,
    lo: Floats,
    hi: Floats,
    z: Floats,
    bonus: Floats | None,
    sign: float,
    pivot: int,
) -> tuple[float, int]:
    """(the maximum over one row, its pivot entry), looking first at ``pivot``."""
    floor, ceiling = -np.inf, np.inf
    while True:
        x = _value(pivot, begin, indices, z, bonus, sign)
        mass, total, width = _weigh(begin, end, indices, lo, hi, z, bonus, sign, x)
        rest = 1.0 - mass
        if rest < -SLACK:
            floor = x
        elif rest > width + SLACK:
            ceiling = x
        else:
            return total + rest * x, pivot
        other = _next_pivot(begin, end, indices, z, bonus, sign, floor, ceiling)
        if other >= 0:
            pivot = other
            continue
        # the bounds sum to one only up to rounding: the residue goes to the best successor
        best = x
        for e in range(begin, end):
            best = max(best, _value(e, begin, indices, z, bonus, sign))
        lump = min(max(rest, 0.0), width)
        return total + lump * x + (rest - lump) * best, pivot


@njit(cache=True, nogil=True)
def _plan_states(
    s_begin: int,
    s_end: int,
    t: int,
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index | None,
    stride: int,
    lo: Floats,
    hi: Floats,
    r: Floats,
    z: Floats,
    bonus: Floats | None,
    sign: float,
    tie: float,
    pivot: Index,
    v: Floats,
    policy: Ints,
) -> None:
    """One time step for some states: their values into v (S,), their actions into policy (S,).

    pivot (R,) is where in its row each pivot was found last. Actions whose values differ by no
    more than ``tie`` are equal, and the lowest is taken.
    """
    for s in range(s_begin, s_end):
        best, chosen = -np.inf, -np.inf
        for k in range(first[s], first[s + 1]):
            row = t * stride + k
            begin, end = indptr[row], indptr[row + 1]
            guess = begin + min(pivot[k], end - begin - 1)
            x = _value(guess, begin, indices, z, bonus, sign)
            mass, total, width = _weigh(begin, end, indices, lo, hi, z, bonus, sign, x)
            rest = 1.0 - mass
            total += rest * x
            if rest < -SLACK or rest > width + SLACK:
                total, found = _search(begin, end, indices, lo, hi, z, bonus, sign, guess)
                pivot[k] = found - begin
            q = r[k] + sign * total
            best = max(best, q)
            if q > chosen + tie:
                chosen = q
                policy[s] = action[k]
        v[s] = best


@njit(cache=True, nogil=True)
def extended_value_iteration(
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index | None,
    stride: int,
    lo: Floats,
    hi: Floats,
    r: Floats,
    bonus: Floats | None,
    sign: float,
    V: Floats,
    policy: Ints,
) -> None:
    """Fill V (H+1, S) and policy (H, S)."""
    H, S = policy.shape
    pivot = np.zeros(len(action), np.int32)
    for t in range(H - 1, -1, -1):
        z, r_t = sign * V[t + 1], r[min(t, len(r) - 1)]
        bonus_t = None if bonus is None else bonus[min(t, len(bonus) - 1)]
        _plan_states(
            0, S, t, first, action, indptr, indices, stride, lo, hi, r_t, z, bonus_t, sign,
            TIE * H, pivot, V[t], policy[t],
        )  # fmt: skip


@njit(cache=True, nogil=True, parallel=True)
def extended_value_iteration_in_parallel(
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index | None,
    stride: int,
    lo: Floats,
    hi: Floats,
    r: Floats,
    bonus: Floats | None,
    sign: float,
    V: Floats,
    policy: Ints,
    blocks: int,
) -> None:
    """The same to the bit, the states of every step shared out in blocks among threads."""
    H, S = policy.shape
    pivot = np.zeros(len(action), np.int32)
    for t in range(H - 1, -1, -1):
        z, r_t = sign * V[t + 1], r[min(t, len(r) - 1)]
        bonus_t = None if bonus is None else bonus[min(t, len(bonus) - 1)]
        v, pi = V[t], policy[t]
        for b in prange(blocks):
            _plan_states(
                b * S // blocks, (b + 1) * S // blocks, t, first, action, indptr, indices,
                stride, lo, hi, r_t, z, bonus_t, sign, TIE * H, pivot, v, pi,
            )  # fmt: skip


@njit(cache=True, nogil=True)
def expectation(
    begin: int, end: int, indices: Index, lo: Floats, hi: Floats, v: Floats, sign: float
) -> float:
    """The best (sign = 1) or worst (sign = -1) mean of v (S,) over the box of one row."""
    x, _ = _search(begin, end, indices, lo, hi, sign * v, None, sign, begin)
    return sign * x


@njit(cache=True, nogil=True)
def write_model(
    indptr: Ints,
    indices: Index,
    stride: int,
    pairs: int,
    lo: Floats,
    hi: Floats,
    bonus: Floats | None,
    sign: float,
    V: Floats,
    model: Floats,
) -> None:
    """The probabilities that attain V, into model (H, entries), or (1, entries) with stages."""
    for t in range(len(V) - 1):
        z, out = sign * V[t + 1], model[min(t, len(model) - 1)]
        bonus_t = None if bonus is None else bonus[min(t, len(bonus) - 1)]
        for row in range(t * stride, t * stride + pairs):
            begin, end = indptr[row], indptr[row + 1]
            _, pivot = _search(begin, end, indices, lo, hi, z, bonus_t, sign, begin)
            x = _value(pivot, begin, indices, z, bonus_t, sign)
            rest, best = 1.0, begin
            for e in range(begin, end):
                y = _value(e, begin, indices, z, bonus_t, sign)
                out[e] = hi[e] if y > x else lo[e]
                rest -= out[e]
                if y > _value(best, begin, indices, z, bonus_t, sign):
                    best = e
            for e in range(begin, end):
                if _value(e, begin, indices, z, bonus_t, sign) == x:
                    share = max(0.0, min(rest, hi[e] - lo[e]))
                    out[e] += share
                    rest -= share
            out[best] += rest
