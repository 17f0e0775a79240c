"""Tutoring, revenue and calls: transitions by hand, and optimal policies."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from support.problems import Floats, dense, optimum, reward
from ucfh import MDP
from ucfh.problems import make


def action_values(mdp: MDP) -> Floats:
    """(H, S, A) Q*, for problems without segments whose states have all actions."""
    plan, p = mdp.optimal(), dense(mdp)
    r = mdp.mean_rewards.reshape(-1, mdp.states, mdp.actions)
    r = np.broadcast_to(r, (mdp.horizon, mdp.states, mdp.actions))
    return np.stack([r[t] + p @ plan.values[t + 1] for t in range(mdp.horizon)])


# tasks


def test_tutoring_depends_on_the_days_left() -> None:
    mdp = make("tutoring")
    names = mdp.problem.action_names
    assert names == ("space A", "space B", "cram A", "cram B")
    Q = action_values(mdp)[:-1, 0]  # nothing known, on every day before the exam
    lead = Q[:, :2].max(axis=1) - Q[:, 2:].max(axis=1)
    assert (lead[:7] > 0.01).all()
    assert (lead[7:] < -0.01).all()
    assert lead[[0, 8]] == pytest.approx([0.0186, -0.35], abs=5e-5)
    assert optimum(make("tutoring:horizon=2")) == pytest.approx(0.45)
    assert mdp.rewards.pair.sum(axis=0).max() == 1
    assert not mdp.rewards.pair[:-1].any()


@pytest.mark.slow
def test_tutoring_needs_the_calendar() -> None:
    mdp = make("tutoring")
    p = dense(mdp)
    policies = np.array(list(product(range(4), repeat=9)), np.int8)
    exam = mdp.rewards.pair[-1].reshape(9, 4)[:, 0]
    values = np.broadcast_to(exam, policies.shape)
    for _ in range(mdp.horizon - 1):
        values = np.stack(
            [
                np.take_along_axis(values @ p[s].T, policies[:, s, None].astype(int), 1)[:, 0]
                for s in range(9)
            ],
            axis=1,
        )
    best = policies[values[:, 0].argmax()]
    assert mdp.value(best) == pytest.approx(values[:, 0].max())
    assert values[:, 0].max() == pytest.approx(0.720195, abs=5e-7)
    assert optimum(mdp) - values[:, 0].max() > 0.1


def test_revenue_prices_fall_as_time_runs_out() -> None:
    mdp = make("revenue")
    policy = mdp.optimal().policy.astype(int)[:, 1:]
    assert (np.diff(policy, axis=0) >= 0).all()
    assert (np.diff(policy, axis=1) >= 0).all()
    assert policy[0, 9] < policy[-1, 9]
    fixed = [mdp.value(np.full(21, a)) for a in range(4)]
    assert max(fixed) == pytest.approx(3.089914, abs=5e-7)
    assert mdp.initial[20] == 1


def test_revenue_rows_by_hand() -> None:
    mdp = make("revenue:stock=2,horizon=1")
    p = dense(mdp)
    none, one = 0.5**4, 4 * 0.5**4
    assert p[2, 2] == pytest.approx([1 - none - one, one, none])
    assert p[0, 2] == pytest.approx([1, 0, 0])
    assert reward(mdp, 2, 2) == pytest.approx(0.6 * (one + 2 * (1 - none - one)) / 4)
    assert reward(mdp, 0, 0) == 0


def test_calls_end_early_and_have_their_own_actions() -> None:
    mdp = make("calls")
    states, actions = mdp.problem.state_names, mdp.problem.action_names
    assert states is not None
    assert actions is not None
    assert [states[s] for s in mdp.problem.terminal] == ["solved", "passed on", "hung up"]
    have = {
        states[s]: {actions[a] for a in np.flatnonzero(mdp.table.available[s])} for s in range(5)
    }
    assert have["upset"] == {"calm", "pass on"}
    assert have["complex"] == {"look up", "fix", "pass on"}
    plan = mdp.optimal()
    assert actions[plan.policy[0, 3]] == "look up"
    assert actions[plan.policy[-1, 3]] == "pass on"
    assert not plan.values[:, list(mdp.problem.terminal)].any()
    assert plan.values.max() <= 1
    passing = np.where(
        mdp.table.available[:, actions.index("pass on")], actions.index("pass on"), 0
    )
    assert mdp.value(passing) == pytest.approx(0.4)
