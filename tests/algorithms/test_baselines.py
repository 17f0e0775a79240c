"""Floors and ceiling: random policies are valued exactly, and the compiled loop is the slow one."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

from support.model_files import mdps
from ucfh import MDP, make, simulate
from ucfh.algorithms.baselines import EpsilonGreedy, Optimal, Uniform
from ucfh.exceptions import InputError
from ucfh.planning import mean_rewards
from ucfh.simulation.environment import Simulator

Floats = NDArray[np.float64]


def actions_of(mdp: MDP, s: int) -> list[int]:
    return np.flatnonzero(mdp.table.available[s]).tolist()


def slow_value(mdp: MDP, policy: Any, share: float) -> float:
    """What a policy (H, S) earns if a share of steps is random, in plain loops."""
    p, H, S = mdp.by_segment().table.dense(mdp.by_segment().p), mdp.horizon, mdp.states
    r = np.zeros((H, S, mdp.actions))
    lines = np.broadcast_to(mdp.mean_rewards, (H, mdp.table.pairs))
    r[:, mdp.table.state, mdp.table.action] = lines
    p = p.reshape(H, S, mdp.actions, S)
    V = np.zeros(S)
    for t in reversed(range(H)):
        Q = r[t] + p[t] @ V
        V = np.array(
            [
                (1 - share) * Q[s, policy[t, s]] + share * np.mean(Q[s, actions_of(mdp, s)])
                for s in range(S)
            ]
        )
    return float(mdp.initial @ V)


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(mdp=mdps(), seed=st.integers(0, 2**32), explore=st.sampled_from([0.01, 0.3, 1.0]))
def test_recorded_values(mdp: MDP, seed: int, explore: float) -> None:
    """Those of the random policies, exactly."""
    uniform = simulate(mdp, Uniform(mdp.problem, 0.1, 0.1, 9, seed), 9, seed)
    first = np.array([actions_of(mdp, s)[0] for s in range(mdp.states)])
    first = np.tile(first, (mdp.horizon, 1))
    assert uniform.final
    assert uniform.value == pytest.approx(slow_value(mdp, first, 1.0), abs=1e-12)
    agent = EpsilonGreedy(mdp.problem, 0.1, 0.1, 9, seed, explore)
    run = simulate(mdp, agent, 9, seed)
    assert run.value == pytest.approx(
        slow_value(mdp, mdp.table.policy_of(agent.followed), explore), abs=1e-12
    )
    assert agent.counts.visits.sum() == 9 * mdp.horizon
    sums = np.add.reduceat(agent.counts.successors, mdp.table.indptr[:-1])
    assert np.array_equal(sums, agent.counts.visits)


def test_drawn_policies_have_the_same_mean() -> None:
    """The mean over all policies, one by one, is the value of the uniformly random one."""
    rng = np.random.default_rng(0)
    mdp = MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)), 3)
    values = [mdp.value(np.reshape(x, (3, 2))) for x in product(range(2), repeat=6)]
    run = simulate(mdp, Uniform(mdp.problem, 0.1, 0.1, 5), 5)
    assert np.mean(values) == pytest.approx(run.value, abs=1e-12)


@pytest.mark.parametrize("explore", [0.25, 1.0])
def test_drawn_policies(explore: float) -> None:
    """Each action is as likely as it should be, given the others; one policy an episode."""
    mdp = MDP(
        np.full((3, 3, 3), 1 / 3), np.diag([0.5, 0.5, 0.5]), 2,
        available=np.array([[1, 1, 1], [1, 1, 0], [0, 0, 1]], bool),
    )  # fmt: skip
    agent = EpsilonGreedy(mdp.problem, 0.1, 0.1, 1, 3, explore)
    draws = 4000
    greedy = mdp.table.policy_of(agent.greedy)
    policies = np.array([mdp.table.policy_of(agent._draw()) for _ in range(draws)])
    for t, s in product(range(2), range(3)):
        have = actions_of(mdp, s)
        p = np.array([explore / len(have) + (1 - explore) * (a == greedy[t, s]) for a in have])
        counted = np.array([(policies[:, t, s] == a).sum() for a in have])
        assert counted.sum() == draws
        if len(have) > 1:
            statistic = ((counted - draws * p) ** 2 / (draws * p)).sum()
            assert statistic <= chi2.isf(1e-6, len(have) - 1)
    # steps and states are drawn on their own: the pair of two has the product law
    both = np.bincount(3 * policies[:, 0, 0] + policies[:, 1, 0], minlength=9)
    one = np.array([explore / 3 + (1 - explore) * (a == greedy[0, 0]) for a in range(3)])
    two = np.array([explore / 3 + (1 - explore) * (a == greedy[1, 0]) for a in range(3)])
    expected = draws * np.outer(one, two).ravel()
    assert ((both - expected) ** 2 / expected).sum() <= chi2.isf(1e-6, 8)


def test_walked_uniform() -> None:
    """Step by step it follows one drawn policy after the other, of the recorded mean."""
    mdp = make("chain:n=3,horizon=3")
    agent = Uniform(mdp.problem, 0.1, 0.1, 2000, 1)
    run = simulate(mdp, agent, 2000, method="step")
    assert run.episodes == 2000
    values = np.repeat([row.value for row in run.rows], [row.episodes for row in run.rows])
    exact = slow_value(mdp, np.zeros((3, 3), int), 1.0)
    # Hoeffding for values in [0, 1.05], failing once in 1e6
    assert abs(values.mean() - exact) <= 1.05 * np.sqrt(np.log(2e6) / (2 * 2000))
    assert len(set(values)) > 5


def slow_epsilon_greedy(
    mdp: MDP, episodes: int, seed: int, own_seed: int, explore: float
) -> tuple[list[tuple[int, float, float]], Any]:
    """(first episode, value, promise) of each policy, and the last: the loop as it reads."""
    rng, own = np.random.default_rng(seed), np.random.default_rng([own_seed, 1])
    H, table = mdp.horizon, mdp.table
    own.random((2, H, mdp.states))  # the policy drawn before the first episode
    cumulative = Simulator(mdp, mdp.problem).model.cumulative
    c, n = np.zeros(table.entries), np.zeros(table.rows)
    records: list[tuple[int, float, float]] = []
    last = None
    for episode in range(episodes):
        p = np.where(n > 0, 0, 1 / table.lengths)[table.row_of_entry]
        p += c / np.maximum(n, 1)[table.row_of_entry]
        r = np.broadcast_to(mean_rewards(table, p, mdp.rewards), (H, table.pairs))
        V, greedy = np.zeros(mdp.states), np.zeros((H, mdp.states), int)
        for t in reversed(range(H)):
            U = np.zeros(mdp.states)
            for s in range(mdp.states):
                best = -np.inf
                for k in range(table.first[s], table.first[s + 1]):
                    at = table.entries_of(t * table.stride + k)
                    q = r[t, k] + p[at] @ V[table.indices[at]]
                    if q > best + 1e-12 * H:
                        best, greedy[t, s] = q, t * table.stride + k
                U[s] = best
            V = U
        if last is None or not np.array_equal(greedy, last):
            last = greedy
            value = slow_value(mdp, table.policy_of(greedy), explore)
            records.append((episode, value, float(mdp.initial @ V)))
        at = table.entries_of(table.start)
        s = int(table.indices[at][np.argmax(cumulative[at] > rng.random())])
        for t in range(H):
            row = int(greedy[t, s])
            if own.random() < explore:
                some = int(own.random() * (table.first[s + 1] - table.first[s]))
                row = t * table.stride + int(table.first[s]) + some
            at = table.entries_of(row)
            e = at.start + int(np.argmax(cumulative[at] > rng.random()))
            n[row] += 1
            c[e] += 1
            s = int(table.indices[e])
    return records, last


@settings(max_examples=25, deadline=None)
@given(mdp=mdps(), seed=st.integers(0, 2**32), explore=st.sampled_from([0.1, 0.7]))
def test_compiled_loop(mdp: MDP, seed: int, explore: float) -> None:
    """The same policies, from the same numbers, as in the slow loop."""
    agent = EpsilonGreedy(mdp.problem, 0.1, 0.1, 40, seed + 1, explore)
    run = simulate(mdp, agent, 40, seed)
    slow, last = slow_epsilon_greedy(mdp, 40, seed, seed + 1, explore)
    assert np.array_equal(agent.followed, last)  # ties included: the first action
    assert [row.first_episode for row in run.rows] == [first for first, _, _ in slow]
    for row, (_, value, promised) in zip(run.rows, slow, strict=True):
        assert row.value == pytest.approx(value, abs=1e-12)
        assert row.optimistic == pytest.approx(promised, abs=1e-12)


def test_becomes_optimal() -> None:
    """What epsilon-greedy prefers on a chain, and what it loses by exploring."""
    mdp = make("chain:n=3,horizon=3")
    optimal = mdp.at_start(mdp.optimal().values)
    for seed in range(5):
        agent = EpsilonGreedy(mdp.problem, 0.1, 0.1, 20_000, seed)
        run = simulate(mdp, agent, 20_000, seed)
        assert mdp.value(run.policy) == pytest.approx(optimal, abs=1e-12)
        assert run.value == pytest.approx(slow_value(mdp, run.policy, 0.1), abs=1e-12)
        assert 0.01 < run.gap < 0.1


def test_hidden_knowledge() -> None:
    """It learns too if it is not told the successors and the start."""
    mdp = make("chain:n=3,horizon=3")
    agent = EpsilonGreedy(mdp.problem.hiding("successors", "initial"), 0.1, 0.1, 5000)
    run = simulate(mdp, agent, 5000)
    assert mdp.value(run.policy) == pytest.approx(run.optimal, abs=1e-12)


def test_optimal() -> None:
    mdp = make("riverswim:n=4,horizon=6")
    agent = Optimal(mdp.problem, 0.1, 0.1, mdp=mdp)
    run = simulate(mdp, agent)
    assert (run.final, run.episodes) == (True, 0)
    assert run.gap == pytest.approx(0, abs=1e-12)
    assert run.optimistic == run.optimal


def test_refusals() -> None:
    mdp = make("chain:n=3,horizon=3")
    with pytest.raises(InputError, match=r"needs the true model.*ucfh"):
        Optimal(mdp.problem, 0.1, 0.1)
    with pytest.raises(InputError, match="explore"):
        EpsilonGreedy(mdp.problem, 0.1, 0.1, 10, explore=0)
    for cls in (Uniform, EpsilonGreedy):
        with pytest.raises(InputError, match="pass episodes"):
            simulate(mdp, cls(mdp.problem, 0.1, 0.1, 10))
