"""Logs made by stepping tasks, as the audit takes them."""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Iterable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ucfh import MDP, make, write_log
from ucfh.auditing.steps import AuditSteps
from ucfh.problems import tasks

Step = tuple[bool, int, Hashable, Hashable, Hashable, float]
"""Whether an episode begins, t, s, a, s', r."""


def passages(steps: Iterable[Step]) -> AuditSteps:
    """States and actions are numbered as they come."""
    states: dict[Hashable, int] = {}
    actions: dict[Hashable, int] = {}
    rows = [
        (new, t, states.setdefault(s, len(states)), actions.setdefault(a, len(actions)),
         states.setdefault(after, len(states)), float(r))
        for new, t, s, a, after, r in steps
    ]  # fmt: skip
    new, t, s, a, after, r = (np.array(column) for column in zip(*rows, strict=True))
    nothing = np.zeros(len(t), np.int64)
    return AuditSteps(new, t, s, a, after, r, nothing.astype(bool), nothing)


def stepped(
    env: Any,
    episodes: int,
    horizon: int,
    act: Callable[[Any, np.random.Generator], int],
    encode: Callable[[Any], Hashable] = lambda observation: observation,
    seed: int = 0,
) -> AuditSteps:
    """Episodes of an environment of Gymnasium, with ``act(observation, rng)``."""

    def steps() -> Iterable[Step]:
        rng = np.random.default_rng(seed)
        for episode in range(episodes):
            observation, _ = env.reset(seed=seed if episode == 0 else None)
            over = False
            for t in range(horizon):
                if over:
                    break
                s, a = encode(observation), act(observation, rng)
                observation, r, over, _, _ = env.step(a)
                yield t == 0, t, s, a, "end" if over else encode(observation), float(r)

    return passages(steps())


def simulated(mdps: Iterable[MDP], episodes: int, folder: Path) -> AuditSteps:
    """So many episodes of one problem, then of the next, all actions equally often."""

    def steps() -> Iterable[Step]:
        for i, mdp in enumerate(mdps):
            path = folder / f"{i}.csv"
            write_log(mdp, path, episodes, seed=i, force=True)
            with open(path, newline="") as file:
                for x in csv.DictReader(file):
                    t = int(x["t"])
                    yield t == 0, t, x["state"], x["action"], x["next_state"], float(x["reward"])

    return passages(steps())


def drifting_calls(change: float, episodes: int, folder: Path) -> AuditSteps:
    """Calls of which a part that grows to ``change`` has a complex instead of a simple fault."""
    table = {**tasks._CALL}
    weeks = 20

    def week(i: int) -> MDP:
        more = change * i / (weeks - 1)
        law = {"vague": 0.5, "simple": 0.3 - more, "complex": 0.2 + more}
        with patch.dict(tasks._CALL, {**table, ("greeting", "ask"): law}):
            return make("calls")

    return simulated(map(week, range(weeks)), episodes // weeks, folder)


def grid(name: str, episodes: int, *, full: bool = False, steps: int = 30) -> AuditSteps:
    """Walks in a grid of MiniGrid, by its usual view of a part or with all of it in sight."""
    import minigrid  # noqa: F401 - registers its environments
    from minigrid import wrappers

    full_view: Any = wrappers.FullyObsWrapper
    env: Any = gymnasium.make(name, max_episode_steps=-1)
    if full:
        env = full_view(env)
    moves = [0, 1, 2, 2, 2] if "Empty" in name else [0, 1, 2, 2, 2, 3, 5]
    return stepped(
        env,
        episodes,
        steps,
        lambda _, rng: int(rng.choice(moves)),
        lambda seen: (seen["image"].tobytes(), int(seen["direction"])),
    )


def taxi(episodes: int, *, fickle: bool, steps: int = 100) -> AuditSteps:
    """Rides of a taxi that drives the shortest way or, seven times in ten, at random."""
    env = gymnasium.make("Taxi-v4", fickle_passenger=fickle, max_episode_steps=-1).unwrapped
    best = _best_in_taxi(env)
    return stepped(
        env,
        episodes,
        steps,
        lambda s, rng: int(rng.integers(6)) if rng.random() < 0.7 else int(best[s]),
    )


def _best_in_taxi(env: Any) -> NDArray[np.int64]:
    """(500,) the best actions by value iteration, in a world without whims."""
    after = np.array([[row[0][1] for row in env.P[s].values()] for s in env.P])  # (500, 6)
    paid = np.array([[row[0][2] for row in env.P[s].values()] for s in env.P], float)
    over = np.array([[row[0][3] for row in env.P[s].values()] for s in env.P])
    value = np.zeros(len(after))
    for _ in range(200):
        value = (paid + 0.99 * ~over * value[after]).max(1)
    return np.asarray((paid + 0.99 * ~over * value[after]).argmax(1), np.int64)
