"""EPRL: its radius, all of it against all paths listed, its promise, and what it refuses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from oracles.slow_eprl import SlowEPRL
from ucfh import MDP, Problem, make, simulate
from ucfh._utils.arrays import Floats
from ucfh.algorithms.eprl import EPRL
from ucfh.counts import Counts
from ucfh.exceptions import InputError

# N, n, delta, and b = sqrt(ln(N (n+1)/delta)/(2n)):
# ln 20200 = 9.913438, ln 80400 = 11.294770, ln 12012000 = 16.301417
GOLDEN = [
    ((20, 100, 0.1), 0.222637),
    ((20, 200, 0.05), 0.168038),
    ((12, 1000, 0.001), 0.090281),
]


@pytest.mark.parametrize(("point", "b"), GOLDEN)
@pytest.mark.parametrize("scale", [1.0, 0.9, 1.1])
def test_radius(point: tuple[int, int, float], b: float, scale: float) -> None:
    """Equal to those worked out by hand, and not if it is off by a tenth."""
    N, n, delta = point
    bandit = Problem(1, N, 1)
    agent = EPRL(bandit, 0.5, delta, scale)
    assert agent.N == N
    assert (float(agent.radius(n)) == pytest.approx(b, abs=1e-6)) == (scale == 1)
    assert agent.radius([0, 1]).tolist() == [1, 1]


def test_rows_that_count() -> None:
    """Those that can be reached, and are not known to pay nothing."""
    mdp = make("deepsea:n=3")
    assert EPRL(mdp.problem, 0.5, 0.1).N == 2 * (1 + 2 + 3)  # two moves left of column 0 meet
    ends = MDP([[[0, 1], [1, 0]], [[0, 1], [0, 1]]], [[0.2], [0]], 3, terminal=[1])
    agent = EPRL(ends.problem, 0.5, 0.1)
    assert agent.N == 3 * 2
    assert agent.active.sum() == 3 * 2 + 2


@st.composite
def deterministic(draw: st.DrawFn) -> MDP:
    """Any next states and rewards, by step; perhaps with a state that ends the episode."""
    S, A, H = draw(st.integers(1, 3)), draw(st.integers(1, 3)), draw(st.integers(1, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    p = np.eye(S)[rng.integers(S, size=(H, S, A))]
    ends = [S - 1] if S > 1 and draw(st.booleans()) else []
    return MDP(p, rng.random((H, S, A)).round(1), H, terminal=ends)


def play(agent: EPRL, tape: Floats) -> int:
    """Let it learn from rewards tape (rows, n), of the first to the n-th visit; its episodes."""
    table, episodes = agent.problem.table, 0
    used = np.zeros(table.rows, int)
    while not agent.done:
        path = agent.path(agent.rows)
        m = int(agent.limits().visits[path].min())
        seen = Counts.zero(agent.problem)
        for row in path:
            entry = table.indptr[row]
            seen.visits[row] = seen.successors[entry] = m
            at = np.arange(used[row], used[row] + m) % tape.shape[1]
            seen.add_rewards(np.full(m, entry), tape[row, at])
            used[row] += m
        episodes += m
        agent.observe(seen)
    return episodes


@settings(max_examples=40, deadline=None)
@given(
    mdp=deterministic(),
    seed=st.integers(0, 2**32),
    epsilon=st.sampled_from([0.3, 1.0]),
    scale=st.sampled_from([0.2, 0.4]),
)
def test_all_paths_listed(mdp: MDP, seed: int, epsilon: float, scale: float) -> None:
    """The same episodes, active rows, bounds and answer, one episode at a time."""
    rng = np.random.default_rng(seed)
    mean = np.broadcast_to(mdp.mean_rewards, (mdp.table.segments, mdp.table.pairs)).ravel()
    tape = (rng.random((len(mean), 1000)) < mean[:, None]).astype(float)
    slow = SlowEPRL(mdp.problem, epsilon, 0.1, scale)
    fast = EPRL(mdp.problem, epsilon, 0.1, scale)
    while slow.answer is None:
        path = slow.next_path()
        slow.see(path, [tape[row, slow.n[row] % tape.shape[1]] for row in path])
    assert play(fast, tape) == slow.episodes
    assert set(np.flatnonzero(fast.active)) == slow.active
    assert fast.lower == pytest.approx(slow.max_L, abs=1e-9)
    assert tuple(fast.path(fast.rows)) == slow.answer
    if len(slow.active_paths()) > 1:
        assert fast.gap_bound == pytest.approx(slow.width, abs=1e-9)
    assert all(fast.visits_of(row) == n for row, n in slow.n.items())


def test_within_epsilon_as_often_as_promised() -> None:
    """At scale 1 in a share of at least 1 - delta of runs; not with a twentieth of b."""
    bandit = MDP(np.ones((1, 4, 1)), [[0.3, 0.3, 0.3, 0.9]], 1, noise="bernoulli")
    good = {}
    for scale in (1.0, 0.05):
        agents = [EPRL(bandit.problem, 0.5, 0.1, scale) for _ in range(20)]
        runs = [simulate(bandit, agent, seed=seed) for seed, agent in enumerate(agents)]
        assert all(run.final for run in runs)
        good[scale] = sum(run.gap <= 0.5 for run in runs)
    assert binomtest(good[1.0], 20, 0.9, "less").pvalue >= 1e-3
    assert binomtest(good[0.05], 20, 0.9, "less").pvalue < 1e-3


@pytest.mark.parametrize(
    "name", ["chain:n=3,slip=0", "deepsea:n=4", "grid:rows=2,cols=1,slip=0,horizon=3"]
)
def test_optimal_in_the_end(name: str) -> None:
    """With less than the least loss for epsilon, and rewards that are 0 or 1."""
    mdp = make(name).noisy()
    agent = EPRL(mdp.problem, 0.04, 0.1)
    run = simulate(mdp, agent, seed=1)
    assert run.final
    assert run.gap == pytest.approx(0, abs=1e-12)
    assert mdp.value(run.policy) >= agent.lower


def test_methods_agree() -> None:
    """Paid as their mean, rewards leave nothing to chance: walked or in bulk, the same run."""
    mdp = make("chain:n=4,horizon=4,slip=0,linear=1")

    def rows(method: Any) -> list[Any]:
        run = simulate(mdp, EPRL(mdp.problem, 1.0, 0.1, 0.5), seed=3, method=method)
        assert run.final
        return [(row.first_episode, row.episodes, row.value, row.gap_bound) for row in run.rows]

    assert rows("bulk") == rows("step")


def test_refusals() -> None:
    mdp = make("chain:n=3,horizon=3")
    with pytest.raises(
        InputError, match=r"one successor, and \(t=0, s=0, a=0\) may lead to 2 states: use"
    ):
        EPRL(mdp.problem, 0.5, 0.1)
    sure = make("chain:n=3,horizon=3,slip=0").problem
    with pytest.raises(InputError, match="the start may lead to 3 states"):
        EPRL(sure.hiding("initial"), 0.5, 0.1)
    with pytest.raises(InputError, match="may lead to 3 states"):
        EPRL(sure.hiding("successors"), 0.5, 0.1)
    with pytest.raises(InputError, match="scale"):
        EPRL(sure, 0.5, 0.1, 0.0)


def test_nothing_to_decide() -> None:
    mdp = MDP([[[0, 1]], [[1, 0]]], [[0], [1]], 3)
    run = simulate(mdp, EPRL(mdp.problem, 0.5, 0.1))
    assert (run.final, run.episodes, run.gap) == (True, 0, 0)


@pytest.mark.filterwarnings("error")
def test_nothing_can_pay() -> None:
    """Where an episode ends before it begins, no reward is unknown."""
    agent = EPRL(MDP([[[1.0]]], [[0.0]], 2, terminal=[0]).problem, 0.5, 0.1)
    assert agent.done
    assert agent.gap_bound == 0
