"""Certificates of an open world hold: thousands of runs, every bound at every planning.

Nothing is told but actions, the number of steps and the range of rewards. Bounds are conservative,
so delta is taken as large as 1/2, worlds are small, and runs go on after they could have stopped.
The last tests break the bounds on purpose, each in one way, and have to be seen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ucfh.confidence.unknown_states as open_bounds
from support.unknown_states import (
    CASES,
    PARTS,
    Break,
    Onlooker,
    OpenCase,
    alone,
    check_certificates,
    check_part,
    check_power,
    dense,
    fewer,
    jackpot,
    no_price,
    watched,
)
from ucfh import MDP, make
from ucfh._kernels.row_bounds import ANYTHING, NOTHING
from ucfh.confidence.outcomes import Outcomes, outcomes_of
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.sparse_counts import SparseCounts

RUNS, EPISODES = 200, 400


@pytest.mark.usefixtures("fewer_looks")
@pytest.mark.parametrize("name", CASES)
def test_certificates_of_an_open_world_hold(name: str) -> None:
    """Any violation in at most delta of the runs, and no returned policy is bad."""
    case = CASES[name]
    for delta in (0.5, 0.1):
        seen = (Onlooker(case, delta, seed).run(EPISODES) for seed in range(RUNS))
        check_certificates(name, delta, case.epsilon, seen)


# -- each part alone, with all of delta, and broken versions of it -------------------------------


BANDIT = OpenCase(MDP([[[1.0], [1.0]]], [[0.5, 0.45]], 1, noise="bernoulli"), 1e-9)
"""One state, one step, two arms: as few events as there can be."""
COINS = OpenCase(MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], 2), 0.15)
MANY = OpenCase(dense(7, "bernoulli", states=6), 1e-9)
COUPONS = OpenCase(MDP(np.full((20, 1, 20), 0.05), np.linspace(0, 1, 20)[:, None], 2), 1e-9)
"""Twenty successors, each as likely as the others."""
CROWD = OpenCase(MDP(np.full((100, 1, 100), 0.01), np.linspace(0, 1, 100)[:, None], 2), 1e-9)
ENDS = OpenCase(fewer(), 1e-9)
HIDDEN = OpenCase(jackpot(0.02, sure=0.0), 1e-9)
CALLS = OpenCase(make("calls"), 0.1, max_return=1.0)
SINGLE = OpenCase(MDP([[[1.0]]], [[0.5]], 1, noise="bernoulli"), 1e-9)


WORLDS = {"bandit": BANDIT, "coins": COINS, "many": MANY, "coupons": COUPONS}


@pytest.mark.usefixtures("fewer_looks")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("world", WORLDS)
def test_each_part_keeps_its_share(part: str, world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_part(monkeypatch, part, watched(WORLDS[world], 0.5, 300), 60)


# -- broken versions -----------------------------------------------------------------------------


def no_atom(patch: pytest.MonkeyPatch) -> None:
    """What a row has not shown cannot come."""
    right = UnknownStateBounds.update

    def take(self: UnknownStateBounds, data: SparseCounts) -> None:
        right(self, data)
        known = self.evidence.known
        known["rest"] = np.where(known["n"] > 0, NOTHING, ANYTHING)

    patch.setattr(UnknownStateBounds, "update", take)


def price_after_a_look(patch: pytest.MonkeyPatch) -> None:
    """Every pair is paid for as if it had been the first to be found."""
    right = UnknownStateBounds._log_events

    def prices(self: UnknownStateBounds, data: SparseCounts) -> Any:
        functions, actions, discovery = right(self, data)
        return functions, actions, np.minimum(discovery, np.log(2.0))

    patch.setattr(UnknownStateBounds, "_log_events", prices)


def rewards_left_out(patch: pytest.MonkeyPatch) -> None:
    """Noisy rewards count as their mean, as if they were certain."""
    right = outcomes_of

    def outcomes(c: Any, paid: Any, *rest: Any) -> Outcomes:
        del rest
        mean = paid / np.maximum(c, 1)
        return right(c, paid, mean, mean)

    patch.setattr(open_bounds, "outcomes_of", outcomes)


def wrong_cap(patch: pytest.MonkeyPatch) -> None:
    """The largest return is taken to be half of what it is."""
    right = UnknownStateBounds.__init__

    def init(
        self: UnknownStateBounds, horizon: int, delta: float, most: Any = None, *rest: Any, **o: Any
    ) -> None:
        right(self, horizon, delta, 0.5 * (most or horizon), *rest, **o)

    patch.setattr(UnknownStateBounds, "__init__", init)


def no_regret(patch: pytest.MonkeyPatch) -> None:
    """The best bet in hindsight costs nothing."""
    patch.setattr(open_bounds, "portfolio_regret", lambda n: 0.0 * np.asarray(n))


def no_pattern(patch: pytest.MonkeyPatch) -> None:
    """The best model in hindsight costs nothing."""
    patch.setattr(open_bounds, "pattern_excess", lambda *_: None)


def missing_from_the_start(patch: pytest.MonkeyPatch) -> None:
    """What is missing is bounded by all visits, not by those since something new was seen."""
    right = UnknownStateBounds.update

    def take(self: UnknownStateBounds, data: SparseCounts) -> None:
        last, data.last_new = data.last_new, 0 * data.last_new
        right(self, data)
        data.last_new = last

    patch.setattr(UnknownStateBounds, "update", take)


def scores_of_the_lucky(patch: pytest.MonkeyPatch) -> None:
    """Episodes that earned little are not scored."""
    from ucfh.algorithms.unknown_states import UnknownStatesUCFH

    right = UnknownStatesUCFH.scores

    def scores(self: UnknownStatesUCFH, *given: Any) -> Any:
        found = right(self, *given)
        return found[found > 0.9]

    patch.setattr(UnknownStatesUCFH, "scores", scores)


def end_is_worth_something(patch: pytest.MonkeyPatch) -> None:
    """An episode that is over is taken to be paid on."""
    right = UnknownStateBounds.__init__

    def init(
        self: UnknownStateBounds, horizon: int, delta: float, most: Any, _: float, *rest: Any
    ) -> None:
        right(self, horizon, delta, most, 0.5, *rest)

    patch.setattr(UnknownStateBounds, "__init__", init)


BROKEN: dict[str, tuple[Break, tuple[str, ...], OpenCase, set[str], int]] = {
    "no atom": (no_atom, ("above",), HIDDEN, {"above"}, 100),
    "no price": (no_price, ("missing",), CROWD, {"missing"}, 800),
    "price after a look": (price_after_a_look, ("missing",), CROWD, {"missing"}, 800),
    "rewards left out": (rewards_left_out, ("above", "ladder"), BANDIT, {"above"}, 3000),
    "wrong cap": (wrong_cap, ("above",), OpenCase(jackpot(0.5), 1e-9), {"above"}, 100),
    "no pattern": (no_pattern, ("all",), COUPONS, {"pattern"}, 200),
    "missing from the start": (missing_from_the_start, ("missing",), COUPONS, {"missing"}, 100),
    "scores of the lucky": (scores_of_the_lucky, ("scores",), CALLS, {"scores"}, 2500),
    "an end that pays": (end_is_worth_something, ("below",), ENDS, {"below"}, 300),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At delta .1, all of it for the part: the right one keeps to it, the broken one does not."""
    break_it, shares, case, claims, episodes = BROKEN[name]
    alone(monkeypatch, *shares)
    check_power(monkeypatch, break_it, watched(case, 0.1, episodes), claims, 100, 0.1)


def test_bets_without_their_regret_are_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a world with a single event nothing else is paid for: delta is 1/2 for that alone."""
    alone(monkeypatch, "above")
    no_price(monkeypatch)
    check_power(monkeypatch, no_regret, watched(SINGLE, 0.5, 1000), {"above"}, 200, 0.5)
