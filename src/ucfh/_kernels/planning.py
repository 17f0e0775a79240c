"""Dynamic programming over the rows of a successor table.

Arrays shared by all functions here (see `ucfh.table`):

    first (S+1,), indptr (rows+1,), indices (entries,)    the table
    stride                                                row of (t, s, i) = t*stride + first[s] + i
    r (1 or H, R)                                         rewards of pairs; the last line serves on
    V (H+1, S)                                            values, V[H] = 0 on entry

The heart is the inner problem of FixedHorizonEVI, over one row with values z = V_{t+1}(s') (plus
the reward on s', where there is one):

    max { sum_j p_j z_j :  lo <= p <= hi,  sum_j p_j = 1 }

Its solution has a pivot value z*: successors above it get hi, those below it lo, and the lump of
those equal to it the rest of the mass, which must fit between the lump's summed lo and hi. Given
the right pivot the row is solved in one pass without sorting. The pivot of the last time step is
nearly always right again; where it is not, the same pass says in which direction to look, and
the next pivot is the middle one of the candidates left.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

SLACK = 1e-14  # rounding allowed when the mass of a lump is held against its bounds


@njit(cache=True, nogil=True)
def _value(e: int, indices: Index, v: Floats, bonus: Floats | None, sign: float) -> float:
    if bonus is None:
        return float(sign * v[indices[e]])
    return float(sign * (v[indices[e]] + bonus[e]))


@njit(cache=True, nogil=True)
def _solve_row(
    begin: int,
    end: int,
    indices: Index,
    lo: Floats,
    hi: Floats,
    v: Floats,
    bonus: Floats | None,
    sign: float,
    pivot: int,
) -> tuple[float, int]:
    """(the maximum of sum p z over one row, its pivot entry); z = sign * (v + bonus)."""
    floor, ceiling = -np.inf, np.inf  # the pivot's value lies strictly between
    while True:
        z_pivot = _value(pivot, indices, v, bonus, sign)
        mass, total, lump_lo, lump_hi = 0.0, 0.0, 0.0, 0.0
        for e in range(begin, end):
            z = _value(e, indices, v, bonus, sign)
            if z > z_pivot:
                mass += hi[e]
                total += hi[e] * z
            elif z < z_pivot:
                mass += lo[e]
                total += lo[e] * z
            else:
                lump_lo += lo[e]
                lump_hi += hi[e]
        rest = 1.0 - mass
        if rest < lump_lo - SLACK:
            floor = z_pivot
        elif rest > lump_hi + SLACK:
            ceiling = z_pivot
        else:
            return total + rest * z_pivot, pivot
        candidates = 0
        for e in range(begin, end):
            if floor < _value(e, indices, v, bonus, sign) < ceiling:
                candidates += 1
        if candidates == 0:
            # the row's bounds sum to one only up to rounding: the residue goes to the best
            if rest > lump_hi:
                best = z_pivot
                for e in range(begin, end):
                    best = max(best, _value(e, indices, v, bonus, sign))
                total += (rest - lump_hi) * (best - z_pivot)
            return total + rest * z_pivot, pivot
        skip = candidates // 2
        for e in range(begin, end):
            if floor < _value(e, indices, v, bonus, sign) < ceiling:
                if skip == 0:
                    pivot = e
                    break
                skip -= 1


@njit(cache=True, nogil=True)
def _write_row(
    begin: int,
    end: int,
    indices: Index,
    lo: Floats,
    hi: Floats,
    v: Floats,
    bonus: Floats | None,
    sign: float,
    pivot: int,
    out: Floats,
) -> None:
    """The probabilities that attain the maximum of `_solve_row`, into out (entries,)."""
    z_pivot = _value(pivot, indices, v, bonus, sign)
    rest, best = 1.0, begin
    for e in range(begin, end):
        z = _value(e, indices, v, bonus, sign)
        out[e] = hi[e] if z > z_pivot else lo[e]
        rest -= out[e]
        if z > _value(best, indices, v, bonus, sign):
            best = e
    for e in range(begin, end):
        if _value(e, indices, v, bonus, sign) == z_pivot:
            share = max(0.0, min(rest, hi[e] - lo[e]))
            out[e] += share
            rest -= share
    out[best] += rest


@njit(cache=True, nogil=True)
def extended_value_iteration(
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index,
    stride: int,
    lo: Floats,
    hi: Floats,
    r: Floats,
    bonus: Floats | None,
    sign: float,
    V: Floats,
    policy: Ints,
    model: Floats | None,
) -> None:
    """FixedHorizonEVI (sign = 1), or its robust counterpart (sign = -1).

    lo, hi (entries,); bonus (1 or H, entries) rewards on the next state; fills V (H+1, S),
    policy (H, S) and, if given, model: p~ as (H, entries), or (1, entries) where rows have stages.
    """
    S, H = len(first) - 1, len(V) - 1
    pivot = indptr[:-1].copy()
    for t in range(H - 1, -1, -1):
        v, r_t = V[t + 1], r[min(t, len(r) - 1)]
        bonus_t = None if bonus is None else bonus[min(t, len(bonus) - 1)]
        for s in range(S):
            best = -np.inf
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                begin, end = indptr[row], indptr[row + 1]
                if stride > 0 and t < H - 1:
                    # rows of neighbouring stages tend to be alike, and so their pivots
                    later = row + stride
                    pivot[row] = min(begin + pivot[later] - indptr[later], end - 1)
                z, pivot[row] = _solve_row(
                    begin, end, indices, lo, hi, v, bonus_t, sign, pivot[row]
                )
                q = r_t[k] + sign * z
                if q > best:
                    best = q
                    policy[t, s] = action[k]
                if model is not None:
                    p = model[min(t, len(model) - 1)]
                    _write_row(begin, end, indices, lo, hi, v, bonus_t, sign, pivot[row], p)
            V[t, s] = best


@njit(cache=True, nogil=True)
def expectation(
    begin: int, end: int, indices: Index, lo: Floats, hi: Floats, v: Floats, sign: float
) -> float:
    """The best (sign = 1) or worst (sign = -1) mean of v (S,) over the box of one row."""
    z, _ = _solve_row(begin, end, indices, lo, hi, v, None, sign, begin)
    return sign * z


@njit(cache=True, nogil=True)
def backward_induction(
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index,
    stride: int,
    p: Floats,
    r: Floats,
    V: Floats,
    policy: Ints,
) -> None:
    """Exact planning: p (entries,), r (1 or H, R) mean rewards; fills V and policy (H, S)."""
    S, H = len(first) - 1, len(V) - 1
    for t in range(H - 1, -1, -1):
        v, r_t = V[t + 1], r[min(t, len(r) - 1)]
        for s in range(S):
            best = -np.inf
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                q = r_t[k]
                for e in range(indptr[row], indptr[row + 1]):
                    q += p[e] * v[indices[e]]
                if q > best:
                    best = q
                    policy[t, s] = action[k]
            V[t, s] = best


@njit(cache=True, nogil=True)
def evaluate(
    indptr: Ints, indices: Index, stride: int, p: Floats, r: Floats, rows: Ints, V: Floats
) -> None:
    """V^pi into V (H+1, S), for the policy that takes rows (H, S)."""
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        r_t = r[min(t, len(r) - 1)]
        for s in range(S):
            row = rows[t, s]
            q = r_t[row - t * stride]
            for e in range(indptr[row], indptr[row + 1]):
                q += p[e] * V[t + 1, indices[e]]
            V[t, s] = q


@njit(cache=True, nogil=True)
def occupancy(indptr: Ints, indices: Index, p: Floats, rows: Ints, d: Floats) -> None:
    """P(s_t = s) into d (H, S): d_1 = p0, the last row; d_{t+1} = d_t P^pi."""
    H, S = rows.shape
    d[:] = 0.0
    for e in range(indptr[-2], indptr[-1]):
        d[0, indices[e]] = p[e]
    for t in range(H - 1):
        for s in range(S):
            if d[t, s] > 0.0:
                row = rows[t, s]
                for e in range(indptr[row], indptr[row + 1]):
                    d[t + 1, indices[e]] += d[t, s] * p[e]


@njit(cache=True, nogil=True)
def variance(
    indptr: Ints,
    indices: Index,
    stride: int,
    p: Floats,
    r: Floats,
    bonus: Floats | None,
    noisy: bool,
    rows: Ints,
    V: Floats,
    W: Floats,
) -> None:
    """Var_t = P_t Var_{t+1} + sigma^2_t into W (H+1, S), given V^pi (H+1, S).

    sigma^2_t is the variance of the reward plus V_{t+1}(s_{t+1}); noisy adds each reward's own
    variance x (1 - x). Centred on V_t, so that no large numbers cancel.
    """
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        r_t = r[min(t, len(r) - 1)]
        for s in range(S):
            row = rows[t, s]
            total = 0.0
            for e in range(indptr[row], indptr[row + 1]):
                x = r_t[row - t * stride]
                if bonus is not None:
                    x += bonus[min(t, len(bonus) - 1), e]
                off = x + V[t + 1, indices[e]] - V[t, s]
                own = x * (1.0 - x) if noisy else 0.0
                total += p[e] * (off * off + own + W[t + 1, indices[e]])
            W[t, s] = total
