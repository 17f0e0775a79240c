"""Memory and time of an agent that has found many states: what was seen takes room, no more."""

from __future__ import annotations

import resource
import sys
from time import perf_counter

import numpy as np

from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.sparse_counts import Steps

ACTIONS, HORIZON, SUCCESSORS = 4, 10, 3


def walk(rng: np.random.Generator, states: int, episodes: int) -> Steps:
    """Random episodes: each action in each state leads to one of three, by a fixed rule."""
    s = np.zeros((episodes, HORIZON + 1), np.int64)
    a = rng.integers(ACTIONS, size=(episodes, HORIZON))
    branch = rng.integers(SUCCESSORS, size=(episodes, HORIZON))
    for t in range(HORIZON):
        code = (s[:, t] * ACTIONS + a[:, t]) * SUCCESSORS + branch[:, t]
        s[:, t + 1] = (code * 2654435761 + 12345) % 2**31 % states
    step = np.broadcast_to(np.arange(HORIZON), a.shape)
    reward = (s[:, 1:] % 97 == 0).astype(float)
    return Steps(
        t=step.ravel(),
        state=s[:, :-1].ravel() + 1,
        action=a.ravel(),
        reward=reward.ravel(),
        following=s[:, 1:].ravel() + 1,
        starts=s[:, 0] + 1,
    )


def main(wanted: int = 100_000) -> None:
    rng, states = np.random.default_rng(0), int(1.05 * wanted)
    agent = UnknownStatesUCFH(HORIZON, ACTIONS, 0.1, 0.1, max_return=1.0)
    agent.plan()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    for _ in range(states):
        agent.experience.find()
    began = perf_counter()
    while np.count_nonzero(agent.experience.reached.any(axis=1)) < wanted:
        agent.experience.add(walk(rng, states, 20_000))
    counted = perf_counter() - began
    began = perf_counter()
    agent.plan()
    planned = perf_counter() - began
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    data = agent.experience
    print(
        f"{np.count_nonzero(data.reached.any(axis=1))} states, {len(data.key)} transitions, "
        f"{data.episodes} episodes: {counted:.1f} s to count, {planned:.1f} s to plan once, "
        f"peak memory {after:.2f} GB, of which {before:.2f} GB before the first state"
    )


if __name__ == "__main__":
    main(*(int(x) for x in sys.argv[1:]))
