"""Agents that plan rarely: their formulas, their optimism, their lives, and slow counterparts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import binomtest

from support.agents import bonus, over, random_mdp, small, told, visits, width
from support.settings import many
from ucfh import MDP, Problem, make, simulate
from ucfh.algorithms.delayed_q import DelayedQ
from ucfh.algorithms.mormax import MoRMax
from ucfh.algorithms.mvp import MVP
from ucfh.algorithms.phased import Phased
from ucfh.algorithms.rmax import Kakade, RMax
from ucfh.algorithms.ucrl import UCRL2, AuerOrtner, UCRLGamma
from ucfh.counts import Counts, Limits
from ucfh.exceptions import InputError
from ucfh.simulation.result import Run

ALL: list[type[Phased]] = [RMax, Kakade, UCRL2, AuerOrtner, UCRLGamma, MVP, DelayedQ, MoRMax]


def radius(point: str, scale: float, t: int, n: int) -> float:
    agent = UCRL2(*told(point), scale=scale)
    agent.n.visits[0] = t - 1
    return float(agent.coefficients(np.array([max(1.0, n)]))["radius"][0])


def constant(point: str, scale: float, name: str) -> float:
    agent = UCRLGamma(*told(point), scale=scale**0.5)
    return float(getattr(agent, name))


def end(point: str, scale: float, p_hat: float, n: int, which: int) -> float:
    """An end of UCRL-gamma's interval: how far it is from p^."""
    agent = UCRLGamma(*told(point), scale=scale)
    return float(agent.bounds(np.array([p_hat]), np.array([float(n)]))[which][0]) - p_hat


GOLDEN: list[tuple[Callable[..., float], str, tuple[Any, ...], float]] = [
    (visits(RMax), "A", (), 1000000001),
    (visits(RMax), "B", (), 512000000001),
    (visits(RMax), "C", (), 330225942529),
    (visits(Kakade), "A", (), 695962),
    (visits(Kakade), "B", (), 6926774),
    (visits(Kakade), "C", (), 25501029),
    (visits(DelayedQ), "A", (), 182656),
    (visits(DelayedQ), "B", (), 954257),
    (visits(DelayedQ), "C", (), 7503183),
    (visits(MoRMax), "A", (), 85538104),
    (visits(MoRMax), "B", (), 431609053),
    (visits(MoRMax), "C", (), 3415217031),
    (radius, "A", (1, 0), 16.0692738413),
    (radius, "A", (501, 40), 4.16348408447),
    (radius, "A", (1_000_000, 10_000), 0.350043897368),
    (radius, "C", (12001, 100), 3.3149004146),
    (width, "A", (501, 40), 0.674364032552),
    (width, "A", (1_000_000, 10_000), 0.0609819113165),
    (width, "B", (501, 40), 0.703201622068),
    (width, "C", (501, 40), 0.677735115897),
    (bonus, "A", (64, 2.25), 176.945764676),
    (bonus, "A", (2**20, 2.25), 0.396351090089),
    (bonus, "C", (2**14, 9.0), 7.71477875523),
    (bonus, "B", (2**12, 1.0), 6.50283954589),
    (constant, "A", ("m",), 9800523.40774),
    (constant, "B", ("m",), 104087023.496),
    (constant, "C", ("m",), 103688511.318),
    (constant, "A", ("cutoff",), 245013085.194),
    (constant, "C", ("L1",), 8.90424012162),
    (end, "A", (0.3, 50, 0), 0.0544075666608 - 0.3),
    (end, "A", (0.3, 50, 1), 0.591548697761 - 0.3),
    (end, "A", (0.0, 100, 1), 0.206156061233),
    (end, "A", (0.8, 10_000, 0), 0.782421360084 - 0.8),
    (end, "A", (0.8, 10_000, 1), 0.816525422286 - 0.8),
]


@pytest.mark.parametrize(("formula", "point", "at", "expected"), GOLDEN)
def test_formulas(
    formula: Callable[..., float], point: str, at: tuple[Any, ...], expected: float
) -> None:
    """As computed by hand, to all digits given; 10 % more of the leading factor would be noticed.

    The ends of intervals are given to twelve decimals, and p^ is taken from them.
    """
    as_published = pytest.approx(expected, rel=1e-10, abs=2e-12 if formula is end else 0)
    assert formula(point, 1.0, *at) == as_published
    assert formula(point, 1.1, *at) != as_published


