"""Bounds that contradict each other refute what was assumed, and certify nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ucfh import MDP, Certificate, make, simulate
from ucfh._kernels import kl_ball, l1
from ucfh._kernels.types import PlanArrays
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.exploration import BINS, GapExploration
from ucfh.certificate import contradiction
from ucfh.certification import certificate_from_counts
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.union_bound import possible
from ucfh.confidence.value_bounds import BoundContradiction
from ucfh.counts import Counts
from ucfh.simulation.result import Run

EPSILON = 0.2
EPISODES = 3000


def arm(chance: float) -> MDP:
    """One decision between two arms: the first wins with a chance, the second in half of cases."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 1:], p[0, 1, 1:] = [chance, 1 - chance], [0.5, 0.5]
    p[1, :, 1] = p[2, :, 2] = 1
    return MDP(p, [[0.0], [1.0], [0.0]], 2)


def drift(seed: int, before: float = 0.9, after: float = 0.6) -> Certificate:
    """Return the certificate after equally many episodes before and after a change of an arm."""
    first = CertifiedUCFH(arm(before).problem, EPSILON, 0.1, stop=None)
    simulate(arm(before), first, episodes=EPISODES, seed=seed)
    agent = CertifiedUCFH(arm(after).problem, EPSILON, 0.1, stop=None)
    agent.restore(first.state())
    run = simulate(arm(after), agent, episodes=EPISODES, seed=seed + 10_000)
    assert run.certificate is not None
    return run.certificate


@pytest.mark.parametrize("seed", range(4))
def test_an_arm_that_drifts_is_not_certified(seed: int) -> None:
    known = drift(seed)
    assert not known.certified
    assert known.contradiction is not None
    assert "contradict" in repr(known)
    assert "with probability 0.1 at most" in known.contradiction


@pytest.mark.parametrize("seed", range(4))
def test_an_arm_that_stays_is_certified(seed: int) -> None:
    known = drift(seed, after=0.9)
    assert known.contradiction is None
    assert known.certified
    assert 0 <= known.gap <= EPSILON


RUNS = 200


@pytest.mark.verify
def test_no_run_with_drift_is_certified_wrongly() -> None:
    """The arm falls from 0.9 to 0.6: a lower bound of about 0.8 is wrong."""
    wrong = sum(known.certified and known.lower > 0.6 for known in map(drift, range(RUNS)))
    assert wrong == 0


@pytest.mark.verify
def test_runs_without_drift_are_certified() -> None:
    """False alarms have probability delta = 0.1 at most."""
    known = [drift(seed, after=0.9) for seed in range(RUNS)]
    alarms = sum(x.contradiction is not None for x in known)
    certified = sum(x.certified and 0 <= x.gap <= EPSILON for x in known)
    assert alarms <= 0.1 * RUNS
    assert certified == RUNS - alarms


def test_a_agent_that_is_contradicted_stops() -> None:
    agent = CertifiedUCFH(arm(0.9).problem, EPSILON, 0.1)
    assert not agent.done
    agent.exploration.contradiction = BoundContradiction(0, 1, 0.5, 0.7)
    agent._take_bounds()
    assert agent.done
    assert not agent.certificate.certified


def test_it_is_kept_and_restored(tmp_path: Path) -> None:
    """Once refuted, always: in an agent's state, in a saved run, and in its summary."""
    mdp = arm(0.9)
    agent = CertifiedUCFH(mdp.problem, EPSILON, 0.1, stop=None)
    run = simulate(mdp, agent, episodes=50)
    assert isinstance(agent.exploration, GapExploration)
    agent.exploration.contradiction = BoundContradiction(1, 2, 0.5, 0.7)
    other = CertifiedUCFH(mdp.problem, EPSILON, 0.1, stop=None)
    other.restore(agent.state())
    assert other.certificate.contradiction == agent.certificate.contradiction is not None
    run.certificate = agent.certificate
    run.save(tmp_path / "run.npz")
    kept = Run.load(tmp_path / "run.npz").certificate
    assert kept is not None
    assert kept.contradiction == agent.certificate.contradiction
    assert json.loads(json.dumps(kept.as_dict()))["contradiction"] == kept.contradiction


def test_a_small_gap_does_not_outweigh_it() -> None:
    known = certificate_from_counts(Counts.zero(arm(0.5).problem), arm(0.5).problem, 0.1, 1.0, 0)
    known = replace(known, gap=0.0)
    assert known.certified
    assert not replace(known, contradiction="so").certified


def test_it_names_the_state_and_the_step() -> None:
    problem = make("tutoring").problem
    assert problem.state_names is not None
    said = contradiction(problem.state_names, BoundContradiction(2, 1, 0.8531, 0.8672), 0.05)
    assert said == (
        f"the bounds contradict each other: the value from state {problem.state_names[1]!r} at "
        "step 3 is at most 0.8531 by one and at least 0.8672 by another, which happens with "
        "probability 0.05 at most unless an assumption is violated or ucfh has an error"
    )
    for names in (problem.state_names, None):
        assert " from state" not in str(
            contradiction(names, BoundContradiction(0, -1, 0.1, 0.2), 0.05)
        )
        assert contradiction(names, None, 0.05) is None
    assert " from state 1 at step 3" in str(
        contradiction(None, BoundContradiction(2, 1, 0.1, 0.2), 0.05)
    )


