"""Random interval MDPs of any size, and FixedHorizonEVI with NumPy alone."""

import numpy as np
from numpy.typing import NDArray

from ucfh.confidence.intervals import confidence_set

Floats = NDArray[np.float64]


def instance(
    S: int, A: int, C: int, seed: int = 0
) -> tuple[Floats, Floats, NDArray[np.int32], Floats]:
    """lo, hi, indices (S, A, C) and r (S, A); C successors spread over the states."""
    rng = np.random.default_rng(seed)
    indices = np.sort(rng.integers(0, S // C, (S, A, C)) + np.arange(C) * (S // C), -1)
    p = rng.dirichlet(np.ones(C), (S, A))
    width = 0.1 * rng.random((S, A, C))
    lo, hi = np.maximum(0, p - width), np.minimum(1, p + width)
    return lo, hi, indices.astype(np.int32), rng.random((S, A))


def learned_instance(
    S: int, A: int, C: int, seed: int = 0
) -> tuple[Floats, Floats, NDArray[np.int32], Floats]:
    """lo, hi, indices (S, A, C) and r (S, A), as UCFH has them while it learns.

    Of each pair 1 to 1e6 visits were counted, of all orders of magnitude alike; the bounds are the
    printed set's. Rewards are the same for all actions.
    """
    rng = np.random.default_rng(seed)
    indices = rng.integers(0, S // C, (S, A, C)) + np.arange(C) * (S // C)
    p = rng.dirichlet(np.ones(C), (S, A))
    n = np.floor(10 ** rng.uniform(0, 6, (S, A))).astype(np.int64)
    lo, hi = confidence_set(rng.multinomial(n, p) / n[..., None], n[..., None], 1e-6)
    return lo, hi, indices.astype(np.int32), np.repeat(rng.random((S, 1)), A, 1)


def sorted_fill(
    lo: Floats, hi: Floats, indices: NDArray[np.integer], r: Floats, horizon: int, sign: float = 1.0
) -> tuple[NDArray[np.int64], Floats]:
    """Policy (H, S) and values (H+1, S): every row sorted by value and filled up, best first.

    lo, hi, indices (S, A, C): bounds and successors; r (S, A). sign: 1 optimistic, -1 robust.
    """
    S = len(r)
    V, policy = np.zeros((horizon + 1, S)), np.zeros((horizon, S), np.int64)
    room, rest = hi - lo, 1 - lo.sum(-1, keepdims=True)
    for t in reversed(range(horizon)):
        z = sign * V[t + 1][indices]
        order = np.argsort(-z, axis=-1)
        sorted_room = np.take_along_axis(room, order, -1)
        before = np.cumsum(sorted_room, -1) - sorted_room
        more = np.clip(rest - before, 0, sorted_room)
        best = (lo * z).sum(-1) + (more * np.take_along_axis(z, order, -1)).sum(-1)
        q = r + sign * best
        policy[t], V[t] = q.argmax(1), q.max(1)
    return policy, V
