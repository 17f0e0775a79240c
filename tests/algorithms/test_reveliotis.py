"""Learning node by node: policies that reach the nodes, the tries, and what is learned."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from oracles import reference as ref
from support.model_files import mdps
from ucfh import MDP, Problem, make, simulate
from ucfh.algorithms.reveliotis import Reveliotis, reaching
from ucfh.exceptions import InputError

# S, A, H, epsilon, delta; n at the first and the last segment, with N = S H nodes
GOLDEN = [
    ((5, 2, 5, 0.5, 0.1), 13804, 553),
    ((20, 3, 5, 0.25, 0.05), 82941, 3318),
    ((6, 2, 12, 0.5, 0.1), 545710, 3790),
]


def new_agent(mdp: MDP, epsilon: float = 0.5, scale: float = 1.0) -> Reveliotis:
    return Reveliotis(mdp.problem, epsilon, 0.1, scale, mdp=mdp)


def everywhere(S: int, A: int, H: int) -> MDP:
    """Any state may follow, and be the first: there are N = S H nodes."""
    return MDP(np.full((S, A, S), 1 / S), np.zeros((S, A)), H, np.full(S, 1 / S))


@pytest.mark.parametrize(("point", "first", "last"), GOLDEN)
@pytest.mark.parametrize("factor", [1.0, 0.9, 1.1])
def test_numbers(
    monkeypatch: pytest.MonkeyPatch, point: Any, first: int, last: int, factor: float
) -> None:
    """Equal to those worked out by hand, and not if a constant is off by a tenth."""
    S, A, H, epsilon, delta = point
    need = Reveliotis.required_tries
    monkeypatch.setattr(Reveliotis, "required_tries", lambda *given: factor * need(*given))
    mdp = everywhere(S, A, H)
    agent = Reveliotis(mdp.problem, epsilon, delta, mdp=mdp)
    assert (agent.nodes, len(agent.order)) == (S * H, S * H)
    assert agent.order[0].tolist() == [H - 1, S - 1]
    assert agent.limits().visits.min() == agent._tries(H - 1)
    assert ((agent._tries(0), agent._tries(H - 1)) == (first, last)) == (factor == 1)
    scaled = Reveliotis(mdp.problem, epsilon, delta, 1e3, mdp=mdp)
    assert (first - 1 < scaled._tries(0) / 1e6 <= first) == (factor == 1)


@settings(max_examples=30, deadline=None)
@given(mdp=mdps())
def test_reaching(mdp: MDP) -> None:
    """No policy is more likely there: those of all kinds, one by one, in plain loops."""
    segmented = mdp.by_segment()
    H, S, p = mdp.horizon, mdp.states, mdp.table.dense(mdp.p)
    best = np.zeros((H, S))
    for t, s in product(range(H), range(S)):
        U = np.arange(S) == s
        for k in reversed(range(t)):
            U = np.array(
                [
                    max(ref.at(p, k)[x, a] @ U for a in np.flatnonzero(mdp.table.available[x]))
                    for x in range(S)
                ]
            )
        best[t, s] = mdp.initial @ U
        rows, q = reaching(segmented, t, s)
        assert q == pytest.approx(best[t, s], abs=1e-12)
        fixed = mdp.table.first[:-1] + np.arange(H)[:, None] * segmented.table.stride
        fixed[:t] = rows
        policy = segmented.table.policy_of(fixed)
        assert mdp.occupancy(policy)[t, s] == pytest.approx(q, abs=1e-12)
    agent = new_agent(mdp)
    assert agent.reach == pytest.approx(best, abs=1e-12)
    assert agent.q == pytest.approx(best[best > 1e-12].min(), abs=1e-12)


def layers() -> MDP:
    """A graph without cycles: 0 to 1 or 2, these to 3 or 4, which pay for the next state too."""
    p = np.zeros((5, 2, 5))
    p[0, 0, [1, 2]], p[0, 1, [1, 2]] = [0.8, 0.2], [0.3, 0.7]
    p[1, 0, [3, 4]], p[1, 1, [3, 4]] = [0.5, 0.5], [0.9, 0.1]
    p[2, 0, [3, 4]], p[2, 1, [3, 4]] = [0.1, 0.9], [0.6, 0.4]
    p[3, :, 3] = p[4, :, 4] = 1
    r = np.zeros((1, 5, 2, 5))
    r[0, 1:3, :, 4], r[0, 3, 0], r[0, 4, 1] = 0.5, 0.3, 1.0
    return MDP(p, r, 3)


@pytest.mark.parametrize(
    "make_mdp",
    [lambda: make("chain:n=3,horizon=3"), layers, lambda: make("riverswim:n=3,horizon=4")],
)
def test_returns(make_mdp: Any) -> None:
    """Each mean return is that of its row under the actions fixed later, within its deviation."""
    mdp = make_mdp()
    agent = new_agent(mdp, 0.3)
    run = simulate(mdp, agent, seed=2)
    assert run.final
    segmented = agent.mdp
    V, p = segmented.values(agent.policy), segmented.p
    assert len(run.rows) == 1 + sum(len(agent._rows_of(*node)) for node in agent.order)
    for t, s in agent.order.tolist():
        n, left = agent._tries(t), mdp.horizon - t
        for row in agent._rows_of(t, s):
            at = segmented.table.entries_of(row)
            r = segmented.mean_rewards[
                min(t, len(segmented.mean_rewards) - 1), row % segmented.table.pairs
            ]
            q = r + p[at] @ V[t + 1, segmented.table.indices[at]]
            assert agent.tried[row] == n == agent.visits_of(row)
            # Hoeffding, with 1e-9 for each
            assert abs(agent.total[row] / n - q) <= left * np.sqrt(np.log(2e9) / (2 * n))
    assert [row.n for row in run.rows[:-1]] == [
        agent.tried[row] for t, s in agent.order.tolist() for row in agent._rows_of(t, s)
    ]


def test_acyclic_states_are_the_nodes() -> None:
    agent = new_agent(layers())
    assert agent.nodes == 5
    assert agent.order.tolist() == [[2, 4], [2, 3], [1, 2], [1, 1], [0, 0]]
    assert agent.q == pytest.approx(0.7)
    assert agent.reach[2, 3] == pytest.approx(0.8 * 0.9 + 0.2 * 0.6)


def test_within_epsilon_as_often_as_promised() -> None:
    """At scale 1 in a share of at least 1 - delta of runs, and mostly optimal; not with 1 try."""
    mdp, gaps = make("chain:n=3,horizon=3"), {}
    for scale in (1.0, 0.01):
        gaps[scale] = np.array(
            [simulate(mdp, new_agent(mdp, 0.3, scale), seed=seed).gap for seed in range(40)]
        )
    good = int((gaps[1.0] <= 0.3).sum())
    assert binomtest(good, 40, 0.9, "less").pvalue >= 1e-3
    assert np.median(gaps[1.0]) == pytest.approx(0, abs=1e-12)
    assert (gaps[0.01] > 0.3).any()


@settings(max_examples=25, deadline=None)
@given(mdp=mdps(), seed=st.integers(0, 2**32))
def test_any_problem(mdp: MDP, seed: int) -> None:
    """It ends, with as many tries as it set out for; nodes nobody reaches are left out."""
    agent = new_agent(mdp, 1.0, 0.2)
    run = simulate(mdp, agent, 3000, seed=seed)
    assert run.final or run.episodes == 3000
    if run.final:
        for t, s in agent.order.tolist():
            assert all(agent.tried[row] == agent._tries(t) for row in agent._rows_of(t, s))
        assert mdp.value(agent.policy) == run.value
    assert agent.tried[agent.problem.table.start] == 0


def test_methods_and_resume() -> None:
    """All its episodes are walked, so both methods agree; cut anywhere, it goes on the same."""
    mdp = make("chain:n=3,horizon=4")

    def run(episodes: int | None = None, method: Any = "bulk", resume: Any = None) -> Any:
        return simulate(mdp, new_agent(mdp, 0.8, 0.3), episodes, 5, method, resume=resume)

    def rows(run: Any) -> list[Any]:
        return [(row.first_episode, row.episodes, row.n, row.value) for row in run.rows]

    whole = run()
    assert whole.final
    assert rows(run(method="step")) == rows(whole)
    for most in (1, 2, 100, 777, whole.episodes - 1):
        part = run(most)
        assert part.episodes == most
        assert rows(run(resume=part)) == rows(whole)


def test_refusals() -> None:
    mdp = make("chain:n=3,horizon=3")
    with pytest.raises(InputError, match=r"a policy that reaches.*ucfh"):
        Reveliotis(mdp.problem, 0.5, 0.1)
    with pytest.raises(InputError, match="known rewards"):
        Reveliotis(mdp.problem.hiding("rewards"), 0.5, 0.1, mdp=mdp)
    with pytest.raises(InputError, match="scale"):
        new_agent(mdp, scale=-1)


def test_nothing_to_decide() -> None:
    mdp = MDP([[[0.5, 0.5]], [[0, 1]]], [[0], [1]], 3)
    run = simulate(mdp, new_agent(mdp))
    assert (run.final, run.episodes, run.gap) == (True, 0, 0)
    assert isinstance(mdp.problem, Problem)
