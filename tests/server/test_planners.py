"""Planning in the background of a service."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import ucfh
from support.services import DECLARED, Local, local_service
from ucfh.server import planner_pool


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_pool, "POLL", 0.02)
    monkeypatch.setattr(planner_pool, "PAUSE", 0.01)
    monkeypatch.setattr(planner_pool, "PAUSE_RATIO", 0.0)


@pytest.fixture
def local(tmp_path: Path) -> Iterator[Local]:
    with local_service(tmp_path, planning=True, tasks=["t", "u", "v"]) as found:
        found.service.begin()
        yield found


def eventually(true: Callable[[], Any]) -> None:
    """Wait until something is true; a minute at most, as code may have to be compiled."""
    for _ in range(6000):
        if true():
            return
        time.sleep(0.01)
    raise AssertionError


def planned(task: Any) -> None:
    """Wait until a plan knows all episodes."""
    begun = task.status().begun
    eventually(lambda: task.status().made_from == begun)


def told(task: Any, count: int) -> None:
    for k in range(count):
        task.tell(task.ask("x", f"{task.status().begun}-{k}"), reward=0.5, done=True)


def test_calls_are_planned_for(local: Local) -> None:
    path = "/v1/tasks/t/episodes/e/steps/0"
    assert local.send("PUT", path, {"state": "x"}).status == 200
    task = local.service.manager.open("t").task
    eventually(lambda: task.status().policy)
    eventually(lambda: local.send("GET", "/readyz").status == 200)
    eventually(lambda: local.send("GET", "/v1/tasks/t").json["report"] is not None)
    assert b"ucfh_plan_seconds_count" in local.send("GET", "/metrics").body


@pytest.mark.usefixtures("local")
def test_what_other_processes_write_is_planned_for(tmp_path: Path) -> None:
    with ucfh.open_task(tmp_path / "t.db", "u", planning="off") as other:
        told(other, 3)
        eventually(lambda: other.status().made_from == 3)


@pytest.mark.usefixtures("local")
def test_deadlines_that_pass(tmp_path: Path) -> None:
    with ucfh.open_task(
        tmp_path / "t.db", "short", **DECLARED, timeout=0.05, planning="off"
    ) as other:
        other.ask("x", "e")
        eventually(lambda: other.status().lost == 1)


def test_few_agents_are_kept(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planner_pool, "MOST_AGENTS", 1)
    pool = local.service.planners
    assert pool is not None
    for name in ("t", "u", "v", "t"):
        task = local.service.manager.open(name).task
        told(task, 3)
        planned(task)
        assert len(pool._agents) == 1


def test_a_plan_that_fails_is_tried_again(local: Local, monkeypatch: pytest.MonkeyPatch) -> None:
    task, other = (local.service.manager.open(name).task for name in ("t", "u"))
    real, failures = task.planner.step, [3]

    def step() -> bool:
        failures[0] -= 1
        if failures[0] >= 0:
            raise RuntimeError("for a while")
        return real()

    monkeypatch.setattr(task.planner, "step", step)
    told(task, 1)
    told(other, 1)
    eventually(lambda: other.status().policy)  # others do not wait
    eventually(lambda: task.status().policy)
    assert b'ucfh_plan_failures_total{kind="RuntimeError"}' in local.send("GET", "/metrics").body
    eventually(lambda: task.status().error is None)
    local.service.access_log.close()
    lines = [json.loads(line) for line in b"".join(local.lines).splitlines()]
    assert [x["task"] for x in lines if x.get("event") == "planning failed"] == ["t"] * 3


def test_a_task_that_rests_lets_others_plan(tmp_path: Path) -> None:
    """It rests from its last plan on, also if something came in during that."""
    with local_service(tmp_path, planning=True) as local:  # its threads do not run
        pool = local.service.planners
        assert pool is not None
        pool.notify("t")
        pool.notify("u")
        pool._paused_until["t"] = time.monotonic() + 3600
        assert pool._next() == "u"
        pool._paused_until["t"] = time.monotonic() + 0.05
        assert pool._next() == "t"


def test_the_right_to_plan_is_given_back(tmp_path: Path) -> None:
    with local_service(tmp_path, planning=True, tasks=["t"]) as local:
        local.service.begin()
        task = local.service.manager.open("t").task
        told(task, 1)
        eventually(lambda: task.status().planner)
    with ucfh.open_task(tmp_path / "t.db", "t", planning="off") as after:
        assert after.status().planner is None


def test_one_of_two_services_plans(tmp_path: Path, local: Local) -> None:
    with local_service(tmp_path, planning=True) as second:
        second.service.begin()
        task = local.service.manager.open("t").task
        for _ in range(5):
            told(task, 5)
            planned(task)
        assert task.check() == []
