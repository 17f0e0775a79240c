"""What any database must do for tasks, beyond what calls on tasks show."""

from __future__ import annotations

import threading
from collections.abc import Callable
from functools import partial
from operator import methodcaller
from typing import Any, NoReturn

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import ucfh
from support.stores import Clock, Stores
from ucfh.tasks.errors import Conflict, ErrorRecord, TaskError
from ucfh.tasks.opening import open_store
from ucfh.tasks.records import (
    PlanRecord,
    Report,
    StateRecord,
    StoredPolicy,
    TaskProgress,
    WarmStart,
)
from ucfh.tasks.sql_reading import SqlStore
from ucfh.tasks.store import TaskStore, Transaction

SHOP: dict[str, Any] = {"actions": ["a", "b"], "horizon": 3, "epsilon": 0.5, "planning": "off"}


@pytest.fixture
def store(stores: Stores) -> Any:
    """A store with a task, number 1."""
    made = open_store(stores("store"), create=True)
    assert made.create("task", "{}", [StateRecord(1, '"s"', None)]) == 1
    yield made
    made.close()


def plan(number: int, width: int = 2, known: int = 5) -> StoredPolicy:
    table = np.arange(3 * width).reshape(3, width)
    summary = {"gap": 1 / number}
    return StoredPolicy(number, 10.0 * number, known, 2, table % 2, table % 3, table + 1, summary)


def publishing(
    policy: StoredPolicy, seq: int = 0, snapshot: bytes | None = None
) -> Callable[[Transaction], None]:
    return lambda tx: tx.publish(policy, seq, snapshot)


def take(tx: Transaction, name: str) -> int:
    """Begin an episode with a decision; its number."""
    episode = tx.begin(name, 0)
    tx.decide(episode, 0, 1, 0, 0, None)
    return episode


def refuse(tx: Transaction, name: str, look: bool) -> NoReturn:
    """Write something, and perhaps read it; then refuse the call."""
    take(tx, name)
    tx.add_state(StateRecord(99, '"never"', None))
    if look:
        assert tx.last(name) is not None
        assert [x.number for x in tx.states(1)] == [99]
    raise Conflict("no")


# attempts


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["right", "wrong", "looked"]), min_size=1, max_size=6))
def test_attempts_stand_or_fall_by_themselves(store: TaskStore, calls: list[str]) -> None:
    before = store.counts(1).begun

    def together(tx: Transaction) -> list[Any]:
        answers = []
        for k, how in enumerate(calls):
            name = f"{before}-{k}"

            def call(name: str = name, how: str = how) -> int:
                if how != "right":
                    refuse(tx, name, how == "looked")
                return take(tx, name)

            answers.append(tx.attempt(call))
        return answers

    answers = store.transact(1, together)
    right = [k for k, how in enumerate(calls) if how == "right"]
    assert [k for k, x in enumerate(answers) if not isinstance(x, TaskError)] == right
    names = [x.name for x in store.steps(1, "all", None)]
    assert names[before:] == [f"{before}-{k}" for k in right]
    assert [answers[k] for k in right] == list(range(before + 1, before + 1 + len(right)))
    assert [x.number for x in store.states(1, 0)] == [1]
    assert store.last_seq(1) == before + len(right)
    assert store.check(1) == []


