"""ORLC: every policy played has a certificate, a bound on its optimality gap.

Transitions do not depend on the step (counts are pooled), and rewards are known. V~ and V_ are the
upper and lower bounds, and p^ V stands for p^ V_{t+1}.

Dann, Li, Wei, Brunskill: Policy Certificates: Towards Accountable Reinforcement Learning. ICML 2019
(arXiv 1811.03056), Algorithm 1 (ORLC). Holds at all times; needs neither K nor epsilon.

    phi = min( 1, sqrt( 0.52/n (1.4 ln ln max(e, 2n) + ln(26 S A (H+1+S)/delta)) ) )
    psi = sqrt(12) sd_p^(V~) phi + 45 S H^2 phi^2 + (1/H) p^ (V~ - V_)
    Q~ = min( H-t+1, r + p^ V~ + psi ),  Q_ = max( 0, r + p^ V_ - psi ),  both at argmax Q~

With probability 1 - delta, V_ <= V^pi <= V~ for the policy played in all episodes: its certificate.
Mistakes: O~(S A H^2/eps^2 + S^2 A H^3/eps). The paper's summand 1 * phi in psi is for unknown
rewards, and left out. The constants of psi and the 26 (H+1+S) of phi are quoted from memory: the
paper was not available.

A scale multiplies all of the bonus, the term of V~ - V_ included.
"""

from __future__ import annotations

from math import e, log

import numpy as np

from ucfh._kernels.episodes import promise
from ucfh._kernels.online import LOWER_OF_PLAYED, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bonus import BonusAgent


class ORLC(BonusAgent):
    """ORLC; ``lower`` and ``gap_bound`` are the certificate of the policy played."""

    name = "orlc"
    reference = "Dann, Li, Wei, Brunskill 2019, Algorithm 1"
    setting = "fixed horizon; known rewards"
    guarantee = "policy certificates; O~(S A H^2/eps^2 + S^2 A H^3/eps) mistakes"
    constants = "unverified: those of psi, and the 26 of phi"
    rule = Rule(lower=LOWER_OF_PLAYED)

    def phi(self, n: Floats) -> Floats:
        """Return phi (k,) after n (k,) visits."""
        log_term = log(26 * self.S * self.A * (self.H + 1 + self.S) / self.delta)
        lnln = np.log(np.log(np.maximum(e, 2 * n)))
        return np.minimum(1.0, np.sqrt(0.52 / n * (1.4 * lnln + log_term)))

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the coefficients of psi."""
        phi = self.phi(n)
        return {
            "deviation": self.scale * 12**0.5 * phi,
            "flat": self.scale * 45 * self.S * self.H**2 * phi**2,
            "spread": np.full_like(n, self.scale / self.H),
        }

    def _plan(self) -> None:
        super()._plan()
        self.lower = 0.0 - promise(self.start, -self.L[0])
        self.gap_bound = promise(self.start, self.V[0] - self.L[0])
