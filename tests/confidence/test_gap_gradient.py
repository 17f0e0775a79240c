"""Gap attribution to rows, and the exploration policy."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracles import certified as oracle
from oracles.certified_cases import Case, Given, Told, cases, random_budgets, told
from support.settings import many
from ucfh._kernels import gap_gradient as kernels
from ucfh._kernels import kl_ball
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.value_bounds import COMPONENTS
from ucfh.counts import Counts
from ucfh.mdp import MDP, Problem


def gap(best: Told, counts: Counts, given: Given, by_difference: bool) -> tuple[float, Any]:
    """The gap with other budgets, and which rows decided it."""
    fresh = told(best.problem, given, tuple(x for x in COMPONENTS if not best.enabled[x]))
    b = fresh.bounds(counts)
    value = fresh.start() @ (b.D[0] if by_difference else b.U[0])
    return float(value), (b.up, b.low, b.greedy, b.rival, b.branch)


def grown(given: Given, row: int, by: float) -> Given:
    """Return the bounds with the budgets of one row increased by a relative amount.

    The width of a mean reward goes with the root of its budget, so it grows by half of that.
    """
    out = replace(given, **{name: x.copy() for name, x in vars(given).items()})
    for budget in (out.up, out.low, out.every, out.outcomes):
        budget[row] *= 1 + by
    out.r_low[row] -= 0.5 * by * (given.r_up[row] - given.r_low[row])
    return out


def numeric_blame(best: Told, counts: Counts, by_difference: bool) -> Any:
    """eta d gap / d eta of every row, by differences; None if another row comes to decide."""
    h, out = 0.02, np.zeros(len(counts.visits))
    _, rows = gap(best, counts, best.given, by_difference)
    for row in np.flatnonzero(counts.visits):
        sides = []
        for by in (h, -h):
            value, decided = gap(best, counts, grown(best.given, int(row), by), by_difference)
            if not all(np.array_equal(x, y) for x, y in zip(rows, decided, strict=True)):
                return None
            sides.append(value)
        out[row] = (sides[0] - sides[1]) / (2 * h)
    return out


# the bounds themselves are known to about this part of themselves, and differences divide it by h
NUMERIC: dict[str, Any] = {"rtol": 0.02, "atol": 4 * 4 * (kl_ball.CLOSE**2 / 4) / 0.02}


@settings(max_examples=60, deadline=None)
@given(cases(visits=(3, 10, 100), hide=("successors",)), st.integers(0, 99))
def test_blame_is_the_derivative_of_the_upper_bound(case: Case, seed: int) -> None:
    check_upper(case, seed)


@settings(max_examples=60, deadline=None)
@given(cases(visits=(3, 10, 100), hide=("rewards",)), st.integers(0, 99))
def test_blame_where_rewards_are_unknown_too(case: Case, seed: int) -> None:
    check_upper(case, seed)


def check_upper(case: Case, seed: int) -> None:
    best = random_budgets(case, seed)
    expected = numeric_blame(best, case.counts, False)
    b = best.bounds(case.counts)
    # while nothing at all is known, no row is to blame more than another: see below
    assume(expected is not None and (expected.any() or b.upper < case.problem.horizon))
    np.testing.assert_allclose(best.attribute_gap(b, False), expected, **NUMERIC)


def test_while_nothing_is_known_whatever_was_seen_least() -> None:
    """All that was paid is the most that can be paid: no budget changes the bound from above."""
    problem = Problem(1, 2, 1, initial=0)
    best = KnownStateBounds(problem, 0.1)
    b = best.bounds(Counts([3, 1, 4], [3, 1, 4], [3, 1, 0], [1, 1, 0], [1, 1, 0]))  # type: ignore[arg-type]
    assert b.upper == 1
    assert best.attribute_gap(b, False).tolist() == [1 / 4, 1 / 2, 1 / 5]


def two_ways(seed: int, noise: str) -> Case:
    """States 0 to 4 with actions that lead to different states: nothing overlaps.

    Rewards are told, or unknown: always the same on the way to a state, or "bernoulli".
    """
    rng = np.random.default_rng(seed)
    p = np.zeros((5, 2, 5))
    p[:, 0, [1, 2]] = p[:, 1, [3, 4]] = 0.5
    mdp = MDP(p, rng.random((5, 2)), 3)
    problem = mdp.problem if noise == "told" else mdp.problem.hiding("rewards")
    counts = Counts.zero(problem)
    c = counts.successors[:] = rng.integers(3, 30, len(counts.successors))
    counts.visits[:] = np.add.reduceat(c, mdp.table.indptr[:-1])
    if noise == "none":
        counts.least[:] = counts.most[:] = rng.random(len(c))
        counts.rewards[:] = c * counts.least
    elif noise == "bernoulli":
        counts.rewards[:] = rng.integers(1, c)
        counts.least[:], counts.most[:] = 0.0, 1.0
    return Case(mdp, problem, counts)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["told", "none", "bernoulli"])
@pytest.mark.parametrize("overlap", [True, False])
def test_blame_is_the_derivative_of_the_difference(overlap: bool, noise: str) -> None:
    """If no two rows share a successor, neither W through V* nor D by U - W is tighter.

    The derivative is of what decided, by `Bounds.branch`; these two are no branches.
    """
    compared = 0
    ways: set[int] = set()
    for seed in range(many(90, 0), 170):  # of the first ninety, few can be compared
        case = two_ways(seed, noise)
        best = random_budgets(case, seed, () if overlap else ("overlap",))
        best.given.up *= 3
        best.given.low = 5 * (best.given.outcomes if noise == "none" else best.given.every)
        expected = numeric_blame(best, case.counts, True)
        b = best.bounds(case.counts)
        low = best.lower_values(b.greedy)
        by_both = (b.D >= b.U - b.W - 1e-9)[:-1] & (b.branch < 2) & (b.D[:-1] > 1e-9)
        if expected is None or (low + 1e-9 < b.W).any() or by_both.any():
            continue
        found = best.attribute_gap(b, True)
        np.testing.assert_allclose(found, expected, err_msg=str(seed), **NUMERIC)
        compared, ways = compared + 1, ways | {int(b.branch[0, 0])}
    assert compared >= 5
    assert ways >= {0, 2}


def test_blame_of_unknown_rewards() -> None:
    """Each of four steps answers for what is not known of its reward, and nothing else does."""
    problem = Problem(1, 1, 4, initial=0)
    counts = Counts.zero(problem)
    counts.visits[:], counts.successors[:], counts.rewards[0] = 20, 20, 7.0
    counts.least[0], counts.most[0] = 0.0, 1.0
    best = KnownStateBounds(problem, 0.1)
    b = best.bounds(counts)
    eta, h = float(best.eta_up[0]), 1e-4

    def bound(eta: float) -> float:
        return oracle.reach([13, 7], [0.0, 1.0], eta, 1)

    found = best.attribute_gap(b, False)
    slope = (bound(eta * (1 + h)) - bound(eta * (1 - h))) / (2 * h)
    assert 0 < slope < 1
    assert found[0] == pytest.approx(4 * slope, rel=0.02)
    assert found[1] == 0


def test_blame_of_rows_without_visits() -> None:
    """The share of such a row is the range of its successors' values."""
    r = np.array([[0.1, 0.0], [1.0, 1.0], [0.25, 0.25]])
    mdp = MDP(np.full((3, 2, 3), 1 / 3), r, 2)
    counts = Counts.zero(mdp.problem)
    best = KnownStateBounds(mdp.problem, 0.1)
    found = best.attribute_gap(best.bounds(counts), False)
    assert found.sum() == pytest.approx(1.0 - 0.1)
    assert found[0] == pytest.approx(1.0 - 0.1)  # row (0, 0), taken first; its values .1, 1, .25


