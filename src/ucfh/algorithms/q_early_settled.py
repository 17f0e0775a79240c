"""Q-EarlySettled-Advantage: Q-learning against a reference value that is settled early.

Li, Shi, Chen, Gu, Chi: Breaking the Sample Complexity Barrier to Regret-Optimal Model-Free
Reinforcement Learning. NeurIPS 2021 (arXiv 2110.04645). Setting: episodic, time-dependent (so one
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
their squares, m' and q' the same of (V_{t+1} - V^R_{t+1})(s') weighted by eta, and

    B_n = c_b sqrt(iota/n) ( sqrt(q - m^2) + sqrt(H (q' - m'^2)) ),  B_0 = 0
    b^R_n = B_n + (1 - eta_n)/eta_n (B_n - B_{n-1}) + c_b H^2 iota/n^{3/4}

A reward on s' is part of all values of s' above. Theorem 1: for some c_b, the regret
is O~(sqrt(H^2 S A T) + H^6 S A) with probability 1 - delta (the second term from memory).

All but c_b is from public code of others, where Q^LCB has +b_n for -b_n and is also in the minimum:
errors, since it would not be a lower bound. There, one flag per state says that V^R is settled at
all steps; here each step has its own. An update at step t changes the policy at step t
only, so the policy of an episode is the one at its start.

c_b = 8 suffices for Q^LCB <= Q* <= Q with probability 1 - delta. Let w_i be the weight of visit i
in a value after n visits. Of the w_i it is known that they sum to 1, that they and their squares'
sum are at most 2 H/n (Jin et al. 2018, Lemma 4.1), and, by induction, that the sum of w_i/i is at
most (1 + 1/H)/n. For Q^UCB and Q^LCB, sqrt(x/iota) would do, with x as below, by the same proof as
for UCB-H (`ucfh.algorithms.qlearning`). By steps from the last one back, let V >= V* at t+1, and
let f_i = V_{t+1} - V^R_{t+1} and g_i = V^R_{t+1} be as at visit i, and s_i its next state. The
B_n telescope, g_i falls with i, and so

    Q^R - Q* >= sum_i w_i (f_i(s_i) - p f_i) + sum_i w'_i (g_i(s_i) - p g_i)
                + B_n + c_b H^2 iota/n^{3/4},   w'_i <= (1 + 1/H)/n.

Let x = iota + ln(12 + log2 K): with probability 1 - delta, at all (t, s, a) and n, each of at most
12 + log2 K inequalities holds that fail with probability e^-x. By Hoeffding's, the variances of the
f_i, weighted by w, are at most q' - m'^2 + 3 H^2 sqrt(H x/n), and those of the g_i, on average,
q - m^2 + 3 D^2 sqrt(x/(2n)), D = H + 1. By Freedman's, for variances of at most 2^-k of the largest
possible one, k = 0, 1, ... up to where 2^-k <= 1/sqrt(n), and for H >= 2, the first sum is at least

    -2 sqrt(2 H x (q' - m'^2)/n) - 4 H^2 x/(3n)
    - (2 sqrt(6) H^{7/4} x^{3/4} + H^{3/2} sqrt(x))/n^{3/4}

and the second one at least

    -3 sqrt(x (q - m^2)/n) - D x/n
    - (3 sqrt(3/sqrt(2)) D x^{3/4} + 3 D sqrt(x/8))/n^{3/4}.

If H c_b iota >= 2 n^{3/4}, the last bonus alone is 2 H, which is enough. If not, (4 H iota)^{4/3}
< n <= K <= e^iota/(2 H), for S A >= 2 (for S = 1 nothing is random): iota >= 6.69, x <= 1.45 iota.
Then B_n has more than enough for the roots of variances, and all other terms come to at most
7.56 H^2 iota/n^{3/4}: divided by that, they fall with n, H and iota. For H = 1, f is 0, g is the
reward on s', in [0, 1], and w'_i <= 2/n: the roots need 4 sqrt(x/iota) <= 5.2, as iota >= 4.56 and
x <= 1.63 iota, and the rest 7.42.
"""

from __future__ import annotations

import numpy as np

from ucfh._kernels import q_advantage as kernels
from ucfh._kernels.types import EnvironmentArrays, Record, RowPolicy
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.qlearning import QLearningAgent


class QEarlySettled(QLearningAgent):
    """Q-EarlySettled-Advantage.

    Attributes:
        Q: (4, rows) Q^UCB, Q^LCB, Q^R and Q.
        moments: (4, rows) m, q, m' and q'. B: (rows,) B_n.
        L, anchor: (H+1, S) V^LCB and V^R. open: (H, S) mask of states with V^R not settled.

    """

    name = "q-early-settled"
    reference = "Li, Shi, Chen, Gu, Chi 2021, Q-EarlySettled-Advantage"
    setting = "episodic, time-dependent; K known in advance; known rewards"
    guarantee = "V >= V* with probability 1 - delta; regret O~(sqrt(H^2 S A T) + H^6 S A), T = K H"
    constants = "from code: all but c_b; derived: c_b = 8"
    learned_arrays = ("Q", "moments", "B", "V", "L", "anchor", "open", "rows", "followed")

    def bonuses(self, n: Floats) -> tuple[Floats, ...]:
        """Return b_n, c_b sqrt(iota/n) in B_n, and c_b H^2 iota/n^{3/4}, each (k,) after n (k,)."""
        H, iota, c_b = self.H, self.iota, 8 * self.scale
        return c_b * np.sqrt(H**3 * iota / n), c_b * np.sqrt(iota / n), c_b * H**2 * iota / n**0.75

    def _prepare(self) -> None:
        super()._prepare()
        H, rows = float(self.H), self.problem.table.rows
        self.Q, self.moments = np.full((4, rows), H), np.zeros((4, rows))
        self.Q[kernels.LCB] = 0.0
        self.B, self.open = np.zeros(rows), np.ones((self.H, self.S), bool)
        self.L, self.anchor = np.zeros_like(self.V), self.V.copy()
        self.learned = kernels.Estimates(
            Q=self.Q,
            moments=self.moments,
            B=self.B,
            lower=self.L,
            reference=self.anchor,
            open=self.open,
        )

    def _count(self, steps: Ints) -> None:
        super()._count(steps)
        table, out = self.problem.table, RowPolicy(self.V, self.rows)
        for t, e in enumerate(steps):
            row = table.row_of_entry[e]
            kernels.update_all(
                t, table.state[row % table.pairs], row, e, self.arrays, self.tables,
                self.counts.visits, self.learned, out,
            )  # fmt: skip

    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        return kernels.learn_by_advantage(
            rng, episodes, nature, self.arrays, self.tables, self.counts.arrays, self.learned,
            RowPolicy(self.V, self.rows), self.followed, record,
        )  # fmt: skip
