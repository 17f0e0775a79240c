"""The command line as a person and as a program uses it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.command_line import fails, run
from ucfh import MDP, episode_lower_bound, write_model
from ucfh.cli.main import COMMANDS
from ucfh.exceptions import InputError

KEYS = """problem agent epsilon delta seed episodes phases mistakes bound value optimal gap upper
lower certified final seconds version"""


def test_learn_prints_one_json_object(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["chain:n=3", "--epsilon", "0.5", "--delta", "0.1", "--json"]
    code, out, err = run(capsys, "learn", *asked, "--paper")
    assert (code, err) == (0, "")
    result = json.loads(out)
    assert set(KEYS.split()) <= set(result)
    assert result["final"] is True
    assert result["episodes"] > 1e8
    assert result["upper"] is result["lower"] is result["certified"] is None
    assert result["optimal"] - result["value"] == pytest.approx(result["gap"])
    code, out, err = run(capsys, "learn", *asked)
    assert (code, err) == (0, "")
    known = json.loads(out)
    assert set(result) == set(known)
    assert known["certified"] is True
    assert known["episodes"] < 1000
    assert known["lower"] <= known["value"] <= known["optimal"] <= known["upper"]
    assert known["gap"] <= known["gap_bound"] <= 0.5
    assert known["missing"][0].keys() == {"segment", "state", "action", "visits", "share"}


@pytest.mark.parametrize("kind", [["--paper"], []])
def test_the_same_seed_gives_the_same_result(
    capsys: pytest.CaptureFixture[str], kind: list[str]
) -> None:
    results = []
    for seed in ("3", "3", "4"):
        _, out, _ = run(capsys, "learn", "chain:n=3", "--json", "--seed", seed, *kind)
        results.append({k: v for k, v in json.loads(out).items() if not k.endswith("seconds")})
    assert results[0] == results[1]
    assert results[0]["regret"] != results[2]["regret"]


def test_learn_tells_a_person_what_came_out(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    plot, policy, save = (tmp_path / name for name in ("run.svg", "policy.csv", "run.npz"))
    files = ["--plot", str(plot), "--policy", str(policy), "--save", str(save)]
    printed = ["learn", "calls", "--paper"]
    code, out, _ = run(capsys, *printed, "--episodes", "1000000", *files)
    assert code == 0
    assert "(the limit that was given; the agent is not done)" in out
    assert "Example episode under this policy:" in out
    assert plot.read_text().startswith("<?xml")
    code, out, _ = run(capsys, "evaluate", str(policy), "calls", "--json")
    assert json.loads(out)["gap"] >= 0
    error = fails(capsys, *printed, *files)
    assert "policy.csv exists: pass --force" in error
    code, out, _ = run(capsys, *printed, "--episodes", "2000000", "--resume", str(save))
    assert code == 0
    assert " 2e+06 (the limit" in out
    error = fails(capsys, *printed, "--episodes", "5", "--resume", str(save))
    assert "already has 1000000 episodes, more than 5: pass at least" in error
    error = fails(capsys, *printed, "--seed", "1", "--resume", str(save))
    assert "its seed is 0, and now it is 1" in error


@pytest.mark.slow
def test_certified_learning_tells_a_person_what_is_known(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    save, plot = str(tmp_path / "run.npz"), str(tmp_path / "run.png")
    asked = ["learn", "chain:n=4", "--epsilon", "0.2"]
    code, out, _ = run(capsys, *asked, "--episodes", "20", "--save", save, "--plot", plot)
    assert code == 0
    assert "20 (the limit that was given; the agent is not done)" in out
    assert "This policy earns at least " in out
    assert "of optimal (90% confidence).\n" in out
    assert "the gap depends most on\n" in out
    assert Path(plot).read_bytes().startswith(b"\x89PNG")
    _, on, _ = run(capsys, *asked, "--resume", save, "--json")
    _, straight, _ = run(capsys, *asked, "--json")
    one, other = (json.loads(x) for x in (on, straight))
    assert one["certified"] is True
    assert {**one, "seconds": 0} == {**other, "seconds": 0}


def test_bounds(capsys: pytest.CaptureFixture[str]) -> None:
    size = ["--states", "5", "--actions", "2", "--horizon", "5", "--epsilon", "0.5"]
    _, out, _ = run(capsys, "bounds", *size, "--delta", "0.1", "--json")
    rows = json.loads(out)["bounds"]
    numbers = [row["episodes"] for row in rows if row["episodes"] is not None]
    assert numbers == sorted(numbers)
    printed = next(row for row in rows if row["name"] == "Theorem 1, printed")
    assert printed["episodes"] == pytest.approx(5.18117445886e12)
    code, out, err = run(capsys, "bounds", *size, "--delta", "0.1")
    assert (code, err) == (0, "")
    assert all(row["name"] in out for row in rows)


def test_bounds_of_a_problem(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    model = str(tmp_path / "coins.json")
    win = [0.5, 0.4]  # a choice between two coins
    coins = MDP(
        [[[0, x, 1 - x] for x in win], [[0, 1, 0]] * 2, [[0, 0, 1]] * 2], [[0], [1], [0]], 2
    )
    write_model(coins, model)
    asked = ["--epsilon", "0.05", "--delta", "0.05"]
    _, out, _ = run(capsys, "bounds", model, *asked, "--json")
    named = json.loads(out)
    assert named["floor"] == episode_lower_bound(coins, 0.05, 0.05).episodes > 200
    size = {key: named[key] for key in ("states", "actions", "horizon", "successors")}
    assert size == {"states": 3, "actions": 2, "horizon": 2, "successors": 2}
    options = [f"--{key}={value}" for key, value in size.items()]
    _, out, _ = run(capsys, "bounds", *options, *asked, "--json")
    sized = json.loads(out)
    assert sized == {**named, "problem": None, "floor": None}
    _, out, _ = run(capsys, "bounds", model, *asked)
    assert out.endswith(
        "Floor on this problem: any rule that stops by itself needs at least 227.7 episodes on "
        "average.\n"
    )
    _, out, _ = run(capsys, "bounds", model, "--epsilon", "0.5", "--delta", "0.05")
    assert out.endswith("none was found; a rule may exist that stops without data.\n")


def test_problems(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    _, out, _ = run(capsys, "problems")
    for name in ("hard", "chain", "riverswim", "deepsea", "grid", "random", "tutoring", "gym"):
        assert name in out
    model = tmp_path / "model.json"
    _, out, _ = run(capsys, "problems", "tutoring", "--write", str(model))
    assert "0.855" in out
    _, out, _ = run(capsys, "problems", str(model), "--json")
    assert json.loads(out)["optimal"] == pytest.approx(0.8550496)
    model = tmp_path / "model.tra"
    model.touch()  # so that --force would be asked for, in vain
    asked = fails(capsys, "problems", "tutoring", "--write", str(model))
    assert "unknown ending '.tra'" in asked


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["learn", "chian"], "did you mean 'chain'?"),
        (["learn", "chain:m=3"], "unknown"),
        (["learn", "chain", "--epsilon", "0"], "epsilon = 0.0 is outside (0, 1]"),
        (["learn", "chain", "--delta", "2"], "delta = 2.0 is outside (0, 1]"),
        (["learn", "chain", "--episodes", "0"], "episodes = 0"),
        (["learn", "chain", "--seed", "-1"], "seed = -1"),
        (["learn", "chain", "--agent", "ucf"], "did you mean 'ucfh'?"),
        (["learn", "chain", "--variant", "papr"], "did you mean 'paper'?"),
        (["learn", "chain", "--confidence", "k"], "unknown confidence set 'k'"),
        (["learn", "chain", "--confidence", "kt", "--paper"], "leave --paper out"),
        (["learn", "chain", "--confidence", "kl", "--schedule", "growth"], "at doublings only"),
        (["learn", "chain", "--schedule", "doubling", "--paper"], "leave --schedule out"),
        (
            ["learn", "chain", "--paper", "--log", "x.csv"],
            "leave --paper, --agent and --schedule out",
        ),
        (["certify", "x.csv", "--columns", "s"], "--columns s=NAME"),
        (["certify", "x.csv", "--unknown", "rewards"], "is about --problem"),
        (["learn", "chain", "--unknown", "reward"], "cannot hide 'reward'"),
        (["learn", "chain", "--paper", "--variant", "corrected"], "contradict each other"),
        (["learn", "chain", "--plot", "x.jpg"], "unknown ending '.jpg'"),
        (["learn", "chain", "--plot", "none/x.png"], "the directory none does not exist"),
        (["learn", "chain", "--epsilom", "1"], "No such option: --epsilom"),
        (["learn", "tutoring", "--unknown", "rewards"], "rewards that depend on t"),
        (["learn", "chain", "--save", "x.npz", "--policy", "x.npz"], "unknown ending '.npz'"),
        (["learn", "x.json", "--policy", "x.json"], "x.json is named twice"),
        (["learn", "chain:horizon=1000000", "--paper"], "the problem is too large"),
        (["learn", "gym:"], "gym needs its environment first: write gym:ENVIRONMENT"),
        (["learn", "chain:"], "nothing follows the colon of 'chain:'"),
        (
            ["learn", "chain", "--epsilon", "1e-320"],
            "epsilon = 1e-320 must be a number of at least",
        ),
        (["lern"], "unknown command 'lern': did you mean 'learn'?"),
        (["study", "mistakes", "--quick"], "study was removed. Fix: run python -m evaluation"),
        (["learn"], "Missing argument"),
        (["evaluate", "none.csv", "chain"], "none.csv does not exist"),
        (["problems", "--write", "x.json"], "--write needs the name of a problem"),
        (["bounds", "--states", "5"], "Missing option"),
        (["bounds", "--states=5", "--epsilon=1", "--delta=1"], "the size is not complete: pass "),
        (["bounds", "chain", "--states=5", "--epsilon=1", "--delta=1"], "leave out --states"),
        (
            ["bounds", "--states=5", "--actions=2", "--horizon=5", "--epsilon=1e-99", "--delta=1"],
            "epsilon = 1e-99 is too small: pass a number such as 0.1",
        ),
    ],
)
def test_wrong_turns_are_one_line(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert words in fails(capsys, *arguments)


def test_without_arguments_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, err = run(capsys)
    assert (code, err) == (0, "")
    assert out.count("\n") > 10


def test_a_problem_too_large_for_memory_is_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def too_large(*_: object) -> None:
        raise MemoryError("no room")

    monkeypatch.setattr("ucfh.problems.make", too_large)
    assert "does not fit into memory (no room)" in fails(capsys, "problems", "chain")


def test_the_result_is_told_before_files_fail(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> None:
        raise InputError("no space left")

    monkeypatch.setattr("ucfh.simulation.result.Run.save", full)
    policy = tmp_path / "p.csv"
    files = ["--save", str(tmp_path / "r.npz"), "--policy", str(policy)]
    code, out, err = run(capsys, "learn", "chain", "--episodes", "100", *files)
    assert code == 2
    assert "episodes  100" in out
    assert policy.exists()
    assert err == "ucfh: no space left\n"


@pytest.mark.slow
@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_examples_in_help_keep_their_lines(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    _, said, _ = run(capsys, command, "--help")
    assert "\\b" not in said
    assert re.search(r"Examples?:\s*\n", said), said


def test_help_and_version_of_the_installed_command() -> None:
    for arguments in (["--help"], ["--version"], ["learn", "--help"], ["bounds", "--help"]):
        command = [sys.executable, "-m", "ucfh", *arguments]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        assert done.stdout
        assert done.stderr == ""


def test_learn_with_another_agent(capsys: pytest.CaptureFixture[str]) -> None:
    asked = ["chain:n=3", "--agent", "psrl:prior=2", "--episodes", "200"]
    code, out, _ = run(capsys, "learn", *asked)
    assert code == 0
    assert "psrl, Osband, Russo, Van Roy 2013; epsilon 0.1, delta 0.1" in out
    assert "followed, one after the other" in out
    found = json.loads(run(capsys, "learn", *asked, "--json")[1])
    assert (found["agent"], found["episodes"]) == ("psrl:prior=2", 200)
    assert found["settings"]["prior"] == 2.0
    code, out, _ = run(capsys, "learn", "chain:n=3", "--agent", "rmax", "--epsilon", "0.5")
    assert "(the policy can never change again)" in out
    assert "its theorem allows" in out


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (["--agent", "psr"], "unknown agent 'psr': did you mean 'psrl'"),
        (["--agent", "psrl", "--paper"], "leave them out, or --agent psrl"),
        (["--agent", "psrl"], "psrl never stops by itself: pass episodes=N (--episodes N)"),
        (["--agent", "psrl", "--unknown", "rewards"], "psrl needs known rewards"),
    ],
)
def test_learn_refuses_what_does_not_fit(
    capsys: pytest.CaptureFixture[str], asked: list[str], message: str
) -> None:
    assert message in fails(capsys, "learn", "chain:n=3", *asked)
