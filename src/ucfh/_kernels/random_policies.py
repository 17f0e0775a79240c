"""Epsilon-greedy policies: planning, evaluation, and learning.

In every step such a policy takes, with probability ``share``, a uniformly random action of the
state, and else the row that it prefers. Its value is exact: a mean over both.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.episodes import promise, same
from ucfh._kernels.types import CountArrays, EnvironmentArrays, Progress, Record, RowPolicy
from ucfh._kernels.walk import draw

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

TIE = 1e-12  # times H: actions this close are equal, and the first is taken


class Model(NamedTuple):
    """Rows, transition probabilities p (entries,), rewards, and the start.

    first (S+1,): the first row of each state. r (1 or H, R) of pairs; extra (1 or H, entries) on
    the next state, (1, 0) if there are none. start (S,), or (0,) if it is unknown.
    """

    first: Ints
    indptr: Ints
    indices: Index
    stride: int
    p: Floats
    r: Floats
    extra: Floats
    start: Floats


@njit()
def sweep(model: Model, share: float, choose: bool, rows: Ints, V: Floats) -> float:
    """Evaluate the policy that prefers rows (H, S); if ``choose``, write the best rows there.

    Fills V (H+1, S), 0 at H, and returns its mean over the start, or its maximum if the start is
    unknown.
    """
    first, indptr, indices, stride, p, r, extra, start = model
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        r_t, extra_t = r[min(t, len(r) - 1)], extra[min(t, len(extra) - 1)]
        for s in range(S):
            best, preferred, total = -inf, 0.0, 0.0
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                q = r_t[k]
                for e in range(indptr[row], indptr[row + 1]):
                    q += p[e] * (V[t + 1, indices[e]] + (extra_t[e] if extra_t.size else 0.0))
                total += q
                if choose and q > best + TIE * H:
                    best, rows[t, s] = q, row
                if row == rows[t, s]:
                    preferred = q
            V[t, s] = (1.0 - share) * preferred + share * total / (first[s + 1] - first[s])
    return promise(start, V[0])


@njit()
def _estimate(row: int, indptr: Ints, c: Ints, n: Ints, p: Floats) -> None:
    """Write p^ of a row into p (entries,): c/n, and uniform before the first visit."""
    begin, end = indptr[row], indptr[row + 1]
    for e in range(begin, end):
        p[e] = c[e] / n[row] if n[row] > 0 else 1.0 / (end - begin)


@njit()
def estimate(indptr: Ints, c: Ints, n: Ints, p: Floats) -> None:
    """Write p^ of all rows into p (entries,)."""
    for row in range(len(indptr) - 1):
        _estimate(row, indptr, c, n, p)


@njit()
def learn(
    rng: np.random.Generator,
    own: np.random.Generator,
    episodes: int,
    share: float,
    nature: EnvironmentArrays,
    world: Model,
    learner: Model,
    seen: CountArrays,
    out: RowPolicy,
    followed: Ints,
    record: Record,
) -> Progress:
    """Plan for p^, walk an episode, count, again and again.

    Stops early if there is no room for another record. The estimated return of a policy is its
    return without random actions in the model p^. rng draws successors, own the actions. ``world``
    is the environment, as `sweep` takes it. learner.p is p^ of the counts. followed (H, S): the
    rows of the policy recorded last.
    """
    V, rows, first, c, n, recorded = out.V, out.rows, learner.first, seen.c, seen.n, 0
    indptr, indices, cumulative = nature.indptr, nature.indices, nature.cumulative
    position = nature.position
    H, S = rows.shape
    W = np.zeros((H + 1, S))
    for episode in range(episodes):
        promises = sweep(learner, 0.0, True, rows, V)
        if not same(rows, followed):
            if recorded == len(record.value):
                return Progress(episode, recorded)
            for t in range(H):
                for s in range(S):
                    followed[t, s] = rows[t, s]
            record.first_episode[recorded] = episode
            record.value[recorded] = sweep(world, share, False, rows, W)
            record.promised[recorded] = promises
            recorded += 1
        s, row = 0, len(indptr) - 2
        for t in range(-1, H):
            if t >= 0:
                row = rows[t, s]
                if own.random() < share:
                    some = int(own.random() * (first[s + 1] - first[s]))
                    row = t * learner.stride + first[s] + some
            e = draw(rng.random(), indptr[row], indptr[row + 1], cumulative)
            s = indices[e]
            if t >= 0:
                n[row] += 1
                c[position[e]] += 1
                _estimate(row, learner.indptr, c, n, learner.p)
    return Progress(episodes, recorded)
