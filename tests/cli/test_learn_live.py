"""``ucfh learn env:NAME`` and ``--unknown all``: what is printed, written and refused."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucfh
from support.command_line import fails, run
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.envs.policy import LearnedPolicy

Printed = pytest.CaptureFixture[str]
LAKE = "env:FrozenLake-v1,horizon=4"
KEYS = (
    "problem agent epsilon delta seed episodes phases mistakes bound value optimal gap upper lower "
    "certified final seconds version"
)
"""What `learn --json` has at least; see docs/howto/formats.md."""


def asked_json(capsys: Printed, *arguments: str) -> dict[str, Any]:
    """What a command prints with --json, and nothing else."""
    code, out, err = run(capsys, "learn", *arguments, "--json")
    assert (code, err) == (0, "")
    found: dict[str, Any] = json.loads(out)
    return found


# what is printed


def test_json(capsys: Printed) -> None:
    found = asked_json(capsys, LAKE, "--episodes", "60", "--max-return", "1", "--seed", "3")
    assert set(KEYS.split()) <= set(found)
    assert (found["problem"], found["agent"], found["seed"]) == (LAKE, "open-ucfh", 3)
    assert (found["episodes"], found["horizon"], found["actions"]) == (60, 4, 4)
    assert (found["epsilon"], found["delta"], found["rewards"]) == (0.1, 0.1, [0, 1])
    assert found["max_return"] == 1
    assert found["lower"] <= found["upper"] <= 1 + 1e-9
    assert found["gap"] is found["mistakes"] is found["bound"] is found["optimal"] is None
    assert found["gap_bound"] <= found["upper"] - found["lower"] + 1e-9
    assert (found["certified"], found["final"], found["interrupted"]) == (False, False, False)
    assert found["fault"] is found["contradiction"] is None
    assert found["version"] == ucfh.__version__
    again = asked_json(capsys, LAKE, "--episodes", "60", "--max-return", "1", "--seed", "3")
    for key in ("seconds", "planning_seconds"):
        del found[key], again[key]
    assert found == again


def test_the_same_from_python(capsys: Printed) -> None:
    found = asked_json(
        capsys, "env:Blackjack-v1,horizon=3", "--rewards=-1,1.5", "--epsilon", "2", "--delta",
        "0.2", "--segments", "1", "--episodes", "80", "--seed", "4",
    )  # fmt: skip
    same = ucfh.learn(
        "Blackjack-v1", 2, 0.2, horizon=3, rewards=(-1, 1.5), segments=[1], episodes=80, seed=4
    )
    known = same.certificate
    for name in ("upper", "lower", "epsilon", "delta", "episodes"):
        assert found[name] == getattr(known, name)
    assert (found["gap_bound"], found["assumed"]) == (known.gap, list(known.assumed))
    assert (found["states"], found["steps"]) == (len(same.states), same.steps)
    markov = "the next state and the reward depend on segment, state and action only"
    assert markov in found["assumed"]
    assert "rewards lie in [-1, 1.5]" in found["assumed"]


def test_a_person_is_told(capsys: Printed) -> None:
    code, out, err = run(
        capsys, "learn", "env:FrozenLake-v1,horizon=5", "--max-return", "1", "--epsilon", "0.5"
    )
    assert (code, err) == (0, "")
    lines = out.splitlines()
    assert lines[0].endswith("4 actions, 5 steps; rewards in [0, 1], at most 1 an episode")
    assert lines[1] == "       agent  open-ucfh, no other prior knowledge; epsilon 0.5, delta 0.1"
    assert lines[2].endswith(" (certified)")
    assert lines[3].startswith("         cut  ")
    assert "This policy earns at least 0.000 per episode; no policy earns more than " in lines[4]
    assert lines[5].endswith("of optimal (90% confidence).")
    assert "     assumed  the next state and the reward depend on state and action only" in lines
    assert "              no episode pays more than 1 in all" in lines
    assert lines[-1].startswith("        took  ")
    code, out, _ = run(capsys, "learn", LAKE, "--episodes", "20", "--segments", "every")
    assert "20 (the limit that was given; not certified)" in out
    assert "missing  the gap depends most on" in out
    assert "in state '0' at step 1 (" in out


def test_states_are_called_as_the_environment_shows_them(capsys: Printed) -> None:
    _, out, _ = run(
        capsys, "learn", "env:Blackjack-v1,horizon=2", "--rewards=-1,1", "--episodes", "300"
    )
    assert "rewards in [-1, 1]" in out
    assert "in state '(12, 4, 0)' (" in out


def test_data_that_contradict_what_was_declared(capsys: Printed) -> None:
    asked = ["chain:n=3,horizon=3", "--unknown", "all", "--max-return", "0.5", "--epsilon", "0.3"]
    code, out, err = run(capsys, "learn", *asked)
    assert code == 2
    assert "max_return = 0.5" in err
    assert "earns" not in out


def test_nothing_is_told_of_a_problem(capsys: Printed) -> None:
    found = asked_json(capsys, "chain:n=3,horizon=3", "--unknown", "all", "--epsilon", "0.3")
    assert (found["states"], found["certified"], found["final"]) == (3, True, True)
    mdp = ucfh.make("chain:n=3,horizon=3")
    assert found["lower"] <= mdp.value(mdp.optimal().policy) <= found["upper"]
    told = asked_json(capsys, "chain:n=3,horizon=3", "--epsilon", "0.3")
    assert told["episodes"] < found["episodes"]


def test_a_table_that_is_told_needs_no_episodes(capsys: Printed) -> None:
    code, out, err = run(capsys, "learn", "gym:CliffWalking-v1,horizon=20")
    assert (code, err) == (0, "")
    assert "    episodes  0 (certified)" in out
    assert "prior knowledge leaves no uncertainty" in out


def test_why_a_slippery_lake_needs_no_episodes(capsys: Printed) -> None:
    _, out, _ = run(capsys, "learn", "gym:FrozenLake-v1,horizon=4")
    assert "    episodes  0 (certified)" in out
    assert "certain (one successor)" not in out


# files


def test_all_files(capsys: Printed, tmp_path: Path) -> None:
    files = {"policy": "p.csv", "save": "s.npz", "log": "l.csv", "plot": "f.svg"}
    given = [x for key, name in files.items() for x in (f"--{key}", str(tmp_path / name))]
    code, out, err = run(capsys, "learn", LAKE, "--episodes", "30", *given)
    assert (code, err) == (0, "")
    for label, key in (("policy", "policy"), ("saved", "save"), ("log", "log"), ("figure", "plot")):
        assert f"{label:>12}  {tmp_path / files[key]}\n" in out
        assert (tmp_path / files[key]).stat().st_size > 100
    for key in files:  # nothing is overwritten
        path = str(tmp_path / files[key])
        said = fails(capsys, "learn", LAKE, "--episodes", "30", f"--{key}", path)
        assert said == f"ucfh: {path} exists: pass --force (force=True) to overwrite\n"
    code, out, _ = run(capsys, "learn", LAKE, "--episodes", "30", *given, "--force")
    assert code == 0
    log = ucfh.read_log(tmp_path / "l.csv", horizon=4)
    assert (log.episodes, log.faults) == (30, ())


def test_resumed(capsys: Printed, tmp_path: Path) -> None:
    a, b, log = (str(tmp_path / name) for name in ("a.npz", "b.npz", "l.csv"))
    run(capsys, "learn", LAKE, "--episodes", "30", "--save", a, "--log", log)
    found = asked_json(capsys, LAKE, "--episodes", "70", "--resume", a, "--save", b, "--log", log)
    assert found["episodes"] == 70
    assert ucfh.read_log(log, horizon=4).episodes == 70
    code, out, err = run(capsys, "learn", LAKE, "--episodes", "70", "--resume", b)
    assert (code, err) == (0, "")
    assert "    episodes  70 (the limit that was given; not certified)" in out


def test_a_refuted_declaration_leaves_the_log_alone(capsys: Printed, tmp_path: Path) -> None:
    files = {"policy": "p.csv", "save": "s.npz", "log": "l.csv", "plot": "f.svg"}
    given = [x for key, name in files.items() for x in (f"--{key}", str(tmp_path / name))]
    asked = ["learn", "env:Blackjack-v1,horizon=3", "--episodes", "200", *given]
    code, out, err = run(capsys, *asked, "--rewards=-1,0.5", "--json")
    assert code == 2
    assert err.startswith("ucfh: Blackjack-v1 returned reward 1 at step ")
    assert err.endswith("declare the range of rewards, rewards=(LOW, HIGH) or --rewards LOW,HIGH\n")
    found = json.loads(out)
    assert f"ucfh: {found['fault']}\n" == err
    assert found["episodes"] > 0
    assert found["contradiction"] == found["fault"]
    assert found["upper"] is found["lower"] is found["gap_bound"] is None
    assert [path.name for path in tmp_path.iterdir()] == ["l.csv"]


def test_no_bounds_are_printed_under_a_refuted_declaration(capsys: Printed) -> None:
    code, out, _ = run(capsys, "learn", "env:CliffWalking-v1,horizon=5")
    assert code == 2
    assert "earns" not in out
    assert "     refuted  CliffWalking-v1 returned reward -1 at step 0" in out


def test_ctrl_c_keeps_what_was_learned(
    capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save, left = str(tmp_path / "s.npz"), [20]
    plan = UnknownStatesUCFH.plan

    def late(self: UnknownStatesUCFH) -> None:
        left[0] -= 1
        if left[0] == 0:
            signal.raise_signal(signal.SIGINT)
        plan(self)

    monkeypatch.setattr(UnknownStatesUCFH, "plan", late)
    code, out, err = run(capsys, "learn", LAKE, "--save", save)
    assert code == 130
    said = f"interrupted; this is what was learned until then; continue with --resume {save}"
    assert err == f"ucfh: {said}\n"
    assert "    episodes  20 (interrupted)" in out
    assert Path(save).exists()


def test_a_policy_that_cannot_be_written_costs_no_other_file(
    capsys: Printed, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise ucfh.InputError("cannot write p.csv: No space left on device")

    monkeypatch.setattr(LearnedPolicy, "write", full)
    save, policy = str(tmp_path / "s.npz"), str(tmp_path / "p.csv")
    code, _, err = run(capsys, "learn", LAKE, "--episodes", "5", "--save", save, "--policy", policy)
    assert (code, err) == (2, "ucfh: cannot write p.csv: No space left on device\n")
    assert Path(save).exists()


# wrong turns


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("env:", "env needs its name first: write env:NAME"),
        (
            "env:FrozenLake",
            "unknown environment of gym 'FrozenLake': did you mean 'FrozenLake-v1'?",
        ),
        ("env:no_such:X-v0,horizon=4", "env: cannot import 'no_such' of 'no_such:X-v0'"),
        (
            "env:CliffWalking-v1",
            "CliffWalking-v1 has no step limit: pass horizon=H, such as 20",
        ),
        ("env:FrozenLake-v1,horizon=0", "horizon = 0 must be an integer of at least 1"),
        ("env:FrozenLake-v1,horizon=x", "env: horizon=x is not an integer: write one"),
        ("env:FrozenLake-v1,horizon", "is not of the form name=value: write them like horizon=20"),
        ("env:FrozenLake-v1,horizon=4,horizon=5", "horizon is given twice in 'FrozenLake-v1,"),
        ("env:FrozenLake-v1,slip=1,horizon=4", "unknown parameter of env:FrozenLake-v1 'slip'"),
        ("env:FrozenLake-v1,map_name=9x9,horizon=4", "Gymnasium cannot make FrozenLake-v1 with"),
        ("env:CartPole-v1", "holds real numbers: pass encode=f, where f(observation) is a number"),
        ("env:Pendulum-v1", "but actions must be Discrete: wrap the environment, a Box in gymnas"),
        (f"{LAKE} --rewards 1", "--rewards 1 must be two numbers, such as 0,1"),
        (f"{LAKE} --rewards a,b", "--rewards a,b must be two numbers, such as 0,1"),
        (f"{LAKE} --rewards 1,0", "rewards = (1.0, 0.0) must be the least and the largest reward"),
        (f"{LAKE} --rewards 0,inf", "rewards = (0.0, inf) must be the least and the largest"),
        (f"{LAKE} --max-return 0", "max_return = 0.0 must be more than 0, the least return of 4"),
        (f"{LAKE} --max-return nan", "max_return = nan must be more than "),
        (f"{LAKE} --segments x", "--segments x must be steps, such as 9 or 5,9, or the word every"),
        (f"{LAKE} --segments 4", "segments = [4] must be steps from 1 to 3, ascending"),
        (
            "env:FrozenLake-v1,horizon=1 --segments 1",
            "must be left out: an episode of one step has",
        ),
        (f"{LAKE} --epsilon 5", "epsilon = 5 is not below 4, the range of possible returns"),
        (f"{LAKE} --epsilon 0", "epsilon = 0.0 must be a number of at least 1e-12, such"),
        (f"{LAKE} --delta 0", "delta = 0.0 is outside (0, 1]: pass a number such as 0.1"),
        (f"{LAKE} --episodes 0", "episodes = 0 must be an integer of at least 1"),
        (f"{LAKE} --seed -1", "seed = -1 must be an integer of at least 0"),
        *(
            (f"{LAKE} {option}", f"{option.split()[0]} is not for an agent without prior knowledge")
            for option in (
                "--agent psrl",
                "--paper",
                "--variant corrected",
                "--confidence kl",
                "--schedule growth",
                "--step",
                "--encoding utf-8",
                "--accept-losses",
                "--unknown rewards",
            )
        ),
        (f"{LAKE} --save a.txt", "a.txt: unknown ending '.txt' (known: .npz)"),
        (f"{LAKE} --log a.parquet", "a.parquet: unknown ending '.parquet' (known: .csv)"),
        (f"{LAKE} --policy a.txt", "a.txt: unknown ending '.txt' (known: .csv, .json)"),
        (f"{LAKE} --save nowhere/a.npz", "cannot write nowhere/a.npz: the directory nowhere does"),
        (f"{LAKE} --policy a.csv --log a.csv", "a.csv is named twice: give every output its own"),
        (f"{LAKE} --resume a.npz", "a.npz does not exist: check the name"),
        ("chain:n=3 --unknown all --unknown rewards", "--unknown is not for an agent without"),
        ("chain:n=3 --unknown all --rewards 0,2", "an MDP has states, actions and rewards in [0,"),
        ("chain:n=3 --unknown all --masks", "leave encode, masks, settings and rewards out"),
        ("chain:n=3 --rewards 0,1", "--rewards is about env:NAME and --unknown all: leave it out"),
        ("chain:n=3 --max-return 1", "--max-return is about env:NAME and --unknown all: leave"),
        ("chain:n=3 --masks", "--segments and --masks are about env:NAME"),
    ],
)
def test_wrong_turns(capsys: Printed, given: str, message: str) -> None:
    assert message in fails(capsys, "learn", *given.split())


@pytest.mark.parametrize(
    ("given", "remedy"),
    [
        ("env:FrozenLake-v1:horizon=4", "write env:FrozenLake-v1,horizon=4"),
        ("env:CartPole-v1,horizon=4", "ucfh.learn"),  # no option has encode
        ("chain:n=3 --unknown All", ", or all"),
        ("chain:n=3 --unknown all --rewards 0,2", "--rewards"),
    ],
)
def test_remedies(capsys: Printed, given: str, remedy: str) -> None:
    assert remedy in fails(capsys, "learn", *given.split())


def test_yes_and_no_are_no_texts(capsys: Printed) -> None:
    """In Python, the text no would be true."""
    no, false, yes, true = (
        asked_json(capsys, f"{LAKE},is_slippery={word}", "--episodes", "300", "--seed", "1")
        for word in ("no", "false", "yes", "true")
    )
    for name in ("upper", "gap_bound", "steps"):
        assert (no[name], yes[name]) == (false[name], true[name])
    assert no["gap_bound"] != yes["gap_bound"]


def test_other_files_are_not_resumed(capsys: Printed, tmp_path: Path) -> None:
    a, told, other = (str(tmp_path / name) for name in ("a.npz", "told.npz", "other.npz"))
    run(capsys, "learn", LAKE, "--episodes", "5", "--save", a)
    run(capsys, "learn", "chain:n=3", "--episodes", "5", "--save", told)
    np.savez(other, a=np.zeros(3))
    for path in (told, other):
        said = fails(capsys, "learn", LAKE, "--resume", path)
        remedy = "not a file of `ucfh learn env:NAME --save`, or damaged: pass another file"
        assert said == f"ucfh: {path}: {remedy}\n"
    assert "not a saved run" in fails(capsys, "learn", "chain:n=3", "--resume", a)
    for given, message in (
        ("--delta 0.2", "its delta is 0.1, and now it is 0.2; pass the same, or another file"),
        ("--rewards=-1,1", "its rewards is [0.0, 1.0], and now it is [-1.0, 1.0]"),
        ("--max-return 1", "its max_return is None, and now it is 1.0"),
        ("--segments 2", "its segments is [], and now it is [2]"),
    ):
        assert message in fails(capsys, "learn", LAKE, "--resume", a, *given.split())
    longer = "env:FrozenLake-v1,horizon=5"
    assert "its horizon is 4, and now it is 5" in fails(capsys, "learn", longer, "--resume", a)
    assert "named twice" in fails(capsys, "learn", LAKE, "--resume", a, "--save", a)
