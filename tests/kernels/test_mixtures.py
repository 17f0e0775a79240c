"""Mixture martingales against rationals and sixty digits, at n from 1 to 1e18."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.integrate import quad

from oracles import mixtures as oracle
from ucfh._kernels.mixtures import binary_excess, excess, portfolio_regret

# lgamma, and products with ln c, below c = 40: some 150 in size, a few roundings of 2^-53 each
CLOSE = 1e-12
SCALES = [10**k for k in (0, 1, 2, 3, 6, 9, 12, 15, 18)]


def fast_excess(counts: list[list[int]], sparse: bool) -> list[float]:
    """The excess of rows of counts."""
    indptr = np.cumsum([0, *map(len, counts)])
    n, out = np.array([sum(row) for row in counts]), np.zeros(len(counts))
    excess(indptr, np.array([c for row in counts for c in row]), n, sparse, out)
    return [float(x) for x in out]


def all_counts(n: int, m: int) -> list[tuple[int, ...]]:
    return [c for c in product(range(n + 1), repeat=m) if sum(c) == n]


def ways(counts: tuple[int, ...]) -> int:
    """How many sequences have these counts."""
    return math.factorial(sum(counts)) // math.prod(map(math.factorial, counts))


def test_the_oracle_knows_gamma() -> None:
    for k in (1, 2, 7, 61, 200):
        exact = oracle.ln(math.factorial(k - 1))
        # Gamma(k + 1/2) = (2k)! sqrt(pi) / (4^k k!)
        half = oracle.ln(Fraction(math.factorial(2 * k), 4**k * math.factorial(k)))
        with localcontext(prec=oracle.DIGITS):
            assert abs(oracle.ln_gamma(Fraction(k)) - exact) < Decimal("1e-50")
            found = oracle.ln_gamma(k + Fraction(1, 2)) - oracle.half_ln_pi()
            assert abs(found - half) < Decimal("1e-50")


@pytest.mark.parametrize("counts", [(1,), (3, 0), (2, 5), (1, 0, 4), (40, 41, 3, 0, 1)])
def test_the_oracle_is_the_sequential_mixture(counts: tuple[int, ...]) -> None:
    with localcontext(prec=oracle.DIGITS):
        found = oracle.ln_dirichlet(counts) - oracle.ln(oracle.kt_probability(counts))
        assert abs(found) < Decimal("1e-50")


def cuts(n: int) -> list[int]:
    """Numbers of successes out of n, from none to all."""
    return sorted({0, min(1, n), n // 1000, n // 3, n // 2, n - n // 7, n - 1, n} - {-1})


@pytest.mark.parametrize("n", SCALES)
def test_binary_excess_to_the_last_digits(n: int) -> None:
    n = int(float(n))
    for k in (int(float(k)) for k in cuts(n)):
        exact = float(oracle.dirichlet_excess((k, n - k)))
        assert binary_excess(float(k), float(n)) == pytest.approx(exact, abs=CLOSE), (k, n)


@pytest.mark.parametrize("n", SCALES)
def test_portfolio_regret_to_the_last_digits(n: int) -> None:
    exact = float(oracle.portfolio_regret(n))
    assert portfolio_regret(float(n)) == pytest.approx(exact, abs=CLOSE)


def test_portfolio_regret_is_the_largest_binary_excess() -> None:
    for n in (1, 2, 3, 10, 39, 40, 41, 100):
        all_of_them = binary_excess(np.arange(n + 1.0), float(n))
        assert portfolio_regret(float(n)) == pytest.approx(all_of_them.max(), abs=CLOSE)
        assert all_of_them.argmax() in (0, n)


def test_naive_doubles_are_wrong() -> None:
    """The reason for the series: the printed formula, with lgamma, at n = 1e12 and beyond."""

    def naive(k: float, n: float) -> float:
        likelihood = k * math.log(k / n) + (n - k) * math.log((n - k) / n)
        beta = math.lgamma(k + 0.5) + math.lgamma(n - k + 0.5) - math.lgamma(n + 1)
        return likelihood - beta + math.log(math.pi)

    for n, off in ((10**12, 1e-4), (10**15, 0.1), (10**18, 100.0)):
        exact = float(oracle.dirichlet_excess((n // 3, n - n // 3)))
        assert abs(naive(n // 3, n) - exact) > off
        assert binary_excess(float(n // 3), float(n)) == pytest.approx(exact, abs=CLOSE)


count = st.one_of(st.integers(0, 3), st.integers(0, 100), st.integers(0, 10**18))


@settings(max_examples=150, deadline=None)
@given(st.lists(count, min_size=1, max_size=5), st.booleans())
def test_excess_of_a_row(counts: list[int], sparse: bool) -> None:
    if sum(counts) == 0 or sum(counts) > 4 * 10**18:
        counts[0] = 1
    found = fast_excess([counts], sparse)[0]
    exact = oracle.sparse_excess(counts) if sparse else oracle.dirichlet_excess(counts)
    # terms of the sparse mixture may be left out, which makes the excess larger
    assert -CLOSE <= found - float(exact) <= CLOSE + (2e-6 if sparse else 0)


def test_rows_are_independent() -> None:
    rows = [[3, 4, 0], [0, 0, 0], [7], [0, 10**18, 1, 5]]
    for sparse in (False, True):
        together = fast_excess(rows, sparse)
        assert together == [fast_excess([row], sparse)[0] for row in rows]
        assert together[1] == together[2] == 0  # nothing seen; nothing to learn


def test_many_successors() -> None:
    """A thousand successors, of which few are seen: the sparse mixture pays for those alone."""
    counts = [0] * 1000
    counts[17], counts[400], counts[999] = 500, 300, 200
    dense, sparse = (fast_excess([counts], x)[0] for x in (False, True))
    assert dense == pytest.approx(float(oracle.dirichlet_excess(counts)), abs=1e-9)
    alone = float(oracle.dirichlet_excess([500, 300, 200]))
    price = math.log(1000) + math.log(math.comb(1000, 3))
    assert alone < sparse <= alone + price + CLOSE  # one term of the mixture, and the others
    assert sparse < dense


@pytest.mark.parametrize("counts", [[1], [1, 1], [3, 1, 1], [500, 300, 200], [10**18, 1]])
@pytest.mark.parametrize("C", [5, 60, 70, 150, 400])
def test_sizes_of_supports_may_come_in_blocks(counts: list[int], C: int) -> None:
    """That makes the mixture smaller, never larger: (13/12)^-(n + D) at most."""
    exact = float(oracle.sparse_excess_of_many(counts, C))
    if C <= 5:
        padded = counts + [0] * (C - len(counts))
        assert float(oracle.sparse_excess(padded)) == pytest.approx(exact, abs=1e-30)
    assert -CLOSE <= fast_excess([counts + [0] * (C - len(counts))], True)[0] - exact <= 0.12


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.booleans())
def test_what_is_not_listed_did_not_come(counts: list[int], sparse: bool) -> None:
    listed, out = [c for c in counts if c], np.zeros(1)
    excess(
        np.array([0, len(listed)]),
        np.array(listed, np.int64),
        np.array([sum(counts)]),
        sparse,
        out,
        np.array([len(counts)]),
    )
    assert out[0] == fast_excess([counts], sparse)[0]


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("m", [2, 3, 4])
def test_the_mixture_is_a_martingale(m: int, sparse: bool) -> None:
    """ML exp(-excess) is a probability of sequences: of sum one, and each the sum of its heirs."""

    def mixture(counts: tuple[int, ...]) -> float:
        return math.exp(
            float(oracle.ln_likelihood(counts)) - fast_excess([list(counts)], sparse)[0]
        )

    left_out = 3e-6 if sparse else 1e-12  # of the terms, by which the sum may fall short
    for n in (1, 2, 5):
        total = sum(ways(c) * mixture(c) for c in all_counts(n, m))
        assert 1 - left_out <= total <= 1 + 1e-12
        for c in all_counts(n, m):
            heirs = [tuple(x + (i == j) for i, x in enumerate(c)) for j in range(m)]
            assert sum(map(mixture, heirs)) == pytest.approx(mixture(c), rel=left_out)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.floats(0, 5), min_size=1, max_size=12),
    st.sampled_from([1, 3, 20]),
)
def test_a_universal_portfolio_loses_no_more_than_its_regret(
    returns: list[float], times: int
) -> None:
    """The best wealth of a constant mix of two assets, cash and a bet, against theirs."""
    x = np.repeat(returns, times)

    def ln_wealth(w: float) -> float:
        with np.errstate(divide="ignore"):
            return float(np.log1p(w * (x - 1)).sum())

    grid = np.linspace(0, 1, 2001)
    best = max(map(ln_wealth, grid))
    # w = sin^2 u makes Beta(1/2, 1/2) uniform in u
    universal = quad(
        lambda u: math.exp(ln_wealth(math.sin(u) ** 2) - best) * 2 / math.pi,
        0,
        math.pi / 2,
        limit=400,
        points=[0.1, 0.8, 1.5],
    )[0]
    assert -math.log(universal) <= portfolio_regret(float(len(x))) + 1e-6
