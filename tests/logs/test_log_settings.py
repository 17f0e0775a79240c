"""What is declared of a log: in Python, on the command line, and in the file beside it."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import fails, run
from support.errors import refusal
from support.log_files import HEAD, TOLD
from ucfh import read_log
from ucfh.logs.settings import CHECKS, combine, read_settings, settings_path, write_settings

ROWS = "1,0,a,x,5,b,0\n1,1,b,x,0,b,0\n"
EVERYTHING: dict[str, Any] = {
    "columns": {"state": ["level", 'mo"od'], "action": "dïd", "t": "a\\b"},
    "states": ["a", "b"],
    "actions": 3,
    "terminal": ["b"],
    "horizon": 4,
    "time_dependent": False,
    "segments": [1, 3],
    "rewards": [-1.5, 80],
    "blank_reward": 0,
    "max_return": 1e3,
    "encoding": "cp1252",
    "decimal": ",",
    "bins": {"level": [40, 70.5], 'mo"od': {"quantiles": 4, "episodes": 500}},
    "dropouts": "outcome",
    "ignore_case": True,
    "accept_losses": True,
}


def write(tmp_path: Path, text: str | None, rows: str = ROWS) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + rows)
    if text is not None:
        settings_path(path).write_text(text)
    return path


def test_what_is_written_is_read(tmp_path: Path) -> None:
    assert EVERYTHING.keys() == CHECKS.keys()
    path = tmp_path / "students.csv"
    assert write_settings(path, EVERYTHING) == tmp_path / "students.csv.toml"
    assert read_settings(path) == EVERYTHING
    assert tomllib.loads(settings_path(path).read_text()) == EVERYTHING
    assert "exists: pass --force" in refusal(write_settings, path, {"horizon": 2})
    odd = {"horizon": np.int64(2), "rewards": (0, np.float64(1)), "columns": {"t": "\U0001f600"}}
    write_settings(path, odd, force=True)
    assert read_settings(path) == {**odd, "rewards": [0, 1]}


def test_a_log_is_read_as_the_file_beside_it_says(tmp_path: Path) -> None:
    path = write(tmp_path, 'rewards = [0, 10]\nhorizon = 3\ndropouts = "random"\n')
    log = read_log(path)
    assert (log.units.high, log.horizon) == (10, 3)
    assert log.understood.settings == f"{path}.toml"
    assert read_log(path, rewards=(0, 20), horizon=2).units.high == 20
    settings_path(path).unlink()
    assert "reward '5'" in refusal(read_log, path)
    assert read_log(path, rewards=(0, 5)).understood.settings is None


def test_columns_and_bins_win_one_by_one() -> None:
    remembered = {"columns": {"state": "a", "action": "b"}, "bins": {"a": [1]}, "horizon": 3}
    given = {"columns": {"state": "c"}, "bins": {"c": [2]}}
    assert combine(remembered, given) == {
        "columns": {"state": "c", "action": "b"},
        "bins": {"a": [1], "c": [2]},
        "horizon": 3,
    }
    assert combine(remembered, {"columns": 5})["columns"] == 5


def test_a_problem_says_what_the_file_says(tmp_path: Path) -> None:
    path = write(tmp_path, 'rewards = [0, 10]\nhorizon = 7\nencoding = "cp1252"\n',
                 "0,0,a,x,1,b,\n0,1,b,x,1,b,\n")  # fmt: skip
    log = read_log(path, TOLD)
    assert (log.horizon, log.units.high, log.counted) == (2, 1, 2)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("colums = {}", "unknown key 'colums': did you mean 'columns'? (known: accept_losses,"),
        ("horizon = 'four'", "horizon = 'four' must be an integer of at least 1"),
        ("horizon = 2.5", "horizon = 2.5 must be an integer of at least 1"),
        ("columns = 'state'", "columns = 'state' must be names by column"),
        ("columns = {stat = 's'}", "unknown column of a log 'stat': did you mean 'state'?"),
        ("columns = {state = 3}", "columns['state'] = 3 must be the name of a column, or a list"),
        ("columns = {action = ['a', 'b']}", "columns['action'] = ['a', 'b'] must be the name"),
        ("states = 'a,b'", "states = 'a,b': pass a list of names"),
        ("segments = '9'", "segments = '9' must be steps, such as [9]"),
        ("rewards = [1, 0]", "rewards = [1, 0] must be the least and the largest"),
        ("max_return = 'much'", "max_return = 'much' must be a number"),
        ("blank_reward = ''", "blank_reward = '' must be a number"),
        ("decimal = ';'", "decimal = ';' must be '.' or ','"),
        ("dropouts = 'no'", "dropouts = 'no' must be 'outcome' or 'lost' or 'random'"),
        ("ignore_case = 1", "ignore_case = 1 must be true or false"),
        ("encoding = 1", "encoding = 1 must be the name of an encoding"),
        ("bins = {a = 'x'}", "bins['a'] = 'x' must be numbers, ascending"),
        ("what is this", "not TOML:"),
    ],
)
def test_a_file_that_is_wrong(text: str, told: str, tmp_path: Path) -> None:
    path = write(tmp_path, text)
    said = refusal(read_log, path)
    assert said.startswith(f"{path}.toml: ")
    assert told in said


def test_remember(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = write(tmp_path, None)
    asked = ["certify", str(path), "--rewards", "0,10", "--remember", "--check"]
    code, out, err = run(capsys, *asked)
    assert (code, err) == (0, "")
    assert "CSV with commas" in out
    assert tomllib.loads(settings_path(path).read_text()) == {"rewards": [0, 10]}
    assert "exists: pass --force" in fails(capsys, *asked)
    code, out, _ = run(capsys, "certify", str(path), "--check", "--json")
    assert code == 0
    assert json.loads(out)["settings"] == f"{path}.toml"
    code, _, _ = run(capsys, *asked, "--force", "--horizon", "2")
    assert code == 0
    assert tomllib.loads(settings_path(path).read_text()) == {"rewards": [0, 10], "horizon": 2}


def test_what_is_refused_is_not_remembered(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path, None)
    fails(capsys, "certify", str(path), "--rewards", "0,1", "--remember")
    assert not settings_path(path).exists()
    said = fails(capsys, "certify", "minari:toy/none-v0", "--remember")
    assert "--remember writes a file beside another one" in said


def test_options_of_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "who;score;mood;did;paid\n"
        + "".join(f"{e};{e},5;{'A' if e % 2 else 'a'};x;0,5\n" for e in range(20))
    )
    columns = ["episode=who", "state=score+mood", "action=did", "reward=paid"]
    options = [x for column in columns for x in ("--columns", column)]
    asked = ["certify", str(path), *options, "--decimal", ",", "--ignore-case", "--json"]
    code, out, err = run(capsys, *asked, "--bins", "score=5,10", "--check")
    assert (code, err) == (0, "")
    known = json.loads(out)
    assert known["kind"] == "CSV with semicolons"
    assert list(known["states"]) == ["score>=10|a", "score<5|a", "5<=score<10|A"]
    assert known["actions"] == {"x": 20}
    assert known["rewards"] == [0.5, 0.5]
    assert known["columns"]["next_state"] == "the state of the next row"
    code, out, _ = run(capsys, *asked, "--bins", "score=quantiles:2:8", "--check")
    assert code == 0
    known = json.loads(out)
    assert known["counted"] == 12
    code, _, err = run(capsys, *asked[:-1], "--bins", "score=5,10", "--dropouts", "lost")
    assert (code, err) == (3, "")  # and that is little data


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--columns", "state"], "--columns state needs the name in the file"),
        (
            ["--columns", "state=a", "--columns", "state=b"],
            "--columns state=... is given twice: keep one",
        ),
        (["--bins", "a=x"], "--bins a=x must name a column and edges"),
        (["--bins", "a=quantiles:4"], "--bins a=quantiles:4 must name a column and edges"),
        (["--bins", "a=1", "--bins", "a=2"], "--bins a=... is given twice: keep one"),
        (["--dropouts", "no"], "dropouts = 'no' must be 'outcome' or 'lost' or 'random'"),
        (["--decimal", "x"], "decimal = 'x' must be '.' or ','"),
    ],
)
def test_wrong_options(
    options: list[str], told: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    path = write(tmp_path, None)
    assert told in fails(capsys, "certify", str(path), *options)
