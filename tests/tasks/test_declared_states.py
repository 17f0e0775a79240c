"""Tasks whose states are declared: what is certified, before data and with them."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ucfh
from support.stores import Stores, files
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.sparse_counts import SparseCounts
from ucfh.tasks import planner as planning
from ucfh.tasks.sql_reading import with_checksum, without_checksum
from ucfh.tasks.task import Task

TASK: dict[str, Any] = {"actions": ["call", "mail"], "horizon": 3, "epsilon": 0.2}
DECLARED: dict[str, dict[str, Any]] = {
    "list": {"states": ["new", "warm"]},
    "dict": {"states": {"new": ["call"], "warm": ["call", "mail"]}},
    "terminal state": {"states": {"new": ["call", "mail"], "over": []}},
    "timeout state": {"states": ["new", "warm"], "timeout": 60, "on_timeout": ("left", 0)},
    "declared timeout state": {"states": ["new", "left"], "timeout": 60, "on_timeout": ("left", 0)},
    "segments": {"states": ["new", "warm"], "segments": [1]},
    "every step": {"states": ["new", "warm"], "segments": True},
    "max_return": {"states": ["new", "warm"], "max_return": 1},
    "rewards of both signs": {"states": ["new", "warm"], "rewards": (-2, 1)},
    "negative rewards": {"states": ["new", "warm"], "rewards": (-3, -1)},
    "negative rewards, max_return": {"states": ["new"], "rewards": (-2, 1), "max_return": 1},
    "none declared": {},
}


def largest_return(options: dict[str, Any]) -> float:
    """The largest return that a declaration allows; an episode may end at once, with reward 0."""
    high = max(0.0, options.get("rewards", (0, 1))[1])
    return float(min(3 * high, options.get("max_return", np.inf)))


@pytest.mark.parametrize("name", DECLARED)
def test_nothing_is_certified_without_data(tmp_path: Path, name: str) -> None:
    options = {**TASK, **DECLARED[name]}
    with ucfh.open_task(files(tmp_path)("t"), **options, planning="inline") as task:
        for asked in (False, True):
            if asked:
                task.ask("new", "first")
            known = task.certificate()
            assert known.upper == pytest.approx(largest_return(options))
            assert not known.certified
            assert known.contradiction is None
            assert not task.status().certified


def play(task: Task, first: int, last: int, truth: dict[tuple[str, str], Any]) -> set[Any]:
    """Simulate customers; the (state, action) pairs that they were in."""
    random, tried = Random(0), set()
    for k in range(first, last):
        decision: Any = task.ask("new", f"customer-{k}")
        while decision is not None:
            key = decision.state, decision.action
            tried.add(key)
            bought, warm = truth[key]
            if random.random() < bought:
                decision = task.tell(decision, reward=1, done=True)
            else:
                after = "warm" if random.random() < warm else "new"
                decision = task.tell(decision, reward=0, state=after)
    return tried


TRUTH = {
    ("new", "call"): (0.1, 0.9),
    ("new", "mail"): (0.05, 0.1),
    ("warm", "call"): (0.1, 0.5),
    ("warm", "mail"): (0.9, 0.5),
}


def best_value() -> float:
    """The value of an optimal policy of `TRUTH` from state "new", by dynamic programming."""
    value = {"new": 0.0, "warm": 0.0}
    for _ in range(3):
        value = {
            s: max(
                p + (1 - p) * (w * value["warm"] + (1 - w) * value["new"])
                for (s2, _), (p, w) in TRUTH.items()
                if s2 == s
            )
            for s in value
        }
    return value["new"]


@pytest.mark.parametrize("name", ["list", pytest.param("none declared", marks=pytest.mark.verify)])
def test_simulated_customers_are_certified_and_right(tmp_path: Path, name: str) -> None:
    options = {**TASK, "epsilon": 0.4, "max_return": 1, **DECLARED[name]}
    with ucfh.open_task(files(tmp_path)("t"), **options, planning="inline") as task:
        assert play(task, 0, 500, TRUTH) == set(TRUTH)
        known, best = task.certificate(), best_value()
        assert known.contradiction is None
        assert known.certified
        assert known.lower <= best <= known.upper
        assert task.policy().act(0, "warm") == "mail"


def test_a_store_with_wrong_bounds_recovers(stores: Stores) -> None:
    """As an older version wrote it: a plan and a snapshot with an upper bound of 0."""
    options = {**TASK, "states": ["new", "warm"], "max_return": 1}

    def spoil(tx: Any, _: Any) -> None:
        for table, column in (("plans", "summary"), ("reports", "content")):
            for number, text in tx._read(f"SELECT number, {column} FROM {table}", ()):
                found = json.loads(without_checksum(text))
                del found["layout"]
                found |= {"upper": 0.0, "lower": 0.0, "gap": 0.0, "certified": True, "frozen": 7}
                given = with_checksum(json.dumps(found)), number
                tx._write(f"UPDATE {table} SET {column}=?1 WHERE number=?2", given)

    with ucfh.open_task(stores("t"), **options, planning="off") as task:
        play(task, 0, 30, TRUTH)
        agent = task.planner.agent()
        agent.agent.exploration.upper = 0.0
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(planning, "LAYOUT", "0.11.0")
            assert task.planner.step()
            task.planner.report()
        task.write(spoil)
    with ucfh.open_task(stores("t"), **options, planning="off") as task:
        status, view = task.status(), task.view()
        assert (status.policy, status.upper, status.certified) == (1, None, False)
        assert (view["state"], view["plans"], view["report"]) == ("learning", [], None)
        assert task.certificate().upper == 1
        assert task.planner.step()  # though nothing is new
        assert task.planner.agent().agent.exploration.number >= 7
        task.planner.report()
        assert (task.status().policy, task.status().upper) == (2, 1)
        assert not task.status().refuted
        assert not task.planner.step()
        assert task.check() == []


def test_a_state_cannot_be_added_to_a_closed_state_space() -> None:
    data = SparseCounts(2, 2)
    data.find()
    UnknownStateBounds(2, 0.1, closed=True).bounds(data)
    with pytest.raises(ValueError, match="closed"):
        data.find()
