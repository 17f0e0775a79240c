"""Certified learning: what it promises when it stops; that it goes on as if uninterrupted."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from oracles import reference as ref
from support.problems import CHAIN, WORLDS
from support.settings import LONG, many
from ucfh import MDP, UCFH, Run, make, simulate
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.exploration import GapExploration
from ucfh.confidence.sets import ALWAYS, AT_DOUBLINGS
from ucfh.confidence.value_bounds import COMPONENTS
from ucfh.counts import Counts
from ucfh.exceptions import InputError
from ucfh.simulation.environment import EpisodeBatch, Simulator

Floats = NDArray[np.float64]


KINDS = [("tight", "growth"), ("tight", "doubling")]


KINDS += [(kind, schedule) for kind in ALWAYS for schedule in ("growth", "doubling")]


KINDS += [(kind, "doubling") for kind in AT_DOUBLINGS]


HARD = make("hard:n=2,actions=2,horizon=5")


def check_certificate(mdp: MDP, run: Run, epsilon: float, delta: float) -> None:
    """What a certificate says, held against the truth."""
    known = run.certificate
    assert known is not None
    assert run.final
    assert known.certified
    assert known.gap <= epsilon
    assert (known.epsilon, known.delta, known.episodes) == (epsilon, delta, run.episodes)
    assert known.policy.shape == (mdp.horizon, mdp.states)
    np.testing.assert_array_equal(known.policy, run.policy)
    value, optimum = mdp.value(known.policy), mdp.at_start(mdp.optimal().values)
    assert known.lower <= value + 1e-12
    assert optimum <= known.upper + 1e-12
    assert optimum - value <= known.gap + 1e-12
    assert run.gap == pytest.approx(optimum - value, abs=1e-12)
    assert known.gap <= known.upper - known.lower + 1e-12
    assert 0 <= known.lower <= known.upper <= mdp.horizon + 1e-8


@pytest.mark.slow
@pytest.mark.parametrize(("confidence", "schedule"), KINDS)
@pytest.mark.parametrize("name", WORLDS)
def test_every_kind_comes_to_a_certificate(name: str, confidence: str, schedule: str) -> None:
    """With delta = 1e-3: that any of these is wrong has a chance of one in ten or so."""
    mdp, problem = WORLDS[name]
    agent = CertifiedUCFH(problem, 0.5, 1e-3, confidence=confidence, schedule=schedule)
    run = simulate(mdp, agent, episodes=200_000, seed=5)
    assert agent.done
    check_certificate(mdp, run, 0.5, 1e-3)
    np.testing.assert_array_equal(agent.policy, run.policy)
    assert run.certificate is not None
    assert run.certificate.method == f"{confidence} sets, {schedule} schedule"
    assert sum(x.share for x in run.certificate.missing) <= 1 + 1e-9


@pytest.mark.slow
@pytest.mark.parametrize("idea", COMPONENTS)
def test_without_any_one_idea(idea: str) -> None:
    for name in ("chain", "rewards unknown"):
        mdp, problem = WORLDS[name]
        agent = CertifiedUCFH(problem, 0.5, 1e-3, without=(idea,))
        check_certificate(mdp, simulate(mdp, agent, episodes=200_000, seed=3), 0.5, 1e-3)


@pytest.mark.parametrize("confidence", ["tight", "kt", "kl"])
def test_walking_comes_to_a_certificate_too(confidence: str) -> None:
    agent = CertifiedUCFH(CHAIN.problem, 0.5, 1e-3, confidence=confidence)
    run = simulate(CHAIN, agent, episodes=200_000, seed=2, method="step")
    check_certificate(CHAIN, run, 0.5, 1e-3)


def test_ucfh_with_a_stop_names_this_agent() -> None:
    for choices in ({"stop": "certificate"}, {"confidence": "kt"}, {"confidence": "tight"}):
        with pytest.raises(
            InputError, match=r"use ucfh\.CertifiedUCFH\(problem, epsilon, delta"
        ) as e:
            UCFH(CHAIN.problem, 0.5, 0.1, **choices)  # type: ignore[arg-type]
        assert len(str(e.value).splitlines()) == 1
    assert CertifiedUCFH(CHAIN.problem, 0.5, 0.1, confidence="kt").schedule == "growth"
    assert not isinstance(CertifiedUCFH(CHAIN.problem, 0.5, 0.1), UCFH)


def test_the_paper_schedule_with_a_stop() -> None:
    """m w_min visits first, then doublings, as often as the printed algorithm updates."""
    agent = CertifiedUCFH(CHAIN.problem, 0.5, 0.01, confidence="kl", schedule="paper", m=9000.0)
    run = simulate(CHAIN, agent, episodes=10**6, seed=1)
    check_certificate(CHAIN, run, 0.5, 0.01)
    least = math.ceil(9000.0 * agent.constants.w_min)
    assert least > 10
    assert all(n == 0 or math.log2(n / least) % 1 == 0 for n in agent.n.visits[:-1])


def test_going_on_for_ever() -> None:
    """Without a stop, bounds go on closing in, and none of what was known gets lost."""
    gaps = []
    run = None
    for episodes in (100, 500, 2500):
        agent = CertifiedUCFH(HARD.problem, 0.5, 0.1, stop=None)
        run = simulate(HARD, agent, episodes, seed=1, resume=run)
        assert not run.final
        assert run.certificate is not None
        gaps.append(run.certificate.gap)
    assert gaps[0] > gaps[1] > gaps[2]
    assert gaps[2] < 0.5


# -- schedules ------------------------------------------------------------------------------------


def test_growth_plans_after_two_percent_more() -> None:
    agent = CertifiedUCFH(CHAIN.problem, 0.01, 0.1)
    run = simulate(CHAIN, agent, episodes=2000, seed=0)
    for row in run.rows[:-1]:
        assert row.episodes == max(1, int(0.02 * row.first_episode))


@pytest.mark.parametrize("confidence", ["tight", "kt", "paper"])
def test_doubling_updates_at_powers_of_two(confidence: str) -> None:
    """Only then is n what it would have been whatever was seen; visits beyond are dropped."""
    mdp, problem = WORLDS["start unknown"]
    agent = CertifiedUCFH(problem, 0.05, 0.1, confidence=confidence, schedule="doubling")
    simulate(mdp, agent, episodes=3000, seed=0)
    visits = agent.n.visits
    assert set(visits.tolist()) <= {0, *(2**k for k in range(14))}
    assert visits.max() > 100
    for row, n in enumerate(visits):
        updates = int(agent.updates[row])
        assert n == (2 ** (updates - 1) if updates else 0)
        assert (agent.v.visits[row] < n) or n == 0


def test_a_doubling_set_needs_doublings() -> None:
    for kind in AT_DOUBLINGS:
        with pytest.raises(InputError, match="holds at doublings only: pass schedule='doubling'"):
            CertifiedUCFH(CHAIN.problem, 0.5, 0.1, confidence=kind, schedule="growth")


# -- problems where little is left to learn --------------------------------------------------------


def deterministic(**options: Any) -> MDP:
    p = np.zeros((2, 2, 2))
    p[0, 0, 0] = p[0, 1, 1] = p[1, 0, 1] = p[1, 1, 0] = 1
    return MDP(p, [[0.2, 0.1], [0.9, 0.3]], 3, **options)


@pytest.mark.parametrize(("confidence", "schedule"), KINDS)
def test_what_is_certain_needs_hardly_an_episode(confidence: str, schedule: str) -> None:
    mdp = deterministic()
    agent = CertifiedUCFH(mdp.problem, 0.5, 0.1, confidence=confidence, schedule=schedule)
    run = simulate(mdp, agent, episodes=1000, seed=0)
    check_certificate(mdp, run, 0.5, 0.1)
    assert run.episodes <= 10
    assert run.gap == 0


@pytest.mark.parametrize(("confidence", "schedule"), KINDS)
def test_rewards_are_learned_where_moves_are_certain(confidence: str, schedule: str) -> None:
    mdp = deterministic(noise="bernoulli")
    problem = mdp.problem.hiding("rewards")
    agent = CertifiedUCFH(problem, 0.5, 0.1, confidence=confidence, schedule=schedule)
    check_certificate(mdp, simulate(mdp, agent, episodes=20_000, seed=0), 0.5, 0.1)


@pytest.mark.parametrize(("confidence", "schedule"), KINDS)
def test_nothing_to_earn(confidence: str, schedule: str) -> None:
    mdp = MDP(np.full((2, 2, 2), 0.5), np.zeros((2, 2)), 3)
    agent = CertifiedUCFH(mdp.problem, 0.5, 0.1, confidence=confidence, schedule=schedule)
    assert agent.certificate.policy.shape == (3, 2)
    run = simulate(mdp, agent, episodes=1000, seed=0)
    check_certificate(mdp, run, 0.5, 0.1)
    assert run.episodes <= 10


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(1, 1, 1), (1, 3, 2), (2, 1, 1), (3, 1, 4), (2, 2, 1)])
@pytest.mark.parametrize("hide", [(), ("rewards",), ("initial",), ("rewards", "successors")])
@pytest.mark.parametrize("schedule", ["growth", "doubling"])
def test_odd_shapes(shape: tuple[int, int, int], hide: tuple[Any, ...], schedule: str) -> None:
    S, A, H = shape
    rng = np.random.default_rng(0)
    mdp = MDP(rng.dirichlet(np.ones(S), (S, A)), rng.random((S, A)), H, noise="bernoulli")
    for confidence in ("tight", "kt", "kt-ball"):
        agent = CertifiedUCFH(
            mdp.problem.hiding(*hide), 0.5, 1e-3, confidence=confidence, schedule=schedule
        )
        run = simulate(mdp, agent, episodes=100_000, seed=0)
        check_certificate(mdp, run, 0.5, 1e-3)


def test_a_certificate_before_anything_was_seen() -> None:
    for problem in (CHAIN.problem, CHAIN.problem.hiding("rewards", "initial")):
        for confidence in ("tight", "kt", "l1"):
            known = CertifiedUCFH(problem, 0.5, 0.1, confidence=confidence).certificate
            assert known.policy.shape == (3, 3)
            assert not known.certified
            assert known.episodes == 0
            assert known.gap == pytest.approx(known.upper - known.lower, abs=1e-9)
            assert CHAIN.value(known.policy) >= known.lower


# -- the same again -------------------------------------------------------------------------------


def same_runs(one: Run, other: Run) -> None:
    assert one.rows == other.rows or [vars(x) for x in one.rows] == [
        {**vars(y), "captured": x.captured} for x, y in zip(one.rows, other.rows, strict=True)
    ]
    np.testing.assert_array_equal(one.policy, other.policy)
    assert one.final == other.final
    assert one.certificate is not None
    assert other.certificate is not None
    assert one.certificate.as_dict() == other.certificate.as_dict()
    np.testing.assert_array_equal(one.certificate.policy, other.certificate.policy)


REPEATED = {
    "chain": (CHAIN, CHAIN.problem, 0.4),
    "hard": (HARD, HARD.problem, 0.5),
    "all unknown": (*WORLDS["all unknown"], 0.6),
}


SCORED = {"without": ("difference",)}
"""What makes "tight" freeze policies and score episodes: nothing else comes to a certificate."""


CUT: list[dict[str, Any]] = [{"confidence": kind, "schedule": by} for kind, by in KINDS]
CUT += [SCORED]
PARTS = (0.1, 0.4, 0.9, 0.99)


@pytest.mark.slow
@pytest.mark.parametrize("name", REPEATED)
@pytest.mark.parametrize("settings", CUT, ids=lambda x: "-".join(map(str, x.values())))
def test_a_resumed_run_is_the_uninterrupted_one(
    name: str, settings: dict[str, Any], tmp_path: Path
) -> None:
    mdp, problem, epsilon = REPEATED[name]

    def agent() -> CertifiedUCFH:
        return CertifiedUCFH(problem, epsilon, 0.1, **settings)

    whole = simulate(mdp, agent(), seed=11)
    turn = CUT.index(settings) + list(REPEATED).index(name)
    for part in PARTS if LONG else PARTS[turn % 4 :][:1]:
        cut = simulate(mdp, agent(), episodes=max(1, int(part * whole.episodes)), seed=11)
        cut.save(tmp_path / "run.npz", force=True)
        same_runs(whole, simulate(mdp, agent(), seed=11, resume=Run.load(tmp_path / "run.npz")))
    whole.save(tmp_path / "run.npz", force=True)
    same_runs(whole, Run.load(tmp_path / "run.npz"))


def exploration_state(agent: CertifiedUCFH) -> dict[str, Any]:
    """All that decides what comes next."""
    limits = agent.limits()
    out = {
        "policy": agent.policy,
        "upper": agent.optimistic,
        "gap": agent.exploration.gap,
        "certified": agent.exploration.certified,
        "limits": limits.visits,
        "room": limits.episodes,
        "watched": None if limits.watch is None else limits.watch.rows,
        "leaving": None if limits.watch is None else limits.watch.leaving,
    }
    return out | {f"state {name}": x for name, x in agent.state().items()}


@pytest.mark.slow
@pytest.mark.parametrize("name", ["chain", "hard", "rewards unknown"])
@pytest.mark.parametrize(
    "settings", [{}, {"schedule": "doubling"}, SCORED], ids=["growth", "doubling", "scored"]
)
def test_restoring_changes_nothing(name: str, settings: dict[str, Any]) -> None:
    """At every planning of several runs, also where policies are frozen and scored."""
    worlds = {name: (*world, 0.3) for name, world in WORLDS.items()} | {
        "hard": (HARD, HARD.problem, 0.5)
    }
    mdp, problem, epsilon = worlds[name]
    frozen = 0
    for seed in range(many(1, 3)):
        agent = CertifiedUCFH(problem, epsilon, 0.1, **settings)
        world, rng = Simulator(mdp, problem), np.random.default_rng(seed)
        while not agent.done:
            other = CertifiedUCFH(problem, epsilon, 0.1, **settings)
            other.restore(agent.state())
            one, two = exploration_state(agent), exploration_state(other)
            for key, value in one.items():
                np.testing.assert_array_equal(value, two[key], err_msg=f"{key}, seed {seed}")
            limits, stretch = agent.limits(), EpisodeBatch(Counts.zero(problem))
            rows = mdp.table.rows_of(agent.policy, mdp.horizon)
            world.walk(rng, rows, limits, limits.episodes or 10**6, stretch)
            agent.observe(stretch.counts)
        assert isinstance(agent.exploration, GapExploration)
        frozen += agent.exploration.number
    assert frozen > 0 or settings != SCORED


# -- wrong arguments ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"epsilon": 0}, r"epsilon = 0 is outside \(0, 1\]"),
        ({"epsilon": 1.5}, r"epsilon = 1.5 is outside \(0, 1\]"),
        ({"delta": -1}, r"delta = -1 is outside \(0, 1\]"),
        ({"delta": float("nan")}, r"delta = nan is outside \(0, 1\]"),
        ({"confidence": "kt-bal"}, "unknown confidence set 'kt-bal': did you mean 'kt-ball'"),
        ({"schedule": "doubbling"}, "unknown schedule 'doubbling': did you mean 'doubling'"),
        ({"stop": "never"}, "stop = 'never' must be 'certificate', or None"),
        ({"without": ("scors",)}, "unknown component 'scors': did you mean 'scores'"),
        ({"confidence": "kt", "without": ("scores",)}, "without needs confidence='tight'"),
        ({"confidence": "l1", "schedule": "growth"}, "holds at doublings only"),
        ({"m": 10.0}, "m and variant belong to schedule='paper'"),
    ],
)
def test_wrong_arguments(wrong: dict[str, Any], message: str) -> None:
    given = {"epsilon": 0.5, "delta": 0.1, **wrong}
    with pytest.raises(InputError, match=message) as caught:
        CertifiedUCFH(CHAIN.problem, **given)
    assert "\n" not in str(caught.value)


def test_a_run_cannot_go_on_as_another_one(tmp_path: Path) -> None:
    run = simulate(CHAIN, CertifiedUCFH(CHAIN.problem, 0.2, 0.1), episodes=20)
    run.save(tmp_path / "run.npz")
    for other in ({"confidence": "kt"}, {"schedule": "doubling"}, {"without": ("sparse",)}):
        agent = CertifiedUCFH(CHAIN.problem, 0.2, 0.1, **other)
        with pytest.raises(InputError, match="cannot continue"):
            simulate(CHAIN, agent, resume=Run.load(tmp_path / "run.npz"))


def test_the_hard_class_of_the_reference_is_learned() -> None:
    """A problem built by the oracles, not by the package."""
    p, r, p0, best = ref.hard_mdp(2, 3, 5, 0.25, [1, 2])
    mdp = MDP(p, r, 5, p0)
    run = simulate(mdp, CertifiedUCFH(mdp.problem, 0.6, 0.01), seed=0)
    check_certificate(mdp, run, 0.6, 0.01)
    assert run.optimal == pytest.approx(best)
