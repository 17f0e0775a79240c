"""The audit is what its formulas say, and its bets are fair.

The first against a slow audit, which computes each E anew from the list of all draws. The second
exactly, by all that can happen in a few draws: see `auditing._fairness`. Bets with a mistake have
to be found out.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from math import exp
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from auditing._fairness import Chosen, Game, fairness, hiding
from oracles.audited import Draw, Rules, SlowAudit, SlowCodes, assert_same
from support.broken_audits import (
    BestLabel,
    BestRow,
    BestStrength,
    CountsItself,
    FinalShare,
    FirstDrawToo,
    LooksAhead,
    RunningLikelihood,
    SumOfLabels,
    ThinsByOutcome,
    WholeBlock,
)
from support.settings import many
from ucfh.auditing.steps import AuditSteps

SEGMENTS: tuple[Any, ...] = ((), (2,), (1, 3), True)
COINS = ((0.5, 0.5), (0.05, 0.95), (0.7, 0.3), (0.99, 0.01))
BLOCKS = (2, 4, 8)


@st.composite
def logs(draw: st.DrawFn) -> AuditSteps:
    """Steps of any kind, also ones that no task makes."""
    n = draw(st.integers(1, 160))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    S, A, H = draw(st.integers(1, 20)), draw(st.integers(1, 3)), draw(st.integers(1, 6))
    new = rng.random(n) < draw(st.sampled_from([0.0, 0.2, 1.0]))
    new[0] = True
    t = np.zeros(n, np.int64)
    for i in range(1, n):
        new[i] |= t[i - 1] + 1 == H
        t[i] = 0 if new[i] else t[i - 1] + 1
    lost = rng.random(n) < draw(st.sampled_from([0.0, 0.3]))
    few = rng.integers(0, max(1, S // draw(st.integers(1, 5))), n)
    # multiples of 1/64: then quantiles are exact, whoever computes them
    rewards = rng.integers(0, draw(st.sampled_from([1, 2, 40, 500])), n) / 64
    if draw(st.booleans()):
        rewards[rng.random(n) < 0.1] = np.nan
    return AuditSteps(
        new=new,
        t=t,
        state=rng.integers(0, S, n),
        action=rng.integers(0, A, n),
        following=np.where(lost, -1, few),
        reward=rewards,
        lost=lost,
        detail=rng.integers(0, draw(st.integers(1, 4)), n),
    )


@settings(max_examples=many(100, 300))
@given(
    log=logs(),
    data=st.data(),
    segments=st.sampled_from(SEGMENTS),
    rewards=st.booleans(),
    details=st.booleans(),
    losses=st.booleans(),
)
def test_the_fast_audit_equals_the_slow_one(
    log: AuditSteps, data: st.DataObject, **given: Any
) -> None:
    """Logs of any shape, in batches that are cut anywhere."""
    cuts = sorted(data.draw(st.lists(st.integers(0, len(log.t)), max_size=5)))
    assert_same(log, cuts, **given)


def two_contexts(p: Sequence[float], depth: int) -> Game:
    return Game("action", depth, [("row", 0), ("row", 1)], {"row": p})


def no_choice(p: Sequence[float], depth: int) -> Game:
    return Game("drift", depth, [("row", 0)], {"row": p})


def several_rows(depth: int) -> Game:
    options = [("a", 0), ("b", 0), ("b", 1)]
    return Game("action", depth, options, {"a": (0.9, 0.1), "b": (0.3, 0.7)})


@pytest.mark.parametrize("p", COINS)
def test_the_expected_evidence_is_at_most_one(p: tuple[float, ...]) -> None:
    """Of the bets by context: at any stop, whoever chooses the context of each draw."""
    assert fairness(Rules(), two_contexts(p, 6)).fair


@pytest.mark.parametrize("most_labels", [1, 2, 8])
def test_more_labels(most_labels: int) -> None:
    assert fairness(Rules(most_labels=most_labels), two_contexts((0.6, 0.3, 0.1), 4)).fair


@pytest.mark.parametrize("p", COINS)
def test_by_blocks(p: tuple[float, ...]) -> None:
    assert fairness(Rules(lengths=BLOCKS), no_choice(p, 9)).fair


def test_blocks_of_more_labels() -> None:
    assert fairness(Rules(lengths=BLOCKS), no_choice((0.2, 0.2, 0.6), 6)).fair


def test_rows_that_somebody_chooses() -> None:
    assert fairness(Rules(), several_rows(5)).fair


def test_rows_that_are_looked_at_now_and_then() -> None:
    assert fairness(Rules(often=2, every=2), two_contexts((0.2, 0.8), 6)).fair


@dataclass
class Paid(Game):
    """Nature draws the next state and the reward; the first is the row, the second the label."""

    def drawn(self, played: Sequence[tuple[Chosen, int]]) -> list[tuple[Any, Draw]]:
        return [(x // 2, Draw((x // 2, x % 2), {self.test: z})) for (_, z), x in played]

    def label_chances(self, played: Sequence[tuple[Chosen, int]]) -> dict[Any, float]:
        del played
        p = np.reshape(self.p["row"], (2, 2))
        return {(s, r): p[s, r] / p[s].sum() for s in (0, 1) for r in (0, 1)}


def test_rewards_given_the_next_state() -> None:
    game = Paid("action", 4, [("row", 0), ("row", 1)], {"row": (0.1, 0.4, 0.3, 0.2)})
    assert fairness(Rules(), game).fair


@dataclass
class Coded(Game):
    """Labels are rewards 0, 1, 2, ... of which two are values, and all later ones two intervals."""

    def codes(self, played: Sequence[tuple[Chosen, int]]) -> tuple[SlowCodes, list[Any]]:
        codes = SlowCodes(most_values=2, parts=2)
        return codes, [codes.of(float(x)) for _, x in played]

    def drawn(self, played: Sequence[tuple[Chosen, int]]) -> list[tuple[Any, Draw]]:
        labels = self.codes(played)[1]
        return [(0, Draw(x, {self.test: z})) for ((_, z), _), x in zip(played, labels, strict=True)]

    def label_chances(self, played: Sequence[tuple[Chosen, int]]) -> dict[Any, float]:
        chances: dict[Any, float] = {}
        codes = self.codes(played)[0]
        for x, p in enumerate(self.p["row"]):
            if x in codes.values or len(codes.values) == 2:
                label = codes.of(float(x))
                chances[label] = chances.get(label, 0.0) + p
        return chances


def test_rewards_in_intervals_of_the_first_ones() -> None:
    """The meaning of an interval is fixed before bets on it."""
    game = Coded("action", many(4, 5), [("row", 0), ("row", 1)], {"row": (0.4, 0.1, 0.2, 0.3)})
    assert fairness(Rules(), game).fair


WRONG = [
    (CountsItself(), two_contexts((0.3, 0.7), 4)),
    (CountsItself(lengths=BLOCKS), no_choice((0.3, 0.7), 6)),
    (RunningLikelihood(), two_contexts((0.3, 0.7), 4)),
    (RunningLikelihood(lengths=BLOCKS), no_choice((0.3, 0.7), 6)),
    (FirstDrawToo(), two_contexts((0.6, 0.3, 0.1), 4)),
    (FirstDrawToo(lengths=BLOCKS), no_choice((0.3, 0.7), 6)),
    (SumOfLabels(), two_contexts((0.3, 0.7), 4)),
    (BestLabel(), two_contexts((0.3, 0.7), 4)),
    (BestLabel(lengths=BLOCKS), no_choice((0.3, 0.7), 6)),
    (BestRow(), several_rows(5)),
    (BestStrength(), two_contexts((0.3, 0.7), 4)),
    (BestStrength(lengths=BLOCKS), no_choice((0.3, 0.7), 6)),
    (LooksAhead(), two_contexts((0.3, 0.7), 4)),
    (WholeBlock(lengths=BLOCKS), no_choice((0.3, 0.7), 6)),
    (FinalShare(lengths=BLOCKS), no_choice((0.3, 0.7), 6)),
    (ThinsByOutcome(often=2, every=2), two_contexts((0.2, 0.8), 5)),
]


@pytest.mark.parametrize(("rules", "game"), WRONG, ids=[type(rules).__name__ for rules, _ in WRONG])
def test_broken_bets_are_noticed(rules: Rules, game: Game) -> None:
    assert not fairness(rules, game).fair


# ------------------------------------------------------------------------------------ whole logs

FOLLOWS = {0: 0.3, 1: 0.7}
PAYS = {0.0: 0.6, 1.0: 0.4}
CHANCES: dict[Any, float] = {
    **FOLLOWS,
    **{("value", r): p for r, p in PAYS.items()},
}
Step = tuple[int, int, int, float]
"""t, a, s' and r."""


