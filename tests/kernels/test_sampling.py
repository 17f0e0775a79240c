"""The samplers against exact laws: mass functions where they can be summed, moments where not.

The seeds are fixed, so a test that passes once always passes. For other seeds a correct sampler
would fail a chi-square test with probability 1e-4 and a moment with probability 6e-7 (5 standard
errors); with about 100 of the former and 300 of the latter, the whole file would fail by
chance for about one seed in 100.
"""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numba import njit
from scipy import stats

from support.distributions import (
    LARGEST,
    THRESHOLD,
    Counts,
    Floats,
    binomial_moments,
    central_moments,
    check_moments,
    chi_square,
    draw,
    fixed,
    hypergeometric_moments,
    mass_p_value,
    offsets,
)
from ucfh._kernels import sampling
from ucfh._kernels.sampling import (
    binomial,
    hypergeometric,
    multinomial,
    multivariate_hypergeometric,
    negative_binomial,
    poisson,
)


@njit(nogil=True)
def _binomials(rng: np.random.Generator, n: int, p: float, out: Counts) -> None:
    for i in range(out.size):
        out[i] = binomial(rng, n, p)


@njit(nogil=True)
def _hypergeometrics(rng: np.random.Generator, g: int, b: int, s: int, out: Counts) -> None:
    for i in range(out.size):
        out[i] = hypergeometric(rng, g, b, s)


@njit(nogil=True)
def _poissons(rng: np.random.Generator, mu: float, out: Counts) -> None:
    for i in range(out.size):
        out[i] = poisson(rng, mu)


@njit(nogil=True)
def _rejections(rng: np.random.Generator, law: sampling.Law, out: Counts) -> None:
    for i in range(out.size):
        out[i] = sampling._reject(rng, law)


def around(mean: float, var: float, low: int, high: int) -> Counts:
    """Return the integers of low..high within 12 standard deviations and 40 of the mean."""
    width = 12.0 * math.sqrt(var) + 40.0
    return np.arange(max(low, math.floor(mean - width)), min(high, math.ceil(mean + width)) + 1)


# Means on both sides of the switch from inversion to rejection, and of p = 1/2.
BINOMIALS = [
    (1, 0.3),
    (2, 0.5),
    (10, 0.5),
    (10, 0.93),
    (30, 0.2),
    (49, 0.5),
    (50, 0.5),
    (51, 0.5),
    (60, 0.45),
    (70, 0.6),
    (101, 0.25),
    (300, 0.99),
    (1000, 0.0249),
    (1000, 0.025),
    (1000, 0.0251),
    (1000, 0.9749),
    (1000, 0.03),
    (1000, 0.5),
    (10**4, 0.3),
    (10**5, 1e-5),
    (10**5, 0.999),
    (10**6, 4e-5),
    (10**6, 0.5),
    (3 * 10**7, 0.5),
]


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p"), BINOMIALS)
def test_binomial_mass(n: int, p: float) -> None:
    law = stats.binom(n, p)
    support = around(law.mean(), law.var(), 0, n)
    assert mass_p_value(draw(_binomials, n, p), law.pmf, support) > THRESHOLD


@pytest.mark.parametrize("mean", [0.5, 9.0, 24.9, 25.1, 90.0])
@pytest.mark.parametrize("n", [10**16, LARGEST])
def test_binomial_of_many_rare_trials_is_poisson(n: int, mean: float) -> None:
    """The laws differ by less than 1e-14 in total variation (Le Cam: n p^2)."""
    law = stats.poisson(n * (mean / n))
    values = draw(_binomials, n, mean / n)
    assert mass_p_value(values, law.pmf, around(mean, mean, 0, n)) > THRESHOLD


@pytest.mark.parametrize(
    ("n", "p"), [(10**8, 0.5), (10**9, 0.1), (10**10, 0.5), (10**10, 0.999), (10**12, 1e-3)]
)
def test_binomial_by_cells_where_offsets_come_in_blocks(n: int, p: float) -> None:
    law = stats.binom(n, p)
    edges = np.floor(law.mean() + law.std() * np.linspace(-4.0, 4.0, 401))
    cdf = np.concatenate([[0.0], law.cdf(edges), [1.0]])
    values = draw(_binomials, n, p)
    counts = np.bincount(np.searchsorted(edges, values), minlength=edges.size + 1)
    assert chi_square(counts, np.diff(cdf) * values.size) > THRESHOLD


