"""Numbers of events of a certificate: by hand, and by enumeration of reachable states.

The oracle knows nothing of tables. It is told a world in sets, as it was drawn, and counts what
`ucfh.confidence.known_states` says has to hold: for V* from above one event per step and state,
from below one per step, state and action, for all functions one per row; where more than one state
may follow, or rewards are unknown. Then every row that pays has an event for its outcomes, and one
for its mean reward.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh import InputError, Problem, make
from ucfh._utils import memory
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.confidence.union_bound import count_events, possible


def named(*events: int) -> dict[str, int]:
    """Numbers of events by part, at least one each."""
    parts = ("above", "below", "all", "outcomes", "rewards")
    return {part: max(1, n) for part, n in zip(parts, events, strict=True)}


@dataclass(frozen=True)
class World:
    """A model as sets.

    Attributes:
        states, horizon: S and H.
        segments: 1, or H where what follows depends on the step.
        follow: (segment, s, a) -> the states that may follow, for the actions that a state has.
        start: where an episode may begin; None if nobody says.
        terminal: states that end the episode.
        rewards: what they depend on: "" (unknown), "s, a" or "s, a, s'".

    """

    states: int
    horizon: int
    segments: int
    follow: dict[tuple[int, int, int], frozenset[int]]
    start: frozenset[int] | None
    terminal: frozenset[int] = frozenset()
    rewards: str = "s, a"

    def actions(self, s: int) -> list[int]:
        """Return the actions of a state; none in a terminal state."""
        return [a for a in range(9) if (0, s, a) in self.follow and s not in self.terminal]

    def after(self, t: int, s: int, a: int) -> frozenset[int]:
        """Return the successors of a pair at a step."""
        return self.follow[t if self.segments > 1 else 0, s, a]

    def walk(self) -> set[tuple[int, int]]:
        """The steps and states of all episodes, by going every way."""
        met: set[tuple[int, int]] = set()

        def go(t: int, s: int) -> None:
            if t == self.horizon or (t, s) in met:
                return
            met.add((t, s))
            if s in self.terminal:
                go(t + 1, s)
            for a in self.actions(s):
                for following in self.after(t, s, a):
                    go(t + 1, following)

        for s in range(self.states) if self.start is None else self.start:
            go(0, s)
        return met

    def events(self) -> dict[str, int]:
        """For V* from above, from below, all functions, outcomes and rewards; at least one each."""
        above, below, every, paid = set(), set(), set(), set()
        unknown = self.rewards == ""
        for t, s in self.walk():
            for a in self.actions(s):
                # after the last step nothing is earned, but for what comes with s' itself
                matters = t < self.horizon - 1 or self.rewards == "s, a, s'"
                if unknown or (matters and len(self.after(t, s, a)) > 1):
                    above.add((t, s))
                    below.add((t, s, a))
        for (t, s, a), states in self.follow.items():
            if s not in self.terminal and len(states) > 1:
                every.add((t, s, a))
            if s not in self.terminal and unknown:
                paid.add((t, s, a))
        start = 1 if self.start is None else 0
        return named(
            len(above) + start, len(below) + start, len(every) + start, len(paid), len(paid)
        )

    def problem(self) -> Problem:
        """The same as an agent is told it."""
        S, A = self.states, 1 + max(a for _, _, a in self.follow)
        mask, available = np.zeros((self.segments, S, A, S), bool), np.zeros((S, A), bool)
        for (t, s, a), states in self.follow.items():
            mask[t, s, a, list(states)] = available[s, a] = True
        rewards = {"": None, "s, a": np.full((S, A), 0.5)}.get(self.rewards)
        if self.rewards == "s, a, s'":
            rewards = np.random.default_rng(0).random((1, S, A, S))
        initial = None
        if self.start is not None:
            initial = np.isin(np.arange(S), list(self.start)) / len(self.start)
        return Problem(
            S,
            A,
            self.horizon,
            rewards,
            mask if self.segments > 1 else mask[0],
            initial,
            available=available,
            terminal=sorted(self.terminal),
        )


@st.composite
def worlds(draw: st.DrawFn, longest: int = 5, segmented: bool = True) -> World:
    """Worlds of odd shapes: certain or not, with fewer actions in some states, dead ends."""
    S, A, H = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, longest))
    segments = draw(st.sampled_from([1, H])) if segmented else 1
    most, rng = draw(st.integers(1, S)), Random(draw(st.integers(0, 2**32)))

    def some(size: int) -> frozenset[int]:
        return frozenset(rng.sample(range(S), size))

    has = [rng.sample(range(A), rng.randint(1, A)) for _ in range(S)]
    return World(
        S,
        H,
        segments,
        {
            (t, s, a): some(rng.randint(1, most))
            for t in range(segments)
            for s in range(S)
            for a in has[s]
        },
        some(rng.randint(1, S)) if draw(st.booleans()) else None,
        some(draw(st.integers(0, S - 1))),
        draw(st.sampled_from(["", "s, a", "s, a, s'"])),
    )


def reached(problem: Problem) -> set[tuple[int, int]]:
    found = possible(problem)
    assert found.shape == (problem.horizon, problem.states)
    assert found.dtype == bool
    return {(int(t), int(s)) for t, s in np.argwhere(found)}


@settings(max_examples=120)
@given(worlds())
def test_events_are_those_that_have_to_hold(world: World) -> None:
    problem = world.problem()
    assert reached(problem) == world.walk()
    assert count_events(problem) == world.events()


@settings(max_examples=60)
@given(worlds(longest=40, segmented=False))
def test_events_of_long_episodes(world: World) -> None:
    """Walks on cycles."""
    problem = world.problem()
    assert reached(problem) == world.walk()
    assert count_events(problem) == world.events()


@settings(max_examples=60)
@given(worlds(), st.sets(st.sampled_from(["rewards", "successors", "initial"])))
def test_events_of_a_problem_that_is_told_less(world: World, hidden: set[Any]) -> None:
    anywhere = frozenset(range(world.states))
    less = replace(
        world,
        rewards="" if "rewards" in hidden else world.rewards,
        follow=dict.fromkeys(world.follow, anywhere) if "successors" in hidden else world.follow,
        start=None if "initial" in hidden else world.start,
    )
    problem = world.problem().hiding(*hidden)
    assert reached(problem) == less.walk()
    assert count_events(problem) == less.events()


@settings(max_examples=60)
@given(worlds(segmented=False))
def test_events_of_a_problem_by_segment(world: World) -> None:
    """The same ways lead through it, but every step has rows of its own."""
    H = world.horizon
    each = {(t, s, a): x for t in range(H) for (_, s, a), x in world.follow.items()}
    problem, segmented = world.problem().by_segment(), replace(world, segments=H, follow=each)
    assert reached(problem) == world.walk()
    assert count_events(problem) == segmented.events()
    for part in ("above", "below"):
        assert count_events(problem)[part] == world.events()[part]


def follow(*rows: tuple[int, int, set[int]]) -> dict[tuple[int, int, int], frozenset[int]]:
    return {(0, s, a): frozenset(states) for s, a, states in rows}


COIN = follow((0, 0, {0, 1}), (0, 1, {1}), (1, 0, {1}))
"""From 0 a coin leads on, or a sure way; 1 stays."""
ROUND = follow((0, 0, {1}), (1, 0, {2, 3}), (2, 0, {0}), (3, 0, {0}))
"""0, 1, then 2 or 3, and 0 again."""
FREE = follow(*((s, a, {0, 1}) for s in range(2) for a in range(3)))
"""Two states and three actions, after which anything may come."""
ZERO = frozenset([0])


@pytest.mark.parametrize(
    ("world", "events"),
    [
        (World(2, 1, 1, COIN, ZERO), (1, 1, 1)),  # nothing comes after the only step
        (World(2, 1, 1, COIN, ZERO, rewards="s, a, s'"), (1, 1, 1)),
        (World(2, 3, 1, COIN, ZERO), (2, 2, 1)),  # at the first and the second step
        # three steps in 0, with two actions, two in 1; all three rows pay
        (World(2, 3, 1, COIN, ZERO, rewards=""), (3 + 2, 6 + 2, 1, 3, 3)),
        (World(2, 1, 1, COIN, ZERO, rewards=""), (1, 2, 1, 3, 3)),
        (World(2, 3, 1, COIN, ZERO, frozenset([1]), rewards=""), (3, 6, 1, 2, 2)),
        (World(2, 3, 1, COIN, ZERO, rewards="s, a, s'"), (3, 3, 1)),  # and at the third
        (World(2, 3, 1, COIN, None), (3, 3, 2)),  # and the start
        (World(2, 3, 1, COIN, frozenset([1])), (1, 1, 1)),  # nowhere is anything left open
        (World(2, 3, 1, COIN, ZERO, terminal=ZERO), (1, 1, 1)),
        (World(4, 7, 1, ROUND, ZERO), (2, 2, 1)),  # at steps 1 and 4, of 0 to 5
        (World(4, 8, 1, ROUND, ZERO), (2, 2, 1)),
        (World(4, 9, 1, ROUND, ZERO), (3, 3, 1)),  # and 7
        (World(2, 4, 1, FREE, ZERO), (1 + 2 + 2, 3 + 6 + 6, 6)),
        (World(2, 4, 1, FREE, None), (1 + 6, 1 + 18, 1 + 6)),
        (World(2, 4, 1, FREE, ZERO, frozenset([1])), (3, 9, 3)),
        (World(1, 9, 1, follow((0, 0, {0})), ZERO), (1, 1, 1)),  # one state: all is certain
        (World(1, 9, 1, follow((0, 0, {0})), ZERO, rewards=""), (9, 9, 1, 1, 1)),  # but its reward
    ],
)
def test_events_by_hand(world: World, events: tuple[int, ...]) -> None:
    """Events of outcomes and rewards are left out where there are none."""
    expected = named(*events, *[0] * (5 - len(events)))
    assert count_events(world.problem()) == world.events() == expected


def test_what_is_possible_by_hand() -> None:
    first = {(t, s) for t, states in enumerate([{0}, {1}, {2, 3}] * 3) for s in states}
    assert reached(World(4, 9, 1, ROUND, ZERO).problem()) == first
    assert reached(World(2, 3, 1, COIN, ZERO, ZERO).problem()) == {(0, 0), (1, 0), (2, 0)}
    turn = {(0, 0, 0): ZERO, (1, 0, 0): frozenset([1]), (2, 0, 0): ZERO}
    turn |= {(t, 1, 0): frozenset([1 - t % 2]) for t in range(3)}
    assert reached(World(2, 3, 3, turn, ZERO).problem()) == {(0, 0), (1, 0), (2, 1)}


def ring(*lengths: int) -> Any:
    """Successors (S, 1, S) that lead around several rings."""
    S = sum(lengths)
    mask, first = np.zeros((S, 1, S), bool), 0
    for n in lengths:
        for i in range(n):
            mask[first + i, 0, first + (i + 1) % n] = True
        first += n
    return mask


@pytest.mark.parametrize("lengths", [(1,), (3,), (3, 4, 5)])
def test_long_horizons_repeat_themselves(lengths: tuple[int, ...]) -> None:
    """A million steps, of which only the first few are walked."""
    H, S = 10**6 + 7, sum(lengths)
    firsts = np.cumsum([0, *lengths[:-1]])
    initial = np.isin(np.arange(S), firsts) / len(lengths)
    here = possible(Problem(S, 1, H, successors=ring(*lengths), initial=initial))
    t = np.arange(H)[:, None]
    expected = np.concatenate([t % n == np.arange(n) for n in lengths], axis=1)
    np.testing.assert_array_equal(here, expected)


def test_what_does_not_fit_is_refused_before_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "free_memory", lambda: 10**10)
    with pytest.raises(InputError, match=r"a certificate for 100000 steps in 100000 states needs"):
        CertifiedUCFH(make("chain:n=100000").problem, 0.1, 0.1)
    with pytest.raises(InputError, match=r"a certificate for 1000000000 steps in 5 states needs"):
        count_events(Problem(5, 2, 10**9))