def test_what_is_no_fault_takes_all_back(store: TaskStore) -> None:
    def together(tx: Transaction) -> None:
        tx.attempt(lambda: take(tx, "one"))
        tx.attempt(lambda: refuse(tx, "two", True))
        tx.attempt(lambda: 1 // 0)

    with pytest.raises(ZeroDivisionError):
        store.transact(1, together)
    assert store.counts(1).begun == 0
    store.transact(1, lambda tx: take(tx, "one"))
    assert store.check(1) == []


# plans, reports, heads


def test_plans_are_kept_and_policies_only_while_they_are_needed(store: TaskStore) -> None:
    assert store.plans(1, 0) == []
    assert store.newest_policy(1) is None
    for number in (1, 2, 5):
        store.transact(1, publishing(plan(number)))
    assert store.plans(1, 0) == [PlanRecord(n, 10.0 * n, 5, 2, {"gap": 1 / n}) for n in (1, 2, 5)]
    assert [x.number for x in store.plans(1, 2)] == [5]
    newest = store.newest_policy(1)
    assert newest is not None
    assert newest[:4] == (5, 50.0, 5, 2)
    for found, written in zip(newest[4:7], plan(5)[4:7], strict=True):
        np.testing.assert_array_equal(found, written)
    assert store.transact(1, lambda tx: tx.policy(2)) is None
    assert store.newest_number(1) == 5


def test_a_plan_that_is_written_again_stays_and_another_is_refused(store: TaskStore) -> None:
    store.transact(1, publishing(plan(1), 7, b"first"))
    store.transact(1, publishing(plan(1), 8, b"second"))  # the answer was lost
    assert store.snapshot(1) == (7, b"first")
    with pytest.raises(ucfh.StoreError):
        store.transact(1, publishing(plan(1, known=6)))
    assert [x.known for x in store.plans(1, 0)] == [5]


def test_a_report_replaces_the_last_one(store: TaskStore) -> None:
    assert store.report(1) is None
    for k in (1, 2):
        report = Report(k, 10 * k, 1.5, {"certificate": {"gap": 0.1 * k}, "audit": ["żółć"]})
        store.transact(1, methodcaller("replace_report", report))
        assert store.report(1) == report
    assert store.report(2) is None


def test_heads_of_all_tasks(stores: Stores, clock: Clock) -> None:
    with (
        ucfh.open_task(stores("s"), "slow", **SHOP, timeout=60) as slow,
        ucfh.open_task(stores("s"), "a", **SHOP) as other,
    ):
        assert slow.store.progress() == [
            TaskProgress(1, "slow", 0, 0, None),
            TaskProgress(2, "a", 0, 0, None),
        ]
        slow.ask("s", "e1")
        clock.now += 10
        slow.ask("s", "e2")
        other.tell(other.ask("s", "e1"), reward=0, state="s")
        other.write(lambda tx, _: tx.publish(plan(3), 0, None))
        assert slow.store.progress() == [
            TaskProgress(1, "slow", 2, 0, 1060.0),
            TaskProgress(2, "a", 3, 3, None),
        ]
        slow.abandon("e1")
        assert slow.store.progress()[0] == TaskProgress(1, "slow", 3, 0, 1070.0)


def test_what_is_ready_is_left_as_it_is(store: TaskStore) -> None:
    store.check_ready()
    assert store.lease(0) is None
    assert store.progress() == [TaskProgress(1, "task", 0, 0, None)]


def test_a_beginning_is_written_once(store: TaskStore) -> None:
    one, two = WarmStart("as before", {"s": [0, 1]}), WarmStart("", {})
    for beginning in (one, two, one):
        store.transact(1, methodcaller("add_warm_start", beginning))
    assert store.warm_starts(1) == [one, two]


def test_the_same_fault_is_kept_once(store: TaskStore) -> None:
    one, two = ErrorRecord("late", "e", 0, {"told": 1}), ErrorRecord("late", "e", 1, {"told": 1})
    for evidence in (one, two, one):
        store.transact(1, methodcaller("add_error", evidence))
    assert [x for _, x in store.faults(1)] == [one, two]


# several at once


def test_events_have_no_gaps_whoever_writes(stores: Stores) -> None:
    """Two tasks, two stores each, four threads each: numbers 1, 2, ... in the order of time."""
    opened = [open_store(stores("s"), create=True) for _ in range(2)]
    for name in ("one", "two"):
        opened[0].create(name, "{}", [StateRecord(1, '"s"', None)])
    wrong: list[BaseException] = []

    def work(k: int) -> None:
        try:
            for e in range(15):
                opened[k % 2].transact(1 + k % 4 // 2, partial(take, name=f"{k}-{e}"))
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for task in (1, 2):
        assert [x.seq for x in opened[0].events(task, 0, 100)] == list(range(1, 61))
        asked = [x.asked for x in opened[1].steps(task, "all", None)]
        assert asked == sorted(asked)
        assert opened[0].check(task) == []
    for store in opened:
        store.close()


# caches


@pytest.mark.parametrize(
    ("damage", "found"),
    [
        ("DELETE FROM waiting WHERE episode=1", "1 decisions are listed as open, or not"),
        ("UPDATE waiting SET t=2", "listed with events that are not there"),
        ("DELETE FROM events WHERE seq=2", "their numbers have gaps"),
        ("DELETE FROM episodes WHERE id=2", "of episodes that never began"),
        ("DELETE FROM states WHERE number=2", "3 events are in unknown states"),
        ("DELETE FROM events WHERE kind=0 AND t=0", "2 outcomes have no decision"),
    ],
)
def test_a_check_finds_what_is_wrong(stores: Stores, damage: str, found: str) -> None:
    with ucfh.open_task(stores("shop"), **SHOP) as task:
        task.tell(task.ask("s", "e1"), reward=0, state="s2")
        task.tell(task.ask("s2", "e2"), reward=0, done=True)
        assert isinstance(task.store, SqlStore)
        assert task.store.check(task.number) == []
        task.write(lambda tx, _: tx._write(damage, ()))  # type: ignore[attr-defined]
        assert any(found in line for line in task.store.check(task.number))
