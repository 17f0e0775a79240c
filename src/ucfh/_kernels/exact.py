"""Values of a policy with known transition probabilities over the rows of a successor table.

indptr (rows+1,), indices (entries,)    the table (`ucfh.transitions`)
stride           the row of (t, s, i) is t*stride + first[s] + i
p (entries,)     transition probabilities; the last row is the start
r (1 or H, R)    mean rewards of pairs; the last line serves on
V (H+1, S)       values, V[H] = 0 on entry
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.types import Layout

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]


@njit()
def evaluate(
    indptr: Ints, indices: Index, stride: int, p: Floats, r: Floats, rows: Ints, V: Floats
) -> None:
    """Write V^pi into V (H+1, S), for the policy that takes rows (H, S)."""
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        r_t = r[min(t, len(r) - 1)]
        for s in range(S):
            row = rows[t, s]
            q = r_t[row - t * stride]
            for e in range(indptr[row], indptr[row + 1]):
                q += p[e] * V[t + 1, indices[e]]
            V[t, s] = q


@njit()
def occupancy(indptr: Ints, indices: Index, p: Floats, rows: Ints, d: Floats) -> None:
    """Write P(s_t = s) into d (H, S): d_1 = p0, the last row; d_{t+1} = d_t P^pi."""
    H, S = rows.shape
    d[:] = 0.0
    for e in range(indptr[-2], indptr[-1]):
        d[0, indices[e]] = p[e]
    for t in range(H - 1):
        for s in range(S):
            if d[t, s] > 0.0:
                row = rows[t, s]
                for e in range(indptr[row], indptr[row + 1]):
                    d[t + 1, indices[e]] += d[t, s] * p[e]


@njit()
def variance(
    layout: Layout,
    p: Floats,
    r: Floats,
    bonus: Floats | None,
    noisy: bool,
    rows: Ints,
    V: Floats,
    W: Floats,
) -> None:
    """Write Var_t = P_t Var_{t+1} + sigma^2_t into W (H+1, S), given V^pi (H+1, S).

    sigma^2_t is the variance of the reward plus V_{t+1}(s_{t+1}); noisy adds each reward's own
    variance x (1 - x). Centered on V_t, so that no large numbers cancel.
    """
    indptr, indices, stride = layout.indptr, layout.indices, layout.stride
    H, S = rows.shape
    for t in range(H - 1, -1, -1):
        r_t = r[min(t, len(r) - 1)]
        for s in range(S):
            row = rows[t, s]
            total = 0.0
            for e in range(indptr[row], indptr[row + 1]):
                x = r_t[row - t * stride]
                if bonus is not None:
                    x += bonus[min(t, len(bonus) - 1), e]
                off = x + V[t + 1, indices[e]] - V[t, s]
                own = x * (1.0 - x) if noisy else 0.0
                total += p[e] * (off * off + own + W[t + 1, indices[e]])
            W[t, s] = total
