"""A world that changes while an agent learns: nothing is certified that bounds contradict."""

from __future__ import annotations

from helpers.drifting import EPSILON, drift

RUNS = 200


def test_a_drifting_world_is_not_certified() -> None:
    """An arm that falls from .9 to .6: what is said to be earned at least, .8 or so, is wrong."""
    wrong = silent = 0
    for seed in range(RUNS):
        known = drift(seed)
        wrong += known.certified and known.lower > 0.6
        silent += known.contradiction is None
    print(f"{RUNS} runs with a drift: {wrong} certified wrongly, {silent} without a contradiction")
    assert wrong == 0


def test_a_world_that_stays_is_certified() -> None:
    """The same agent in the first world: false alarms have probability delta = .1 at most."""
    known = [drift(seed, after=0.9) for seed in range(RUNS)]
    alarms = sum(x.contradiction is not None for x in known)
    certified = sum(x.certified and 0 <= x.gap <= EPSILON for x in known)
    print(f"{RUNS} runs without a drift: {certified} certified, {alarms} false alarms")
    assert alarms <= 0.1 * RUNS
    assert certified == RUNS - alarms
