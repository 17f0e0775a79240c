"""Contradicted outcomes of replaced actions: missing in every pair that a report names."""

from __future__ import annotations

import time
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest

import ucfh
from support.command_line import run
from support.stores import Stores, files
from support.tasks import RandomEvents
from ucfh.tasks.delayed_outcomes import DelayedOutcomes
from ucfh.tasks.task import Task

TASK: dict[str, Any] = {"actions": ["a", "b", "c"], "horizon": 1, "epsilon": 0.3, "delta": 0.1}


def open_one(stores: Stores, planning: str = "off", **more: Any) -> Task:
    return ucfh.open_task(stores("t"), **{**TASK, **more}, planning=planning)


def missing(task: Task) -> list[int]:
    """(A,) unknown outcomes of the actions in the first state, in order of the actions."""
    agent = task.planner.agent()
    ahead = agent.delayed.ahead(agent.experience) or agent.experience
    ahead.make_room()
    return [int(ahead.lost[k]) for k in ahead.pairs.number[1] if k >= 0]


def visits(task: Task) -> list[int]:
    """(A,) outcomes that are counted in order, of the actions in the first state."""
    data = task.planner.agent().experience
    return [int(data.visits[k]) for k in data.pairs.number[1] if k >= 0]


@pytest.mark.parametrize(
    ("first", "second"),
    [("b", "b"), ("b", None), (None, "b"), ("c", "b")],
)
@pytest.mark.parametrize("seed", range(2))
def test_erased_bad_outcomes_certify_nothing_wrong(
    tmp_path: Path, first: str | None, second: str | None, seed: int
) -> None:
    """Action b is always taken and pays 1 with probability 1/2; bad outcomes are contradicted."""
    random, calls, again = Random(seed), [], []
    with open_one(files(tmp_path), states=["s"]) as task:
        for i in range(200):
            paid = int(random.random() < 0.5)
            said = first if paid == 0 else "b"
            calls.append(task.asking("s", f"e{i}"))
            calls.append(task.telling((f"e{i}", 0), reward=paid, done=True, action=said))
            if paid == 0:
                other = task.telling((f"e{i}", 0), reward=0, state="s", action=second)
                again.append(other)
            calls.append(task.recording(f"a{i}", 0, "s", "a", 0, None, True))
            calls.append(task.recording(f"c{i}", 0, "s", "c", 0, None, True))
        task.serve(calls)
        assert all(isinstance(x, ucfh.Conflict) for x in task.serve(again))
        known = task.certificate()
        assert known.lower <= 0.5 <= known.upper
        assert known.conflicts == known.lost == len(again)
        assert known.waiting < 600


@pytest.mark.parametrize(
    ("first", "second", "unknown"),
    [
        ("b", "b", [1, 1, 0]),
        ("b", "c", [1, 1, 1]),
        (None, "c", [1, 0, 1]),
        ("b", None, [1, 1, 0]),
        (None, None, [1, 0, 0]),
    ],
)
def test_every_action_that_a_report_names_has_an_unknown_outcome(
    stores: Stores, first: str | None, second: str | None, unknown: list[int]
) -> None:
    with open_one(stores) as task:
        for k in range(2):
            task.record(f"b{k}", 0, "s", "b", 1, None, True)
            task.record(f"c{k}", 0, "s", "c", 1, None, True)
        task.ask("s", "e")
        task.tell(("e", 0), reward=1, done=True, action=first)
        for k in range(3):
            task.record(f"late{k}", 0, "s", "b", 1, None, True)
        with pytest.raises(ucfh.Conflict):
            task.tell(("e", 0), reward=0, done=True, action=second)
        assert missing(task) == unknown
        assert visits(task) == [0, 2 if unknown[1] else 5, 2]
        known = task.certificate()
        assert (known.lost, known.conflicts) == (1, 1)
        assert known.waiting == (3 if unknown[1] else 0)
        assert task.check() == []
        assert task.planner.step()
    with open_one(stores) as task:
        assert missing(task) == unknown
        task.record("more", 0, "s", "b", 1, None, True)
        assert task.check() == []


def test_later_steps_of_the_episode_are_unknown_in_both_pairs(stores: Stores) -> None:
    with open_one(stores, horizon=2) as task:
        task.record("x", 0, "s", "c", 1, None, True)
        task.ask("s", "e")
        task.tell(("e", 0), reward=1, state="w")
        task.tell(("e", 1), reward=1, done=True, action="b")
        with pytest.raises(ucfh.Conflict):
            task.tell(("e", 0), reward=0, state="w")
        waiting = task.planner.agent().delayed.uncounted
        assert [(x.t, x.action, x.contradicted) for x in waiting] == [
            (0, 0, True), (1, 0, True), (1, 1, True),
        ]  # fmt: skip
        assert task.certificate().lost == 2
        assert task.check() == []


