"""The best mean over one row's box: probabilities between bounds.

The inner problem, over one row whose successors have values y_j, is

    max { sum_j p_j y_j :  lo <= p <= hi,  sum_j p_j = 1 }

For a value x let M(x) be the mass if successors of value above x get hi and the others lo. The
solution has a pivot: the lowest of the row's values x with M(x) <= 1, which takes what is left:

    x + sum_j p_j (y_j - x),   p_j = hi_j if y_j > x else lo_j.

Given the pivot, one pass without branches solves the row: no sorting. The pivot of the last time
step is nearly always right again. The pass proves it: x is the pivot if M(x) <= 1 and M > 1 just
below x, with the successors of value x at hi too; where not, it tells in which direction to look.
M is a sum of doubles in one fixed order, and rounding is monotone, so M never falls as x does, and
the pivot is a function of the row's data alone. Whatever pivot a search starts from, the result is
the same to the bit.

Where the pivot is lost, it is guessed first. Rows that list all states in order share one order of
values, which is sorted again where one of a batch is lost, and changes little from step to step; in
that order one pass adds M up. In another row, if it is short, M is found at all of its values,
several at once. Neither takes a branch that nobody can predict. Such an M is summed in another
order: a pass still proves the pivot, and the search goes on if rounding has misled it. The search
looks where M would be one if it were linear between the two values that are known to enclose it, at
first the row's least and greatest, and every few times halfway.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.types import Layout

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

SHORT = 24  # in rows up to this length, M is found at all values
HALVE = 4  # every fourth look is halfway


@njit(forceinline=True)
def weigh(
    lo: Floats, hi: Floats, begin: int, end: int, y: Floats, indices: Index | None, x: float
) -> tuple[float, float, float]:
    """Return (M(x), M just below x, sum_j p_j (y_j - x)) of the row of entries begin <= e < end.

    lo, hi (entries,). Values are y[indices[e]], or y[e - begin] if ``indices`` is None. Entries at
    even and at odd places are summed apart, so that the processor adds two at a time.
    """
    mass, reach, total, mass_2, reach_2, total_2 = 0.0, 0.0, 0.0, 0.0, 0.0, 0.0
    # unsigned: of a signed index numba asks whether it counts from the end
    first, e, last = np.uint64(begin), np.uint64(begin), np.uint64(end)
    # both bounds are read before one is chosen: so there is no branch to predict
    one, two = np.uint64(1), np.uint64(2)
    while e + one < last:
        value = y[e - first] if indices is None else y[np.uint64(indices[e])]
        least, most = lo[e], hi[e]
        p = most if value > x else least
        mass += p
        reach += most if value >= x else least
        total += p * (value - x)
        value = y[e + one - first] if indices is None else y[np.uint64(indices[e + one])]
        least, most = lo[e + one], hi[e + one]
        p = most if value > x else least
        mass_2 += p
        reach_2 += most if value >= x else least
        total_2 += p * (value - x)
        e += two
    if e < last:
        value = y[e - first] if indices is None else y[np.uint64(indices[e])]
        least, most = lo[e], hi[e]
        p = most if value > x else least
        mass += p
        reach += most if value >= x else least
        total += p * (value - x)
    return mass + mass_2, reach + reach_2, total + total_2


@njit(fastmath={"reassoc", "nnan", "nsz"})
def _extent(
    lo: Floats, hi: Floats, begin: int, end: int, y: Floats
) -> tuple[float, float, float, float]:
    """Return the least value of a row, M just below it, the greatest value and M there."""
    lo, hi, y = borrow((lo, hi, y))
    bottom, most, top, least = np.inf, 0.0, -np.inf, 0.0
    for e in range(np.uint64(begin), np.uint64(end)):
        value = y[e - np.uint64(begin)]
        bottom, top = min(bottom, value), max(top, value)
        most += hi[e]
        least += lo[e]
    return bottom, most, top, least


@njit(fastmath={"nnan", "nsz"})
def _around(y: Floats, size: int, low: float, x: float, high: float) -> tuple[float, float]:
    """Return the greatest value up to x and the least one above it, of y[:size] in (low, high).

    Infinite if there is none.
    """
    y = borrow(y)
    below, above = -np.inf, np.inf
    for j in range(np.uint64(size)):
        inside = (low < y[j]) & (y[j] < high)
        below = max(below, y[j] if inside & (y[j] <= x) else -np.inf)
        above = min(above, y[j] if inside & (y[j] > x) else np.inf)
    return below, above


@njit()
def guess_in_short(lo: Floats, hi: Floats, begin: int, end: int, y: Floats, x: float) -> float:
    """Return the pivot of a short row up to rounding, or x if the row is longer than `SHORT`."""
    lo, hi, y = borrow((lo, hi, y))
    if end - begin > SHORT:
        return x
    lowest, first, size = np.inf, np.uint64(begin), np.uint64(end - begin)
    for i in range(size):
        mass = 0.0
        for j in range(size):
            least, most = lo[first + j], hi[first + j]
            mass += most if y[j] > y[i] else least
        lowest = min(lowest, y[i] if mass <= 1.0 else np.inf)
    return lowest if lowest < np.inf else x


@njit()
def sort_again(order: Ints, z: Floats) -> None:
    """Sort order (C,), places of z (C,), by falling values; it is nearly sorted on entry."""
    order, z = borrow((order, z))
    for i in range(1, order.size):
        j, place, value = i, order[i], z[order[i]]
        while j > 0 and z[order[j - 1]] < value:
            order[j] = order[j - 1]
            j -= 1
        order[j] = place


@njit()
def guess_in_order(lo: Floats, hi: Floats, begin: int, order: Ints) -> int:
    """Return the place of a row's pivot up to rounding, given the falling order (C,) of values."""
    lo, hi, order = borrow((lo, hi, order))
    mass, above, first = 0.0, np.uint64(0), np.uint64(begin)
    for j in range(order.size):
        mass += lo[first + np.uint64(j)]
    for j in range(order.size - 1):
        e = first + np.uint64(order[j])
        mass += hi[e] - lo[e]
        above += np.uint64(mass <= 1.0)
    return int(order[above])


