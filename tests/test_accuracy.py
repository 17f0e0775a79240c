"""Entry points refuse an epsilon for which every policy is epsilon-optimal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ucfh
from support.environments import Scripted, step
from support.errors import refusal
from support.log_files import GOOD, read
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.rewards import RewardRange


def _certify(tmp_path: Path, epsilon: float, **given: Any) -> Any:
    return ucfh.certify(read(GOOD, tmp_path, horizon=2, **given), epsilon=epsilon)


def _learn(tmp_path: Path, epsilon: float, **given: Any) -> Any:  # noqa: ARG001
    toy = Scripted([step(0), step(1, 0.5, end=True)])
    return ucfh.learn(toy, epsilon, horizon=2, episodes=1, **given)


def _task(tmp_path: Path, epsilon: float, **given: Any) -> Any:
    with ucfh.open_task(
        tmp_path / "t.db", actions=["x", "y"], horizon=2, epsilon=epsilon, **given
    ) as task:
        return task.certificate()


ENTRIES = [_certify, _learn, _task]


@pytest.mark.parametrize("entry", ENTRIES)
@pytest.mark.parametrize(
    ("given", "size"),
    [
        ({}, 2.0),
        ({"max_return": 1.5}, 1.5),
        ({"rewards": (-1.0, 3.0)}, 8.0),
        ({"rewards": (-1.0, 3.0), "max_return": 2.0}, 4.0),
    ],
)
def test_the_range_of_returns_is_refused(
    entry: Any, given: Any, size: float, tmp_path: Path
) -> None:
    for epsilon in (size, 1.01 * size, 1e9):
        said = refusal(entry, tmp_path, epsilon, **given)
        assert f"epsilon = {epsilon:g}" in said
        assert f"{size:g}, the range of possible returns" in said
        assert "Fix: " in said
    known = entry(tmp_path, 0.99 * size, **given)
    assert getattr(known, "certificate", known).epsilon == 0.99 * size


@pytest.mark.parametrize("entry", [_learn, _task])
def test_nothing_is_certified_before_data(entry: Any, tmp_path: Path) -> None:
    found = entry(tmp_path, 1.49, max_return=1.5)
    known = getattr(found, "certificate", found)
    assert known.certified == (known.episodes > 0 and known.gap <= 1.49)


def test_a_problem_of_one_step() -> None:
    problem = ucfh.Problem(1, 2, 1)
    assert "range of possible returns" in refusal(CertifiedUCFH, problem, 1.0, 0.1)
    counts = CertifiedUCFH(problem, 0.5, 0.1).n
    assert "range of possible returns" in refusal(ucfh.certify, counts, problem, epsilon=1.0)
    assert RewardRange(0.0, 2.0).scaled_accuracy(1.5, 1) == 0.75