def test_an_open_step_with_two_actions_is_unknown_in_both_pairs(stores: Stores) -> None:
    with open_one(stores) as task:
        task.record("p", 0, "s", "a")
        with pytest.raises(ucfh.Conflict, match="own name"):
            task.record("p", 0, "s", "b")
        assert task.certificate().conflicts == 1
        assert missing(task) == [1, 1, 0]
        task.tell(("p", 0), reward=0, done=True)
        assert missing(task) == [1, 1, 0]
        assert task.certificate().lost == 1
        assert task.check() == []


def test_the_order_within_a_pair_survives_a_snapshot(stores: Stores) -> None:
    with open_one(stores, "inline") as task:
        task.ask("s", "given")
        task.record("open", 0, "s", "b")
        task.tell(("given", 0), reward=1, done=True, action="b")  # behind the open one
        for i in range(3):
            task.record(f"r{i}", 0, "s", "a", 0, None, True)
        assert task.status().policy > 0
    with open_one(stores, "inline") as task:
        task.record("x", 0, "s", "b", 0, None, True)
        assert task.check() == []
        assert visits(task)[1] == 0
        task.tell(("open", 0), reward=0, done=True)
        assert task.check() == []
        assert visits(task)[1] == 3


@pytest.mark.parametrize("seed", range(10))
def test_flights_are_restored_with_replaced_and_contradicted_steps(seed: int) -> None:
    """A flight that is restored at any moment gives out the same steps as one that is not."""
    stream, rng = RandomEvents(seed, 60), np.random.default_rng(seed)
    segment = np.zeros(stream.H, np.int64)
    flights = [DelayedOutcomes(segment), DelayedOutcomes(segment)]
    out: list[list[Any]] = [[], []]
    for k in range(120):
        open_ = sorted(flights[0].open)
        if open_ and rng.random() < 0.6:
            episode, kind = int(rng.choice(open_)), rng.random()
            taken = int(rng.integers(3)) if rng.random() < 0.5 else None
            if taken == flights[0].open[episode].action:
                taken = None
            for flight in flights:
                if kind < 0.2:
                    flight.mark_unknown(episode, taken)
                else:
                    flight.tell(episode, float(k), 0, True, taken)
        else:
            state, action = int(rng.integers(1, 3)), int(rng.integers(3))
            named = [x for x in range(3) if x != action and rng.random() < 0.1]
            for flight in flights:
                flight.decide(k, 0, state, action, named)
        for flight, steps in zip(flights, out, strict=True):
            counted, (passed, _) = flight.counted(), flight.passed()
            steps.append([*map(np.ndarray.tolist, (counted.state, counted.action))])
            steps.append(np.nan_to_num(counted.reward).tolist())
            steps.append(passed.state.tolist())
        if rng.random() < 0.3:
            again = DelayedOutcomes(segment)
            again.restore(flights[1].state())
            flights[1] = again
    assert out[0] == out[1]
    left = [[(x.order, x.action, x.contradicted) for x in f.uncounted] for f in flights]
    assert left[0] == left[1]
    assert sorted(flights[0].open) == sorted(flights[1].open)


def test_a_third_report_that_names_another_action_needs_new_bounds(stores: Stores) -> None:
    with open_one(stores) as task:
        task.ask("s", "e")
        task.tell(("e", 0), reward=1, done=True)
        task.record("c", 0, "s", "c", 1, None, True)
        for action in (None, "c"):
            with pytest.raises(ucfh.Conflict):
                task.tell(("e", 0), reward=0, done=True, action=action)
            assert task.status().gap is None
            assert task.planner.step()
            assert task.status().gap is not None
        assert missing(task) == [1, 0, 1]
        assert task.status().conflicts == 1


def test_every_new_conflict_is_planned_for(tmp_path: Path) -> None:
    """Also after 100 of them, when one more is less than 2 percent."""
    with open_one(files(tmp_path), actions=["a"], states=["s"]) as task:
        task.serve([task.recording(f"e{i}", 0, "s", "a", 1, None, True) for i in range(300)])
        task.serve([task.telling((f"e{i}", 0), reward=0, done=True) for i in range(100)])
        assert task.planner.step()
        with pytest.raises(ucfh.Conflict):
            task.tell(("e200", 0), reward=0, done=True)
        assert task.status().gap is None
        assert task.planner.step()
        assert task.status().gap is not None
        assert not task.planner.step()


