"""Tasks that would need more memory than there is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import ucfh
from support.stores import files
from ucfh.tasks import config
from ucfh.tasks.agent import TaskAgent

TASK: dict[str, Any] = {"actions": ["a", "b"], "horizon": 10_000, "epsilon": 1}


def test_a_declaration_that_is_too_large_is_refused(tmp_path: Path) -> None:
    states = list(range(40_000))
    with pytest.raises(ucfh.InvalidReport, match=r"40,000 states .* need about \d+ GB"):
        ucfh.open_task(files(tmp_path)("t"), **TASK, states=states)


def test_states_that_are_found_are_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ucfh.open_task(files(tmp_path)("t"), **TASK, planning="off") as task:
        task.ask(0, "e")
        for s in range(1, 10):
            task.tell(("e", s - 1), reward=0, state=s)
        monkeypatch.setattr(config, "LITTLE", 0)
        monkeypatch.setattr(config, "free_memory", lambda: 2**20)
        with pytest.raises(ucfh.InvalidReport, match="need about"):
            task.tell(("e", 9), reward=0, state=10)
        with pytest.raises(ucfh.InvalidReport, match="need about"):
            task.certificate()
        assert len(task.states.labels) == 11


def test_memory_that_runs_out_is_not_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried = []

    def plan(agent: TaskAgent) -> Any:
        tried.append(agent)
        raise MemoryError

    monkeypatch.setattr(TaskAgent, "plan", plan)
    with ucfh.open_task(files(tmp_path)("t"), **{**TASK, "horizon": 2}, planning="inline") as task:
        for k in range(4):
            task.ask("s", f"e{k}")
            task.tell((f"e{k}", 0), reward=0, done=True)
        assert len(tried) == 1
        error = task.status().error
        assert error is not None
        assert "memory" in error
