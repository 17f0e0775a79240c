"""Problems as dense arrays, and problems for the certified agent."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh import MDP, Problem, make
from ucfh.counts import ScoringRule


def segmented(seed: int = 0, **options: Any) -> MDP:
    """Transitions that depend on the step."""
    rng = np.random.default_rng(seed)
    p = rng.dirichlet(np.ones(3), (3, 3, 2))
    return MDP(p, rng.random((3, 3, 2)), 3, **options)


def small(seed: int = 1, **options: Any) -> MDP:
    rng = np.random.default_rng(seed)
    return MDP(rng.dirichlet(np.ones(2), (2, 2)), rng.random((2, 2)), 3, **options)


def fewer_actions() -> MDP:
    """State 0 has one action, state 2 ends the episode, rewards depend on the next state."""
    rng = np.random.default_rng(2)
    have = np.array([[True, False], [True, True], [True, True]])
    return MDP(
        rng.dirichlet(np.ones(3), (3, 2)), rng.random((1, 3, 2, 3)), 3, available=have, terminal=[2]
    )


CHAIN = make("chain:n=3,horizon=3")


WORLDS: dict[str, tuple[MDP, Problem]] = {
    "chain": (CHAIN, CHAIN.problem),
    "successors unknown": (CHAIN, CHAIN.problem.hiding("successors")),
    "segments": (segmented(), segmented().problem),
    "rewards unknown": (
        small(noise="bernoulli"),
        small(noise="bernoulli").problem.hiding("rewards"),
    ),
    "start unknown": (
        small(initial=[0.3, 0.7]),
        small(initial=[0.3, 0.7]).problem.hiding("initial"),
    ),
    "all unknown": (
        segmented(initial=[0.2, 0.3, 0.5]),
        segmented(initial=[0.2, 0.3, 0.5]).problem.hiding("rewards", "initial", "successors"),
    ),
    "fewer actions": (fewer_actions(), fewer_actions().problem),
}


def watched(mdp: MDP, seed: int) -> tuple[Any, ScoringRule]:
    """Two policies that differ here and there, and what counts when the second is left."""
    rng = np.random.default_rng(seed)
    first, H = mdp.table.first, mdp.horizon
    shift = mdp.table.stride * np.arange(H)[:, None]
    kept = first[:-1] + rng.integers(0, np.tile(np.diff(first), (H, 1))) + shift
    other = first[:-1] + rng.integers(0, np.tile(np.diff(first), (H, 1))) + shift
    taken = np.where(rng.random(kept.shape) < 0.3, other, kept)
    return taken, ScoringRule(kept, mdp.values(mdp.table.policy_of(kept)))


Floats = NDArray[np.float64]


def dense(mdp: MDP) -> Floats:
    """(S, A, S) or (H, S, A, S) transition probabilities."""
    return mdp.table.dense(mdp.p)


def reward(mdp: MDP, s: int, a: int) -> float:
    """The mean reward of a pair at the first step."""
    pairs = list(zip(mdp.table.state, mdp.table.action, strict=True))
    return float(mdp.mean_rewards[0, pairs.index((s, a))])


def optimum(mdp: MDP) -> float:
    return mdp.value(mdp.optimal().policy)
