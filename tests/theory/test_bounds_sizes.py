"""The table of bounds for sizes at which numbers get out of hand: one line, or said plainly."""

from __future__ import annotations

import json
from math import inf
from typing import Any

import pytest

from support.errors import refusal as fault
from ucfh import bounds, constants
from ucfh.cli.main import main

HUGE = 10**50
SIZES = [1, 2, 3, 10**3, 10**20, HUGE]


def test_all_sizes_that_are_accepted_can_be_computed_with() -> None:
    for S in SIZES:
        for A in (1, HUGE):
            for H in SIZES:
                for epsilon in (1.0, 1e-50):
                    for delta in (1.0, 1e-5, 1e-100):
                        rows = bounds(S, A, H, epsilon, delta)
                        assert all(row.episodes is None or row.episodes >= 0 for row in rows)


def test_constants_of_all_sizes() -> None:
    for S in SIZES:
        for H in SIZES:
            for variant in ("paper", "corrected"):
                found: Any = constants(S, HUGE, H, 1e-100, 1e-100, variant=variant)
                for name in ("w_min", "u_max", "delta_1", "m", "cutoff", "e_max", "episode_bound"):
                    assert getattr(found, name) >= 0


@pytest.mark.parametrize("place", [0, 1, 2])
@pytest.mark.parametrize("size", [10**51, 10**400])
def test_sizes_beyond_are_refused(place: int, size: int) -> None:
    given: list[Any] = [10, 2, 10, 0.1, 0.1]
    given[place] = size
    for call in (bounds, constants):
        message = fault(call, *given)
        assert message.endswith("is too large to compute with: pass at most 1e50")
        assert len(message) < 120


def test_a_number_that_no_float_holds_is_infinite() -> None:
    rows = {row.name: row.episodes for row in bounds(10**40, 2, 10, 0.1, 0.1)}
    assert rows["Auer-Ortner"] == inf
    assert rows["UCFH, order"] == pytest.approx(10**40 * 2 * 10**40 * 100 / 0.01 * 2.302585)


def test_the_command_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    given = f"bounds --states {10**40} --actions 2 --horizon 10 --epsilon .1 --delta .1".split()
    with pytest.raises(SystemExit) as done:
        main(given)
    assert done.value.code == 0
    assert "~> 1e308" in capsys.readouterr().out
    with pytest.raises(SystemExit) as done:
        main([*given, "--json"])
    assert done.value.code == 0

    def never(text: str) -> None:
        raise AssertionError(text)

    rows = json.loads(capsys.readouterr().out, parse_constant=never)["bounds"]
    (row,) = [row for row in rows if row["name"] == "Auer-Ortner"]
    assert row["episodes"] is None
    assert row["ratio"] is None
    assert "more than 1e308" in row["note"]
