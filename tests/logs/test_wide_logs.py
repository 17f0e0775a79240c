"""Logs with a line for each episode, states of several columns, bins, and names that look alike."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from support.errors import refusal
from support.log_files import HEAD, TOLD, assumed
from ucfh import Log, read_log
from ucfh.logs import reading

WIDE = {"state": "mood_{t}", "action": "contact_{t}", "reward": "euros_{t}"}
EXAM = {"state": "mood_{t}", "action": "contact_{t}", "reward": "exam"}


def read(head: str, text: str, tmp_path: Path, **options: Any) -> Log:
    path = tmp_path / "log.csv"
    path.write_text(f"{head}\n{text}")
    return read_log(path, **{"accept_losses": True, **options})


def sample(log: Log) -> list[tuple[Any, ...]]:
    return list(log.understood.sample)


# wide


def test_a_line_is_an_episode(tmp_path: Path) -> None:
    head = "mood_1,contact_1,euros_1,mood_2,contact_2,euros_2"
    text = "cold,mail,0,warm,call,1\ncold,call,0.5,cold,mail,0\n"
    log = read(head, text, tmp_path, columns=WIDE, accept_losses=False)
    assert (log.horizon, log.times.start, log.rows, log.episodes, log.counted) == (2, 1, 4, 2, 4)
    assert sample(log) == [(1, "cold", "mail", 0, "warm"), (2, "warm", "call", 1, "(end)")]
    assert log.understood.t == "the numbers in the header, from 1 to 2"
    assert {"horizon", "reward_at_end"} & set(assumed(log)) == {"horizon"}
    assert log.returns is not None
    assert log.returns.tolist() == [1, 0.5]


def test_an_exam_is_paid_at_the_last_step_there_is(tmp_path: Path) -> None:
    head = "who,mood_0,contact_0,mood_1,contact_1,exam"
    log = read(head, "a,x,go,y,go,0.9\nb,x,go,,,0.2\nc,x,go,y,go,0\n", tmp_path,
               columns=EXAM | {"episode": "who"}, dropouts="outcome")  # fmt: skip
    assert log.faults == ()
    assert log.returns is not None
    assert log.returns.tolist() == [0.9, 0.2, 0]
    assert sample(log) == [(0, "x", "go", 0, "y"), (1, "y", "go", 0.9, "(end)")]
    blank = read(head, "a,x,go,y,go,0.9\nb,x,go,,,\nc,x,go,y,go,0\n", tmp_path,
                 columns=EXAM | {"episode": "who"}, dropouts="lost")  # fmt: skip
    assert blank.shown is not None
    assert blank.shown.experience.lost_unpaid.sum() == 1
    text = "a,x,go,y,go,\nb,x,go,y,go,1\n"
    said = refusal(read, head, text, tmp_path, columns=EXAM, strict=True)
    assert "line 2: at t = 1: its reward is missing" in said
    assert "--blank-reward 0 (blank_reward=0)" in said
    assert read(head, text, tmp_path, columns=EXAM, blank_reward=0).faults == ()


def test_parts_without_steps_are_of_all_steps(tmp_path: Path) -> None:
    log = read(
        "age,mood_0,did_0,mood_1,did_1,reward", "old,x,go,y,go,1\n", tmp_path,
        columns={"state": ["age", "mood_{t}"], "action": "did_{t}"},
    )  # fmt: skip
    assert [step[1] for step in sample(log)] == ["old|x", "old|y"]


def test_steps_with_zeros_in_front(tmp_path: Path) -> None:
    head = "mood_01,contact_01,euros_01,mood_02,contact_02,euros_02,mood_03"
    log = read(head, "a,x,0,b,x,1,c\n", tmp_path, columns=WIDE)
    assert [step[4] for step in sample(log)] == ["b", "c"]
    assert log.notes == ()


HOLES = [
    ("a,x,0,b,,,c,x,0", "line 2: contact_1 is blank"),
    ("a,x,0,b,,1,,,", "line 2: contact_1 is blank"),
    ("a,x,0,,,,c,,", "line 2: contact_1 is blank"),
    ("a,,,,,,,,", "line 2: it has no step"),
    (",,,,,,,,", "line 2: it has no step"),
    ("a,x,0,,x,0,,,", "line 2: at t = 1: its state is missing"),
    ("a,x,,b,x,0,c,x,0", "line 2: at t = 0: its reward is missing"),
    ("a,x,0", "line 2: it has 3 values, but line 1 names 9 columns"),
]


@pytest.mark.parametrize(("line", "told"), HOLES)
def test_holes(line: str, told: str, tmp_path: Path) -> None:
    head = ",".join(f"mood_{t},contact_{t},euros_{t}" for t in range(3))
    good = "a,x,0,b,x,0,c,x,0\n"
    log = read(head, f"{line}\n{good}", tmp_path, columns=WIDE, dropouts="random")
    (fault,) = log.faults
    assert told in fault.first
    assert told in refusal(read, head, f"{line}\n{good}", tmp_path, columns=WIDE, strict=True)
    assert log.episodes == 2


def test_ids_of_lines(tmp_path: Path) -> None:
    head = "episode,mood_0,contact_0,euros_0"
    log = read(head, "1,a,x,0\n1,a,x,0\n,a,x,0\n2,a,x,0\n1,a,x,0\n", tmp_path, columns=WIDE)
    assert [(fault.kind, fault.lines) for fault in log.faults] == [
        ("line", (3, 4)),
        ("repeat", (6,)),
    ]
    assert (log.episodes, log.counted) == (5, 2)


@pytest.mark.parametrize(
    ("head", "columns", "told"),
    [
        ("mood_0,act,r", {"action": "act"}, "state has {t}, but action has not ('act')"),
        ("mood,act_0,r", {"state": "mood"}, "action has {t}, but state has not ('mood')"),
        ("mood_0,act_0,r_0", {"episode": "id_{t}"}, "'id_{t}' is of all steps: leave {t} out"),
        ("mood_0,act_0,r_0", {"t": "day"}, "names with {t} say the step: leave t out"),
        ("mood_0,r_0", {}, "unknown column 'act_0' (known: mood_0, r_0)"),
        ("mood_0,act_0,r_0,act_2", {}, "there is 'act_2', but no 'mood_1': every step needs"),
        ("mood_0,act_0,r_0,act_1,r_1", {}, "there is 'act_1', but no 'mood_1': every step needs"),
        ("mood_0,act_0,r_0,mood_2", {}, "there is 'mood_2', but no 'act_2'"),
        ("mood_0,act_0,r_0,r_1", {}, "there is 'r_1', but no 'act_1'"),
        ("mood_0,act_0,act_00,r_0", {}, "'act_0' and 'act_00' are both step 0: rename one"),
        ("mood_0,act_0,r_0,r_0", {}, "the column 'r_0' appears twice"),
        ("mood_0,act_0", {"reward": "exam"}, "no column is called 'exam'"),
    ],
)
def test_heads_that_do_not_fit(
    head: str, columns: dict[str, str], told: str, tmp_path: Path
) -> None:
    usual = {"state": "mood_{t}", "action": "act_{t}", "reward": "r_{t}"}
    assert told in refusal(read, head, "", tmp_path, columns=usual | columns)


def test_json_lines_that_show_a_step_late(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = '{"mood_0": "a", "contact_0": "x", "euros_0": 0%s}\n'
    path.write_text(row % "" + row % ', "contact_1": "x"')
    said = refusal(read_log, path, columns=WIDE)
    assert "line 2 has the key 'contact_1', which the first object lacks: write it there" in said
    plain = '{"episode": %d, "t": 0, "state": 1, "action": 1, "reward": 0%s}\n'
    path.write_text(plain % (1, "") + plain % (2, ', "next_state": 1'))
    assert "line 2 has the key 'next_state'" in refusal(read_log, path)
    path.write_text(plain % (1, "") + plain % (2, ', "done": true, "note": 3'))
    assert read_log(path).counted == 2


# several columns


LONG = "episode,t,level,mood,action,reward\n"


def test_states_of_several_columns(tmp_path: Path) -> None:
    columns = {"state": ["level", "mood"]}
    log = read(LONG[:-1], "1,0,3.0,so ,x,0\n1,1,4,so,x,0\n", tmp_path, columns=columns)
    assert [step[1] for step in sample(log)] == ["3|so", "4|so"]
    assert log.understood.columns["state"] == "level + mood"
    log = read(LONG[:-1], "1,0,3,a|b,x,0\n2,0,3,,x,0\n3,0,3,so,x,0\n", tmp_path, columns=columns)
    (fault,) = log.faults
    assert (fault.kind, fault.count, fault.lines) == ("state", 2, (2, 3))
    assert fault.example == "mood 'a|b' contains '|', which joins parts of a state"
    text = "1,0,3,,x,0\n"
    said = refusal(read, LONG[:-1], text, tmp_path, columns=columns, strict=True)
    assert "line 2: its mood is missing" in said


def test_a_next_state_of_other_parts(tmp_path: Path) -> None:
    head = "episode,t,level,mood,action,reward,next_state"
    log = read(head, "1,0,3,so,x,0,?\n", tmp_path, columns={"state": ["level", "mood"]})
    assert (
        log.notes[0] == "the column 'next_state' is not read: next_state is taken from the next row"
    )
    both = {"state": ["level", "mood"], "next_state": "level"}
    assert "state has 2 parts and next_state 1: name as many" in refusal(
        read, head, "", tmp_path, columns=both
    )


def test_too_many_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "MOST_STATES", 50)
    text = "".join(f"{e},0,{e % 3},u{e},x,0\n" for e in range(60))
    said = refusal(read, LONG[:-1], text, tmp_path, columns={"state": ["level", "mood"]})
    assert "the log shows more than 50 states: 'mood' alone has 60 values" in said
    assert "leave it out of the state, or cut it into bins" in said
    monkeypatch.setattr(reading, "MOST_STATES", 10**6)
    monkeypatch.setattr(reading, "MOST_COMBINATIONS", 100)
    said = refusal(read, LONG[:-1], text, tmp_path, columns={"state": ["level", "mood"]})
    assert "the parts of the state make 180 combinations: 'mood' alone has 60 values" in said
    fine = {"columns": {"state": ["level", "mood"]}, "bins": {"mood": [1]}}
    assert (
        "not a number"
        in read(LONG[:-1], text, tmp_path, **fine, states=["a"], horizon=1).faults[0].example
    )
    cuts = {name: list(range(20)) for name in ("level", "mood")}
    said = refusal(read, LONG[:-1], "1,0,3,4,x,0\n", tmp_path, **(fine | {"bins": cuts}))
    assert "the parts of the state make 441 combinations: 'level' alone has 21 values" in said
    monkeypatch.setattr(reading, "MOST_STATES", 50)
    said = refusal(read, LONG[:-1], text, tmp_path, columns={"state": "mood"})
    assert "more than 50 states: group them into fewer, or cut 'mood' into bins" in said


def test_one_column_for_two_things(tmp_path: Path) -> None:
    columns = {"state": "mood", "action": "mood"}
    said = refusal(read, LONG[:-1], "", tmp_path, columns=columns)
    assert "columns: 'mood' is both state and action: name another one" in said


def test_columns_that_are_probably_meant(tmp_path: Path) -> None:
    for name, column in (("Next State", "next_state"), ("T", "t"), ("Done", "done")):
        head = HEAD.strip().replace(f",{column}", f",{name}")
        said = refusal(read, head, "", tmp_path)
        assert f"is the column {name!r} the {column}? If so, pass --columns " in said


def test_optional_columns_are_asked_for_at_once(tmp_path: Path) -> None:
    head = HEAD.strip().replace(",t", ",T").replace(",next_state", ",Next")
    columns = {"next_state": "Next"}
    assert "is the column 'T' the t? If so" in refusal(read, head, "", tmp_path, columns=columns)
    head = HEAD.strip().replace(",t", ",T").replace(",done", ",DONE")
    asked = "is the column 'T' the t and 'DONE' the done? If so, pass --columns t=T --columns done"
    assert asked in refusal(read, head, "", tmp_path)


def test_a_column_that_may_be_the_step(tmp_path: Path) -> None:
    def notes(name: str, **settings: Any) -> str:
        head = f"episode,{name},state,action,reward,next_state"
        log = read(head, "1,0,a,x,0,b\n1,1,b,x,0,a\n", tmp_path, **settings)
        assert log.counted == 2
        return " ".join(log.notes)

    said = notes("Step no.")
    assert "the column 'Step no.' is not read" in said
    assert """--columns 't=Step no.' (columns={"t": "Step no."})""" in said
    for name in ("week", "time_step", "Date"):
        assert f"pass --columns t={name} " in notes(name)
        assert notes(name, columns={"t": name}) == ""
    assert notes("t") == notes("footstep") == notes("price") == ""


# bins


def test_bins(tmp_path: Path) -> None:
    columns = {"state": ["level", "mood"]}
    cut = {"level": [40, 70.5]}
    text = "1,0,39.9,a,x,0\n1,1,40,a,x,0\n1,2,70.5,a,x,0\n"
    log = read(LONG[:-1], text, tmp_path, columns=columns, bins=cut)
    labels = ["level<40|a", "40<=level<70.5|a", "level>=70.5|a"]
    assert [step[1] for step in sample(log)] == labels
    comma = "1;0;39,9;a;x;0,5\n1;1;40;a;x;0\n1;2;70,5;a;x;0\n"
    other = read(
        LONG[:-1].replace(",", ";"), comma, tmp_path, columns=columns, bins=cut, decimal=","
    )
    assert [step[1] for step in sample(other)] == labels
    assert sample(other)[0][3] == 0.5


def test_bins_over_text(tmp_path: Path) -> None:
    text = "1,0,3,low,x,0\n2,0,3,inf,x,0\n3,0,3,,x,0\n4,0,3,5,x,0\n"
    for column in ("mood", ["level", "mood"]):
        log = read(LONG[:-1], text, tmp_path, columns={"state": column}, bins={"mood": [1]})
        (fault,) = log.faults
        assert (fault.kind, fault.count) == ("state", 3)
        assert "mood 'low' is not a number" in fault.example
    said = refusal(read, LONG[:-1], text, tmp_path, columns={"state": "mood"}, bins={"mood": [1]},
                   accept_losses=False)  # fmt: skip
    assert "line 2: mood 'low' is not a number" in said


def test_wrong_bins(tmp_path: Path) -> None:
    columns = {"state": "mood"}
    for bins, told in (
        ({"level": [1]}, "unknown column of the state 'level' (known: mood)"),
        ({"mood": [2, 1]}, "bins['mood'] = [2, 1] must be numbers, ascending"),
        ({"mood": []}, "bins['mood'] = [] must be numbers, ascending"),
        ({"mood": "40"}, "bins['mood'] = '40' must be numbers, ascending"),
        ({"mood": {"quantiles": 4}}, 'must be {"quantiles": 4, "episodes": 500}'),
        (
            {"mood": {"quantiles": 1, "episodes": 5}},
            "bins['mood']['quantiles'] = 1 must be an integer",
        ),
        ({"mood": {"quantiles": 2, "episodes": 5}}, "it has 1 episodes, so the first 5 cannot be"),
        ([1], "bins = [1] must be edges by column"),
    ):
        assert told in refusal(
            read, LONG[:-1], "1,0,3,4,x,0\n", tmp_path, columns=columns, bins=bins
        )
    text = "".join(f"{e},0,3,4,x,0\n" for e in range(9))
    cut = {"mood": {"quantiles": 2, "episodes": 5}}
    said = refusal(read, LONG[:-1], text, tmp_path, columns=columns, bins=cut)
    assert "'mood' has no two different numbers in the first 5 episodes" in said


def test_what_only_the_first_part_shows_is_known(tmp_path: Path) -> None:
    """Actions, and the horizon: one too few would make it another task."""
    text = "1,0,3,1,x,0\n1,1,3,2,y,0\n2,0,3,5,x,0\n3,0,3,6,x,0\n3,1,3,6,x,0\n"
    cut = {"mood": {"quantiles": 2, "episodes": 1}}
    log = read(LONG[:-1], text, tmp_path, columns={"state": "mood"}, bins=cut, dropouts="random")
    assert (log.horizon, log.actions.names, log.episodes) == (2, ("x", "y"), 3)
    assert log.returns is not None
    assert len(log.returns) == 2
    assert log.audit.episodes == 2
    assert "bins" in assumed(log)


# names


def test_names_that_differ_in_case(tmp_path: Path) -> None:
    text = "1,0,Home,go,0,new  york,\n1,1,New York, GO ,0,home,\n"
    log = read(HEAD.strip(), text, tmp_path)
    assert [fault.kind for fault in log.faults] == ["mismatch"]
    assert "different ones: 'New York' and 'new  york', 'Home' and 'home'; if" in log.notes[0]
    assert log.notes[0].endswith("pass --ignore-case (ignore_case=True)")
    assert "'go' and 'GO'" in log.notes[1]
    log = read(HEAD.strip(), text, tmp_path, ignore_case=True)
    assert log.faults == ()
    assert log.notes == ()
    assert (log.states.names, log.actions.names) == (("Home", "New York"), ("go",))


def test_declared_names_in_any_case(tmp_path: Path) -> None:
    text = "0,0,A,X,0.5,B,\n0,1,b,x,1,b,\n"
    log = read(HEAD.strip(), text, tmp_path, problem=TOLD, ignore_case=True)
    assert (log.faults, log.counted) == ((), 2)
    assert read(HEAD.strip(), text, tmp_path, problem=TOLD).counted == 0
    said = refusal(read, HEAD.strip(), text, tmp_path, states=["a", "A", "b"], ignore_case=True)
    assert "'A' and 'a' differ only in case or blanks" in said
