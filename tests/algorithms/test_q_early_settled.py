"""Q-EarlySettled-Advantage: its numbers, its page, its bounds, and what is learned."""

from __future__ import annotations

from math import log, log2, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from scipy.optimize import brentq

from ucfh import MDP, Problem, make, simulate
from ucfh._kernels.q_advantage import LCB, UCB
from ucfh.algorithms.q_early_settled import QEarlySettled
from ucfh.simulation.environment import Simulator

SMALL, LONG = (5, 2, 5), (6, 2, 12)  # (S, A, H), delta = 0.1, K = 1000
GOLDEN = [
    (SMALL, 1, (324.0044861098, 28.97984223825, 2624.472675481)),
    (SMALL, 100, (32.40044861098, 2.897984223825, 82.99311311392)),
    (LONG, 10, (396.0065093966, 9.526436033376, 2904.914915172)),
]


@pytest.mark.parametrize(("shape", "n", "wanted"), GOLDEN)
def test_bonuses_by_hand(shape: tuple[int, int, int], n: int, wanted: tuple[float, ...]) -> None:
    """8 times sqrt(H^3 iota/n), sqrt(iota/n), H^2 iota/n^.75, computed apart; a tenth is seen."""
    S, A, H = shape
    problem = Problem(S, A, H, np.zeros((S, A)), initial=0)
    for scale in (1.0, 1.1):
        agent = QEarlySettled(problem, 0.5, 0.1, 1000, scale)
        found = [float(x[0]) for x in agent.bonuses(np.array([float(n)]))]
        assert found == pytest.approx([scale * x for x in wanted], rel=1e-10)
    assert agent.tables[0, [1, 2, 10]] == pytest.approx([(H + 1) / (H + n) for n in (1, 2, 10)])


def weights_after(H: int, n: int) -> Any:
    """(n,) w_i = eta_i (1 - eta_{i+1}) ... (1 - eta_n), eta_i = (H + 1)/(H + i)."""
    eta = (H + 1) / (H + np.arange(1.0, n + 1))
    return eta * np.append(np.cumprod((1 - eta)[:0:-1])[::-1], 1.0)


def by_the_page(agent: QEarlySettled, mdp: MDP, episodes: Any) -> dict[str, Any]:
    """The algorithm, one line after the other, all that was seen kept; steps (s, a, s')."""
    S, A, H, cb = agent.S, agent.A, agent.H, 8 * agent.scale
    iota = log(S * A * agent.K * H / agent.delta)
    pairs = [(t, s, a) for t in range(H) for s in range(S) for a in range(A)]
    Q, Q_ucb, Q_ref = ({x: float(H) for x in pairs} for _ in range(3))
    Q_lcb, B = dict.fromkeys(pairs, 0.0), dict.fromkeys(pairs, 0.0)
    V = {(t, s): float(H) * (t < H) for t in range(H + 1) for s in range(S)}
    V_ref, V_lcb, u_ref = dict(V), dict.fromkeys(V, 0.0), dict.fromkeys(V, True)
    seen: dict[Any, list[tuple[float, float]]] = {x: [] for x in pairs}
    table, dense = mdp.table, mdp.rewards.successor
    for steps in episodes:
        for t, (s, a, after) in enumerate(steps):
            x, y = (t, s, a), (t + 1, after)
            r = mdp.rewards.pair[min(t, len(mdp.rewards.pair) - 1), s * A + a]
            paid = 0.0
            if dense is not None:
                at = table.entries_of(s * A + a)
                e = at.start + int(np.flatnonzero(table.indices[at] == after)[0])
                paid = dense[min(t, len(dense) - 1), e]
            seen[x].append((V_ref[y] + paid, V[y] - V_ref[y]))
            n = len(seen[x])
            eta = (H + 1) / (H + n)
            b = cb * sqrt(H**3 * iota / n)
            Q_ucb[x] = (1 - eta) * Q_ucb[x] + eta * (r + paid + V[y] + b)
            Q_lcb[x] = (1 - eta) * Q_lcb[x] + eta * (r + paid + V_lcb[y] - b)
            ref, adv = (np.array(z) for z in zip(*seen[x], strict=True))
            weights = weights_after(H, n)
            var_adv = max(0.0, weights @ adv**2 - (weights @ adv) ** 2)
            now = cb * sqrt(iota / n) * (np.std(ref) + sqrt(H) * sqrt(var_adv))
            b_ref = now + (1 - eta) * (now - B[x]) / eta + cb * H**2 * iota / n**0.75
            B[x] = now
            Q_ref[x] = (1 - eta) * Q_ref[x] + eta * (r + adv[-1] + ref.mean() + b_ref)
            Q[x] = min(Q_ref[x], Q_ucb[x], Q[x])
            V[t, s] = max(Q[t, s, z] for z in range(A))
            V_lcb[t, s] = max(V_lcb[t, s], *(Q_lcb[t, s, z] for z in range(A)))
            if V[t, s] - V_lcb[t, s] > 1:
                V_ref[t, s], u_ref[t, s] = V[t, s], True
            elif u_ref[t, s]:
                V_ref[t, s], u_ref[t, s] = V[t, s], False
    kinds = {"Q": [[z[x] for x in pairs] for z in (Q_ucb, Q_lcb, Q_ref, Q)]}
    for name, values in {"V": V, "L": V_lcb, "anchor": V_ref}.items():
        kinds[name] = [[values[t, s] for s in range(S)] for t in range(H + 1)]
    return kinds


