"""Bulk and step-by-step simulation agree in law: 2,000 full runs each, statistic by statistic.

Bulk simulation is held against walking in three ways: jumping and walking by turns; with jumps
and splits only; and with a margin so far on the wrong side that every jump overshoots and must be
split. The tests are corrected for their number (Bonferroni): the family fails by chance once in a
thousand.
"""

from __future__ import annotations

import pytest

from oracles.laws import CASES, p_values, sample

RUNS = 2000
WAYS = {"mixed": (300, 3.0), "jumps only": (0, 3.0), "overshooting": (0, -3.0)}
TESTS = len(CASES) * len(WAYS) * 13
LEVEL = 1e-3 / TESTS


@pytest.mark.parametrize("name", CASES)
def test_bulk_agrees_with_walking(name: str) -> None:
    case = CASES[name]
    walked = sample(case, "step", RUNS, 0, 0, 0.0)
    for way, (walk_steps, margin) in WAYS.items():
        jumped = sample(case, "bulk", RUNS, 1_000_000, walk_steps, margin)
        found = p_values(walked, jumped)
        worst = min(found, key=lambda key: found[key])
        print(f"{name:>10} {way:<13} {len(found)} tests, smallest p {found[worst]:.3g} ({worst})")
        assert found[worst] > LEVEL, (name, way, found)
