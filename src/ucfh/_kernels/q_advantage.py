"""Q-learning with reference-advantage decomposition, step by step, over rows (t, s, a)."""

from __future__ import annotations

from math import sqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.episodes import note, walk_once
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.q_learning import greedy
from ucfh._kernels.types import (
    CountArrays,
    EnvironmentArrays,
    ProblemArrays,
    Progress,
    Record,
    RowPolicy,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

UCB, LCB, REF, USED = range(4)  # the lines of Q
REF_MEAN, REF_SQUARE, ADV_MEAN, ADV_SQUARE = range(4)  # the lines of moments


class Estimates(NamedTuple):
    """Estimates of the agent.

    Q (4, rows): the upper and the lower estimate, the one by reference, and the one in use.
    moments (4, rows): means of V^R(s') and its square, weighted means of (V - V^R)(s') and its
    square. B (rows,): their bonus. lower, reference (H+1, S): V^LCB and V^R.
    open (H, S): whether V^R may still change.
    """

    Q: Floats
    moments: Floats
    B: Floats
    lower: Floats
    reference: Floats
    open: Bools


@njit(forceinline=True)
def update_all(
    t: int,
    s: int,
    row: int,
    e: int,
    sheet: ProblemArrays,
    tables: Floats,
    n: Ints,
    learned: Estimates,
    out: RowPolicy,
) -> None:
    """Learn from one step: of the row (t, s, a), by its entry e.

    tables (4, most + 1) by n (rows,): eta, the bonus of the bounds, and of the reference: the
    factor of deviations and the rest.
    """
    sheet, tables, n, learned, out = borrow((sheet, tables, n, learned, out))
    Q, moments, B, V = learned.Q, learned.moments, learned.B, out.V
    lower, reference = learned.lower, learned.reference
    H, following, at = len(out.rows), sheet.indices[e], n[row]
    paid = sheet.r[min(t, len(sheet.r) - 1), row - t * sheet.stride]
    extra = sheet.extra[0, e] if sheet.extra.shape[1] else 0.0
    eta, bonus = tables[0, at], tables[1, at]
    ahead, behind = V[t + 1, following] + extra, lower[t + 1, following] + extra
    settled = reference[t + 1, following] + extra
    Q[UCB, row] += eta * (paid + ahead + bonus - Q[UCB, row])
    Q[LCB, row] += eta * (paid + behind - bonus - Q[LCB, row])

    moments[REF_MEAN, row] += (settled - moments[REF_MEAN, row]) / at
    moments[REF_SQUARE, row] += (settled * settled - moments[REF_SQUARE, row]) / at
    gain = ahead - settled
    moments[ADV_MEAN, row] += eta * (gain - moments[ADV_MEAN, row])
    moments[ADV_SQUARE, row] += eta * (gain * gain - moments[ADV_SQUARE, row])
    of_reference = moments[REF_SQUARE, row] - moments[REF_MEAN, row] * moments[REF_MEAN, row]
    of_gain = moments[ADV_SQUARE, row] - moments[ADV_MEAN, row] * moments[ADV_MEAN, row]
    now = tables[2, at] * (sqrt(max(0.0, of_reference)) + sqrt(H * max(0.0, of_gain)))
    bonus = now + (1.0 - eta) / eta * (now - B[row]) + tables[3, at]
    B[row] = now
    Q[REF, row] += eta * (paid + gain + moments[REF_MEAN, row] + bonus - Q[REF, row])

    Q[USED, row] = min(Q[USED, row], Q[UCB, row], Q[REF, row])
    best = greedy(t, s, sheet.first, sheet.stride, Q[USED])
    out.rows[t, s], V[t, s] = best, Q[USED, best]
    best = greedy(t, s, sheet.first, sheet.stride, Q[LCB])
    lower[t, s] = max(lower[t, s], Q[LCB, best])
    if learned.open[t, s]:
        reference[t, s] = V[t, s]
        learned.open[t, s] = V[t, s] - lower[t, s] > 1.0


@njit()
def learn_by_advantage(
    rng: np.random.Generator,
    episodes: int,
    nature: EnvironmentArrays,
    sheet: ProblemArrays,
    tables: Floats,
    seen: CountArrays,
    learned: Estimates,
    out: RowPolicy,
    followed: Ints,
    record: Record,
) -> Progress:
    """Walk an episode, count, and `update_all` by each of its steps, again and again.

    Stops early if there is no room for another record, or in the tables. followed (H, S): the rows
    of the policy recorded last.
    """
    nature, sheet, tables, seen, learned = borrow((nature, sheet, tables, seen, learned))
    out, followed, record = borrow((out, followed, record))
    rows, c, n = out.rows, seen.c, seen.n
    H = len(rows)
    path, recorded = np.empty(H + 1, np.int64), 0
    for episode in range(episodes):
        now = note(episode, recorded, nature, sheet.start, out.V[0], rows, followed, record)
        if now < 0:
            return Progress(episode, recorded)
        recorded = now
        walk_once(rng, nature, rows, path)
        s, full = nature.indices[path[0]], False
        for t in range(H):
            row, e = rows[t, s], nature.position[path[t + 1]]
            n[row] += 1
            c[e] += 1
            update_all(t, s, row, e, sheet, tables, n, learned, out)
            full |= n[row] + 1 >= tables.shape[1]
            s = nature.indices[path[t + 1]]
        if full:
            return Progress(episode + 1, recorded)
    return Progress(episodes, recorded)
