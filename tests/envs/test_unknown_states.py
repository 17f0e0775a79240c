"""The agent for unknown state spaces: scores of episodes, and continuation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.open_world import Step, slow_scores, steps_of
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.counts import ScoringRule
from ucfh.sparse_counts import END, Steps


class Wanderer:
    """Episodes of random actions in a world with S states; a state has its actions for good."""

    def __init__(self, rng: np.random.Generator, horizon: int, actions: int, states: int) -> None:
        self.rng, self.H, self.A, self.S = rng, horizon, actions, states
        self.masks = rng.random((states + 1, actions)) < 0.7
        self.masks[:, int(rng.integers(actions))] = True

    def walk(self, agent: UnknownStatesUCFH, episodes: int, states: int) -> list[list[Step]]:
        """Episodes among the first of the states, which are found on the way."""
        out = []
        for _ in range(episodes):
            s, steps = self._find(agent, int(self.rng.integers(1, states + 1))), list[Step]()
            for t in range(self.H):
                a = int(self.rng.choice(np.flatnonzero(self.masks[s])))
                after = self._find(agent, int(self.rng.integers(states + 1)))
                steps.append((t, s, a, float(self.rng.choice([0, 1, self.rng.random()])), after))
                s = after
                if s == END:
                    break
            out.append(steps)
        return out

    def _find(self, agent: UnknownStatesUCFH, s: int) -> int:
        """States are found by their numbers, so those before are found as well."""
        data = agent.experience
        while data.states <= s:
            mask = self.masks[data.states]
            data.find(None if mask.all() else mask)
        return s


def joined(episodes: list[list[Step]]) -> Steps:
    return steps_of([step for one in episodes for step in one], [one[0][1] for one in episodes])


@given(st.integers(0, 2**32), st.sampled_from([0.0, 0.25, 1.0]), st.booleans())
@settings(deadline=None, max_examples=100)
def test_scores_are_those_of_single_episodes(seed: int, after_end: float, segmented: bool) -> None:
    rng = np.random.default_rng(seed)
    H, A, S = (int(x) for x in rng.integers([1, 1, 2], [5, 4, 7]))
    segments = sorted({int(x) for x in rng.integers(1, H, size=2)}) if segmented and H > 1 else []
    agent = UnknownStatesUCFH(H, A, 0.1, 0.1, segments=segments, after_end=after_end)
    world = Wanderer(rng, H, A, S)
    agent.observe(joined(world.walk(agent, 5, int(rng.integers(1, S)))))
    agent.plan()
    data, best = agent.experience, agent.best
    rows = best.first_rows()
    for t in range(H):  # any policy in the states that are known by now
        for s in range(1, data.states):
            a = int(rng.choice(np.flatnonzero(data.available(s))))
            rows[t, s] = data.rows_of(np.array([t]), np.array([s]), np.array([a]))[0]
    watch = ScoringRule(rows, rng.random((H + 1, data.states)) * H)
    episodes = world.walk(agent, 20, S)
    cut = int(rng.integers(1, len(episodes[-1]) + 1))
    episodes[-1] = episodes[-1][:cut]  # broken off: it scores the rewards so far
    agent.experience.add(joined(episodes))
    found = agent.scores(joined(episodes), watch)
    np.testing.assert_allclose(found, slow_scores(episodes, data, watch, after_end), atol=1e-12)


def test_an_episode_without_steps_scores_nothing() -> None:
    agent = UnknownStatesUCFH(3, 1, 0.1, 0.1)
    s = agent.experience.find()
    agent.observe(steps_of([(0, s, 0, 1.0, s), (1, s, 0, 1.0, s)], [s]))
    watch = ScoringRule(agent.best.first_rows(), np.zeros((4, 2)))
    steps = steps_of([(0, s, 0, 0.5, END)], [s, s])  # the second was broken off at once
    assert agent.scores(steps, watch).tolist() == [0.5, 0.0]
    assert agent.scores(steps_of([], [s]), watch).tolist() == [0.0]


def test_it_plans_after_two_percent_more_episodes() -> None:
    agent = UnknownStatesUCFH(1, 1, 1e-6, 0.1)
    s = agent.experience.find()
    planned = []
    for n in range(1, 161):
        room = agent.episodes_left
        due = agent.observe(steps_of([(0, s, 0, 1.0, s)], [s]))
        assert due == (room == 1)
        planned += [n] * due
    assert planned == [*range(1, 101), *range(102, 151, 2), 153, 156, 159]
    assert not agent.done


@pytest.mark.parametrize("after_end", [0.0, 0.5])
def test_restored_it_continues_as_before(after_end: float) -> None:
    def make() -> UnknownStatesUCFH:
        return UnknownStatesUCFH(3, 2, 0.05, 0.2, segments=[2], max_return=2.0, after_end=after_end)

    rng = np.random.default_rng(3)
    one, world = make(), Wanderer(rng, 3, 2, 4)
    for _ in range(30):
        one.observe(joined(world.walk(one, one.episodes_left, 4)))
    other = make()
    other.restore({name: np.asarray(x) for name, x in one.state().items()})
    for _ in range(5):
        assert_alike(one, other)
        episodes = world.walk(one, one.episodes_left, 4)
        while other.experience.states < one.experience.states:
            mask = world.masks[other.experience.states]
            other.experience.find(None if mask.all() else mask)
        assert one.observe(joined(episodes)) == other.observe(joined(episodes))


def assert_alike(one: UnknownStatesUCFH, other: UnknownStatesUCFH) -> None:
    """All that an agent knows and does next is the same."""
    kept: list[dict[str, Any]] = [one.state(), other.state()]
    assert kept[0].keys() == kept[1].keys()
    for name, x in kept[0].items():
        np.testing.assert_array_equal(x, kept[1][name], err_msg=name)
    assert (one.episodes_left, one.done) == (other.episodes_left, other.done)
    assert one.actions.tolist() == other.actions.tolist()
    assert one.policy.tolist() == other.policy.tolist()
