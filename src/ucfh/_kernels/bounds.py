"""Checks of compressed rows and of the bounds on their entries, in one pass.

indptr (rows+1,)   where each row's entries begin, rising
indices (entries,) successors; empty if every row lists all states in order
lo, hi (entries,)  bounds of the probabilities
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.compiling import njit

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

SOUND, EMPTY, OUTSIDE, TWICE, DISORDER, NO_ROOM = range(6)
REORDER = {"reassoc", "contract", "nsz"}  # sums in the order that the processor likes


class Fault(NamedTuple):
    """What is wrong, with which row, at which of its entries; and how many may be positive."""

    kind: int
    row: int
    entry: int
    positive: int


@njit(cache=True, nogil=True, fastmath=REORDER)
def _add_up(lo: Floats, hi: Floats, most: float) -> tuple[float, float, int, int]:
    """(sum of lo, sum of hi, how many hi are positive, how many bounds are out of order)."""
    low_sum, high_sum, positive, wrong = 0.0, 0.0, 0, 0
    for j in range(lo.size):
        low, high = lo[j], hi[j]
        low_sum += low
        high_sum += high
        positive += high > 0.0
        wrong += not ((low >= 0.0) & (low <= high) & (high <= most))
    return low_sum, high_sum, positive, wrong


@njit(cache=True, nogil=True)
def first_fault(
    indptr: Ints, indices: Index, lo: Floats, hi: Floats, states: int, rounding: float
) -> Fault:
    """The first fault; its kind is SOUND if there is none.

    EMPTY: a row has no successor. OUTSIDE: one that is not a state. TWICE: the same one twice.
    DISORDER: not 0 <= lo <= hi <= 1. NO_ROOM: no distribution lies between lo and hi.
    """
    positive, most, listed_by = 0, 1.0 + rounding, np.zeros(0, np.int64)
    for row in range(len(indptr) - 1):
        begin, end = indptr[row], indptr[row + 1]
        if begin == end:
            return Fault(EMPTY, row, begin, positive)
        if indices.size:
            last, ascending = -1, True
            for e in range(begin, end):
                s = indices[e]
                if s < 0 or s >= states:
                    return Fault(OUTSIDE, row, e, positive)
                ascending &= s > last
                last = s
            if not ascending:
                if not listed_by.size:
                    listed_by = np.zeros(states, np.int64)
                for e in range(begin, end):
                    if listed_by[indices[e]] == row + 1:
                        return Fault(TWICE, row, e, positive)
                    listed_by[indices[e]] = row + 1
        low_sum, high_sum, more, wrong = _add_up(lo[begin:end], hi[begin:end], most)
        positive += more
        if wrong:
            for e in range(begin, end):
                if not 0.0 <= lo[e] <= hi[e] <= most:
                    return Fault(DISORDER, row, e, positive)
        if low_sum > most or high_sum < 1.0 - rounding:
            return Fault(NO_ROOM, row, begin, positive)
    return Fault(SOUND, -1, -1, positive)


@njit(cache=True, nogil=True)
def all_between(values: Floats, least: float, most: float) -> bool:
    """Whether every one of the values (lines, n) is a number from ``least`` to ``most``."""
    wrong = 0
    for line in range(len(values)):
        for i in range(values.shape[1]):
            wrong += not ((values[line, i] >= least) & (values[line, i] <= most))
    return wrong == 0
