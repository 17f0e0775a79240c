"""Rewards as part of what follows, and what is not listed: each against the obvious way."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.certified_cases import Case, Given, cases, random_budgets, told
from ucfh._kernels import kl_ball
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.outcomes import outcomes_of
from ucfh.counts import Counts
from ucfh.mdp import Problem

reward = st.one_of(st.sampled_from([0.0, 0.5, 1.0]), st.floats(0, 1))
rewards = st.lists(reward, min_size=1, max_size=8)


def seen(paid: list[list[float]]) -> Any:
    """Draw counts, and sums, least and most of rewards, by next state."""
    least, most = ([f(x) if x else y for x in paid] for f, y in ((min, 1.0), (max, 0.0)))
    c, sums = np.array([len(x) for x in paid]), np.array([math.fsum(x) for x in paid])
    return c, sums, np.array(least), np.array(most)


@settings(max_examples=100, deadline=None)
@given(st.lists(st.one_of(st.just([]), rewards), min_size=1, max_size=4))
def test_each_next_state_is_one_outcome_or_two(paid: list[list[float]]) -> None:
    """Their counts and sums are those of what was paid, and nothing is below or above it."""
    found = outcomes_of(*seen(paid))
    assert sorted(found.source.tolist()) == found.source.tolist()
    for j, x in enumerate(paid):
        at = found.source == j
        assert at.sum() == 1 + found.noisy[j] == 1 + (len(set(x)) > 1)
        assert found.c[at].sum() == pytest.approx(len(x), rel=1e-15)
        assert found.repeats[at].sum() == pytest.approx(max(len(x) - 1, 0), rel=1e-15)
        assert (found.c[at] * found.reward[at]).sum() == pytest.approx(math.fsum(x), abs=1e-14)
        assert found.reward[at].tolist() == (sorted({min(x), max(x)}) if x else [0.0])
        assert found.c.min() >= 0


@settings(max_examples=100, deadline=None)
@given(rewards, st.floats(0, 3), st.floats(1e-3, 100))
def test_two_outcomes_stand_for_all_in_between(paid: list[float], V: float, beyond: float) -> None:
    """The mean of ln(nu - f) is never above the truth, from above and below; so the bound is not.

    And exact where only two values were paid.
    """
    found = outcomes_of(*seen([paid]))
    for sign, nu in ((1, 1 + V + beyond), (-1, beyond)):
        exact = math.fsum(math.log(nu - sign * (x + V)) for x in paid)
        mine = (found.c * np.log(nu - sign * (found.reward + V))).sum()
        assert mine <= exact + 1e-12 * len(paid) * (1 + abs(math.log(beyond)))
        if len(set(paid)) <= 2:
            assert mine == pytest.approx(exact, abs=1e-9)


# -- what is not listed ---------------------------------------------------------------------------


def with_a_state_nobody_reaches(case: Case) -> tuple[Problem, Counts]:
    """The same problem and counts, but all that may follow is listed: one more state may not."""
    problem, old = case.problem, case.counts
    S, A = problem.states, problem.actions
    follow = np.zeros((S + 1, A, S + 1), bool)
    follow[:S, :, :S] = follow[S, :, S] = True
    pays = None
    if problem.rewards is not None:
        pays = np.zeros((len(problem.rewards.pair), S + 1, A))
        pays[:, :S] = problem.rewards.pair.reshape(-1, S, A)
    assert problem.initial is not None
    more = Problem(S + 1, A, problem.horizon, pays, follow, np.append(problem.initial, 0.0))
    counts, body = Counts.zero(more), S * A * S
    for name in ("successors", *(("rewards", "least", "most") if pays is None else ())):
        getattr(counts, name)[:body] = getattr(old, name)[:body]
    counts.visits[: S * A] = old.visits[:-1]
    return more, counts


PLAIN: dict[str, Any] = {"segmented": False, "fewer": False, "ends": False, "visits": (0, 1, 3, 20)}


@settings(max_examples=100, deadline=None)
@given(
    st.one_of(
        cases(hide=("successors",), rewards="s, a", **PLAIN),
        cases(hide=("rewards", "successors"), **PLAIN),
    ).filter(lambda x: x.problem.states > 1),
    st.integers(0, 99),
)
def test_to_list_all_that_may_follow_changes_nothing(case: Case, seed: int) -> None:
    problem, counts = with_a_state_nobody_reaches(case)
    few = random_budgets(case, seed)
    S, R = case.problem.states, case.problem.table.pairs
    more = {name: np.ones(problem.table.rows) for name in vars(few.given)}
    for name, x in vars(few.given).items():
        more[name][:R], more[name][-1] = x[:-1], x[-1]
    all_of_them = told(problem, Given(**more))
    one, other = few.bounds(case.counts), all_of_them.bounds(counts)
    near: dict[str, Any] = {"rtol": 0, "atol": 1e-9}
    for name in "ULWDEM":
        found, expected = getattr(one, name), getattr(other, name)[:, :S]
        np.testing.assert_allclose(found, expected, err_msg=name, **near)
    np.testing.assert_array_equal(one.greedy, other.greedy[:, :S])
    lines = [line for V in (one.U, one.L, one.W, one.D) for line in V[1:-1].tolist()]
    # where two states tie, it is open which one is the best; if all are 0, nothing is blamed
    tied = any(len(set(line)) < S for line in lines if any(line))
    # and of rows in which nothing was repeated, the ball of outcomes says nothing yet
    repeats = few.evidence.known["n_outcomes"][:-1]
    fresh = bool(((repeats == 0) & (few.evidence.known["n"][:-1] > 0)).any())
    for by_difference in () if tied or fresh else (False, True):
        found, expected = (
            few.attribute_gap(one, by_difference),
            all_of_them.attribute_gap(other, by_difference),
        )
        # rounding may stop a search earlier, where a slack is right up to this part of it
        np.testing.assert_allclose(found[:-1], expected[:R], rtol=kl_ball.CLOSE, atol=1e-9)
    for sign in (1.0, -1.0):
        taken = few.first_rows()
        found = few._evaluate(taken, sign)
        expected = all_of_them._evaluate(all_of_them.first_rows(), sign)[:, :S]
        np.testing.assert_allclose(found, expected, **near)
    assert few.robust()[1] == pytest.approx(all_of_them.robust()[1], abs=1e-9)


def test_what_was_never_paid_may_be() -> None:
    """Two visits to all states, both paid 1: what the next one pays is hardly known.

    With one state, two or three, all of them seen; the next may be any of them, paid nothing.
    """
    for states in (1, 2, 3):
        problem = Problem(states, 1, 1, initial=0)
        counts = Counts.zero(problem)
        counts.visits[0] = 2 * states
        counts.successors[:states] = counts.rewards[:states] = 2
        counts.least[:states] = counts.most[:states] = 1.0
        best = KnownStateBounds(problem, 0.1)
        b = best.bounds(counts)
        assert b.L[0, 0] < 0.5
        assert b.W[0, 0] < 0.5
        assert best.lower_values(b.greedy)[0, 0] < 0.5
        assert best.robust()[1] < 0.5
