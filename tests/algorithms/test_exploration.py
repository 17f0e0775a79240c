"""Which of two routes to a certificate is taken, when a policy is frozen, which are scored."""

from __future__ import annotations

from math import log
from typing import Any
from unittest import mock

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh import CertifiedUCFH, make, simulate
from ucfh.algorithms.exploration import (
    DEVIATION_COST,
    REFREEZE_SHARE,
    TYPICAL_REGRET,
    GapExploration,
)
from ucfh.confidence.known_states import SHARES, KnownStateBounds
from ucfh.confidence.value_bounds import Bounds
from ucfh.counts import Counts
from ucfh.mdp import Problem

EPSILON, DELTA = 0.5, 0.1
PROBLEM = Problem(2, 2, 4, np.full((2, 2), 0.5), initial=0)
CHOICES = ("scores", "difference", "freeze")


class Silent(KnownStateBounds):
    """It attributes the gap to nothing but the route."""

    def attribute_gap(self, b: Bounds, by_difference: bool) -> Any:  # noqa: ARG002
        """Which one it is asked for."""
        return np.array([float(by_difference)])

    def explore(self, blame: Any) -> Any:
        """The same."""
        return blame.astype(np.int64)


class Chooser(GapExploration):
    """It only says what it would do: `CHOICES`, as a number."""

    def __init__(self, number: int = 0, without: tuple[str, ...] = ()) -> None:
        super().__init__(Silent(PROBLEM, DELTA, without), EPSILON, Counts.zero(PROBLEM))
        self.number = number

    def _freeze(self, b: Bounds, margin: float) -> Any:  # noqa: ARG002
        return np.array([2])

    def choice(self, episodes: int, known: dict[str, float]) -> str:
        """What it does after so many episodes, by the bounds at the start."""
        b = bounds(**known)
        n = Counts.zero(PROBLEM)
        n.visits[-1] = episodes
        self.best.update(n)
        return CHOICES[int(self._choose(b)[0])]


def bounds(**known: Any) -> Bounds:
    names = Bounds.__dataclass_fields__
    return Bounds(**dict.fromkeys(names, 0.0) | known)


def tail(episodes: int, number: int, known: dict[str, float]) -> float:
    """2 Var ln(.../delta), which divided by x^2 is how many scores a margin x takes."""
    j = max(1, number)
    price = log(j * (j + 1) / (DELTA * SHARES["scores"] / sum(SHARES.values())))
    variance = max(0.0, known["second"] - known["estimate"] ** 2)
    return 2 * (variance + known["upper"] ** 2 / episodes) * (price + TYPICAL_REGRET)


def by_scores(episodes: int, number: int, known: dict[str, float]) -> float:
    """How many episodes U - V^pi takes, with the best share of epsilon for each of the two."""
    ahead = max(known["upper"] - known["estimate"], 1e-12)
    scored = tail(episodes, number, known)
    ways = []
    for part in range(1, 100):
        margin = EPSILON * part / 100
        more = (ahead / (EPSILON - margin)) ** 2  # as it falls like episodes^(-1/2)
        ways.append(episodes * max(1.0, more) + scored / margin**2)
    return min(ways)


def even(episodes: int, number: int, known: dict[str, float]) -> float:
    """The difference at which, falling like episodes^(-2/3), it takes just as many."""
    return float(EPSILON * (by_scores(episodes, number, known) / episodes) ** (2 / 3))


@st.composite
def starts(draw: st.DrawFn) -> dict[str, float]:
    """Bounds at the start."""
    estimate = draw(st.floats(0, 3))
    return {
        "estimate": estimate,
        "upper": estimate + draw(st.sampled_from([0.0, 0.01, 0.3, 0.49, 0.6, 0.9])),
        "second": estimate**2 + draw(st.sampled_from([-0.1, 0.0, 0.05, 1.0])),
    }


