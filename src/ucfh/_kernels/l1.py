"""Planning over L1 balls: all q with |q - p^|_1 <= d.

The best mean moves d/2 of the mass to the best successor and takes it from the worst ones.
"""

from __future__ import annotations

from math import inf

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.types import CountArrays, Layout, PlanArrays

Floats = NDArray[np.float64]


@njit()
def reach(
    row: int,
    layout: Layout,
    seen: CountArrays,
    d: Floats,
    V: Floats,
    bonus: Floats,
    sign: float,
) -> float:
    """Return the best (sign = 1) or worst (-1) mean of V (S,) over the ball of one row; d (rows,).

    bonus (entries,) are rewards on the next state, or (0,).
    """
    begin, end, indices = layout.indptr[row], layout.indptr[row + 1], layout.indices
    c, n = seen.c, seen.n[row]
    z = np.empty(end - begin)
    for e in range(begin, end):
        z[e - begin] = sign * V[indices[e]]
        if bonus.size > 0:
            z[e - begin] += sign * bonus[e]
    if n == 0:
        return float(sign * z.max())
    order = np.argsort(z)
    best = order[-1]
    p = c[begin:end] / n
    free = min(0.5 * d[row], 1.0 - p[best])
    total = (p[best] + free) * z[best]
    for j in order[:-1]:
        less = min(free, p[j])
        free -= less
        total += (p[j] - less) * z[j]
    return float(sign * total)


@njit()
def plan(
    layout: Layout,
    seen: CountArrays,
    d: Floats,
    r: Floats,
    bonus: Floats,
    sign: float,
    tie: float,
    out: PlanArrays,
) -> None:
    """Plan optimistically (sign = 1) or robustly (-1) over balls; d (rows,), r (1 or H, R).

    bonus (1 or H, entries): rewards on the next state; (1, 0) if there are none. Among actions that
    differ by no more than ``tie`` the first is taken. An optimistic V is the value of the best
    action, a robust V the value of the action taken: each is a bound in its direction.
    """
    first, action, V, policy = layout.first, layout.action, out.V, out.policy
    H, S = policy.shape
    for t in range(H - 1, -1, -1):
        r_t, bonus_t = r[min(t, len(r) - 1)], bonus[min(t, len(bonus) - 1)]
        for s in range(S):
            best, chosen = -inf, -inf
            for k in range(first[s], first[s + 1]):
                row = t * layout.stride + k
                q = r_t[k] + reach(row, layout, seen, d, V[t + 1], bonus_t, sign)
                best = max(best, q)
                if q > chosen + tie:
                    chosen = q
                    policy[t, s] = action[k]
            V[t, s] = best if sign > 0.0 else chosen
