"""Certificates hold where outcomes are lost for what they are: every bound at every planning.

As in test_open_world.py. What is lost is so on purpose: bad outcomes, good ones, or always the same
one. The last tests break the bounds, each in one way, and have to be seen.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np
import pytest

from support.unknown_states import (
    PARTS,
    Break,
    Onlooker,
    OpenCase,
    alone,
    check_certificates,
    check_part,
    check_power,
    dense,
    exam,
    fewer,
    rare,
    watched,
)
from ucfh import MDP, make
from ucfh._utils.arrays import Bools
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.envs.environment import RunOutput
from ucfh.envs.simulated import SteppedMDP
from ucfh.sparse_counts import LOST, SparseCounts, Steps


def lose(steps: Steps, gone: Bools, unpaid: Bools | bool = False) -> Steps:
    """Steps with the outcomes lost where gone (n,); their episodes are not seen any further.

    ``unpaid`` (n,): whether it is not known what was paid, either.
    """
    episode, at = np.cumsum(steps.t == 0), np.arange(len(steps))
    begins = np.flatnonzero(steps.t == 0)
    before = np.append(0, np.cumsum(gone))
    left = before[at] == before[begins][episode - 1]  # nothing was lost earlier in its episode
    reward = np.where(gone & unpaid, np.nan, steps.reward)
    following = np.where(gone, LOST, steps.following)
    return Steps(
        steps.t[left], steps.state[left], steps.action[left], reward[left], following[left],
        steps.starts,
    )  # fmt: skip


class Losing(SteppedMDP):
    """Outcomes are lost with a chance that depends on them.

    Args:
        mdp: the world.
        seed: of all draws.
        share: how often bad outcomes are lost, after which less can be earned than before.
        others: how often all others are.
        unpaid: how often a loss takes with it what was paid.

    """

    def __init__(
        self, mdp: MDP, seed: int, share: float, others: float = 0.0, unpaid: float = 0.5
    ) -> None:
        super().__init__(mdp, seed)
        self.share, self.others, self.unpaid = share, others, unpaid
        self.V = mdp.optimal().values

    def run(
        self, experience: SparseCounts, actions: Sequence[Sequence[int]], episodes: int
    ) -> RunOutput:
        """Run episodes; some outcomes are lost."""
        ran = super().run(experience, actions, episodes)
        steps, n = ran.steps, len(ran.steps)
        of = np.array([0, *(int(str(label)) for label in self.labels[1:])])
        ahead = np.where(steps.following > 0, self.V[steps.t + 1, of[steps.following]], 0.0)
        bad = steps.reward + ahead < self.V[steps.t, of[steps.state]] - 1e-9
        gone = self.rng.random(n) < np.where(bad, self.share, self.others)
        return RunOutput(lose(steps, gone, self.rng.random(n) < self.unpaid), ran.episodes)


def losing(mdp: MDP, epsilon: float, share: float, *, others: float = 0.0, unpaid: float = 0.5,
           **told: Any) -> OpenCase:  # fmt: skip
    """A case in which that share of bad outcomes is lost, and of the others."""
    world = partial(Losing, share=share, others=others, unpaid=unpaid)
    return OpenCase(mdp, epsilon, world=world, **told)


CASES: dict[str, OpenCase] = {
    "chain, 10 % of the bad": losing(make("chain:n=3,horizon=3"), 0.6, 0.1),
    "riverswim, 2 % of the bad": losing(make("riverswim:n=3,horizon=4"), 0.8, 0.02),
    "exam, 10 % of the bad": losing(exam(), 0.3, 0.1, segments=(3,), max_return=1.0),
    "Bernoulli rewards, half of the bad": losing(dense(1, "bernoulli"), 0.8, 0.5),
    "Bernoulli rewards, 10 % of the good": losing(dense(1, "bernoulli"), 0.8, 0.0, others=0.1),
    "different actions, 2 % of all": losing(fewer(), 0.7, 0.02, others=0.02),
    "rare successors, all of the good": losing(rare(), 1.5, 0.0, others=1.0, unpaid=1.0),
}


@pytest.mark.usefixtures("fewer_looks")
@pytest.mark.parametrize("name", CASES)
def test_certificates_hold_whatever_is_lost(name: str) -> None:
    """Any violation in at most delta of the runs, and no returned policy is bad."""
    case, runs = CASES[name], 100
    for delta in (0.5, 0.1):
        seen = [Onlooker(case, delta, seed).run(400) for seed in range(runs)]
        check_certificates(name, delta, case.epsilon, seen)
        assert sum(int(x.agent.experience.lost.sum()) for x in seen) > runs


# -- each part alone, with all of delta, and broken versions of it -------------------------------


def one_in(share: float) -> MDP:
    """Two states that follow each other at random, and with this share one that does not pay."""
    p = np.tile([(1 - share) / 2, (1 - share) / 2, share], (3, 1, 1))
    return MDP(p.reshape(3, 1, 3), [[0.5], [0.5], [0.0]], 2)


BANDIT = MDP([[[1.0], [1.0]]], [[0.5, 0.45]], 1, noise="bernoulli")
COINS = MDP(np.full((2, 1, 2), 0.5), [[0.0], [1.0]], 2)
COUPONS = MDP(np.full((20, 1, 20), 0.05), np.linspace(0, 1, 20)[:, None], 2)
BAD_COINS = losing(COINS, 1e-9, 0.6)
BAD_COUPONS = losing(COUPONS, 1e-9, 0.6)
RARE = losing(one_in(0.05), 1e-9, 1.0, segments=(1,))
"""Where the state that does not pay follows at the first step, nobody ever sees it."""
GOOD_ARMS = losing(BANDIT, 1e-9, 0.0, others=0.6, unpaid=1.0)

WORLDS = {"coins": BAD_COINS, "coupons": BAD_COUPONS, "rare": RARE, "arms": GOOD_ARMS}


@pytest.mark.usefixtures("fewer_looks")
@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("world", WORLDS)
def test_each_part_keeps_its_share(part: str, world: str, monkeypatch: pytest.MonkeyPatch) -> None:
    check_part(monkeypatch, part, watched(WORLDS[world], 0.5, 200), 40)


def left_out(patch: pytest.MonkeyPatch) -> None:
    """What is lost is taken to be so at random."""
    patch.setattr(SparseCounts, "_add_missing", lambda *_: None)


def unpaid_as_nothing(patch: pytest.MonkeyPatch) -> None:
    """What is not known to be paid is taken to be nothing."""
    right = SparseCounts._add_missing

    def lose(self: SparseCounts, row: Any, reward: Any, seen: Any) -> None:
        right(self, row, np.nan_to_num(reward), seen)

    patch.setattr(SparseCounts, "_add_missing", lose)


def missing_since_the_last_new(patch: pytest.MonkeyPatch) -> None:
    """A loss may have been something new, but that is not counted."""
    right = UnknownStateBounds.update

    def take(self: UnknownStateBounds, data: SparseCounts) -> None:
        data.make_room()
        last, data.last_lost = data.last_lost, 0 * data.last_lost
        right(self, data)
        data.last_lost = last

    patch.setattr(UnknownStateBounds, "update", take)


def balls_of_what_was_seen(patch: pytest.MonkeyPatch) -> None:
    """Balls for all functions leave out what was lost."""
    right = UnknownStateBounds.update

    def take(self: UnknownStateBounds, data: SparseCounts) -> None:
        right(self, data)
        whole = self.evidence
        right(self, data.without_lost())
        balls = self.evidence
        for name in ("n_outcomes", "eta_outcomes", "n_successors", "eta_successors"):
            whole.known[name] = balls.known[name]
        self.evidence = balls._replace(known=whole.known, one=whole.one)

    patch.setattr(UnknownStateBounds, "update", take)


BROKEN: dict[str, tuple[Break, tuple[str, ...], OpenCase, set[str], int]] = {
    "lost at random, from below": (left_out, ("below",), BAD_COINS, {"below"}, 400),
    "lost at random, from above": (left_out, ("above",), GOOD_ARMS, {"above"}, 400),
    "lost at random, any policy": (left_out, ("outcomes",), BAD_COINS, {"W"}, 400),
    "balls of what was seen": (balls_of_what_was_seen, ("all",), BAD_COINS, {"pattern"}, 400),
    "no new start by losses": (
        missing_since_the_last_new,
        ("missing",),
        RARE,
        {"missing"},
        600,
    ),
    "not paid at all": (unpaid_as_nothing, ("above",), GOOD_ARMS, {"above"}, 400),
}


@pytest.mark.parametrize("name", BROKEN)
def test_what_is_broken_is_seen(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """At delta .1, all of it for the part: the right one keeps to it, the broken one does not."""
    break_it, shares, case, claims, episodes = BROKEN[name]
    alone(monkeypatch, *shares)
    check_power(monkeypatch, break_it, watched(case, 0.1, episodes), claims, 50, 0.1)
