"""Episodes, one step after another.

Every episode uses one uniform number for the start and one for each of its H transitions, turned
into a state by inversion (plus one for each reward where those are noisy and watched).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.types import CountArrays, EnvironmentArrays

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]


class Watched(NamedTuple):
    """Scores of episodes: their reward while they take rows (H, S).

    Where an episode takes another row, leaving (H+1, S) counts for the rest. scores (episodes,) is
    filled.
    """

    rows: Ints
    leaving: Floats
    scores: Floats


class Paid(NamedTuple):
    """Observed rewards over the agent's table: sums, minima and maxima (entries,)."""

    sums: Floats
    least: Floats
    most: Floats


@njit()
def cumulate(indptr: Ints, p: Floats, out: Floats) -> None:
    """Write running sums of rows into out (entries,), infinite from the last possible entry on."""
    for row in range(len(indptr) - 1):
        total, last = 0.0, indptr[row]
        for e in range(indptr[row], indptr[row + 1]):
            total += p[e]
            out[e] = total
            if p[e] > 0.0:
                last = e
        out[last : indptr[row + 1]] = np.inf


@njit(forceinline=True)
def draw(u: float, begin: int, end: int, cumulative: Floats) -> int:
    """Return the first entry whose cumulative probability exceeds u."""
    cumulative = borrow(cumulative)
    while end - begin > 8:
        middle = (begin + end) >> 1
        if cumulative[middle - 1] > u:
            end = middle
        else:
            begin = middle
    while cumulative[begin] <= u:
        begin += 1
    return begin


@njit()
def walk(
    rng: np.random.Generator,
    episodes: int,
    rows: Ints,
    nature: EnvironmentArrays,
    r: Floats,
    bonus: Floats | None,
    noisy: bool,
    limit: Ints,
    drop_surplus: bool,
    out: CountArrays,
    paid: Paid | None,
    watched: Watched | None,
    steps: Ints | None,
) -> tuple[int, bool]:
    """Walk up to ``episodes`` episodes; stop after one in which a row reaches its limit (rows,).

    rows (H, S): the policy. Rewards have means r (1 or H, R) and bonus (1 or H, entries). Counts in
    out, over the agent's table, and in ``paid``, if given, the rewards; with ``paid``, watched
    rewards are as drawn, else their means. steps (episodes, H), if given, gets the agent's entry of
    each step. Returns the number of episodes, and whether a limit was reached.
    """
    indptr, indices, position = nature.indptr, nature.indices, nature.position
    cumulative, stride, visits, successors = nature.cumulative, nature.stride, out.n, out.c
    if watched is not None:
        kept, leaving, scores = watched.rows, watched.leaving, watched.scores
    H, start = len(rows), len(indptr) - 2
    for episode in range(episodes):
        reached = False
        s = 0
        score, follows = 0.0, True
        for t in range(-1, H):
            row = start if t < 0 else rows[t, s]
            if watched is not None and t >= 0 and follows and row != kept[t, s]:
                follows = False
                score += leaving[t, s]
            e = draw(rng.random(), indptr[row], indptr[row + 1], cumulative)
            s = indices[e]
            if steps is not None and t >= 0:
                steps[episode, t] = position[e]
            x = 0.0
            if (paid is not None or watched is not None) and t >= 0:
                x = r[min(t, len(r) - 1), row - t * stride]
                if bonus is not None:
                    x += bonus[min(t, len(bonus) - 1), e]
                if noisy and paid is not None:
                    x = 1.0 if rng.random() < x else 0.0
            if follows:
                score += x
            if not (drop_surplus and visits[row] >= limit[row]):
                visits[row] += 1
                successors[position[e]] += 1
                if paid is not None:
                    at = position[e]
                    paid.sums[at] += x
                    paid.least[at] = min(paid.least[at], x)
                    paid.most[at] = max(paid.most[at], x)
            if visits[row] >= limit[row]:
                reached = True
        if watched is not None:
            scores[episode] = score
        if reached:
            return episode + 1, True
    return episodes, False


@njit()
def reachable(indptr: Ints, indices: Index, p: Floats, rows: Ints, out: NDArray[np.bool_]) -> None:
    """Write whether a policy with rows (H, S) can visit each row into out (rows,)."""
    H, S = rows.shape
    here = np.zeros(S, np.bool_)
    out[:] = False
    out[-1] = True
    for e in range(indptr[-2], indptr[-1]):
        here[indices[e]] |= p[e] > 0.0
    for t in range(H):
        there = np.zeros(S, np.bool_)
        for s in range(S):
            if here[s]:
                row = rows[t, s]
                out[row] = True
                for e in range(indptr[row], indptr[row + 1]):
                    there[indices[e]] |= p[e] > 0.0
        here = there
