"""Intervals and fits, by SciPy."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

LEVEL = 0.95
RESAMPLES = 2000


class Estimate(NamedTuple):
    """A value and the ends of its interval; NaN where there is no interval."""

    value: float
    low: float = nan
    high: float = nan


def median(values: Sequence[float]) -> Estimate:
    """Return the median with its exact 95% interval; the range if there are too few values."""
    found: Any = stats.quantile_test(values, p=0.5).confidence_interval(LEVEL)
    ends = found.low, found.high
    low, high = (min(values), max(values)) if np.isnan(ends).any() else ends
    return Estimate(float(np.median(values)), float(low), float(high))


def exponent(x: Sequence[float], runs: Sequence[Sequence[float]]) -> Estimate:
    """Fit the slope of the log of mean runs on log x, with a bootstrap interval.

    Args:
        x: (n,) at least two different values.
        runs: n samples, not all 0; they are drawn again for the interval, which needs two each.

    """
    centered = np.log(x) - np.log(x).mean()
    data = tuple(np.asarray(values, float) for values in runs)

    def slope(*samples: Any, axis: int = -1) -> Any:
        means = np.stack([np.mean(sample, axis=axis) for sample in samples], -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.log(means) @ centered / (centered @ centered)

    value = float(slope(*data))
    if min(map(len, data)) < 2:
        return Estimate(value)
    return Estimate(value, *_percentiles(data, slope, paired=False))


def ratio_of_means(one: ArrayLike, other: ArrayLike) -> Estimate:
    """Return mean(one)/mean(other) of pairs (n,), with an interval by drawing pairs again."""
    pairs = np.asarray(one, float), np.asarray(other, float)

    def ratio(x: Any, y: Any, axis: int = -1) -> Any:
        with np.errstate(divide="ignore", invalid="ignore"):
            return np.sum(x, axis=axis) / np.sum(y, axis=axis)

    value = float(ratio(*pairs))
    if len(pairs[0]) < 2:
        return Estimate(value)
    return Estimate(value, *_percentiles(pairs, ratio, paired=True))


def _percentiles(data: Any, statistic: Any, paired: bool) -> tuple[float, float]:
    """Return the middle 95% of the bootstrap distribution, without undefined values."""
    drawn = stats.bootstrap(
        data, statistic, n_resamples=RESAMPLES, vectorized=True, paired=paired,
        method="percentile", rng=0,
    ).bootstrap_distribution  # fmt: skip
    finite = drawn[np.isfinite(drawn)]
    low, high = (
        np.quantile(finite, [(1 - LEVEL) / 2, (1 + LEVEL) / 2]) if len(finite) else 2 * [nan]
    )
    return float(low), float(high)


def largest_share(seen: int, runs: int) -> float:
    """Return the exact upper confidence bound of a probability (Clopper and Pearson 1934)."""
    test = stats.binomtest(seen, runs, alternative="less")
    return float(test.proportion_ci(LEVEL, method="exact").high)
