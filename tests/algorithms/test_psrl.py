"""PSRL and OPSRL: the law of what is drawn, planning for the best draw, and what is learned."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ucfh import MDP, InputError, make, simulate
from ucfh._kernels import thompson as kernels
from ucfh.algorithms.psrl import OPSRL, PSRL, PosteriorSampler

DRAWS = 20_000


def draws(c: list[int], prior: float, apart: float = 0.0, kappa: float = 1.0) -> Any:
    """(DRAWS, k + 1) rows from the posterior; the last column is the state aside."""
    p, aside = np.zeros((DRAWS, len(c) + 1)), np.zeros((DRAWS, 2))
    indptr = np.array([0, len(c), len(c) + 1])
    counts = np.array([*c, 0])
    rng = np.random.default_rng(0)
    posterior = kernels.Posterior(prior=prior, apart=apart, kappa=kappa, pays=0.0, cap=False)
    kernels.draw_models(rng, indptr, counts, posterior, kernels.Draws(p, aside))
    return np.column_stack([p[:, : len(c)], aside[:, 0]])


@pytest.mark.parametrize(
    ("c", "prior", "apart", "kappa"),
    [
        ([3, 2, 1, 1, 0], 1.0, 0.0, 1.0),
        ([0, 0, 0], 0.2, 0.0, 1.0),
        ([5, 0, 1], 0.0, 1.0, 1.0),
        ([50, 7], 0.0, 2.0, 4.0),
        ([100_000, 1], 0.5, 0.0, 1.0),
    ],
)
def test_each_share_is_a_beta(c: list[int], prior: float, apart: float, kappa: float) -> None:
    """The law of Dirichlet's components, by Kolmogorov and Smirnov."""
    shapes = np.array([*((x + prior) / kappa for x in c), apart / kappa])
    p = draws(c, prior, apart, kappa)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-12)
    for j, shape in enumerate(shapes):
        if shape == 0:
            assert (p[:, j] == 0).all()
        else:
            law = stats.beta(shape, shapes.sum() - shape)
            assert stats.kstest(p[:, j], law.cdf).pvalue > 1e-4


def test_posterior_by_hand() -> None:
    """S = 5, prior 1, n = 7, a count of 3: mean 1/3, variance 32/1872."""
    first = draws([3, 2, 1, 1, 0], 1.0)[:, 0]
    error = np.sqrt(0.0170940170940 / DRAWS)
    assert first.mean() == pytest.approx(1 / 3, abs=4 * error)
    assert first.var() == pytest.approx(0.0170940170940, rel=4 * np.sqrt(2 / DRAWS))


def test_shapes_too_small_for_numbers() -> None:
    """Where all gammas underflow, a single successor is drawn, not 0/0."""
    p = draws([2, 5], 0.0, 0.0, 1e6)
    np.testing.assert_allclose(p.sum(1), 1)


def slow_plan(agent: PosteriorSampler, mdp: MDP) -> Any:
    """The best draw of each pair, by plain loops over states."""
    H, S, A = agent.H, agent.S, agent.A
    V = np.zeros((H + 1, S))
    for t in reversed(range(H)):
        for s in range(S):
            q = []
            for a in range(A):
                at = mdp.table.entries_of(s * A + a)
                ahead = []
                for j in range(agent.models):
                    x = float(agent.draws.p[j, at] @ V[t + 1, mdp.table.indices[at]])
                    if mdp.rewards.successor is not None:
                        x += float(agent.draws.p[j, at] @ mdp.rewards.successor[0, at])
                    ahead.append(x + agent.draws.aside[j, s * A + a] * agent.pays * (H - 1 - t))
                q.append(mdp.rewards.pair[0, s * A + a] + max(ahead))
            V[t, s] = max(q) if not agent.cap else min(max(q), H - t)
    return V


@settings(max_examples=30, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99), st.booleans(),
    st.booleans(),
)  # fmt: skip
def test_planning_for_the_best_draw(
    S: int, A: int, H: int, seed: int, optimistic: bool, on_next: bool
) -> None:
    rng = np.random.default_rng(seed)
    rewards = rng.random((1, S, A, S)) if on_next else rng.random((S, A))
    mdp = MDP(rng.dirichlet(np.ones(S), (S, A)), rewards, H)
    agent: PosteriorSampler = PSRL(mdp.problem, 0.5, 0.1, 100, seed=seed)
    if optimistic:
        agent = OPSRL(mdp.problem, 0.5, 0.1, 100, seed=seed, J=3, kappa=2.0, n0=1.5, r0=2.0)
    simulate(mdp, agent, episodes=5, seed=seed)
    np.testing.assert_allclose(agent.V, slow_plan(agent, mdp), rtol=1e-12)


@pytest.mark.parametrize("cls", [PSRL, OPSRL])
def test_becomes_optimal(cls: Any) -> None:
    mdp = make("chain:n=5,horizon=5")
    run = simulate(mdp, cls(mdp.problem, 0.1, 0.1, 5000), episodes=5000)
    assert run.gap == pytest.approx(0, abs=1e-12)


def test_own_seed_matters_and_suffices() -> None:
    mdp = make("riverswim:n=4,horizon=6")

    def values(seed: int) -> list[float]:
        run = simulate(mdp, PSRL(mdp.problem, 0.1, 0.1, 50, seed=seed), episodes=50, seed=0)
        return [x.value for x in run.rows]

    assert values(1) == values(1)
    assert values(1) != values(2)


@pytest.mark.parametrize(
    ("cls", "choice", "message"),
    [
        (PSRL, {"prior": 0.0}, "prior = 0.0 must be a positive number"),
        (OPSRL, {"J": 0}, "J = 0 must be an integer"),
        (OPSRL, {"kappa": -1.0}, "kappa = -1.0 must be"),
        (OPSRL, {"n0": float("inf")}, "n0 = inf must be"),
    ],
)
def test_bad_choices(cls: Any, choice: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        cls(make("chain:n=3").problem, 0.1, 0.1, 100, **choice)
