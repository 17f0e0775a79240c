"""The ends of a Bernoulli relative-entropy interval.

    kl(p, q) = p ln(p/q) + (1-p) ln((1-p)/(1-q))

With d = q - p and g(x) = x - ln(1+x) >= 0 this is p g(d/p) + (1-p) g(-d/(1-p)): two terms of one
sign, so nothing cancels however close q is to p. g itself is summed as a series where x is small.

kl is convex in d, so Newton's method started beyond the root comes back to it without crossing:
every iterate, and so the result, lies outside of the exact interval up to rounding.
"""

from __future__ import annotations

from math import expm1, inf, log1p, sqrt

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ucfh._kernels._jit import njit

Floats = NDArray[np.float64]

TINY = 1e-290  # below it, d/p overflows; p = 0 has the same reach up to rounding


@njit()
def _g(x: float) -> float:
    """Return x - ln(1 + x), accurate for x near 0; infinite at x = -1."""
    if x <= -1.0:
        return inf
    if abs(x) > 0.1:
        return x - log1p(x)
    # ln(1+x) = 2 atanh(y) with y = x/(2+x), and x = 2y + xy
    y = x / (2.0 + x)
    total, power = 0.0, y * y * y
    for k in range(3, 25, 2):
        total += power / k
        power *= y * y
    return x * y - 2.0 * total


@njit()
def _kl(p: float, q: float, d: float) -> float:
    """Return kl(p, p + d), where q = 1 - p."""
    return p * _g(d / p) + q * _g(-d / q)


@njit()
def _reach(p: float, q: float, c: float) -> float:
    """Return `kl_reach` of three numbers."""
    if c <= 0.0:
        return 0.0
    if q < TINY:
        return q
    if p < TINY:
        return -expm1(-c)
    # kl is the integral of (x-p)/(x(1-x)), so kl >= d^2/(2 max x(1-x)): the root is not beyond
    if p >= 0.5:
        d = min(q, sqrt(2.0 * p * q * c))
    else:
        d = min(q, sqrt(0.5 * c), c + sqrt(c * c + 2.0 * p * c))
    low = 0.0
    while True:
        f = _kl(p, q, d) - c
        if f < inf:
            nearer = d - f * (p + d) * (q - d) / d
            if not nearer < d:
                return d
            d = nearer
        else:  # at d = q, where there is no slope
            middle = 0.5 * (low + d)
            if not low < middle < d:
                return d
            if _kl(p, q, middle) <= c:
                low = middle
            else:
                d = middle


@njit()
def _reach_each(p: Floats, q: Floats, c: Floats, out: Floats) -> None:
    for i in range(p.size):
        out[i] = _reach(p[i], q[i], c[i])


def kl_reach(p: ArrayLike, q: ArrayLike, c: ArrayLike) -> Floats:
    """Return the largest d <= q with kl(p, p + d) <= c, where q = 1 - p.

    Swap p and q for the lower end. Elementwise, for arrays of any shapes that broadcast. (A
    compiled ufunc would take a fifth of a second to load.)
    """
    given = np.broadcast_arrays(*(np.asarray(x, np.float64) for x in (p, q, c)))
    out = np.empty(given[0].shape)
    _reach_each(given[0].ravel(), given[1].ravel(), given[2].ravel(), out.reshape(-1))
    return out
