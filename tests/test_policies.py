"""Policy files: round trips, and errors that name the invalid entry."""

from __future__ import annotations

import copy
import csv
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.errors import refusal as fault
from ucfh import InputError, Problem
from ucfh._utils.arrays import Ints
from ucfh.mdp import MDP
from ucfh.policies import read_policy, write_policy

FUZZ = settings(
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
COMMUTE = Problem(
    states=3,
    actions=3,
    horizon=2,
    available=np.array([[True, True, False], [True, False, True], [True, False, False]]),
    terminal=[2],
    state_names=["home", "work", "done"],
    action_names=["stay", "go", "present"],
)
NUMBERED = Problem(states=2, actions=12, horizon=2)
BEST = np.array([[1, 2, 0], [0, 2, 0]])
TEXT = "t,state,action\n0,home,go\n0,work,present\n1,home,stay\n1,work,present\n"


def document() -> Any:
    return {
        "format": "ucfh-policy",
        "version": 1,
        "horizon": 2,
        "policy": [{"home": "go", "work": "present"}, {"home": "stay", "work": "present"}],
    }


def read_text(text: str | bytes, tmp_path: Path, problem: Problem, name: str) -> Ints:
    path = tmp_path / name
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return read_policy(path, problem)


def read_csv(text: str | bytes, tmp_path: Path, problem: Problem = COMMUTE) -> Ints:
    return read_text(text, tmp_path, problem, "policy.csv")


def read_json(value: Any, tmp_path: Path, problem: Problem = COMMUTE) -> Ints:
    return read_text(json.dumps(value), tmp_path, problem, "policy.json")


def read_or_refuse(text: str | bytes, tmp_path: Path, name: str) -> Ints | None:
    """The policy in a file that may be damaged; None if it is refused, in one line."""
    try:
        pi = read_text(text, tmp_path, COMMUTE, name)
    except InputError as error:
        message = str(error)
    else:
        COMMUTE.table.rows_of(pi, COMMUTE.horizon)
        return pi
    assert message.startswith(str(tmp_path / name))
    assert len(message.splitlines()) == 1
    return None


word = st.text(max_size=3) | st.sampled_from(
    ["0", "1", " a", "a ", "a,b", 'a"b', "x\ny", "\r", "'"]
)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Problem, Ints]:
    S, A, H = (draw(st.integers(1, n)) for n in (4, 3, 3))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    available = rng.random((S, A)) < 0.7
    available[np.arange(S), rng.integers(0, A, S)] = True
    names = [draw(st.none() | st.lists(word, min_size=n, max_size=n, unique=True)) for n in (S, A)]
    problem = Problem(
        S,
        A,
        H,
        available=available,
        terminal=draw(st.lists(st.integers(0, S - 1), max_size=2)),
        state_names=names[0],
        action_names=names[1],
    )
    choices = [np.flatnonzero(row) for row in problem.table.available]
    return problem, np.array([[rng.choice(c) for c in choices] for _ in range(H)])


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["csv", "json"])
@FUZZ
@given(case=cases())
def test_round_trip(case: tuple[Problem, Ints], ending: str, tmp_path: Path) -> None:
    problem, pi = case
    path = tmp_path / f"policy.{ending}"
    write_policy(pi, problem, path, force=True)
    found = read_policy(path, problem)
    assert found.dtype == np.int64
    np.testing.assert_array_equal(found, pi)
    write_policy(pi[0], problem, path, force=True)
    np.testing.assert_array_equal(read_policy(path, problem), np.broadcast_to(pi[0], pi.shape))


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_of_an_mdp(ending: str, tmp_path: Path) -> None:
    """The policy of a plan, in its smallest integer type."""
    rng = np.random.default_rng(1)
    mdp = MDP(rng.dirichlet(np.ones(4), (4, 3)), rng.random((4, 3)), 5)
    path = tmp_path / f"policy.{ending}"
    plan = mdp.optimal()
    write_policy(plan.policy, mdp, path)
    np.testing.assert_array_equal(read_policy(path, mdp), plan.policy)
    np.testing.assert_array_equal(read_policy(path, mdp.problem), plan.policy)


@pytest.mark.parametrize(
    "text",
    [
        TEXT,
        TEXT + "0,done,stay\n",
        TEXT.replace("\n", "\r\n"),
        "\ufeff" + TEXT.rstrip("\n"),
        "action,t,state\nstay,1,home\n\npresent,1,work\ngo,0,home\npresent,0,work\n",
        "t, state, action\n0, 0, 1\n0, 1, 2\n1, 0, 0\n1, 1, 2\n",
        '"t","state","action"\n"0","home","go"\n0,work,2\n1,0,stay\n1,work,present\n',
    ],
)
def test_csv_by_hand(text: str, tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_csv(text, tmp_path), BEST)


