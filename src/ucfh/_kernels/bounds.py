"""Checks of compressed rows and of the bounds on their entries.

Nearly always nothing is wrong. So rows are first looked at in blocks: their entries all together,
which takes several at once even where rows are short, and their sums. Only in a block where that
finds something are rows gone through one by one, to name it.

indptr (rows+1,)   where each row's entries begin, rising
indices (entries,) successors; empty if every row lists all states in order
lo, hi (entries,)  bounds of the probabilities
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

SOUND, EMPTY, OUTSIDE, TWICE, DISORDER, NO_ROOM = range(6)
REORDER = {"reassoc", "contract", "nsz"}  # sums in the order that the processor likes
BLOCK = 64  # rows, whose entries stay near while they are looked at


class Fault(NamedTuple):
    """First fault: its kind, row and entry; row and entry are -1 if there is none.

    positive: the number of entries that may be positive, if there is no fault.
    """

    kind: int
    row: int
    entry: int
    positive: int


@njit(fastmath=REORDER)
def _add_up(lo: Floats, hi: Floats) -> tuple[float, float]:
    """Return the sums of lo and of hi."""
    low, high = 0.0, 0.0
    for j in range(lo.size):
        low += lo[j]
        high += hi[j]
    return low, high


@njit()
def _count(lo: Floats, hi: Floats, most: float) -> tuple[int, int]:
    """Return the numbers of positive hi and of bounds out of order."""
    positive, wrong = 0, 0
    for j in range(lo.size):
        positive += hi[j] > 0.0
        wrong += not ((lo[j] >= 0.0) & (lo[j] <= hi[j]) & (hi[j] <= most))
    return positive, wrong


@njit()
def _count_falls(indices: Index, states: int) -> tuple[int, int]:
    """Return the numbers of indices that are no states, and that are not above the previous one."""
    wrong, falls = 0, 0
    for j in range(indices.size):
        wrong += (indices[j] < 0) | (indices[j] >= states)
    for j in range(1, indices.size):
        falls += indices[j] <= indices[j - 1]
    return wrong, falls


@njit()
def _are_sound(
    indptr: Ints, indices: Index, lo: Floats, hi: Floats, states: int, rounding: float
) -> tuple[bool, int]:
    """Return whether the rows of a block are sound and ascend, and the number of positive hi.

    indptr: of the rows of the block alone.
    """
    begin, end = indptr[0], indptr[-1]
    positive, wrong = _count(lo[begin:end], hi[begin:end], 1.0 + rounding)
    falls = 0
    if indices.size:
        outside, falls = _count_falls(indices[begin:end], states)
        wrong += outside
    for row in range(len(indptr) - 1):
        begin, end = indptr[row], indptr[row + 1]
        if begin == end:
            return False, 0
        low, high = _add_up(lo[begin:end], hi[begin:end])
        wrong += (low > 1.0 + rounding) | (high < 1.0 - rounding)
        if row and indices.size:  # from one row to the next they may fall
            falls -= indices[begin] <= indices[begin - 1]
    return wrong + falls == 0, positive


@njit()
def first_fault(
    indptr: Ints, indices: Index, lo: Floats, hi: Floats, states: int, rounding: float
) -> Fault:
    """Return the first fault; its kind is SOUND if there is none.

    EMPTY: a row has no successor. OUTSIDE: one that is not a state. TWICE: the same one twice.
    DISORDER: not 0 <= lo <= hi <= 1. NO_ROOM: no distribution lies between lo and hi.
    """
    total, most, listed_by = 0, 1.0 + rounding, np.zeros(0, np.int64)
    for block in range(0, len(indptr) - 1, BLOCK):
        sound, positive = _are_sound(
            indptr[block : block + BLOCK + 1], indices, lo, hi, states, rounding
        )
        total += positive
        if sound:
            continue
        if indices.size and not listed_by.size:
            listed_by = np.zeros(states, np.int64)
        for row in range(block, min(block + BLOCK, len(indptr) - 1)):
            begin, end = indptr[row], indptr[row + 1]
            if begin == end:
                return Fault(EMPTY, row, begin, 0)
            if indices.size:
                for e in range(begin, end):
                    if not 0 <= indices[e] < states:
                        return Fault(OUTSIDE, row, e, 0)
                for e in range(begin, end):
                    if listed_by[indices[e]] == row + 1:
                        return Fault(TWICE, row, e, 0)
                    listed_by[indices[e]] = row + 1
            for e in range(begin, end):
                if not 0.0 <= lo[e] <= hi[e] <= most:
                    return Fault(DISORDER, row, e, 0)
            low, high = _add_up(lo[begin:end], hi[begin:end])
            if low > most or high < 1.0 - rounding:
                return Fault(NO_ROOM, row, begin, 0)
    return Fault(SOUND, -1, -1, total)


@njit()
def all_between(values: Floats, least: float, most: float) -> bool:
    """Return whether all values (lines, n) are numbers from ``least`` to ``most``."""
    wrong = 0
    for line in range(len(values)):
        for i in range(values.shape[1]):
            wrong += not ((values[line, i] >= least) & (values[line, i] <= most))
    return wrong == 0
