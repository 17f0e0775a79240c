"""Sparse counts against dictionaries: added at once, in parts, and restored."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.open_world import SlowExperience, Step, assert_same, steps_of
from ucfh._utils.arrays import Bools
from ucfh.sparse_counts import ARRAYS, END, LOST, SparseCounts

EXACT = settings(deadline=None, max_examples=150)


class Walks(NamedTuple):
    """Episodes in a world in which states are found one after the other.

    masks: of state i + 1. episodes: each with its first state, and its steps.
    """

    horizon: int
    actions: int
    segments: list[int]
    masks: list[Bools]
    episodes: list[tuple[int, list[Step]]]

    def experience(self) -> SparseCounts:
        return SparseCounts(self.horizon, self.actions, self.segments)

    def slow(self) -> SlowExperience:
        out = SlowExperience(self.segments)
        for start, steps in self.episodes:
            out.begin(start)
            for step in steps:
                out.step(*step)
        return out


@st.composite
def walks(draw: st.DrawFn) -> Walks:
    """Random walks over few states, so that all comes up again."""
    H, A = draw(st.integers(1, 4)), draw(st.integers(1, 3))
    segments = sorted(draw(st.sets(st.integers(1, H - 1)))) if H > 1 else []
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    S = draw(st.integers(1, 5))
    masks = rng.random((S, A)) < draw(st.sampled_from([0.5, 1.0]))
    masks[np.arange(S), rng.integers(A, size=S)] = True
    lossy, unpaid = draw(st.sampled_from([0.0, 0.3, 1.0])), draw(st.sampled_from([0.0, 0.5, 1.0]))
    new = 1  # the first state that was not found yet
    episodes = []
    for _ in range(draw(st.integers(0, 12))):
        s = int(rng.integers(1, min(new, S) + 1))
        start, steps = s, list[Step]()
        for t in range(int(rng.integers(H + 1))):  # it may be cut anywhere, also before a step
            new = max(new, s + 1)
            a = int(rng.choice(np.flatnonzero(masks[s - 1])))
            after, paid = int(rng.integers(min(new, S) + 1)), rng.choice([0, 1, 0.25, rng.random()])
            if rng.random() < lossy:
                after, paid = LOST, np.nan if rng.random() < unpaid else paid
            steps.append((t, s, a, float(paid), after))
            if after in (END, LOST):
                break
            s = after
        new = max(new, s + 1)
        episodes.append((start, steps))
    return Walks(H, A, segments, list(masks), episodes)


def feed(data: SparseCounts, walk: Walks, cuts: list[int]) -> None:
    """Add all steps in batches that end before the steps of these numbers; find states as late."""
    batch: tuple[list[Step], list[int]] = ([], [])
    n = 0

    def flush() -> None:
        newest = max([*batch[1], *(max(s, after) for _, s, _, _, after in batch[0])], default=0)
        for s in range(data.states, newest + 1):
            mask = walk.masks[s - 1]
            assert data.find(None if mask.all() else mask) == s
        data.add(steps_of(*batch))
        batch[0].clear()
        batch[1].clear()

    for start, steps in walk.episodes:
        batch[1].append(start)
        for step in steps:
            if n in cuts:
                flush()
            batch[0].append(step)
            n += 1
    flush()


@given(walks(), st.lists(st.integers(0, 40)))
@EXACT
def test_counts_are_those_of_dictionaries(walk: Walks, cuts: list[int]) -> None:
    data = walk.experience()
    feed(data, walk, cuts)
    assert_same(data, walk.slow())


@given(walks(), st.lists(st.integers(0, 40)), st.lists(st.integers(0, 40)))
@EXACT
def test_any_split_into_batches_gives_the_same(
    walk: Walks, cuts: list[int], others: list[int]
) -> None:
    one, other = walk.experience(), walk.experience()
    feed(one, walk, cuts)
    feed(other, walk, others)
    for name in ARRAYS:
        mine, its = getattr(one, name), getattr(other, name)
        if name in ("paid", "lost_paid"):  # sums in another order
            np.testing.assert_allclose(mine, its, rtol=1e-13)
        else:
            np.testing.assert_array_equal(mine, its)
    assert (one.found, one.started_new) == (other.found, other.started_new)


@given(walks(), st.integers(0, 12), st.lists(st.integers(0, 40)))
@EXACT
def test_restored_it_goes_on(walk: Walks, after: int, cuts: list[int]) -> None:
    data, again = walk.experience(), walk.experience()
    feed(data, walk._replace(episodes=walk.episodes[:after]), cuts)
    kept = data.state()
    again.restore({name: array.copy() for name, array in kept.items()})
    for s in range(data.states):
        assert again.available(s).tolist() == data.available(s).tolist()
    feed(again, walk._replace(episodes=walk.episodes[after:]), cuts)
    assert_same(again, walk.slow())
    for name in ARRAYS:  # copies: what was kept has not changed
        np.testing.assert_array_equal(kept[name], getattr(data, name))


@given(walks(), st.lists(st.integers(0, 40)))
@EXACT
def test_without_what_was_lost_it_is_as_if_that_had_not_been_taken(
    walk: Walks, cuts: list[int]
) -> None:
    """But for where an action was taken, and when that was first so."""
    data, kept = walk.experience(), walk.experience()
    feed(data, walk, cuts)
    seen = [(start, [x for x in steps if x[-1] != LOST]) for start, steps in walk.episodes]
    feed(kept, walk._replace(episodes=seen), [])
    for s in range(kept.states, data.states):
        assert kept.find(walk.masks[s - 1]) == s
    kept.make_room()
    before, found = data.state(), data.without_lost()
    for name in set(ARRAYS) - {"place", "reached"}:
        np.testing.assert_allclose(getattr(found, name), getattr(kept, name), rtol=1e-13)
    found.add(steps_of([], [1] if found.states > 1 else []))
    for name in ARRAYS:  # a copy
        np.testing.assert_array_equal(getattr(data, name), before[name])
    assert not found.lost.any()


def test_rows_keep_their_numbers_when_states_are_found() -> None:
    data = SparseCounts(3, 2, [2])
    assert (data.P, data.segment.tolist(), data.states) == (2, [0, 0, 1], 1)
    a, b = data.find(), data.find(np.array([False, True]))
    t, s, act = np.array([0, 2, 1]), np.array([a, a, b]), np.array([1, 1, 1])
    before = data.rows_of(t, s, act).tolist()
    assert [data.pair_of(row) for row in before] == [(0, 0, 1), (1, 0, 1), (0, 1, 1)]
    data.find(np.array([True, False]))
    assert data.rows_of(t, s, act).tolist() == before
    last = len(data.pairs.action) * data.P
    assert data.pair_of(last) == (0, -1, -1)  # the start
    assert data.pairs.number.tolist() == [[-1, -1], [0, 1], [-1, 2], [3, -1]]
    assert data.available(END).tolist() == [False, False]


def test_nothing_was_seen() -> None:
    data = SparseCounts(2, 3)
    data.add(steps_of([], []))
    assert (data.episodes, data.states, len(data.key), data.found) == (0, 1, 0, 0)
    s = data.find()
    data.add(steps_of([], [s, s]))  # episodes that were broken off at once
    assert (data.episodes, data.started_new, len(data.key)) == (2, 1, 0)
    assert data.started.tolist() == [0, 2]
