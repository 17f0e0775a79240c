"""The best and worst mean over one row's box: probabilities between bounds.

The inner problem, over one row with values z_j = sign (V_{t+1}(s'_j) + bonus_j), is

    max { sum_j p_j z_j :  lo <= p <= hi,  sum_j p_j = 1 }

For a value x let M(x) be the mass if successors of value above x get hi and the others lo. The
solution has a pivot: the lowest of the row's values x with M(x) <= 1, which takes what is left:

    x + sum_j p_j (z_j - x),   p_j = hi_j if z_j > x else lo_j.

Given the pivot, one pass without branches solves the row: no sorting. The pivot of the last time
step is nearly always right again. The pass proves it: x is the pivot if M(x) <= 1 and M > 1 just
below x, with the successors of value x at hi too; where not, it tells in which direction to look.
M is a sum of doubles in one fixed order, and rounding is monotone, so M never falls as x does, and
the pivot is a function of the row's data alone. Whatever pivot a search starts from, the result is
the same to the bit.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.compiling import inner, njit, uncounted
from ucfh._kernels.groups import Layout

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

EDGE = 1e-15  # times the length of a row: more than rounding makes of a sum of probabilities
WALK = 8  # a lost pivot is looked for so many values up or down, or 2 in rows longer than
SHORT = 64  # this; then by halving the range of values
REORDER = {"reassoc", "contract", "nsz"}  # sums in the order that the processor likes

inline: dict[str, Any] = {**uncounted, **inner, "forceinline": True}


class Step(NamedTuple):
    """The model as one time step sees it.

    ended: whether nothing can be earned after it. r (R,); offset = t*stride; bonus (entries,);
    z (S,) = sign V[t+1].
    """

    ended: bool
    first: Ints
    action: Ints
    r: Floats
    offset: int
    indptr: Ints
    indices: Index
    lo: Floats
    hi: Floats
    bonus: Floats
    sign: float
    z: Floats


@njit(**inline)
def value_at(step: Step, begin: int, e: int) -> float:
    """z of an entry of the row that begins there."""
    at = np.uint64(e)  # numba would ask whether a signed index counts from the end
    j = np.uint64(step.indices[at]) if step.indices.size else at - np.uint64(begin)
    x = step.z[j] + step.sign * step.bonus[at] if step.bonus.size else step.z[j]
    return float(x)


@njit(**uncounted, fastmath=REORDER)
def _weigh_all(low: Floats, high: Floats, z: Floats, x: float) -> tuple[float, float, float]:
    """`_weigh` of a row that lists all states in order: low, high, z (S,)."""
    mass, reach, total = 0.0, 0.0, 0.0
    for j in range(low.size):
        y, least, most = z[j] - x, low[j], high[j]
        p = most if y > 0.0 else least
        mass += p
        reach += most if y >= 0.0 else least
        total += p * y
    return mass, reach, total


@njit(inline="always")
def _weigh(step: Step, begin: int, end: int, x: float) -> tuple[float, float, float]:
    """(M(x), M just below x, sum_j p_j (z_j - x)) of one row."""
    mass, reach, total = 0.0, 0.0, 0.0
    if step.indices.size or step.bonus.size:
        for e in range(np.uint64(begin), np.uint64(end)):
            y, low, high = value_at(step, begin, e) - x, step.lo[e], step.hi[e]
            # high or low, in a form that is not compiled to a jump: nobody can predict which
            above, least = high if y > 0.0 else 0.0, high if y >= 0.0 else 0.0
            p = above if above > low else low
            mass += p
            reach += least if least > low else low
            total += p * y
    else:
        mass, reach, total = _weigh_all(step.lo[begin:end], step.hi[begin:end], step.z, x)
    return mass, reach, total


@njit(inline="always")
def _weigh_listed(step: Step, begin: int, end: int, x: float) -> tuple[float, float]:
    """M(x) and the sum, as `_weigh`, of a row that lists its successors, without bonus."""
    mass, total = 0.0, 0.0
    for e in range(np.uint64(begin), np.uint64(end)):
        y, low, high = step.z[np.uint64(step.indices[e])] - x, step.lo[e], step.hi[e]
        above = high if y > 0.0 else 0.0
        p = above if above > low else low
        mass += p
        total += p * y
    return mass, total


@njit(**uncounted, fastmath=REORDER)
def _average_all(p: Floats, z: Floats) -> float:
    """`_average` of a row that lists all states in order: p, z (S,)."""
    total = 0.0
    for j in range(p.size):
        total += p[j] * z[j]
    return total


@njit(inline="always")
def _average(step: Step, begin: int, end: int) -> float:
    """The mean of z over one row whose probabilities are known to be lo."""
    total = 0.0
    if step.bonus.size or step.indices.size:
        for e in range(np.uint64(begin), np.uint64(end)):
            total += step.lo[e] * value_at(step, begin, e)
    else:
        total = _average_all(step.lo[begin:end], step.z)
    return total


@njit(inline="always")
def _look(step: Step, begin: int, end: int, x: float) -> tuple[float, float, float]:
    """(hi - lo of a row's entries of value x, the next lower value, the next higher one)."""
    room, below, above = 0.0, -np.inf, np.inf
    for e in range(np.uint64(begin), np.uint64(end)):
        y = value_at(step, begin, e)
        room += step.hi[e] - step.lo[e] if y == x else 0.0
        below = max(below, y if y < x else -np.inf)
        above = min(above, y if y > x else np.inf)
    return room, below, above


@njit(**uncounted, **inner)
def _halve(step: Step, begin: int, end: int, low: float, high: float) -> float:
    """A value of a row about halfway between two, or infinity if none lies between them."""
    bottom, top = np.inf, -np.inf
    for e in range(begin, end):
        y = value_at(step, begin, e)
        bottom, top = min(bottom, y if y > low else np.inf), max(top, y if y < high else -np.inf)
    middle, nearest = bottom + (top - bottom) / 2.0, bottom
    for e in range(begin, end):
        y = value_at(step, begin, e)
        nearest = max(nearest, y if y <= middle and y < high else bottom)
    return nearest if nearest < high else np.inf


@njit(**uncounted, **inner)
def search(
    step: Step, begin: int, end: int, pivot: int, mass: float, total: float
) -> tuple[float, int]:
    """(the maximum over one row, where in it its pivot is), looking first at entry ``pivot``.

    M and the sum of that entry's value may be known; if not, mass is 0. Where it is not the
    pivot: a few values up or down, as room suggests, and then by halving the range of values. The
    place is negative, ~place, if the room of that entry alone does not prove it, as with ties.
    """
    x, reach = value_at(step, begin, pivot), np.inf
    low, high, left = -np.inf, np.inf, WALK if end - begin <= SHORT else 2
    known = mass > 1.0
    while True:
        if not known:
            mass, reach, total = _weigh(step, begin, end, x)
        known = False
        if mass <= 1.0 < reach:
            break
        # the pivot is above low and below high; M just below a value is M at the next one
        up, y = mass > 1.0, x
        low, high, m = (x, high, mass) if up else (low, x, reach)
        while left > 0:
            room, below, above = _look(step, begin, end, y)
            if y != x:
                m += -room if up else room
                if up == (m <= 1.0):
                    break
            following = above if up else below
            if not low < following < high:
                break
            y, left = following, left - 1
        if left == 0 and y == x:
            y = _halve(step, begin, end, low, high)
        if y == x or y == np.inf:
            break
        x = y
    total += x
    if reach <= 1.0:
        # all at hi fall short of one by rounding: what is missing goes to the best successor
        best = x
        for e in range(begin, end):
            best = max(best, value_at(step, begin, e) if step.hi[e] > 0.0 else x)
        total += (1.0 - reach) * (best - x)
    if value_at(step, begin, pivot) != x:
        pivot = begin
        while value_at(step, begin, pivot) != x:
            pivot += 1
    alone = 0.0 <= 1.0 - mass <= step.hi[pivot] - step.lo[pivot] - EDGE * (end - begin)
    return total, pivot - begin if alone else begin - pivot - 1


@njit(inline="always")
def mean_of(step: Step, k: int, pivot: Index) -> float:
    """The best or worst mean of V[t+1] over the box of the step's k-th row.

    pivot (R,): where in its row each pivot was found before, as `search` says, to look there first.
    """
    begin, end = step.indptr[step.offset + k], step.indptr[step.offset + k + 1]
    if step.hi.size:
        place, settled, mass, total = pivot[k], False, 0.0, 0.0
        at = begin + min(max(place, -1 - place), end - begin - 1)
        x = value_at(step, begin, at)
        if place < 0 or step.bonus.size:
            pass
        elif step.indices.size:
            mass, total = _weigh_listed(step, begin, end, x)
            # with the pivot itself at hi, and so for any lower x, M(x) is above one for sure
            room = step.hi[np.uint64(at)] - step.lo[np.uint64(at)]
            settled = 0.0 <= 1.0 - mass <= room - EDGE * (end - begin)
        else:
            mass, reach, total = _weigh_all(step.lo[begin:end], step.hi[begin:end], step.z, x)
            settled = mass <= 1.0 < reach
        if settled:
            total += x
        else:
            total, pivot[k] = search(step, begin, end, at, mass, total)
    else:
        total = _average(step, begin, end)
    return step.sign * total


@njit(**uncounted, **inner)
def signed(v: Floats, sign: float, out: Floats) -> None:
    """sign v into out; both (S,). (NumPy's own expressions take seconds to compile.)"""
    for s in range(v.size):
        out[s] = sign * v[s]


@njit(cache=True, nogil=True)
def expectation(row: int, layout: Layout, lo: Floats, hi: Floats, v: Floats, sign: float) -> float:
    """The best (sign = 1) or worst (sign = -1) mean of v (S,) over the box of one row.

    lo, hi (entries,): bounds of the probabilities.
    """
    begin, end = layout.indptr[row], layout.indptr[row + 1]
    z = np.empty(v.size)
    signed(v, sign, z)
    none, zero = np.empty(0, np.int64), np.empty(0)
    step = Step(False, none, none, zero, 0, none, layout.indices, lo, hi, zero, sign, z)
    total, _ = search(step, begin, end, begin, 0.0, 0.0)
    return float(sign * total)
