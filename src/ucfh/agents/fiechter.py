"""Fiechter: explore until the model is known to be good enough, then only use it.

Fiechter: Efficient Reinforcement Learning. COLT 1994. Setting: the discounted value from one start,
with a reset; the output is PAC, after O~(S^2 A H^7/eps^2) trials. Scheme: follow the policy that
maximises the model's own bound of the error of values; when that bound is at most eps/2 at the
start, return the optimum of the model. (RF-UCRL of Kaufmann et al. 2021 is its modern form.)

Derived here, as the published constants were not found:

    rad(n) = sqrt( 2 (ln(2^S - 2) + ln(S A n(n+1)/delta))/n )
    E_t = min( H-t, (H-t) min(1, rad(n)/2) + p^ max_a E_{t+1} ),  E_H = 0;  n = 0: E_t = H-t
    follow argmax E; once max_a E_1(start, a) <= eps/2, always argmax Q^, Q^ of p^

With probability 1 - delta, ||p^ - p||_1 <= rad(n) for all pairs and n at once, as 1/(n(n+1)) sums
to 1. Then |(p^ - p) V_{t+1}| <= (H-t) min(1, rad/2) for every policy, so that its values under p^
and p differ by E_1 at most: the last policy is eps-optimal. The start is a mean where it is told,
else the worst. Where rewards depend on the next state, they are part of what V_{t+1} is here, and
H-t+1 takes the place of H-t.
"""

from __future__ import annotations

import numpy as np

from ucfh._kernels import online as kernels
from ucfh._kernels.online import CAP_NEXT, NO_CAP, Rule
from ucfh._support.arrays import Floats
from ucfh.agents.mbie import l1_radius
from ucfh.agents.online import Online, sheet_of, told_rewards
from ucfh.problem import Problem
from ucfh.table import Rewards


class Fiechter(Online):
    """Fiechter's learner.

    ``optimistic`` is E_1, what it does not know yet; ``done`` once that is at most eps/2.
    """

    name = "fiechter"
    reference = "Fiechter 1994"
    setting = "discounted with reset; adapted: fixed-horizon planning; widths derived"
    guarantee = "explores first; eps-optimal from then on"
    constants = "derived: the widths"
    rule = Rule(cap=CAP_NEXT, by_left=True)

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, scale: float = 1.0
    ) -> None:
        self.enough = epsilon / 2
        super().__init__(problem, epsilon, delta, episodes, scale)

    def planned_rewards(self, rewards: Rewards) -> Rewards:
        """Zero: what it explores for is in the bonus."""
        successor = rewards.successor
        return Rewards(
            np.zeros_like(rewards.pair), None if successor is None else np.zeros_like(successor)
        )

    def radius(self, n: Floats) -> Floats:
        """rad(n) (k,)."""
        log_terms = np.log(self.S * self.A * n * (n + 1) / self.delta)
        return self.scale * l1_radius(self.S, log_terms, n)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """min(1, rad/2), by the steps that are left."""
        return {"flat": np.minimum(1.0, self.radius(n) / 2)}

    def _plan(self) -> None:
        super()._plan()
        self.done = self.optimistic <= self.enough
        if self.done:
            self._exploit()

    def _exploit(self) -> None:
        """Take the optimum of p^; what follows a pair without visits no longer matters."""
        sheet = sheet_of(self.problem, told_rewards(self.problem, self.name))
        no_bonus, values = np.zeros_like(self.terms), np.zeros_like(self.V)
        out = kernels.Outlook(self.Q, values, np.zeros_like(self.V), self.rows)
        kernels.plan(sheet, Rule(cap=NO_CAP), no_bonus, self.counts.arrays, self.G, out)
        self.policy = self.problem.table.policy_of(self.rows)
