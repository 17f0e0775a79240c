"""MVP: monotonic value propagation.

Zhang, Ji, Du: Is Reinforcement Learning More Difficult Than Bandits? A Near-optimal Algorithm
Escaping the Curse of Horizon. COLT 2021 (arXiv 2009.13503). Setting: episodic, stationary, a total
reward of at most 1, K known. Zhang, Chen, Lee, Du: Settling the Sample Complexity of Online
Reinforcement Learning. COLT 2024: transitions that depend on the step, totals of at most H.

    when n(s,a) reaches 1, 2, 4, 8, ...: update p^ of that pair from all samples, and plan
    Q_h = min( r + p^ V_{h+1} + b_h, H ),    b_h = c1 sqrt(Var_p^(V_{h+1}) L/n) + c3 H L/n
    c1 = 460/9,  c3 = 544/9,  L = ln(200 S A H^2 K^2/delta)

Taken: the algorithm of 2021 (stationary, all samples), in the scale of totals up to H, with the L
of 2024, which is explicit, so that V >= V* in all episodes with probability 1 - delta. (The
L = ln(2/d) of 2021 comes with a failure probability that is d times a polynomial.) The term for
unknown rewards, c2 sqrt(Var(R) L/n), is left out. Plans are made after the episode in which a count
doubles.
Theorem 1 (2021): regret O~( sqrt(S A K) + S^2 A ), rewards scaled so that totals are at most 1.

With these constants b exceeds H until n is about ten thousand: nothing is learned before. In bulk,
1e12 episodes take only the time of a few hundred plans, so scale = 1 can be simulated.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels.online import CAP_HORIZON, Rule
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.phased import FULL, Phased, next_doubling
from ucfh.counts import NEVER


class MVP(Phased):
    """MVP, for stationary problems."""

    name = "mvp"
    reference = "Zhang, Ji, Du 2021; log factor of Zhang, Chen, Lee, Du 2024"
    setting = "fixed horizon; totals in [0, H] instead of [0, 1]; K known in advance"
    guarantee = "regret O~(sqrt(S A K) + S^2 A) times H"
    constants = "published: c1 and c3 of 2021, L of 2024"
    rule = Rule(cap=CAP_HORIZON)

    @property
    def log_term(self) -> float:
        """L = ln(200 S A H^2 K^2/delta)."""
        return log(200 * self.S * self.A * self.H**2 * self.K**2 / self.delta)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the coefficients of the deviation and of 1/n."""
        L = self.log_term
        return {
            "deviation": self.scale * 460 / 9 * np.sqrt(L / n),
            "flat": self.scale * 544 / 9 * self.H * L / n,
        }

    def visits_left(self) -> Ints:
        """Return the visits until n reaches the next power of two."""
        n, v = self.n.visits[:-1], self.v.visits[:-1]
        return np.where(n < FULL, next_doubling(n) - n - v, NEVER)