class NextAction(SlowAudit):
    """The context is the action of the next step, where that of the previous one is meant."""

    def add(self, steps: AuditSteps) -> None:
        super().add(steps)
        following = [*steps.action[1:].tolist(), None]
        for (_, draw), a, new in zip(
            self.drawn["follows"], following, [*steps.new[1:].tolist(), True], strict=True
        ):
            draw.z["action"] = None if new else a


def means(audit: type[SlowAudit], kind: str, test: str, depth: int) -> tuple[float, float]:
    """The least and the largest mean of M after so many steps, by whoever chooses actions.

    Two states, two actions, two rewards, episodes of three steps that begin in state 0.
    """
    rules = Rules(p=CHANCES, lengths=BLOCKS)
    outcomes = list(product(FOLLOWS, PAYS))

    def mean(played: list[Step]) -> tuple[float, float]:
        if len(played) == depth:
            found = audit(rules=rules)
            found.add(as_passages(played))
            m = exp(found.ln_e(kind, test))
            return m, m
        found_by_action = []
        for a in (0, 1):
            low = high = 0.0
            for after, r in outcomes:
                x, y = mean([*played, (len(played) % 3, a, after, r)])
                chance = FOLLOWS[after] * PAYS[r]
                low, high = low + chance * x, high + chance * y
            found_by_action.append((low, high))
        return min(x for x, _ in found_by_action), max(y for _, y in found_by_action)

    return mean([])


