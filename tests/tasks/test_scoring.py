"""Scores of episodes that overlap: by their definition, and what happens if it is another one."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles.in_flight import wealth
from support.concurrent_episodes import leaving_whoever_chose
from support.tasks import RandomEvents
from ucfh.algorithms.exploration import GapExploration
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.sparse_counts import END, SparseCounts
from ucfh.tasks.records import DecisionRecord
from ucfh.tasks.scoring import FrozenPolicy, FrozenPolicyScores

SEEDS = st.integers(0, 2**32)


class Scored(RandomEvents):
    """Events of episodes that follow their first policy most of the time, and are scored.

    Attributes:
        scores: what is tested. how_of: by policy, how episodes that begin with it are scored.

    """

    def __init__(self, seed: int) -> None:
        self.scores, self.how_of = FrozenPolicyScores(), dict[int, FrozenPolicy]()
        self.tables: dict[int, Any] = {}
        self.newest = self.frozen = self.given = 0
        super().__init__(seed, 0)
        self.faithful = float(self.rng.choice([0.8, 1.0]))
        self.after = [(self.H - t) * self.units.after_end for t in range(self.H + 1)]

    def table(self, width: int) -> Any:
        """(H, width) any actions that states have."""
        choices = [self.have[s] or [0] for s in range(width)]
        return np.array([[self.rng.choice(x) for x in choices] for _ in range(self.H)], np.int64)

    def plan(self) -> None:
        """A new policy; its episodes are scored, or not, or for a policy frozen anew."""
        rng, width = self.rng, int(self.rng.integers(1, self.S + 2))
        self.newest += 1
        first = self.tables[self.newest] = self.table(width)
        if rng.random() < 0.3:
            self.scores.watch(self.newest, None)
            return
        if self.frozen == 0 or rng.random() < 0.1:
            self.frozen += 1
            self.how_of = {}
        other = self.table(width)
        kept = np.where(rng.random(first.shape) < 0.8, first, other)
        how = FrozenPolicy(self.frozen, kept, first, rng.random((self.H + 1, width)))
        self.how_of[self.newest] = how
        self.scores.watch(self.newest, how)

    def action(self, episode: int, t: int, state: int) -> int:
        table = self.tables.get(self.first[episode])
        if self.rng.random() > self.faithful:
            return super().action(episode, t, state)
        if table is None or state >= table.shape[1]:
            return self.have[state][0]
        return int(table[t, state])

    def hand_on(self) -> None:
        """Let the scores have all events so far."""
        for x in self.events[self.given :]:
            if isinstance(x, DecisionRecord):
                if x.t == 0:
                    self.scores.begin(x.episode, x.first)
                self.scores.decide(x.episode, x.t, x.state, x.action, self.have[x.state][0])
            else:
                reward = (x.reward + self.units.shift) / self.units.span
                over = self.slow().is_over(x.t, x.following)
                self.scores.tell(x.episode, reward, x.following, over, self.after[x.t + 1])
        self.given = len(self.events)


@settings(max_examples=150, deadline=None)
@given(SEEDS)
def test_scores_are_those_of_the_definition(seed: int) -> None:
    """After each event; a copy that was stored and restored goes on in its place."""
    stream = Scored(seed)
    for _ in range(60):
        if stream.rng.random() < 0.1:
            stream.plan()
        stream.policy = max(0, stream.newest - int(stream.rng.integers(2)))
        stream.go_on()
        stream.hand_on()
        expected = stream.slow().scores(stream.how_of, stream.units.after_end)
        np.testing.assert_allclose(stream.scores.x, expected, atol=1e-12)
        if stream.rng.random() < 0.1:
            copy = FrozenPolicyScores()
            copy.restore(stream.scores.state())
            stream.scores = copy


def test_streams_are_scored() -> None:
    """The test above is about something: scores end in all ways."""
    ends = {"left": 0, "open": 0, "whole": 0}
    for seed in range(60):
        stream = Scored(seed)
        for i in range(60):
            if i % 10 == 0:
                stream.plan()
            stream.policy = stream.newest
            stream.go_on()
            stream.hand_on()
        ends["open"] += len(stream.scores.open)
        ends["whole"] += sum(x == round(x * 4) / 4 for x in stream.scores.x)
        ends["left"] += sum(x != round(x * 4) / 4 for x in stream.scores.x)
    assert min(ends.values()) > 50, ends


def test_a_new_frozen_policy_begins_anew() -> None:
    one = np.zeros((1, 2), np.int64)
    scores = FrozenPolicyScores()
    scores.watch(1, FrozenPolicy(1, one, one, np.zeros((2, 2))))
    scores.begin(7, 1)
    scores.decide(7, 0, 1, 0, 0)
    scores.watch(2, FrozenPolicy(2, one, one, np.zeros((2, 2))))
    scores.tell(7, 1.0, END, True, 0.0)
    assert (scores.number, scores.x) == (2, [])
    scores.begin(8, 1)  # its leaving values are those of the other one
    assert scores.x == []


# -- which scores are bet on -----------------------------------------------------------------------


@settings(max_examples=50, deadline=None)
@given(SEEDS)
def test_the_best_of_several_numbers_of_scores_is_chosen(seed: int) -> None:
    rng = np.random.default_rng(seed)
    best = UnknownStateBounds(2, 0.2)
    beliefs = GapExploration(best, 0.5, SparseCounts(2, 1))
    beliefs.number = 1
    scores, n = FrozenPolicyScores(), int(rng.choice([1, 5, 40]))
    scores.number, scores.x = 1, (rng.random(n) < 0.8).astype(float).tolist()
    for place in rng.choice(n, int(rng.integers(n + 1)), replace=False).tolist():
        scores.x[place], scores.open[place] = 0.0, (1, place)
    settled = min((place for _, place in scores.open.values()), default=n)

    def value(m: int) -> float:
        beliefs.scores = {}
        beliefs.score(np.array(scores.x[:m]))
        return best.score_bound(beliefs.scores, 1)

    every = [value(m) for m in range(n + 1)]
    scores.choose(beliefs)
    found = best.score_bound(beliefs.scores, 1)
    assert found in every
    assert max(every[settled], every[n]) <= found
    assert n > 8 or found == max(every[settled:])


def test_scores_of_another_frozen_policy_are_not_bet_on() -> None:
    best = UnknownStateBounds(2, 0.2)
    beliefs = GapExploration(best, 0.5, SparseCounts(2, 1))
    beliefs.number = 2
    scores = FrozenPolicyScores()
    scores.number, scores.x = 1, [1.0] * 50
    scores.choose(beliefs)
    assert beliefs.scores == {}


# -- two episodes that overlap ---------------------------------------------------------------------

GAMBLE, LEAVE = 0, 1
"""At the second step: a coin pays 1 or 0, as the frozen policy has it; or it is left for its worth.

