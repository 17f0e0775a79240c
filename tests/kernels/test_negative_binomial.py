"""Negative binomials: their law, moments and parity."""

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from support.distributions import (
    DRAWS,
    THRESHOLD,
    central_moments,
    check_moments,
    mass_p_value,
)
from ucfh._kernels.sampling import (
    negative_binomial,
)


def negative_binomial_moments(m: int, h: float) -> tuple[Fraction, list[Fraction]]:
    odds = (1 - Fraction(h)) / Fraction(h)
    rising = [math.prod(m + i for i in range(r)) for r in range(7)]
    return central_moments([rising[r] * odds**r for r in range(7)])


@pytest.mark.slow
@pytest.mark.parametrize(("m", "h"), [(1, 0.3), (3, 0.5), (10, 0.9), (7, 0.02), (500, 0.6)])
def test_negative_binomial_mass(m: int, h: float) -> None:
    rng = np.random.default_rng(7)
    values = np.array([negative_binomial(rng, m, h) for _ in range(DRAWS // 10)])
    law = stats.nbinom(m, h)
    support = np.arange(int(law.isf(1e-12)) + 1)
    assert mass_p_value(values, law.pmf, support) > THRESHOLD


@pytest.mark.slow
@pytest.mark.parametrize(
    ("m", "h"),
    [(10**18, 1e-3), (10**18, 0.75), (10**12, 1e-9), (10**6, 1e-20), (40, 1e-40), (1, 1e-12)],
)
def test_negative_binomial_moments(m: int, h: float) -> None:
    rng = np.random.default_rng(8)
    values = [negative_binomial(rng, m, h) for _ in range(DRAWS // 10)]
    assert all(type(x) is int for x in values)
    check_moments(np.array(values, dtype=object), negative_binomial_moments(m, h))


def test_negative_binomial_past_53_bits_is_odd_as_often_as_even() -> None:
    rng = np.random.default_rng(9)
    values = [negative_binomial(rng, 10**9, 1e-20) for _ in range(DRAWS // 10)]
    assert min(values) > 2**90
    odd = sum(x % 2 for x in values)
    assert abs(odd - len(values) / 2) < 2.5 * math.sqrt(len(values))
