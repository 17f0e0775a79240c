"""How many episodes a certificate takes, by what the agent is told; epsilon .1, delta .1.

Median over seeds. told: states, successors, rewards, start. rewards: all but the rewards. G:
nothing but the largest return of an episode. nothing: not even that. Beside them: how many 0.6.0
took with unknown rewards, and what a throw-away prototype took.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import NamedTuple

from ucfh import CertifiedUCFH, learn, make, simulate

SEEDS, EPSILON, DELTA, MOST = 20, 0.1, 0.1, 2_000_000


class Task(NamedTuple):
    """A problem, its segments, and earlier figures: 0.6.0 with unknown rewards, prototypes."""

    segments: tuple[int, ...] = ()
    max_return: float | None = 1.0
    before: int | None = None
    prototype: tuple[int | None, ...] = (None, None, None)


TASKS = {
    "chain:n=5": Task(max_return=1.05, before=1142, prototype=(416, 777, 1528)),
    "calls": Task(before=9894, prototype=(1752, 1558, 5365)),
    "riverswim": Task(max_return=None, before=7356, prototype=(2914, None, 5260)),
    "gym:FrozenLake-v1,horizon=20": Task(before=30535, prototype=(17548, 19371, 53144)),
    "tutoring": Task(segments=(9,), prototype=(None, 4581, None)),
}
WAYS = ("told", "rewards", "G", "nothing")


def episodes(name: str, way: str, seed: int) -> float:
    """Episodes until the certificate; infinite if there are more than `MOST`."""
    mdp, task = make(name), TASKS[name]
    if way in ("told", "rewards"):
        problem = mdp.problem.hiding("rewards") if way == "rewards" else mdp.problem
        run = simulate(mdp, CertifiedUCFH(problem, EPSILON, DELTA), MOST, seed)
        known, count = run.certificate, run.episodes
    else:
        most = task.max_return if way == "G" else None
        found = learn(
            mdp, EPSILON, DELTA, max_return=most, segments=task.segments, episodes=MOST, seed=seed
        )
        known, count = found.certificate, found.episodes
    return count if known is not None and known.certified else float("inf")


def main(names: list[str] | None = None, seeds: int = SEEDS) -> None:
    print(f"median episodes to a certificate over {seeds} seeds, epsilon .1, delta .1")
    print(f"{'':<30}" + "".join(f"{way:>10}" for way in WAYS) + "   0.6.0, rewards unknown;"
          " prototype: rewards, G, nothing")  # fmt: skip
    with ProcessPoolExecutor(2) as pool:
        for name in names or TASKS:
            task, cells = TASKS[name], []
            for way in WAYS:
                if (way == "rewards" and task.segments) or (way == "G" and task.max_return is None):
                    cells.append(f"{'-':>10}")
                    continue
                runs = [pool.submit(episodes, name, way, seed) for seed in range(seeds)]
                cells.append(f"{median(run.result() for run in runs):>10.0f}")
            earlier = ", ".join("-" if x is None else str(x) for x in task.prototype)
            print(f"{name:<30}{''.join(cells)}   {task.before or '-'}; {earlier}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or None)
