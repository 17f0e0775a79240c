"""Values of rows at one time step: reward, and mean value of the next state.

The mean over one row is the best or worst one between the bounds (`ucfh._kernels.interval`), or a
plain sum where the probabilities are known:

    Q_t = r_t + sign max { sum_j p_j y_j },   y_j = sign (V_{t+1}(s'_j) + bonus_j)
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.interval import best_mean, guess_in_order, guess_in_short, sort_again, weigh
from ucfh._kernels.intrinsics import borrow

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]
Places = NDArray[np.uint64]

BATCH = 512  # states planned at a time
REORDER = {"reassoc", "contract", "nsz"}  # sums in the order that the processor likes


class Model(NamedTuple):
    """Planning problem without the upper bounds hi (entries,).

    The table, as a `Layout`; but action is empty if every state has all of them, and indices if
    every row lists all states in order. lo (entries,): lower bounds of the probabilities, 0 <= lo
    <= hi; if hi is None, lo holds the probabilities. r (1 or H, R): rewards of pairs; the last line
    serves on. bonus (1 or H, entries): rewards on the next state; (1, 0) if there are none, as
    where hi is None. sign: 1 for the best model between the bounds, -1 for the worst.
    """

    first: Ints
    action: Ints
    indptr: Ints
    indices: Index
    stride: int
    lo: Floats
    r: Floats
    bonus: Floats
    sign: float


class Step(NamedTuple):
    """Arrays of one time step.

    r (R,), bonus (entries,): its lines of the model. offset = t*stride. z (S,) = sign V[t+1].
    ended: whether no reward follows it.
    """

    r: Floats
    bonus: Floats
    offset: int
    z: Floats
    ended: bool


class Scratch(NamedTuple):
    """Scratch arrays of one thread that plans.

    batch (2, BATCH): the states of a batch, and which of them are contested: they have actions
    that may be as good as the likely one. row, owner (BATCH*A,): the rows of those actions, and
    which of the batch has each. lost (BATCH*A,): which of the rows have another pivot than the last
    one. choice (BATCH,): the rows that contested states take, as doubles, of which processors find
    the lower without a guess. value (2*BATCH + BATCH*A + S,): of the likely actions, of the best,
    of the rows, and of one row's successors. order (S,): the states by value, falling, as they were
    when a row of all states last lost its pivot; some order on entry.
    """

    batch: Index
    choice: Floats
    row: Places
    owner: Places
    lost: Places
    value: Floats
    order: Ints


@njit(fastmath=REORDER)
def _average(p: Floats, z: Floats) -> float:
    """Return sum_j p_j z_j of a row that lists all states in order: p, z (S,)."""
    p, z = borrow((p, z))
    total = 0.0
    for j in range(p.size):
        total += p[j] * z[j]
    return total


@njit()
def _average_rows(many: np.uint64, model: Model, step: Step, row: Places, q: Floats) -> None:
    """Write the values of the rows that are due into q, for known probabilities."""
    model, step, row, q = borrow((model, step, row, q))
    indptr, indices, p, z = model.indptr, model.indices, model.lo, step.z
    offset = np.uint64(step.offset)
    for i in range(many):
        k, total = row[i], 0.0
        begin, end = indptr[offset + k], indptr[offset + k + np.uint64(1)]
        if indices.size:
            for e in range(np.uint64(begin), np.uint64(end)):
                total += p[e] * z[np.uint64(indices[e])]
        else:
            total = _average(p[begin:end], z)
        q[i] = step.r[k] + model.sign * total


@njit()
def look_up(begin: int, end: int, model: Model, step: Step, y: Floats) -> None:
    """Write sign (V[t+1] + bonus) of a row's next states into y (C,) or longer."""
    model, step, y = borrow((model, step, y))
    indices, bonus, z = model.indices, step.bonus, step.z
    # numba would ask whether a signed index counts from the end
    start = np.uint64(begin)
    for e in range(start, np.uint64(end)):
        y[e - start] = z[np.uint64(indices[e])] if indices.size else z[e - start]
        if bonus.size:
            y[e - start] += model.sign * bonus[e]


@njit()
def _weigh_rows(
    many: np.uint64,
    model: Model,
    hi: Floats,
    step: Step,
    pivot: Index,
    scratch: Scratch,
    q: Floats,
) -> None:
    """Write the values of the rows that are due into q, for the best model between bounds.

    Rows whose pivot is lost come last, all together: nobody can predict which they are.
    """
    model, hi, step = borrow((model, hi, step))
    pivot, scratch, q = borrow((pivot, scratch, q))
    indptr, indices, lo, z, row = model.indptr, model.indices, model.lo, step.z, scratch.row
    offset = np.uint64(step.offset)
    plain, listed = not step.bonus.size, indices.size > 0
    values, lost, missing = scratch.value[2 * BATCH + row.size :], scratch.lost, np.uint64(0)
    for i in range(many):
        k, y = row[i], z
        begin, end = indptr[offset + k], indptr[offset + k + np.uint64(1)]
        x, mass, reach, total = 0.0, 0.0, 0.0, 0.0
        if plain and listed:
            x = z[np.uint64(indices[np.uint64(begin + pivot[k])])]
            mass, reach, total = weigh(lo, hi, begin, end, z, indices, x)
        else:
            if not plain:
                y = values
                look_up(begin, end, model, step, y)
            x = y[np.uint64(pivot[k])]
            mass, reach, total = weigh(lo, hi, begin, end, y, None, x)
        q[i], lost[missing] = step.r[k] + model.sign * (total + x), i
        missing += np.uint64(not (mass <= 1.0) & (reach > 1.0))
    if missing and plain and not listed:
        sort_again(scratch.order, z)
    for j in range(missing):
        i, y = lost[j], z
        k = row[i]
        begin, end = indptr[offset + k], indptr[offset + k + np.uint64(1)]
        place, x = pivot[k], 0.0
        if listed or not plain:
            y = values
            look_up(begin, end, model, step, y)
            x = guess_in_short(lo, hi, begin, end, y, y[np.uint64(place)])
        else:
            place = guess_in_order(lo, hi, begin, scratch.order)
            x = z[np.uint64(place)]
        mean, pivot[k] = best_mean(lo, hi, begin, end, y, x, place)
        q[i] = step.r[k] + model.sign * mean


@njit(inline="always")
def value_rows(
    many: np.uint64,
    model: Model,
    hi: Floats | None,
    step: Step,
    pivot: Index,
    scratch: Scratch,
    q: Floats,
) -> None:
    """Write the values of the rows that are due, row[:many], into q."""
    if step.ended:
        for i in range(many):
            q[i] = step.r[scratch.row[i]]
    elif hi is None:
        _average_rows(many, model, step, scratch.row, q)
    else:
        _weigh_rows(many, model, hi, step, pivot, scratch, q)