@njit()
def best_mean(
    lo: Floats, hi: Floats, begin: int, end: int, y: Floats, x: float, place: int
) -> tuple[float, int]:
    """Return the maximum over one row, and the place of its pivot.

    lo, hi (entries,), of which the row has those from begin to end; y (C,) or longer. The pivot is
    first taken to be x, and to be at ``place``.
    """
    lo, hi, y = borrow((lo, hi, y))
    size, low, high, looks = end - begin, -np.inf, np.inf, 0
    left, m_left, right, m_right = 0.0, 0.0, 0.0, 0.0
    mass, reach, total = weigh(lo, hi, begin, end, y, None, x)
    while not (mass <= 1.0) & (reach > 1.0):
        if looks == 0:
            left, m_left, right, m_right = _extent(lo, hi, begin, end, y)
        # the pivot is above low and below high
        up = mass > 1.0
        low, left, m_left = x if up else low, x if up else left, mass if up else m_left
        high, right, m_right = high if up else x, right if up else x, m_right if up else reach
        looks += 1
        share = (m_left - 1.0) / (m_left - m_right) if m_left > 1.0 >= m_right else 0.5
        guess = left + (right - left) * (share if looks % HALVE else 0.5)
        below, above = _around(y, size, low, guess, high)
        if below == -np.inf and above == np.inf:
            break
        x = below if guess - below <= above - guess else above
        mass, reach, total = weigh(lo, hi, begin, end, y, None, x)
    total += x
    if reach <= 1.0:
        # all at hi fall short of one by rounding: what is missing goes to the best successor
        best = x
        for j in range(size):
            best = max(best, y[j] if hi[begin + j] > 0.0 else x)
        total += (1.0 - reach) * (best - x)
    if y[place] != x:
        place = 0
        while y[place] != x:
            place += 1
    return total, place


@njit()
def expectation(row: int, layout: Layout, lo: Floats, hi: Floats, v: Floats, sign: float) -> float:
    """Return the largest (sign = 1) or smallest (-1) mean of v (S,) over the box of one row.

    lo, hi (entries,): bounds of the probabilities.
    """
    begin, end = layout.indptr[row], layout.indptr[row + 1]
    y = np.empty(end - begin)
    for j in range(end - begin):
        y[j] = sign * v[layout.indices[begin + j]]
    return float(sign * best_mean(lo, hi, begin, end, y, y[0], 0)[0])
