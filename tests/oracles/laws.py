"""Samples of simulated lifetimes, to hold one way of simulating against another."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from ucfh import MDP, UCFH, make, simulate
from ucfh.counts import NEVER
from ucfh.simulation import bulk
from ucfh.simulation import runner as phases


@dataclass(frozen=True)
class Case:
    """A problem, an agent with a small m, and how many episodes to run."""

    mdp: Callable[[], MDP]
    settings: dict[str, Any]
    episodes: int | None


def rare() -> MDP:
    """Three states; from the start, state 1 follows with probability 1e-6, under action 0."""
    p = np.zeros((3, 2, 3))
    p[0, 0] = [0, 1e-6, 1 - 1e-6]
    p[0, 1, 2] = 1
    p[1, :, 1] = 0.5
    p[1, :, 2] = 0.5
    p[2, :, 2] = 1
    return MDP(p, [[0.0], [1.0], [0.2]], horizon=3)


CASES = {
    "hard": Case(lambda: make("hard:n=3,actions=2,horizon=6"), {"m": 6000.7}, 1500),
    "chain": Case(lambda: make("chain:n=4,horizon=5"), {"m": 8000.3}, 1500),
    "corrected": Case(
        lambda: make("chain:n=4,horizon=5"), {"m": 8000.3, "variant": "corrected"}, 1000
    ),
    "random": Case(
        lambda: make("random:states=6,actions=2,successors=3,horizon=4"), {"m": 6000.3}, 1000
    ),
    "segments": Case(
        lambda: make("random:states=3,actions=2,horizon=3,segments=1"), {"m": 16000.3}, 1000
    ),
    "lifetime": Case(lambda: make("chain:n=3,horizon=3"), {"m": 60.3}, None),
    "rare": Case(rare, {"m": 150.3}, 4_000_000),
}


def sample(
    case: Case,
    method: Literal["bulk", "step"],
    runs: int,
    first_seed: int,
    walk_steps: int,
    margin: float,
) -> dict[str, NDArray[np.float64]]:
    """Statistics of many runs, one value a run in each array (runs,)."""
    saved = bulk.WALK_STEPS, bulk.MARGIN, phases.FIRST_STEPS
    bulk.WALK_STEPS, bulk.MARGIN, phases.FIRST_STEPS = walk_steps, margin, walk_steps
    mdp = case.mdp()
    rows = []
    try:
        for seed in range(first_seed, first_seed + runs):
            agent = UCFH(mdp.problem, epsilon=0.3, delta=0.1, **case.settings)
            run = simulate(mdp, agent, case.episodes, seed, method)
            ended = [row for row in run.rows if row.n > 0]
            live = agent.limits().visits < NEVER  # others need not be counted
            firsts = mdp.table.indptr[:-1][live]
            third = ended[min(2, len(ended) - 1)]
            last = ended[-1]
            rows.append(
                {
                    "updates": len(ended),
                    "first phase": ended[0].episodes,
                    "third phase": third.episodes,
                    "longest phase": max(row.episodes for row in run.rows),
                    "pair of the third update": third.state * mdp.actions + third.action,
                    "pair of the last update": last.state * mdp.actions + last.action,
                    "n at the third update": third.n,
                    "n at the last update": last.n,
                    "mistakes": run.mistakes(),
                    "episodes": run.episodes,
                    "most visited n": agent.n.visits.max(),
                    "visits waiting": agent.v.visits[live].sum(),
                    "first successors waiting": agent.v.successors[firsts].sum(),
                }
            )
    finally:
        bulk.WALK_STEPS, bulk.MARGIN, phases.FIRST_STEPS = saved
    return {name: np.array([float(row[name]) for row in rows]) for name in rows[0]}


def p_values(
    one: dict[str, NDArray[np.float64]], other: dict[str, NDArray[np.float64]]
) -> dict[str, float]:
    """Two-sample tests, statistic by statistic: chi-square on at most 12 bins of equal mass."""
    result = {}
    for name in one:
        both = np.concatenate([one[name], other[name]])
        cuts = np.unique(np.quantile(both, np.linspace(0, 1, 13)[1:-1]))
        table = np.array(
            [
                np.bincount(np.digitize(x, cuts), minlength=len(cuts) + 1)
                for x in (one[name], other[name])
            ]
        )
        table = table[:, table.sum(0) > 0]
        if table.shape[1] > 1:
            result[name] = float(stats.chi2_contingency(table).pvalue)
    return result
