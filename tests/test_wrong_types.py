"""Wrong arguments in place of a problem, an agent or a run are refused in one line each."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.errors import refusal as fault
from ucfh import (
    UCFH,
    Counts,
    Problem,
    certify,
    check_agent,
    compare,
    fixed_horizon_evi,
    make,
    make_agent,
    read_log,
    simulate,
    verify,
)
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.exceptions import check_type, check_unit, unknown, wrong_type
from ucfh.interval_mdp import IntervalMDP
from ucfh.io import read_intervals, read_model, write_model
from ucfh.logs.synthetic import write_log
from ucfh.policies import read_policy
from ucfh.problems import as_mdp, as_problem

MDP3 = make("chain:n=3")
FIVE: Any = 5
LETTER: Any = "a"
LESS = MDP3.problem.hiding("rewards")
OTHER = Counts.zero(make("chain:n=4").problem.hiding("rewards"))


def ucfh_agent() -> UCFH:
    return UCFH(MDP3.problem, 0.5, 0.1)


def test_a_check_keeps_to_one_short_line() -> None:
    check_type("n", 3, int | None, "a number")
    check_type("n", None, int | None, "a number")
    assert fault(check_type, "x", np.zeros((9, 9)), str, "text").endswith("... must be text")
    assert fault(check_type, "x", "a\nb", int, "a number") == r"x = 'a\nb' must be a number"


TAKE_A_PROBLEM: list[Callable[[Any], Any]] = [
    as_problem,
    Counts.zero,
    lambda x: UCFH(x, 0.5, 0.1),
    lambda x: CertifiedUCFH(x, 0.5, 0.1),
    lambda x: read_policy("none.csv", x),
]
MAY_TAKE_ONE: list[Callable[[Any], Any]] = [
    lambda x: certify("none.csv", x),
    lambda x: certify(np.zeros((3, 2, 3), int), x),
    lambda x: read_log("none.csv", x),
    lambda x: make_agent("psrl", MDP3, 0.5, 0.1, 10, problem=x),
]
TAKE_AN_MDP: list[Callable[[Any], Any]] = [
    as_mdp,
    lambda x: write_log(x, "none.csv", 10),
    lambda x: make_agent("psrl", x, 0.5, 0.1, 10),
    lambda x: simulate(x, ucfh_agent()),
    lambda x: compare(x, ["psrl"], 10, 1),
    lambda x: verify(x, 0.5, 0.1, runs=1),
]


@pytest.mark.parametrize("call", TAKE_A_PROBLEM + MAY_TAKE_ONE)
def test_what_is_no_problem(call: Callable[[Any], Any]) -> None:
    assert fault(call, 3) == "problem = 3 must be a Problem, an MDP or a name"


@pytest.mark.parametrize("call", TAKE_A_PROBLEM)
def test_nothing_is_no_problem(call: Callable[[Any], Any]) -> None:
    assert fault(call, None) == "problem = None must be a Problem, an MDP or a name"


@pytest.mark.parametrize(
    ("odd", "remedy"),
    [(3, ""), (MDP3.problem, ": a Problem does not hold the transition probabilities")],
)
@pytest.mark.parametrize("call", [*TAKE_AN_MDP, lambda x: check_agent(lambda _: ucfh_agent(), x)])
def test_what_is_no_mdp(call: Callable[[Any], Any], odd: Any, remedy: str) -> None:
    assert fault(call, odd) == f"mdp = {odd!r} must be an MDP or a name{remedy}"


@pytest.mark.parametrize("call", TAKE_AN_MDP)
def test_nothing_is_no_mdp(call: Callable[[Any], Any]) -> None:
    assert fault(call, None) == "mdp = None must be an MDP or a name"


@pytest.mark.parametrize("call", TAKE_A_PROBLEM + MAY_TAKE_ONE + TAKE_AN_MDP)
def test_a_name_stands_for_its_problem(call: Callable[[Any], Any]) -> None:
    """One that does not exist is told so, wherever it is given."""
    assert fault(call, "chian:n=4").startswith("unknown problem 'chian': did you mean 'chain'?")


def test_an_mdp_tells_its_problem() -> None:
    assert as_problem(MDP3) is UCFH(MDP3, 0.5, 0.1).problem is MDP3.problem
    assert len(Counts.zero(MDP3).visits) == MDP3.table.rows
    assert len(Counts.zero("chain:n=3").visits) == MDP3.table.rows


def test_what_is_no_name_of_a_learner() -> None:
    for odd in (None, 5, ["psrl"], int):
        message = f"agent = {odd!r} must be an agent's name, such as 'psrl', or its class"
        assert fault(simulate, MDP3, odd) == message
        assert fault(lambda odd=odd: make_agent(odd, MDP3, 0.5, 0.1, 10)) == message
        assert fault(compare, MDP3, [odd], 10, 1) == message


def test_one_name_is_no_list_of_names() -> None:
    for odd in ("psrl", None, 5):
        assert fault(compare, MDP3, odd, 10, 1) == (
            f"agents = {odd!r} must be a list of names, such as ['psrl'], or a dict of functions "
            "that make agents, by name"
        )


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: simulate(MDP3, ucfh_agent(), resume=FIVE), "resume = 5 must be a Run, or None"),
        (
            lambda: simulate(MDP3, ucfh_agent(), progress=FIVE),
            "progress = 5 must be a function, or None",
        ),
        (
            lambda: compare(MDP3, ["psrl"], 9, 1, progress=FIVE),
            "progress = 5 must be a function, or",
        ),
        (lambda: verify(MDP3, 0.5, 0.1, progress=FIVE), "progress = 5 must be a function, or None"),
        (
            lambda: verify(MDP3, 0.5, 0.1, make=FIVE),
            "make = 5 must be a function that makes an agent",
        ),
        (lambda: verify(MDP3, 0.5, 0.1, seed=LETTER), "seed = 'a' must be an integer"),
        (lambda: check_agent(FIVE), "make = 5 must be an agent's name or class, or a function"),
        (lambda: write_log(MDP3, "none.csv", 10, seed=-1), "seed = -1 must be an integer"),
        (lambda: write_log(MDP3, "none.csv", 10, seed=LETTER), "seed = 'a' must be an integer"),
    ],
)
def test_functions_runs_and_seeds(call: Callable[[], Any], message: str) -> None:
    assert fault(call).startswith(message)


def test_nothing_is_spent_on_what_is_refused() -> None:
    agent = ucfh_agent()
    fault(lambda: simulate(MDP3, agent, 5, progress=FIVE))
    assert simulate(MDP3, agent, 5).episodes == 5


@pytest.mark.parametrize("optimistic", ["no", None, 0])
def test_optimism_is_asked_for_or_not(optimistic: Any) -> None:
    lo, hi, r = [[[0.2, 0.4]], [[0.0, 1.0]]], [[[0.6, 0.8]], [[0.0, 1.0]]], [[0.0], [1.0]]
    message = f"optimistic = {optimistic!r} must be True or False"
    assert fault(fixed_horizon_evi, lo, hi, r, 2, optimistic) == message
    choices: Any = (np.True_, np.False_)
    both = [fixed_horizon_evi(lo, hi, r, 2, x).values[0, 0] for x in choices]
    assert both == [0.8, 0.4]


def test_optimism_of_a_model(tmp_path: Path) -> None:
    write_model(MDP3, tmp_path / "x.json")
    model = read_intervals(tmp_path / "x.json")
    assert isinstance(model, IntervalMDP)
    assert fault(model.plan, "no") == "optimistic = 'no' must be True or False"


@pytest.mark.parametrize("certified", [False, True])
@pytest.mark.parametrize("problem", [MDP3.problem, LESS], ids=["told", "rewards unknown"])
@pytest.mark.parametrize("name", ["visits", "successors", "rewards", "least", "most"])
def test_a_learner_refuses_counts_of_another_problem(
    certified: bool, name: str, problem: Problem
) -> None:
    """Also such that hold rewards where they are told."""
    agent = CertifiedUCFH(problem, 0.5, 0.1) if certified else UCFH(problem, 0.5, 0.1)
    before = agent.state()
    seen = Counts.zero(problem)
    seen.scores = np.ones(1)
    setattr(seen, name, getattr(OTHER, name))
    wrong, right = (len(getattr(x, name)) for x in (OTHER, Counts.zero(problem)))
    assert wrong != right
    assert fault(agent.observe, seen) == (
        f"the counts have {wrong} {name}, and this problem has {right}: pass the problem they "
        "belong to" + " (one sum of rewards for each successor)" * (name == "rewards")
    )
    for odd in (None, 5, np.zeros(3)):
        assert fault(agent.observe, odd).endswith("must be ucfh.Counts of the agent's problem")
    assert all(np.array_equal(x, before[key]) for key, x in agent.state().items())


def test_counts_may_be_lists() -> None:
    problem, less = Problem(1, 1, 1, rewards=[[0.5]]), Problem(1, 1, 1)
    listed: Any = ([1, 1], [1, 1], [0, 0])
    for counted, of in ((listed[:2], problem), (listed, less), ([*listed, [0, 0], [0, 0]], less)):
        exact = Counts(*(np.array(x) for x in counted))
        assert certify(Counts(*counted), of).upper == certify(exact, of).upper
    ragged: Any = ([[1], [1, 1]], *listed[1:])
    assert fault(Counts, *ragged) == "visits must be an array: its lines differ in length"
    assert (
        fault(Counts, *listed[:2], ["a", "b"])
        == "rewards must be an array of numbers, its lines of one length"
    )
    for k, name in ((3, "least"), (4, "most")):
        wrong = [*listed, None, None]
        wrong[k] = ["a", "b"]
        assert fault(Counts, *wrong).startswith(f"{name} must be an array of numbers")
    texts: Any = (["a", "b"], listed[1])
    assert fault(lambda: certify(Counts(*texts), problem)).startswith("visits must be integers")
    assert "its lines differ" in fault(lambda: certify([[[1], [1, 2]]], problem))


def test_a_number_in_quotes_is_no_number() -> None:
    for odd in ("0.1", None, True, 1j):
        message = f"delta = {odd!r} is not a number: pass one in (0, 1], such as 0.1"
        assert fault(check_unit, "delta", odd) == message
    assert fault(check_unit, "delta", np.float64(2)).startswith("delta = 2.0 is outside (0, 1]")


def test_numbers_of_numpy_are_shown_as_numbers() -> None:
    shown = str(wrong_type("max_return", (np.float64(-1.0), np.int64(2)), "more"))
    assert shown == "max_return = (-1.0, 2) must be more"


def test_only_a_near_name_is_suggested() -> None:
    names = ["ucfh", "psrl", "ucb-h"]
    assert "did you mean" not in str(unknown("agent", "nosuch", names))
    for close in ("UCFH", "ufch", "ucf", "Uchf"):
        assert "did you mean 'ucfh'?" in str(unknown("agent", close, names))


def test_a_saved_run_is_no_model(tmp_path: Path) -> None:
    path = tmp_path / "run.npz"
    simulate(MDP3, ucfh_agent(), 5).save(path)
    message = f"{path}: a saved run, not a model: pass the problem of the run"
    assert fault(read_model, path) == fault(read_intervals, path) == message
