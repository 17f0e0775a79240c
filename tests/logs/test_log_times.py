"""Logs whose times are wild: a slip of the pen in one episode costs that episode, and no more."""

from __future__ import annotations

from pathlib import Path

import pytest

from ucfh import read_log
from ucfh.logs import counting, csv_rows
from ucfh.logs.reading import Log

EPISODES, HORIZON = 300, 3  # so many that what one of them loses is within `losses.FEW`
SLIPS = {
    "the only one": [10**8],
    "the first": [10**8, 1, 2],
    "within": [0, 10**8, 2],
    "the last": [0, 1, 10**8],
    "as large as times are": [0, 999999999],
    "larger": [0, 1000000000],
    "two in a row": [0, 1, 10**8, 10**8 + 1],
    "all of them": [10**8, 10**8 + 1, 10**8 + 2],
    "up to the largest": [0, 999999998, 999999999, 1000000000],
    "not so large": [0, 1, 20000, 20001],
    "below 0": [0, 1, -5, -4],
}


def steps(name: str, times: list[int], action: str = "go") -> list[str]:
    return [f"{name},{t},home,{action},0.5,home" for t in times]


def read(lines: list[str], tmp_path: Path, first: int) -> Log:
    """A time-dependent log of plain episodes, with lines in the middle of them."""
    head = "episode,t,state,action,reward,next_state"
    plain = [steps(str(k), [first, first + 1, first + 2]) for k in range(EPISODES)]
    texts = [line for some in (*plain[:20], lines, *plain[20:]) for line in some]
    path = tmp_path / "log.csv"
    path.write_text("\n".join([head, *texts]) + "\n")
    return read_log(path, time_dependent=True)


@pytest.mark.slow
@pytest.mark.parametrize("chunk", [16, 2**16], ids=["line by line", "at once"])
@pytest.mark.parametrize("first", [0, 1])
@pytest.mark.parametrize("times", SLIPS.values(), ids=SLIPS.keys())
def test_wild_times_cost_one_episode(
    times: list[int], first: int, chunk: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither the log is refused, nor is there room made for a step that nothing led to."""
    monkeypatch.setattr(csv_rows, "CHUNK", chunk)
    monkeypatch.setattr(counting, "MAX_ENTRIES", 10)  # less than twice what the plain ones take
    times = [t + first for t in times]
    right = 0
    while right < HORIZON and right < len(times) and times[right] == first + right:
        right += 1
    log = read(steps("odd", times), tmp_path, first)
    assert log.problem.horizon == HORIZON
    assert log.counts.visits[:-1].tolist() == [EPISODES + (t < right) for t in range(HORIZON)]
    assert (log.rows, log.counted) == (3 * EPISODES + len(times), 3 * EPISODES + right)
    (fault,) = log.faults
    assert (fault.kind, fault.count, fault.lines) == ("t", 1, (2 + 20 * HORIZON + right,))
    assert f"t '{times[right]}' where {first + right} is expected" in fault.example


def test_wild_times_after_another_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An episode that is left already makes no room either."""
    monkeypatch.setattr(counting, "MAX_ENTRIES", 10)
    lines = [*steps("odd", [0], action=""), *steps("odd", [10**8, 10**8 + 1])]
    log = read(lines, tmp_path, 0)
    assert (log.problem.horizon, log.counted) == (HORIZON, 3 * EPISODES)
    assert [fault.kind for fault in log.faults] == ["line"]
