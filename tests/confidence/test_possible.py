"""Which states are possible when, and how many events bounds rest on: by walking, and by size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh import make
from ucfh._utils import memory
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.confidence.union_bound import count_events, possible
from ucfh.exceptions import InputError
from ucfh.mdp import Problem


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Sparse ones, in which few states follow each other: cycles of several lengths."""
    S, A = draw(st.integers(1, 6)), draw(st.integers(1, 2))
    segmented = draw(st.booleans())
    H = draw(st.integers(1, 5 if segmented else 40))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    shape = (H, S, A, S) if segmented else (S, A, S)
    mask = rng.random(shape) < draw(st.sampled_from([0.0, 0.2, 0.5]))
    np.put_along_axis(mask, rng.integers(0, S, (*shape[:-1], 1)), True, axis=-1)
    return Problem(
        S,
        A,
        H,
        rewards=draw(st.sampled_from([None, np.ones((S, A)), np.ones((1, S, A, S))])),
        successors=mask,
        initial=draw(st.sampled_from([None, 0])),
        terminal=draw(st.sampled_from([(), (0,)])),
    )


def walk(problem: Problem) -> list[set[int]]:
    """The same, state by state."""
    table = problem.table
    now = set(table.indices[table.entries_of(table.start)].tolist())
    found = []
    for t in range(problem.horizon):
        found.append(now)
        pairs = [k for k in range(table.pairs) if table.state[k] in now]
        rows = [t * table.stride + k for k in pairs]
        now = {s for row in rows for s in table.indices[table.entries_of(row)].tolist()}
    return found


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_possible_is_what_a_walk_finds(problem: Problem) -> None:
    here = possible(problem)
    assert here.shape == (problem.horizon, problem.states)
    assert [set(np.flatnonzero(line).tolist()) for line in here] == walk(problem)


@settings(max_examples=100, deadline=None)
@given(problem=problems())
def test_events_are_counted_one_by_one(problem: Problem) -> None:
    """Where rewards are not told all rows that pay count; else the last step only if it pays."""
    table, above, below = problem.table, 0, 0
    learned = np.isin(table.state, problem.terminal, invert=True) & (problem.rewards is None)
    paid = problem.rewards is None or problem.rewards.successor is not None
    for t, now in enumerate(walk(problem)[: problem.horizon - (not paid)]):
        for s in now:
            pairs = range(table.first[s], table.first[s + 1])
            uncertain = sum(
                bool(table.lengths[k + t * table.stride] > 1 or learned[k]) for k in pairs
            )
            above, below = above + (uncertain > 0), below + uncertain
    start = int(problem.initial is None)
    several, pay = int((table.lengths[:-1] > 1).sum()), int(learned.sum()) * table.segments
    expected = {"above": above + start, "below": below + start, "all": several + start}
    expected |= {"outcomes": pay, "rewards": pay}
    assert count_events(problem) == {part: max(1, n) for part, n in expected.items()}


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
