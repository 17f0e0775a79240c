"""UCB-H and UCB-B: the published numbers, the published loop, optimism, and what is learned."""

from __future__ import annotations

from math import log, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from ucfh import MDP, make, simulate
from ucfh.algorithms.qlearning import UCBB, UCBH

# (S, A, H), delta = 0.1, K = 1000
SMALL, LONG = (5, 2, 5), (6, 2, 12)


def agent(shape: tuple[int, int, int], cls: type[UCBH] = UCBH, **choices: Any) -> UCBH:
    S, A, H = shape
    mdp = MDP(np.full((S, A, S), 1 / S), np.zeros((S, A)), H)
    return cls(mdp.problem, 0.5, 0.1, 1000, **choices)


GOLDEN = [
    (SMALL, 1, 40.5005607637),
    (SMALL, 10, 12.8074018527),
    (SMALL, 1000, 1.28074018527),
    (LONG, 10, 49.5008136746),
]


@pytest.mark.parametrize(("shape", "n", "wanted"), GOLDEN)
def test_bonus_by_hand(shape: tuple[int, int, int], n: int, wanted: float) -> None:
    """sqrt(H^3 ln(S A K H/delta)/n), computed apart."""
    assert agent(shape).bonus(np.array([float(n)]))[0] == pytest.approx(wanted, rel=1e-10)
    # and so ten per cent more would be noticed
    assert agent(shape, scale=1.1).bonus(np.array([float(n)]))[0] != pytest.approx(wanted, 1e-2)


@pytest.mark.parametrize(
    ("n", "wanted"), [(10.0, 25.6148037055), (1e6, 0.0810011215274), (1e8, 0.00810011215274)]
)
def test_bernstein_by_hand(n: float, wanted: float) -> None:
    """beta_n at an empirical variance of 2.25; the second branch is the smaller one for long."""
    factor, rest, cap = (x[0] for x in agent(SMALL, UCBB).beta_parts(np.array([n])))
    assert min(factor * sqrt(2.25 + 5) + rest, cap) == pytest.approx(wanted, rel=1e-10)


def test_bernstein_branch_by_hand() -> None:
    S, A, H = SMALL
    iota = log(S * A * 1000 * H / 0.1)
    assert iota == pytest.approx(13.1223633774, rel=1e-10)
    n, W = 1e10, 0.1
    factor, rest, cap = (x[0] for x in agent(SMALL, UCBB).beta_parts(np.array([n])))
    wanted = 4 * (sqrt(H / n * (W + H) * iota) + sqrt(H**7 * S * A) * iota / n)
    assert factor * sqrt(W + H) + rest == pytest.approx(wanted, rel=1e-12)
    assert wanted < cap


def test_rates_by_hand() -> None:
    alpha = agent(SMALL).tables[0]
    assert alpha[[1, 2, 10]] == pytest.approx([1, 0.857142857143, 0.4], rel=1e-10)


