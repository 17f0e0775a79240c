"""Quantiles of a mean with Dirichlet weights: against Beta variables, and integration."""

from __future__ import annotations

from itertools import pairwise
from statistics import NormalDist

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from oracles.dirichlet import exact_quantile, log_tail, saddle_quantile
from ucfh._kernels.dirichlet import upper_quantile

TAILS = (0.15, 1e-2, 1e-6, 1e-12, 1e-25)


def deviate(tail: float) -> float:
    return -NormalDist().inv_cdf(tail)


def found(counts: list[int], values: list[float], apart: float, top: float, z: float) -> float:
    return upper_quantile(np.array(counts), np.array(values, float), apart, top, z)


@pytest.mark.parametrize("apart", [1, 2, 5, 50, 900])
@pytest.mark.parametrize("n", [1, 2, 10, 100, 10_000])
def test_two_values(apart: float, n: int) -> None:
    """A Beta variable: the probability to be above is off by as little as is said."""
    for tail in TAILS:
        u = found([n], [0.0], apart, 1.0, deviate(tail))
        # of what is missing to 1, so that it can be close to that
        missing = -found([n], [-1.0], apart, 0.0, deviate(tail))
        assert 1 - missing == pytest.approx(u, abs=1e-9)
        ratio = float(stats.beta.cdf(missing, n, apart)) / tail
        assert 7 / 8 < ratio < 1.001


def test_least_exact() -> None:
    """For a uniform variable, far out."""
    for tail in (1e-25, 1e-50, 1e-100):
        missing = -found([1], [-1.0], 1, 0.0, deviate(tail))
        assert 7 / 8 < missing / tail < 0.9


def test_integration_is_right() -> None:
    """The oracle, against the same Beta variables."""
    for apart, n in ((1, 1), (2, 10), (900, 100)):
        a, v = np.array([apart, n], float), np.array([1.0, 0.0])
        for tail in TAILS[:4]:
            u = float(stats.beta.isf(tail, apart, n))
            if u < 1 - 1e-9:
                assert np.exp(log_tail(a, v, u)) == pytest.approx(tail, rel=1e-6)
                assert exact_quantile(a, v, tail) == pytest.approx(u, rel=1e-6)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 50), st.floats(0, 3)), min_size=1, max_size=5),
    st.sampled_from([1.0, 7.0, 900.0]),
    st.sampled_from(TAILS[:4]),
)
def test_many_values(pairs: list[tuple[int, float]], apart: float, tail: float) -> None:
    counts, values = [x for x, _ in pairs], [round(y, 3) for _, y in pairs]
    u = found(counts, values, apart, 4.0, deviate(tail))
    a, v = np.array([*counts, apart], float), np.array([*values, 4.0])
    assert u == pytest.approx(saddle_quantile(a, v, deviate(tail)), rel=1e-9)
    if sum(counts) == 0:
        assert u == 4.0
    elif 4 - u > 1e-6:
        ratio = np.exp(log_tail(a[a > 0], v[a > 0], u)) / tail
        assert 7 / 8 < ratio < (1 + 1 / 15 if apart < 100 else 1.001)


def test_where_there_is_nothing_to_weigh() -> None:
    assert found([3, 0], [1.0, 9.0], 2, 1.0, 2.0) == 1.0  # all alike, and one that never happened
    assert found([0], [1.0], 2, 5.0, 2.0) == 5.0
    # the state apart need not be the best
    a, v = np.array([3.0, 4.0, 2.0]), np.array([0.0, 7.0, 5.0])
    assert found([3, 4], [0.0, 7.0], 2, 5.0, 2.0) == pytest.approx(saddle_quantile(a, v, 2.0))


def test_extremes() -> None:
    """A deviate that no double can tell from the highest value, and one that is hardly any."""
    assert found([1], [0.0], 900, 2.0, 39.0) == 2.0
    mean = 2.0 * 3 / 10
    assert found([7], [0.0], 3, 2.0, 1e-9) == pytest.approx(mean, abs=0.2)
    rising = [found([7], [0.0], 3, 2.0, z) for z in (0.1, 0.5, 1, 2, 4, 8, 16)]
    assert all(x < y for x, y in pairwise([mean, *rising, 2.0]))
