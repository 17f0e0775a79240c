"""A world that changes while an agent learns, which no certificate allows for."""

from __future__ import annotations

import numpy as np

from ucfh import MDP, Certificate, simulate
from ucfh.algorithms.certified import CertifiedUCFH

EPSILON = 0.2
EPISODES = 3000


def arm(chance: float) -> MDP:
    """One decision between two arms: the first wins with a chance, the second in half of cases."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 1:], p[0, 1, 1:] = [chance, 1 - chance], [0.5, 0.5]
    p[1, :, 1] = p[2, :, 2] = 1
    return MDP(p, [[0.0], [1.0], [0.0]], 2)


def drift(seed: int, before: float = 0.9, after: float = 0.6) -> Certificate:
    """What an agent says after as many episodes before its first arm changes as after that."""
    first = CertifiedUCFH(arm(before).problem, EPSILON, 0.1, stop=None)
    simulate(arm(before), first, episodes=EPISODES, seed=seed)
    agent = CertifiedUCFH(arm(after).problem, EPSILON, 0.1, stop=None)
    agent.restore(first.state())
    run = simulate(arm(after), agent, episodes=EPISODES, seed=seed + 10_000)
    assert run.certificate is not None
    return run.certificate
