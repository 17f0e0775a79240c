"""A mean with Dirichlet weights: how likely it is to be high, by integration, and its quantiles.

w v >= u where X = sum_j g_j (v_j - u) >= 0 for gamma variables g_j of shapes a_j. With the function
K(s) = -sum_j a_j ln(1 - s (v_j - u)), and any s0 > 0 below its poles,

    P(X >= 0) = (1/pi) int_0^oo Re( e^{K(s0 + iy)} / (s0 + iy) ) dy.
"""

from __future__ import annotations

from math import exp, log, pi, sqrt

import numpy as np

from ucfh._utils.arrays import Floats


def mean_of(a: Floats, v: Floats) -> float:
    return float(a @ v / a.sum())


def log_tail(a: Floats, v: Floats, u: float) -> float:
    """ln P(w v >= u), for u between the mean and the highest value."""
    d = v - u
    low, high = 0.0, 1 / float(d.max())
    for _ in range(200):  # where K is smallest, and the integrand varies least
        s0 = (low + high) / 2
        if float((a * d / (1 - s0 * d)).sum()) < 0:
            low = s0
        else:
            high = s0
    at = -float((a * np.log(1 - s0 * d)).sum())
    width = 1 / sqrt(float((a * (d / (1 - s0 * d)) ** 2).sum()))
    # y = width sinh(x): as a normal density first, then as a power of -a.sum()
    x, step = np.linspace(0, 4 + 80 / a.sum(), 401, retstep=True)
    s = s0 + 1j * width * np.sinh(x)
    K = -(a[:, None] * np.log(1 - s * d[:, None])).sum(0)
    f = (np.exp(K - at) / s).real * width * np.cosh(x)
    return at + log(float(f.sum() - f[0] / 2) * float(step) / pi)


def exact_quantile(a: Floats, v: Floats, tail: float) -> float:
    """The u for which P(w v >= u) is tail, by bisection."""
    a, v = a[a > 0], v[a > 0]
    low, high = mean_of(a, v), float(v.max())
    while high - low > 1e-11 * (abs(low) + abs(high)):
        u = (low + high) / 2
        if log_tail(a, v, u) > log(tail):
            low = u
        else:
            high = u
    return (low + high) / 2


def saddle_quantile(a: Floats, v: Floats, z: float) -> float:
    """What `ucfh._kernels.dirichlet` promises: its formulas, by bisection."""
    a, v = a[a > 0], v[a > 0]
    best, spread = float(v.max()), float(v.max() - v.min())
    low, high = -100.0, log(1e6)
    while spread > 0 and high - low > 1e-13 * abs(low):
        y = (low + high) / 2
        gaps = spread * exp(y) + (best - v)
        T = float((a / gaps).sum())
        x = a.sum() / (gaps * T)
        d = sqrt(-2 * float((a * np.log(x)).sum()))
        if d + log(sqrt(float((a * (x - 1) ** 2).sum())) / d) / d > z:
            low = y
        else:
            high = y
    return best if spread == 0 else float(best + spread * exp(y) - a.sum() / T)