The frozen policy is worth 1/2, and so is the leaving value: both are right.
"""


def how(first: int) -> FrozenPolicy:
    """The frozen policy gambles; the first policy of the episodes gambles, or leaves."""
    kept, mine = np.zeros((2, 2), np.int64), np.zeros((2, 2), np.int64)
    mine[1] = first
    return FrozenPolicy(1, kept, mine, np.full((3, 2), 0.5))


def played(first: int, coins: tuple[int, int]) -> FrozenPolicyScores:
    """The second episode gambles, and the first leaves if that was won, and gambles if not."""
    scores = FrozenPolicyScores()
    scores.watch(1, how(first))
    for episode in (1, 2):
        scores.begin(episode, 1)
        scores.decide(episode, 0, 1, 0, 0)
        scores.tell(episode, 0.0, 1, False, 0.0)
    for episode, action in ((2, GAMBLE), (1, LEAVE if coins[1] else GAMBLE)):
        scores.decide(episode, 1, 1, action, 0)
        scores.tell(episode, coins[episode - 1] if action == GAMBLE else 0.0, END, True, 0.0)
    return scores


def chance_of_doubling(play: Callable[[tuple[int, int]], FrozenPolicyScores]) -> Fraction:
    """The probability that all bets on the first score, or on both, make 2 of 1, exactly."""
    doubled = 0
    for coin, other in product((0, 1), repeat=2):
        x = play((coin, other)).x
        doubled += max(wealth(x[:m], 0.5) for m in (1, 2)) >= 2
    return Fraction(doubled, 4)


@pytest.mark.parametrize("first", [GAMBLE, LEAVE])
def test_a_choice_that_looks_ahead_breaks_every_prefix(
    first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ville's inequality promises 1/2: so it is here, and not if leaving values always count."""
    assert chance_of_doubling(lambda coins: played(first, coins)) <= Fraction(1, 2)
    monkeypatch.setattr(FrozenPolicyScores, "decide", leaving_whoever_chose)
    assert chance_of_doubling(lambda coins: played(first, coins)) == Fraction(3, 4)
