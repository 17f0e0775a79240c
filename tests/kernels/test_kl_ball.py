"""Means over balls, against bisection with sixty digits, linear programming and every policy."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import minimize

from oracles import certified as oracle
from oracles.certified_cases import Case, cases, random_budgets
from oracles.mixtures import DIGITS
from support.settings import many
from ucfh._kernels import certificates, kl_ball, l1
from ucfh._kernels.types import CountArrays, Layout

ROUNDED = 3e-14  # how far outward, relative to the values: ROUNDING, and the sums themselves
# x is searched until KL is right up to CLOSE: to second order, CLOSE^2/8 of the way from the mean
SEARCHED = kl_ball.CLOSE**2 / 4 + 10 * kl_ball.NEAR_ZERO


def fast(counts: list[int], V: list[float], eta: float, sign: int) -> float:
    """`kl_ball.reach` of one row whose successors are 0, 1, ..."""
    layout, seen = alone(counts)
    return float(kl_ball.reach(0, layout, seen, np.array([eta]), np.array(V, float), float(sign)))


def alone(counts: list[int]) -> tuple[Layout, CountArrays]:
    """One row, whose successors are 0, 1, ..., with these counts."""
    none, ends = np.zeros(0, np.int64), np.array([0, len(counts)])
    every, n = np.arange(len(counts), dtype=np.int32), np.array([sum(counts)], np.int64)
    return Layout(none, none, ends, every, 0), CountArrays(np.array(counts, np.int64), n)


def exact(counts: list[int], V: list[float], eta: float, sign: int) -> tuple[Decimal, Decimal]:
    """The bound times the sign, and the mean times the sign, to twenty digits."""
    with localcontext(prec=DIGITS):
        values = [sign * v for v in V]
        best, n = oracle.ball_max(counts, values, eta), sum(counts)
        pairs = zip(counts, oracle.decimals(values), strict=True)
        return best, sum((c * v for c, v in pairs), Decimal(0)) / n if n else best


def check(counts: list[int], V: list[float], eta: float, sign: int) -> None:
    """Not within the ball, and hardly beyond it."""
    best, mean = exact(counts, V, eta, sign)
    found = Decimal(sign * fast(counts, V, eta, sign))
    size = max(map(abs, V)) + max(V) - min(V)
    own = Decimal("1e-40")  # how far the oracle may be off itself
    with localcontext(prec=DIGITS):
        assert found >= best - own
        assert found <= best + own + Decimal(ROUNDED * size) + Decimal(SEARCHED) * (best - mean)


value = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 10), st.floats(1, 1 + 1e-8))
visits = st.one_of(st.integers(0, 3), st.integers(0, 1000), st.integers(0, 10**18))


@st.composite
def rows(draw: st.DrawFn) -> tuple[list[int], list[float], float]:
    """Counts, values and a budget, of which some are as a certificate would have them."""
    C = draw(st.integers(1, 4))
    counts = draw(st.lists(visits, min_size=C, max_size=C))
    V = draw(st.lists(value, min_size=C, max_size=C))
    budget = draw(st.floats(0.01, 100))
    n = max(1, sum(counts)) if draw(st.booleans()) else draw(st.sampled_from([1, 30, 10**9]))
    return counts, V, budget / n


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(rows(), st.sampled_from([1, -1]))
def test_reach_is_the_largest_mean_rounded_outward(
    row: tuple[list[int], list[float], float], sign: int
) -> None:
    check(*row, sign)


@pytest.mark.slow
@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize("n", [1, 10, 1000, 10**6, 10**12, 10**15, 10**18])
def test_reach_at_any_n(n: int, sign: int) -> None:
    for share in (0.0, 0.001, 0.3, 0.5, 1.0):
        k = int(share * n)
        check([k, n - k, 0], [0.0, 1.0, 0.7], 25 / n, sign)
        check([k, n - k], [3.0, 1.0], 1 / n, sign)


def test_a_naive_bound_is_wrong_at_large_n() -> None:
    """nu - exp(...) as it is printed loses the bound in rounding: nu is of size sqrt(n)."""
    n = 10**18
    counts, V, eta = [n // 2, n // 2], [0.0, 1.0], 25 / n
    nu = 1 + 0.5 / math.sqrt(2 * eta)
    naive = nu - math.exp(
        sum(c / n * math.log(nu - v) for c, v in zip(counts, V, strict=True)) - eta
    )
    best, mean = exact(counts, V, eta, 1)
    assert abs(Decimal(naive) - best) > 10 * (best - mean)


def test_reach_of_special_rows() -> None:
    assert fast([0, 0, 0], [1.0, 3.0, 2.0], 0.1, 1) == 3  # no visits: the whole simplex
    assert fast([0, 0, 0], [1.0, 3.0, 2.0], 0.1, -1) == 1
    assert fast([5], [2.0], 0.1, 1) == fast([5], [2.0], 0.1, -1) == 2
    assert fast([3, 4], [2.0, 2.0], 0.1, 1) == 2
    assert fast([3, 1], [0.0, 1.0], 0.0, 1) == 0.25  # no budget: the mean
    # one value seen, another possible: q = (e^-eta, 1 - e^-eta)
    assert fast([9, 0], [0.0, 1.0], 0.5, 1) == pytest.approx(1 - math.exp(-0.5), abs=1e-6)
    # a budget that allows anything
    assert fast([1, 1], [0.0, 1.0], 700.0, 1) == pytest.approx(1, abs=1e-12)


@pytest.mark.slow
def test_the_oracle_is_certain_of_itself() -> None:
    """Its point lies in the ball, and a dual bound says that none in the ball is better."""
    rng = np.random.default_rng(0)
    for _ in range(many(12, 40)):
        C = int(rng.integers(2, 6))
        counts = [int(c) for c in rng.multinomial(10 ** rng.integers(0, 18), np.ones(C) / C)]
        counts[0] *= int(rng.integers(2))
        if sum(counts) == 0:
            counts[0] = 1
        V = [float(v) for v in rng.integers(0, 4, C) / 2]
        eta = float(10 ** rng.uniform(-2, 1.5) / sum(counts))
        values = oracle.decimals(V)
        with localcontext(prec=DIGITS):
            q = oracle.extreme_point(counts, values, Decimal(eta), Decimal(1))
            n, tiny = sum(counts), Decimal("1e-17")
            kl = sum(
                Decimal(c) / n * (Decimal(c) / n / x).ln()
                for c, x in zip(counts, q, strict=True)
                if c
            )
            assert abs(sum(q) - 1) < Decimal("1e-40")
            assert min(q) >= 0
            assert kl <= Decimal(eta) * (1 + tiny)
            primal = sum(x * v for x, v in zip(q, values, strict=True))
            assert primal == oracle.ball_max(counts, V, eta)
            span = max(values) - min(v for c, v in zip(counts, values, strict=True) if c)
            if span == 0:
                continue
            exponents = np.arange(-30, 20, 0.25)
            coarse = min(
                oracle.dual_value(counts, values, Decimal(eta), span * Decimal(10.0**k))
                for k in exponents
            )
            assert primal <= coarse
            assert float(coarse - primal) <= 0.05 * float(coarse)


@pytest.mark.slow
def test_reach_against_a_general_solver() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        counts = [int(c) for c in rng.integers(1, 20, 4)]
        V, eta = [float(v) for v in rng.random(4)], float(rng.uniform(0.01, 1))
        p = np.array(counts) / sum(counts)
        inside: Any = {
            "type": "ineq",
            "fun": lambda q, p=p, eta=eta: eta - (p * np.log(p / q)).sum(),
        }
        total: Any = {"type": "eq", "fun": lambda q: q.sum() - 1}
        loss: Any = lambda q, V=V: -np.dot(q, V)  # noqa: E731
        found: Any = minimize(
            loss,
            p,
            bounds=[(1e-9, 1)] * 4,
            constraints=[inside, total],
            options={"ftol": 1e-12, "maxiter": 500},
        )
        assert fast(counts, V, eta, 1) == pytest.approx(-found.fun, abs=1e-5)
        assert oracle.reach(counts, V, eta, 1) == pytest.approx(-found.fun, abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(rows(), st.sampled_from([1, -1]), st.floats(0, 2.5))
def test_l1_reach_is_a_linear_program(
    row: tuple[list[int], list[float], float], sign: int, d: float
) -> None:
    counts, V, _ = row
    layout, seen = alone(counts)
    found = l1.reach(0, layout, seen, np.array([d]), np.array(V), np.zeros(0), float(sign))
    # the solver keeps its constraints to 1e-7, and values are at most 5
    assert found == pytest.approx(oracle.l1_reach(counts, V, d, sign), abs=1e-6)


@settings(max_examples=60, deadline=None)
@given(rows(), st.data())
def test_entropy_and_reach_are_inverse(
    row: tuple[list[int], list[float], float], data: st.DataObject
) -> None:
    """The least KL to a mean is the budget whose ball reaches it (small numbers only: floats)."""
    counts, V, _ = row
    counts = [c % 50 for c in counts]
    if sum(counts) == 0 or max(V) - min(V) < 1e-3:
        return
    mean = sum(c * v for c, v in zip(counts, V, strict=True)) / sum(counts)
    mu = mean + data.draw(st.floats(0.01, 0.9)) * (max(V) - mean)
    eta = oracle.least_entropy(counts, V, mu)
    if mu > mean:
        assert oracle.reach(counts, V, eta, 1) == pytest.approx(mu, abs=1e-6)


# -- recursions ----------------------------------------------------------------------------------


def near(found: Any, expected: Any, horizon: int) -> None:
    """As near as the search for x comes, step by step; all values are within [0, H]."""
    np.testing.assert_allclose(found, expected, atol=2 * SEARCHED * horizon**2 + 1e-9, rtol=0)


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 99))
def test_bounds_are_the_recursion(case: Case, seed: int) -> None:
    best = random_budgets(case, seed, ("overlap",))
    b = best.bounds(case.counts)
    slow = oracle.recursion(best.belief(case.counts), b.greedy)
    for name in "ULWD":
        near(getattr(b, name), getattr(slow, name), case.problem.horizon)


def test_growth_is_a_lower_bound() -> None:
    """weight ((1 + w/distance)^p - 1), from below, and close for small w."""
    w, distance = 10.0 ** np.arange(-8, 9), 10.0 ** np.arange(-3, 4)[:, None]
    for p in (0.0, 1e-6, 0.1, 0.5, 0.9, 1 - 1e-6, 1.0):
        exact = 2.0 * np.expm1(p * np.log1p(w / distance))
        found = np.array([[certificates._growth(2.0, p, d, x) for x in w] for d in distance[:, 0]])
        assert (found <= exact * (1 + 1e-12)).all()
        near = w < 1e-3 * distance
        np.testing.assert_allclose(found[near], exact[near], rtol=1e-6)


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 99))
def test_overlap_only_tightens_the_difference(case: Case, seed: int) -> None:
    one, other = (random_budgets(case, seed, x) for x in ((), ("overlap",)))
    with_it, without = one.bounds(case.counts), other.bounds(case.counts)
    H = case.problem.horizon
    np.testing.assert_array_equal(with_it.U, without.U)
    np.testing.assert_array_equal(with_it.L, without.L)
    assert (with_it.D <= without.D + 1e-12 * H).all()
    assert (with_it.W >= without.W - 1e-12 * H).all()


@settings(max_examples=60, deadline=None)
@given(cases(), st.integers(0, 99))
def test_the_greedy_policy_is_optimal_in_the_empirical_model(case: Case, seed: int) -> None:
    """Rows without visits lead nowhere there, unless one successor is certain, and its reward."""
    best = random_budgets(case, seed)
    b = best.bounds(case.counts)
    belief = best.belief(case.counts)
    H, S = case.problem.horizon, case.problem.states
    E, M = np.zeros((H + 1, S)), np.zeros((H + 1, S))
    for t in reversed(range(H)):
        for s in range(S):
            worth = {}
            for row in oracle.rows_at(case.problem, t, s):
                r, n = belief.told(t, row), sum(belief.seen(row))
                listed = [(x.c, r + x.reward, x.state) for x in belief.listed(t, row)]
                if len(row.states) == 1 and not belief.pays(row):
                    listed, n = [(1, *listed[0][1:])], 1
                if n == 0:
                    worth[row.number] = r, r * r
                    continue
                later = [(x / n, y, j) for x, y, j in listed]
                mean = sum(x * (y + E[t + 1, j]) for x, y, j in later)
                square = sum(x * (y * y + 2 * y * E[t + 1, j] + M[t + 1, j]) for x, y, j in later)
                worth[row.number] = mean, square
            E[t, s] = max(mean for mean, _ in worth.values())
            mean, M[t, s] = worth[int(b.greedy[t, s])]
            assert mean >= E[t, s] - 1e-11 * H
            E[t, s] = mean
    np.testing.assert_allclose(b.E, E, atol=1e-11 * H)
    np.testing.assert_allclose(b.M, M, atol=1e-11 * H * H)


@settings(max_examples=40, deadline=None)
@given(cases(), st.integers(0, 99))
def test_values_of_a_given_policy(case: Case, seed: int) -> None:
    best, rng = random_budgets(case, seed), np.random.default_rng(seed)
    best.update(case.counts)
    table, H = case.problem.table, case.problem.horizon
    options = [np.diff(table.first)] * H
    chosen = table.first[:-1] + rng.integers(0, np.array(options))
    rows = chosen + table.stride * np.arange(H)[:, None]
    belief = best.belief(case.counts)
    near(best.lower_values(rows), oracle.evaluate(belief, rows, -1), H)
    near(best.mean_values(rows), oracle.expected(belief, rows), H)
    most = at_start(case, belief, oracle.evaluate(belief, rows, 1)[0], 1)
    near(best.upper_value(rows), min(most, H), H)


def at_start(case: Case, belief: oracle.Belief, V: list[float], sign: int) -> float:
    """The mean of V (S,) over the start, from above or below where it is not told."""
    if case.problem.initial is not None:
        return float(case.problem.initial @ np.array(V))
    return belief.next(oracle.row_of(case.problem, case.problem.table.start), V, sign)


@settings(max_examples=25, deadline=None)
@given(cases(states=2, actions=2, horizon=2), st.integers(0, 99))
def test_the_robust_policy_is_the_best_of_all(case: Case, seed: int) -> None:
    best = random_budgets(case, seed)
    best.update(case.counts)
    belief = best.belief(case.counts)
    taken, value = best.robust()

    def worth(rows: Any) -> float:
        return at_start(case, belief, oracle.evaluate(belief, rows, -1)[0], -1)

    of_all = max(worth(rows) for rows in oracle.every_policy(case.problem))
    near(value, of_all, case.problem.horizon)
    near(worth(taken), of_all, case.problem.horizon)
