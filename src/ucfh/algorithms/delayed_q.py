"""Delayed Q-learning: lower a Q-value every m visits, if by enough.

`ucfh.algorithms.delayed_update` says how it is adapted to fixed horizons.

Delayed Q-learning. Strehl, Li, Wiewiora, Langford, Littman: PAC Model-Free Reinforcement Learning.
ICML 2006, 881-888. With the m of Strehl, Li, Littman: Reinforcement Learning in Finite MDPs: PAC
Analysis. JMLR 10 (2009) 2413-2444:

    eps1 = eps/(3 H),   m = ceil( H^2/(2 eps1^2) ln( (3 S A H/delta)(1 + S A H H/eps1) ) )

(The paper was not available. Implementations have (1 + gamma Vmax)^2 for H^2, the square of the
largest sample r + gamma V; that is 1/(1-gamma)^2, and r + V_{t+1} <= H here. By Hoeffding's
inequality a mean of m samples is then too low by eps1 with probability at most delta/3 in any
attempt of a run: each of S A H triples has one, and one more after each of the at most
S A H H/eps1 changes.)

    Q = H-t+1, U = l = b = 0, LEARN = true, t* = 0, the time of the last success
    on a visit of (t,s,a) followed by s':
        if b <= t*: LEARN = true
        if LEARN:
            if l = 0: b = now
            l += 1,  U += r + max_a' Q(t+1,s',a')
            if l = m:
                if Q - U/m >= 2 eps1:  Q = U/m + eps1,  t* = now
                elif b > t*:  LEARN = false
                U = l = 0

It is optimistic with probability 1 - delta, and worse than eps at most
O(SA/((1-gamma)^8 eps^4) ln(1/delta) ln(1/(eps(1-gamma))) ln(SA/(delta eps(1-gamma)))) times.
Time is counted in episodes here: a success is known at the episode's end, and all steps before that
rank before it. In the published order, a triple visited later in the same episode may learn from
that visit, or rank after the success if its l begins there. Counts do not contain that order, and
the effect is small: that success changed values of an earlier step, from which this triple does not
learn. It may begin one visit later, or make one attempt more, than published.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._utils.arrays import Bools
from ucfh.algorithms.delayed_update import DelayedUpdate
from ucfh.algorithms.phased import best_rows
from ucfh.counts import Counts


class DelayedQ(DelayedUpdate):
    """Delayed Q-learning.

    Attributes:
        Q: (H, R) estimate for each pair, at each step.
        U, b, learning: (rows - 1,) as above; LEARN is set as soon as it would be.
        clock: (2,) now, and the time of the last success.

    """

    name = "delayed-q"
    reference = "Strehl, Li, Wiewiora, Langford, Littman 2006; m of 2009"
    setting = "discounted, 1/(1-gamma) = H; model-free; states are (t, s)"
    guarantee = "O~(S A/((1-gamma)^8 eps^4)) mistakes; no constant published"
    constants = "from code: the logarithm of m; derived: the H^2 before it"
    learned_arrays = ("Q", "U", "b", "learning", "clock")

    def prepare(self) -> None:
        """Compute m, and initialize U, b, LEARN and the clock."""
        super().prepare()
        rows = self.problem.table.start
        self.U, self.b = np.zeros(rows), np.zeros(rows, np.int64)
        self.learning, self.clock = np.ones(rows, bool), np.array([1, 0])

    @property
    def eps_1(self) -> float:
        """eps1 = eps/(3 H)."""
        return self.epsilon / (3 * self.H)

    def required_visits(self) -> float:
        """Return H^2/(2 eps1^2) ln( (3 S A H/delta)(1 + S A H H/eps1) ); here S is S H."""
        rows = self.S * self.A
        log_term = log(3 * rows / self.delta * (1 + rows * self.H / self.eps_1))
        return self.H**2 / (2 * self.eps_1**2) * log_term

    def sweep(self) -> None:
        """Set V and the policy to the maximum of Q."""
        table = self.problem.table
        pairs = best_rows(table, self.Q)
        self.V[:-1] = np.take_along_axis(self.Q, pairs, axis=1)
        self.rows[:] = pairs + np.arange(self.H)[:, None] * table.stride

    def collecting(self) -> Bools:
        """Return LEARN."""
        return self.learning

    def collect(self, seen: Counts) -> None:
        """Add r + max Q(t+1, s') to U for every sample."""
        table = self.problem.table
        self.b[(self.v.visits[:-1] == 0) & (seen.visits[:-1] > 0)] = self.clock[0]
        body = slice(0, int(table.indptr[table.start]))
        t = table.row_of_entry[body] // table.pairs
        targets = self.rewards.by_entry(table)[body] + self.V[t + 1, table.indices[body]]
        self.U += np.add.reduceat(seen.successors[body] * targets, table.indptr[: table.start])

    def attempt(self, row: int) -> bool:
        """Lower Q to the mean of the samples, if that is low enough."""
        now, last = self.clock
        at = divmod(row, self.problem.table.pairs)
        mean = self.U[row] / self.m
        success = bool(self.Q[at] - mean >= 2 * self.eps_1)
        if success:
            self.Q[at] = mean + self.eps_1
            self.clock[1] = now
        elif self.b[row] > last:
            self.learning[row] = False
        self.U[row] = 0.0
        self.v.move_row(row, self.problem.table, to=self.n)
        return success

    def observe(self, seen: Counts) -> bool:
        """Collect and attempt; pairs that failed learn again after the success of another."""
        changed = super().observe(seen)
        self.learning |= self.b <= self.clock[1]
        self.clock[0] += 1
        return changed
