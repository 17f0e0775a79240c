"""EPRL at work: it is within epsilon when it stops, in a share of at least 1 - delta of runs."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ucfh import MDP, make, simulate
from ucfh.algorithms.eprl import EPRL

RUNS, DELTA = 100, 0.1


def layers() -> MDP:
    """Two ways to each of two states, all rewards about a half: paths are hard to tell apart."""
    p = np.eye(2)[np.array([[0, 1], [1, 0]])]
    r = np.array([[[0.5, 0.3], [0.5, 0.5]], [[0.45, 0.4], [0.9, 0.2]]])
    return MDP(np.stack([p, p]), r, 2, noise="bernoulli")


PROBLEMS = {
    "chain": (make("chain:n=3,horizon=3,slip=0").noisy(), 0.5),
    "layers": (layers(), 0.2),
    "deepsea": (make("deepsea:n=3").noisy(), 0.6),
}


@pytest.mark.parametrize("name", PROBLEMS)
def test_the_promise(name: str) -> None:
    mdp, epsilon = PROBLEMS[name]
    wrong = 0
    for seed in range(RUNS):
        run = simulate(mdp, EPRL(mdp.problem, epsilon, DELTA), seed=seed)
        assert run.final
        wrong += run.gap > epsilon
    print(f"{name}: wrong in {wrong} of {RUNS} runs (allowed {DELTA:.0%})")
    assert stats.binom.sf(wrong - 1, RUNS, DELTA) > 1e-3


def test_a_smaller_radius_breaks_it() -> None:
    mdp, epsilon = PROBLEMS["layers"]
    runs = [simulate(mdp, EPRL(mdp.problem, epsilon, DELTA, 0.05), seed=k) for k in range(RUNS)]
    wrong = sum(run.gap > epsilon for run in runs)
    print(f"a twentieth of the radius: wrong in {wrong} of {RUNS} runs")
    assert stats.binom.sf(wrong - 1, RUNS, DELTA) < 1e-3
