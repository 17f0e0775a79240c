"""Logs that lost their point: refused, with what was lost; and what a log says of its ends."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from support.command_line import fails, run
from support.errors import refusal
from support.log_files import HEAD, TOLD, assumed, write
from ucfh import certify, make, read_log
from ucfh.logs import csv_rows
from ucfh.logs.missing_data import MissingCounts
from ucfh.logs.synthetic import write_log


def exam_log(path: Path, scale: float, episodes: int = 3000) -> Path:
    """Three days of practice, which pay nothing, and an exam that pays .2 or .9 times the scale."""
    rng = np.random.default_rng(0)
    out = [HEAD]
    for e in range(episodes):
        s = "new"
        for t in range(3):
            a = ("read", "solve")[rng.integers(2)]
            then = "knows" if s == "knows" or (a == "solve" and rng.random() < 0.4) else "new"
            out.append(f"{e},{t},{s},{a},0,{then},0\n")
            s = then
        out.append(f"{e},3,{s},exam,{(0.9 if s == 'knows' else 0.2) * scale:g},end,1\n")
    path.write_text("".join(out))
    return path


def test_an_exam_in_points_is_refused(tmp_path: Path) -> None:
    """Without its exam rows the log shows another task, three steps long, that pays nothing."""
    path = exam_log(tmp_path / "exam.csv", scale=100)
    said = refusal(read_log, path)
    assert said.startswith(
        f"{path}: 3000 of 12000 rows are lost, among them all with t = 3: line 5"
    )
    assert "reward '90'" in said
    assert "declare the smallest and the largest possible one" in said
    assert "this contradicts that rewards are in [0, 1]. Fix: " in said


def test_a_loss_that_was_asked_for_is_an_assumption(tmp_path: Path) -> None:
    log = read_log(exam_log(tmp_path / "exam.csv", scale=100), accept_losses=True)
    assert log.problem.horizon == 4  # from every row that can be read
    assert "3000 of 12000 rows are lost, among them all with t = 3)" in assumed(log)["issues"]


def test_the_exam_in_its_range_is_judged(tmp_path: Path) -> None:
    path = exam_log(tmp_path / "exam.csv", scale=1)
    log = read_log(path)
    assert not log.faults
    assert log.problem.horizon == 4
    assert certify(log, delta=0.1).upper < certify(log, delta=0.01).upper <= 4


def test_refused_on_the_command_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = str(exam_log(tmp_path / "exam.csv", scale=100, episodes=50))
    assert "50 of 200 rows are lost, among them all with t = 3" in fails(capsys, "certify", path)
    code, out, _ = run(capsys, "certify", path, "--accept-losses")
    assert code == 3
    assert "4 steps" in out
    assert "50 of 200 rows are lost" in out


def walk(episodes: int, bad: dict[int, str]) -> str:
    """Rows of two steps, x in a and then y in b; ``bad`` rewards by line."""
    out = [
        f"{e},{t},{s},{a},0,b,\n"
        for e in range(episodes)
        for t, s, a in ((0, "a", "x"), (1, "b", "y"))
    ]
    for line, reward in bad.items():
        e, t, s, a, _, rest = out[line - 2].split(",", 5)
        out[line - 2] = ",".join([e, t, s, a, reward, rest])
    return HEAD + "".join(out)


@pytest.mark.parametrize(("lost", "refused"), [(5, False), (6, True)])
def test_a_few_in_a_thousand(lost: int, refused: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(walk(500, {3 + 2 * i: "?" for i in range(lost)}))
    if refused:
        said = refusal(read_log, path)
        assert f"{lost} of 1000 rows are lost, in 6 of 500 episodes: line 3: reward '?'" in said
    else:
        log = read_log(path)
        assert log.counted == 1000 - lost
        assert "(reward; 5 of 1000" in assumed(log)["issues"]


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("z,0,a,x,0,b,\nz,1,b,rare,?,b,\n", "all with action 'rare'"),
        ("z,0,rare,x,?,b,\nz,1,b,y,0,b,\n", "all with state 'rare'"),
        ("z,0,a,x,0,b,\nz,1,b,y,0,b,\nz,2,b,y,?,b,\n", "all with t = 2"),
    ],
)
def test_all_of_something_is_never_few(row: str, told: str, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(walk(2000, {}) + row)
    assert told in refusal(read_log, path)


def test_what_follows_a_lost_row_is_lost_with_it(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        HEAD
        + "".join(
            f"{e},{t},a,x,{'?' if e and t == 0 else 0},a,\n" for e in range(4) for t in range(3)
        )
    )
    assert "9 of 12 rows are lost" in refusal(read_log, path)


def test_what_is_left_out_before_its_outcome_is_not_lost(tmp_path: Path) -> None:
    """Steps after the horizon, and a last line that was cut."""
    path = tmp_path / "log.csv"
    text = "".join(f"{e},{t},a,x,0,a,\n" for e in range(20) for t in range(3))
    path.write_text(HEAD + text + "20,0,a,x,0")
    log = read_log(path, states=["a"], actions=["x"], horizon=2)
    assert {fault.kind for fault in log.faults} == {"long", "cut"}
    assert log.counted == 40


def test_actions_named_after_their_outcome(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Left out as unknown, they leave the good outcomes of x behind."""
    path = tmp_path / "log.csv"
    rows = (("s", "ERR" if e % 3 else "x", 0 if e % 3 else 1, "s", 0) for e in range(300))
    write_rows(path, [[row] for row in rows])
    said = refusal(read_log, path, actions=["x", "y"])
    assert "200 of 300 rows are lost" in said
    assert "action 'ERR' is not one of the 2 actions" in said
    assert "200 of 300 rows are lost" in fails(capsys, "certify", str(path), "--actions", "x,y")


