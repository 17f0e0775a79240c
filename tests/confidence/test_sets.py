"""Confidence sets of whole problems, against slow ones, and planning over them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracles import certified as oracle
from oracles import mixtures
from oracles import reference as ref
from oracles.certified_cases import Case, cases, draw_case
from ucfh._kernels import kl_ball
from ucfh.confidence.sets import ALWAYS, AT_DOUBLINGS, PREFERENCE, ModelSet
from ucfh.counts import Counts
from ucfh.exceptions import InputError
from ucfh.mdp import Problem

KINDS = AT_DOUBLINGS + ALWAYS
BOXES = ("paper", "kl", "kt")
kinds = st.sampled_from(KINDS)


def sets_of(case: Case, kind: str, delta: float = 0.1, updates: int = 3) -> ModelSet:
    """The sets after some updates of every row."""
    sets = ModelSet(case.problem, delta, kind)
    sets.learn(case.counts, np.full(case.problem.table.rows, updates))
    return sets


def radius_of(sets: ModelSet) -> Any:
    """(rows,) the radius of each ball."""
    return sets._eta


def count_events(problem: Problem) -> tuple[int, int]:
    """Single probabilities, and rows, that are unknown; each unknown reward is one more."""
    C = list(problem.table.lengths[:-1])
    if problem.initial is None:
        C.append(problem.table.lengths[-1])
    rewards = 0
    if problem.rewards is None:
        rewards = problem.table.start
        for s in problem.terminal:  # pays nothing
            rewards -= len(oracle.rows_at(problem, 0, s)) * problem.table.segments
    singles = sum({1: 0, 2: 1}.get(int(c), int(c)) for c in C)
    return max(1, singles + rewards), max(1, sum(c > 1 for c in C) + rewards)


def kl_ends(p: float, n: int, budget: float) -> tuple[float, float]:
    """All q with n kl(p, q) <= budget."""

    def inside(q: float, p_hat: float, visits: int, level: float) -> Any:
        del level
        return np.bool_(visits * ref.kl(p_hat, q) <= budget)

    return ref.hull_by_bisection(inside, p, n, 0.0)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(BOXES), st.integers(1, 40))
def test_intervals_of_single_probabilities(case: Case, kind: str, j: int) -> None:
    problem, counts, delta = case.problem, case.counts, 0.1
    box = sets_of(case, kind, delta, j).box
    assert box is not None
    share = delta / count_events(problem)[0]
    for row in range(problem.table.rows):
        of = oracle.row_of(problem, row)
        n = int(counts.visits[row])
        told = row == problem.table.start and problem.initial is not None
        for e, s in zip(of.entries, of.states, strict=True):
            found = float(box.lo[e]), float(box.hi[e])
            k = int(counts.successors[e])
            if len(of.entries) == 1:
                assert found == (1, 1)
            elif told:
                assert problem.initial is not None
                assert found == (problem.initial[s], problem.initial[s])
            elif n == 0:
                assert found == (0, 1)
            elif kind == "kt":
                beyond = float(mixtures.dirichlet_excess((k, n - k)))
                expected = kl_ends(k / n, n, math.log(1 / share) + beyond)
                assert found == pytest.approx(expected, abs=1e-9)
                assert found[0] <= expected[0]
                assert found[1] >= expected[1]
            else:
                slow = {
                    "paper": ref.printed_hull_by_bisection,
                    "kl": ref.kl_hull_by_bisection,
                }
                expected = slow[kind](k / n, n, share / (j * (j + 1)))
                assert found == pytest.approx(expected, abs=1e-7)


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from(["l1", "kl-ball", "kt-ball"]), st.integers(1, 40))
def test_radii_of_balls(case: Case, kind: str, j: int) -> None:
    problem, counts, delta = case.problem, case.counts, 0.1
    radius = radius_of(sets_of(case, kind, delta, j))
    share = delta / count_events(problem)[1]
    for row in range(problem.table.rows - (problem.initial is not None)):
        c = [int(counts.successors[e]) for e in oracle.row_of(problem, row).entries]
        n, C = sum(c), len(c)
        if n == 0 or C == 1:
            continue
        expected = {
            "l1": math.sqrt(2 / n * math.log((2**C - 2) * j * (j + 1) / share)),
            "kl-ball": (math.log(1 / share) + (C - 1) * math.log(math.e * (1 + n / (C - 1)))) / n,
            "kt-ball": (math.log(1 / share) + float(mixtures.dirichlet_excess(c))) / n,
        }
        assert radius[row] == pytest.approx(expected[kind], rel=1e-10)
        assert radius[row] >= expected[kind]


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(cases(hide=("rewards",)), kinds, st.integers(1, 9))
def test_bounds_of_unknown_rewards(case: Case, kind: str, j: int) -> None:
    problem, counts = case.problem, case.counts
    sets = sets_of(case, kind, 0.1, j)
    events = count_events(problem)[0 if kind in BOXES else 1]
    for row in range(problem.table.start):
        n = int(counts.visits[row])
        low, high = (float(x[row]) for x in reward_bounds(sets))
        if problem.table.pair_of(row)[1] in problem.terminal:
            assert (low, high) == (0, 0)
            continue
        if n == 0:
            assert (low, high) == (0, 1)
            continue
        budget = math.log(2 * events * j * (j + 1) / 0.1)
        if kind in ALWAYS:
            budget = math.log(events / 0.1) + float(mixtures.portfolio_regret(n))
        paid = math.fsum(counts.rewards[problem.table.entries_of(row)])
        mean = min(1.0, paid / n)
        expected = kl_ends(mean, n, budget)
        assert (low, high) == pytest.approx(expected, abs=1e-9)


def reward_bounds(sets: ModelSet) -> tuple[Any, Any]:
    """(rows - 1,) each."""
    if sets.box is not None:
        return sets.box.reward_lo[:-1], sets.box.reward_hi[:-1]
    return sets._reward_bounds


# -- planning ------------------------------------------------------------------------------------


def slow_value(case: Case, sets: ModelSet, optimistic: bool) -> float:
    """The best policy's value in the best or worst member of the sets, row by row."""
    problem, counts, sign = case.problem, case.counts, 1 if optimistic else -1
    belief = oracle.Belief(problem, counts, *[np.zeros(problem.table.rows)] * 6)

    def pays(t: int, row: oracle.Row) -> float:
        """Return the reward of a row that is independent of the next state: known, or its bound."""
        if problem.rewards is not None:
            return belief.told(t, row)
        return float(reward_bounds(sets)[optimistic][row.number])

    def worth(t: int, row: oracle.Row, V: list[float]) -> list[float]:
        """Return the value of each successor plus its known reward."""
        if problem.rewards is None:
            return [V[j] for j in row.states]
        return [x.reward + V[x.state] for x in belief.listed(t, row)]

    def mean(row: oracle.Row, f: list[float]) -> float:
        c = belief.seen(row)
        if sets.box is not None:
            lo, hi = (np.array([x[e] for e in row.entries]) for x in (sets.box.lo, sets.box.hi))
            return ref.greedy_expectation(lo, hi, np.array(f), optimistic)
        radius = float(radius_of(sets)[row.number])
        slow = oracle.l1_reach if sets.kind == "l1" else oracle.reach
        return slow(c, f, radius, sign)

    V = [0.0] * problem.states
    for t in reversed(range(problem.horizon)):
        V = [
            max(pays(t, row) + mean(row, worth(t, row, V)) for row in oracle.rows_at(problem, t, s))
            for s in range(problem.states)
        ]
    if problem.initial is not None:
        return float(problem.initial @ np.array(V))
    start = oracle.row_of(problem, problem.table.start)
    return mean(start, [V[s] for s in start.states])


