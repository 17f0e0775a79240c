"""Outcomes that are reported in two ways, and actions that differ from the recommended ones."""

from __future__ import annotations

from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ucfh
from support.stores import Stores, files
from support.tasks import RandomEvents
from ucfh.sparse_counts import ARRAYS
from ucfh.tasks.agent import TaskAgent
from ucfh.tasks.records import OutcomeRecord
from ucfh.tasks.task import Task

TASK: dict[str, Any] = {"actions": ["call", "mail"], "horizon": 2, "epsilon": 0.5}


def open_one(stores: Stores, planning: str = "inline", **more: Any) -> Task:
    return ucfh.open_task(stores("t"), **{**TASK, **more}, planning=planning)


def answers(task: Task) -> tuple[Any, ...]:
    known = task.certificate()
    return known.upper, known.lower, known.gap, known.lost, known.conflicts


def test_a_second_outcome_makes_the_first_one_missing(stores: Stores) -> None:
    with open_one(stores) as task:
        task.ask("new", "a")
        after = task.tell(("a", 0), reward=1, state="warm")
        assert after is not None
        for _ in range(2):
            with pytest.raises(ucfh.Conflict):
                task.tell(("a", 0), reward=0, state="warm")
        assert task.tell(("a", 0), reward=1, state="warm") == after  # a retry
        known, status = task.certificate(), task.status()
        assert (known.lost, known.conflicts, status.conflicts) == (1, 1, 1)
        assert known.as_dict()["conflicts"] == 1
        assert any("contradictory reports" in x for x in known.assumed)
        assert task.planner.agent().experience.visits.sum() == 0
        task.tell(("a", 1), reward=1, done=True)  # in which state that was remains unknown
        assert task.certificate().lost == 2
        assert task.planner.agent().experience.visits.sum() == 0
        assert task.check() == []
    with open_one(stores, "off") as task:
        assert task.certificate().conflicts == 1
        assert task.check() == []


def test_what_was_remembered_from_a_contradicted_outcome_is_dropped(tmp_path: Path) -> None:
    """The certificate is that of a task which never had the outcome."""
    with open_one(files(tmp_path), max_return=1) as task:
        for k in range(40):
            task.ask("new", f"e{k}")
            task.tell((f"e{k}", 0), reward=1, done=True)
        before = task.certificate()
        assert before.lower > 0
        assert task.status().gap is not None
        for k in range(39):
            with pytest.raises(ucfh.Conflict):
                task.tell((f"e{k}", 0), reward=0, done=True)
        after = task.certificate()
        assert (after.lower, after.conflicts) == (0.0, 39)
        assert after.gap > before.gap
        assert not task.status().certified
    with open_one(files(tmp_path), max_return=1, planning="off") as task:
        assert task.certificate().gap == pytest.approx(after.gap)


def test_a_stale_plan_shows_no_bounds(tmp_path: Path) -> None:
    with open_one(files(tmp_path), "off") as task:
        task.ask("new", "a")
        task.tell(("a", 0), reward=1, done=True)
        assert task.planner.step()
        assert task.status().gap is not None
        with pytest.raises(ucfh.Conflict):
            task.tell(("a", 0), reward=0, done=True)
        status, view = task.status(), task.view()
        assert (status.upper, status.gap, status.certified, status.refuted) == (
            None, None, False, False,
        )  # fmt: skip
        assert view["state"] == "learning"
        assert task.planner.step()
        assert task.status().gap is not None