def crossed(t: Any, s: int, **values: float) -> BoundContradiction | None:
    """Return the contradiction of bounds U = 1, L = D = 0, except for those given at (t, s)."""
    mdp = make("chain:n=3,horizon=3")  # begins in state 0: others cannot be there at step 0
    best = KnownStateBounds(mdp.problem, 0.1)
    b = best.bounds(Counts.zero(mdp.problem))
    b.U[:], b.L[:], b.D[:] = 1.0, 0.0, 0.0
    for name, value in values.items():
        getattr(b, name)[t, s] = value
    return best._find_contradiction(b)


def test_where_bounds_cross() -> None:
    assert crossed(0, 0) is None
    assert crossed(0, 0, L=1.25) == BoundContradiction(0, 0, 1.0, 1.25)
    assert crossed(1, 1, U=-0.5) == BoundContradiction(1, 1, -0.5, 0.0)
    assert crossed(1, 1, D=-0.25) == BoundContradiction(1, 1, 1.0, 1.25)
    assert crossed(0, 0, L=1 + 1e-15) is None  # rounding
    assert crossed(slice(0, 2), 0, L=1.25) == BoundContradiction(1, 0, 1.0, 1.25)  # the last
    assert crossed(0, 2, L=1.25) is None  # no episode is there at that step
    assert not possible(make("chain:n=3,horizon=3").problem)[0, 2]


# -- rounded outward ------------------------------------------------------------------------------


def nearly_tied(H: int) -> tuple[MDP, Counts]:
    """Two actions that pay the same but for less than rounding may make; the second pays more."""
    r = np.array([[0.5, 0.5 + 0.9 * kl_ball.TIE * H]])
    mdp = MDP(np.ones((1, 2, 1)), r, H)
    return mdp, Counts.zero(mdp.problem)


def test_a_robust_value_is_that_of_the_action_taken() -> None:
    H = 50
    mdp, counts = nearly_tied(H)
    best = KnownStateBounds(mdp.problem, 0.1)
    best.update(counts)
    taken, lower = best.robust()
    table = mdp.problem.table
    policy = table.policy_of(taken)
    assert not policy.any()
    assert lower <= mdp.value(policy) < mdp.at_start(mdp.optimal().values)
    pays = mdp.rewards.pair
    kernels: list[Any] = [kl_ball.plan, l1.plan]
    for kernel in kernels:
        out = PlanArrays(np.zeros((H + 1, 1)), np.zeros((H, 1), np.uint8))
        given: Any = (table.arrays, counts.arrays, best.eta_all, pays, np.zeros((1, 0)))
        kernel(*given, -1.0, kl_ball.TIE * H, out)
        assert out.V[0, 0] <= mdp.value(out.policy)
        kernel(*given, 1.0, kl_ball.TIE * H, out)
        assert out.V[0, 0] >= mdp.at_start(mdp.optimal().values)


@pytest.mark.parametrize("kind", ["kt", "kt-ball", "kl-ball", "l1", "paper", "kl"])
def test_sets_keep_to_the_action_taken_too(kind: str) -> None:
    mdp, _ = nearly_tied(50)
    agent = CertifiedUCFH(mdp.problem, 0.5, 0.1, confidence=kind)
    assert agent.lower <= mdp.value(agent.certificate.policy)


@pytest.mark.parametrize("H", [3, 30])
def test_sums_are_rounded_outward(H: int) -> None:
    """A tenth is no double: a sum of H of them is above or below the sum of H tenths."""
    for pays in (0.1, 0.3, 0.7):
        mdp = MDP(np.ones((1, 1, 1)), [[pays]], H)
        known = certificate_from_counts(Counts.zero(mdp.problem), mdp.problem, 0.1, None, 0)
        numerator, denominator = pays.as_integer_ratio()
        assert known.lower * denominator <= H * numerator <= known.upper * denominator
        assert 0 <= known.gap <= known.upper - known.lower < 1e-10


@pytest.mark.slow
def test_scores_are_never_rounded_up() -> None:
    """k epsilon/BINS as a double, and the next doubles: a division may round any of them up."""
    for epsilon in (0.1, 0.3, 0.5, 1 / 3):
        problem = make("chain:n=3").problem
        beliefs = GapExploration(KnownStateBounds(problem, 0.1), epsilon, Counts.zero(problem))
        x = np.arange(1, 4000) * (epsilon / BINS)
        x = np.concatenate([x, np.nextafter(x, 0), np.nextafter(x, 9)])
        for score in x:
            beliefs.scores = {}
            beliefs.score(np.array([score]))
            (found,) = beliefs.scores
            assert found <= score < found + 1.001 * epsilon / BINS
