"""RLSVI: its noise, planning with it, how often it is optimistic, and what is learned."""

from __future__ import annotations

from copy import deepcopy
from math import log, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ucfh import MDP, Problem, make, simulate
from ucfh.algorithms.rlsvi import RLSVI
from ucfh.simulation.environment import Simulator

Shape = tuple[int, int, int]
SMALL, WIDE, LONG = (5, 2, 5), (20, 3, 5), (6, 2, 12)


def agent(shape: Shape, scale: float = 1.0) -> RLSVI:
    S, A, H = shape
    return RLSVI(Problem(S, A, H, np.zeros((S, A)), initial=0), 0.5, 0.1, 1000, scale)


@pytest.mark.parametrize(
    ("shape", "k", "n", "wanted"),
    [
        (SMALL, 1, 0, 37.93567823463),
        (SMALL, 1000, 99, 5.998157390235),
        (WIDE, 10**6, 10**4, 1.58943461533),
        (LONG, 100, 10, 69.56356764152),
    ],
)
def test_noise_by_hand(shape: Shape, k: int, n: int, wanted: float) -> None:
    """sqrt( S H^3 ln(2 H S A k)/(2 (n + 1)) ), computed apart; a tenth more would be noticed."""
    visits = np.array([float(n)])
    assert agent(shape).deviation(k, visits)[0] == pytest.approx(wanted, rel=1e-10)
    assert agent(shape, 1.1).deviation(k, visits)[0] == pytest.approx(1.1 * wanted, rel=1e-10)


def draws_of(agent: RLSVI) -> Any:
    """(H, S, A) the normal variables of its next plan, in the order in which they are drawn."""
    own = deepcopy(agent.generator)
    z = np.zeros((agent.H, agent.S, agent.A))
    for t in reversed(range(agent.H)):
        z[t] = own.standard_normal((agent.S, agent.A))
    return z


def slow_plan(agent: RLSVI, k: int, z: Any) -> Any:
    """V (H+1, S) with noise z, from the formulas, by plain loops."""
    H, S, A, table = agent.H, agent.S, agent.A, agent.problem.table
    rewards = agent.problem.rewards
    assert rewards is not None
    beta, V = 0.5 * S * H**3 * log(2 * H * S * A * k), np.zeros((H + 1, S))
    for t in reversed(range(H)):
        for s in range(S):
            found = []
            for a in range(A):
                row = t * table.stride + s * A + a
                n, total = agent.counts.visits[row], 0.0
                for e in range(table.indptr[row], table.indptr[row + 1]):
                    ahead = V[t + 1, table.indices[e]]
                    if rewards.successor is not None:
                        ahead += rewards.successor[min(t, len(rewards.successor) - 1), e]
                    total += agent.counts.successors[e] * ahead
                r = rewards.pair[min(t, len(rewards.pair) - 1), s * A + a]
                found.append(r + (total + sqrt(beta * (n + 1)) * z[t, s, a]) / (n + 1))
            V[t, s] = max(found)
    return V


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_against_the_page(
    S: int, A: int, H: int, seed: int, on_next: bool, segmented: bool
) -> None:
    """Plans after a few episodes, with counts pooled or by step, one episode after the other."""
    rng = np.random.default_rng(seed)
    rewards = rng.random((1, S, A, S)) if on_next else rng.random((S, A))
    mdp = MDP(rng.dirichlet(np.ones(S), (S, A)), rewards, H)
    mdp = mdp.by_segment() if segmented else mdp
    agent = RLSVI(mdp.problem, 0.5, 0.1, 100, seed=seed)
    nature = Simulator(mdp, mdp.problem).model
    for k in range(2, 8):
        z = draws_of(agent)
        agent.follow(rng, nature, 1)
        assert agent.clock[0] == k
        np.testing.assert_allclose(agent.V, slow_plan(agent, k, z), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("segmented", [False, True])
def test_the_loop_is_the_steps(segmented: bool) -> None:
    mdp = make("riverswim:n=4,horizon=6")
    mdp = mdp.by_segment() if segmented else mdp
    runs, agents = [], []
    for method in ("bulk", "step"):
        agents.append(RLSVI(mdp.problem, 0.1, 0.1, 300, scale=0.05, seed=5))
        runs.append(simulate(mdp, agents[-1], episodes=300, seed=2, method=method))
    assert [x.value for x in runs[0].rows] == [x.value for x in runs[1].rows]
    assert len(runs[0].rows) > 10
    np.testing.assert_array_equal(agents[0].V, agents[1].V)
    np.testing.assert_array_equal(agents[0].counts.successors, agents[1].counts.successors)


CHAIN = MDP([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.1, 0.9]]], [[0.05, 0.0], [1, 1]], 2)


