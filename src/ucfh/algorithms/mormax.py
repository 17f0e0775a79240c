"""MoRMax: a new model of a row is tried every m visits, and taken only if its value falls.

`ucfh.algorithms.delayed_update` says how it is adapted to fixed horizons.

MoRMax. Szita, Szepesvari: Model-based Reinforcement Learning with Nearly Tight Exploration
Complexity Bounds. ICML 2010, 1031-1038. With the m of public code by another author (the paper was
not at hand; its logarithm may differ):

    m = ceil( 1800 H^4/eps^2 ln( 144 (S H)^2 A^2 H^2/(delta eps) ) )

    model: rows are unknown, worth H-t+1; Q^ its solution; tau = 0, tau* = 1, Q- = 0
    when a row has m samples:
        if tau = 0 or ( tau* > tau and Q- > Q^ + eps/H ):
            Q' = solution of the model in which that row is p^ of these samples
            if Q' <= Q^ in that row:  take that model, and so Q^ = Q'
            tau* += 1,  tau = tau*,  Q- = Q^
        forget the samples

O~(S A/(eps^2 (1-gamma)^6)) steps are worse than eps. Samples are collected here only while the
first condition holds. In print they are collected always, and thrown away if it does not hold in
the end; once it holds it stays so until the next attempt, as Q^ only falls and tau* only grows. So
an attempt comes m visits after it became possible, where in print it comes after m at most; and a
policy that meets no row with something to learn is recognised as the last.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels.online import TIE, Rule
from ucfh._utils.arrays import Bools
from ucfh.algorithms.delayed_update import DelayedUpdate


class MoRMax(DelayedUpdate):
    """MoRMax.

    Attributes:
        Q: (H, R) Q^, the solution of its model, whose rows are n.
        tau, before: (rows - 1,) the number of the row's last attempt, and Q- after it.

    """

    name = "mormax"
    reference = "Szita, Szepesvari 2010"
    setting = "discounted, 1/(1-gamma) = H; states are (t, s)"
    guarantee = "O~(S A/(eps^2 (1-gamma)^6)) mistakes; no constant published"
    constants = "from code: m"
    kept = ("tau", "before")
    rule = Rule(falling=True)

    def prepare(self) -> None:
        """Find m, and start without attempts."""
        super().prepare()
        rows = self.problem.table.start
        self.tau, self.before = np.zeros(rows, np.int64), np.zeros(rows)

    def enough(self) -> float:
        """1800 H^4/eps^2 ln( 144 (S H)^2 A^2 H^2/(delta eps) ); here S is S H already."""
        rows, eps = self.S * self.A, self.epsilon
        return 1800 * self.H**4 / eps**2 * log(144 * (rows * self.H) ** 2 / (self.delta * eps))

    def sweep(self) -> None:
        """Solve the model; the kernel keeps Q where it may not rise, so let it fall from above."""
        self.Q[:] = np.inf
        super().sweep()

    @property
    def last(self) -> int:
        """tau*."""
        return max(1, int(self.tau.max()))

    def collecting(self) -> Bools:
        """Rows never tried, and those whose value has fallen since."""
        fallen = self.before > self.Q.ravel() + self.epsilon / self.H
        return np.asarray((self.tau == 0) | ((self.tau < self.last) & fallen), np.bool_)

    def attempt(self, row: int) -> bool:
        """Let the samples be the row, unless its value rises."""
        table = self.problem.table
        at, entries = divmod(row, table.pairs), table.entries_of(row)
        old, q = (self.n.visits[row], self.n.successors[entries].copy()), self.Q[at]
        self.n.visits[row], self.n.successors[entries] = 0, 0
        self.v.move_row(row, table, to=self.n)
        self.plan()
        success = bool(self.Q[at] <= q + TIE * self.H)
        if not success:
            self.n.visits[row], self.n.successors[entries] = old
            self.plan()
        self.tau[row] = self.last + 1
        self.before[row] = self.Q[at]
        return success
