"""Columns, formats and sizes of logs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet

from support.errors import refusal
from support.log_files import FUZZ, GOOD, TOLD, read, write
from ucfh import make
from ucfh.logs import batches, counting, csv_rows, labels
from ucfh.logs.reading import read_log


def test_known_rewards_are_not_read(tmp_path: Path) -> None:
    mdp = make("chain:n=2,horizon=2")
    text = b"episode,t,state,action,next_state\n0,0,0,1,1\n0,1,1,1,1\n"
    log = read(text, tmp_path, mdp)
    assert log.counted == 2
    assert not log.counts.rewards.any()
    assert log.problem is mdp.problem
    said = refusal(read, text, tmp_path, mdp.problem.hiding("rewards"))
    assert "no column is called 'reward'" in said


def test_columns_by_other_names(tmp_path: Path) -> None:
    text = b"id;x,step,S,act,r,S2,id\nq,0,a,x,1,b,7\n"
    names = {"episode": "id", "t": "step", "state": "S", "action": "act", "reward": "r"}
    log = read(text, tmp_path, columns=names | {"next_state": "S2"})
    assert log.problem.state_names == ("a", "b")
    assert log.counted == 1


@pytest.mark.parametrize(
    ("head", "columns", "told"),
    [
        (
            "episode,t,State,action,reward,next_state",
            {},
            "no column is called 'state' (there are: State, action, ",
        ),
        (
            "episode,t,State,action,reward,next_state",
            {},
            '; say which is meant, as in --columns state=State (columns={"state": "State"})',
        ),
        ("episode,t,state,action,reward,next_state", {"done": "over"}, "is called 'over' (there"),
        (
            "episode,t,state,action,reward,next_state",
            {"status": "s"},
            "unknown column of a log 'status'",
        ),
        ("episode,t,state,state,action,reward,next_state", {}, "'state' appears twice"),
        ("episode;t;state", {}, "called 'action' or 'reward' (there are: episode, state, t)"),
        ("episode\tt\tstate", {}, "called 'action' or 'reward' (there are: episode, state, t)"),
        (
            "who,T,state,act,reward,Next State",
            {"action": "acts"},
            "no column is called 'episode' or 'acts' (there are: Next State, T, act, reward, "
            "state, who); say which is meant, as in --columns episode=NAME --columns action=act "
            '--columns t=T --columns \'next_state=Next State\' (columns={"episode": "NAME", '
            '"action": "act", "t": "T", "next_state": "Next State"})',
        ),
        ("episode,t\rmon,0\r", {}, "its lines end with CR alone"),
        ("", {}, "it is empty"),
        ("\udcff", {}, "line 1 is not UTF-8"),
    ],
)
def test_columns_that_are_not_there(
    head: str, columns: dict[str, str], told: str, tmp_path: Path
) -> None:
    text = head.encode("utf-8", "surrogateescape") + (b"\n" if head else b"")
    assert told in refusal(read, text, tmp_path, columns=columns)


def test_wrong_calls(tmp_path: Path) -> None:
    assert "does not exist" in refusal(read_log, tmp_path / "no.csv")
    assert "unknown ending '.xlsx'" in refusal(read_log, tmp_path / "log.xlsx")
    assert "unknown ending '.parquet'" in refusal(read_log, tmp_path / "log.parquet.gz")
    assert "leave horizon out" in refusal(read, GOOD, tmp_path, TOLD, horizon=2)
    assert "'a' is given twice" in refusal(read, GOOD, tmp_path, states=["a", "a"])
    assert "states is empty" in refusal(read, GOOD, tmp_path, states=[])
    assert "horizon = 0" in refusal(read, GOOD, tmp_path, horizon=0)
    assert "it has no rows); to continue with none, declare states and actions" in refusal(
        read, "", tmp_path
    )
    assert "line 2: reward '7'" in refusal(read, "0,0,a,x,7,a,\n", tmp_path, accept_losses=False)
    assert read("", tmp_path, TOLD).rows == 0


def test_too_many_states(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    text = "".join(f"{e},0,{e},x,0,{e + 1},\n" for e in range(30))
    assert read(text, tmp_path).problem.states == 31
    monkeypatch.setattr(counting, "MAX_ENTRIES", 31**2)
    assert read(text, tmp_path).problem.states == 31
    monkeypatch.setattr(counting, "MAX_ENTRIES", 31**2 - 1)
    log = read(text, tmp_path)  # which needs no table by itself
    assert (log.states.count, log.counted) == (31, 30)
    assert "31 states and 1 actions are too many for a table" in refusal(lambda: log.problem)


def test_a_line_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in (batches, csv_rows):
        monkeypatch.setattr(module, "MAX_LINE", 100)
    monkeypatch.setattr(csv_rows, "CHUNK", 32)
    assert "more than 100 bytes" in refusal(read, GOOD + "x" * 200, tmp_path, TOLD)
    assert "more than 100 bytes" in refusal(read, GOOD + '"' + "x" * 200, tmp_path, TOLD)


def test_progress_reaches_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ucfh.logs.reading.PEEK", 1)
    monkeypatch.setattr(csv_rows, "CHUNK", 64)
    shares: list[float] = []
    read("".join(f"{e},0,a,x,0,a,\n" for e in range(100)), tmp_path, progress=shares.append)
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert shares[-1] == 1


def test_parquet_with_types(tmp_path: Path) -> None:
    columns = {
        "episode": pyarrow.array([0, 0, 1, 1], pyarrow.int32()),
        "t": pyarrow.array([0, 1, 0, 1], pyarrow.int8()),
        "state": pyarrow.array(["a", "b", "a", "a"]).dictionary_encode(),
        "action": pyarrow.array([[0, 1], [0, 2], [0, 1], [0, 1]]),
        "reward": pyarrow.array([0.5, 0, 1, float("nan")]),
        "next_state": pyarrow.array(["b", "a", "a", "a"]),
        "done": pyarrow.array([False, False, None, False]),
        "other": pyarrow.array([1, 2, 3, 4]),
    }
    path = tmp_path / "log.parquet"
    parquet.write_table(pyarrow.table(columns), path)
    log = read_log(path, accept_losses=True)
    assert log.problem.action_names == ("[0, 1]", "[0, 2]")
    assert [(fault.kind, fault.first.split(":")[0]) for fault in log.faults] == [
        ("reward", "row 4")
    ]
    # from a by [0, 1] to a and to b, by [0, 2] nowhere, from b likewise; and the start
    assert log.counts.rewards.tolist() == [1, 0.5, *[0] * 8]
    assert log.counts.successors.tolist() == [1, 1, 0, 0, 0, 0, 1, 0, 2, 0]


def test_without_pyarrow(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write([], tmp_path / "log.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    assert refusal(read_log, path).endswith("not installed: pip install pyarrow")
    assert read(GOOD, tmp_path).counted == 2


def test_json_lines(tmp_path: Path) -> None:
    path = tmp_path / "log.jsonl"
    row = '{"episode": 1, "t": %d, "state": %s, "action": true, "reward": 1, "next_state": %s%s}\n'
    text = row % (0, "[0, 1]", "{}", "") + row % (1, "{}", "null", "") + row % (2, 1, 1, "")
    path.write_text(text + row % (3, 1, 1, ', "t": 4') + (row % (4, 1, 1, ""))[:-1])
    log = read_log(path, accept_losses=True)
    assert log.problem.state_names == ("1", "[0, 1]", "{}")
    assert log.problem.action_names == ("True",)
    assert [(fault.kind, fault.lines) for fault in log.faults] == [
        ("line", (4,)),
        ("next_state", (2,)),
    ]
    assert log.faults[0].example == "it is not a JSON object (a key appears twice)"
    path.write_text('{"episode": 1}\n')
    assert "no column is called 'state'" in refusal(read_log, path)


@pytest.mark.slow
@FUZZ
@given(
    batches=st.lists(st.lists(st.integers(0, 30) | st.sampled_from(["x", "y", "-1"]), max_size=8)),
    kept=st.integers(0, 10),
)
def test_episodes_met_before(batches: list[list[Any]], kept: int) -> None:
    seen, before = labels.EpisodeIds(), set()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(labels, "MOST_KEPT", kept)
        for batch in batches:
            expected = [ids in before or ids in batch[:i] for i, ids in enumerate(batch)]
            assert seen.add(batch).tolist() == expected
            before |= set(batch)


def test_episodes_counted_up_take_no_memory() -> None:
    seen = labels.EpisodeIds()
    for first in range(0, 3 * labels.MOST_KEPT, 1000):
        assert not seen.add(map(str, range(first, first + 1000))).any()
    assert len(seen._first) == 1
    assert len(seen._latest) <= labels.MOST_KEPT
    assert seen.add(["5", str(3 * labels.MOST_KEPT - 1), str(3 * labels.MOST_KEPT)]).tolist() == [
        *(True, True, False)
    ]


def test_an_empty_log_with_a_state_of_several_columns(tmp_path: Path) -> None:
    (tmp_path / "log.jsonl").touch()
    columns = {"state": ["level", "mood"]}
    log = read_log(
        tmp_path / "log.jsonl", columns=columns, states=["1|x"], actions=["a"], horizon=2
    )
    assert (log.rows, log.states.names) == (0, ("1|x",))
