"""What a new user may pass by mistake: one clear line each, whatever the type."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.errors import refusal as fault
from ucfh import (
    MDP,
    Problem,
    compare,
    confidence_set,
    constants,
    kl_set,
    make,
    read_model,
    read_policy,
    write_model,
    write_policy,
)

T, R = [[[0.5, 0.5]], [[0, 1]]], [[0], [1]]
ROWS = ([0, 2, 3], [0, 1, 1], [0.5, 0.5, 1])


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (
            {"available": [[True], [True, False]]},
            "available must be an array: its lines differ in length",
        ),
        ({"terminal": 5}, "terminal = 5 must be a list of states, such as [1]"),
        ({"terminal": None}, "terminal = None must be a list of states, such as [1]"),
        ({"state_names": 5}, "state_names = 5 must be a list of 2 names"),
        ({"note": 5}, "note = 5 must be a string"),
        ({"transitions": (1, 2, 3)}, "indptr must be a 1-d array of integers"),
        ({"transitions": (None, None, None)}, "indptr must be a 1-d array of integers"),
        ({"transitions": ROWS, "available": 5}, "available has shape (): it must be boolean"),
        ({"transitions": ROWS, "available": []}, "available has shape (0,): it must be boolean"),
    ],
)
def test_models(given: dict[str, Any], message: str) -> None:
    assert fault(lambda: MDP(**{"transitions": T, "rewards": R, "horizon": 3, **given})).startswith(
        message
    )


def test_problems() -> None:
    ragged = [[[True], [True, False]]]
    message = "successors must be an array: its lines differ in length"
    assert fault(lambda: Problem(2, 1, 3, successors=ragged)) == message
    for odd in ("no", None, 2):
        message = fault(lambda odd=odd: Problem(2, 1, 3, time_dependent=odd))
        assert message == f"time_dependent = {odd!r} must be True or False"


def test_policies(tmp_path: Path) -> None:
    mdp = make("chain:n=3")
    assert "its lines differ" in fault(mdp.value, [[0, 0], [0]])
    path = tmp_path / "policy.csv"
    path.write_text("state,action\n")
    for odd in (None, 3):
        for call in (
            lambda x: write_policy([0, 0, 0], x, path, True),
            lambda x: read_policy(path, x),
        ):
            assert fault(call, odd) == f"problem = {odd!r} must be a Problem, an MDP or a name"


def test_paths() -> None:
    mdp: Any = make("chain:n=3")
    for odd in (None, 5, b"x.json", ["x.json"]):
        message = f"{odd!r} is not a path: pass the name of a file, or a pathlib.Path"
        assert fault(read_model, odd) == message
        assert fault(write_model, mdp, odd) == message
        assert fault(read_policy, odd, mdp) == message
        assert fault(write_policy, [0, 0, 0], mdp, odd) == message


def test_what_is_not_a_model_is_not_written(tmp_path: Path) -> None:
    for odd in (None, make("chain:n=3").problem, "chain"):
        message = fault(write_model, odd, tmp_path / "x.json")
        such = ", such as make('chain')" if odd == "chain" else ""
        assert message == f"{odd!r} is not a model: pass an MDP, or an IntervalMDP{such}"


@pytest.mark.parametrize("call", [confidence_set, kl_set])
@pytest.mark.parametrize(
    ("p", "n", "message"),
    [
        ("a", 10, "p_hat must be an array of numbers"),
        (0.5, "b", "n must be an array of numbers"),
        (1j, 10, "p_hat must be real numbers"),
        ({}, 10, "p_hat must be an array of numbers"),
        ([0.5, 0.5], [1, 2, 3], "p_hat has shape (2,) and n (3,): they must broadcast"),
    ],
)
def test_confidence_sets(call: Any, p: Any, n: Any, message: str) -> None:
    assert fault(call, p, n, 0.1).startswith(message)


def test_names_that_are_no_text() -> None:
    for odd in (None, 3, ["paper"]):
        message = fault(lambda odd=odd: constants(2, 1, 1, 0.1, 0.1, variant=odd))
        assert message.startswith(f"unknown variant {odd!r} (known: corrected, paper)")


def test_a_scale_is_checked_even_if_no_agent_has_one() -> None:
    for odd in (0, -1.0, float("nan"), float("inf")):
        message = fault(lambda odd=odd: compare(make("chain"), ["psrl"], 10, 1, scale=odd))
        assert message == f"scale = {odd!r} must be a positive number: 1 changes nothing"