def test_losses_by_hand() -> None:
    losses = MissingCounts()
    losses.add(np.array([False, True]), np.array([0, 1]), np.array([2, -1]), np.array([0, 0]))

    def nobody(s: int, a: int) -> int:
        raise AssertionError((s, a))

    assert (losses.rows, losses.missing, losses.are_few(nobody)) == (2, 1, False)
    assert losses.worst_part(nobody) == ("step", (1,), 1, 1)
    losses.add(np.zeros(998, bool), np.ones(998, int), np.zeros(998, int), np.zeros(998, int))
    assert losses.worst_part(nobody) is None
    assert losses.are_few(nobody)
    losses.episodes, losses.incomplete = 1000, 11
    assert not losses.are_few(nobody)
    losses.incomplete = 10
    assert losses.are_few(nobody)


@pytest.mark.parametrize(
    ("gone", "counted", "many"), [(5, 5, False), (6, 114, False), (6, 113, True), (6, 0, False)]
)
def test_losses_of_a_pair(gone: int, counted: int, many: bool) -> None:
    """More than five, and than one in twenty; a pair that is not counted at all says nothing."""
    losses = MissingCounts()
    pair = np.full(gone, 3), np.full(gone, 1)
    losses.add(np.ones(gone, bool), np.full(gone, -1), *pair)
    losses.add(np.zeros(10**4, bool), np.full(10**4, -1), *np.repeat([[3], [1]], 10**4, axis=1))
    found = losses.worst_part(lambda s, a: counted if (s, a) == (3, 1) else 0)
    assert found == (("pair", (3, 1), gone, gone + counted) if many else None)


def write_rows(path: Path, episodes: Any) -> Path:
    """A log of (state, action, reward, next_state, done)."""
    rows = (
        f"{e},{t},{s},{a},{r},{then},{done}\n"
        for e, steps in enumerate(episodes)
        for t, (s, a, r, then, done) in enumerate(steps)
    )
    path.write_text(HEAD + "".join(rows))
    return path


def test_one_row_in_250_may_be_what_the_log_is_about(tmp_path: Path) -> None:
    """The last of 250 steps pays 0 or, in points, 90: half of episodes lose a row in 250."""
    wait = [("a", "x", 0, "a", 0)] * 249
    episodes = [[*wait, ("a", "x", "?" if e % 2 else 0, "a", 0)] for e in range(40)]
    said = refusal(read_log, write_rows(tmp_path / "log.csv", episodes))
    assert "20 of 10000 rows are lost, among them 20 of the 40 with t = 249" in said


