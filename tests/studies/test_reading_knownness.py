"""What is said of watched lifetimes, from invented ones."""

from __future__ import annotations

from typing import Any

from ucfh.experiments.store import Result
from ucfh.studies.knownness.reading import read


def life(
    gap: list[float], balanced: list[bool], mismatch: list[float], problem: str = "chain:n=3"
) -> Result:
    begins = [0 if k == 0 else 10**k for k in range(len(gap))]
    moment = {"episode": 0, "cells": [[0, 4, 2]], "balanced": balanced[0]}
    values: dict[str, Any] = {
        "moments": [moment, {"episode": begins[-1], "cells": [[4, 4, 2]], "balanced": True}],
        "phases": {
            "first_episode": begins,
            "balanced": balanced,
            "gap": gap,
            "mismatch": mismatch,
        },
        "epsilon": 0.1,
        "episodes": begins[-1],
    }
    return Result("", {"problem": problem}, 0, values)


def test_right_before_balanced() -> None:
    found = read([life([0.5, 0.0, 0.0, 0.0], [False, False, False, True], [0.5, 0.2, 0.2, 0.01])])
    assert "in 1 of 1 lifetime: on chain n=3" in found.seen[0]
    assert (
        "from episode 10 and all phases are balanced from episode 1,000, 100 times as late"
        in (found.seen[0])
    )
    assert found.seen[1].endswith("at least 10 times the measured difference.")
    assert found.tables[0].rows == [["chain n=3", "4", "10", "1,000", "0.01", "0.1"]]


def test_right_from_the_start() -> None:
    found = read([life([0.0, 0.0], [False, True], [0.5, 0.0])])
    assert "while the first policy was right" in found.seen[0]
    assert found.seen[1] == "No balanced phase had a difference between V~ and V."


def test_balanced_before_right_is_told() -> None:
    found = read([life([0.5, 0.5, 0.0], [False, True, True], [0.5, 0.6, 0.0])])
    assert found.seen[0].startswith("In 1 lifetime, policies did not stay within epsilon before")
    assert found.seen[1].endswith("differed by more than epsilon: chain n=3 in 1 phase.")


def test_a_life_that_ends_wrong() -> None:
    found = read([life([0.5, 0.5], [False, False], [0.5, 0.6])])
    assert found.tables[0].rows == [["chain n=3", "2", "-", "-", "-", "0.1"]]


def test_one_figure_a_life() -> None:
    lives = [
        life([0.5, 0.0], [False, True], [0.5, 0.0]),
        life([0.5, 0.0], [False, True], [0.5, 0.0], "tutoring"),
    ]
    names = [figure.name for figure in read(lives).figures]
    assert len(set(names)) == 2
    assert all(figure.svg.startswith("<?xml") for figure in read(lives).figures)
