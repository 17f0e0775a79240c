"""How many episodes a certificate takes: every kind of set, and the best with each idea left out.

Median over seeds; the agent is told nothing about successors. The first six problems are those
that the ideas were measured on; nothing was tuned on the last three.
"""

from __future__ import annotations

import sys
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from time import perf_counter

import numpy as np

from ucfh import MDP, Problem, make, simulate
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.confidence.value_bounds import COMPONENTS

SEEDS = 20
MOST = 20_000_000
SETS = ("paper", "kl", "l1", "kl-ball", "kt", "kt-ball", "tight")
METHODS = (*SETS, *(f"without {idea}" for idea in COMPONENTS))
WANTED = {"slip": 196, "linear": 145, "dense .5": 1685, "dense .25": 5581, "river": 979}
WANTED |= {"hard": 6220}


def slip_chain(rewards: list[float]) -> MDP:
    p = np.zeros((5, 2, 5))
    for s in range(5):
        for a, on in enumerate((0.2, 0.8)):
            p[s, a, min(s + 1, 4)] += on
            p[s, a, max(s - 1, 0)] += 1 - on
    return MDP(p, np.array(rewards)[:, None], 5)


def dense(seed: int) -> MDP:
    rng = np.random.default_rng(seed)
    return MDP(rng.dirichlet(np.ones(20), (20, 3)), rng.random((20, 1)), 5)


def river() -> MDP:
    p = np.zeros((6, 2, 6))
    for s in range(6):
        p[s, 0, max(s - 1, 0)] = 1.0
    p[0, 1, :2] = 0.4, 0.6
    for s in range(1, 5):
        p[s, 1, s - 1 : s + 2] = 0.05, 0.6, 0.35
    p[5, 1, 4:] = 0.4, 0.6
    return MDP(p, np.array([0.005, 0, 0, 0, 0, 1])[:, None], 12)


def hard() -> MDP:
    p = np.zeros((7, 3, 7))
    p[0, :, 1:5] = 0.25
    for i, best in enumerate((1, 2, 1, 2)):
        for a in range(3):
            p[1 + i, a, 5] = 0.75 if a == best else 0.5
            p[1 + i, a, 6] = 1 - p[1 + i, a, 5]
    p[5, :, 5] = p[6, :, 6] = 1.0
    return MDP(p, np.eye(7)[5][:, None], 10)


def problem(name: str, seed: int) -> tuple[MDP, Problem, float]:
    """The world, what the agent is told, and epsilon. Instances of "dense" go with the seed."""
    if name in ("slip", "linear"):
        rewards = [0.05, 0, 0, 0, 1] if name == "slip" else [0, 0.25, 0.5, 0.75, 1]
        mdp, epsilon = slip_chain(rewards), 0.5
    elif name.startswith("dense"):
        mdp, epsilon = dense(seed % 5), float(name.split()[1])
    elif name == "river":
        mdp, epsilon = river(), 0.5
    elif name == "hard":
        mdp, epsilon = hard(), 0.5
    else:
        text, _, value = name.partition(" ")
        mdp, epsilon = make(text), float(value)
    return mdp, mdp.problem.hiding("successors"), epsilon


NAMES = (*WANTED, "tutoring .1", "grid:rows=3,cols=3 .1")
NAMES += ("random:states=12,actions=3,successors=4,horizon=8 .5",)


def episodes(name: str, method: str, seed: int) -> float:
    """Episodes until the certificate; infinite if there are more than `MOST`."""
    mdp, told, epsilon = problem(name, seed)
    if method.startswith("without "):
        agent = CertifiedUCFH(told, epsilon, 0.1, without=(method.split()[1],))
    else:
        agent = CertifiedUCFH(told, epsilon, 0.1, confidence=method)
    run = simulate(mdp, agent, MOST, seed)
    if run.certificate is None or not run.certificate.certified:
        return float("inf")
    return run.episodes


def main(names: list[str] | None = None, seeds: int = SEEDS) -> None:
    print(f"median episodes to a certificate over {seeds} seeds, delta 0.1")
    with ProcessPoolExecutor(2) as pool:
        for name in names or NAMES:
            started = perf_counter()
            jobs = {
                method: [pool.submit(episodes, name, method, seed) for seed in range(seeds)]
                for method in METHODS
            }
            found = {m: median(job.result() for job in runs) for m, runs in jobs.items()}
            wanted = f", wanted {WANTED[name]}" if name in WANTED else ""
            print(f"\n{name}{wanted} ({perf_counter() - started:.0f} s)")
            for method, count in found.items():
                print(f"  {method:>20} {count:>10.0f}   {count / found['best']:6.2f}", flush=True)


if __name__ == "__main__":
    main(sys.argv[1:] or None)