def test_half_of_a_rare_action(tmp_path: Path) -> None:
    steps = [
        ("s", "b" if e % 100 == 0 else "a", "?" if e % 200 == 0 else 0, "s", 0) for e in range(4000)
    ]
    said = refusal(read_log, write_rows(tmp_path / "log.csv", [[step] for step in steps]))
    assert "20 of 4000 rows are lost, among them 20 of the 40 with action 'b'" in said


def test_a_last_step_that_is_no_number(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    last = "{0},final,a,x,1,a,\n"
    steps = "".join(f"{{0}},{t},a,x,0,a,\n" for t in range(239)) + last
    path.write_text(HEAD + "".join(steps.format(e) for e in range(5)))
    assert "5 of 1200 rows are lost, in 5 of 5 episodes: line 241: t 'final'" in refusal(
        read_log, path
    )


def test_episodes_without_their_end(tmp_path: Path) -> None:
    """The last row is missing whenever it would pay, or a state is done and goes on elsewhere."""
    path = tmp_path / "log.csv"
    short = [[("a", "x", 0, "a", 0)] * (1 + e % 2) for e in range(200)]
    said = refusal(read_log, write_rows(path, short))
    assert "100 of 200 episodes are not logged to their end" in said
    done = [[("a", "x", 0, "a", e % 2), ("a", "x", 0, "a", 0)][: 2 - e % 2] for e in range(200)]
    said = refusal(read_log, write_rows(path, done))
    assert "give the end its own next_state" in said


def test_what_a_problem_excludes_refutes_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """One row in a thousand: it is left out because of its outcome, or the problem is another."""
    good = [[("a", "x", 0, "b", 0), ("b", "x", 0, "b", 0)]] * 1000
    path = write_rows(tmp_path / "log.csv", [*good, [("a", "y", 0, "b", 0)]])
    said = refusal(read_log, path, TOLD)
    assert "1 of 2001 rows are lost" in said
    assert "line 2002: next_state 'b' cannot follow" in said
    assert "this contradicts the problem. Fix: " in said
    assert read_log(path, TOLD, accept_losses=True).counted == 2000
    path = write_rows(tmp_path / "log.csv", [*good, [("b", "x", 0, "b", 0)]])
    assert "line 2002: state 'b' is not one in which" in refusal(read_log, path, TOLD)
    mdp = make("chain:n=3,horizon=2")
    write_log(mdp, tmp_path / "chain.csv", episodes=400)
    with open(tmp_path / "chain.csv", "a") as file:
        file.write("far,0,0,right,0,2,false\nfar,1,2,right,0,2,false\n")
    asked = ["learn", "chain:n=3,horizon=2", "--log", str(tmp_path / "chain.csv")]
    assert "this contradicts the problem" in fails(capsys, *asked)
    code, _, err = run(capsys, *asked, "--accept-losses")
    assert code == 2
    assert "and the model disagree" in err


# -- the horizon, and t ---------------------------------------------------------------------------


def test_the_horizon_is_that_of_every_row(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(walk(1000, {}) + "z,0,a,x,0,b,\nz,1,b,y,7,b,\nz,2,b,y,0,b,\n")
    assert read_log(path, accept_losses=True).problem.horizon == 3


@pytest.mark.parametrize("segments", [False, True])
@pytest.mark.parametrize(
    "wild", ["z,999999999,a,x,0,b,\n", "z,0,a,x,0,b,\nz,999999998,b,y,0,b,\nz,999999999,b,y,0,b,\n"]
)
def test_one_wild_t_is_one_fault(wild: str, segments: bool, tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(walk(1000, {}) + wild)
    log = read_log(path, time_dependent=segments)
    assert log.problem.horizon == 2
    assert [(fault.kind, fault.count) for fault in log.faults] == [("t", 1)]
    assert log.counted == 2000 + (wild.count("\n") > 1)


# -- ends -----------------------------------------------------------------------------------------


def test_an_end_that_the_log_goes_on_from_is_none(tmp_path: Path) -> None:
    """The row that goes on is not counted: its action was not declared, or it is too late."""
    early = "0,0,a,x,0,b,1\n"
    for more, options in (
        ("1,0,a,x,0,b,0\n1,1,b,y,0,a,0\n", {"actions": ["x"], "horizon": 2}),
        ("1,0,a,x,0,a,0\n1,1,a,x,0,b,0\n1,2,b,x,0,a,0\n", {"horizon": 2}),
    ):
        path = tmp_path / "log.csv"
        path.write_text(HEAD + early + more)
        refusal(read_log, path, **options)
        log = read_log(path, **options, accept_losses=True)
        assert log.problem.terminal == ()
        assert "done" in {fault.kind for fault in log.faults}


def test_an_end_reached_at_the_horizon_alone_is_one(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "".join(f"{e},0,a,x,0,a,0\n{e},1,a,exam,1,end,1\n" for e in range(500)))
    log = read_log(path)
    assert log.problem.terminal == (1,)
    assert assumed(log)["terminal"].endswith(": 'end'")
    # the exam pays 1 at most once: with an end that might pay, the bound would be 2
    assert certify(log, delta=0.1).upper < 1.7


def test_an_end_because_time_is_up_is_none(tmp_path: Path) -> None:
    """Usual in exports: the last next_state is "end", whatever would have followed."""
    mdp, path = make("chain:n=4"), tmp_path / "log.csv"
    write_log(mdp, path, episodes=3000)
    rows = [line.split(",") for line in path.read_text().splitlines()]
    for row in rows[1:]:
        if row[1] == "3":
            row[5:] = ["end", "true"]
    path.write_text("".join(",".join(row) + "\n" for row in rows))
    log, best = read_log(path), mdp.at_start(mdp.optimal().values)
    assert log.problem.terminal == ()
    known = certify(log, delta=0.1)
    assert known.lower <= best <= known.upper


def test_a_state_in_which_some_are_not_done_at_the_horizon_is_no_end(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "".join(f"{e},0,a,x,0,a,0\n{e},1,a,x,1,b,{e % 2}\n" for e in range(6)))
    assert read_log(path).problem.terminal == ()


def test_done_that_means_that_time_is_up_makes_no_end(tmp_path: Path) -> None:
    """At the horizon every row is done, also in states that go on elsewhere: b may pay later."""
    to_a = [("a", "x", 0, "a", 0), ("a", "x", 0, "a", 1)]
    to_b = [("a", "x", 0, "a", 0), ("a", "y", 0, "b", 1)]
    log = read_log(write_rows(tmp_path / "log.csv", [to_a, to_b]))
    assert log.problem.terminal == ()
    log = read_log(write_rows(tmp_path / "log.csv", [to_b, to_b]))
    assert log.problem.terminal == (1,)


# -- text that is not UTF-8 -----------------------------------------------------------------------


def latin(path: Path, encoding: str) -> Path:
    text = "".join(f"{e},0,{'né' if e % 2 else 'a'},x,0,é,\n" for e in range(200))
    path.write_bytes((HEAD + "q,0,a,x,0,a,\n" + text).encode(encoding))
    return path


@pytest.mark.parametrize(
    ("encoding", "line", "likely"),
    [
        ("latin-1", 3, "cp1252"),
        ("cp1252", 3, "cp1252"),
        ("utf-16", 1, "utf-16"),
        ("utf-16-le", 1, "utf-16-le"),
        ("utf-16-be", 1, "utf-16-be"),
        ("utf-32", 1, "utf-32"),
        ("utf-32-le", 1, "utf-32-le"),
    ],
)
def test_other_encodings_are_refused(encoding: str, line: int, likely: str, tmp_path: Path) -> None:
    path = latin(tmp_path / "log.csv", encoding)
    said = refusal(read_log, path)
    assert said.startswith(f"{path}: line {line} is not UTF-8, but perhaps {likely}")
    assert f"--encoding {likely}" in said


@pytest.mark.parametrize("chunk", [16, 2**16])
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-8", "utf-8-sig"])
def test_a_declared_encoding_is_read(
    encoding: str, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(csv_rows, "CHUNK", chunk)
    log = read_log(latin(tmp_path / "log.csv", encoding), encoding=encoding)
    assert log.problem.state_names == ("a", "né", "é")
    assert log.counted == 201


def test_wrong_encodings(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    path = latin(tmp_path / "log.csv", "latin-1")
    for name in ("nosuch", "hex", "", "é"):
        assert f"unknown encoding {name!r}" in refusal(read_log, path, encoding=name)
    for name in ("utf-16", "shift_jis"):
        assert f"is not {name}: pass the encoding" in refusal(read_log, path, encoding=name)
    assert "line 3 is not UTF-8" in fails(capsys, "certify", str(path))
    code, _, _ = run(capsys, "certify", str(path), "--encoding", "latin-1")
    assert code == 0  # one action, and nothing to earn
    table = write([], tmp_path / "log.parquet")
    assert "leave the encoding out" in refusal(read_log, table, encoding="latin-1")


def test_json_lines_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = '{"episode": %d, "t": 0, "state": "é", "action": 0, "reward": 0, "next_state": "é"}\n'
    path.write_bytes((row % 1).encode() + (row % 2).encode("latin-1"))
    assert "line 2 is not UTF-8, but perhaps cp1252" in refusal(read_log, path)
    path.write_bytes((row % 1).encode("latin-1") + (row % 2).encode("latin-1"))
    assert read_log(path, encoding="latin-1").problem.state_names == ("é",)
    path.write_bytes((row % 1).encode() + (row % 2).encode()[:30])  # cut within a letter
    assert [fault.kind for fault in read_log(path).faults] == ["cut"]


def test_a_log_for_a_problem_is_refused_too(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "0,0,a,x,0,b,\n0,1,b,x,9,b,\n")
    assert "1 of 2 rows are lost" in refusal(read_log, path, TOLD)


def test_names_or_numbers_declare(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "0,0,0,1,0,1,\n")
    for states in (3, np.int64(3), ["0", "1", "2"], np.array(["0", "1", "2"]), map(str, range(3))):
        assert read_log(path, states=states, actions=np.int32(2)).problem.states == 3
    for wrong in ("0,1,2", 2.5, True, 0):
        assert refusal(read_log, path, states=wrong).startswith(f"states = {wrong!r}")


def test_gzip_without_its_ending(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_bytes(gzip.compress(HEAD.encode()))
    assert "it is gzip: name it .csv.gz" in refusal(read_log, path)


def test_a_quote_that_swallows_rows(tmp_path: Path) -> None:
    """A note that opens a quote where an episode failed: the rows up to the next one are gone."""
    path = tmp_path / "log.csv"
    head = HEAD.replace("done", "done,note")
    for opens, closes in (('"bad', '"bad'), ('"bad', '5"')):
        rows = [f"{e},0,a,x,0,a,0,\n" for e in range(50)]
        rows[10] = f"10,0,a,x,0,a,0,{opens}\n"
        rows[40] = f"40,0,a,x,0,a,0,{closes}\n"
        path.write_text(head + "".join(rows))
        said = refusal(read_log, path)
        assert "line 12 opens a quote that continues to line 42, over other rows" in said
    rows = [f'"{e}\n0,0",0,a,x,0,a,0,"so,\nand, so, on"\n' for e in range(3)]
    path.write_text(head + "".join(rows))
    assert read_log(path).counted == 3


def test_true_is_not_one(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = '{"episode": %d, "t": 0, "state": %s, "action": 0, "reward": 0, "next_state": %s}\n'
    path.write_text(row % (1, "1", "true") + row % (2, "true", "1.0") + row % (3, "0", "false"))
    assert read_log(path).problem.state_names == ("0", "1", "False", "True")


@pytest.mark.parametrize("names", ["-1", "4.5", "0", "a,,b", "", ",", "1000000000"])
def test_states_that_cannot_be_declared(
    names: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "0,0,a,x,0,a,\n")
    assert "states" in fails(capsys, "certify", str(path), "--states", names)


def test_no_number_has_underscores(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "0,0,a,x,0_1,a,\n")
    assert "reward '0_1'" in refusal(read_log, path)


def test_options_of_a_log_without_one(capsys: pytest.CaptureFixture[str]) -> None:
    for option in (["--encoding", "cp1252"], ["--accept-losses"]):
        assert "are about --log" in fails(capsys, "learn", "chain:n=3", *option)
    both = ["learn", "chain:n=3", "--log", "a.csv", "--resume", "b.npz"]
    assert "leave --log out" in fails(capsys, *both)
