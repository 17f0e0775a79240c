"""Theorem 1 at work: 2,000 full runs with the true constants, on two small problems.

With probability 1 - delta/2 the true transitions never leave the confidence sets (Lemma 1), and
with probability 1 - delta at most the bound's number of episodes are worse than epsilon.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ucfh import UCFH, make, simulate

RUNS = 2000
DELTA = 0.1
PROBLEMS = {"chain:n=3,horizon=3": 0.3, "hard:n=2,actions=2,horizon=4": 0.2}


@pytest.mark.parametrize("name", PROBLEMS)
def test_lifetimes_keep_the_guarantee(name: str) -> None:
    mdp, epsilon = make(name), PROBLEMS[name]
    left, worst, most_updates = 0, 0.0, 0
    for seed in range(RUNS):
        agent = UCFH(mdp.problem, epsilon, DELTA)
        run = simulate(mdp, agent, seed=seed)
        assert run.final
        left += bool(np.min(run.phases.captured) < 1)
        worst = max(worst, run.mistakes() / agent.constants.episode_bound)
        most_updates = max(most_updates, run.updates)
    # a share above delta/2 would show as a count that delta/2 makes improbable
    surprise = stats.binom.sf(left - 1, RUNS, DELTA / 2)
    print(
        f"{name}: left the sets in {left} of {RUNS} (allowed {DELTA / 2:.0%}); most mistakes "
        f"{worst:.3g} of the bound; most updates {most_updates} (U_max {agent.constants.u_max:.1f})"
    )
    assert left / RUNS <= DELTA / 2 or surprise > 1e-3
    assert worst <= 1
