"""Q-EarlySettled-Advantage: Q-learning against a reference value that is settled early.

Li, Shi, Chen, Gu, Chi: Breaking the Sample Complexity Barrier to Regret-Optimal Model-Free
Reinforcement Learning. NeurIPS 2021 (arXiv 2110.04645). Setting: episodic, stage-dependent (so one
of each quantity for each (t, s, a)), known rewards, K known. With T = K H, iota = ln(S A T/delta),
n visits of (t, s, a), this one included, and eta_n = (H + 1)/(H + n), a step that leads to s' moves
each of

    Q^UCB  to  r + V_{t+1}(s') + b_n,                  b_n = c_b sqrt(H^3 iota/n)
    Q^LCB  to  r + V^LCB_{t+1}(s') - b_n
    Q^R    to  r + (V_{t+1} - V^R_{t+1})(s') + m + b^R_n

by eta_n of the way, and then sets, at (t, s),

    Q = min( Q, Q^UCB, Q^R ),  V = max_a Q,  V^LCB = max( V^LCB, max_a Q^LCB )
    V^R = V, for the last time when V - V^LCB <= 1

All begin with H, but Q^LCB and V^LCB with 0. m is the mean of the V^R_{t+1}(s') so far, q that of
their squares, m' and q' those of (V_{t+1} - V^R_{t+1})(s') weighted by eta, and

    B_n = c_b sqrt(iota/n) ( sqrt(q - m^2) + sqrt(H (q' - m'^2)) ),  B_0 = 0
    b^R_n = B_n + (1 - eta_n)/eta_n (B_n - B_{n-1}) + c_b H^2 iota/n^{3/4}

Theorem 1: for some c_b, the regret is O~(sqrt(H^2 S A T) + H^6 S A) with probability 1 - delta.

All this is from public code of others, where Q^LCB has +b_n for -b_n and is in the minimum, too,
which are slips: it would be no lower bound. There, whether V^R of a state is settled is kept for
all steps at once, here for each. The value of c_b was not seen. c_b = 1 suffices for
Q^UCB >= Q* and for Q^LCB <= Q*, each with probability 1 - delta, as it does for UCB-H
(`ucfh.agents.qlearning`) and by the same proof with signs turned. For Q^R no such thing is claimed.
An update at step t changes what is done at step t only, so the policy of an episode is the one with
which it began.
"""

from __future__ import annotations

from math import log

import numpy as np

from ucfh._kernels import advantage as kernels
from ucfh._kernels.groups import Chosen, Nature, Record
from ucfh._support.arrays import Floats, Ints
from ucfh.agents.online import FIRST_TABLE, EveryEpisode
from ucfh.problem import Problem


class QEarlySettled(EveryEpisode):
    """Q-EarlySettled-Advantage.

    Attributes:
        Q: (4, rows) Q^UCB, Q^LCB, Q^R and Q.
        moments: (4, rows) m, q, m' and q'. B: (rows,) B_n.
        L, anchor: (H+1, S) V^LCB and V^R. open: (H, S) where V^R is not settled.

    """

    name = "q-early-settled"
    reference = "Li, Shi, Chen, Gu, Chi 2021, Q-EarlySettled-Advantage"
    setting = "episodic, stage-dependent; K known in advance; known rewards"
    guarantee = "regret O~(sqrt(H^2 S A T) + H^6 S A), T = K H, for a c_b that is not published"
    constants = "from code: all but c_b; chosen: c_b = 1"
    kept = ("Q", "moments", "B", "V", "L", "anchor", "open", "rows", "followed")

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, scale: float = 1.0
    ) -> None:
        super().__init__(problem.by_stage(), epsilon, delta, episodes, scale)

    @property
    def iota(self) -> float:
        """ln(S A T/delta), T = K H."""
        return log(self.S * self.A * self.K * self.H / self.delta)

    def bonuses(self, n: Floats) -> tuple[Floats, Floats, Floats]:
        """b_n, c_b sqrt(iota/n) in B_n, and c_b H^2 iota/n^{3/4}, each after n (k,) visits."""
        H, iota = self.H, self.iota
        return (
            self.scale * np.sqrt(H**3 * iota / n),
            self.scale * np.sqrt(iota / n),
            self.scale * H**2 * iota / n**0.75,
        )

    def _prepare(self) -> None:
        H, table = float(self.H), self.problem.table
        self.Q, self.moments = np.full((4, table.rows), H), np.zeros((4, table.rows))
        self.Q[kernels.LCB] = 0.0
        self.B, self.open = np.zeros(table.rows), np.ones((self.H, self.S), bool)
        self.V, self.anchor = np.full((2, self.H + 1, self.S), H)
        self.V[-1] = self.anchor[-1] = 0.0
        self.L = np.zeros((self.H + 1, self.S))
        self.learned = kernels.Estimates(
            Q=self.Q,
            moments=self.moments,
            B=self.B,
            lower=self.L,
            reference=self.anchor,
            open=self.open,
        )
        self.rows[:] = table.first[:-1] + table.stride * np.arange(self.H)[:, None]
        self._tabulate(FIRST_TABLE)

    def _tabulate(self, size: int) -> None:
        n = np.maximum(np.arange(size), 1.0)
        self.tables = np.array([(self.H + 1) / (self.H + n), *self.bonuses(n)])

    def _look_up(self) -> None:
        while self.counts.visits[:-1].max() + 1 >= self.tables.shape[1]:
            self._tabulate(2 * self.tables.shape[1])

    def _plan(self) -> None:
        self._promise(self.V[0])

    def _count(self, steps: Ints) -> None:
        super()._count(steps)
        table, out = self.problem.table, Chosen(self.V, self.rows)
        for t, e in enumerate(steps):
            row = table.row_of_entry[e]
            kernels.update_all(
                t, table.state[row % table.pairs], row, e, self.sheet, self.tables,
                self.counts.visits, self.learned, out,
            )  # fmt: skip

    def _learn(
        self, rng: np.random.Generator, nature: Nature, episodes: int, record: Record
    ) -> tuple[int, int]:
        return kernels.learn_by_advantage(
            rng, episodes, nature, self.sheet, self.tables, self.counts.arrays, self.learned,
            Chosen(self.V, self.rows), self.followed, record,
        )  # fmt: skip
