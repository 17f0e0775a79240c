"""Planning over L1 balls: all q with |q - p^|_1 <= d.

The best mean moves d/2 of the mass to the best successor and takes it from the worst ones.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.compiling import njit

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]


@njit(cache=True, nogil=True)
def reach(
    begin: int,
    end: int,
    indices: Index,
    c: Ints,
    n: int,
    V: Floats,
    bonus: Floats | None,
    sign: float,
    d: float,
) -> float:
    """The best (sign = 1) or worst (sign = -1) mean of V (S,) over the ball of one row."""
    z = np.empty(end - begin)
    for e in range(begin, end):
        z[e - begin] = sign * V[indices[e]]
        if bonus is not None:
            z[e - begin] += sign * bonus[e]
    if n == 0:
        return float(sign * z.max())
    order = np.argsort(z)
    best = order[-1]
    p = c[begin:end] / n
    free = min(0.5 * d, 1.0 - p[best])
    total = (p[best] + free) * z[best]
    for j in order[:-1]:
        less = min(free, p[j])
        free -= less
        total += (p[j] - less) * z[j]
    return float(sign * total)


@njit(cache=True, nogil=True)
def plan(
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index,
    stride: int,
    c: Ints,
    n: Ints,
    d: Floats,
    r: Floats,
    bonus: Floats | None,
    sign: float,
    tie: float,
    V: Floats,
    policy: Ints,
) -> None:
    """Optimistic (sign = 1) or robust planning over balls: V (H+1, S), V[H] = 0, policy (H, S).

    Among actions that differ by no more than ``tie`` the first is taken. An optimistic V is that of
    the best action, a robust one that of the action taken: each a bound in its direction.
    """
    H, S = policy.shape
    for t in range(H - 1, -1, -1):
        r_t, bonus_t = r[min(t, len(r) - 1)], None
        if bonus is not None:
            bonus_t = bonus[min(t, len(bonus) - 1)]
        for s in range(S):
            best, chosen = -inf, -inf
            for k in range(first[s], first[s + 1]):
                row = t * stride + k
                begin, end = indptr[row], indptr[row + 1]
                q = r_t[k] + reach(begin, end, indices, c, n[row], V[t + 1], bonus_t, sign, d[row])
                best = max(best, q)
                if q > chosen + tie:
                    chosen = q
                    policy[t, s] = action[k]
            V[t, s] = best if sign > 0.0 else chosen