@settings(max_examples=60, deadline=None)
@given(
    cases(states=2, actions=2, visits=(0, 1, 5, 40)),
    st.integers(0, 99),
    st.booleans(),
)
def test_exploring_collects_most(case: Case, seed: int, equal: bool) -> None:
    """Against every policy, and every successor that a row without visits may lead to."""
    problem, table, counts = case.problem, case.problem.table, case.counts
    assume(problem.horizon <= 3)
    rng = np.random.default_rng(seed)
    gain = np.ones(table.rows) if equal else rng.random(table.rows)
    H, S = problem.horizon, problem.states
    taken = np.zeros((H, S), np.int64)
    best = KnownStateBounds(problem, 0.1)
    best.update(counts)
    kernels.explore(best.rows, best.evidence, gain, np.zeros((2, S)), taken)

    def collected(rows: Any) -> Any:
        X = np.zeros(S)
        for t in reversed(range(H)):
            now = np.zeros(S)
            for s in range(S):
                row = oracle.row_of(problem, int(rows[t, s]))
                c = [int(counts.successors[e]) for e in row.entries]
                later = [X[j] for j in row.states]
                ahead = max(later)
                if sum(c):
                    ahead = sum(x * y for x, y in zip(c, later, strict=True)) / sum(c)
                now[s] = gain[row.number] + ahead
            X = now
        return X

    most = np.max([collected(rows) for rows in oracle.every_policy(problem)], axis=0)
    np.testing.assert_allclose(collected(taken), most, rtol=1e-8)
    for s in range(S):  # in the last step a tie is between equal gains
        last = oracle.rows_at(problem, H - 1, s)
        if equal:
            fewest = min(int(counts.visits[row.number]) for row in last)
            assert counts.visits[taken[H - 1, s]] == fewest


def paths_of(case: Case, rows: Any) -> list[tuple[float, list[int]]]:
    """Every path of the empirical model under rows (H, S), with its probability."""
    problem, counts = case.problem, case.counts
    p0 = problem.initial
    assert p0 is not None
    found = [(float(p0[s]), [s]) for s in range(problem.states) if p0[s] > 0]
    for t in range(problem.horizon):
        shorter, found = found, []
        for chance, path in shorter:
            row = oracle.row_of(problem, int(rows[t, path[-1]]))
            n = int(counts.visits[row.number])
            for e, j in zip(row.entries, row.states, strict=True):
                if counts.successors[e]:
                    found.append((chance * int(counts.successors[e]) / n, [*path, j]))
    return found


@settings(max_examples=50, deadline=None)
@given(cases(visits=(2, 9), spread=True, hide=()), st.integers(0, 99))
def test_loss_by_leaving_path_by_path(case: Case, seed: int) -> None:
    problem, table, rng = case.problem, case.problem.table, np.random.default_rng(seed)
    H, S = problem.horizon, problem.states
    assert problem.initial is not None

    def some_rows() -> Any:
        chosen = table.first[:-1] + rng.integers(0, np.tile(np.diff(table.first), (H, 1)))
        return chosen + table.stride * np.arange(H)[:, None]

    taken, kept = some_rows(), some_rows()
    worth, counted = rng.random((2, H + 1, S))
    expected = 0.0
    for chance, path in paths_of(case, taken):
        for t, s in enumerate(path[:-1]):
            if taken[t, s] != kept[t, s]:
                expected += chance * max(0.0, worth[t, s] - counted[t, s])
                break
    best = KnownStateBounds(problem, 0.1)
    best.update(case.counts)
    loss = best.loss_by_leaving(taken, kept, worth, counted)
    assert loss == pytest.approx(expected, abs=1e-12)
