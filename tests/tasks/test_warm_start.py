"""Logs and warm starts: every outcome counts once, and none is left out because of its value."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ucfh
from support.stores import Stores, files
from support.tasks import of_task
from ucfh.logs.assumptions import REPLACED
from ucfh.tasks.task import Task

COIN: dict[str, Any] = {"actions": ["a", "b"], "horizon": 4, "epsilon": 0.5, "planning": "off"}
HEADER = "episode,t,state,action,reward,next_state,done"


def open_coin(path: str, **more: Any) -> Task:
    return ucfh.open_task(path, **{**COIN, **more})


def write_log(path: Path, rows: list[str]) -> Path:
    path.write_text("\n".join([HEADER, *rows, ""]))
    return path


# conflicting reports


def test_a_task_with_conflicting_reports_has_no_log(stores: Stores, tmp_path: Path) -> None:
    """Without the steps after a conflict, outcomes would be selected by what caused it."""
    with open_coin(stores("a")) as task, open_coin(stores("b"), name="b") as other:
        task.ask("s", "e")
        task.tell(("e", 0), reward=0, state="s")
        task.tell(("e", 1), reward=0, done=True)
        assert other.warm_start(task) == 1
        with pytest.raises(ucfh.Conflict):
            task.tell(("e", 0), reward=1, state="s")
        with pytest.raises(ucfh.InvalidReport, match=r"task 'task' has 1 outcome\b"):
            task.export(tmp_path / "log.csv")
        assert list(tmp_path.glob("log.csv*")) == []
        with pytest.raises(ucfh.InvalidReport):
            other.warm_start(task)
        assert other.status().begun == 1
        assert [x["t"] for x in task.decisions("all")] == [0, 1]


# the same episode again


def test_an_episode_that_goes_on_is_counted_once(stores: Stores, tmp_path: Path) -> None:
    with open_coin(stores("a")) as task, open_coin(stores("b")) as other:
        task.tell(task.ask("s", "whole"), reward=0, done=True)
        task.ask("s", "e")
        for t in range(4):
            task.tell(("e", t), reward=1, state="s")
            task.export(tmp_path / "log.csv", force=True)
            assert other.warm_start(tmp_path / "log.csv") == 2 * (t == 0)
        # the open decision was lost at the first import, and stays so
        status = other.status()
        assert (status.begun, status.outcomes, status.lost) == (2, 2, 1)
        assert other.check() == []


def test_new_steps_of_an_imported_episode_are_added(stores: Stores, tmp_path: Path) -> None:
    rows = [f"{e},{t},s,a,{(e + t) % 2},s,0" for e in range(3) for t in range(4)]
    path = tmp_path / "log.csv"
    with open_coin(stores("t")) as task, open_coin(stores("u"), name="u") as whole:
        assert task.warm_start(write_log(path, [*rows[:2], *rows[4:]])) == 3
        assert task.status().outcomes == 10
        assert task.warm_start(write_log(path, rows)) == 0
        assert task.warm_start(write_log(path, [*rows[:2], *rows[4:]])) == 0  # an older one
        assert task.status().outcomes == 12
        whole.warm_start(path)
        whole.warm_start(write_log(path, rows))
        assert of_task(task)[0] == of_task(whole)[0]


def test_another_log_with_the_same_names_is_refused(stores: Stores, tmp_path: Path) -> None:
    """Nothing of it is counted, nor is an episode dropped that happens to agree."""
    first = [f"{e},0,s,a,{e % 2},,1" for e in range(6)]
    second = [f"{e},0,s,a,{e // 3 % 2},,1" for e in range(8)]
    with open_coin(stores("t")) as task:
        assert task.warm_start(write_log(tmp_path / "one.csv", first)) == 6
        with pytest.raises(ucfh.Conflict, match=r"two\.csv: step 0 of episode '1 \(log\)'"):
            task.warm_start(write_log(tmp_path / "two.csv", second))
        assert (task.status().begun, task.status().conflicts) == (6, 0)
        assert task.warm_start(write_log(tmp_path / "moved.csv", first)) == 0
        renamed = [f"two-{row}" for row in second]
        assert task.warm_start(write_log(tmp_path / "two.csv", renamed)) == 8
        assert (task.status().begun, task.status().conflicts) == (14, 0)


@pytest.mark.parametrize("field", [",0,s,b,1,s,0", ",0,z,a,1,s,0", ",0,s,a,0,s,0", ",0,s,a,1,z,0"])
def test_any_difference_is_found(tmp_path: Path, field: str) -> None:
    with open_coin(files(tmp_path)("t")) as task:
        last = "2,0,s,a,1,,1"
        task.warm_start(write_log(tmp_path / "log.csv", ["1,0,s,a,1,s,0", last]))
        with pytest.raises(ucfh.Conflict):
            task.warm_start(write_log(tmp_path / "log.csv", [f"1{field}", last]))


def test_names_in_logs_do_not_change_as_a_task_grows(stores: Stores, tmp_path: Path) -> None:
    names = ["7", "07", " 7", "7.0", '"07"', "e"]
    with open_coin(stores("a")) as task, open_coin(stores("b")) as other:
        for name in names:
            task.tell(task.ask("s", name), reward=1, done=True)
            task.export(tmp_path / "log.csv", force=True)
            assert other.warm_start(tmp_path / "log.csv") == 1
        assert of_task(other) == of_task(task)


def test_a_task_that_reaches_another_on_two_ways_counts_once(stores: Stores) -> None:
    with (
        open_coin(stores("a"), name="a") as first,
        open_coin(stores("b"), name="b") as second,
        open_coin(stores("c"), name="c") as third,
    ):
        first.tell(first.ask("s", "e"), reward=1, done=True)
        assert second.warm_start(first) == 1
        assert third.warm_start(first) == 1
        assert third.warm_start(second) == 0
        assert first.warm_start(second) == 0


def test_the_steps_of_a_task_keep_their_order(stores: Stores) -> None:
    """An action may depend on an episode that began later, whose outcomes then come first."""
    with open_coin(stores("a"), name="a") as task, open_coin(stores("b")) as other:
        task.ask("s", "e")
        task.tell(task.ask("s", "f"), reward=1, state="s")
        task.tell(("e", 0), reward=1, state="s")
        task.tell(("f", 1), reward=1, done=True)
        other.warm_start(task)
        assert [(x["episode"][0], x["t"]) for x in other.decisions("all")] == [
            ("e", 0), ("f", 0), ("f", 1), ("e", 1),
        ]  # fmt: skip


def test_an_import_that_was_interrupted_goes_on(
    stores: Stores, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ucfh.tasks.warm_start.STEPS_PER_TRANSACTION", 3)
    path = write_log(
        tmp_path / "log.csv", [f"{e},{t},s,a,1,s,0" for e in range(3) for t in range(4)]
    )
    with open_coin(stores("t")) as task:
        write, calls = task.write, list[Any]()

        def interrupted(call: Any) -> Any:
            calls.append(call)
            if len(calls) == 6:  # after comparing all, and writing one part
                raise KeyboardInterrupt
            return write(call)

        monkeypatch.setattr(task, "write", interrupted)
        with pytest.raises(KeyboardInterrupt):
            task.warm_start(path)
        assert task.status().outcomes == 3
        assert task.warm_start(path) == 2
        assert (task.status().begun, task.status().outcomes) == (3, 12)
        assert any("log.csv" in x for x in task.certificate().assumed)


# assumptions


def test_reported_actions_are_assumed_of_the_next_task(stores: Stores, tmp_path: Path) -> None:
    with open_coin(stores("a"), name="a") as task, open_coin(stores("b")) as other:
        task.ask("s", "e")
        task.tell(("e", 0), reward=1, done=True, action="b")
        other.warm_start(task)
        other.ask("s", "own")
        other.tell(("own", 0), reward=1, done=True, action="b")
        assert other.certificate().assumed.count(REPLACED) == 1
        with open_coin(stores("c"), name="c") as third:
            third.warm_start(other)
            assumed = third.certificate().assumed
            assert REPLACED in assumed
            assert any("task 'a'" in x for x in assumed)
        task.export(tmp_path / "log.csv")
        assert REPLACED in (tmp_path / "log.csv.toml").read_text()


# models


MASKED: dict[str, Any] = {**COIN, "horizon": 2, "planning": "inline"}


def model() -> ucfh.MDP:
    """The second action is the best one everywhere."""
    moves = np.zeros((2, 2, 2))
    moves[:, :, 1] = 1
    pays = np.array([[0.0, 1.0], [0.0, 1.0]])
    return ucfh.MDP(moves, pays, 2, 0, state_names=["x", "y"], action_names=["a", "b"])


@pytest.mark.parametrize("states", [None, {"x": ["a"], "y": ["a", "b"]}])
def test_a_model_recommends_only_actions_that_a_state_has(stores: Stores, states: Any) -> None:
    with ucfh.open_task(stores("t"), **MASKED, states=states) as task:
        assert task.warm_start(model()) is None
        taken = set()
        for k in range(12):
            decision: ucfh.Decision | None = task.ask("x", f"e{k}", actions=["a"])
            assert decision is not None
            assert decision.action == "a"
            while decision is not None:
                taken.add((decision.state, decision.action))
                decision = task.tell(decision, reward=1, state="y")
        assert ("y", "b") in taken
        assert task.status().error is None
        assert task.check() == []


@pytest.mark.parametrize("told", [False, True])
def test_a_stored_action_that_a_state_does_not_have(stores: Stores, told: bool) -> None:
    """It is reported, and no traceback."""
    with ucfh.open_task(stores("t"), **{**MASKED, "planning": "off"}) as task:
        task.ask("x", "e0", actions=["a"])
        task.tell(("e0", 0), reward=1, done=True)

        def damage(tx: Any, _: object) -> None:
            tx.decide(tx.begin("e1", 0), 0, 1, 1, 0, None)

        task.write(damage)
        if told:
            task.tell(("e1", 0), reward=1, done=True)
        assert len(task.check()) == 1
        with pytest.raises(ucfh.StoreError):
            task.certificate()
