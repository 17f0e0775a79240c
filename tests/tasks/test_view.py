"""What is shown of a task, from its store alone, in every state that it can be in."""

from __future__ import annotations

import json
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ucfh
from support.stores import Stores
from ucfh import __version__
from ucfh.tasks.planner import changes
from ucfh.tasks.records import StoredPolicy
from ucfh.tasks.task import Task

CALLS: dict[str, Any] = {"actions": ["call", "mail"], "horizon": 3, "max_return": 1}
WORKS = {"call": 0.6, "mail": 0.2}


def open_calls(store: str | Path, epsilon: float = 0.4, planning: str = "inline") -> Task:
    return ucfh.open_task(store, "calls", epsilon=epsilon, planning=planning, **CALLS)


def simulate(task: Task, first: int, last: int, seed: int = 0) -> None:
    draw = Random(seed)
    for customer in range(first, last):
        decision: ucfh.Decision | None = task.ask("new", episode=f"customer-{customer}")
        while decision is not None:
            bought = draw.random() < WORKS[decision.action]
            decision = task.tell(decision, reward=int(bought), state="new", done=bought)


def test_a_new_task(stores: Stores) -> None:
    with open_calls(stores("calls")) as task:
        view = task.view()
        table = task.policy_table()
    assert view["state"] == "new"
    assert view["headline"] == "Nothing is known yet: no outcome is known."
    assert (view["plans"], view["report"], view["remaining"]) == ([], None, None)
    assert view["version"] == __version__
    assert (table["policy"], table["states"], table["table"], table["changed"]) == (0, [], [], [])


def test_from_learning_to_certified(tmp_path: Path) -> None:
    """Who opens the store later, and plans nothing, sees the same."""
    with open_calls(tmp_path / "calls.db") as task:
        simulate(task, 0, 25)
        task.planner.report()
        learning, number = task.view(), task.status().policy
        simulate(task, 25, 200)
        task.planner.report()
        task.ask("later", episode="somebody")
        certified, known = task.view(number), task.certificate()
        policy = task.policy()
    assert learning["state"] == "learning"
    assert learning["headline"].startswith("Not certified yet: this policy may lose up to ")
    assert "(90% confidence), and 0.4 is asked for; " in learning["headline"]
    assert [x["number"] for x in learning["plans"]] == list(range(1, number + 1))
    assert certified["state"] == "certified"
    assert certified["headline"].startswith("Certified: this policy loses at most 0.")
    assert certified["plans"][0]["number"] == number + 1
    newest = certified["plans"][-1]
    for key in ("upper", "lower", "gap"):
        assert newest[key] == certified["status"][key]
        assert abs(newest[key] - getattr(known, key)) < 0.05  # a few episodes later
    report = certified["report"]
    assert report["number"] == newest["number"]
    assert {(x["state"], x["action"]) for x in report["missing"]} <= {
        ("new", "call"), ("new", "mail"), (None, None)
    }  # fmt: skip
    assert sum(x["share"] for x in report["missing"]) == pytest.approx(1.0)
    assert report["assumed"] == list(known.assumed)
    assert [x["refuted"] for x in report["tested"]] == [False] * len(report["tested"])
    with open_calls(tmp_path / "calls.db", planning="off") as other:
        seen, table = other.view(number), other.policy_table()
    for view in (seen, certified):
        for key in ("age", "oldest", "planner"):
            del view["status"][key]
        del view["now"]
    assert json.dumps(seen) == json.dumps(certified)
    assert table["states"] == ["new"]
    assert [table["actions"][row[0]] for row in table["table"]] == [
        policy.act(t, "new") for t in range(3)
    ]


def test_refuted(tmp_path: Path) -> None:
    """What is paid depends on the action before: the headline names what is not true."""
    with open_calls(tmp_path / "calls.db", epsilon=0.1) as task:
        draw = Random(1)
        for customer in range(400):
            before = None
            for t in range(3):
                action = draw.choice(["call", "mail"])
                paid = int(before == "call" and draw.random() < 0.9) / 2
                task.record(f"c{customer}", t, "new", action, paid, "new")
                before = action
        assert task.planner.step() or task.status().policy
        task.planner.report()
        view = task.view()
    assert view["state"] == "refuted"
    assert view["headline"].startswith(
        "Not certified: the outcomes contradict the assumption that "
    )
    assert view["remaining"] is None
    finding = view["report"]["findings"][0]
    assert "log" not in finding["remedy"]
    assert finding["assumption"] in view["headline"]
    assert any(x["refuted"] for x in view["report"]["tested"])


def test_a_report_that_has_seen_more_than_its_plan_counts(tmp_path: Path) -> None:
    """A page must not say "certified" beside a finding."""
    with open_calls(tmp_path / "calls.db") as task:
        simulate(task, 0, 200)
        task.planner.report()
        assert task.view()["state"] == "certified"
        kept = task.store.report(task.number)
        assert kept is not None
        kept.content["certificate"]["contradiction"] = "the data contradict the assumptions"
        task.write(lambda tx, _: tx.replace_report(kept))
        view, status = task.view(), task.status()
    assert view["state"] == "refuted"
    assert view["headline"].startswith("Not certified: the bounds contradict each other")
    assert (status.certified, status.refuted) == (False, True)


def test_losses_are_shown_with_what_they_cost(tmp_path: Path) -> None:
    with open_calls(tmp_path / "calls.db") as task:
        simulate(task, 0, 100)
        for customer in range(10):
            task.ask("new", episode=f"gone-{customer}")
            task.abandon(f"gone-{customer}")
        task.ask("new", episode="open")
        task.planner.step()
        task.planner.report()
        losses = task.view()["report"]["losses"]
        known = task.certificate()
    assert losses["lost"] == 10
    assert losses["waiting"] == 1
    assert losses["gap_if_random"] < losses["gap"]
    assert (known.lost, known.waiting) == (10, 1)


def test_a_report_is_owed_until_it_is_made_and_made_once(tmp_path: Path) -> None:
    with open_calls(tmp_path / "calls.db") as task:
        simulate(task, 0, 30)
        task.planner.report()
        first = task.store.report(task.number)
        task.planner.report()
        assert task.store.report(task.number) == first
        assert first is not None
        assert first.number == task.status().policy
        simulate(task, 30, 60)
        task.planner._next_report = np.inf  # too soon: reports take a small part of the time
        task.planner.report()
        assert task.store.report(task.number) == first
        task.planner._next_report = 0.0
        task.planner.report()
        second = task.store.report(task.number)
    assert second is not None
    assert second.number > first.number


def stored(number: int, best: Any, changed: Any) -> StoredPolicy:
    return StoredPolicy(number, 0.0, 1, 1, best, best, changed, {})


def test_when_an_action_last_changed() -> None:
    """Against the whole history: the first plan of the last run of equal actions."""
    random, H = np.random.default_rng(0), 3
    history: list[Any] = []
    before = None
    for number in range(1, 30):
        S = min(6, 1 + number // 4)
        best = random.choice(2, (H, S), p=[0.8, 0.2])
        history.append(best)
        changed = changes(before, best, number)
        for t in range(H):
            for s in range(S):
                k = number
                while k > 1 and s < history[k - 2].shape[1] and history[k - 2][t, s] == best[t, s]:
                    k -= 1
                assert changed[t, s] == k
        before = stored(number, best, changed)