def by_the_page(agent: UCBH, mdp: MDP, episodes: list[list[tuple[int, int, int]]]) -> Any:
    """Algorithms 1 and 2, one line after the other; steps (s, a, s')."""
    S, A, H = agent.S, agent.A, agent.H
    r = mdp.table
    pair = np.broadcast_to(mdp.rewards.pair, (H, r.pairs))
    iota = log(S * A * agent.K * H / agent.delta)
    Q = {(t, s, a): float(H) for t in range(H) for s in range(S) for a in range(A)}
    N = dict.fromkeys(Q, 0)
    mu, sigma, beta = dict.fromkeys(Q, 0.0), dict.fromkeys(Q, 0.0), dict.fromkeys(Q, 0.0)

    def V(t: int, s: int) -> float:
        return 0.0 if t == H else min(H, max(Q[t, s, a] for a in range(A)))

    for steps in episodes:
        for t, (s, a, after) in enumerate(steps):
            x = t, s, a
            N[x] += 1
            n, ahead = N[x], V(t + 1, after)
            alpha = (H + 1) / (H + n)
            if agent.bernstein:
                mu[x] += ahead
                sigma[x] += ahead**2
                W = max(0.0, sigma[x] / n - (mu[x] / n) ** 2)
                now = min(
                    4 * (sqrt(H / n * (W + H) * iota) + sqrt(H**7 * S * A) * iota / n),
                    2 * sqrt(H**3 * iota / n),
                )
                now *= agent.scale
                b = (now - (1 - alpha) * beta[x]) / (2 * alpha)
                beta[x] = now
            else:
                b = agent.scale * sqrt(H**3 * iota / n)
            reward = pair[t, s * A + a]
            if mdp.rewards.successor is not None:
                row = r.entries_of(s * A + a)
                at = row.start + int(np.flatnonzero(r.indices[row] == after)[0])
                lines = mdp.rewards.successor
                reward += lines[min(t, len(lines) - 1), at]
            Q[x] = (1 - alpha) * Q[x] + alpha * (reward + ahead + b)
    return Q


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99),
    st.sampled_from([UCBH, UCBB]), st.booleans(),
)  # fmt: skip
def test_against_the_page(
    S: int, A: int, H: int, seed: int, cls: type[UCBH], on_next: bool
) -> None:
    """Q after some episodes, learned from the same steps; and the compiled loop."""
    rng = np.random.default_rng(seed)
    rewards = rng.random((1, S, A, S)) if on_next else rng.random((S, A))
    mdp = MDP(rng.dirichlet(np.ones(S), (S, A)), rewards, H)
    agents = [cls(mdp.problem, 0.5, 0.1, 100, scale=0.05) for _ in range(2)]
    walked: list[list[tuple[int, int, int]]] = []
    observe, table = agents[0].observe, agents[0].problem.table

    def watch(seen: Any) -> bool:
        for steps in seen.steps:
            row = table.row_of_entry[steps]
            walked.append(
                [(int(k) // A, int(k) % A, int(s)) for k, s in
                 zip(row % table.pairs, table.indices[steps], strict=True)]
            )  # fmt: skip
        return observe(seen)

    agents[0].observe = watch  # type: ignore[method-assign]
    runs = [
        simulate(mdp, agents[0], episodes=30, seed=seed, method="step"),
        simulate(mdp, agents[1], episodes=30, seed=seed),
    ]
    Q = by_the_page(agents[0], mdp, walked)
    slow = [Q[t, s, a] for t in range(H) for s in range(S) for a in range(A)]
    np.testing.assert_allclose(agents[0].Q[:-1], slow, rtol=1e-12)
    np.testing.assert_array_equal(agents[0].Q, agents[1].Q)
    assert [x.value for x in runs[0].rows] == [x.value for x in runs[1].rows]


@pytest.mark.parametrize("cls", [UCBH])
def test_optimism(cls: type[UCBH]) -> None:
    """V_1 >= V* in all episodes of 100 runs, but for a share of delta = 0.5."""
    mdp = make("chain:n=3,horizon=3")
    optimal, failures = mdp.at_start(mdp.optimal().values), 0
    for seed in range(100):
        run = simulate(mdp, cls(mdp.problem, 0.5, 0.5, 300), episodes=300, seed=seed)
        failures += min(x.optimistic for x in run.rows) < optimal - 1e-9
    assert stats.binomtest(failures, 100, 0.5, "greater").pvalue > 1e-3
    # power: with a bonus that is far too small it is found out
    failures = 0
    for seed in range(100):
        run = simulate(mdp, cls(mdp.problem, 0.5, 0.5, 300, scale=1e-3), episodes=300, seed=seed)
        failures += min(x.optimistic for x in run.rows) < optimal - 1e-9
    assert stats.binomtest(failures, 100, 0.5, "greater").pvalue < 1e-3


@pytest.mark.slow
@pytest.mark.parametrize("cls", [UCBH, UCBB])
def test_becomes_optimal(cls: type[UCBH]) -> None:
    """With the bonus at a hundredth: at one, H^1.5 is more than a short chain ever pays."""
    mdp = make("chain:n=3,horizon=3")
    run = simulate(mdp, cls(mdp.problem, 0.1, 0.1, 100_000, scale=0.01), episodes=100_000)
    assert run.gap == pytest.approx(0, abs=1e-12)