@settings(max_examples=60, deadline=None)
@given(cases(), kinds, st.booleans())
def test_planning_finds_the_best_and_the_worst(case: Case, kind: str, optimistic: bool) -> None:
    sets, H = sets_of(case, kind), case.problem.horizon
    policy, value = sets.plan(case.counts, optimistic)
    expected = slow_value(case, sets, optimistic)
    # what breaking ties costs, and what the search of balls leaves, which is second order
    off = H * case.problem.actions * PREFERENCE + H**2 * kl_ball.CLOSE**2 / 2 + 1e-7
    assert value == pytest.approx(expected, abs=off)
    if kind != "l1":  # the linear program is right up to 1e-9 or so
        assert (value - expected) * (1 if optimistic else -1) >= -1e-12 * H
    assert policy.shape == (H, case.problem.states)
    case.problem.table.rows_of(policy, H)  # actions that there are


def contains_the_truth(case: Case, sets: ModelSet) -> bool:
    """Return True if the true transitions and rewards lie in the sets."""
    problem, p = case.problem, case.p
    if problem.rewards is None:
        table = problem.table
        r = np.broadcast_to(case.mean_rewards, (table.segments, table.pairs)).ravel()
        low, high = reward_bounds(sets)
        if not ((low <= r) & (r <= high)).all():
            return False
    if sets.box is not None:
        return bool(((sets.box.lo <= p) & (p <= sets.box.hi)).all())
    for row in range(problem.table.rows - (problem.initial is not None)):
        of = oracle.row_of(problem, row)
        c, q = [int(case.counts.successors[e]) for e in of.entries], [p[e] for e in of.entries]
        n = sum(c)
        if n == 0:
            continue
        away = sum(abs(x / n - y) for x, y in zip(c, q, strict=True))
        if sets.kind != "l1":
            away = oracle.relative_entropy(c, q)
        if away > radius_of(sets)[row]:
            return False
    return True


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(cases(honest=True, visits=(0, 1, 3, 10, 100)), kinds)
def test_truth_within_means_values_between(case: Case, kind: str) -> None:
    """p in the sets implies U >= V* and V^pi >= Lo for the robust policy pi."""
    # budgets so small that sets are tight, and yet often hold
    sets = sets_of(case, kind, delta=1.0, updates=1)
    assume(contains_the_truth(case, sets))
    mdp, tiny = case.mdp, 1e-12 * case.problem.horizon
    optimum = mdp.at_start(mdp.optimal().values)
    _, upper = sets.plan(case.counts, optimistic=True)
    robust, lower = sets.plan(case.counts, optimistic=False)
    assert upper >= optimum - tiny
    assert lower <= mdp.value(robust) + tiny


