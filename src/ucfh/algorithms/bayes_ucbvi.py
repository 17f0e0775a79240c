"""Bayes-UCBVI: no bonus, but a quantile of the next value under a Dirichlet posterior.

Tiapkin, Belomestny, Moulines, Naumov, Samsonov, Tang, Valko, Menard: From Dirichlet to Rubin:
Optimistic Exploration in RL without Bonuses. ICML 2022 (arXiv 2205.07704), Algorithm 1. Setting:
episodic, time-dependent, known rewards, K known. A fictitious state s0 has reward r0 in every
step, and the prior counts n0 transitions of every pair to s0:

    Q_t = r + the quantile of order kappa of p V_{t+1},  p ~ Dirichlet(n(s,a,.), n0)
    V_t = max Q_t,  V_t(s0) = r0 (H - t + 1),  r0 = 2
    1 - kappa = C delta / (S A H (2n + 1)^3 (n + n0)^{3/2}),  C = 1/(5 (e pi)^3)
    n0 = ceil( c0 + ln(K)/ln(17/16) ),
    c0 = (sqrt(2 pi) - 1)^-2 (2 sqrt(2)/sqrt(ln(17/16)) + 98 sqrt(6)/9)^2 + ln(10 pi)/ln(17/16)

Proposition B.6 and Theorem 3.1: with probability 1 - delta, Q >= Q* in all episodes, and the regret
is O(sqrt(H^3 S A K) L + H^3 S^2 A L^2), L of the order of ln(H S A K/delta). All of this was read
in the paper, which has it for per-step counts. Pooled counts are valid where transitions do not
depend on the step: the samples of a pair are then identically distributed, and V*_{t+1} is one of H
functions of them, as in the paper. n is up to K H there, and K H stands for K in n0.

n0 is about 900 in practice, each with a reward of 2 per step, so nothing is learned before n is
some thousands. The experiments of the paper have kappa = 0.85, n0 = 1 and r0 = 1, without a
guarantee: "bayes-ucbvi:kappa=0.85,n0=1,r0=1".

The paper approximates quantiles by 64 draws, which 1 - kappa = 1e-15 does not allow. Here, they
are computed by a formula (`ucfh._kernels.dirichlet`) with a small error: with such an n0, a
quantile is exceeded with at most 1.001 times its nominal probability, as if delta were larger by
that factor. A reward on s' adds to V_{t+1}(s'), and s0 has r0 for it as well. A scale multiplies
n0, and the normal deviate of kappa.
"""

from __future__ import annotations

from math import ceil, e, log, pi, sqrt
from statistics import NormalDist
from typing import Any

import numpy as np

from ucfh._kernels.online import NO_CAP, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bonus import BonusAgent
from ucfh.exceptions import InputError
from ucfh.mdp import Problem

BASE = log(17 / 16)
C0 = (2 * sqrt(2 / BASE) + 98 * sqrt(6) / 9) ** 2 / (sqrt(2 * pi) - 1) ** 2 + log(10 * pi) / BASE


class BayesUCBVI(BonusAgent):
    """Bayes-UCBVI.

    Args (in addition to those of `BonusAgent`):
        kappa: the order of the quantile, between 0.5 and 1; None: as in the theorem.
        n0: prior number of transitions of every pair to s0, positive; None: as in the theorem.
        r0: reward of s0 in every step, at least 1.

    """

    name = "bayes-ucbvi"
    reference = "Tiapkin et al. 2022, Bayes-UCBVI"
    setting = "episodic, time-dependent, but counts pooled here; K known in advance; known rewards"
    guarantee = "regret O(sqrt(H^3 S A K) L + H^3 S^2 A L^2); Q >= Q* with probability 1 - delta"
    constants = "published: kappa, n0 and r0 of Theorem 3.1"
    rule = Rule(cap=NO_CAP)
    by_step = True

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        episodes: int,
        scale: float = 1.0,
        kappa: float | None = None,
        n0: float | None = None,
        r0: float = 2.0,
    ) -> None:
        if kappa is not None and not 0.5 < kappa < 1:
            raise InputError(f"kappa = {kappa!r} must be above 0.5 and below 1")
        if n0 is not None and not 0 < n0 < float("inf"):
            raise InputError(f"n0 = {n0!r} must be a positive number")
        if not 1 <= r0 < float("inf"):
            raise InputError(f"r0 = {r0!r} must be a number of at least 1")
        self.kappa, self.n0_given, self.r0 = kappa, n0, float(r0)
        super().__init__(problem, epsilon, delta, episodes, scale)

    @property
    def n0(self) -> float:
        """ceil( c0 + ln(K)/ln(17/16) ), K times H where counts are pooled."""
        if self.n0_given is not None:
            return float(self.n0_given)
        pooled = self.H if self.problem.table.segments == 1 else 1
        return float(ceil(C0 + log(self.K * pooled) / BASE))

    def _prepare(self) -> None:
        if self.tail(np.zeros(1))[0] >= 0.5:
            raise InputError(f"n0 = {self.n0!r} is so small that kappa is below 1/2: pass more")
        self.rule = self.rule._replace(apart=self.scale * self.n0, pays=self.r0)
        super()._prepare()

    def tail(self, n: Floats) -> Floats:
        """Return 1 - kappa (k,) after n (k,) visits."""
        if self.kappa is not None:
            return np.full_like(n, 1 - self.kappa)
        C = 1 / (5 * (e * pi) ** 3)
        rest = self.S * self.A * self.H * (2 * n + 1) ** 3 * (n + self.n0) ** 1.5
        return np.asarray(C * self.delta / rest)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the normal deviate of kappa."""
        inverse = NormalDist().inv_cdf
        return {"deviate": self.scale * np.array([-inverse(x) for x in self.tail(n).tolist()])}

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "kappa": self.kappa, "n0": self.n0_given, "r0": self.r0}