def as_passages(played: list[Step]) -> AuditSteps:
    t, action, after, reward = (np.array(x) for x in zip(*played, strict=True))
    state = np.where(t == 0, 0, np.append(0, after[:-1]))
    nothing = np.zeros(len(t), np.int64)
    return AuditSteps(t == 0, t, state, action, after, reward, nothing.astype(bool), nothing)


@pytest.mark.parametrize("kind", ["follows", "pays"])
@pytest.mark.parametrize("test", ["action", "state", "reward", "step", "drift"])
def test_whole_logs(kind: str, test: str) -> None:
    """Contexts are of the past only, whatever policy looks at whatever it likes."""
    assert means(SlowAudit, kind, test, 4) == pytest.approx((1, 1), abs=1e-9)


def test_a_context_of_the_future_is_found_out() -> None:
    assert means(NextAction, "follows", "action", 4)[1] > 1.001


# ------------------------------------------------------------------------- outcomes that are lost


@pytest.mark.parametrize(
    ("rules", "game"),
    [
        ({}, two_contexts((0.3, 0.7), 4)),
        ({"lengths": BLOCKS}, no_choice((0.05, 0.95), 5)),
        ({}, Game("action", 4, [("a", 0), ("b", 0)], {"a": (0.9, 0.1), "b": (0.3, 0.7)})),
    ],
)
def test_lost_by_their_outcome(rules: dict[str, Any], game: Game) -> None:
    """An adversary removes outcomes, and gives up rows in which that is not profitable."""
    assert hiding(game, **rules) == pytest.approx((1, 1), abs=1e-9)


def test_lost_where_most_draws_are_left_out() -> None:
    game = Game("action", 5, [("row", 0)], {"row": (0.1, 0.1, 0.8)})
    assert hiding(game, often=2, every=3) == pytest.approx((1, 1), abs=1e-9)


def test_rewards_that_are_lost_by_what_they_were() -> None:
    """The largest mean of M, in a task of one state and one action that lasts one step."""
    rules = Rules(p={("value", r): p for r, p in PAYS.items()})

    def mean(played: list[tuple[int, float]]) -> float:
        after, reward = (np.array([x[i] for x in played]) for i in (0, 1))
        nothing = np.zeros(len(played), np.int64)
        log = AuditSteps(
            nothing == 0, nothing, nothing, nothing, after.astype(int), reward.astype(float),
            after < 0, nothing,
        )  # fmt: skip
        found = SlowAudit(losses=False, rules=rules)
        found.add(log)
        best = exp(found.ln_e("pays", "action"))
        if len(played) == 4:
            return best
        goes_on = 0.0
        for s, r in product(FOLLOWS, PAYS):
            known, lost = mean([*played, (s, r)]), mean([*played, (-1, r)])
            goes_on += FOLLOWS[s] * PAYS[r] * max(known, lost)
        return max(best, goes_on)

    assert mean([]) == pytest.approx(1, abs=1e-9)