@pytest.mark.parametrize("seed", range(8))
def test_a_conflict_counts_like_an_outcome_that_never_came(seed: int) -> None:
    stream = RandomEvents(seed, 80)
    told = [x for x in stream.events if isinstance(x, OutcomeRecord)]
    if not told:
        return
    one = told[len(told) // 2]
    doubtful = {(one.episode, one.t, -1)}
    agent, other = TaskAgent(stream.task, sorted(doubtful)), stream.agent()
    for mask in stream.masks:
        agent.add_state(None if mask.all() else mask)
    agent.add_events(stream.events)
    gone = [
        x
        for x in stream.events
        if not (isinstance(x, OutcomeRecord) and x.episode == one.episode and x.t >= one.t)
    ]
    other.add_events(gone)
    for name in ARRAYS:
        np.testing.assert_array_equal(
            getattr(agent.experience, name), getattr(other.experience, name), err_msg=name
        )
    bounds = [x.plan().summary for x in (agent, other)]
    for name in ("upper", "lower", "gap"):
        assert bounds[0][name] == bounds[1][name]
    again = TaskAgent(stream.task, sorted(doubtful))
    again.restore(agent.state())
    assert again.differences(agent) == []


def play_shared(task: Task, episodes: int, chance: float, seed: int) -> None:
    """Two customers share each name, and the better outcome is reported first."""
    random = Random(seed)
    for k in range(episodes):
        task.ask("new", f"e{k}")
        pair = sorted((random.random() < chance for _ in range(2)), reverse=True)
        for bought in pair:
            try:
                task.tell((f"e{k}", 0), reward=int(bought), done=True)
            except ucfh.Conflict:
                continue


@pytest.mark.parametrize("seed", range(3))
def test_shared_names_certify_nothing_wrong(tmp_path: Path, seed: int) -> None:
    more = {"horizon": 1, "actions": ["call"], "epsilon": 0.3}
    with open_one(files(tmp_path), "off", **more) as task:
        play_shared(task, 400, 0.5, seed)
        known = task.certificate()
        assert known.lower <= 0.5 <= known.upper
        assert known.conflicts > 100


def test_an_outcome_counts_for_the_action_that_was_taken(stores: Stores) -> None:
    with open_one(stores) as task:
        first = task.ask("new", "a")
        assert first.action == "call"
        after = task.tell(first, reward=1, state="warm", action="mail")
        assert after is not None
        assert task.tell(first, reward=1, state="warm", action="mail") == after
        (step,) = task.decisions("told")
        assert (step["action"], step["taken"]) == ("call", "mail")
        agent = task.planner.agent()
        number = agent.experience.pairs.number
        assert agent.experience.visits[number[1]].tolist() == [0, 1]
        assert any(
            "another action than the recommended one" in x for x in task.certificate().assumed
        )
        with pytest.raises(ucfh.Conflict):
            task.tell(first, reward=1, state="warm")
        assert task.certificate().conflicts == 1
        assert task.check() == []


def test_a_recorded_step_may_differ_from_the_recommendation(stores: Stores) -> None:
    with open_one(stores) as task:
        task.ask("new", "a")
        with pytest.raises(ucfh.Conflict, match="together with its outcome"):
            task.record("a", 0, "new", "mail")
        task.record("a", 0, "new", "mail", 1, "warm")
        task.record("a", 0, "new", "mail", 1, "warm")
        task.record("a", 1, "warm", "call")
        with pytest.raises(ucfh.Conflict):  # two statements on what was done
            task.tell(("a", 1), reward=0, done=True, action="mail")
        assert [x["taken"] for x in task.decisions("all")] == ["mail", "call"]
        assert task.status().conflicts == 1
        assert task.check() == []


def test_an_unknown_action_is_refused(tmp_path: Path) -> None:
    with open_one(files(tmp_path)) as task:
        task.ask("new", "a")
        with pytest.raises(ucfh.InvalidReport):
            task.tell(("a", 0), reward=0, done=True, action="visit")
        assert task.status().waiting == 1


def test_an_episode_with_another_action_scores_nothing_more() -> None:
    stream = RandomEvents(0)
    while (stream.H, stream.A, stream.S) != (2, 2, 2) or len(stream.have[1]) < 2:
        stream = RandomEvents(int(stream.rng.integers(2**32)))
    agent = stream.agent()
    given, other = stream.have[1]
    agent.scores.open[1] = 0, 0
    agent.scores.x.append(0.0)
    agent.delayed.decide(1, 0, 1, given)
    agent.experience.decide(np.array([0]), np.array([1]))
    agent.add_events([OutcomeRecord(2, 1, 0, stream.units.high, 1, other)])
    assert agent.scores.x == [0.0]
    assert 1 not in agent.scores.open
    assert agent.replaced == 1


def test_actions_that_were_taken_are_exported(tmp_path: Path) -> None:
    with open_one(files(tmp_path)) as task:
        for k in range(3):
            task.ask("new", f"e{k}")
            task.tell((f"e{k}", 0), reward=1, state="warm", action="mail")
            task.tell((f"e{k}", 1), reward=1, done=True)
        done = task.export(tmp_path / "log.csv")
        assert (done.episodes, done.steps, done.lost) == (3, 6, 0)
        rows = (tmp_path / "log.csv").read_text().splitlines()
        assert sum(",0,new,mail," in row for row in rows) == 3


def test_a_return_above_max_return_is_refused(stores: Stores) -> None:
    with open_one(stores, max_return=1) as task:
        task.ask("new", "a")
        task.tell(("a", 0), reward=0.75, state="warm")
        with pytest.raises(ucfh.InvalidReport, match="max_return 1"):
            task.tell(("a", 1), reward=0.5, done=True)
        assert task.status().waiting == 1
        assert task.tell(("a", 1), reward=0.25, done=True) is None
        task.record("b", 0, "new", "call", 0.75, "warm")
        with pytest.raises(ucfh.InvalidReport, match="max_return 1"):
            task.record("b", 1, "warm", "call", 0.5, done=True)


def test_negative_rewards_are_summed_at_the_end(tmp_path: Path) -> None:
    with open_one(files(tmp_path), max_return=1, rewards=(-1, 2)) as task:
        task.ask("new", "a")
        task.tell(("a", 0), reward=2, state="warm")
        with pytest.raises(ucfh.InvalidReport, match="max_return 1"):
            task.tell(("a", 1), reward=0, done=True)
        assert task.tell(("a", 1), reward=-1, done=True) is None
