"""Fiechter: explore until the model is accurate enough, then exploit it.

Fiechter: Efficient Reinforcement Learning. COLT 1994. Setting: the discounted value from one start,
with a reset; the output is PAC, after O~(S^2 A H^7/eps^2) trials. Scheme: follow the policy that
maximizes the model's bound of the error of values; when that bound is at most eps/2 at the start,
return the optimum of the model. (RF-UCRL is its modern form, and both can plan for any
rewards: `ucfh.algorithms.reward_free`.)

Derived here, as the published constants were not available:

    rad(n) = sqrt( 2 (ln(2^S - 2) + ln(S A n(n+1)/delta))/n )
    E_t = min( H-t, (H-t) min(1, rad(n)/2) + p^ max_a E_{t+1} ),  E_H = 0;  n = 0: E_t = H-t
    follow argmax E; once max_a E_1(start, a) <= eps/2, always argmax Q^, Q^ of p^

With probability 1 - delta, ||p^ - p||_1 <= rad(n) for all pairs and n at once, as 1/(n(n+1)) sums
to 1. Then |(p^ - p) V_{t+1}| <= (H-t) min(1, rad/2) for every policy, so that its values under p^
and p differ by E_1 at most: the last policy is eps-optimal. At the start, E_1 is a mean where the
start distribution is known, else a maximum. Where rewards depend on the next state, they are added
to V_{t+1}, and H-t+1 takes the place of H-t.
"""

from __future__ import annotations

import numpy as np

from ucfh._kernels.online import CAP_NEXT, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.mbie import l1_radius
from ucfh.algorithms.reward_free import RewardFree


class Fiechter(RewardFree):
    """Fiechter's agent."""

    name = "fiechter"
    reference = "Fiechter 1994"
    setting = "discounted with reset; adapted: fixed-horizon planning; widths derived"
    guarantee = "explores first; eps-optimal from then on"
    constants = "derived: the widths"
    rule = Rule(cap=CAP_NEXT, by_left=True)

    def radius(self, n: Floats) -> Floats:
        """Return rad(n) (k,)."""
        log_terms = np.log(self.S * self.A * n * (n + 1) / self.delta)
        return self.scale * l1_radius(self.S, log_terms, n)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return min(1, rad/2), to be multiplied by the remaining steps."""
        return {"flat": np.minimum(1.0, self.radius(n) / 2)}
