"""A sweep of random tasks: the package's bounds against oracles written from the theorems.

Each test prints by how much the package was too tight and too wide at most, by bound.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

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
from ucfh.confidence.values import Best

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
    for seed in range(1000, 1250):
        found.add(tables_differ(World(seed), [1, 3, 20, 200][seed % 4], lost))
    check(found)


def test_logs(tmp_path: Path) -> None:
    found = Differences()
    for seed in range(2000, 2200):
        lost = [0.0, 0.05, 0.3][seed % 3]
        found.add(log_differs(World(seed), [2, 20, 100, 300][seed % 4], lost, tmp_path / "log.csv"))
    check(found)


def test_live_tasks(tmp_path: Path) -> None:
    found = Differences()
    for seed in range(3000, 3150):
        path = tmp_path / f"{seed}.db"
        found.add(task_differs(World(seed), [3, 15, 40][seed % 3], path))
    check(found)


def test_known_state_spaces() -> None:
    found = Differences()
    for seed in range(4000, 4300):
        case = known_case(seed)
        exact = oracle.KnownStates(
            case.model, case.outcomes, case.starts, 0.1, case.shares, case.pays
        )
        best = Best(case.problem, 0.1, without=("scores",))
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
    for seed in range(5000, 5040):
        number = [1, 10, 300][seed % 3]
        case = known_case(seed, number=number, known_rewards=True)
        exact = oracle.PlanOverSets(case.model, case.outcomes, case.starts, 0.1, kind)
        agent = ucfh.CertifiedUCFH(case.problem, 0.5, 0.1, confidence=kind)
        agent.observe(case.counts)
        found.note("upper", agent.certificate.upper, exact.value(1))
        found.note("lower", -agent.certificate.lower, -exact.value(-1))
    check(found)
