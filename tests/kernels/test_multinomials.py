"""Multinomials and shares of a sample: their laws, sums and supports."""

from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import stats

from support.distributions import (
    DRAWS,
    LARGEST,
    THRESHOLD,
    Counts,
    Floats,
    binomial_moments,
    check_moments,
    chi_square,
    draw,
    fixed,
    hypergeometric_moments,
    mass_p_value,
)
from ucfh._kernels.sampling import (
    multinomial,
    multivariate_hypergeometric,
)


@njit(nogil=True)
def _multinomials(rng: np.random.Generator, n: int, p: Floats, out: Counts) -> None:
    for i in range(out.shape[0]):
        multinomial(rng, n, p, out[i])


@njit(nogil=True)
def _shares(rng: np.random.Generator, counts: Counts, sample: int, out: Counts) -> None:
    for i in range(out.shape[0]):
        multivariate_hypergeometric(rng, counts, sample, out[i])


def test_small_multinomial_mass() -> None:
    p = np.array([0.2, 0.0, 0.5, 0.3])
    values = draw(_multinomials, 5, p, shape=(DRAWS, 4))
    assert (values[:, 1] == 0).all()
    outcomes = [x for x in product(range(6), repeat=4) if sum(x) == 5 and x[1] == 0]
    codes = values @ (6 ** np.arange(4))
    observed = [int((codes == np.dot(x, 6 ** np.arange(4))).sum()) for x in outcomes]
    expected = stats.multinomial(5, p).pmf(np.array(outcomes)) * DRAWS
    assert sum(observed) == DRAWS
    assert chi_square(np.array(observed), expected) > THRESHOLD


def test_small_multivariate_hypergeometric_mass() -> None:
    counts = np.array([3, 0, 4, 5])
    values = draw(_shares, counts, 6, shape=(DRAWS, 4))
    outcomes = [x for x in product(range(4), range(1), range(5), range(6)) if sum(x) == 6]
    codes = values @ (6 ** np.arange(4))
    observed = [int((codes == np.dot(x, 6 ** np.arange(4))).sum()) for x in outcomes]
    expected = np.array([stats.multivariate_hypergeom(counts, 6).pmf(x) for x in outcomes]) * DRAWS
    assert sum(observed) == DRAWS
    assert chi_square(np.array(observed), expected) > THRESHOLD


@pytest.mark.parametrize("n", [10**10, 10**17, LARGEST])
def test_large_multinomial_moments(n: int) -> None:
    """Each entry, and each sum of two entries, is binomial: so the covariances are right too."""
    p = np.array([0.25, 0.0625, 0.5, 0.1875])
    values = draw(_multinomials, n, p, shape=(DRAWS // 2, 4))
    assert (values.sum(axis=1) == n).all()
    for entries in ([0], [1], [2], [3], [0, 1], [0, 2], [1, 2]):
        moments = binomial_moments(n, float(p[entries].sum()))
        check_moments(values[:, entries].sum(axis=1), moments)


@pytest.mark.parametrize("total", [10**10, 10**17, LARGEST])
def test_large_multivariate_hypergeometric_moments(total: int) -> None:
    counts = np.array([total // 4, total // 10, total // 2])
    counts = np.append(counts, total - counts.sum())
    sample = total // 7 * 3
    values = draw(_shares, counts, sample, shape=(DRAWS // 2, 4))
    assert (values.sum(axis=1) == sample).all()
    for entries in ([0], [1], [2], [3], [0, 1], [0, 2], [1, 2]):
        g = int(counts[entries].sum())
        moments = hypergeometric_moments(g, total - g, sample)
        check_moments(values[:, entries].sum(axis=1), moments)


@pytest.mark.parametrize("p", [[1.0, 1e-17], [1e-17, 1.0], [0.5, 1e-17, 0.5], [0.5, 0.5, 1e-17]])
def test_a_probability_below_rounding_gets_its_share(p: list[float]) -> None:
    """1e-17 is lost beside 1 in a double, but not among 9e18 trials: Poisson(90)."""
    values = draw(_multinomials, LARGEST, np.array(p), shape=(DRAWS // 2, len(p)))
    assert (values.sum(axis=1) == LARGEST).all()
    rare = values[:, p.index(1e-17)]
    assert mass_p_value(rare, stats.poisson(90.0).pmf, np.arange(300)) > THRESHOLD


weights = st.lists(
    st.one_of(st.just(0.0), st.floats(1e-300, 1.0), st.floats(0.999, 1.001)), min_size=1, max_size=8
).filter(lambda w: sum(w) > 0.0)


@fixed
@given(weights, st.integers(0, LARGEST), st.integers(0, 2**32))
def test_multinomial_counts_sum_to_n(w: list[float], n: int, seed: int) -> None:
    p = np.array(w) / sum(w)
    out = np.full(p.size, -1)
    multinomial(np.random.default_rng(seed), n, p, out)
    assert out.min() >= 0
    assert sum(map(int, out)) == n
    assert (out[p == 0.0] == 0).all()


@fixed
@given(
    st.lists(st.integers(0, LARGEST // 6) | st.integers(0, 5), min_size=1, max_size=6),
    st.floats(0.0, 1.0),
    st.integers(0, 2**32),
)
def test_shares_stay_within_counts_and_sum_to_the_sample(
    c: list[int], fraction: float, seed: int
) -> None:
    counts = np.array(c)
    sample = int(Fraction(fraction) * sum(c))
    out = np.full(counts.size, -1)
    multivariate_hypergeometric(np.random.default_rng(seed), counts, sample, out)
    assert sum(map(int, out)) == sample
    assert (out >= 0).all()
    assert (out <= counts).all()
