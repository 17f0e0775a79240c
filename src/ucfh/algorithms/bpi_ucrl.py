"""BPI-UCRL: upper and lower values over KL balls, with a stopping rule on their difference.

Rewards are known. V~ and V_ are the upper and lower bounds, p V stands for p V_{t+1}.

Kaufmann, Menard, Domingues, Jonsson, Leurent, Valko: Adaptive Reward-Free Exploration. ALT 2021
(arXiv 2006.06294), BPI-UCRL:

    beta(n) = ln(2 S A H/delta) + (S-1) ln( e (1 + n/(S-1)) )
    Q~ = r + max { p V~ : KL(p^, p) <= beta/n },  V~ = max_a Q~
    Q_ = r + min { p V_ : KL(p^, p) <= beta/n },  V_ = max_a Q_;   n = 0: all p
    follow argmax Q~; stop when V~ - V_ <= eps at the start, and return argmax Q_

With probability 1 - delta/2 the balls contain p at all n (`ucfh.algorithms.stopping`). Then
V_ <= V^pi <= V* <= V~ for pi = argmax Q_, by induction back in time: when it stops, pi is
eps-optimal. It needs O~(S A H^4 (ln(1/delta) + S)/eps^2) episodes.

Published for per-step counts; pooled counts, as here, are valid where transitions do not depend on
the step, and need fewer episodes. One half of delta is for rewards, which are known here; it is
kept as published. Means over balls are bounded from outside, to within 2e-4 of a width
(`ucfh._kernels.kl_ball`). beta and the rule were read in code, by the authors and by others; of the
paper only the abstract was available. (`ucfh.CertifiedUCFH` with confidence "kl-ball" is the same
agent with a smaller beta: for the actual numbers of pairs and successors.)

A scale multiplies the widths: beta by its square.
"""

from __future__ import annotations

import numpy as np

from ucfh._kernels import kl_ball
from ucfh._kernels.episodes import promise
from ucfh._kernels.online import NO_CAP, Rule
from ucfh._kernels.types import PlanArrays
from ucfh._utils.arrays import Floats
from ucfh.algorithms.stopping import Stopping, mixture_rate
from ucfh.planning import Plan


class BPIUCRL(Stopping):
    """BPI-UCRL; ``gap_bound`` is V~ - V_ at the start."""

    name = "bpi-ucrl"
    reference = "Kaufmann, Menard, Domingues, Jonsson, Leurent, Valko 2021"
    setting = "transitions by step, but counts pooled here; known rewards"
    guarantee = "stops after O~(S^2 A H^4/eps^2) episodes, then eps-optimal"
    constants = "from code: beta; derived: that it suffices"
    rule = Rule(cap=NO_CAP)
    by_step = True

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return beta/n; any number without visits."""
        beta = mixture_rate(self.S, self.delta / (2 * self.S * self.A * self.H), n)
        return {"budget": self.scale**2 * beta / np.maximum(n, 1)}

    def robust(self) -> Plan:
        """Compute argmax Q_ and V_."""
        table, arrays = self.problem.table, self.arrays
        policy = np.zeros((self.H, self.S), np.min_scalar_type(self.A - 1))
        V = np.zeros((self.H + 1, self.S))
        eta = self.coefficients(self.counts.visits.astype(float))["budget"]
        kl_ball.plan(
            table.arrays, self.counts.arrays, eta, arrays.r, arrays.extra, -1.0,
            kl_ball.TIE * self.H, PlanArrays(V, policy),
        )  # fmt: skip
        return Plan(policy, V)

    def gap_bound_now(self) -> float:
        """Return V~ - V_ at the start; its largest value if the start is unknown."""
        return float(promise(self.start, self.V[0] - self.robust().values[0]))

    def _conclude(self) -> None:
        self.policy = self.robust().policy
        self.rows[:] = self.problem.table.rows_of(self.policy, self.H)
