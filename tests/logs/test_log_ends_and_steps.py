"""Terminal states that are declared, and steps that are counted in hours."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import ucfh
from support.errors import refusal
from support.log_files import assumed, read
from ucfh import Problem, certify, read_log


def _patients(done: bool, times: int = 40) -> str:
    """Episodes of one to three steps that end in a state of their own."""
    out = []
    for k in range(times):
        last, state = k % 3, "ward"
        for t in range(last + 1):
            over = t == last
            after = ("died", "discharged alive")[k % 2] if over else "ward"
            out.append(f"{k},{t},{state},x,{int(over and k % 2)},{after},{int(over and done)}\n")
            state = after
    return "".join(out)


def test_declared_terminal_states_end_an_episode(tmp_path: Path) -> None:
    ends = ["died", "discharged alive"]
    said = refusal(read, _patients(done=False), tmp_path, accept_losses=False)
    assert "--terminal" in said
    log = read(_patients(done=False), tmp_path, terminal=ends, accept_losses=False)
    same = read(_patients(done=True), tmp_path, accept_losses=False)
    assert log.faults == same.faults == ()
    assert log.complete.all()
    one, other = certify(log), certify(same)
    assert (one.lower, one.upper, one.gap) == (other.lower, other.upper, other.gap)
    assert one.behavior == other.behavior


def test_terminal_states_that_the_log_contradicts(tmp_path: Path) -> None:
    assert "terminal" in refusal(read, _patients(False), tmp_path, terminal=["ward"])
    path = tmp_path / "derived.csv"
    path.write_text("episode,t,state,action,reward\n0,0,a,x,0\n0,1,b,x,0\n")
    assert "terminal" in refusal(read_log, path, terminal=["b"])
    problem = Problem(2, 1, 2, terminal=[1])
    assert "terminal" in refusal(read, _patients(False), tmp_path, problem, terminal=["a"])


def test_the_command_takes_terminal_states(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from support.command_line import run

    read(_patients(done=False), tmp_path)
    code, out, _ = run(
        capsys, "certify", str(tmp_path / "log.csv"), "--terminal", "died,discharged alive",
        "--check", "--remember",
    )  # fmt: skip
    assert code == 0
    assert "'died', 'discharged alive'" in out
    assert read_log(tmp_path / "log.csv").complete.all()  # as remembered


def test_steps_may_be_counted_in_hours(tmp_path: Path) -> None:
    rows = "{0},0,a,x,0.5,b,0\n{0},4,b,x,0.25,a,0\n{0},8,a,x,1,b,0\n"
    hours = "".join(rows.format(k) for k in range(60))
    log = read(hours, tmp_path, accept_losses=False)
    plain = read(hours.replace(",4,", ",1,").replace(",8,", ",2,"), tmp_path, accept_losses=False)
    assert (log.faults, log.horizon, log.counted) == ((), 3, 180)
    assert "by 4 from" in assumed(log)["step_unit"]
    assert certify(log).upper == certify(plain).upper
    # a step that is missing is still one
    broken = hours.replace("59,4,b,x,0.25,a,0\n", "")
    assert {x.kind for x in read(broken, tmp_path).faults} == {"t"}
    assert {x.kind for x in read(hours + "60,0,a,x,0,b,0\n60,6,b,x,0,b,0\n", tmp_path).faults} >= {
        "t"
    }


def _hours(episodes: int = 100) -> str:
    """Three steps, at hours 0, 4 and 8: in the only state, x pays 1 at hour 0 and nothing later."""
    return "".join(
        f"{k},{4 * t},s,{'x' if t == 0 or k % 2 else 'y'},{int(t == 0)},s,0\n"
        for k in range(episodes)
        for t in range(3)
    )


def test_segments_are_declared_in_hours(tmp_path: Path) -> None:
    """Index 4 in place of hour 4 would pool the rewards of hour 0 with later ones."""
    log = read(_hours(), tmp_path, segments=[4], accept_losses=False)
    plain = _hours().replace(",4,s", ",1,s").replace(",8,s", ",2,s")
    same = read(plain, tmp_path, segments=[1], accept_losses=False)
    assert log.times == range(0, 12, 4)
    assert same.times == range(3)
    one, other = certify(log, epsilon=0.5), certify(same, epsilon=0.5)
    assert (one.lower, one.upper, one.gap) == (other.lower, other.upper, other.gap)
    assert one.lower <= 1.0 <= one.upper
    for wrong in ([1], [3], [0], [12], [8, 4]):
        assert "from 4 to 8" in refusal(read, _hours(), tmp_path, segments=wrong)


def test_a_segment_of_more_steps_than_its_hours(tmp_path: Path) -> None:
    """With six steps, 4 is a step and an hour: it means the hour."""
    rows = "".join(
        f"{k},{4 * t},s,{'x' if t in (0, 4, 5) else 'y'},{int(t == 0)},s,0\n"
        for k in range(400)
        for t in range(6)
    )
    known = certify(read(rows, tmp_path, segments=[4], accept_losses=False), epsilon=0.5)
    assert known.lower <= 1.0  # the value of the best policy


def test_everything_about_a_log_in_hours_is_in_hours(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from support.command_line import fails, run

    read(_hours(), tmp_path)
    log, policy = str(tmp_path / "log.csv"), tmp_path / "policy"
    code, out, _ = run(capsys, "certify", log, "--check")
    assert code == 0
    shown = [line.split()[0] for line in out.splitlines() if line.split()[1:3] == ["s", "x"]]
    assert shown == [] or set(shown) <= {"0", "4", "8"}
    for ending in ("csv", "json"):
        path, page = f"{policy}.{ending}", str(tmp_path / "page.html")
        _, out, _ = run(
            capsys, "certify", log, "--time-dependent", "--epsilon=0.5", "--json", "--force",
            "--policy", path, "--html", page,
        )  # fmt: skip
        known = json.loads(out)
        assert (known["first_step"], known["step_length"]) == (0, 4)
        assert {row["t"] for row in known["policy"]} == {0, 4, 8}
        assert run(capsys, "act", path, "--state", "s", "--t", "8")[0] == 0
        assert "0, 4, ..., 8" in fails(capsys, "act", path, "--state", "s", "--t", "2")
        assert "0, 4, ..., 8" in fails(capsys, "act", path, "--state", "s", "--t", "12")
        assert ucfh.read_policy(path, Problem(1, 2, 3, state_names=["s"], action_names=["x", "y"]))[
            0
        ] == [0]
    lost = _hours().replace(",4,s,x,0,", ",4,s,x,?,")
    assert "t = 4" in refusal(read, lost, tmp_path, accept_losses=False)


def test_the_audit_names_hours(tmp_path: Path) -> None:
    """Its remedy can be passed on as it is."""
    rows = "".join(f"{k},{4 * t},s,x,{int(t == 2)},s,0\n" for k in range(400) for t in range(3))
    found = {x.name: x for x in certify(read(rows, tmp_path, accept_losses=False)).findings}
    assert "at t = 8" in str(found["step"])
    assert "segments=[8]" in found["step"].remedy


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"states": []}, "states"),
        ({"states": ["a", "a"]}, "state"),
        ({"actions": []}, "actions"),
        ({"actions": ["x", "x"]}, "action"),
        ({"horizon": 0}, "horizon"),
        ({"terminal": []}, "terminal"),
        ({"terminal": ["c", "c"]}, "terminal"),
        ({"max_return": 0.5}, "max_return"),
        ({"states": ["a", "z"]}, "states"),
        ({"actions": ["z"]}, "actions"),
    ],
)
def test_bad_declarations_are_named(tmp_path: Path, given: dict[str, object], name: str) -> None:
    rows = "".join(f"{k},0,a,x,1,b,0\n{k},1,b,x,0,c,1\n" for k in range(200))
    said = refusal(read, rows, tmp_path, accept_losses=False, **given)
    assert name in said


def test_a_declared_list_that_the_log_contradicts_names_it(tmp_path: Path) -> None:
    rows = "".join(f"{k},0,a,x,1,b,0\n{k},1,b,x,0,c,1\n" for k in range(200))
    said = refusal(read, rows, tmp_path, states=["a", "c"], accept_losses=False)
    assert "'b'" in said
    assert "states" in said
    assert ucfh.certify(read(rows, tmp_path, states=["a", "b", "c"])).upper <= 2


def _leaving(blank: bool = False) -> str:
    """Up to three steps that pay 1; every fifth episode stops after t = 1, without next_state."""
    out = []
    for k in range(200):
        last = 1 if k % 5 == 0 else 2
        for t in range(last + 1):
            stops = last == t == 1
            paid = "" if stops and blank else 1
            out.append(f"{k},{t},s,{'xy'[k % 2]},{paid},{'' if stops else 's'},0\n")
    return "".join(out)


@pytest.mark.parametrize("blank", [False, True])
@pytest.mark.parametrize("dropouts", ["outcome", "random", "lost"])
def test_who_leaves_at_a_shorter_horizon(dropouts: str, blank: bool, tmp_path: Path) -> None:
    """At the last step that counts, what follows does not matter; who leaves is no fault."""
    log = read(_leaving(blank), tmp_path, horizon=2, dropouts=dropouts, accept_losses=False)
    assert {x.kind for x in log.faults} <= {"long"}
    assert log.counted == (400 if dropouts == "outcome" else 360)
    known = certify(log, epsilon=0.5)
    assert not known.refuted
    value = 1.8 if blank and dropouts == "outcome" else 2.0
    assert known.lower <= value <= known.upper
    assert "40 of 200 episodes" in assumed(log)[f"dropouts_{dropouts}"]
    if not blank:
        assert log.complete.all()
        assert log.returns.tolist() == [2.0] * 200


def test_a_blank_next_state_has_one_remedy_that_helps(tmp_path: Path) -> None:
    def remedy(rows: str, **given: Any) -> str:
        said = refusal(read, rows, tmp_path, accept_losses=False, **given)
        assert said.count("Fix: ") == 1
        return said.partition("Fix: ")[2]

    assert "declared states" not in remedy(_leaving())
    assert "--dropouts" in remedy(_leaving())
    assert "--horizon" in remedy(_leaving(), dropouts="outcome")
    assert "--horizon" in remedy(_leaving(blank=True), dropouts="outcome")
    middle = "".join(f"{k},0,a,x,0,,0\n{k},1,b,x,0,b,0\n" for k in range(20))
    assert "next row" in remedy(middle)
    none = "".join(f"{k},0,,x,0,b,0\n" for k in range(20))
    assert "declared states" not in remedy(none)
    other = Problem(2, 1, 2, state_names=["a", "b"], action_names=["x"])
    unknown = "".join(f"{k},0,c,x,0,b,0\n{k},1,b,x,0,b,0\n" for k in range(20))
    said = refusal(read, unknown, tmp_path, other, accept_losses=False)
    assert "problem" in said.partition("Fix: ")[2]
    assert "declared states" in remedy(unknown, states=["a", "b"])


def test_a_terminal_state_that_never_occurs(tmp_path: Path) -> None:
    """It may be a typo, or nobody died: a note, and a state if it was declared."""
    rows = _patients(done=False).replace(",died,", ",discharged alive,")
    ends = ["died", "discharged alive"]
    log = read(rows, tmp_path, terminal=ends, accept_losses=False)
    same = read(rows, tmp_path, terminal=ends[1:], accept_losses=False)
    assert certify(log).gap == certify(same).gap
    assert any("'died'" in x for x in log.notes)
    assert not any("'died'" in x for x in same.notes)
    named = ["ward", *ends]
    declared = read(rows, tmp_path, terminal=ends, states=named, accept_losses=False)
    assert not any("'died'" in x for x in declared.notes)
    assert "'died'" in refusal(read, rows, tmp_path, terminal=ends, states=["ward", ends[1]])


def test_the_problem_says_what_is_declared_again(tmp_path: Path) -> None:
    problem = Problem(2, 1, 2, state_names=["a", "b"], action_names=["x"])
    said = refusal(read, "0,0,a,x,0,b,0\n", tmp_path, problem, max_return=1)
    assert said.startswith("max_return")
    assert "Fix: leave max_return out" in said


def test_hours_of_a_short_log(tmp_path: Path) -> None:
    """The note says when the column can be read as t."""
    path = tmp_path / "log.csv"
    rows = "".join(f"{k},{4 * t},s,x,0,s\n" for k in range(30) for t in range(3))
    path.write_text("episode,hour,state,action,reward,next_state\n" + rows)
    (note,) = [x for x in read_log(path).notes if "'hour'" in x]
    assert "0, 1, 2" in note
