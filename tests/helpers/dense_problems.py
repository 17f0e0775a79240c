"""Problems as dense arrays, and their optima by plain induction."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucfh import MDP

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
