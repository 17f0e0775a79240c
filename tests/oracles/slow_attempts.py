"""Delayed Q-learning and MoRMax, step by step from their pseudo-code: slow, obvious oracles.

Dense arrays: p is (S,A,S), r is (S,A), start is (S,); values of pairs are (H,S,A), t from 0. Random
numbers are taken as the package's walk takes them: one for the start and one for each transition,
turned into a state by inversion. Both return their history: the number of the episode, from 1, in
which something was learned, and all values of pairs after it.
"""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
History = list[tuple[int, Floats]]


def draw(rng: np.random.Generator, p: Floats) -> int:
    """A state from its distribution (S,), by inversion."""
    last = int(np.flatnonzero(p)[-1])
    return min(int(np.searchsorted(np.cumsum(p), rng.random(), side="right")), last)


def steps(
    p: Floats, start: Floats, q: Floats, episodes: int, rng: np.random.Generator
) -> Iterator[tuple[int, int, int, int, int]]:
    """(episode, t, s, a, s') of an agent that is greedy in q, which may change between steps."""
    H = len(q)
    for episode in range(1, episodes + 1):
        s = draw(rng, start)
        for t in range(H):
            best = q[t, s].max()
            a = next(a for a in range(q.shape[2]) if q[t, s, a] > best - 1e-12 * H)
            following = draw(rng, p[s, a])
            yield episode, t, s, a, following
            s = following


def first_values(p: Floats, H: int) -> Floats:
    """(H,S,A) what is left."""
    return np.broadcast_to(np.arange(H, 0, -1.0)[:, None, None], (H, *p.shape[:2])).copy()


def delayed_q(
    p: Floats,
    r: Floats,
    start: Floats,
    H: int,
    m: int,
    eps_1: float,
    episodes: int,
    rng: np.random.Generator,
    by_step: bool = False,
) -> History:
    """Delayed Q-learning; time is counted in steps, as printed, or in episodes.

    In episodes, a success is known, t* = now, when the episode is over.
    """
    q = first_values(p, H)
    shape = q.shape
    total, count, began = np.zeros(shape), np.zeros(shape, int), np.zeros(shape, int)
    learn, success, latest = np.ones(shape, bool), 0, 0
    history: History = []
    for episode, t, s, a, following in steps(p, start, q, episodes, rng):
        at = t, s, a
        now = episode * H + t if by_step else episode
        if by_step or t == 0:
            success = latest
        if began[at] <= success:
            learn[at] = True
        if not learn[at]:
            continue
        if count[at] == 0:
            began[at] = now
        count[at] += 1
        total[at] += r[s, a] + (q[t + 1, following].max() if t + 1 < H else 0.0)
        if count[at] < m:
            continue
        if q[at] - total[at] / m >= 2 * eps_1:
            q[at] = total[at] / m + eps_1
            latest = now
            history.append((episode, q.copy()))
        elif began[at] > success:
            learn[at] = False
        total[at], count[at] = 0, 0
    return history


def solve(model: dict[tuple[int, int, int], Floats], r: Floats, shape: tuple[int, ...]) -> Floats:
    """(H,S,A) values of pairs, of a model of some rows (S,); the others are worth what is left."""
    H, S, A = shape
    q = np.zeros((H, S, A))
    for t in reversed(range(H)):
        v = q[t + 1].max(1) if t + 1 < H else np.zeros(S)
        for s in range(S):
            for a in range(A):
                row = model.get((t, s, a))
                q[t, s, a] = H - t if row is None else min(H - t, r[s, a] + row @ v)
    return q


def mormax(
    p: Floats,
    r: Floats,
    start: Floats,
    H: int,
    m: int,
    slack: float,
    episodes: int,
    rng: np.random.Generator,
    always: bool = False,
) -> History:
    """MoRMax; samples are collected while they may be used or, as printed, always."""
    q = first_values(p, H)
    shape = q.shape
    model: dict[tuple[int, int, int], Floats] = {}
    seen: dict[tuple[int, int, int], list[int]] = {}
    tau, last, before = np.zeros(shape, int), 1, np.zeros(shape)
    history: History = []
    for episode, t, s, a, following in steps(p, start, q, episodes, rng):
        at = t, s, a
        usable = tau[at] == 0 or (last > tau[at] and before[at] > q[at] + slack)
        if not (usable or always):
            continue
        samples = seen.setdefault(at, [])
        samples.append(following)
        if len(samples) < m:
            continue
        if usable:
            row = np.bincount(samples, minlength=shape[1]) / m
            tried = solve({**model, at: row}, r, shape)
            if tried[at] <= q[at] + 1e-12 * H:
                model[at] = row
                q[:] = tried
                history.append((episode, q.copy()))
            last += 1
            tau[at] = last
            before[at] = q[at]
        seen[at] = []
    return history
