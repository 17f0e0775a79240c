"""``ucfh plan`` as a person and as a program uses it."""

from __future__ import annotations

import csv
import json
import re
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import fails, run
from support.model_files import example
from support.prism_files import SREW, TRA
from support.settings import DOCS
from ucfh._utils import memory
from ucfh.io import read_intervals, read_model
from ucfh.policies import read_policy

Capture = pytest.CaptureFixture[str]
PAGE = DOCS / "howto" / "planning.md"


def block(kind: str) -> str:
    (text,) = re.findall(rf"```{kind}\n(.*?)```", PAGE.read_text(), re.DOTALL)
    return str(text)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The files of the page, and some more, in a directory of their own."""
    monkeypatch.chdir(tmp_path)
    Path("delivery.json").write_text(block("json"))
    Path("pump.tra").write_text(block("tra"))
    Path("pump.trew").write_text(block("trew"))
    Path("rooms.tra").write_text(TRA)
    Path("rooms.srew").write_text(SREW)
    Path("commute.json").write_text(json.dumps(example()))
    return tmp_path


@pytest.mark.usefixtures("folder")
def test_the_page_says_what_happens(capsys: Capture) -> None:
    text = PAGE.read_text()
    sessions = re.findall(r"```console\n\$ ucfh (.*?)\n(.*?)```", text, re.DOTALL)
    assert len(sessions) == 3
    for command, printed in sessions:
        code, out, err = run(capsys, *shlex.split(command))
        assert (code, err) == (0, "")
        assert re.sub(r" +took .*\n", "", out) == printed
    for name in ("sure.csv", "sure-values.csv"):
        (line,) = re.findall(rf"`{name}`[^`]*\(`(.*?)`\)", text.replace("\n", " "))
        t, state, what = line.split(",")
        rows = list(csv.reader(Path(name).read_text().splitlines()))
        (found,) = [row[2] for row in rows if row[:2] == [t, state]]
        assert found == what or float(found) == pytest.approx(float(what))
    codes = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    for code in codes:
        exec(code, {})
    expected = re.findall(r"# ([\d.]+)\n", "".join(codes))
    assert capsys.readouterr().out.split() == expected
    assert len(expected) == 2
    assert read_intervals("pump.npz").horizon == 12


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("arguments", [[], ["--robust"], ["--threads", "1"]])
def test_json(arguments: list[str], capsys: Capture) -> None:
    code, out, err = run(capsys, "plan", "rooms.tra", "--horizon", "5", "--json", *arguments)
    assert (code, err) == (0, "")
    result = json.loads(out)
    robust = "--robust" in arguments
    model = read_intervals("rooms.tra", 5)
    assert result.pop("value") == model.at_start(model.plan(optimistic=not robust).values)
    assert result.pop("seconds") > 0
    assert result.pop("version")
    assert result == {
        "model": "rooms.tra",
        "kind": "robust" if robust else "optimistic",
        "states": 6,
        "actions": 5,
        "horizon": 5,
        "successors": 3,
        "time_dependent": False,
        "note": None,
    }


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("ending", ["csv", "json"])
def test_policy_and_values_are_written(ending: str, capsys: Capture) -> None:
    files = ["--policy", f"p.{ending}", "--values", f"v.{ending}"]
    code, out, _ = run(capsys, "plan", "commute.json", *files, "--json")
    assert (code, json.loads(out)["kind"]) == (0, "exact")
    mdp = read_model("commute.json")
    plan = mdp.optimal()
    assert json.loads(out)["value"] == mdp.at_start(plan.values)
    np.testing.assert_array_equal(read_policy(f"p.{ending}", mdp), plan.policy)
    text = Path(f"v.{ending}").read_text()
    names: Any = mdp.problem.state_names
    if ending == "csv":
        first, *rows = csv.reader(text.splitlines())
        assert first == ["t", "state", "value"]
        found = {(int(t), s): float(v) for t, s, v in rows}
    else:
        document = json.loads(text)
        assert {key: document[key] for key in ("format", "version", "horizon")} == {
            "format": "ucfh-values",
            "version": 1,
            "horizon": 3,
        }
        found = {(t, s): v for t, step in enumerate(document["values"]) for s, v in step.items()}
    assert found == {
        (t, s): plan.values[t, i] for t in range(3) for i, s in enumerate(names)
    }  # to the last bit
    error = fails(capsys, "plan", "commute.json", *files)
    assert f"p.{ending} exists: pass --force" in error
    code, _, _ = run(capsys, "plan", "commute.json", *files, "--force")
    assert code == 0


@pytest.mark.usefixtures("folder")
def test_odd_names_survive_in_values(capsys: Capture) -> None:
    document = example() | {"states": ["home", 'a,\r"b', "done"]}
    document["transitions"] = [
        json.loads(json.dumps(row).replace('"work"', '"1"')) for row in document["transitions"]
    ]
    Path("odd.json").write_text(json.dumps(document))
    code, _, _ = run(capsys, "plan", "odd.json", "--values", "v.csv")
    assert code == 0
    with open("v.csv", newline="") as file:
        states = [row[1] for row in csv.reader(file)]
    assert states[1:4] == ["home", 'a,\r"b', "done"]


@pytest.mark.usefixtures("folder")
def test_a_person_sees_where_an_episode_starts(capsys: Capture) -> None:
    S = 30
    body = "".join(f"{s} 0 {(s + 1) % S} 1\n" for s in range(S))
    Path("ring.tra").write_text(f"{S} {S} {S}\n{body}")
    Path("ring.srew").write_text(f"{S} 1\n22 2.5\n")
    Path("ring.lab").write_text('0="init"\n21: 0\n')
    code, out, _ = run(capsys, "plan", "ring.tra", "--horizon", "3")
    assert code == 0
    assert "2.5 per episode, from the start" in out
    rows = out.split("first step\n")[1].splitlines()
    assert rows[0].split() == ["2.5", "21", "0"]
    assert [row.split()[1] for row in rows[1:10]] == [str(s) for s in range(9)]
    assert rows[10].strip() == "...  and 20 more: --policy and --values write all"


FAULTS: list[tuple[list[str], str]] = [
    (["nothing.json"], "nothing.json does not exist: check the name"),
    (["rooms.txt"], "rooms.txt: unknown ending '.txt' (known: .json, .npz, .tra)"),
    (["rooms.tra"], "rooms.tra has no horizon: pass --horizon"),
    (["rooms.tra", "--horizon", "0"], "horizon = 0 must be an integer of at least 1"),
    (["rooms.tra", "--horizon", "5", "--labels", "no.lab"], "no.lab does not exist"),
    (
        ["delivery.json", "--horizon", "5"],
        "horizon is for .tra files",
    ),
    (["delivery.json", "--threads", "0"], "threads = 0 must be an integer"),
    (["delivery.json", "--policy", "a.txt"], "a.txt: unknown ending '.txt'"),
    (["delivery.json", "--policy", "a.csv", "--values", "a.csv"], "a.csv is named twice"),
    (["delivery.json", "--values", "delivery.json", "--force"], "delivery.json is named twice"),
    (["delivery.json", "--values", "no/a.csv"], "the directory no does not exist"),
]


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize(("arguments", "message"), FAULTS)
def test_mistakes_are_told_in_one_line(arguments: list[str], message: str, capsys: Capture) -> None:
    assert message in fails(capsys, "plan", *arguments)


@pytest.mark.usefixtures("folder")
def test_models_that_are_wrong(capsys: Capture) -> None:
    """Named file, line and row, exit code 2."""
    Path("rooms.tra").write_text(TRA.replace("[0.9,1]", "[0.9,0.8]"))
    error = fails(capsys, "plan", "rooms.tra", "--horizon", "5")
    assert error.startswith("ucfh: rooms.tra: line 8: the probability is [0.9,0.8]")
    Path("rooms.tra").write_text(TRA[: len(TRA) // 2])
    assert "the file is cut short" in fails(capsys, "plan", "rooms.tra", "--horizon", "5")
    Path("delivery.json").write_text(block("json").replace("[0.2, 0.8]", "[0.6, 0.8]"))
    error = fails(capsys, "plan", "delivery.json")
    assert "after (state 'depot', action 'lane'): lo sums to 1.2 and hi to 1.6" in error
    Path("delivery.json").write_text(block("json")[:-50])
    assert "not JSON, or cut short" in fails(capsys, "plan", "delivery.json")


@pytest.mark.usefixtures("folder")
def test_models_that_do_not_fit(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    Path("rooms.tra").write_text("1000000000 4000000000 40000000000\n")
    error = fails(capsys, "plan", "rooms.tra", "--horizon", "5")
    assert "needs about 7104000000000 bytes of memory" in error
    monkeypatch.setattr(memory, "free_memory", lambda: 10_000_000_000)
    Path("delivery.json").write_text(block("json").replace(": 3,", ": 2000000000,"))
    error = fails(capsys, "plan", "delivery.json")
    assert "a plan of 2000000000 steps in 2 states needs about 36000000016 bytes" in error


@pytest.mark.usefixtures("folder")
def test_agents_refuse_intervals(capsys: Capture) -> None:
    error = fails(capsys, "learn", "delivery.json")
    assert "its probabilities are intervals, but an agent needs known ones: plan" in error


@pytest.mark.usefixtures("folder")
def test_large_files_are_announced(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from ucfh.cli import plan

    monkeypatch.setattr(plan, "LARGE", 1)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    code, _, err = run(capsys, "plan", "delivery.json")
    assert code == 0
    assert err.splitlines() == [
        "ucfh: reading delivery.json, 0 MB ...",
        "ucfh: planning 3 steps in 2 states ...",
    ]


def test_what_is_no_file(capsys: pytest.CaptureFixture[str]) -> None:
    said = fails(capsys, "plan", "chain:n=5")
    assert "write_model" in said.partition("Fix: ")[2]
    said = fails(capsys, "evaluate", "calls", "p.csv")
    assert "ucfh evaluate p.csv calls" in said.partition("Fix: ")[2]
