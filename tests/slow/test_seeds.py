"""Seeds added until differences are significant: how often equal agents are told apart.

If no agent differs, a comparison that looks several times, and corrects for that, claims a
difference in at most 5% of all cases. One that does not correct claims too many, and is found out
by the same cases.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from ucfh._utils.statistics import LEVEL, looks_of, verdicts

TRIALS = 600
SEEDS = 100


def claims(agents: int, shift: float, seed: int, corrected: bool = True) -> tuple[bool, int]:
    """Return whether two agents were told apart, and the number of seeds.

    The last agent is worse by ``shift``. Without correction, every look has all of the 5%.
    """
    rng = np.random.default_rng(seed)
    world = rng.normal(size=SEEDS)
    runs = {str(i): world + rng.standard_t(3, size=SEEDS) for i in range(agents)}
    runs[str(agents - 1)] += shift
    looks = looks_of(SEEDS, agents)
    for n in looks:
        known = {name: dict(enumerate(x[:n])) for name, x in runs.items()}
        planned = looks if corrected else [n]
        found = verdicts(known, planned)
        if any(x.significant for x in found.values()):
            return True, n
    return False, SEEDS


@pytest.mark.parametrize("agents", [2, 5])
def test_equal_agents_are_rarely_told_apart(agents: int) -> None:
    false = sum(claims(agents, 0.0, k)[0] for k in range(TRIALS))
    # exceeded with probability 1e-4 at most, if each case has one of 5%
    limit = stats.binom.isf(1e-4, TRIALS, 1 - LEVEL)
    assert false <= limit
    # and the test can fail: without the correction for looks, agents are told apart too often
    careless = sum(claims(agents, 0.0, k, corrected=False)[0] for k in range(TRIALS))
    assert careless > limit


def test_differences_are_found_with_fewer_seeds() -> None:
    """A shift of 1.5 (the noise of a difference has deviation 2.4) needs few; 0.5 may need all."""
    large = [claims(2, 1.5, k) for k in range(200)]
    assert np.mean([found for found, _ in large]) > 0.95
    assert np.mean([n for _, n in large]) < SEEDS / 3
    small = [claims(2, 0.5, k) for k in range(200)]
    assert np.mean([found for found, _ in small]) > 0.3