@pytest.mark.slow
@pytest.mark.parametrize("n", [10**10, 10**14, 10**17, LARGEST])
@pytest.mark.parametrize("p", [0.5, 0.3, 0.9, 1e-3, 2.7e-9, 1.0 - 2.0**-30])
def test_binomial_moments(n: int, p: float) -> None:
    check_moments(draw(_binomials, n, p), binomial_moments(n, p))


HYPERGEOMETRICS = [
    (1, 1, 1),
    (3, 4, 5),
    (5, 3, 2),
    (20, 7, 13),
    (50, 50, 49),
    (50, 50, 50),
    (51, 51, 51),
    (100, 900, 249),
    (100, 900, 250),
    (100, 900, 251),
    (900, 100, 250),
    (100, 900, 750),
    (900, 100, 750),
    (400, 600, 500),
    (30, 10**5, 8 * 10**4),
    (10**4, 10**4, 5000),
    (10**6, 3 * 10**6, 100),
    (5 * 10**5, 5 * 10**5, 5 * 10**5),
]


@pytest.mark.slow
@pytest.mark.parametrize(("g", "b", "s"), HYPERGEOMETRICS)
def test_hypergeometric_mass(g: int, b: int, s: int) -> None:
    law = stats.hypergeom(g + b, g, s)
    mean = s * g / (g + b)
    support = around(mean, mean, max(0, s - b), min(g, s))
    assert mass_p_value(draw(_hypergeometrics, g, b, s), law.pmf, support) > THRESHOLD


