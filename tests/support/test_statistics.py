"""Fitted exponents against a slow fit, and intervals against what is known of them."""

from __future__ import annotations

from math import isnan, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import binomtest

from ucfh._support.statistics import LEVEL, RESAMPLES, SEED, Fit, exponent, fit, share_bound


def slow_slope(x: list[float], y: list[float]) -> float:
    """By the normal equations, one sum at a time."""
    u, v = [log(a) for a in x], [log(b) for b in y]
    mean_u, mean_v = sum(u) / len(u), sum(v) / len(v)
    rise = sum((a - mean_u) * (b - mean_v) for a, b in zip(u, v, strict=True))
    return rise / sum((a - mean_u) ** 2 for a in u)


@given(
    st.lists(st.integers(1, 40), min_size=2, max_size=7, unique=True),
    st.floats(-3, 4),
    st.floats(1e-6, 1e12),
)
def test_a_power_law_gives_its_exponent(x: list[int], b: float, scale: float) -> None:
    # logarithms up to 45 are rounded to 1e-14 each, over a spread of at least ln(40/39)
    assert exponent(x, [scale * a**b for a in x]) == pytest.approx(b, abs=1e-11)


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.lists(st.integers(1, 10**9), min_size=1, max_size=4)),
        min_size=2,
        max_size=6,
        unique_by=lambda point: point[0],
    )
)
def test_the_fit_is_that_of_the_means(points: list[tuple[int, list[int]]]) -> None:
    x = [2.0**k for k, _ in points]
    runs = [values for _, values in points]
    found = fit(x, runs)
    assert found.exponent == pytest.approx(
        slow_slope(x, [sum(values) / len(values) for values in runs]), abs=1e-11
    )
    if min(map(len, runs)) == 1:
        assert isnan(found.low)
        assert isnan(found.high)
    else:
        assert found.low <= found.high
    if len(x) == 2 and not isnan(found.high):
        # from the least that can be drawn at the smaller x to the most at the larger
        left, right = sorted([0, 1], key=lambda k: x[k])
        steepest = slow_slope([x[left], x[right]], [min(runs[left]), max(runs[right])])
        assert found.high <= steepest + 1e-9


def test_the_interval_by_a_slow_bootstrap() -> None:
    """Same draws, with one fit at a time; points at which nothing but 0 is drawn are left out."""
    x, runs = [1.0, 2.0, 4.0], [[0, 1], [3, 5, 4], [20, 9]]
    rng = np.random.default_rng(SEED)
    drawn = [rng.choice(values, (RESAMPLES, len(values))) for values in runs]
    slopes = []
    for k in range(RESAMPLES):
        means = [float(np.mean(values[k])) for values in drawn]
        kept = [(a, y) for a, y in zip(x, means, strict=True) if y > 0]
        slopes.append(slow_slope(*map(list, zip(*kept, strict=True))))
    low, high = np.quantile(slopes, [0.025, 0.975])
    assert fit(x, runs) == pytest.approx((fit(x, runs).exponent, low, high), abs=1e-12)


def test_intervals_hold_the_truth_about_as_often_as_they_say() -> None:
    """Over 200 samples; with 20 runs a bootstrap is short of 95 % by a little."""
    rng = np.random.default_rng(1)
    x = [1.0, 2.0, 4.0, 8.0]
    held = 0
    for _ in range(200):
        found = fit(x, [(a**1.5 * rng.gamma(4.0, 1.0, 20)).tolist() for a in x])
        held += found.low <= 1.5 <= found.high
    # at 92 %, fewer than 170 or all 200 have a chance below 1e-3
    assert 170 <= held < 200


@pytest.mark.parametrize("x", [[], [3.0], [3.0, 3.0], [0.1, 0.1, 0.1]])
def test_no_slope_without_two_places(x: list[float]) -> None:
    found = fit(x, [[1.0, 2.0]] * len(x))
    assert all(map(isnan, found))
    assert isnan(exponent(x, [5.0] * len(x)))


def test_runs_that_agree_leave_no_doubt() -> None:
    found = fit([1, 2, 4], [[5, 5], [10, 10], [20, 20]])
    assert found == pytest.approx(Fit(1.0, 1.0, 1.0), abs=1e-12)


def test_counts_beyond_64_bits() -> None:
    found = fit([1, 2], [[2**70, 2**70], [2**72, 2**72]])
    assert found == pytest.approx(Fit(2.0, 2.0, 2.0), abs=1e-12)


def test_mostly_zeros() -> None:
    """Points are left out of some draws, or of all but one of them."""
    found = fit([1, 2], [[0, 0, 0, 1], [0, 4]])
    assert found.exponent == pytest.approx(log(8) / log(2))
    assert found.low <= found.high


@given(st.integers(1, 400), st.integers(0, 400))
def test_the_bound_of_a_share_is_exact(runs: int, seen: int) -> None:
    known = binomtest(min(seen, runs), runs, alternative="less").proportion_ci(LEVEL)
    # the bound is where a sum of terms that are rounded to 1e-13 each, relatively, crosses 0.05
    assert share_bound(min(seen, runs), runs) == pytest.approx(known.high, abs=1e-9)
