"""Bounds again, from more counts: warm, in threads, without the difference; and the logarithm."""

from __future__ import annotations

from math import log1p
from typing import Any
from unittest import mock

import numba
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.certified_cases import Case, cases, random_budgets
from oracles.open_world import steps_of
from ucfh import make, simulate
from ucfh._kernels import kl_ball
from ucfh.algorithms import exploration
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.confidence import value_bounds as module
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.confidence.value_bounds import Bounds
from ucfh.sparse_counts import END, LOST, SparseCounts, Steps

SEARCHED = kl_ball.CLOSE**2 / 4 + 10 * kl_ball.NEAR_ZERO  # as in test_kl_ball.py
ALL = ("U", "L", "W", "D", "E", "M", "up", "low", "greedy", "rival", "branch")
FROM_ABOVE = ("U", "E", "M", "up", "greedy")

weigh = kl_ball.weigh_ball


@numba.njit
def weighed(y: Any) -> Any:
    """The sums of a row whose one entry is y below the best value, at x = 1."""
    c, v = np.ones(1), np.zeros(1)
    v[0] = -y
    return weigh(0, 1, c, v, 0.0, 1.0)


def test_logarithms_are_rounded_down() -> None:
    """By no more than the series leaves out; the library's is off by an ulp at most."""
    powers = 2.0 ** np.arange(12)
    for y in (*10.0 ** np.linspace(-18, 9, 500), *powers, *powers - 1, *np.nextafter(powers, 0)):
        found = weighed(float(y))
        exact = log1p(y)
        assert exact * (1 - 3e-9) <= found.log <= exact * (1 + 5e-16)
        assert found.w == pytest.approx(y / (1 + y), rel=1e-15)
        assert found.square == pytest.approx((y / (1 + y)) ** 2, rel=1e-15)


def same(one: Bounds, other: Bounds, names: tuple[str, ...]) -> None:
    for name in names:
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), name)


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 99), st.integers(2, 4))
def test_threads_find_the_same_bits(case: Case, seed: int, many: int) -> None:
    alone = random_budgets(case, seed).bounds(case.counts)
    with (
        mock.patch.object(module, "MIN_PARALLEL", 0),
        mock.patch.object(module, "cores", return_value=many),
    ):
        together = random_budgets(case, seed).bounds(case.counts)
    same(together, alone, ALL)


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 99))
def test_from_above_alone_is_the_same(case: Case, seed: int) -> None:
    best = random_budgets(case, seed)
    b = best.bounds(case.counts, difference=False)
    same(b, random_budgets(case, seed).bounds(case.counts), FROM_ABOVE)
    assert b.difference == np.inf
    assert b.lower == 0
    assert not best.L.any()


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 99))
def test_a_warm_search_ends_where_a_fresh_one_does(case: Case, seed: int) -> None:
    """Whatever x was found before."""
    fresh, warm = random_budgets(case, seed), random_budgets(case, seed)
    rng = np.random.default_rng(seed)
    for x in warm.roots:  # as after other counts: anything from 0 to far beyond all values
        x[:] = 10.0 ** rng.uniform(-9, 9, x.shape) * (rng.random(x.shape) < 0.8)
    one, two = fresh.bounds(case.counts), warm.bounds(case.counts)
    close = 2 * SEARCHED * case.problem.horizon**2 + 1e-9
    for name in "ULWD":
        np.testing.assert_allclose(getattr(two, name), getattr(one, name), atol=close, rtol=0)
    again = warm.bounds(case.counts)
    assert (again.U <= two.U).all()
    assert (again.L >= two.L).all()


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 999), st.booleans())
def test_an_open_world_replans_as_if_for_the_first_time(seed: int, closed: bool) -> None:
    """With outcomes that are lost, noisy rewards, states with fewer actions and one with none."""
    rng = np.random.default_rng(seed)
    H, data = 3, SparseCounts(3, 2)
    for available in ([True, True], [False, True], [True, True]):
        data.find(np.array(available))
    warm = UnknownStateBounds(H, 0.1, closed=closed)
    for _ in range(3):
        data.add(episodes(rng, data, int(rng.integers(1, 30))))
        b = warm.bounds(data)
        fresh = UnknownStateBounds(H, 0.1, closed=closed).bounds(data)
        close = 2 * SEARCHED * H**2 + 1e-9
        assert (fresh.U + close >= b.U).all()
        assert (fresh.L - close <= b.L).all()
        assert b.upper <= fresh.upper + close
        np.testing.assert_array_equal(b.greedy, fresh.greedy)


def episodes(rng: Any, data: SparseCounts, many: int) -> Steps:
    """Episodes of states 1 to 3 that take any action, end at times, and lose some outcomes."""
    rows, starts = [], []
    for _ in range(many):
        s = int(rng.integers(1, 4))
        starts.append(s)
        for t in range(data.horizon):
            a = int(rng.choice(np.flatnonzero(data.available(s))))
            after = int(rng.choice([LOST, END, 1, 2, 3], p=[0.1, 0.1, 0.3, 0.2, 0.3]))
            rows.append((t, s, a, float(rng.integers(0, 3)) / 2, after))
            if after in (LOST, END):
                break
            s = after
    return steps_of(rows, starts)


def test_all_is_bounded_before_a_certificate() -> None:
    """However seldom the difference is bounded until then."""
    mdp, bounds, left_out = make("chain:n=5"), KnownStateBounds.bounds, []

    def noted(self: KnownStateBounds, data: Any, difference: bool = True) -> Bounds:
        left_out.append(not difference)
        return bounds(self, data, difference)

    with (
        mock.patch.object(exploration, "LONG_ROUTE", 1e-9),
        mock.patch.object(exploration, "OUTCOME_GROWTH", 1.3),
        mock.patch.object(KnownStateBounds, "bounds", noted),
    ):
        agent = CertifiedUCFH(mdp.problem, 0.5, 0.1)
        simulate(mdp, agent, seed=0)
    assert agent.done
    assert sum(left_out) > 3
    assert not left_out[-1]