PAID_ON_NEXT = MDP(CHAIN.table.dense(CHAIN.p), [[[[0, 1], [0, 1]], [[0, 1], [0, 1]]]], 2)


def optimistic_plans(mdp: MDP, scale: float) -> list[int]:
    """Of 1000 plans each, at several moments of a run: how many promise V* or more."""
    best = mdp.at_start(mdp.optimal().values)
    agent = RLSVI(mdp.problem, 0.5, 0.1, 10_000, scale)
    rng, nature, found = np.random.default_rng(7), Simulator(mdp, mdp.problem).model, []
    for episodes in (1, 9, 90, 900, 9000):
        agent.follow(rng, nature, episodes)
        total = 0
        for _ in range(1000):
            agent._plan()
            total += agent.optimistic >= best
        found.append(total)
    return found


def rejected(total: int) -> bool:
    """Whether so few plans of 1000 speak against a probability of Phi(-1)."""
    share = NormalDist().cdf(-1)
    return bool(stats.binomtest(total, 1000, share, alternative="less").pvalue < 1e-4)


@pytest.mark.parametrize("mdp", [CHAIN, PAID_ON_NEXT], ids=["pairs", "next"])
def test_optimistic_often_enough(mdp: MDP) -> None:
    """With probability Phi(-1) at least, whenever looked at; not so with hardly any noise."""
    assert not any(map(rejected, optimistic_plans(mdp, 1.0)))
    assert any(map(rejected, optimistic_plans(mdp, 0.001)))


def exponent(H: int, R: float, logarithm: float, most: int) -> float:
    """x of the docstring, for visits up to ``most``."""
    n = np.arange(1.0, most + 1)
    x = 2 * (H / R * sqrt(logarithm / 2) - 1 / np.sqrt(n + 1)) ** 2 - np.log(n + 1) / 2
    return float(x.min())


@pytest.mark.parametrize(("H", "R"), [(3, 2), (3, 3)])
def test_the_model_is_close_enough(H: int, R: int) -> None:
    """(1) fails with probability e^-x at most, at any of 1000 visits; not so at a sixth of l."""
    logarithm, runs, most = {2: 2.0, 3: 5.5}[R], 2000, 1000
    x = exponent(H, R, logarithm, most)
    assert 0.5 < x < 1.5  # so that a share of e^-x can be refuted
    U = R * np.random.default_rng(R).integers(0, 2, (runs, most))
    n = np.arange(1, most + 1)
    g = abs(np.cumsum(U, axis=1) / (n + 1) - R / 2)
    for part, holds in ((1.0, True), (1 / 6, False)):
        failed = int((g > H * np.sqrt(part * logarithm / (2 * (n + 1)))).any(axis=1).sum())
        test = stats.binomtest(failed, runs, float(np.exp(-x)), alternative="greater")
        assert (test.pvalue > 1e-4) == holds


def test_the_model_becomes_close_enough() -> None:
    """S H e^-x, where next states are paid for: less than .6 at k = 100, and it goes to 0."""
    S, A, H = SMALL
    fails = [
        S * H * np.exp(-exponent(H, H, log(2 * H * S * A * k), H * (k - 1)))
        for k in (100, 1000, 10**4, 10**5, 10**6)
    ]
    assert fails[0] < 0.6
    assert (np.diff(np.log(fails)) < log(0.4)).all()  # faster than 1/sqrt(10) it need not fall


def test_becomes_optimal() -> None:
    """As published, where the best action earns 0.9 and the other 0.1: nearly always, then."""
    mdp = MDP(CHAIN.table.dense(CHAIN.p), [[0, 0], [1, 1]], 2)
    run = simulate(mdp, RLSVI(mdp.problem, 0.1, 0.1, 100_000), episodes=100_000)
    right = np.repeat([x.gap < 1e-9 for x in run.rows], [x.episodes for x in run.rows])
    assert right[:1000].mean() < 0.9
    assert right[-10_000:].mean() > 0.99


def test_becomes_optimal_on_a_chain() -> None:
    mdp = make("chain:n=3,horizon=3")
    run = simulate(mdp, RLSVI(mdp.problem, 0.1, 0.1, 20_000, scale=0.01), episodes=20_000)
    assert all(x.gap < 1e-9 for x in run.rows if x.first_episode > 15_000)
