"""EULER: bonuses from the variance of the next value, with upper and lower bounds.

Transitions do not depend on the step (counts are pooled), and rewards are known. V~ and V_ are the
upper and lower bounds, p^ V stands for p^ V_{t+1}, ||f||^2 = p^ f^2.

Zanette, Brunskill: Tighter Problem-Dependent Regret Bounds in Reinforcement Learning without Domain
Knowledge using Value Function Bounds. ICML 2019 (arXiv 1901.00210), EULER. K known, T = K H.

    l = ln(4 S A T/(delta/7)),  J = H l/3
    b(V) = sqrt(2 l/n) sd_p^(V) + J/max(1, n-1) + (4 J + H sqrt(2 l))/n + sqrt(2 l/n) ||V~ - V_||
    Q~ = min( H-t+1, r + p^ V~ + b(V~) ),  Q_ = max( 0, r + p^ V_ - b(V_) ),  both at argmax Q~

With probability 1 - delta, V_ <= V* <= V~; regret O~( sqrt(Q* S A T) + sqrt(S) S A H^2 (sqrt(S) +
sqrt(H)) ), Q* the largest variance of a step's reward and next value. The 4 in l and the constants
of b are those of public code; delta/7 is quoted from memory. The paper's bonus for unknown rewards
is left out.

A scale multiplies all of the bonus, the term of V~ - V_ included.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels.online import LOWER_OF_PLAYED, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bonus import BonusAgent


class EULER(BonusAgent):
    """EULER."""

    name = "euler"
    reference = "Zanette, Brunskill 2019"
    setting = "fixed horizon; K known in advance; known rewards"
    guarantee = "regret O~(sqrt(Q* S A T) + S^1.5 A H^2 (S^0.5 + H^0.5)), T = K H"
    constants = "from code: the bonus; unverified: delta/7"
    rule = Rule(lower=LOWER_OF_PLAYED, own=True)

    @property
    def log_term(self) -> float:
        """ln(4 S A T/(delta/7)), T = K H."""
        return log(28 * self.S * self.A * self.K * self.H / self.delta)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the coefficients of b."""
        H, two_l = self.H, 2 * self.log_term
        root = self.scale * np.sqrt(two_l / n)
        J = H * self.log_term / 3
        return {
            "deviation": root,
            "flat": self.scale * (J / np.maximum(1, n - 1) + (4 * J + H * two_l**0.5) / n),
            "distance": root,
        }
