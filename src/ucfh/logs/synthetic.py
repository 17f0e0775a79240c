"""Logs of simulated episodes."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh._utils.files import AnyPath, check_ending, labels_of, replacing
from ucfh.exceptions import InputError, check_count, check_seed
from ucfh.logs.batches import COLUMNS
from ucfh.mdp import MDP
from ucfh.problems import AnyMDP, as_mdp

BLOCK = 10_000
"""Episodes that are simulated at once, which bounds the memory."""


def write_log(
    mdp: AnyMDP,
    path: AnyPath,
    episodes: int,
    *,
    policy: Any = None,
    seed: int = 0,
    force: bool = False,
) -> None:
    """Simulate episodes and write a .csv log of them; docs/howto/logs.md describes it.

    Args:
        mdp: the problem; its names label the states and actions.
        path: the file to write.
        episodes: the number of episodes.
        policy: (H, S) or (S,); by default actions are uniformly random.
        seed: the random seed.
        force: whether to overwrite an existing file.

    Raises:
        InputError: the file exists, or an episode may begin in a terminal state.

    """
    mdp = as_mdp(mdp)
    check_ending(path, [".csv"])
    check_count("episodes", episodes)
    for s in mdp.problem.terminal:
        if mdp.initial[s] > 0:
            raise InputError(f"an episode that begins in terminal state {s} leaves no row in a log")
    rows = None if policy is None else mdp.table.rows_of(policy, mdp.horizon)
    rng = np.random.default_rng(check_seed(seed))
    with replacing(path, force) as temporary, open(temporary, "w", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for first in range(0, episodes, BLOCK):
            writer.writerows(_walk(mdp, rows, rng, first, min(BLOCK, episodes - first)))


def _walk(mdp: MDP, policy: Ints | None, rng: np.random.Generator, first: int, n: int) -> Any:
    """Yield the rows of n episodes, numbered from ``first``; policy (H, S): rows of the table."""
    table, H = mdp.table, mdp.horizon
    possible = np.flatnonzero(mdp.p > 0)
    # each row of the table is one unit long, so a number between row and row + 1 is a draw
    until = np.cumsum(mdp.p[possible])
    bounds = np.searchsorted(possible, table.indptr)

    def draw(row: Ints) -> Ints:
        at = np.searchsorted(until, row + rng.random(n), "right")
        return np.asarray(possible[at.clip(bounds[row], bounds[row + 1] - 1)])

    over = np.isin(np.arange(table.states), mdp.problem.terminal)
    states, actions = labels_of(mdp.problem)
    s = table.indices[draw(np.full(n, table.start))]
    alive = np.ones(n, bool)
    steps = []
    for t in range(H):
        if policy is None:
            choices = np.diff(table.first)[s]
            pair = table.first[s] + (rng.random(n) * choices).astype(np.int64)
        else:
            pair = policy[t, s] - t * table.stride
        entry = draw(pair + t * table.stride)
        reward = mdp.rewards.pair[min(t, len(mdp.rewards.pair) - 1), pair]
        extra = mdp.rewards.successor
        if extra is not None:
            reward = reward + extra[min(t, len(extra) - 1), entry]
        if mdp.noise == "bernoulli":
            reward = (rng.random(n) < reward).astype(float)
        following = table.indices[entry]
        steps.append((alive, s, table.action[pair], reward, following))
        alive = alive & ~over[following]
        s = following
    there, s, a, reward, following = (np.stack(each, axis=1) for each in zip(*steps, strict=True))
    episode, time = np.nonzero(there)
    return zip(
        (first + episode).tolist(),
        time.tolist(),
        map(states.label, s[there].tolist()),
        map(actions.label, a[there].tolist()),
        reward[there].tolist(),
        map(states.label, following[there].tolist()),
        np.where(over[following[there]], "true", "false").tolist(),
        strict=True,
    )