@settings(max_examples=60)
@given(starts(), st.integers(1, 10**6), st.integers(0, 9))
def test_the_shorter_route_is_taken(known: dict[str, float], episodes: int, number: int) -> None:
    """By its price: the difference in place of scores if it is smaller by next to nothing."""
    turn = even(episodes, number, known)
    exploration = Chooser(number)
    assert exploration.choice(episodes, known | {"difference": turn * (1 - 1e-9)}) == "difference"
    assert exploration.choice(episodes, known | {"difference": turn * (1 + 1e-9)}) != "difference"


@settings(max_examples=60)
@given(starts(), st.integers(1, 10**6), st.integers(0, 9))
def test_a_policy_is_frozen_once_that_saves_more(
    known: dict[str, float], episodes: int, number: int
) -> None:
    """One more episode for U widens the margin by ahead/(2n), and so saves that many scores."""
    ahead = max(known["upper"] - known["estimate"], 1e-12)
    margin = EPSILON - ahead
    saved = tail(episodes, number, known) * ahead / episodes / margin**3
    found = Chooser(number).choice(episodes, known | {"difference": np.inf})
    assert found == ("freeze" if margin > 0 and saved <= 1 else "scores")


def test_the_moment_to_freeze() -> None:
    """By hand: with no variance and a price p, it comes when 2 U^2 p ahead = margin^3 n^2."""
    known = {"estimate": 1.0, "upper": 1.2, "second": 1.0, "difference": np.inf}
    price = tail(1, 0, known) / (2 * 1.2**2)
    turn = (2 * 1.2**2 * price * 0.2 / 0.3**3) ** 0.5
    assert Chooser().choice(int(turn), known) == "scores"
    assert Chooser().choice(int(turn) + 1, known) == "freeze"


def test_without_scores_there_is_one_route() -> None:
    known = {"estimate": 1.0, "upper": 1.2, "second": 1.0, "difference": np.inf}
    assert Chooser(without=("scores",)).choice(10**6, known) == "difference"


def test_undirected_it_follows_the_upper_bound() -> None:
    up = np.arange(8).reshape(4, 2)
    b = bounds(estimate=1.0, upper=3.0, second=1.0, difference=np.inf, up=up)
    exploration = GapExploration(
        KnownStateBounds(PROBLEM, DELTA, ("directed",)), EPSILON, Counts.zero(PROBLEM)
    )
    assert exploration._choose(b) is up


def test_while_nothing_is_known_it_follows_the_upper_bound() -> None:
    up = np.arange(8).reshape(4, 2)
    b = bounds(estimate=1.0, upper=4.0, second=1.0, difference=np.inf, up=up)
    assert Chooser()._choose(b) is up


CHAIN = make("chain:n=3,horizon=3")


def exact() -> tuple[GapExploration, Bounds]:
    """Exploration with counts in proportion to the probabilities."""
    n = Counts.zero(CHAIN.problem)
    exploration = GapExploration(KnownStateBounds(CHAIN.problem, DELTA), EPSILON, n)
    n.successors[:] = np.round(1000 * CHAIN.p)
    n.visits[:] = 1000
    return exploration, exploration.best.bounds(n)


def test_a_policy_stays_frozen_while_it_seems_good_enough() -> None:
    exploration, b = exact()
    margin = 0.3
    np.testing.assert_array_equal(exploration._freeze(b, margin), b.greedy)
    assert (exploration.number, exploration.scores) == (1, {})
    exploration.score(np.ones(3))
    kept = dict(exploration.scores)
    assert exploration._freeze(b, margin) is exploration.frozen
    assert (exploration.number, exploration.scores) == (1, kept)

    worse = CHAIN.table.rows_of(np.zeros((3, 3), int), 3)
    loss = CHAIN.at_start(CHAIN.optimal().values) - CHAIN.value(np.zeros((3, 3), int))
    exploration.frozen = worse
    assert exploration._freeze(b, (loss + 1e-9) / REFREEZE_SHARE) is worse
    assert (exploration.number, exploration.scores) == (1, kept)
    np.testing.assert_array_equal(exploration._freeze(b, (loss - 1e-9) / REFREEZE_SHARE), b.greedy)
    assert exploration.frozen is not b.greedy  # which the next bounds may write over
    assert (exploration.number, exploration.scores) == (2, {})