@pytest.mark.parametrize("kind", ["kt", "kl-ball", "kt-ball"])
@pytest.mark.parametrize("n", [1, 10**6, 10**12, 10**18])
def test_any_number_of_visits(n: int, kind: str) -> None:
    """The bounds shrink like sqrt(ln n / n), and keep what was seen inside."""
    problem = Problem(2, 1, 2, rewards=[[0], [1]], initial=0)
    counts = Counts.zero(problem)
    counts.successors[:2], counts.visits[0] = (n - n // 3, n // 3), n
    sets = ModelSet(problem, 0.1, kind)
    sets.learn(counts, np.ones(problem.table.rows, np.int64))
    (_, upper), (_, lower) = (sets.plan(counts, x) for x in (True, False))
    mean = n // 3 / n
    size = math.sqrt(2 * (2 / 9) * (math.log(2 / 0.1) + 2 * math.log(n + 3)) / n)
    assert lower <= mean <= upper
    if n > 1:
        assert upper - 2e-10 - mean < 2 * size
        assert mean - lower < 2 * size
        assert upper - lower > 0.3 * size


def test_ties_go_to_the_action_visited_least() -> None:
    problem = Problem(2, 3, 2, rewards=np.full((2, 3), 0.5), initial=0)
    for kind in KINDS:
        counts = Counts.zero(problem)
        for row, visits in enumerate((4, 2, 8, 0, 4, 4)):
            counts.visits[row] = visits
            counts.successors[2 * row] = counts.successors[2 * row + 1] = visits // 2
        sets = ModelSet(problem, 0.1, kind)
        sets.learn(counts, np.ones(problem.table.rows, np.int64))
        policy, upper = sets.plan(counts, optimistic=True)
        assert policy.tolist() == [[1, 0], [1, 0]]
        assert upper == pytest.approx(1, abs=1e-8)
        assert upper >= 1


def test_nothing_seen_is_anything() -> None:
    case = draw_case(0, visits=(0,), hide=("rewards", "initial", "successors"))
    for kind in KINDS:
        sets = sets_of(case, kind, updates=0)
        assert sets.plan(case.counts, optimistic=True)[1] == pytest.approx(3, abs=1e-8)
        assert sets.plan(case.counts, optimistic=False)[1] == 0


def test_wrong_arguments() -> None:
    problem = draw_case(0).problem
    with pytest.raises(InputError, match="unknown confidence set 'kt-bal': did you mean 'kt-ball'"):
        ModelSet(problem, 0.1, "kt-bal")
    with pytest.raises(InputError, match=r"delta = 0 is outside \(0, 1\]"):
        ModelSet(problem, 0, "kt")
