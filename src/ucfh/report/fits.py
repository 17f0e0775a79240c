"""Exponents of growth: y ~ x^b fitted to a few points, with runs at each."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ucfh.comparison.statistics import LEVEL
from ucfh.table import Floats

RESAMPLES = 2000
SEED = 0


class Fit(NamedTuple):
    """An exponent with its interval; NaN where there is none."""

    exponent: float
    low: float
    high: float


def exponent(x: Sequence[float] | Floats, y: Sequence[float] | Floats) -> float:
    """The slope of log y (n,) on log x (n,) by least squares; NaN without two different x.

    >>> round(exponent([1, 2, 4], [3, 12, 48]), 6)
    2.0

    """
    return float(_slopes(np.log(np.asarray(x, float)), np.log(np.asarray(y, float)))[0])


def fit(x: Sequence[float], runs: Sequence[Sequence[float]]) -> Fit:
    """The exponent of the mean over the runs at each x (n,), not all of which are 0.

    The interval is that of a bootstrap: runs are drawn anew at each x, with return, and the middle
    95 % of the exponents are kept. A point without two runs tells nothing of its noise: then there
    is no interval. Where only runs that are 0 are drawn at a point, it is left out that time. Runs
    at different x are taken as independent; if they share their problems, it is too wide.
    """
    at = np.log(np.asarray(x, float))
    samples = [np.asarray(values, float) for values in runs]  # counts can be beyond 64 bits
    means = np.array([values.mean() for values in samples])
    found = float(_slopes(at, np.log(means))[0])
    if not runs or min(map(len, runs)) < 2:
        return Fit(found, np.nan, np.nan)
    rng = np.random.default_rng(SEED)
    drawn = np.stack(
        [rng.choice(values, (RESAMPLES, len(values))).mean(1) for values in samples], 1
    )
    slopes = _slopes(at, np.log(drawn, where=drawn > 0, out=np.full_like(drawn, np.nan)))
    slopes = slopes[~np.isnan(slopes)]
    if not slopes.size:
        return Fit(found, np.nan, np.nan)
    low, high = np.quantile(slopes, [(1 - LEVEL) / 2, (1 + LEVEL) / 2])
    return Fit(found, float(low), float(high))


def _slopes(x: Floats, y: Floats) -> Floats:
    """Least-squares slopes of each row of y (m, n), or of y (n,), on x (n,); NaN is no point."""
    rows = np.atleast_2d(y)
    there = ~np.isnan(rows)
    count = np.maximum(there.sum(1, keepdims=True), 1)
    off_x = np.where(there, x - (there * x).sum(1, keepdims=True) / count, 0.0)
    spread = (off_x**2).sum(1)
    # equal x differ by rounding of their mean at most
    flat = spread <= 1e-18 * np.maximum(1.0, np.square(x).sum())
    rise = (off_x * np.where(there, rows, 0.0)).sum(1)
    slopes: Floats = np.divide(rise, spread, where=~flat, out=np.full(len(rows), np.nan))
    return slopes
