"""Delayed Q-learning and MoRMax: a change is tried every m visits, and made only if it helps.

Both were made for discounted rewards, and are carried to fixed horizons by telling states apart by
the step t: rows, counts and values are those of (t, s, a), S H stands for S, H for 1/(1-gamma) and
the largest value, 1 for gamma, and Q_t = H-t+1 at first. A row is visited at most once an episode,
and what is learned at t changes only what is done at t or before: that policies are kept until the
end of an episode changes nothing.

Delayed Q-learning. Strehl, Li, Wiewiora, Langford, Littman: PAC Model-Free Reinforcement Learning.
ICML 2006, 881-888. With the m of Strehl, Li, Littman: Reinforcement Learning in Finite MDPs: PAC
Analysis. JMLR 10 (2009) 2413-2444:

    eps1 = eps/(3 H),   m = ceil( H^2/(2 eps1^2) ln( (3 S A H/delta)(1 + S A H H/eps1) ) )

(The paper was not seen. Implementations have (1 + gamma Vmax)^2 for H^2, the square of what one
sample r + gamma V can be; that is 1/(1-gamma)^2, and r + V_{t+1} <= H here. By Hoeffding's
inequality a mean of m samples is then too low by eps1 with probability at most delta/3 in any
attempt of a run: each of S A H rows has one, and one more after each of the S A H H/eps1 changes
that there can be.)

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
rank before it. In print, a row that is visited later in the same episode may learn from that very
visit, or rank after the success if it begins its l there. Counts cannot tell, and it hardly
matters: that success changed values of an earlier step, from which this row does not learn. It may
begin one visit later, or try once more, than in print.

MoRMax. Szita, Szepesvari: Model-based Reinforcement Learning with Nearly Tight Exploration
Complexity Bounds. ICML 2010, 1031-1038. With the m of public code by another author (the paper was
not seen; its logarithm may differ):

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
policy that meets no row with something to learn is seen to be the last.

Between attempts all is constant, and sums over visits follow from counts: both run in bulk.
"""

from __future__ import annotations

from abc import abstractmethod
from math import log

import numpy as np

from ucfh._kernels.online import TIE, Rule
from ucfh.agents.base import NEVER
from ucfh.agents.phased import Threshold, best_rows
from ucfh.counts import Counts
from ucfh.table import Bools, Ints


class Attempts(Threshold):
    """A learner that tries to change a row every m visits of it."""

    by_stage = True

    @abstractmethod
    def collecting(self) -> Bools:
        """(rows - 1,) whose samples are collected."""

    def collect(self, seen: Counts) -> None:
        """Look at samples of rows that are collected, before they are added to v."""

    @abstractmethod
    def attempt(self, row: int) -> bool:
        """Try to change a row that has m samples in v, and empty it; whether that was done."""

    def room(self) -> Ints:
        """A row is due when m samples are collected."""
        return np.where(self.collecting(), self.m - self.v.visits[:-1], NEVER)

    def observe(self, seen: Counts) -> bool:
        """Collect; attempt what is due, in the order of time."""
        keep = np.append(self.collecting(), False)
        seen.visits[~keep] = 0
        seen.successors[~keep[self.problem.table.row_of_entry]] = 0
        self.collect(seen)
        self.v.add(seen)
        changed = [row for row in np.flatnonzero(self.room() <= 0) if self.attempt(int(row))]
        if not changed:
            return False
        self.updated = int(changed[0])
        self.plan()
        return True


class DelayedQ(Attempts):
    """Delayed Q-learning.

    Attributes:
        Q: (H, R) what it believes of each pair, at each step.
        U, b, learning: (rows - 1,) as above; LEARN is set as soon as it would be.
        clock: (2,) now, and the time of the last success.

    """

    name = "delayed-q"
    reference = "Strehl, Li, Wiewiora, Langford, Littman 2006; m of 2009"
    setting = "discounted, 1/(1-gamma) = H; model-free; states told apart by t"
    guarantee = "O~(S A/((1-gamma)^8 eps^4)) mistakes; no constant published"
    constants = "from code: the logarithm of m; derived: the H^2 before it"
    kept = ("Q", "U", "b", "learning", "clock")

    def prepare(self) -> None:
        """Find m; nothing is known."""
        super().prepare()
        rows = self.problem.table.start
        self.U, self.b = np.zeros(rows), np.zeros(rows, np.int64)
        self.learning, self.clock = np.ones(rows, bool), np.array([1, 0])

    @property
    def eps_1(self) -> float:
        """eps/(3 H)."""
        return self.epsilon / (3 * self.H)

    def enough(self) -> float:
        """H^2/(2 eps1^2) ln( (3 S A H/delta)(1 + S A H H/eps1) ); here S is S H already."""
        rows = self.S * self.A
        log_term = log(3 * rows / self.delta * (1 + rows * self.H / self.eps_1))
        return self.H**2 / (2 * self.eps_1**2) * log_term

    def sweep(self) -> None:
        """The best of Q."""
        table = self.problem.table
        pairs = best_rows(table, self.Q)
        self.V[:-1] = np.take_along_axis(self.Q, pairs, axis=1)
        self.rows[:] = pairs + np.arange(self.H)[:, None] * table.stride

    def collecting(self) -> Bools:
        """LEARN."""
        return self.learning

    def collect(self, seen: Counts) -> None:
        """Add r + max Q(t+1, s') to U for every sample."""
        table = self.problem.table
        self.b[(self.v.visits[:-1] == 0) & (seen.visits[:-1] > 0)] = self.clock[0]
        body = slice(0, int(table.indptr[table.start]))
        t = table.row_of_entry[body] // table.pairs
        worth = self.rewards.by_entry(table)[body] + self.V[t + 1, table.indices[body]]
        self.U += np.add.reduceat(seen.successors[body] * worth, table.indptr[: table.start])

    def attempt(self, row: int) -> bool:
        """Lower Q to the mean of the samples, if that is lower enough."""
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
        """Collect and attempt; rows that failed may learn again after another's success."""
        changed = super().observe(seen)
        self.learning |= self.b <= self.clock[1]
        self.clock[0] += 1
        return changed


class MoRMax(Attempts):
    """MoRMax.

    Attributes:
        Q: (H, R) Q^, the solution of its model, whose rows are n.
        tau, before: (rows - 1,) the number of the row's last attempt, and Q- after it.

    """

    name = "mormax"
    reference = "Szita, Szepesvari 2010"
    setting = "discounted, 1/(1-gamma) = H; states told apart by t"
    guarantee = "O~(S A/(eps^2 (1-gamma)^6)) mistakes; no constant published"
    constants = "from code: m"
    kept = ("tau", "before")
    rule = Rule(falling=True)

    def prepare(self) -> None:
        """Find m; nothing was attempted."""
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