def random_mdp(S: int, A: int, H: int, seed: int, on_next: bool) -> MDP:
    rng = np.random.default_rng(seed)
    rewards = rng.random((1, S, A, S)) if on_next else rng.random((S, A))
    return MDP(rng.dirichlet(np.ones(S), (S, A)), rewards, H)


def watched(agent: QEarlySettled, A: int) -> list[Any]:
    """Where the steps (s, a, s') of each episode that it learns from will be found."""
    walked: list[Any] = []
    observe, table = agent.observe, agent.problem.table

    def watch(seen: Any) -> bool:
        for steps in seen.steps:
            pair = table.row_of_entry[steps] % table.pairs
            after = table.indices[steps]
            walked.append(
                [(int(k) // A, int(k) % A, int(s)) for k, s in zip(pair, after, strict=True)]
            )
        return observe(seen)

    agent.observe = watch  # type: ignore[method-assign]
    return walked


@settings(max_examples=25, deadline=None)
@given(
    st.integers(1, 4), st.integers(1, 3), st.integers(1, 4), st.integers(0, 99), st.booleans(),
    st.sampled_from([1.0, 0.01, 0.0004]),
)  # fmt: skip
def test_against_the_page(S: int, A: int, H: int, seed: int, on_next: bool, scale: float) -> None:
    """All values after some episodes, learned from the same steps; and the compiled loop."""
    mdp = random_mdp(S, A, H, seed, on_next)
    agents = [QEarlySettled(mdp.problem, 0.5, 0.1, 100, scale) for _ in range(2)]
    walked = watched(agents[0], A)
    runs = [
        simulate(mdp, agents[0], episodes=40, seed=seed, method="step"),
        simulate(mdp, agents[1], episodes=40, seed=seed),
    ]
    for name, slow in by_the_page(agents[0], mdp, walked).items():
        found = getattr(agents[0], name)
        # a variance is exact to some units of H^2 in the last place, a deviation to its root
        np.testing.assert_allclose(found[:, :-1] if name == "Q" else found, slow, atol=1e-6 * H)
        np.testing.assert_array_equal(found, getattr(agents[1], name))
    assert [x.value for x in runs[0].rows] == [x.value for x in runs[1].rows]


CHAIN = make("chain:n=3,horizon=3")
BEST = CHAIN.optimal().values
BEST_Q = CHAIN.rewards.pair.reshape(-1, 3, 2) + np.stack(
    [CHAIN.table.dense(CHAIN.p) @ BEST[t + 1] for t in range(3)]
)


def nature_of(agent: QEarlySettled) -> Any:
    return Simulator(CHAIN.by_segment(), agent.problem).model


def test_settles_once() -> None:
    """V^R is V until V - V^LCB <= 1, and is never changed again; all bounds are monotone."""
    agent = QEarlySettled(CHAIN.problem, 0.5, 0.1, 3000, scale=0.0025)
    rng, nature, moving = np.random.default_rng(0), nature_of(agent), set()
    for _ in range(300):
        before = {x: getattr(agent, x).copy() for x in ("V", "L", "anchor", "open")}
        agent.follow(rng, nature, 1)
        assert (before["V"] >= agent.V).all()
        assert (before["L"] <= agent.L).all()
        assert (agent.open <= before["open"]).all()
        closed, reference = ~before["open"], agent.anchor[:-1]
        assert (reference[closed] == before["anchor"][:-1][closed]).all()
        assert (reference[agent.open] == agent.V[:-1][agent.open]).all()
        assert ((agent.V - agent.L)[:-1][agent.open] > 1).all()
        assert ((agent.V - agent.L)[:-1][~agent.open] <= 1).all()
        moving.add(int(agent.open.sum()))
    assert max(moving) == 9
    assert min(moving) <= 5
    assert (agent.anchor[:-1][~agent.open] > agent.V[:-1][~agent.open]).any()


def lacking(S: int, A: int, H: int, K: int, delta: float, n: int) -> float:
    """The c_b that the proof in the docstring needs at n visits, if the last bonus is not 2 H."""
    iota = log(S * A * H * K / delta)
    x, D = iota + log(12 + log2(K)), H + 1
    if 8 * H * iota >= 2 * n**0.75:
        return 0.0
    slow = 2 * sqrt(6) * H**1.75 * x**0.75 + H**1.5 * sqrt(x)
    slow += 3 * sqrt(3 / sqrt(2)) * D * x**0.75 + 3 * D * sqrt(x / 8)
    rest = slow / n**0.75 + (4 * H**2 / 3 + D) * x / n
    roots = max(2 * sqrt(2 * x / iota), 3 * sqrt(x / iota))
    return max(roots, float(rest / (H**2 * iota / n**0.75)))


def test_bonus_is_what_the_proof_needs() -> None:
    """At all sizes; and not much more than that, so that a tenth less would be noticed."""
    needed = max(
        lacking(S, A, H, int(10 ** (k / 8)), delta, int(10 ** (j / 8)))
        for H in (2, 3, 5, 20)
        for S, A, delta in ((2, 1, 1), (2, 2, 0.1), (10, 5, 0.05))
        for k in range(100)
        for j in range(k + 1)
    )
    assert 0.9 * 8 < needed <= 8


def rest_of(H: int, iota: float) -> float:
    """What the proof needs besides roots of variances, at the fewest visits and S A = 2."""
    x, n = iota + log(12 + (iota - log(2 * H)) / log(2)), (4 * H * iota) ** (4 / 3)
    if H == 1:
        slow = 4 * sqrt(3 / sqrt(2)) * x**0.75 + sqrt(2 * x)
        return float((slow + 4 * x / 3 / n**0.25) / iota)
    D = H + 1
    slow = 2 * sqrt(6) * H**1.75 * x**0.75 + H**1.5 * sqrt(x)
    slow += 3 * sqrt(3 / sqrt(2)) * D * x**0.75 + 3 * D * sqrt(x / 8)
    return float((slow + (4 * H**2 / 3 + D) * x / n**0.25) / (H**2 * iota))


def least_iota(H: int) -> float:
    """Where (4 H iota)^(4/3) = e^iota/(2 H): below, the last bonus alone is 2 H."""
    return float(brentq(lambda i: i - log(2 * H) - 4 / 3 * log(4 * H * i), log(2 * H) + 2, 99.0))


def test_bonus_at_the_worst_size() -> None:
    """The numbers of the docstring; beyond the least iota and H all terms fall."""
    for H, least, most_x, most in ((1, 4.56, 1.63, 7.42), (2, 6.69, 1.45, 7.56)):
        iota = least_iota(H)
        x = iota + log(12 + (iota - log(2 * H)) / log(2))
        assert least < iota < least + 0.01
        assert 0.99 * most_x < x / iota < most_x
        assert most - 0.01 < rest_of(H, iota) < most
    rest = [[rest_of(H, least_iota(H) * 1.1**i) for i in range(150)] for H in range(2, 100)]
    assert (np.diff(rest, axis=0) < 0).all()
    assert (np.diff(rest, axis=1) < 0).all()


@pytest.mark.parametrize("H", [1, 2, 5, 20])
def test_weights(H: int) -> None:
    """What the proof says of them."""
    for n in range(1, 300):
        w = weights_after(H, n)
        assert w.sum() == pytest.approx(1)
        assert max(w.max(), (w**2).sum()) <= 2 * H / n + 1e-12
        assert (w / np.arange(1, n + 1)).sum() <= (1 + 1 / H) / n + 1e-12


def failures(scale: float) -> list[int]:
    """Of 100 runs: in how many Q^UCB, Q^LCB, V^LCB or V were ever on the wrong side."""
    totals = np.zeros(4, int)
    for seed in range(100):
        agent = QEarlySettled(CHAIN.problem, 0.5, 0.5, 300, scale)
        rng, nature, wrong = np.random.default_rng(seed), nature_of(agent), np.zeros(4, bool)
        for _ in range(30):
            agent.follow(rng, nature, 10)
            upper, lower = agent.Q[[UCB, LCB], :-1]
            wrong |= [
                bool((upper < BEST_Q.ravel() - 1e-9).any()),
                bool((lower > BEST_Q.ravel() + 1e-9).any()),
                bool((agent.L > BEST + 1e-9).any()),
                bool((agent.V < BEST - 1e-9).any()),
            ]
        totals += wrong
    return [int(x) for x in totals]


def rejected(failed: int) -> bool:
    """Whether so many runs of 100 speak against a probability of delta = 0.5."""
    return bool(stats.binomtest(failed, 100, 0.5, alternative="greater").pvalue < 1e-3)


def test_bounds() -> None:
    """They hold; none does with hardly any bonus."""
    assert not any(map(rejected, failures(1.0)))
    assert all(map(rejected, failures(1e-4)))


@pytest.mark.slow
def test_becomes_optimal() -> None:
    """With bonuses at a thousandth: at one, H^1.5 is more than a short chain ever pays."""
    agent = QEarlySettled(CHAIN.problem, 0.1, 0.1, 100_000, scale=0.00125)
    run = simulate(CHAIN, agent, episodes=100_000)
    assert run.gap == pytest.approx(0, abs=1e-12)
    assert not agent.open[0, 0]


def test_transitions_that_depend_on_the_step() -> None:
    """What is seen at one step says nothing of the others: here they are opposites."""
    right, wrong = [[[0.9, 0.1], [0.1, 0.9]]] * 2, [[[0.1, 0.9], [0.9, 0.1]]] * 2
    mdp = MDP([right, wrong, right], [[0, 0], [1, 1]], 3)
    agent = QEarlySettled(mdp.problem, 0.5, 0.1, 20_000, scale=0.00125)
    assert simulate(mdp, agent, episodes=20_000).gap == pytest.approx(0, abs=1e-9)
