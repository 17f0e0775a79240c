"""Programs that open one store several times in a process: nothing is lost, nothing is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.reopening import trial

RUNS = 20


@pytest.mark.parametrize("scenario", ["status", "shell", "web"])
def test_20_runs(scenario: str, tmp_path: Path) -> None:
    found = []
    for run in range(RUNS):
        folder = tmp_path / str(run)
        folder.mkdir()
        found.append(trial(scenario, folder))
    assert [x for x in found if not x.clean] == []
    print(f"{scenario}: {RUNS} runs, {sum(x.acknowledged for x in found)} calls, none lost")