def test_stationary(tmp_path: Path) -> None:
    np.testing.assert_array_equal(
        read_csv("state,action\nwork,present\nhome,go\n", tmp_path), BEST[[0, 0]]
    )
    short = document() | {"policy": {"home": "go", "1": 2}}
    np.testing.assert_array_equal(read_json(short, tmp_path), BEST[[0, 0]])


def test_json_by_hand(tmp_path: Path) -> None:
    np.testing.assert_array_equal(read_json(document(), tmp_path), BEST)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "such as t,state,action: state is missing: add it"),
        ("t,state\n0,home\n", "such as t,state,action: action is missing: add it"),
        ("0,home,go\n", "the first line must name the columns, such as t,state,action: unknown"),
        ("t;state;action\n", "unknown column 't;state;action'"),
        ("t,sate,action\n", "unknown column 'sate': did you mean 'state'?"),
        ("t,state,state,action\n", "state is given twice: keep only one"),
        (TEXT.replace("home,go", "hmoe,go"), "line 2: unknown state 'hmoe': did you mean 'home'?"),
        (TEXT.replace("home,go", "3,go"), "line 2: state 3 does not exist: states are 0 to 2"),
        (TEXT.replace("home,go", "home,og"), "line 2: unknown action 'og'"),
        (TEXT.replace("home,go", "home,-1"), "line 2: unknown action '-1'"),
        (TEXT.replace("home,go", "home"), "line 2: 2 values in 3 columns"),
        (TEXT.replace("home,go", "home,go,0"), "line 2: 4 values in 3 columns"),
        (
            TEXT.replace("home,go", "home,present"),
            "line 2: state 'home' does not have action 'present': it has only 'stay', 'go'",
        ),
        (TEXT + "2,home,go\n", "line 6: time step 2 does not exist: time steps are 0 to 1"),
        (TEXT + "one,home,go\n", "line 6: unknown time step 'one'"),
        (TEXT + f"{'9' * 5000},home,go\n", "line 6: unknown time step '999"),
        (TEXT + "\n0,home,stay\n", "line 7: (t=0, state 'home') is on line 2 too: keep only one"),
        (TEXT.replace("1,home,stay\n", ""), "no action for (t=1, state 'home'): add a line"),
        (
            "t,state,action\n",
            "no action for (t=0, state 'home'), (t=0, state 'work'), (t=1, state 'home'), (t=1, ",
        ),
        ("state,action\nhome,go\n", "no action for (state 'work'): add a line"),
        ("state,action\nhome,go\n0,go\n", "line 3: (state 'home') is on line 2 too"),
        ('t,state,action\n0,"home,go\n', "line 2: not CSV, or cut short"),
        ('t,state,action\n0,"home"x,go\n', "line 2: not CSV, or cut short"),
        (f"t,state,action\n0,{'x' * 200_000},go\n", "line 2: not CSV, or cut short"),
        (b"t,state,action\n0,h\xf6me,go\n", "line 2 is not text in UTF-8"),
    ],
)
def test_errors_of_csv_are_named(text: str | bytes, message: str, tmp_path: Path) -> None:
    assert message in fault(read_csv, text, tmp_path)


def test_many_missing_lines_are_counted(tmp_path: Path) -> None:
    problem = Problem(states=20, actions=1, horizon=5)
    message = fault(read_csv, "t,state,action\n", tmp_path, problem)
    assert "(t=0, state 4) and 95 more: add a line for each" in message


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": "ucfh-model"}, 'its "format" is "ucfh-model": it must be "ucfh-policy"'),
        ({"version": 2}, 'its "version" is 2: this version of ucfh reads version 1'),
        ({"horizon": 3}, '"horizon" is 3, but that of the problem is 2'),
        ({"horizon": None}, '"horizon" is null, but that'),
        ({"plicy": []}, "unknown key 'plicy': did you mean 'policy'?"),
        ({"policy": 3}, '"policy" is 3: it must be a list of 2 objects, one for each time step'),
        ({"policy": [{}]}, '"policy" is a list of 1: it must be a list of 2'),
        ({"policy": [{"home": "go"}, 3]}, "policy[1]: it must be an object {...}, not 3"),
        ({"policy": {"hme": "go"}}, "policy: unknown state 'hme': did you mean 'home'?"),
        ({"policy": {"home": "og"}}, "policy: state 'home': unknown action 'og'"),
        ({"policy": {"home": "go", "0": "go"}}, "policy: state 'home' is given twice"),
        ({"policy": {"home": 2}}, "policy: state 'home' does not have action 'present'"),
        (
            {"policy": {"home": [1]}},
            "policy: state 'home': a list is not a valid action: give its name",
        ),
        ({"policy": {"home": "go"}}, "no action for (state 'work'): add a line"),
    ],
)
def test_errors_of_json_are_named(change: Any, message: str, tmp_path: Path) -> None:
    assert message in fault(read_json, document() | change, tmp_path)