def test_other_constants() -> None:
    """Those that scale does not touch."""
    agent = UCRLGamma(*told("B"))
    exact = {"w_min": 0.000625, "u_max": 1037.26274277, "delta_1": 2.41018972041e-5}
    for name, value in exact.items():
        assert getattr(agent, name) == pytest.approx(value, rel=1e-10)
    assert agent.delay == 9  # ln(8 * 20 * 5/.25) = 8.07
    assert width("A", 1.0, 1, 1) == 1.0
    # the other arm of K1, where S H^2/eps is small
    for actions, delta, m in ((10, 0.1, 1572), (60, 0.05, 4205), (12, 0.1, 1710)):
        assert RMax(Problem(1, actions, 1, 0.5, initial=0), 1.0, delta, 1).m == m
    bound = Kakade(*told("A")).episode_bound
    assert bound == pytest.approx(278384919.829, rel=1e-10)
    assert Kakade(*told("A"), scale=0.5).episode_bound is None


@settings(max_examples=50, deadline=None)
@given(st.floats(0, 1), st.integers(1, 10**6))
def test_interval_of_ucrl_gamma(p_hat: float, n: int) -> None:
    """All members of the printed set lie within, and just outside there are none."""
    agent = UCRLGamma(*told("A"))
    lo, hi = (float(x[0]) for x in agent.bounds(np.array([p_hat]), np.array([float(n)])))

    def member(q: Any) -> Any:
        with_variance = np.sqrt(2 * agent.L1 * q * (1 - q) / n) + 2 * agent.L1 / (3 * n)
        return abs(q - p_hat) <= np.minimum(with_variance, np.sqrt(agent.L1 / (2 * n)))

    grid = np.linspace(0, 1, 2001)
    inside = grid[member(grid)]
    assert ((lo - 1e-9 <= inside) & (inside <= hi + 1e-9)).all()
    assert lo <= p_hat + 1e-12
    assert hi >= p_hat - 1e-12
    for end, outward in ((lo, -1), (hi, 1)):
        beyond = end + outward * 1e-6
        assert not 0 <= beyond <= 1 or not member(beyond)
        assert member(min(max(end - outward * 1e-9, 0.0), 1.0)) or hi - lo < 1e-8


# Optimism: in all phases of a run, in as many runs as promised.

TIGHT: dict[type[Phased], tuple[float, float]] = {
    # by how much it may fall short, in epsilons; and a scale that is far too small
    RMax: (0.25, 1e-4),
    Kakade: (0.25, 1e-4),
    UCRL2: (0.0, 0.01),
    AuerOrtner: (0.0, 0.01),
    UCRLGamma: (0.0, 0.02),
    MVP: (0.0, 1e-3),
    DelayedQ: (0.0, 0.003),
    MoRMax: (1.0, 1e-4),
}


def optimistic_runs(cls: type[Phased], scale: float, runs: int, short: float) -> int:
    """In how many runs V~_1 >= V*_1 - short in all phases."""
    good = 0
    for seed in range(runs):
        p = np.random.default_rng(seed).random((2, 1, 1))
        mdp = MDP(np.concatenate([p, 1 - p], -1), [[0.0], [1.0]], 3)
        agent = cls(mdp.problem, 0.2, 0.1, 10**9, scale)
        run = simulate(mdp, agent, 10**9, seed)
        good += bool((run.phases.optimistic >= run.optimal - short - 1e-9).all())
    return good


@pytest.mark.slow
@over(*ALL)
def test_optimism(cls: type[Phased]) -> None:
    """Not to be told from a share of 1 - delta; and to be told from it where it does not hold."""
    (short, too_small), runs = TIGHT[cls], many(18, 24)
    for scale, holds in ((1.0, True), (too_small, False)):
        good = optimistic_runs(cls, scale, runs, 0.2 * short)
        assert (binomtest(good, runs, 0.9, "less").pvalue > 0.01) == holds, (scale, good)


@over(*ALL)
def test_a_whole_life(cls: type[Phased]) -> None:
    """At scale = 1 the policy becomes optimal, and mistakes are as few as promised."""
    mdp = make("chain:n=3,horizon=3")
    agent = cls(mdp.problem, 0.1, 0.1, 10**13)
    run = simulate(mdp, agent, 10**13 if cls is MVP else None, seed=1)
    assert run.final == (cls is not MVP)
    assert run.gap < 1e-12
    assert run.phases.gap[0] > 0.1
    assert run.optimistic - run.optimal < 0.1
    if cls is RMax:
        assert agent.n.visits[:-1].max() == 1259712001  # (4 * 3 * 9/.1)^3 + 1
        assert run.episodes > 1e9
    if agent.episode_bound is not None:
        assert 0 < run.mistakes() < agent.episode_bound


@over(UCRL2, AuerOrtner)
def test_steps_are_counted_in_bulk(cls: type[UCRL2]) -> None:
    mdp = make("chain:n=4,horizon=5")
    agent = cls(mdp.problem, 0.5, 0.1, 10**6)
    run = simulate(mdp, agent, 10**6)
    assert agent.t + agent.v.visits[:-1].sum() == 1 + 5 * run.episodes


