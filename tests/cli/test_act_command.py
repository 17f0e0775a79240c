"""``ucfh act``: what a policy file says about one state at one step."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.command_line import fails, run
from ucfh import Problem, make, read_policy, write_policy
from ucfh.policies import read_named, write_named

NAMED = [[("cold", "mail"), ("warm", "call")], [("cold", "call"), ("warm", "wait")]]


def written(folder: Path, ending: str, first: int = 0) -> str:
    path = folder / f"policy.{ending}"
    write_named(NAMED, path, times=range(first, first + 2))
    return str(path)


@pytest.mark.parametrize("ending", ["csv", "json"])
@pytest.mark.parametrize("first", [0, 1])
def test_it_prints_the_action(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str, first: int
) -> None:
    path = written(tmp_path, ending, first)
    for t, line in enumerate(NAMED, first):
        for state, action in line:
            asked = ["act", path, "--state", state, "--t", str(t)]
            assert run(capsys, *asked) == (0, f"{action}\n", "")
            code, out, _ = run(capsys, *asked, "--json")
            assert code == 0
            assert json.loads(out) == {"policy": path, "t": t, "state": state, "action": action}


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_what_it_does_not_know_is_one_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, ending: str
) -> None:
    asked = ["act", written(tmp_path, ending, first=1), "--t", "1", "--state"]
    error = fails(capsys, *asked, "Wram")
    assert "did you mean 'warm'?" in error
    assert "states without data" in error
    error = fails(capsys, *asked, "hot")
    assert "did you mean" not in error
    assert "'hot'" in error
    assert "t = 3 is after the last step: steps are 1 to 2" in fails(
        capsys, *asked, "warm", "--t", "3"
    )
    assert "t = 0 is before the first step" in fails(capsys, *asked, "warm", "--t", "0")
    assert "pass --t, 1 to 2" in fails(capsys, "act", asked[1], "--state", "warm")
    assert "Missing option '--state'" in fails(capsys, "act", asked[1])


def test_a_policy_for_all_steps(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    table = tmp_path / "policy.csv"
    table.write_text("state,action\nhome,go\n work,stay\n")
    assert run(capsys, "act", str(table), "--state", "home")[1] == "go\n"
    assert run(capsys, "act", str(table), "--state", "home", "--t", "99")[1] == "go\n"
    assert run(capsys, "act", str(table), "--state", " work")[1] == "stay\n"
    text = tmp_path / "policy.json"
    head = '{"format": "ucfh-policy", "version": 1, "horizon": 3, '
    text.write_text(head + '"policy": {"home": 7}}')
    assert run(capsys, "act", str(text), "--state", "home")[1] == "7\n"
    assert run(capsys, "act", str(text), "--state", "home", "--t", "2")[1] == "7\n"
    assert "steps are 0 to 2" in fails(capsys, "act", str(text), "--state", "home", "--t", "3")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("t,state,action\n", "it holds no actions: write a line for each state"),
        ("t,state,action\nx,a,b\n", "line 2: t 'x' is not the number of a step"),
        ("t,state,action\n0,a,b\n0,a,c\n", "line 3: state 'a' is given twice"),
        ("t,state,action\n0,a,b\n1,a,b\n3,a,c\n", "no line has t = 2: add a line for each state"),
        ("t,state,action\n0,a\n", "line 2: 2 values in 3 columns"),
        (
            "t,stat,action\n",
            "the first line must name the columns, such as t,state,action: unknown",
        ),
        ("", "the first line must name the columns"),
    ],
)
def test_faults_of_csv_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, text: str, message: str
) -> None:
    path = tmp_path / "policy.csv"
    path.write_text(text)
    assert f"{path}: {message}" in fails(capsys, "act", str(path), "--state", "a", "--t", "0")


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"first": -1}, '"first" is -1: it must be the t of the first step'),
        ({"step": 0}, '"step" is 0: it must be the increment of t'),
        ({"first": True}, '"first" is true'),
        ({"horizon": 0}, '"horizon" is 0, it must be the number of steps'),
        ({"policy": [{"a": "b"}]}, '"policy" is a list of 1: it must be a list of 2'),
        ({"policy": [{"a": [1]}, {}]}, "policy[0]: state 'a': a list is not an action"),
        ({"policy": [3, {}]}, "policy[0]: it must be an object"),
        ({"polcy": 1}, "unknown key 'polcy'"),
    ],
)
def test_faults_of_json_are_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, changes: object, message: str
) -> None:
    path = tmp_path / "policy.json"
    good = {"format": "ucfh-policy", "version": 1, "horizon": 2, "policy": [{"a": "b"}] * 2}
    assert isinstance(changes, dict)
    path.write_text(json.dumps(good | changes))
    assert f"{path}: {message}" in fails(capsys, "act", str(path), "--state", "a", "--t", "0")


def test_no_policy_is_one_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    asked = ["--state", "a", "--t", "0"]
    assert "does not exist" in fails(capsys, "act", str(tmp_path / "no.csv"), *asked)
    assert "unknown ending" in fails(capsys, "act", "policy.txt", *asked)


WORD = st.text(min_size=1, max_size=4)


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    names=st.lists(WORD, min_size=2, max_size=4, unique_by=str.strip),
    first=st.sampled_from([0, 1]),
    ending=st.sampled_from(["csv", "json"]),
)
def test_any_name_is_found(names: list[str], first: int, ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"policy.{ending}"
    named = [[(s, names[0]) for s in names], [(s, names[-1]) for s in names]]
    write_named(named, path, force=True, times=range(first, first + 2))
    found = read_named(path)
    assert found.times == range(first, first + 2)
    for s in names:
        assert (found.act(s, first), found.act(s, first + 1)) == (names[0], names[-1])


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_steps_counted_from_1_are_read_for_a_problem(tmp_path: Path, ending: str) -> None:
    """By the numbers in the file: a policy for H steps that has no step 0 and a step H."""
    problem = Problem(2, 3, 2, state_names=["cold", "warm"], action_names=["mail", "call", "wait"])
    path = written(tmp_path, ending, first=1)
    np.testing.assert_array_equal(read_policy(path, problem), [[0, 1], [1, 2]])
    assert ('"first": 1' in Path(path).read_text()) == (ending == "json")


def test_what_other_commands_write(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    mdp, path = make("chain:n=3"), tmp_path / "best.csv"
    plan = mdp.optimal()
    write_policy(plan.policy, mdp, path)
    for t in range(mdp.horizon):
        asked = ["act", str(path), "--state", "1", "--t", str(t)]
        action = run(capsys, *asked)[1].strip()
        names = mdp.problem.action_names
        assert action == (names[plan.policy[t, 1]] if names else str(plan.policy[t, 1]))
