"""Agents of rlberry: ``python rlberry_agents.py model.npz episodes repeats MODULE.AGENT...``.

Prints the most episodes a second that each reached in a stretch of that many, after one that does
not count (0.6.0 compiles in it). As they come but for the horizon, and without a writer.
"""

from __future__ import annotations

import sys
from importlib import import_module
from time import perf_counter

import numpy as np
from rlberry.envs import FiniteMDP  # type: ignore[import-not-found]


def main(model_file: str, episodes: int, repeats: int, names: list[str]) -> None:
    model = np.load(model_file)
    for name in names:
        module, _, agent_class = name.rpartition(".")
        env = FiniteMDP(model["r"], model["p"], int(model["initial"]))
        make = getattr(import_module(module), agent_class)
        agent = make(env, horizon=int(model["horizon"]), seeder=0)
        agent.set_writer(None)
        seconds = []
        for _ in range(repeats + 1):
            started = perf_counter()
            agent.fit(budget=episodes)
            seconds.append(perf_counter() - started)
        print(episodes / min(seconds[1:]))


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4:])