def test_the_policy_is_that_of_the_certificate(tmp_path: Path) -> None:
    """Without any plan, and without a certificate that was asked for before."""
    with open_one(files(tmp_path), actions=["a", "b"]) as task:
        steps = [("a", 0), ("b", 1)] * 200
        task.serve([task.recording(f"e{i}", 0, "s", *x, None, True) for i, x in enumerate(steps)])
        assert task.policy().act(0, "s") == "b"
        assert task.certificate().certified


def test_both_reports_are_kept(stores: Stores) -> None:
    with open_one(stores) as task:
        task.ask("s", "e")
        task.tell(("e", 0), reward=1, done=True)
        with pytest.raises(ucfh.Conflict):
            task.tell(("e", 0), reward=0, done=True, action="b")
        (fault,) = task.faults()
        assert (fault["before"], fault["told"], fault["action"]) == (
            "reward 1.0, done", 'reward 0.0, done, action "b"', '"b"',
        )  # fmt: skip


@pytest.mark.parametrize(
    "report", [{"reward": 7, "done": True}, {"reward": 1, "state": "undeclared"}]
)
def test_a_report_that_is_refused_contradicts_the_first_one(
    stores: Stores, report: dict[str, Any]
) -> None:
    with open_one(stores, states=["s"]) as task:
        task.ask("s", "e")
        with pytest.raises(ucfh.InvalidReport):
            task.tell(("e", 0), **report)
        assert task.status().conflicts == 0
        task.tell(("e", 0), reward=1, done=True)
        with pytest.raises(ucfh.Conflict):
            task.tell(("e", 0), **report)
        assert task.status().conflicts == 1
        task.record("r", 0, "s", "b", 1, None, True)
        with pytest.raises(ucfh.Conflict):
            task.record("r", 0, "s", "b", report["reward"], report.get("state"), "done" in report)
        assert task.status().conflicts == 2
        with pytest.raises(ucfh.InvalidReport):
            task.tell(("e", 0), **{**report, "reward": "much"})
        assert missing(task) == [1, 1, 0]


def test_silence_may_not_pay_more_than_max_return(tmp_path: Path) -> None:
    silence: dict[str, Any] = {"horizon": 2, "timeout": 5.0}
    (tmp_path / "below").mkdir()
    with pytest.raises(ucfh.InputError, match=r"on_timeout .* 1, .*max_return 0\.5"):
        open_one(files(tmp_path), **silence, on_timeout=("left", 1), max_return=0.5)
    below: dict[str, Any] = {"rewards": (-5, -1), "on_timeout": ("left", -1), "max_return": -4}
    open_one(files(tmp_path / "below"), **silence, **below).close()
    with (
        pytest.MonkeyPatch.context() as patch,
        open_one(files(tmp_path), **silence, on_timeout=("left", 1), max_return=1) as task,
    ):
        for name, paid in (("over", 1), ("even", 0)):
            task.ask("s", name)
            task.tell((name, 0), reward=paid, state="s")
        later = time.time() + 10
        patch.setattr("time.time", lambda: later)
        assert task.expire() == 2
        told = {x["episode"]: x for x in task.decisions("all") if x["t"] == 1}
        assert (told["over"]["status"], told["over"]["reward"]) == ("lost", None)
        assert (told["even"]["status"], told["even"]["reward"]) == ("told", 1.0)
        (fault,) = task.faults()
        assert (fault["kind"], fault["episode"], fault["t"]) == ("return", "over", 1)


def test_states_that_python_calls_equal_are_not_dropped(tmp_path: Path) -> None:
    with open_one(files(tmp_path), states=[True, 1]) as task:
        assert task.ask(1, "e").state == 1
        assert task.ask(True, "f").state is True


def test_a_conflict_on_the_command_line_is_planned_for(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    with open_one(files(tmp_path)) as task:
        task.ask("s", "e")
        task.tell(("e", 0), reward=1, done=True)
        assert task.planner.step()
        store = task.store.name
    report = ["tell", store, "--episode", "e", "--step", "0", "--reward", "0", "--done"]
    assert run(capsys, *report)[0] == 2
    with open_one(files(tmp_path)) as task:
        assert task.status().conflicts == 1
        assert task.status().gap is not None
