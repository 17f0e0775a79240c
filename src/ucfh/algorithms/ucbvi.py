"""UCBVI: value iteration with upper confidence bounds, by Chernoff-Hoeffding or by Bernstein.

Azar, Osband, Munos: Minimax Regret Bounds for Reinforcement Learning. ICML 2017 (arXiv 1703.05449,
version 2), Algorithms 1 to 4. Setting: episodic, transitions that do not depend on the step (so
counts are pooled over steps), known rewards in [0, 1], K known. With T = K H and
L = ln(5 S A T/delta):

    Q_{k,h} = min( Q_{k-1,h}, H, r + p^ V_{k,h+1} + b ),  H where n = 0
    CH:  b = 7 H L / sqrt(n)
    BF:  b = sqrt(8 L Var_p^(V_{h+1})/n) + 14 H L/(3n) + sqrt( (8/n) p^ G_{h+1} ),
         G_{h+1}(y) = min( 100^2 H^3 S^2 A L^2 / N'_{h+1}(y), H^2 ),  N'_h(y) visits of y at step h

With probability 1 - delta, V_{k,h} >= V*_h in all episodes, and with L' = ln(5 H S A T/delta) the
regret is at most (Theorem 1, CH) 20 H^{3/2} L' sqrt(S A K) + 250 H^2 S^2 A L'^2, or (Theorem 2, BF)
30 H L' sqrt(S A K) + 2500 H^2 S^2 A L'^2 + 4 H^{3/2} sqrt(K L'). All this is quoted as
published, and not proved here; the constants of the bounds, such as 2500, were not derived again
from the appendix.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels.online import CAP_HORIZON, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bonus import BonusAgent


class UCBVI(BonusAgent):
    """UCBVI-CH."""

    name = "ucbvi-ch"
    reference = "Azar, Osband, Munos 2017, Algorithm 3"
    setting = "fixed horizon; K known in advance"
    guarantee = "regret <= 20 H^1.5 L' sqrt(S A K) + 250 H^2 S^2 A L'^2, as published"
    constants = "published: the bonus"
    rule = Rule(cap=CAP_HORIZON, falling=True)

    @property
    def log_term(self) -> float:
        """L = ln(5 S A T/delta), T = K H."""
        return log(5 * self.S * self.A * self.K * self.H / self.delta)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return 7 H L / sqrt(n)."""
        return {"flat": self.scale * 7 * self.H * self.log_term / np.sqrt(n)}


class UCBVIBernstein(UCBVI):
    """UCBVI-BF."""

    name = "ucbvi-bf"
    reference = "Azar, Osband, Munos 2017, Algorithm 4"
    guarantee = (
        "regret <= 30 H L' sqrt(S A K) + 2500 H^2 S^2 A L'^2 + 4 H^1.5 sqrt(K L'), as published"
    )
    constants = "published: the bonus"

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the coefficients of the deviation, of 1/n, and of G."""
        L = self.log_term
        return {
            "deviation": self.scale * np.sqrt(8 * L / n),
            "flat": self.scale * 14 * self.H * L / (3 * n),
            "crowd": self.scale * np.sqrt(8 / n),
        }

    def crowding(self, visits: Floats) -> Floats:
        """Return G (k,) of a next state after that many visits (k,)."""
        S, A, H = self.S, self.A, float(self.H)
        with np.errstate(divide="ignore"):
            return np.minimum(100**2 * H**3 * S**2 * A * self.log_term**2 / visits, H**2)