def test_errors_of_policies_are_named(tmp_path: Path) -> None:
    path = tmp_path / "policy.csv"
    for policy, message in [
        (BEST.astype(float), "policy has type float64: it must hold integers"),
        ([[0, 0, 0], [0]], "policy must be an array (H, S), or (S,): its lines differ in length"),
        (BEST[:, :2], "policy has shape (2, 2): it must be (H, S) = (2, 3)"),
        (BEST * 2, "policy[0, 0] = 2: state 0 has only the actions 0, 1"),
    ]:
        assert message in fault(write_policy, policy, COMMUTE, path)
    assert "unknown ending '.txt'" in fault(write_policy, BEST, COMMUTE, "policy.txt")
    assert "(known: .csv, .json)" in fault(read_policy, "policy.npz", COMMUTE)
    assert "does not exist: check the name" in fault(read_policy, path, COMMUTE)
    assert not path.exists()


def test_files_are_not_overwritten_without_force(tmp_path: Path) -> None:
    path = tmp_path / "out.csv"
    write_policy(BEST, COMMUTE, path)
    message = fault(write_policy, BEST[[0, 0]], COMMUTE, path)
    assert message == f"{path} exists: pass --force (force=True) to overwrite"
    np.testing.assert_array_equal(read_policy(path, COMMUTE), BEST)
    write_policy(BEST[[0, 0]], COMMUTE, path, force=True)
    np.testing.assert_array_equal(read_policy(path, COMMUTE), BEST[[0, 0]])


@pytest.mark.parametrize("ending", ["csv", "json"])
@FUZZ
@given(content=st.binary(max_size=200) | st.text('0123,"\r\nhomegactins;\0{}[]:').map(str.encode))
def test_random_bytes(content: bytes, ending: str, tmp_path: Path) -> None:
    assert read_or_refuse(content, tmp_path, f"policy.{ending}") is None


@pytest.mark.parametrize("ending", ["csv", "json"])
def test_truncation_at_every_length(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"whole.{ending}"
    write_policy(BEST, COMMUTE, path)
    # the last line is that of a terminal state, which a file may leave out
    content = path.read_bytes().removesuffix(b"1,done,stay\n").rstrip(b"\n")
    for length in range(len(content)):
        assert read_or_refuse(content[:length], tmp_path, f"cut.{ending}") is None
    assert read_or_refuse(content, tmp_path, f"cut.{ending}") is not None


def test_numbers_without_names(tmp_path: Path) -> None:
    pi = np.array([[10, 11], [1, 0]])
    write_policy(pi, NUMBERED, tmp_path / "policy.csv")
    assert (tmp_path / "policy.csv").read_text().split() == [
        *("t,state,action", "0,0,10", "0,1,11", "1,0,1", "1,1,0")
    ]
    message = fault(read_csv, "state,action\nhome,0\n", tmp_path, NUMBERED)
    assert "unknown state 'home': states have no names here; give a number, 0 to 1" in message


@FUZZ
@given(data=st.data())
def test_mutations_of_csv(data: st.DataObject, tmp_path: Path) -> None:
    rows = list(csv.reader(io.StringIO(TEXT)))
    fields = st.sampled_from(["0", "1", "2", "-1", "home", "go", "", "t", "state", "é", '"'])
    for _ in range(data.draw(st.integers(1, 3))):
        row = rows[data.draw(st.integers(0, len(rows) - 1))]
        what = data.draw(st.sampled_from(["change", "insert", "remove", "repeat", "shuffle"]))
        if what == "change" and row:
            row[data.draw(st.integers(0, len(row) - 1))] = data.draw(fields)
        elif what == "insert":
            row.insert(0, data.draw(fields))
        elif what == "remove" and row:
            row.pop()
        elif what == "repeat":
            rows.append([*row])
        else:
            rows = data.draw(st.permutations(rows))
    text = "\n".join(",".join(row) for row in rows)
    read_or_refuse(text, tmp_path, "policy.csv")


@FUZZ
@given(data=st.data())
def test_mutations_of_json(data: st.DataObject, tmp_path: Path) -> None:
    value = document()
    leaves = st.none() | st.booleans() | st.integers(-1, 3) | st.floats() | st.text(max_size=2)
    values = leaves | st.lists(leaves, max_size=3) | st.dictionaries(st.text(max_size=2), leaves)
    holder = data.draw(st.sampled_from([value, value["policy"], *value["policy"]]))
    keys = [*holder] if isinstance(holder, dict) else range(len(holder))
    key = data.draw(st.sampled_from(keys))
    if data.draw(st.booleans()):
        holder[key] = data.draw(values)
    elif data.draw(st.booleans()):
        del holder[key]
    else:
        holder[key] = copy.deepcopy(data.draw(st.sampled_from([*value.values()])))
    read_or_refuse(json.dumps(value), tmp_path, "policy.json")
