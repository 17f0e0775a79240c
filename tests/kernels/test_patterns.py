"""The mixture over patterns, for labels that are not known in advance: by rationals, and digits."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import mixtures as oracle
from support.settings import many
from ucfh._kernels.mixtures import pattern_excess

CLOSE = 1e-12  # as in test_mixtures.py


def fast_excess(rows: list[list[int]]) -> list[float]:
    """The excess of rows of counts; those of 0 are labels that may still come."""
    indptr, out = np.cumsum([0, *map(len, rows)]), np.zeros(len(rows))
    pattern_excess(indptr, np.array([c for row in rows for c in row]), out)
    return [float(x) for x in out]


def patterns(n: int) -> Iterator[tuple[int, ...]]:
    """All patterns of n draws: each is a label by its number, or the next new one."""
    if n == 0:
        yield ()
        return
    for pattern in patterns(n - 1):
        for label in range(max(pattern, default=-1) + 2):
            yield (*pattern, label)


def counts_of(pattern: tuple[int, ...]) -> list[int]:
    """How often each label came, in the order in which they came up."""
    return [pattern.count(j) for j in range(max(pattern, default=-1) + 1)]


def test_patterns_are_counted() -> None:
    """By the numbers of Bell: 1, 2, 5, 15, 52, 203 ways to tell draws apart."""
    assert [sum(1 for _ in patterns(n)) for n in range(1, 7)] == [1, 2, 5, 15, 52, 203]


@pytest.mark.parametrize("n", range(1, 7))
@pytest.mark.parametrize("most", [1, 2, 5, 30])
def test_the_mixture_sums_to_one(n: int, most: int) -> None:
    """Exactly, but for what numbers of labels beyond ``most`` would add: 1/(most + 1) in all."""
    total = sum(oracle.pattern_mixture(counts_of(x), most) for x in patterns(n))
    assert total == 1 - Fraction(1, most + 1)


@pytest.mark.parametrize("n", range(1, 6))
def test_each_pattern_is_the_sum_of_its_heirs(n: int) -> None:
    for x in patterns(n):
        c = counts_of(x)
        heirs = [[k + (i == j) for i, k in enumerate(c)] for j in range(len(c))] + [[*c, 1]]
        total = sum(oracle.pattern_mixture(heir, 12) for heir in heirs)
        assert total == oracle.pattern_mixture(c, 12)


def test_the_order_of_labels_does_not_matter() -> None:
    for c in ([3, 1], [1, 2, 4], [5, 1, 1, 2]):
        assert oracle.pattern_mixture(c, 9) == oracle.pattern_mixture(c[::-1], 9)


@pytest.mark.parametrize("p", [(1,), (1, 1), (5, 1), (3, 2, 1), (1, 1, 1, 7)])
def test_its_ratio_to_the_truth_is_a_martingale(p: tuple[int, ...]) -> None:
    """From one draw to the next, whatever came; and so of mean one. Exactly, for all sequences.

    The truth of a pattern: p_j for a repetition, and for a first all that did not come yet. Without
    the latter, which is at most 1, the mean is at most one: that is what the ball rests on.
    """
    share, most = [Fraction(x, sum(p)) for x in p], 8

    def truth(draws: tuple[int, ...]) -> tuple[Fraction, Fraction]:
        """The probability of the pattern of draws, and of its repetitions alone."""
        whole = again = Fraction(1)
        for i, j in enumerate(draws):
            seen = set(draws[:i])
            if j in seen:
                whole, again = whole * share[j], again * share[j]
            else:
                whole *= 1 - sum(share[x] for x in seen)
        return whole, again

    def ratio(draws: tuple[int, ...]) -> Fraction:
        c = [draws.count(j) for j in dict.fromkeys(draws)]
        return oracle.pattern_mixture(c, most) / truth(draws)[0]

    start = 1 - Fraction(1, most + 1)
    for n in range(1, 4):
        mean = weaker = Fraction(0)
        for draws in product(range(len(p)), repeat=n):
            chance = math.prod((share[j] for j in draws), start=Fraction(1))
            whole, again = truth(draws)
            mean += chance * ratio(draws)
            weaker += chance * ratio(draws) * whole / again
            if len(p) > len(set(draws)):  # else a first has the chance 0, and m keeps some for it
                heirs = sum(share[j] * ratio((*draws, j)) for j in range(len(p)))
                assert heirs == ratio(draws)
        assert weaker <= mean <= start
        if n <= len(p):  # else some patterns cannot come
            assert mean == start


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(1, 6), min_size=1, max_size=5))
def test_the_oracle_is_the_mixture(counts: list[int]) -> None:
    """Sixty digits against rationals, with as many terms."""
    again = [c - 1 for c in counts]
    best = oracle.ln_likelihood(again) if sum(again) else Decimal(0)
    for terms in (2, 3, 40):
        exact = oracle.ln(oracle.pattern_mixture(counts, len(counts) + terms - 1))
        found = oracle.pattern_excess(counts, terms).high
        with localcontext(prec=oracle.DIGITS):
            assert abs(found - (best - exact)) < Decimal("1e-45")


count = st.one_of(st.integers(1, 3), st.integers(1, 100), st.integers(1, 10**18))


@pytest.mark.slow
@settings(max_examples=many(20, 60), deadline=None)
@given(st.lists(count, min_size=1, max_size=5))
def test_excess_of_a_pattern(counts: list[int]) -> None:
    """Never smaller; hardly larger, as terms are left out or made smaller.

    In a block of numbers of labels up to 1/12 larger than its first, by (13/12)^-(n + D) at most.
    """
    found, exact = fast_excess([counts])[0], oracle.pattern_excess(counts)
    size = CLOSE * max(1.0, float(exact.high) / 100)
    assert found >= float(exact.low) - size
    if sum(counts) > len(counts):  # else nothing was repeated, and there is no ball
        assert found <= float(exact.low) + 0.04


@pytest.mark.parametrize(
    "counts", [[2], [10**18], [10**18, 1], [10**6, 3, 1], [10**9] * 4, [39, 40, 41], [2] * 50]
)
def test_excess_of_small_and_huge_patterns(counts: list[int]) -> None:
    found, exact = fast_excess([counts])[0], oracle.pattern_excess(counts)
    assert float(exact.low) - CLOSE <= found <= float(exact.low) + (1e-3 if len(counts) < 5 else 2)


def test_by_hand() -> None:
    """One label in two draws: sum_k 1/(k(k+1)) 3/(2+k) = 3/4, and ML is 1."""
    assert fast_excess([[2]])[0] == pytest.approx(math.log(4 / 3), abs=1e-3)
    assert fast_excess([[1]])[0] == pytest.approx(0, abs=2e-3)  # a first is no surprise
    assert fast_excess([[1, 1]])[0] == pytest.approx(math.log(4), abs=1e-2)  # 1 - 3/4


def test_labels_that_did_not_come_are_not_counted() -> None:
    rows = [[3, 4, 1], [0, 3, 0, 4, 1, 0], [1, 4, 3], [], [0, 0], [10**18, 7]]
    found = fast_excess(rows)
    assert found[1] == found[0]
    assert found[2] == pytest.approx(found[0], abs=CLOSE)
    assert found[3] == found[4] == 0
    assert found == [fast_excess([row])[0] for row in rows]


def test_many_labels_cost_what_they_show() -> None:
    """A hundred times each of ten labels: hardly more than if the ten had been named before."""
    named = float(oracle.dirichlet_excess([100] * 10))
    assert named < fast_excess([[100] * 10])[0] < named + math.log(10 * 11) + 10 * math.log(10)