def test_delay() -> None:
    """UCRL-gamma goes on with its policy for as many episodes as it says, then updates."""
    mdp = random_mdp(3)
    agent = UCRLGamma(mdp.problem, 0.5, 0.1, 1000, scale=0.01)
    seen: list[tuple[int, int]] = []

    class Watched(UCRLGamma):
        def learn(self, due: Any) -> None:
            (row,) = due
            assert self.v.visits[row] >= max(self.m * self.w_min, self.n.visits[row])
            assert self.n.visits[row] < self.cutoff
            super().learn(due)
            assert self.v.visits[row] == 0

        def observe(self, counts: Counts) -> bool:
            if self.waiting[0] >= 0:
                seen.append((int(counts.visits[-1]), self.delay))
            return super().observe(counts)

    simulate(mdp, Watched(mdp.problem, 0.5, 0.1, 1000, scale=0.01), 1000)
    assert len(seen) > 5
    assert all(x == (agent.delay, agent.delay) for x in seen[:-1])


def every_episode(cls: type[Phased]) -> Any:
    class Impatient(cls):  # type: ignore[misc, valid-type]
        def limits(self) -> Limits:
            limits = super().limits()
            return Limits(limits.visits, 1, limits.drop_surplus)

    return Impatient


def record(run: Run) -> list[str]:
    """Every row, to be compared exactly; NaN is equal to itself."""
    return [repr(row) for row in run.rows]


def rounded(run: Run) -> list[str]:
    """Every row, where sums may have been taken in another order."""
    return record(
        replace(run, rows=[replace(x, optimistic=round(x.optimistic, 9)) for x in run.rows])
    )


@pytest.mark.slow
@pytest.mark.parametrize("segments", [False, True])
@over(*ALL)
def test_limits_are_neither_too_long_nor_matter(cls: type[Phased], segments: bool) -> None:
    for seed in range(many(1, 2)):
        mdp = random_mdp(seed, segments=segments)
        runs = [
            simulate(mdp, small(cls, mdp, kind), 1500, seed, "step")
            for kind in (cls, every_episode(cls))
        ]
        one, other = map(rounded, runs)
        if runs[0].final:  # the impatient one does not say so, and goes on with the same policy
            assert runs[1].rows[-1].first_episode + runs[1].rows[-1].episodes == 1500
            del one[-1], other[-1]
        assert one == other
        assert len(one) > 4


@over(*ALL)
def test_state_in_the_middle_of_a_phase(cls: type[Phased]) -> None:
    """What is saved at any time and put into a new agent goes on as the old one does."""
    mdp = random_mdp(8)
    agent, rng = small(cls, mdp, every_episode(cls)), np.random.default_rng(0)
    for _ in range(25):
        simulate(mdp, agent, int(rng.integers(1, 9)), int(rng.integers(99)), "step")
        other = small(cls, mdp, every_episode(cls))
        other.restore(agent.state())
        assert np.array_equal(agent.policy, other.policy)
        assert agent.optimistic == other.optimistic
        assert np.array_equal(agent.limits().visits, other.limits().visits)
        agent = other  # which is new, and goes on from there


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.integers(1, 3), st.booleans(), st.integers(0, 99))
def test_odd_shapes(S: int, A: int, H: int, segments: bool, seed: int) -> None:
    p = np.random.default_rng(seed).dirichlet(np.ones(min(S, 2)), (H, S, A) if segments else (S, A))
    p = np.concatenate([p, np.zeros((*p.shape[:-1], S - min(S, 2)))], -1)
    mdp = MDP(p, np.full((H, S, A), 0.5), H, terminal=[S - 1] if S > 1 else [])
    for cls in ALL:
        for problem in (mdp.problem, mdp.problem.hiding("initial")):
            run = simulate(mdp, cls(problem, 1.0, 0.5, 200, 0.1), 200, seed)
            assert run.final or run.episodes == 200
            assert run.optimistic >= 0


@over(RMax, Kakade, UCRLGamma, DelayedQ, MoRMax)
def test_too_many_visits_are_refused(cls: type[Phased]) -> None:
    problem = make("chain:n=3").problem
    with pytest.raises(InputError, match=r"64-bit.*larger"):
        cls(problem, 1e-9, 0.1, 10)


def test_three_successors_are_refused() -> None:
    with pytest.raises(InputError, match=r"two successors.*\(s=1, a=1\) has 3.*use ucfh"):
        UCRLGamma(make("riverswim:n=4,horizon=8").problem, 0.5, 0.1, 10)


def test_too_many_visits_name_a_scale_that_fits() -> None:
    problem = make("chain:n=3").problem
    with pytest.raises(InputError) as caught:
        RMax(problem, 1e-6, 0.1, 10)
    fits = float(str(caught.value).split()[-1])
    assert RMax(problem, 1e-6, 0.1, 10, scale=fits).m > 2**60