@pytest.mark.parametrize("mean", [0.5, 9.0, 24.9, 25.1, 90.0])
def test_hypergeometric_of_many_rare_items_is_poisson(mean: float) -> None:
    """With s g = mean N and s, g ~ sqrt(N), the total variation is of order (s + g)/N < 1e-8."""
    s = 3 * 10**9
    g = round(mean * (LARGEST // s))
    values = draw(_hypergeometrics, g, LARGEST - g, s)
    law = stats.poisson(g * s / LARGEST)
    assert mass_p_value(values, law.pmf, around(mean, mean, 0, s)) > THRESHOLD


@pytest.mark.parametrize(
    ("g", "b", "s"),
    [
        (10, LARGEST - 10, LARGEST // 3),
        (LARGEST - 60, 60, LARGEST // 5 * 3),
        (LARGEST // 2, LARGEST // 2, 13),
        (LARGEST // 10, LARGEST // 10 * 9, LARGEST - 70),
    ],
)
def test_hypergeometric_with_a_small_side_is_binomial(g: int, b: int, s: int) -> None:
    """A few draws from a huge urn hardly notice that they are without replacement."""
    total = g + b
    small = min(g, b, s, total - s)
    values = draw(_hypergeometrics, g, b, s)
    if small == g:
        values, p = values, s / total
    elif small == b:
        values, p = s - values, s / total
    elif small == s:
        values, p = values, g / total
    else:
        values, p = g - values, g / total
    law = stats.binom(small, p)
    assert mass_p_value(values, law.pmf, np.arange(small + 1)) > THRESHOLD


@pytest.mark.slow
@pytest.mark.parametrize("total", [10**10, 10**14, 10**17, LARGEST])
@pytest.mark.parametrize(
    ("good", "sample"),
    [(0.5, 0.5), (0.3, 0.1), (0.9, 0.2), (0.01, 0.999), (0.7, 0.8), (1e-6, 1e-3)],
)
def test_hypergeometric_moments(total: int, good: float, sample: float) -> None:
    g, s = int(total * good), int(total * sample)
    check_moments(draw(_hypergeometrics, g, total - g, s), hypergeometric_moments(g, total - g, s))


@pytest.mark.parametrize("mu", [0.01, 3.0, 24.99, 25.0, 31.7, 1e3, 1e6 + 0.5])
def test_poisson_mass(mu: float) -> None:
    law = stats.poisson(mu)
    assert mass_p_value(draw(_poissons, mu), law.pmf, around(mu, mu, 0, 10**9)) > THRESHOLD


@pytest.mark.parametrize("mu", [12345678901.25, 1e14, 3e17, 9e18])
def test_poisson_moments(mu: float) -> None:
    check_moments(draw(_poissons, mu), central_moments([Fraction(mu) ** r for r in range(7)]))


@pytest.mark.slow
@pytest.mark.parametrize("modulus", [2, 3, 64, 1000])
def test_every_residue_is_equally_frequent_past_53_bits(modulus: int) -> None:
    half = LARGEST // 2
    for values in (
        draw(_binomials, LARGEST, 0.5),
        draw(_binomials, 10**18, 0.9),
        draw(_hypergeometrics, half, half, half),
        draw(_poissons, 9e18),
    ):
        assert values.min() > 2**53
        counts = np.bincount(values % modulus, minlength=modulus)
        assert chi_square(counts, np.full(modulus, values.size / modulus)) > THRESHOLD


def log_gamma(z: int) -> Decimal:
    """Return ln Gamma(z) - ln sqrt(2 pi) to 50 decimals: Stirling's series, from 1000 on."""
    bernoulli = [Fraction(1, 6), Fraction(-1, 30), Fraction(1, 42), Fraction(-1, 30)]
    bernoulli += [Fraction(5, 66), Fraction(-691, 2730), Fraction(7, 6), Fraction(-3617, 510)]
    x, shift = Decimal(z), Decimal(1)
    while x < 1000:
        shift *= x
        x += 1
    total = (x - Decimal("0.5")) * x.ln() - x - shift.ln()
    for i, b in enumerate(bernoulli, 1):
        total += Decimal(b.numerator) / (b.denominator * 2 * i * (2 * i - 1)) / x ** (2 * i - 1)
    return total


def test_log_ratio_of_the_binomial_in_90_digits() -> None:
    rng = np.random.default_rng(1)
    cases = [(50, 0.5), (LARGEST, 0.5), (LARGEST, 2.8e-18), (10**18, 0.1), (25, 0.25)]
    for _ in range(60):
        n = int(10 ** rng.uniform(1.8, 18.9))
        cases.append((n, float(10 ** rng.uniform(math.log10(25 / n), math.log10(0.5)))))
    with localcontext(prec=90):
        for n, p in cases:
            m, law = sampling._binomial_at_mode(n, p)
            assert m == math.floor((n + 1) * Fraction(p))
            assert abs(law.eps - (n * Fraction(p) - m)) < 1e-15
            log_odds = Decimal(p).ln() - (1 - Decimal(p)).ln()
            for k in offsets(rng, math.sqrt(n * p), -m, n - m):
                exact = log_gamma(m + 1) + log_gamma(n - m + 1) + k * log_odds
                exact -= log_gamma(m + k + 1) + log_gamma(n - m - k + 1)
                got = sampling._log_ratio(float(k), law)
                assert abs(Decimal(got) - exact) < 1e-13 * max(1.0, -got / 50), (n, p, k)


def test_log_ratio_of_the_hypergeometric_in_90_digits() -> None:
    rng = np.random.default_rng(2)
    half = LARGEST // 2
    cases = [(50, 50, 50), (half, half, half), (half, half, 50), (half // 10, LARGEST - half, 500)]
    for _ in range(60):
        total = int(10 ** rng.uniform(2.2, 18.9))
        mean = 10 ** rng.uniform(math.log10(25), math.log10(total / 4))
        s = int(10 ** rng.uniform(math.log10(2 * mean), math.log10(total * mean) / 2)) + 1
        g = math.ceil(mean * total / s)
        cases.append((max(g, s), total - max(g, s), min(g, s)))
    with localcontext(prec=90):
        for g, b, s in cases:
            m, law = sampling._hypergeometric_at_mode(g, b, s)
            assert m == (s + 1) * (g + 1) // (g + b + 2)
            assert abs(law.eps - (Fraction(s * g, g + b) - m)) < 1e-15
            at_mode = [m + 1, g - m + 1, s - m + 1, b - s + m + 1]
            total_at_mode = sum(map(log_gamma, at_mode))
            for k in offsets(rng, math.sqrt(s * g / (g + b)), -m, s - m):
                moved = [at_mode[0] + k, at_mode[1] - k, at_mode[2] - k, at_mode[3] + k]
                exact = total_at_mode - sum(map(log_gamma, moved))
                got = sampling._log_ratio(float(k), law)
                assert abs(Decimal(got) - exact) < 1e-13 * max(1.0, -got / 50), (g, b, s, k)


ModeAndLaw = tuple[int, sampling.Law]


def poisson_law(mu: float) -> ModeAndLaw:
    m = math.floor(mu)
    lam = math.log1p((mu - m - 1.0) / (m + 1.0))
    return m, sampling.Law(m + 1.0, 0.0, 0.0, 0.0, lam, mu - m, mu)


def binomial_law(n: int, p: float) -> ModeAndLaw:
    return sampling._binomial_at_mode(n, p)


def hypergeometric_law(g: int, b: int, s: int) -> ModeAndLaw:
    return sampling._hypergeometric_at_mode(g, b, s)


def laws_of_mean(mean: float) -> list[ModeAndLaw]:
    """Return some laws of about this mean."""
    laws = [poisson_law(mean)]
    for p in (0.5, 0.4, 0.2, 0.01):
        n = math.ceil(mean / p)
        laws.append(binomial_law(n, mean / n))
        for good, bad in ((n, n), (2 * n, 7 * n)):
            s = round(mean * (good + bad) / good)
            g = max(good, s)
            laws.append(hypergeometric_law(g, good + bad - g, min(good, s)))
    return laws


@pytest.mark.slow
@pytest.mark.parametrize("mean", [1.0, 5.0, 25.0, 25.5, 30.9, 100.0, 1e3, 1e5, 1e9, 1e15])
def test_the_rectangle_holds_all_that_is_accepted(mean: float) -> None:
    """Check 2 |x - c| sqrt(rho(k)) <= h for all x in the block of k."""
    for mode, law in laws_of_mean(mean):
        w, centre, h = sampling._rectangle(law.eps, law.var)
        upper = min((x for x in (law.b, law.c) if x > 0.0), default=math.inf) - 1.0
        reach = 12.0 * math.sqrt(law.var) + 40.0
        k = np.arange(max(-mode, -reach), min(upper, reach) + 1.0, max(1.0, reach // 5000))
        k = np.floor(k)
        log_rho = np.array([sampling._log_ratio(x, law) for x in k])
        assert log_rho.max() < 1e-13
        low = np.floor(k / w) * w
        far = np.maximum(np.abs(low - centre), np.abs(low + w - centre))
        assert (2.0 * far * np.exp(log_rho / 2.0)).max() <= h * (1.0 + 1e-12)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("law", "parameters", "pmf"),
    [
        (poisson_law, (1.0,), stats.poisson(1.0).pmf),
        (poisson_law, (2.5,), stats.poisson(2.5).pmf),
        (binomial_law, (2, 0.5), stats.binom(2, 0.5).pmf),
        (binomial_law, (5, 0.25), stats.binom(5, 0.25).pmf),
        (binomial_law, (12, 0.4), stats.binom(12, 0.4).pmf),
        (hypergeometric_law, (3, 4, 2), stats.hypergeom(7, 3, 2).pmf),
        (hypergeometric_law, (10, 10, 10), stats.hypergeom(20, 10, 10).pmf),
        (hypergeometric_law, (15, 40, 9), stats.hypergeom(55, 15, 9).pmf),
    ],
)
def test_rejection_is_exact_for_small_means_too(
    law: Callable[..., ModeAndLaw], parameters: tuple[float, ...], pmf: Callable[[Counts], Floats]
) -> None:
    """Where the ends of the support and the corners of the rectangle have weight."""
    mode, at_mode = law(*parameters)
    values = mode + draw(_rejections, at_mode, shape=1_000_000)
    assert mass_p_value(values, pmf, np.arange(40)) > THRESHOLD


@pytest.mark.slow
@fixed
@given(
    st.integers(0, LARGEST // 2) | st.integers(0, 60),
    st.integers(0, LARGEST // 2) | st.integers(0, 60),
    st.floats(0.0, 1.0),
    st.integers(0, 2**32),
)
def test_hypergeometric_stays_in_its_support(g: int, b: int, fraction: float, seed: int) -> None:
    s = int(Fraction(fraction) * (g + b))
    x = hypergeometric(np.random.default_rng(seed), g, b, s)
    assert max(0, s - b) <= x <= min(g, s)


@fixed
@given(st.integers(0, LARGEST) | st.integers(0, 100), st.floats(0.0, 1.0), st.integers(0, 2**32))
def test_binomial_stays_in_its_support(n: int, p: float, seed: int) -> None:
    assert 0 <= binomial(np.random.default_rng(seed), n, p) <= n


def test_certain_outcomes() -> None:
    rng = np.random.default_rng(3)
    for n in (0, 1, 7, LARGEST):
        assert binomial(rng, n, 0.0) == 0
        assert binomial(rng, n, 5e-324) == 0
        assert binomial(rng, n, 1e-300) == 0
        assert binomial(rng, n, 1.0) == n
        assert hypergeometric(rng, n, 0, n // 2) == n // 2
        assert hypergeometric(rng, 0, n, n // 2) == 0
        assert hypergeometric(rng, n // 2, n - n // 2, n) == n // 2
        assert hypergeometric(rng, n // 2, n - n // 2, 0) == 0
    assert poisson(rng, 0.0) == 0
    assert negative_binomial(rng, 10**18, 1.0) == 0
    out = np.empty(3, dtype=np.int64)
    multinomial(rng, LARGEST, np.array([0.0, 1.0, 0.0]), out)
    assert out.tolist() == [0, LARGEST, 0]
    multinomial(rng, 0, np.zeros(3), out)
    assert out.tolist() == [0, 0, 0]


def test_almost_certain_success_keeps_its_failures() -> None:
    """The failures of n = 9e18 trials with p = 1 - 2^-53 are Poisson of mean 999.2."""
    n, q = LARGEST, 2.0**-53
    failures = n - draw(_binomials, n, 1.0 - q)
    law = stats.poisson(n * q)
    assert mass_p_value(failures, law.pmf, around(law.mean(), law.var(), 0, n)) > THRESHOLD


def test_impossible_requests_are_refused() -> None:
    rng = np.random.default_rng(4)
    out = np.empty(2, dtype=np.int64)
    with pytest.raises(ValueError, match="no probability is positive"):
        multinomial(rng, 1, np.zeros(2), out)
    for sample in (-1, 4):
        with pytest.raises(ValueError, match="sample"):
            multivariate_hypergeometric(rng, np.array([1, 2]), sample, out)
    for m, h in ((0, 0.5), (1, 0.0), (1, 1.5), (1, math.nan)):
        with pytest.raises(ValueError, match="need m >= 1"):
            negative_binomial(rng, m, h)


def test_the_seed_decides() -> None:
    def some(seed: int) -> list[int]:
        rng = np.random.default_rng(seed)
        shares = np.empty((2, 5), dtype=np.int64)
        multinomial(rng, LARGEST, np.full(5, 0.2), shares[0])
        multivariate_hypergeometric(rng, shares[0], 10**18, shares[1])
        singles = [binomial(rng, 10**18, 0.3), binomial(rng, 20, 0.5), poisson(rng, 7.0)]
        singles += [hypergeometric(rng, 10**17, 10**18, 10**16), poisson(rng, 1e18)]
        singles += [negative_binomial(rng, 5, 1e-30), negative_binomial(rng, 10**9, 0.1)]
        return [*singles, *shares.ravel().tolist()]

    assert some(5) == some(5)
    assert all(x != y for x, y in zip(some(5)[3:], some(6)[3:], strict=True))
