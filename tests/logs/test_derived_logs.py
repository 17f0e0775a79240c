"""Logs without next states: what followed a row is what the next one shows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from oracles.slow_derived import slow_derived
from support.errors import refusal
from support.log_files import FUZZ, assumed, logs, write
from ucfh import InputError, Log, Problem, certify, read_log
from ucfh.logs import batches, csv_rows
from ucfh.sparse_counts import SHIFT

HEAD = "episode,t,state,action,reward,done\n"


def read(text: str, tmp_path: Path, **options: Any) -> Log:
    path = tmp_path / "log.csv"
    path.write_text(HEAD + text)
    return read_log(path, **{"accept_losses": True, **options})


def moves(log: Log) -> Counter[Any]:
    """How often each (segment, s, a, s') was counted, by name."""
    assert log.shown is not None
    data, out = log.shown.experience, Counter[Any]()
    for key, c in zip(data.key.tolist(), data.c.tolist(), strict=True):
        segment, s, a = data.pair_of(key >> SHIFT)
        names = log.states.label(s), log.actions.label(a), log.states.label(key % 2**SHIFT - 1)
        out[segment, *map(str, names)] = c
    return out


@pytest.mark.slow
@FUZZ
@given(
    content=logs(),
    chunk=st.sampled_from([8, 64, 2**16]),
    horizon=st.none() | st.integers(1, 4),
    dropouts=st.sampled_from([None, "outcome", "random"]),
)
def test_finds_what_a_slow_reader_finds(
    content: list[dict[str, Any]],
    chunk: int,
    horizon: int | None,
    dropouts: str | None,
    tmp_path: Path,
) -> None:
    rows = [{k: x for k, x in row.items() if k != "next_state"} for row in content]
    if not rows or any("\n" in str(x) for row in rows for x in row.values()):
        return
    path = write(rows, tmp_path / "log.csv")
    texts = [{k: str(x) for k, x in row.items()} for row in rows]
    slow = slow_derived(texts, horizon, dropouts)
    options: dict[str, Any] = {"horizon": horizon, "dropouts": dropouts, "accept_losses": True}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(csv_rows, "CHUNK", chunk)
        patch.setattr(batches, "BATCH", chunk // 8)
        named = all(any(row[x].strip() for row in texts) for x in ("state", "action"))
        if not (slow.horizon and named):
            assert "no row of it can be counted" in refusal(read_log, path, **options)
            return
        log = read_log(path, **options)
    assert log.horizon == slow.horizon
    assert log.shown is not None
    assert moves(log) == slow.moves
    data = log.shown.experience
    started = {str(log.states.label(s)): int(n) for s, n in enumerate(data.started[1:]) if n}
    assert started == slow.starts
    found = {fault.kind: (fault.count, fault.lines) for fault in log.faults}
    assert found == {kind: (len(x), tuple(x[:3])) for kind, x in slow.faults.items()}
    if any(not fault.harmless for fault in log.faults):
        what = f"{slow.lost} of {len(rows)} rows are lost"
        if not slow.lost:
            what = f"{slow.spoilt} of {log.episodes} episodes are not logged to their end"
        assert what in assumed(log)["issues"]


@pytest.mark.parametrize(
    ("second", "kind", "line", "told"),
    [
        ("1,0,b,x,0,", "t", 3, "t '0' where 1 is expected"),
        ("1,1,,x,0,", "state", 3, "its state is missing"),
        (",1,b,x,0,", "line", 3, "its episode is missing"),
        ("1,1,b", "line", 3, "it has 3 values"),
    ],
)
def test_the_fault_of_a_row_hides_what_followed_the_one_before(
    second: str, kind: str, line: int, told: str, tmp_path: Path
) -> None:
    """It is told once, where it is; both rows are lost, and the start is not."""
    log = read(f"1,0,a,x,0,\n{second}\n2,0,a,x,0,\n2,1,b,x,0,\n", tmp_path)
    (fault,) = log.faults
    assert (fault.kind, fault.count, fault.lines) == (kind, 1, (line,))
    assert told in fault.example
    assert moves(log) == {(0, "a", "x", "b"): 1, (1, "b", "x", "(end)"): 1}
    assert "2 of 4 rows are lost" in assumed(log)["issues"]
    assert log.shown is not None
    assert log.shown.experience.started.sum() == 2


def test_a_fault_that_shows_the_state_hides_nothing(tmp_path: Path) -> None:
    log = read("1,0,a,x,0,\n1,1,b,x,9,\n2,0,a,x,0,\n2,1,b,x,0,\n", tmp_path)
    assert [(fault.kind, fault.lines) for fault in log.faults] == [("range", (3,))]
    assert moves(log)[0, "a", "x", "b"] == 2


def test_the_last_step_is_a_segment_of_its_own(tmp_path: Path) -> None:
    """Or pooled rows would lead to the end now and then, and bounds would be false."""
    text = "".join(f"{e},{t},a,x,{t == 3:d},\n" for e in range(300) for t in range(4))
    log = read(text, tmp_path, accept_losses=False)
    assert moves(log) == {(0, "a", "x", "a"): 900, (1, "a", "x", "(end)"): 300}
    known = certify(log, delta=0.1)
    assert known.lower <= 1 <= known.upper < 1.5
    assert any("as a segment of its own" in note for note in log.notes)
    every = read(text, tmp_path, time_dependent=True)
    assert every.shown is not None
    assert every.shown.experience.P == 4
    one = read("".join(f"{e},0,a,x,1,\n" for e in range(9)), tmp_path)
    assert moves(one) == {(0, "a", "x", "(end)"): 9}


def test_what_is_done_early_is_over(tmp_path: Path) -> None:
    log = read("1,0,a,x,1,1\n2,0,a,x,0,\n2,1,b,x,0,\n", tmp_path, accept_losses=False)
    assert moves(log)[0, "a", "x", "(end)"] == 1
    assert log.complete.tolist() == [True, True]
    assert log.returns is not None
    assert log.returns.tolist() == [1, 0]


SHORT = "1,0,a,x,0.5,\n2,0,a,x,0,\n2,1,b,x,0,\n"


def test_drop_outs_have_to_be_declared(tmp_path: Path) -> None:
    said = refusal(read, SHORT, tmp_path, accept_losses=False)
    assert "1 of 3 rows are lost" in said
    assert "line 2: the episode ends there after 1 of 2 steps, and is not done" in said
    for choice in (
        "--dropouts",
        "outcome (",
        "lost (what followed may be anything)",
        "random (it has nothing",
    ):
        assert choice in said
    expected: dict[str, tuple[Any, list[bool]]] = {
        "outcome": ("(left)", [True, True]),
        "lost": (None, [False, True]),
        "random": (None, [False, True]),
    }
    for dropouts, (after, complete) in expected.items():
        log = read(SHORT, tmp_path, dropouts=dropouts, accept_losses=False)
        assert log.faults == ()
        assert moves(log)[0, "a", "x", after] == (after is not None)
        assert log.complete.tolist() == complete
        assert log.understood.dropouts == 1
        assert log.shown is not None
        assert log.shown.experience.lost.sum() == (dropouts == "lost")
        assert "(1 of 2 episodes)" in assumed(log)[f"dropouts_{dropouts}"]
        assert log.counted == 2 + (dropouts == "outcome")
    said = refusal(read, SHORT, tmp_path, dropouts="ignore")
    assert said == "dropouts = 'ignore' must be 'outcome' or 'lost' or 'random'"


def test_a_next_state_of_who_stops_short(tmp_path: Path) -> None:
    """It counts if stopping is random; it does not if stopping is an outcome, or anything."""
    path = tmp_path / "log.csv"
    rows = "1,0,a,x,0,b\n2,0,a,x,0,b\n2,1,b,x,0,b\n"
    path.write_text(f"episode,t,state,action,reward,next_state\n{rows}")
    for dropouts, after in (("outcome", "(left)"), ("lost", ""), ("random", "b")):
        log = read_log(path, dropouts=dropouts)
        apart = int(dropouts == "outcome")  # nobody can leave after the last step
        expected = Counter({(0, "a", "x", "b"): 1, (apart, "b", "x", "b"): 1})
        if after:
            expected[0, "a", "x", after] += 1
        assert moves(log) == expected


def told(*names: str) -> Problem:
    n = len(names)
    return Problem(
        n,
        1,
        2,
        terminal=list(range(2, n)),
        time_dependent=True,
        state_names=names,
        action_names=["x"],
    )


def test_a_problem_needs_the_states_that_are_added(tmp_path: Path) -> None:
    said = refusal(read, SHORT, tmp_path, problem=told("a", "b"))
    assert "the problem has no terminal state '(end)'" in said
    assert "name the column of next_state" in said
    both = told("a", "b", "(end)", "(left)")
    log = read(SHORT, tmp_path, problem=both, dropouts="outcome", accept_losses=False)
    assert (log.counted, log.faults) == (3, ())
    table = both.table  # a at step 0 leads to b and to (left), b at step 1 to (end)
    first, second = (table.entries_of(row) for row in (0, table.pairs + 1))
    after = dict(zip(table.indices[first].tolist(), log.counts.successors[first], strict=True))
    assert after == {0: 0, 1: 1, 2: 0, 3: 1}
    assert log.counts.successors[second].tolist() == [0, 0, 1, 0]
    pooled = Problem(3, 1, 2, terminal=[2], state_names=["a", "b", "(end)"])
    assert "needs what follows the last step" in refusal(read, SHORT, tmp_path, problem=pooled)
    said = refusal(read, SHORT, tmp_path, problem=told("a", "b", "(end)"), dropouts="outcome")
    assert "the problem has no terminal state '(left)'" in said
    said = refusal(read, SHORT, tmp_path, problem=both, dropouts="lost")
    assert "a problem cannot hold missing outcomes" in said
    log = read(SHORT, tmp_path, problem=told("a", "b", "(end)"), dropouts="random")
    assert (log.counted, log.faults) == (2, ())


def test_a_state_of_the_log_with_the_name_of_one_that_is_added(tmp_path: Path) -> None:
    said = refusal(read, "1,0,a,x,0,\n1,1,(end),x,0,\n", tmp_path)
    assert "a state of the log is called '(end)'" in said


def test_bounds_hold_with_each_meaning_of_drop_outs(tmp_path: Path) -> None:
    """Half of those who fail leave: the truth is between what lost says, and outcome is exact."""
    rng, out, paid = np.random.default_rng(0), [], []
    for e in range(4000):
        fails = rng.random() < 0.5
        leaves = fails and rng.random() < 0.5
        out.append(f"{e},0,a,x,0,\n")
        paid.append(0 if leaves else 1 - 0.8 * fails)
        if not leaves:
            out.append(f"{e},1,{'bad' if fails else 'good'},x,{paid[-1]:g},\n")
    truth = float(np.mean(paid))
    known = {
        meaning: certify(read("".join(out), tmp_path, dropouts=meaning, max_return=1), delta=0.1)
        for meaning in ("outcome", "lost", "random")
    }
    assert known["outcome"].lower <= truth <= known["outcome"].upper
    assert known["lost"].lower <= truth <= known["lost"].upper
    assert known["random"].lower > truth  # which it was not
    widths = {name: x.upper - x.lower for name, x in known.items()}
    assert widths["lost"] > 2 * widths["outcome"]


def test_what_followed_the_last_step_may_be_lost_too(tmp_path: Path) -> None:
    """If next states are shown, and that one is left blank, perhaps with its reward."""
    path = tmp_path / "log.csv"
    head = "episode,t,state,action,reward,next_state\n"
    whole = "1,0,a,go,1,b\n1,1,b,go,0.5,a\n"
    for row, paid in (("2,1,b,go,,", None), ("2,1,b,go,0.25,", 0.25)):
        path.write_text(f"{head}2,0,a,go,1,b\n{row}\n{whole}")
        log = read_log(path, horizon=2, dropouts="lost", strict=True)
        assert log.shown is not None
        data = log.shown.experience
        assert (int(data.lost.sum()), log.counted) == (1, 3)
        assert float(data.lost_paid.sum()) == (paid or 0.0)
        assert int(data.lost_unpaid.sum()) == (paid is None)
        assert log.complete.tolist() == [paid is not None, True]
    path.write_text(f"{head}2,0,a,go,1,b\n2,1,b,go,,a\n{whole}")  # that of a known state is not
    with pytest.raises(InputError, match="reward"):
        read_log(path, horizon=2, dropouts="lost", strict=True)
    path.write_text(f"{head}2,0,a,go,1,b\n2,1,b,go,1,\n{whole}")
    with pytest.raises(InputError, match="next_state"):
        read_log(path, horizon=2, strict=True)
    for dropouts, counted in (("outcome", 4), ("random", 3)):
        assert read_log(path, horizon=2, dropouts=dropouts, strict=True).counted == counted
