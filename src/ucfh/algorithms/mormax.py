"""MoRMax: replace the model of a pair every m visits, but only if its value falls.

`ucfh.algorithms.delayed_update` says how it is adapted to fixed horizons.

MoRMax. Szita, Szepesvari: Model-based Reinforcement Learning with Nearly Tight Exploration
Complexity Bounds. ICML 2010, 1031-1038. With the m of public code by another author (the paper was
not available; its logarithm may differ):

    m = ceil( 1800 H^4/eps^2 ln( 144 (S H)^2 A^2 H^2/(delta eps) ) )

    model: all pairs unknown, with value H-t+1; Q^ its solution; tau = 0, tau* = 1, Q- = 0
    when a pair has m samples:
        if tau = 0 or ( tau* > tau and Q- > Q^ + eps/H ):
            Q' = solution of the model in which that pair has p^ of these samples
            if Q' <= Q^ at that pair:  take that model, and so Q^ = Q'
            tau* += 1,  tau = tau*,  Q- = Q^
        forget the samples

O~(S A/(eps^2 (1-gamma)^6)) steps are worse than eps. Samples are collected here only while the
first condition holds. As published, they are always collected, and discarded if it does not hold in
the end; once it holds, it holds until the next attempt, as Q^ only falls and tau* only grows. So an
attempt comes m visits after it became possible, where in the paper it comes after m at most; and a
policy that visits no pair with an attempt left is recognized as the last.
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
        Q: (H, R) Q^, the solution of the model with counts n.
        tau, before: (rows - 1,) the number of the last attempt of each pair, and Q- after it.

    """

    name = "mormax"
    reference = "Szita, Szepesvari 2010"
    setting = "discounted, 1/(1-gamma) = H; states are (t, s)"
    guarantee = "O~(S A/(eps^2 (1-gamma)^6)) mistakes; no constant published"
    constants = "from code: m"
    learned_arrays = ("tau", "before")
    rule = Rule(falling=True)

    def prepare(self) -> None:
        """Compute m, and initialize tau and Q-."""
        super().prepare()
        rows = self.problem.table.start
        self.tau, self.before = np.zeros(rows, np.int64), np.zeros(rows)

    def required_visits(self) -> float:
        """Return 1800 H^4/eps^2 ln( 144 (S H)^2 A^2 H^2/(delta eps) ); here S is S H."""
        rows, eps = self.S * self.A, self.epsilon
        return 1800 * self.H**4 / eps**2 * log(144 * (rows * self.H) ** 2 / (self.delta * eps))

    def sweep(self) -> None:
        """Solve the model from Q = inf, as the rule ``falling`` keeps the lower of two Q."""
        self.Q[:] = np.inf
        super().sweep()

    @property
    def last(self) -> int:
        """tau*."""
        return max(1, int(self.tau.max()))

    def collecting(self) -> Bools:
        """Return the mask of pairs without an attempt, or with a lower value since the last one."""
        fallen = self.before > self.Q.ravel() + self.epsilon / self.H
        return np.asarray((self.tau == 0) | ((self.tau < self.last) & fallen), np.bool_)

    def attempt(self, row: int) -> bool:
        """Replace the counts of the pair by the samples, unless its value rises."""
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
