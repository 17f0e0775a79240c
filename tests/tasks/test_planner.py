"""Planning beside serving: when, by whom, and what happens if it fails."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ucfh
from support.stores import Clock, Stores, files
from ucfh.tasks import planner as planning
from ucfh.tasks.agent import TaskAgent
from ucfh.tasks.config import Declaration
from ucfh.tasks.planner import TaskPlanner, pack, unpack
from ucfh.tasks.records import LAYOUT
from ucfh.tasks.task import Task

TASK: dict[str, Any] = {"actions": ["a", "b"], "horizon": 2, "epsilon": 0.3, "max_return": 1}


def open_one(stores: Stores, planning: str = "off", name: str = "t") -> Task:
    return ucfh.open_task(stores(name), **TASK, planning=planning)


def play(task: Task, first: int, last: int, seed: int = 0) -> None:
    """Episodes in which b pays, and a does not."""
    random = Random(seed)
    for e in range(first, last):
        d: Any = task.ask("s", f"e{e}")
        while d is not None:
            good = d.action == "b" and random.random() < 0.8
            d = task.tell(d, reward=0.5 * good, state=random.choice("st"))


def wait_until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_inline_planning_learns_what_to_do(tmp_path: Path) -> None:
    with open_one(files(tmp_path), "inline") as task:
        play(task, 0, 400)
        status = task.status()
        assert status.policy > 10
        assert status.planner == task.planner.holder
        certificate = task.certificate()
        assert certificate.certified
        assert 0.3 < certificate.lower <= 0.8 <= certificate.upper
        policy = task.policy()
        assert [policy.act(t, "s") for t in range(2)] == ["b", "b"]
        assert policy.act(0, "never seen") == "a"
        assert policy.named()[0] == [("s", "b"), ("t", policy.act(0, "t"))]
        policy.write(tmp_path / "policy.csv")
        assert task.audit().findings == ()
        assert "certified: it earns at least" in str(status)
        assert task.check() == []


def test_inline_planning_is_the_same_every_time(tmp_path: Path) -> None:
    seen = []
    for k in range(2):
        with open_one(files(tmp_path), "inline", f"t{k}") as task:
            play(task, 0, 60)
            steps = task.decisions("all")
            seen.append([(x["state"], x["action"], x["policy"], x["reward"]) for x in steps])
    assert seen[0] == seen[1]


def test_a_task_goes_on_where_it_was_left(stores: Stores) -> None:
    with open_one(stores, "inline") as task:
        play(task, 0, 50)
        number, gap = task.status().policy, task.certificate().gap
    with open_one(stores) as task:
        assert task.certificate().gap == gap
        assert task.ask("s", "new").policy == number
    with open_one(stores, "inline") as task:
        play(task, 50, 60)
        assert task.status().policy > number
        assert task.check() == []


def test_without_what_was_learned_it_is_made_again_from_events(stores: Stores) -> None:
    with open_one(stores, "inline") as task:
        play(task, 0, 50)
        number = task.status().policy
        task.write(lambda tx, _: tx._write("DELETE FROM snapshots", ()))  # type: ignore[attr-defined]
        task.planner._agent = None
        play(task, 50, 55)
        assert task.status().policy > number
        assert task.check() == []


def test_what_is_packed_is_what_its_layout_says() -> None:
    """If an agent holds anything else from now on, `LAYOUT` has to be this version."""
    assert LAYOUT == "0.15.0"
    names = sorted(TaskAgent(Declaration.make("t", ["a"], 2, 0.5)).state())
    assert (len(names), zlib.crc32(" ".join(names).encode())) == (72, 1185622419)


@pytest.mark.parametrize("how", ["damaged", "of another version"])
def test_what_cannot_be_unpacked_is_made_again(
    stores: Stores, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    with open_one(stores, "inline") as task:
        play(task, 0, 50)
        status = task.status()
        if how == "damaged":
            write = "UPDATE snapshots SET blob = substr(blob, 1, 1000)"
            task.write(lambda tx, _: tx._write(write, ()))  # type: ignore[attr-defined]
        else:
            monkeypatch.setattr(planning, "LAYOUT", "0.0.1")
    with open_one(stores, "inline") as task:
        assert task.certificate().episodes == 50
        play(task, 50, 55)
        assert task.status().policy > status.policy
        assert task.check() == []


def test_a_snapshot_is_compared_with_events(tmp_path: Path) -> None:
    with open_one(files(tmp_path), "inline") as task:
        play(task, 0, 30)
        assert task.check() == []
        task.planner.agent().experience.c[0] += 1  # as if it was counted twice
        assert any(line.startswith("c[0]: ") for line in task.check())


def test_a_agent_is_packed_and_unpacked(tmp_path: Path) -> None:
    with open_one(files(tmp_path), "inline") as task:
        play(task, 0, 40)
        agent = task.planner.agent()
        other, arrays = TaskAgent(task.declaration), unpack(pack(agent))
        assert arrays is not None
        other.restore(arrays)
        assert agent.differences(other) == []
        assert (other.seq, other.number, other.known) == (
            agent.seq,
            agent.number,
            agent.known,
        )


def test_a_thread_plans_while_others_ask(stores: Stores) -> None:
    with open_one(stores, "background") as task:
        threads = [
            threading.Thread(target=play, args=(task, 100 * k, 100 * k + 50, k)) for k in range(3)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        wait_until(lambda: task.status().made_from > 140)
        assert task.status().error is None
        assert task.check() == []
        assert task.ask("s", "last").policy > 0


def test_one_plans_and_the_others_serve_what_it_makes(stores: Stores) -> None:
    with open_one(stores, "inline") as one, open_one(stores, "inline") as two:
        play(one, 0, 30)
        number = one.status().policy
        assert number > 0
        play(two, 30, 60)
        assert two.status().planner == one.planner.holder
        assert one.status().policy == number  # two did not plan
        assert two.ask("s", "e60").policy == number
        assert two.certificate().episodes == 61
        one.close()  # gives the right to plan back
        play(two, 61, 80)
        assert two.status().policy > number
        assert two.status().planner == two.planner.holder
        assert two.check() == []


def test_a_lease_ends_with_its_time(stores: Stores, clock: Clock) -> None:
    with open_one(stores, "inline") as one, open_one(stores) as two:
        play(one, 0, 10)
        number = one.status().policy
        play(two, 10, 20)
        assert not two.planner.step()
        clock.now += one.planner._lease + 1
        assert two.planner.step()
        assert two.status().policy == number + 1


def test_a_plan_of_somebody_who_was_overtaken_is_not_written(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_one(stores) as one, open_one(stores) as two:
        play(one, 0, 20)
        slow, plan = one.planner, TaskAgent.plan

        def overtaken(agent: TaskAgent) -> Any:
            planned = plan(agent)
            if two._planner is None:  # meanwhile its lease ended, and another planned
                two.write(lambda tx, _: tx.release_lease(slow.holder))
                assert two.planner.step()
            return planned

        monkeypatch.setattr(TaskAgent, "plan", overtaken)
        assert not slow.step()
        newest = one.store.newest_policy(one.number)
        assert newest is not None
        assert newest.number == 1
        assert one.status().planner == two.planner.holder
        assert slow.agent().number == 1  # it goes on from the other's
        assert one.check() == []


def test_planning_that_fails_does_not_stop_serving(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, broken = TaskPlanner.step, threading.Event()
    broken.set()

    def fails(self: TaskPlanner) -> bool:
        if broken.is_set():
            raise ZeroDivisionError("a bug\nin two lines")
        return step(self)

    monkeypatch.setattr(TaskPlanner, "step", fails)
    with open_one(stores, "background") as task:
        play(task, 0, 5)
        wait_until(lambda: task.status().error is not None)
        assert task.status().error == "ZeroDivisionError: a bug in two lines"
        assert "planning failed, and is tried again" in str(task.status())
        play(task, 5, 10)
        broken.clear()
        wait_until(lambda: task.status().policy > 0)
        wait_until(lambda: task.status().error is None)


def test_a_call_that_is_written_does_not_fail_with_the_plan_after_it(
    stores: Stores, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: Any) -> None:
        raise ucfh.StoreFull("the disk is full")

    with open_one(stores, "inline") as task:
        with monkeypatch.context() as patch:
            patch.setattr("ucfh.tasks.sql_transaction.SqlTransaction.publish", full)
            play(task, 0, 3)
            status = task.status()
            assert (status.begun, status.policy, status.error) == (3, 0, "the disk is full")
        play(task, 3, 4)
        assert task.status().policy > 0
        assert task.status().error is None


def test_a_plan_that_cannot_be_written_is_made_again(tmp_path: Path) -> None:
    with ucfh.open_task(tmp_path / "t.db", **TASK, planning="off") as task:
        play(task, 0, 10)
        run = task.store.connection.execute  # type: ignore[attr-defined]
        task.planner.step()
        play(task, 10, 20)
        pages = run("PRAGMA page_count").fetchone()[0]
        run(f"PRAGMA max_page_count={pages}")
        full = 0
        for k in range(20, 400, 20):
            try:
                play(task, k, k + 20)
                task.planner.step()
            except ucfh.StoreFull:
                full += 1
                break
        assert full == 1
        run("PRAGMA max_page_count=1000000")
        play(task, 500, 520)
        assert task.planner.step()
        newest = task.store.newest_policy(task.number)
        assert newest is not None
        assert newest.number == task.planner.agent().number
        assert task.check() == []


def test_what_takes_long_to_pack_is_packed_less_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packs = []

    def slowly(agent: TaskAgent) -> bytes:
        time.sleep(0.2)
        packs.append(agent.number)
        return pack(agent)

    monkeypatch.setattr(planning, "pack", slowly)
    with open_one(files(tmp_path), "inline") as task:
        task.planner._sparing = True
        play(task, 0, 20)
        assert task.status().policy > 5
        assert packs == [1]
        found = task.store.snapshot(task.number)
        assert found is not None
        assert found[0] < task.store.last_seq(task.number)
    with open_one(files(tmp_path)) as task:
        assert task.certificate().episodes == 20
        assert task.check() == []
