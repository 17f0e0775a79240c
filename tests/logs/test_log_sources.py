"""Logs that are no files: frames, tables, Minari data sets; and steps by their dates."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas
import polars
import pyarrow
import pytest

from support.errors import refusal
from support.log_files import HEAD, assumed
from ucfh import Log, audit, certify, read_log
from ucfh.logs.times import Dates

COLUMNS: dict[str, list[Any]] = {
    "episode": [1, 1, 2, 2],
    "t": [0, 1, 0, 1],
    "state": ["a", "b", "a", "a"],
    "action": ["x", "x", "y", None],
    "reward": [0.5, 1.0, 0.0, float("nan")],
    "next_state": ["b", "b", "a", "a"],
    "done": [False, True, False, False],
}


def same(log: Log, other: Log) -> None:
    assert log.assumptions == other.assumptions
    assert (log.rows, log.counted) == (other.rows, other.counted)
    for name in ("visits", "successors", "rewards", "least", "most"):
        np.testing.assert_array_equal(getattr(log.counts, name), getattr(other.counts, name))


def test_frames_and_tables(tmp_path: Path) -> None:
    table = pyarrow.table(COLUMNS)
    path = tmp_path / "log.csv"
    path.write_text(HEAD + "1,0,a,x,0.5,b,0\n1,1,b,x,1,b,1\n2,0,a,y,0,a,0\n2,1,a,,,a,0\n")
    expected = read_log(path, accept_losses=True)
    frames = [
        pandas.DataFrame(COLUMNS),
        pandas.DataFrame(COLUMNS, index=[5, 6, 7, 8]),
        pandas.DataFrame(COLUMNS).astype({"state": "category", "t": "Int8"}),
        polars.DataFrame(COLUMNS),
        table,
        table.to_reader(),
        table.to_batches()[0],
    ]
    for frame in frames:
        log = read_log(frame, accept_losses=True)
        same(log, expected)
        (fault,) = log.faults
        assert fault.first.startswith("row 4: its action is missing")
        assert log.understood.kind.startswith("a ")
    assert read_log(frames[0], accept_losses=True).understood.kind == "a DataFrame of pandas"
    shares: list[float] = []
    read_log(frames[3], accept_losses=True, progress=shares.append)
    assert shares[-1] == 1


def test_a_frame_is_certified_and_audited() -> None:
    rows = 200
    frame = pandas.DataFrame(
        {
            "episode": range(rows),
            "t": 0,
            "state": "a",
            "action": "x",
            "reward": 1,
            "next_state": "a",
        }
    )
    assert certify(read_log(frame), delta=0.1).lower > 0.5
    assert audit(frame).findings == ()


def test_frames_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    mixed = pandas.DataFrame({**COLUMNS, "state": ["a", 1, None, 2.5]}, dtype=object)
    said = refusal(read_log, mixed)
    assert said.startswith("the DataFrame: it cannot be read as a table of Arrow; make each column")
    assert "the log is not text: leave the encoding out" in refusal(
        read_log, pandas.DataFrame(COLUMNS), encoding="utf-8"
    )
    for odd in (5, [1, 2], {"state": [1]}):
        assert refusal(read_log, odd).startswith(f"path = {odd!r} must be the path of a file, a ")
    said = refusal(read_log, pandas.DataFrame({"episode": [1]}))
    assert "no column is called 'state', 'action' or 'reward' (there are: episode)" in said
    assert "it has no columns: it needs some, such as episode, state," in refusal(
        read_log, pandas.DataFrame()
    )
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    said = refusal(read_log, polars.DataFrame(COLUMNS))
    assert said.endswith(
        "a log in a frame needs pyarrow, which is not installed: pip install pyarrow"
    )


# dates


def dated(tmp_path: Path, *days: str, **options: Any) -> Log:
    path = tmp_path / "log.csv"
    rows = "".join(f"1,{day},a,x,0\n" for day in days)
    path.write_text(
        f"episode,day,state,action,reward\n0,2024-01-01,a,x,0\n{rows}2,2024-01-01,a,x,0\n"
    )
    return read_log(path, columns={"t": "day"}, **{"accept_losses": True, **options})


def test_dates_in_order(tmp_path: Path) -> None:
    for days in (
        ["2024-01-30", "2024-02-01", "2024-12-31"],
        ["2024-01-30 23:59", "2024-01-30T23:59:01", "2024-01-31"],
        ["2024-01-30T12:00+02:00", "2024-01-30T11:00+00:00", "2024-01-30T12:00Z"],
    ):
        log = dated(tmp_path, *days, dropouts="random")
        assert (log.horizon, log.faults) == (3, ()) or log.faults[0].kind == "cut"
        assert log.understood.t == "dates, in order"
        assert "row_order" in assumed(log)


@pytest.mark.parametrize("second", ["2024-01-29", "2024-01-30", "30.1.2024", "", "7"])
def test_dates_out_of_order(second: str, tmp_path: Path) -> None:
    log = dated(tmp_path, "2024-01-30", second, "2024-02-01", dropouts="random")
    faults = {fault.kind: fault for fault in log.faults}
    assert faults["t"].lines == (4,)
    told = f"t {second!r} is not after that of the row before" if second else "its t is missing"
    assert told in faults["t"].example


def test_dates_of_frames() -> None:
    days = pandas.to_datetime(["2024-01-01", "2024-01-02", "2024-01-01", "2024-03-01"])
    frame = pandas.DataFrame({**COLUMNS, "t": days, "action": "x", "reward": 0})
    for source in (frame, polars.from_pandas(frame)):
        log = read_log(source)
        assert (log.counted, log.faults, log.understood.t) == (4, (), "dates, in order")
    frame.loc[1, "t"] = pandas.Timestamp("2023-01-01")
    assert "row 2: t '2023-01-01 00:00:00' is not after" in refusal(read_log, frame)


def test_dates_are_compared_to_the_microsecond() -> None:
    early, late, zoned, odd = Dates().of(
        ["2024-01-01T00:00:00.000001", "2024-01-01T00:00:00.000002", "2024-01-01T01:00+01:00", "x"]
    )
    assert late - early == 1
    assert early - zoned == 1
    assert odd == -1


def test_no_times_at_all(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("episode,state,action,reward\n1,a,x,0\n1,b,x,1\n2,a,x,0\n2,b,x,1\n")
    log = read_log(path)
    assert (log.counted, log.horizon, log.times.start) == (4, 2, 0)
    assert "row_order" in assumed(log)


# Minari


minari = pytest.importorskip("minari")


@pytest.fixture
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))


def data_set(name: str, observations: Any, space: Any) -> Any:
    """Two episodes of two steps: one is terminated in what the other starts with, one truncated."""
    from gymnasium import spaces
    from minari.data_collector import EpisodeBuffer

    buffers = [
        EpisodeBuffer(
            id=e,
            observations=observations[e],
            actions=[1, 0],
            rewards=[0.0, 1.0],
            terminations=[False, e == 0],
            truncations=[False, e == 1],
        )
        for e in range(2)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # it misses who made it
        return minari.create_dataset_from_buffers(
            name,
            buffers,
            observation_space=space,
            action_space=spaces.Discrete(2),
            data_format="arrow",
        )


@pytest.mark.usefixtures("_here")
def test_minari_data_sets() -> None:
    from gymnasium import spaces

    found = data_set("toy/one-v0", [[3, 1, 3], [3, 2, 1]], spaces.Discrete(5))
    for source in (found, "minari:toy/one-v0"):
        log = read_log(source)
        assert (log.rows, log.counted, log.faults) == (4, 4, ())
        assert log.states.names == ("1", "2", "3", "(end)")
        assert log.understood.kind == "the Minari data set toy/one-v0"
        assert log.understood.sample == (
            (0, "3", "1", 0.0, "1"),
            (1, "1", "0", 1.0, "(end)"),
        )
        assert log.complete.tolist() == [True, True]
    assert log.shown is not None
    # 3 by 1 leads to 1 and to 2, 1 by 0 to the end, 2 by 0 to 1
    assert log.shown.experience.c.tolist() == [1, 1, 1, 1]


@pytest.mark.usefixtures("_here")
def test_minari_vectors() -> None:
    from gymnasium import spaces

    for name, space in (
        ("toy/many-v0", spaces.MultiDiscrete([4, 4])),
        ("toy/box-v0", spaces.Box(0, 9, (2,), np.int8)),
    ):
        seen = np.array([[0, 1], [1, 1], [2, 1]], space.dtype)
        log = read_log(data_set(name, [seen, seen], space))
        assert log.states.names == ("[0, 1]", "[1, 1]", "[2, 1]", "(end)")
        assert log.counted == 4


@pytest.mark.usefixtures("_here")
def test_minari_data_sets_that_cannot_be_read(monkeypatch: pytest.MonkeyPatch) -> None:
    from gymnasium import spaces

    real = np.zeros((3, 1), np.float32)
    found = data_set("toy/real-v0", [real, real], spaces.Box(0, 1, (1,), np.float32))
    said = refusal(read_log, found)
    assert "its observation space is Box(0.0, 1.0, (1,), float32), but integers" in said
    said = refusal(read_log, "minari:toy/none-v0")
    assert said.startswith("minari:toy/none-v0: ")
    assert said.endswith("download it with: minari download toy/none-v0")
    monkeypatch.setitem(sys.modules, "minari", None)
    said = refusal(read_log, "minari:toy/real-v0")
    assert said.endswith(
        "a Minari data set needs minari, which is not installed: pip install minari"
    )
