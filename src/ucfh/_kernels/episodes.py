"""Parts shared by the learning loops of all agents: walk an episode, and record a policy."""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.types import CountArrays, EnvironmentArrays, Record
from ucfh._kernels.walk import draw

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


@njit()
def walk_once(rng: np.random.Generator, nature: EnvironmentArrays, rows: Ints, path: Ints) -> int:
    """Walk one episode, write its entries, start first, into path (H+1,); return the last state."""
    nature, rows, path = borrow((nature, rows, path))
    s, row = 0, len(nature.indptr) - 2
    for t in range(len(rows) + 1):
        if t > 0:
            row = rows[t - 1, s]
        e = draw(rng.random(), nature.indptr[row], nature.indptr[row + 1], nature.cumulative)
        path[t] = e
        s = nature.indices[e]
    return int(s)


@njit()
def walk_and_count(
    rng: np.random.Generator, nature: EnvironmentArrays, rows: Ints, seen: CountArrays, path: Ints
) -> None:
    """Walk and count one episode of the policy that takes rows (H, S); path (H+1,) is scratch."""
    nature, rows, seen, path = borrow((nature, rows, seen, path))
    walk_once(rng, nature, rows, path)
    s = nature.indices[path[0]]
    for t in range(len(rows)):
        seen.n[rows[t, s]] += 1
        seen.c[nature.position[path[t + 1]]] += 1
        s = nature.indices[path[t + 1]]


@njit()
def take_up(nature: EnvironmentArrays, rows: Ints, followed: Ints) -> float:
    """Return the value of the policy that takes rows (H, S), and copy rows to followed (H, S)."""
    H, S = rows.shape
    v, w = np.empty(S), np.zeros(S)
    for t in range(H - 1, -1, -1):
        for s in range(S):
            row = followed[t, s] = rows[t, s]
            x = nature.r[min(t, len(nature.r) - 1), row - t * nature.stride]
            for e in range(nature.indptr[row], nature.indptr[row + 1]):
                x += nature.p[e] * w[nature.indices[e]]
            v[s] = x
        v, w = w, v
    x = 0.0
    for e in range(nature.indptr[-2], nature.indptr[-1]):
        x += nature.p[e] * w[nature.indices[e]]
    return float(x)


@njit()
def promise(start: Floats, v: Floats) -> float:
    """Return the mean of v (S,) over the known start (S,), or the largest v if start is (0,)."""
    start, v = borrow((start, v))
    x, best = 0.0, -inf
    for s in range(v.size):
        best = max(best, v[s])
        if start.size:
            x += start[s] * v[s]
    return x if start.size else best


@njit()
def same(a: Ints, b: Ints) -> bool:
    """Return whether two policies (H, S) take the same rows."""
    a, b = borrow((a, b))
    for t in range(a.shape[0]):
        for s in range(a.shape[1]):
            if a[t, s] != b[t, s]:
                return False
    return True


@njit()
def note(
    episode: int,
    recorded: int,
    nature: EnvironmentArrays,
    start: Floats,
    v: Floats,
    rows: Ints,
    followed: Ints,
    record: Record,
) -> int:
    """Record the policy that takes rows (H, S), with estimated values v (S,), if it is new.

    followed (H, S): the rows of the policy recorded last. Returns the number of recorded policies,
    or -1 if there is no room.
    """
    nature, start, v, rows, followed = borrow((nature, start, v, rows, followed))
    record = borrow(record)
    if same(rows, followed):
        return recorded
    if recorded == len(record.value):
        return -1
    record.first_episode[recorded] = episode
    record.promised[recorded] = promise(start, v)
    record.value[recorded] = take_up(nature, rows, followed)
    return recorded + 1
