"""Steps that somebody else chose."""

from __future__ import annotations

from typing import Any

import pytest

import ucfh
from support.stores import Clock, Stores
from ucfh.tasks.task import Task


@pytest.fixture
def shop(stores: Stores) -> Any:
    with ucfh.open_task(
        stores("shop"), actions=["greet", "wait"], horizon=3, epsilon=0.5, planning="off"
    ) as task:
        yield task


def test_a_whole_episode_is_recorded(shop: Task) -> None:
    shop.record("v1", 0, "door", "wait", 0.5, "till")
    shop.record("v1", 1, "till", "greet", 1, done=True)
    steps = shop.decisions("all")
    assert [(x["action"], x["policy"], x["reward"]) for x in steps] == [
        ("wait", -1, 0.5),
        ("greet", -1, 1.0),
    ]
    status = shop.status()
    assert (status.begun, status.open, status.outcomes) == (1, 0, 2)
    assert shop.check() == []
    with pytest.raises(ucfh.EpisodeOver, match="over since step 1"):
        shop.record("v1", 2, "door", "wait", 0, "till")


def test_recording_again_changes_nothing(shop: Task) -> None:
    for _ in range(2):
        shop.record("v1", 0, "door", "wait", 0.5, "till")
    shop.record("v1", 1, "till", "wait")
    shop.record("v1", 0, "door", "wait", 0.5, "till")
    assert shop.status().decisions == 2
    with pytest.raises(ucfh.Conflict, match="counts as missing"):
        shop.record("v1", 0, "door", "wait", 0.25, "till")
    with pytest.raises(ucfh.Conflict, match='recorded with the action "wait"'):
        shop.record("v1", 0, "door", "greet", 0.5, "till")
    assert shop.status().conflicts == 1


def test_an_outcome_that_is_not_known_yet(shop: Task) -> None:
    shop.record("v1", 0, "door", "wait")
    assert shop.status().waiting == 1
    with pytest.raises(ucfh.OutOfOrder, match="is at step 0, not 1"):
        shop.record("v1", 1, "till", "wait", 0, "till")
    shop.record("v1", 0, "door", "wait", 0.5, "till")  # and now it is
    shop.record("v1", 1, "till", "wait")
    told = shop.tell(("v1", 1), reward=0, state="door")  # or it is told, and the task goes on
    assert told == ucfh.Decision("v1", 2, "door", "greet", 0)
    assert shop.check() == []


def test_the_task_takes_over_from_a_person(shop: Task) -> None:
    shop.record("v1", 0, "door", "wait", 0.5, "till")
    status = shop.status()
    assert (status.open, status.waiting) == (1, 0)
    with pytest.raises(ucfh.Conflict, match='is in state "till" at step 1, not "door"'):
        shop.ask("door", "v1")
    with pytest.raises(ucfh.OutOfOrder, match="no open decision"):
        shop.abandon("v1")
    second = shop.ask("till", "v1")
    assert second == ucfh.Decision("v1", 1, "till", "greet", 0)
    assert shop.tell(("v1", 0), reward=0.5, state="till") == second
    assert shop.check() == []


def test_telling_a_recorded_outcome_again_asks_for_the_next(shop: Task) -> None:
    shop.record("v1", 0, "door", "wait", 0.5, "till")
    second = shop.tell(("v1", 0), reward=0.5, state="till")
    assert second == ucfh.Decision("v1", 1, "till", "greet", 0)


def test_a_person_takes_over_from_the_task(shop: Task) -> None:
    shop.ask("door", "v1")
    with pytest.raises(ucfh.Conflict, match='action "greet" was given'):
        shop.record("v1", 0, "door", "wait")
    shop.record("v1", 0, "door", "greet", 0.5, "till")  # what was given out was done
    shop.record("v1", 1, "till", "wait", 0.5, "till")
    assert [x["policy"] for x in shop.decisions("all")] == [0, -1]
    assert [x["kind"] for x in shop.faults()] == ["action"]
    assert shop.check() == []


def test_a_late_record_is_kept_and_not_counted(stores: Stores, clock: Clock) -> None:
    with ucfh.open_task(
        stores("shop"), actions=["a"], horizon=2, epsilon=0.5, timeout=60, planning="off"
    ) as task:
        task.record("v1", 0, "s", "a")
        clock.now += 61
        with pytest.warns(ucfh.LateOutcomeWarning):
            task.record("v1", 0, "s", "a", 1, "s")
        assert task.status().lost == 1
        assert task.check() == []


def test_what_cannot_be_recorded(shop: Task) -> None:
    shop.ask("till", "v0", actions=["wait"])
    with pytest.raises(
        ucfh.InvalidReport, match='unknown action "sing": the actions are "greet", "wai'
    ):
        shop.record("v1", 0, "door", "sing", 0, "till")
    with pytest.raises(ucfh.InvalidReport, match='"till" does not have the action "greet"'):
        shop.record("v1", 0, "till", "greet", 0, "till")
    with pytest.raises(ucfh.InvalidReport, match="has no next state"):
        shop.record("v1", 0, "door", "wait", 0.5)
    with pytest.raises(ucfh.InvalidReport, match="not a number"):
        shop.record("v1", 0, "door", "wait", None, "till")
    with pytest.raises(ucfh.InputError, match="t = -1 must be"):
        shop.record("v1", -1, "door", "wait", 0, "till")
    assert shop.status().begun == 1
    assert shop.states.labels[1:] == ["till"]


def test_recorded_steps_come_with_an_assumption(shop: Task) -> None:
    asked = shop.ask("door", episode="v0")
    shop.tell(asked, reward=0, done=True)
    sentence = "steps that the task did not choose were recorded in the order"
    assert not any(x.startswith(sentence) for x in shop.certificate().assumed)
    shop.record("v1", 0, "door", "wait", 0.5, "till")
    assert any(x.startswith(sentence) for x in shop.certificate().assumed)
