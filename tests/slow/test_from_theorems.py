"""A sweep of random tasks: the package's bounds against oracles written from the theorems.

Each test prints by how much the package was too tight and too wide at most, by bound.
"""

from __future__ import annotations

import math
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import minimize

import ucfh
from oracles import from_theorems as oracle
from oracles.theorem_cases import (
    Differences,
    World,
    known_case,
    log_differs,
    tables_differ,
    task_differs,
)
from ucfh.confidence.known_states import KnownStateBounds

ROUNDING, OTHER_NU = 1e-7, 1e-2
BY_NU = ("D", "difference", "gap", "W of pi")


def check(found: Differences) -> None:
    for name, (too_tight, too_wide) in found.most.items():
        print(f"{name}: too tight by {too_tight:.1e}, too wide by {too_wide:.1e} at most")
    for name, (too_tight, _) in found.most.items():
        assert too_tight <= (OTHER_NU if name in BY_NU else ROUNDING), name


@pytest.mark.parametrize("lost", [0.0, 0.05, 0.4])
def test_unknown_state_spaces(lost: float) -> None:
    found = Differences()
    for seed in range(1000, 1100):
        found.add(tables_differ(World(seed), [1, 3, 20, 200][seed % 4], lost))
    check(found)


def test_logs(tmp_path: Path) -> None:
    found = Differences()
    for seed in range(2000, 2080):
        lost = [0.0, 0.05, 0.3][seed % 3]
        found.add(log_differs(World(seed), [2, 20, 100, 300][seed % 4], lost, tmp_path / "log.csv"))
    check(found)


def test_live_tasks(tmp_path: Path) -> None:
    found = Differences()
    for seed in range(3000, 3080):
        path = tmp_path / f"{seed}.db"
        found.add(task_differs(World(seed), [3, 15, 40][seed % 3], path))
    check(found)


def test_known_state_spaces() -> None:
    found = Differences()
    for seed in range(4000, 4120):
        case = known_case(seed)
        exact = oracle.KnownStates(
            case.model, case.outcomes, case.starts, 0.1, case.shares, case.pays
        )
        best = KnownStateBounds(case.problem, 0.1, without=("scores",))
        b = best.bounds(case.counts)
        rows, low = best.robust()
        robust = best.lower_values(rows)
        actions = best.actions_of(b.greedy)
        policy = {(t + 1, s): int(actions[t, s]) for t, s in np.ndindex(*actions.shape)}
        D, _ = exact.difference(policy, overlap=True)
        for t, s in case.model.possible():
            found.note("U", b.U[t - 1, s], exact.U[t, s])
            found.note("L", -b.L[t - 1, s], -exact.L[t, s])
            found.note("W", -robust[t - 1, s], -exact.W[t, s])
            if exact.told:
                found.note("D", b.D[t - 1, s], D[t, s])
        found.note("lower", -low, -exact.lower())
        found.note("upper", ucfh.certify(case.counts, case.problem, 0.1).upper, exact.upper())
    check(found)


@pytest.mark.parametrize("kind", ["kt", "kt-ball", "kl-ball"])
def test_planning_over_sets(kind: str) -> None:
    found = Differences()
    for seed in range(5000, 5020):
        number = [1, 10, 300][seed % 3]
        case = known_case(seed, number=number, known_rewards=True)
        exact = oracle.PlanOverSets(case.model, case.outcomes, case.starts, 0.1, kind)
        agent = ucfh.CertifiedUCFH(case.problem, 0.5, 0.1, confidence=kind)
        agent.observe(case.counts)
        found.note("upper", agent.certificate.upper, exact.value(1))
        found.note("lower", -agent.certificate.lower, -exact.value(-1))
    check(found)


Labels = tuple[int, ...]


def lost_if(rule: str, draws: Labels, i: int) -> bool:
    """Return whether draw i is lost, by what it is and by what was drawn before."""
    before, x = draws[:i], draws[i]
    return {
        "none": False,
        "a label": x == 0,
        "what is new": x not in before,
        "repetitions of a label": x == 0 and 0 in before,
        "every second": x == 1 and before.count(1) % 2 == 1,
    }[rule]


@cache
def largest_bet(p: tuple[float, ...], repeated: Labels, lost: int) -> float:
    """Return the largest sum of bets of Proposition 66, over all functions and nu, at the true p.

    With w = ln((nu - v)/(nu - T)) >= 0 it is the maximum of a concave function.
    """
    moved = [j for j, c in enumerate(repeated) if c > 0]
    size = sum(repeated) + lost
    if not moved:
        return 0.0

    def negative(w: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
        full = np.zeros(len(p))
        full[moved] = w
        return float(size * math.log(np.dot(p, np.exp(full))) - np.dot(repeated, full))

    found = minimize(negative, np.full(len(moved), 0.1), bounds=[(0, 50)] * len(moved))
    return -float(found.fun)


@pytest.mark.parametrize(
    "rule", ["none", "a label", "what is new", "repetitions of a label", "every second"]
)
@pytest.mark.parametrize("p", [(0.5, 0.3, 0.2), (0.05, 0.05, 0.9)])
def test_balls_and_missing_mass_ever_fail_with_probability_delta(
    rule: str, p: tuple[float, ...]
) -> None:
    """Propositions 59, 60, 66 and 67: all sequences of up to 7 draws, lost for what they are."""
    delta, failed = 0.9, {"ball": 0.0, "missing": 0.0}

    def follow(draws: Labels, probability: float, part: str) -> None:
        labels = [oracle.LOST if lost_if(rule, draws, i) else x for i, x in enumerate(draws)]
        counts = [labels.count(j) for j in range(len(p))]
        lost = labels.count(oracle.LOST)
        if part == "ball":
            seen = [c for c in counts if c > 0]
            radius = oracle.pattern_radius(seen, lost, delta) * (len(draws) - len(seen))
            repeated = tuple(max(0, c - 1) for c in counts)
            wrong = math.isfinite(radius) and largest_bet(p, repeated, lost) > radius + 1e-9
        else:
            unseen = sum(x for x, c in zip(p, counts, strict=True) if c == 0)
            wrong = unseen > oracle.missing_mass(*oracle.events_since(labels), delta) + 1e-12
        if wrong:
            failed[part] += probability
        elif len(draws) < 7:
            for x, chance in enumerate(p):
                follow((*draws, x), probability * chance, part)

    for part in failed:
        for x, chance in enumerate(p):
            follow((x,), chance, part)
    print(rule, p, failed)
    assert max(failed.values()) <= delta