def test_episodes_are_scored_if_leaving_costs_little() -> None:
    """Those that leave at once lose what is not known to be earned; others nothing."""
    exploration, b = exact()
    exploration.following = b.greedy
    exploration._set_scoring_rule()
    assert exploration.scoring_rule is None  # nothing is frozen
    exploration.frozen = b.greedy.copy()
    exploration._set_scoring_rule()
    assert exploration.scoring_rule is not None
    np.testing.assert_array_equal(exploration.scoring_rule.rows, exploration.frozen)
    leaving = exploration.best.lower_values(exploration.frozen)
    np.testing.assert_array_equal(exploration.scoring_rule.leaving, leaving)

    other = b.greedy.copy()
    other[0, 0] = 1 - other[0, 0]  # rows 0 and 1 are those of the state where all begins
    loss = float(CHAIN.optimal().values[0, 0] - leaving[0, 0])
    assert loss > 0
    exploration.following = other
    for factor, scored in ((1 + 1e-6, True), (1 - 1e-6, False)):
        exploration.epsilon = factor * loss / DEVIATION_COST
        exploration._set_scoring_rule()
        assert (exploration.scoring_rule is not None) == scored


def test_no_route_is_taken_that_was_not_bounded() -> None:
    """D was left out, as its route was long; now the other one is longer: it is bounded next."""
    known = {"estimate": 1.0, "upper": 1.9, "second": 3.0, "difference": np.inf, "from_above": True}
    exploration = Chooser()
    exploration.routes = 5.0, 1.0
    assert exploration.choice(1000, known) == "scores"
    assert exploration.routes[0] == 5.0 < exploration.routes[1]
    assert (
        exploration.choice(1000, known | {"difference": 0.01, "from_above": False}) == "difference"
    )


def test_outcomes_alone_have_the_difference_bounded_again() -> None:
    """As where many episodes began at once, and what came of them is told later."""
    agent = CertifiedUCFH(CHAIN.problem, 0.1, 0.1)
    simulate(CHAIN, agent, 50)
    exploration, data = agent.exploration, agent.n
    assert isinstance(exploration, GapExploration)
    exploration.routes, exploration.bounded = (10.0, 1.0), int(data.visits.sum())
    exploration.learn(data)
    assert exploration.bounds.from_above
    data.visits[:-1] *= 2
    data.successors[: CHAIN.table.indptr[-2]] *= 2
    exploration.routes = 10.0, 1.0
    exploration.learn(data)
    assert not exploration.bounds.from_above


def test_what_is_left_out_delays_no_certificate() -> None:
    """Where scores lead to it, the run is the same to the last episode as with all bounds."""
    mdp, bounds = make("random:states=20,actions=3,successors=4,horizon=5"), KnownStateBounds.bounds
    looks: list[list[bool]] = []
    ends = []

    def noted(self: KnownStateBounds, data: Any, difference: bool = True) -> Bounds:
        looks[-1].append(difference)
        return bounds(self, data, difference)

    for watched in (True, False):
        looks.append([])
        with (
            mock.patch.object(KnownStateBounds, "watched", watched),
            mock.patch.object(KnownStateBounds, "bounds", noted),
        ):
            run = simulate(mdp, CertifiedUCFH(mdp.problem, EPSILON, DELTA), seed=0)
        assert run.certificate is not None
        ends.append((run.episodes, run.certificate.gap, run.certificate.lower))
    assert all(looks[0])
    assert looks[1].count(False) > 20
    assert ends[0] == ends[1]
