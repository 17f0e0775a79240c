"""The agent of a live task: the same whoever feeds it, and however often it is stored."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.open_world import assert_same
from support.concurrent_episodes import Delays, FlightCase, InFlight, unpaid
from support.tasks import RandomEvents
from ucfh import make
from ucfh._kernels import kl_ball
from ucfh.sparse_counts import ARRAYS, END, LOST
from ucfh.tasks.agent import PolicyToFollow, TaskAgent
from ucfh.tasks.records import DecisionRecord, OutcomeRecord

SEARCHED = kl_ball.CLOSE**2 / 4 + 10 * kl_ball.NEAR_ZERO  # as in test_kl_ball.py
SEEDS = st.integers(0, 2**32)


class Led(RandomEvents):
    """Events of episodes that follow the plans of an agent most of the time.

    Attributes:
        plans: by number, after how many events it was made, and the plan.

    """

    def __init__(self, seed: int, events: int = 120) -> None:
        self.plans: dict[int, tuple[int, PolicyToFollow]] = {}
        super().__init__(seed, 0, accuracy=0.6)
        self.leader, given = self.agent(), 0
        for _ in range(events):
            self.go_on()
            if self.leader.progress + len(self.events) - given > self.next_plan:
                self.leader.add_events(self.events[given:])
                given = len(self.events)
                made = self.leader.plan()
                self.policy = made.number
                self.plans[made.number] = len(self.events), made
        self.leader.add_events(self.events[given:])

    @property
    def next_plan(self) -> int:
        return 3 * len(self.plans)

    def action(self, episode: int, t: int, state: int) -> int:
        if self.rng.random() < 0.1:
            return super().action(episode, t, state)
        if self.first[episode] in self.plans:
            actions = self.plans[self.first[episode]][1].actions
            if state < actions.shape[1]:
                return int(actions[t, state])
        return self.have[state][0]


def same(one: TaskAgent, other: TaskAgent) -> None:
    """All that is stored of two agents is the same, but for the order of sums."""
    a, b = one.state(), other.state()
    assert a.keys() == b.keys()
    for name in a:
        if not name.startswith("audit"):  # it looks at its evidence whenever it is fed
            np.testing.assert_allclose(a[name], b[name], rtol=1e-12, atol=1e-12, err_msg=name)


@settings(max_examples=12, deadline=None)
@given(SEEDS)
def test_portions_and_restarts_change_nothing(seed: int) -> None:
    """An agent that is fed otherwise, and continued from what was stored with the last plan."""
    stream = Led(seed)
    other, taken = stream.agent(), 0
    stored, at = other.state(), 0
    for number, (after, plan) in stream.plans.items():
        while taken < after:
            size = min(after - taken, int(stream.rng.choice([1, 3, 50])))
            other.add_events(stream.events[taken : taken + size])
            taken += size
            if at and stream.rng.random() < 0.05:
                other, taken = TaskAgent(stream.task), at
                other.restore(stored)
        made = other.plan()
        stored, at = other.state(), taken
        assert (made.number, made.known, made.episodes) == (number, plan.known, plan.episodes)
        np.testing.assert_array_equal(made.actions, plan.actions)
        assert made.summary == pytest.approx(plan.summary, rel=1e-9)
    other.add_events(stream.events[taken:])
    same(stream.leader, other)
    assert_same(other.experience, stream.slow().in_order())


@settings(max_examples=20, deadline=None)
@given(SEEDS)
def test_it_goes_on_from_any_moment(seed: int) -> None:
    """Also where states were found since the last plan: no bound is wider than without the stop."""
    stream = Led(seed, 40)
    one, at = TaskAgent(stream.task), int(stream.rng.integers(40))
    for mask in stream.masks[: int(stream.rng.integers(1, stream.S + 1))]:
        one.add_state(None if mask.all() else mask)
    one.plan()
    for mask in stream.masks[one.experience.states - 1 :]:
        one.add_state(None if mask.all() else mask)
    one.add_events(stream.events[:at])
    other = TaskAgent(stream.task)
    other.restore(one.state())
    for agent in (one, other):
        agent.add_events(stream.events[at:])
        agent.plan()
    assert_same(other.experience, stream.slow().in_order())
    near = 2 * SEARCHED * stream.H**2 + 1e-9
    assert other.agent.exploration.gap <= one.agent.exploration.gap + near


@settings(max_examples=15, deadline=None)
@given(SEEDS)
def test_scores_in_a_task_are_those_of_the_definition(seed: int) -> None:
    """The whole agent: who is scored is decided when episodes begin."""
    stream = Led(seed)
    agent, taken, how_of = stream.agent(), 0, dict[int, Any]()
    for number, (after, _) in stream.plans.items():
        agent.add_events(stream.events[taken:after])
        taken = after
        slow = stream.slow(stream.events[:taken])
        if agent.scores.number:
            expected = slow.scores(how_of, stream.units.after_end)
            np.testing.assert_allclose(agent.scores.x, expected, atol=1e-12)
        agent.plan()
        if number in agent.scores.watched:
            how = agent.scores.watched[number]
            how_of = {k: x for k, x in how_of.items() if x.number == how.number} | {number: how}


def test_some_tasks_are_scored() -> None:
    scored = [stream.leader.scores.x for stream in map(Led, range(30))]
    assert sum(map(len, scored)) > 50


def test_a_snapshot_and_its_tail_equal_a_rebuild() -> None:
    for seed in range(12):
        stream = Led(seed)
        half = int(stream.rng.integers(len(stream.events)))
        one = stream.agent()
        one.add_events(stream.events[:half])
        other, rebuilt = TaskAgent(stream.task), stream.agent()
        other.restore(one.state())
        other.add_events(stream.events[half:])
        rebuilt.add_events(stream.events)
        assert other.differences(rebuilt) == rebuilt.differences(other) == []


@pytest.mark.parametrize("name", ARRAYS)
def test_a_planted_fault_is_named(name: str) -> None:
    for seed in range(200):
        stream = RandomEvents(seed, 80)
        agent, rebuilt = stream.agent(), stream.agent()
        agent.add_events(stream.events)
        rebuilt.add_events(stream.events)
        array = getattr(agent.experience, name)
        if len(array) and rebuilt.experience.lost.any():
            break
    at = int(stream.rng.integers(array.size))
    array.flat[at] = not array.flat[at] if array.dtype == bool else array.flat[at] + 1
    assert [x.split("[")[0] for x in agent.differences(rebuilt)] == [name]
    rebuilt.add_state()
    assert len(agent.differences(rebuilt)) >= 1


def test_a_decision_that_was_forgotten_is_seen() -> None:
    stream = RandomEvents(3, 60)
    agent, rebuilt = stream.agent(), stream.agent()
    rebuilt.add_events(stream.events)
    last = max(i for i, x in enumerate(stream.events) if isinstance(x, DecisionRecord))
    agent.add_events([x for i, x in enumerate(stream.events) if i < last])
    assert agent.differences(rebuilt)


def waiting_task() -> tuple[TaskAgent, list[str], list[str]]:
    """One action, told in two episodes and open in a third, which began first."""
    stream = RandomEvents(0)
    while (stream.H, stream.A, stream.S) != (2, 2, 2) or stream.task.segments:
        stream = RandomEvents(int(stream.rng.integers(2**32)))
    agent, low = stream.agent(), stream.units.low
    a = stream.have[1][0]
    agent.add_events([DecisionRecord(i, i, 0, 1, a, 0, 0) for i in (1, 2, 3)])
    agent.add_events([OutcomeRecord(4, 2, 0, low, END), OutcomeRecord(5, 3, 0, math.nan, LOST)])
    return agent, ["end", "x", "y"], ["a", "b"]


def test_a_certificate_tells_what_is_late_and_lost() -> None:
    agent, states, actions = waiting_task()
    agent.plan()
    found = agent.certificate(states, actions)
    assert (found.waiting, found.lost, found.episodes) == (3, 0, 3)
    assert found.gap_if_random is not None
    assert found.gap_if_random <= found.gap
    agent.add_events([OutcomeRecord(6, 1, 0, agent.units.low, END)])
    found = agent.certificate(states, actions)
    assert (found.waiting, found.lost) == (0, 1)


def test_a_certificate_after_a_state_was_found() -> None:
    """A state that nobody has been in yet changes nothing."""
    agent, states, actions = waiting_task()
    agent.plan()
    before = agent.certificate(states, actions)
    agent.add_state()
    after = agent.certificate([*states, "z"], actions)
    assert (after.upper, after.lower, after.gap) == (before.upper, before.lower, before.gap)


def test_the_first_places_belong_to_the_first_decisions() -> None:
    """Whose outcome comes first does not matter for what a pair costs."""
    stream = RandomEvents(0)
    while len(stream.have[-1]) == 0 or stream.S < 2 or not stream.have[1]:
        stream = RandomEvents(int(stream.rng.integers(2**32)))
    agent, s = stream.agent(), stream.S
    low = stream.units.low
    agent.add_events([DecisionRecord(1, 1, 0, s, stream.have[s][0], 0, 0)])
    agent.add_events(
        [DecisionRecord(2, 2, 0, 1, stream.have[1][0], 0, 0), OutcomeRecord(3, 2, 0, low, END)]
    )
    places = agent.experience.place.reshape(-1, agent.experience.P)[:, 0]
    assert (places[s], places[1]) == (1, 2)


def test_a_agent_certifies_with_fifty_open() -> None:
    """Small, but whole: a task of one state is certified, and rightly."""
    case = FlightCase(make("chain:n=3,horizon=3"), 0.8, 50, Delays(10.0, 0.0, unpaid))
    run = InFlight(case, 0.1, 0).run(2000, stop=True)
    assert run.begun is not None
    assert run.broken == set()
    assert run.returned is not None
    assert run.returned <= 0.8
