"""Suboptimality bounds of the policy, for each state and step."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from oracles.certified_cases import Case, cases, draw_case
from ucfh import MDP, Certificate, Problem, certify, make, read_log
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.logs.synthetic import write_log

DELTA = 1e-9
"""So small that a bound which does not hold would be a fault."""


def excess(found: Certificate, mdp: MDP) -> float:
    """By how much the truth is above the suboptimality, at the worst state and step that was
    seen."""
    assert found.suboptimality is not None
    truth = mdp.optimal().values[:-1] - mdp.values(found.policy)[:-1]
    return float(np.nanmax(np.append(truth - found.suboptimality, -1.0)))


@settings(max_examples=80, deadline=None)
@given(cases(honest=True, visits=(0, 2, 20, 500)))
def test_it_bounds_the_truth_everywhere(case: Case) -> None:
    found = certify(case.counts, case.problem, delta=DELTA)
    assert found.suboptimality is not None
    assert found.visits is not None
    assert found.suboptimality.shape == found.visits.shape == found.policy.shape
    assert excess(found, case.mdp) <= 1e-12
    left = np.arange(case.problem.horizon, 0, -1)[:, None]
    assert np.nanmax(np.append(found.suboptimality / left, 0.0)) <= 1
    ends = list(case.problem.terminal)
    assert (found.suboptimality[:, ends] == 0).all()
    table, counts = case.problem.table, case.counts
    rows = table.rows_of(found.policy, case.problem.horizon)
    np.testing.assert_array_equal(found.visits, counts.visits[rows])


def test_that_of_another_policy_would_be_noticed() -> None:
    """The check above has power; and the surest policy, certified at times, has its own."""
    mdp = make("chain:n=4,horizon=4")
    counts = np.round(10**5 * mdp.table.dense(mdp.p)).astype(np.int64)
    found = certify(counts, mdp.problem, delta=DELTA)
    assert excess(found, mdp) <= 0 < excess(replace(found, policy=1 - found.policy), mdp)
    robust = 0
    for seed in range(100):
        case = draw_case(seed, honest=True, visits=(0, 1, 4, 60))
        best = KnownStateBounds(case.problem, 0.9, ("scores",))
        b = best.bounds(case.counts)
        taken, lower = best.robust()
        if b.difference < b.upper - lower:
            continue
        robust += 1
        found = certify(case.counts, case.problem, delta=0.9)
        assert found.suboptimality is not None
        np.testing.assert_array_equal(found.policy, case.problem.table.policy_of(taken))
        least = b.U[:-1] - best.lower_values(taken)[:-1]
        assert (np.isnan(found.suboptimality) | (found.suboptimality >= least)).all()
    assert robust > 5


@pytest.mark.parametrize("times", [10, 10**3, 10**5, 10**7])
def test_the_gap_is_its_mean_over_a_known_start(times: int) -> None:
    mdp = make("chain:n=4,horizon=4")
    counts = np.round(times * mdp.table.dense(mdp.p)).astype(np.int64)
    found = certify(counts, mdp.problem, delta=0.1)
    assert found.suboptimality is not None
    assert mdp.problem.initial is not None
    seen = mdp.problem.initial > 0
    at_start = float(mdp.problem.initial[seen] @ found.suboptimality[0, seen])
    assert found.gap <= at_start + 1e-12
    assert found.gap == pytest.approx(at_start, abs=1e-9)
    assert times < 10**7 or np.nanmax(found.suboptimality) < 0.01


def test_from_a_log_of_which_nothing_was_told(tmp_path: Path) -> None:
    """In the log's own units; nan where no episode was in a state at a step."""
    mdp, path = make("chain:n=3,horizon=4"), tmp_path / "chain.csv"
    write_log(mdp, path, episodes=3000)
    log = read_log(path)
    found = certify(log, delta=DELTA)
    assert found.suboptimality is not None
    assert found.visits is not None
    assert excess(found, mdp) <= 1e-12
    assert not np.isnan(found.suboptimality[:, :1]).any()
    assert (
        np.isnan(found.suboptimality).sum() == 3
    )  # two states at the first step, one at the second
    scaled = tmp_path / "scaled.csv"
    lines = path.read_text().splitlines()
    at = lines[0].split(",").index("reward")
    rows = [line.split(",") for line in lines[1:]]
    for row in rows:
        row[at] = str(float(row[at]) * 50 - 10)
    scaled.write_text("\n".join([lines[0], *(",".join(row) for row in rows)]) + "\n")
    other = certify(read_log(scaled, rewards=(-10, 40)), delta=DELTA)
    assert other.suboptimality is not None
    np.testing.assert_array_equal(other.policy, found.policy)
    np.testing.assert_allclose(other.suboptimality, 50 * found.suboptimality, rtol=1e-9)
    np.testing.assert_array_equal(other.visits, found.visits)


def test_where_the_task_is_over_there_is_none(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    rows = "".join(f"{k},0,a,go,0,b,0\n{k},1,b,go,1,end,1\n" for k in range(50))
    path.write_text("episode,t,state,action,reward,next_state,done\n" + rows)
    found = certify(read_log(path, horizon=3), delta=0.1)
    assert found.suboptimality is not None
    assert found.visits is not None
    a, b, end = found.suboptimality.T
    assert (end == 0).all()
    assert np.isnan(a).tolist() == [False, True, True]
    assert np.isnan(b).tolist() == [True, False, True]
    assert found.visits.T.tolist() == [[50] * 3, [50] * 3, [0] * 3]


def test_what_was_told_but_never_seen_is_in_suboptimality() -> None:
    """A state that an episode may be in, of which the counts hold nothing."""
    problem = Problem(2, 2, 2, initial=[0.5, 0.5], rewards=[[0, 1], [1, 0]])
    counts = np.zeros((2, 2, 2), np.int64)
    counts[0] = 5
    found = certify(counts, problem)
    assert found.suboptimality is not None
    assert np.isnan(found.suboptimality).tolist() == [[False, True], [False, True]]
