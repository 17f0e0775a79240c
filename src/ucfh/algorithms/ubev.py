"""UBEV: upper bounding the expected next-state value, with one law of the iterated logarithm.

Dann, Lattimore, Brunskill: Unifying PAC and Regret: Uniform PAC Bounds for Episodic Reinforcement
Learning. NIPS 2017 (arXiv 1703.07710, version 3). Setting: episodic, transitions that may depend on
the step, so counts are kept by step; neither K nor epsilon are used.

    phi(n) = sqrt( (2 llnp(n) + ln(18 S A H/delta))/n ),  llnp(n) = ln max(1, ln n)
    Q_t = r + min( max V_{t+1}, p^_t V_{t+1} + (H-t) phi(n_t) ),  V_t = max_a Q_t;  n = 0: phi = inf

With probability 1 - delta, V_t >= V*_t in all episodes and (Theorem 4), for all eps at once, at
most O~( S A H^4/eps^2 min(1 + eps S^2 A, S) ) episodes are worse than eps. The paper also learns
rewards; they are known here, so r takes the place of min(1, r^ + phi). The 18 is 3 times 6: phi has
ln(3/delta_1), a mean leaves it on either side with probability 2 delta_1 at most, and delta_1 =
delta/(6 S A H) leaves delta/3 for optimism in all (t, s, a). (Public code that follows version 3
also has 18; the author's own has 21 where rewards are known, and 27 where not.) max V_{t+1} is over
the possible successors, all states if no successors are known. Derived here: where the reward
depends on the next state, it counts as part of V_{t+1}, and H-t+1 takes the place of H-t.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels.online import NO_CAP, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bonus import BonusAgent


class UBEV(BonusAgent):
    """UBEV, with counts of triples (t, s, a)."""

    name = "ubev"
    reference = "Dann, Lattimore, Brunskill 2017, Algorithm 1"
    setting = "fixed horizon, transitions by step; known rewards"
    guarantee = "for all eps at once: O~(S^2 A H^4/eps^2) mistakes"
    constants = "published: phi; derived: its 18"
    rule = Rule(cap=NO_CAP, by_left=True, best_next=True)
    by_step = by_segment = True

    def phi(self, n: Floats) -> Floats:
        """Return phi (k,) after n (k,) visits, n >= 1."""
        llnp = np.log(np.maximum(1.0, np.log(n)))
        return np.sqrt((2 * llnp + log(18 * self.S * self.A * self.H / self.delta)) / n)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return phi, to be multiplied by H-t; without visits 1, which gives max V_{t+1}."""
        return {"flat": np.where(n > 0, self.scale * self.phi(np.maximum(n, 1)), 1.0)}
