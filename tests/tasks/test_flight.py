"""What may be counted of episodes that overlap: against an oracle that goes through all events."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain, islice, product
from typing import Any
from unittest import mock

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ucfh.confidence.unknown_states as open_bounds
from oracles.lost import SlowOpen
from oracles.open_world import SlowExperience, assert_same
from support.tasks import RandomEvents
from ucfh._kernels import kl_ball
from ucfh._kernels.mixtures import pattern_excess
from ucfh.auditing.steps import AuditSteps, PreviousStep
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.sparse_counts import LOST, SHIFT, SparseCounts
from ucfh.tasks import delayed_outcomes as flight_module
from ucfh.tasks.delayed_outcomes import DelayedOutcomes
from ucfh.tasks.records import DecisionRecord, OutcomeRecord

SEARCHED = kl_ball.CLOSE**2 / 4 + 10 * kl_ball.NEAR_ZERO  # as in test_kl_ball.py
SEEDS = st.integers(0, 2**32)


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_counts_are_those_of_the_prefix_rule(seed: int) -> None:
    """Whatever the portions in which events are taken, after each of these."""
    stream, so_far = RandomEvents(seed), list[DecisionRecord | OutcomeRecord]()
    agent = stream.agent()
    for chunk in stream.chunks():
        agent.add_events(chunk)
        so_far += chunk
        slow = stream.slow(so_far)
        assert_same(agent.experience, slow.in_order())
        ahead = agent.delayed.ahead(agent.experience)
        if ahead is None:
            assert all(x.outcome is not None for x in slow.taken())
        else:
            assert_same(ahead, slow.all_as_lost())
        open_ = {x.episode: x.t for x in slow.taken() if x.outcome is None}
        assert {e: x.t for e, x in agent.delayed.open.items()} == open_
        assert agent.known == sum(isinstance(x, OutcomeRecord) for x in so_far)
        assert agent.seq == len(so_far)
        counted = agent.experience.visits.sum() + agent.experience.lost.sum()
        assert len(agent.delayed.uncounted) == len(slow.taken()) - counted


def line_of(parts: list[tuple[AuditSteps, PreviousStep]]) -> list[tuple[Any, ...]]:
    """Steps as the audit has them, one by one; without the step before where there is none."""
    out = []
    for part, before in parts:
        np.testing.assert_array_equal(part.lost, part.following == LOST)
        np.testing.assert_array_equal(part.new, part.t == 0)
        columns = (part.t, part.state, part.action, part.reward, part.following)
        earlier = zip(*(x.tolist() for x in before), strict=True)
        for step, last in zip(
            zip(*(x.tolist() for x in columns), strict=True), earlier, strict=True
        ):
            out.append((*step, None if step[0] == 0 else last))
    return out


@settings(max_examples=200, deadline=None)
@given(SEEDS)
def test_the_audit_takes_the_line_before_the_first_open_decision(seed: int) -> None:
    stream = RandomEvents(seed)
    agent, parts = stream.agent(), list[tuple[AuditSteps, PreviousStep]]()
    agent.audit.add = lambda *given: parts.append(given)  # type: ignore
    taken = 0
    for chunk in stream.chunks():
        agent.add_events(chunk)
        taken += len(chunk)
        # repr: nan is like nan
        assert repr(line_of(parts)) == repr(stream.slow(stream.events[:taken]).line())


@settings(max_examples=20, deadline=None)
@given(SEEDS, st.integers(1, 12))
def test_the_audit_does_not_wait_for_ever(seed: int, longest: int) -> None:
    """Behind an open decision at most that many wait; what came of it is then not known."""
    stream = RandomEvents(seed, 50)
    agent, parts = stream.agent(), list[tuple[AuditSteps, PreviousStep]]()
    agent.audit.add = lambda *given: parts.append(given)  # type: ignore
    taken = list[DecisionRecord | OutcomeRecord]()
    with mock.patch.object(flight_module, "LONGEST_QUEUE", longest):
        for event in stream.events:
            agent.add_events([event])
            taken.append(event)
            line = stream.slow(taken).taken()
            passed = line_of(parts)
            assert len(line) - len(passed) <= longest
            open_ = [i for i, x in enumerate(line) if x.outcome is None]
            assert len(passed) >= min(open_, default=len(line))
            for step, x in zip(passed, line, strict=False):
                assert step[:3] == (x.t, x.state, x.action)
                assert step[4] in (LOST, None if x.outcome is None else x.outcome[1])
            assert_same(agent.experience, stream.slow(taken).in_order())


@settings(max_examples=100, deadline=None)
@given(SEEDS, st.sampled_from([3, 10_000]))
def test_what_is_stored_goes_on_as_before(seed: int, longest: int) -> None:
    with mock.patch.object(flight_module, "LONGEST_QUEUE", longest):
        check_stored(seed)


def check_stored(seed: int) -> None:
    stream = RandomEvents(seed, 80)
    one = DelayedOutcomes(np.searchsorted(stream.task.segments, np.arange(stream.H), "right"))
    feed(one, stream.events[:40])
    one.counted()
    one.passed()
    other = DelayedOutcomes(np.searchsorted(stream.task.segments, np.arange(stream.H), "right"))
    other.restore(one.state())
    for flight in (one, other):
        feed(flight, stream.events[40:])
    assert repr(line_of([one.passed()])) == repr(line_of([other.passed()]))
    a, b = one.counted(), other.counted()
    for name in vars(a):
        np.testing.assert_array_equal(getattr(a, name), getattr(b, name))
    assert repr(one.state()) == repr(other.state())


def feed(flight: DelayedOutcomes, events: list[DecisionRecord | OutcomeRecord]) -> None:
    for x in events:
        if isinstance(x, DecisionRecord):
            flight.decide(x.episode, x.t, x.state, x.action)
        else:
            flight.tell(x.episode, x.reward, x.following, is_over=False)


# -- bounds with what is yet to come ---------------------------------------------------------------


def excess(counts: list[int], lost: int) -> float:
    out = np.zeros(1)
    given = np.array([0, len(counts)]), np.array(counts, np.int64), out, np.array([lost])
    pattern_excess(*given)
    return float(out[0])


def gathered(stream: RandomEvents) -> SparseCounts:
    """All events as an agent has them when it plans."""
    agent = stream.agent()
    agent.add_events(stream.events)
    agent.experience.ahead = agent.delayed.ahead(agent.experience)
    return agent.experience


def rows_by_all(best: UnknownStateBounds, data: SparseCounts) -> set[tuple[int, int, int]]:
    """Rows of which bounds of one function use all decisions, not those in order only."""
    used, early = best.evidence.known["n_one"][:-1], data.visits + data.lost
    rows = np.flatnonzero(used != early).tolist()
    return {(segment, s + 1, a) for segment, s, a in map(data.pair_of, rows)}


@settings(max_examples=150, deadline=None)
@given(SEEDS, st.sampled_from([None, 1.0]), st.booleans())
def test_bounds_are_the_recursion(seed: int, max_return: float | None, closed: bool) -> None:
    stream = RandomEvents(seed)
    data = gathered(stream)
    after_end = stream.units.after_end
    most = None if max_return is None else max_return + stream.H * after_end
    with pytest.MonkeyPatch.context() as patch:  # the ladder is never the better one
        patch.setattr(open_bounds, "SHARES", {**open_bounds.SHARES, "ladder": 1e-300})
        best = UnknownStateBounds(stream.H, 0.2, most, after_end, ("overlap", "scores"), closed)
        b = best.bounds(data)
    oracle = stream.slow()
    slow = SlowOpen(
        oracle.in_order(), stream.have, best.cap.tolist(), after_end, best.costs, closed, excess,
        oracle.all_as_lost(), rows_by_all(best, data),
    )  # fmt: skip
    expected = slow.recursion(best.actions_of(b.greedy).tolist())
    near = 2 * SEARCHED * stream.H**2 + 1e-9
    for name in "ULWD":
        found = getattr(b, name)
        np.testing.assert_allclose(found, getattr(expected, name), atol=near, rtol=0, err_msg=name)
    for row in range(len(data.visits)):
        segment, s, a = data.pair_of(row)
        assert best.missing[row] == pytest.approx(slow.missing((segment, s + 1, a)), rel=1e-9)


def test_both_numbers_of_decisions_are_used() -> None:
    """In the streams of these tests: in some rows what is in order is better, in others all."""
    by_all = in_order = 0
    for seed in range(100):
        stream = RandomEvents(seed, 150)
        data = gathered(stream)
        best = UnknownStateBounds(stream.H, 0.2, without=("scores",))
        best.update(data)
        if data.ahead is not None:
            waits = np.flatnonzero(data.ahead.visits + data.ahead.lost > data.visits + data.lost)
            by_all += len(rows_by_all(best, data))
            in_order += len(waits) - len(rows_by_all(best, data))
    assert by_all > 20
    assert in_order > 20


MOST = 100
"""Completions that are tried."""


def completions(
    stream: RandomEvents, rows: set[tuple[int, int, int]], extreme: float
) -> Iterator[SlowExperience]:
    """All that may have been decided, with each outcome in the place of one that is yet to come.

    A next state is paid as it was before in that row, or the extreme: so that two rewards stand for
    all, and bounds of what was told are exact. Of rows that are not among these, what is in order.
    """
    oracle = stream.slow()
    early, taken, everything = oracle.in_order(), oracle.taken(), oracle.all_as_lost()
    rows_of = [(early.segment(x.t), x.state, x.action) for x in taken]
    choices = []
    for x, row in zip(taken, rows_of, strict=True):
        if x.outcome is not None or row not in rows:
            choices.append([x.outcome])
            continue
        own = {e[3]: paid[0] for e, paid in everything.paid.items() if e[:3] == row}
        both = [(r, s) for s in range(stream.S + 1) for r in {own.get(s, extreme), extreme}]
        choices.append([both[int(i)] for i in stream.rng.permutation(len(both))])
    for outcomes in islice(product(*choices), MOST):
        out, gone = oracle.found(), set[tuple[int, int, int]]()
        for x, row, outcome in zip(taken, rows_of, outcomes, strict=True):
            gone |= {row} if outcome is None else set()
            if outcome is not None and row not in gone:
                out.step(x.t, x.state, x.action, *outcome)
        yield out


@settings(max_examples=40, deadline=None)
@given(SEEDS, st.booleans())
def test_bounds_hold_whatever_is_yet_to_come(seed: int, closed: bool) -> None:
    """Bounds of one function are no narrower than with any outcomes in the place of open ones."""
    stream = RandomEvents(seed, noisy=False)
    data = gathered(stream)
    best = UnknownStateBounds(stream.H, 0.2, without=("scores",), closed=closed)
    b = best.bounds(data)
    near = 2 * SEARCHED * stream.H**2 + 1e-9
    rows = rows_by_all(best, data)
    assume(rows)
    for slow in chain(*(completions(stream, rows, extreme) for extreme in (0.0, 1.0))):
        other = UnknownStateBounds(stream.H, 0.2, without=("scores",), closed=closed)
        told = other.bounds(fast_of(stream, slow))
        assert (told.U - near <= b.U).all()
        assert (told.L + near >= b.L).all()
        assert (best.evidence.known["r_low"] <= other.evidence.known["r_low"] + 1e-12).all()
        assert (best.evidence.known["r_up"] >= other.evidence.known["r_up"] - 1e-12).all()


def fast_of(stream: RandomEvents, slow: SlowExperience) -> SparseCounts:
    """The counts as arrays."""
    data = stream.agent().experience
    data.make_room()
    for (s, segment), place in slow.place.items():
        data.place[s * data.P + segment] = place
    data.found = len(slow.place)
    for s, t in slow.reached:
        data.reached[s, t] = True
    for s, times in slow.started.items():
        data.started[s] = times
    data.started_new = slow.started_new

    def row_of(segment: int, s: int, a: int) -> int:
        return int(data.pairs.number[s, a]) * data.P + segment

    entries = sorted((row_of(*e[:3]) << SHIFT | e[3], paid) for e, paid in slow.paid.items())
    data.key = np.array([key for key, _ in entries], np.int64)
    data.c = np.array([len(paid) for _, paid in entries], np.int64)
    for name, of in (("paid", math.fsum), ("least", min), ("most", max)):
        setattr(data, name, np.array([of(paid) for _, paid in entries], float))
    for row, n in slow.visits.items():
        data.visits[row_of(*row)], data.last_new[row_of(*row)] = n, slow.last_new.get(row, 0)
    for row, lost in slow.lost.items():
        at, known = row_of(*row), [r for r in lost if not math.isnan(r)]
        data.lost[at], data.lost_unpaid[at] = len(lost), len(lost) - len(known)
        data.last_lost[at] = slow.last_lost[row]
        data.lost_paid[at] = math.fsum(known)
        data.lost_least[at], data.lost_most[at] = min([1, *known]), max([0, *known])
    assert_same(data, slow)
    return data


def test_by_hand() -> None:
    """Three decisions in a row, the first is told last; and a state without actions."""
    stream = RandomEvents(0)
    while (stream.H, stream.S) < (2, 2) or stream.task.segments or len(stream.have[1]) < 2:
        stream = RandomEvents(int(stream.rng.integers(2**32)))
    agent, a = stream.agent(), stream.have[1][0]
    zero = -stream.units.shift
    agent.add_events([DecisionRecord(i, i, 0, 1, a, 0, 0) for i in (1, 2, 3)])
    assert (agent.experience.episodes, agent.experience.found) == (3, 1)
    agent.add_events([OutcomeRecord(4, 3, 0, zero, 0)])
    agent.add_events([OutcomeRecord(5, 2, 0, zero, 0)])
    assert agent.experience.visits.sum() == 0
    ahead = agent.delayed.ahead(agent.experience)
    assert ahead is not None
    assert (ahead.visits.sum(), ahead.lost.sum()) == (2, 1)
    agent.add_events([OutcomeRecord(6, 1, 0, math.nan, LOST)])
    assert (agent.experience.visits.sum(), agent.experience.lost.sum()) == (2, 1)
    assert agent.delayed.ahead(agent.experience) is None


def test_the_audit_sees_a_missing_outcome_for_every_action_that_is_named() -> None:
    """A contradicted report that names another action than the one given."""
    flight = DelayedOutcomes(np.zeros(2, np.int64))
    flight.decide(1, 0, 5, 0, named=[2])
    flight.mark_unknown(1, taken=1)
    steps, _ = flight.passed()
    assert sorted(steps.action.tolist()) == [0, 1, 2]
    assert steps.following.tolist() == [LOST] * 3
    assert steps.new.tolist() == [True, False, False]
