"""Q-learning with upper confidence bounds, UCB-H (Hoeffding) and UCB-B (Bernstein).

Jin, Allen-Zhu, Bubeck, Jordan: Is Q-learning Provably Efficient? NeurIPS 2018 (arXiv 1807.03765),
Algorithms 1 and 2. Setting: episodic, time-dependent (so one Q-value for each (t, s, a)), known
rewards, K known. With T = K H, iota = ln(S A T/delta) and n visits of (t, s, a), this one
included:

    alpha_n = (H + 1)/(H + n)
    Q_t(s,a) <- (1 - alpha_n) Q_t(s,a) + alpha_n (r + V_{t+1}(s') + b_n),   V_t = min(H, max_a Q_t)
    UCB-H:  b_n = c sqrt(H^3 iota/n)
    UCB-B:  b_n = (beta_n - (1 - alpha_n) beta_{n-1})/(2 alpha_n),  beta_0 = 0,
            beta_n = min( c1 (sqrt(H (W + H) iota/n) + sqrt(H^7 S A) iota/n), c2 sqrt(H^3 iota/n) )

with W the empirical variance of the observed V_{t+1}(s'). Theorems 1 and 2: for some absolute
constants c, c1, c2 the regret is O(sqrt(H^4 S A T iota)), and O(sqrt(H^3 S A T iota)
+ sqrt(H^9 S^3 A^3) iota^2), with probability 1 - delta.

The constants are not published. c = 1 suffices for Q >= Q*: sum_i (alpha_n^i)^2 <= 2H/n and
sum_i alpha_n^i/sqrt(i) >= 1/sqrt(n) (Lemma 4.1 there), so by Azuma-Hoeffding with range H the
noise is at most H sqrt((2H/n) iota/2) = sqrt(H^3 iota/n) for all S A T of (t, s, a, n) at once, and
the bonuses add up to at least that. c2 = 2 does the same for UCB-B's second branch alone; for
c1 = 4 no optimism is claimed. An update at step t changes the policy at step t only, so the policy
of an episode is the one at its start.
"""

from __future__ import annotations

from abc import abstractmethod
from math import log, sqrt

import numpy as np

from ucfh._kernels import q_learning as kernels
from ucfh._kernels.types import EnvironmentArrays, Record, RowPolicy
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.bonus import INITIAL_TABLE_SIZE, EpisodeAgent


class QLearningAgent(EpisodeAgent):
    """An agent with one value of each kind for each (t, s, a), and tables of coefficients by n.

    Attributes:
        tables: (1 + k, most + 1) alpha_n = (H + 1)/(H + n), and the k lines of `bonuses`.

    """

    setting = "episodic, time-dependent; K known in advance"
    by_segment = True

    @property
    def iota(self) -> float:
        """ln(S A T/delta), T = K H."""
        return log(self.S * self.A * self.K * self.H / self.delta)

    @abstractmethod
    def bonuses(self, n: Floats) -> tuple[Floats, ...]:
        """Return further coefficients, each (k,), after n (k,) visits."""

    def _prepare(self) -> None:
        table = self.problem.table
        self.V = np.full((self.H + 1, self.S), float(self.H))
        self.V[self.H] = 0.0
        self.rows[:] = table.first[:-1] + table.stride * np.arange(self.H)[:, None]
        self._tabulate(INITIAL_TABLE_SIZE)

    def _tabulate(self, size: int) -> None:
        n = np.maximum(np.arange(size), 1.0)
        self.tables = np.array([(self.H + 1) / (self.H + n), *self.bonuses(n)])

    def _update_derived(self) -> None:
        while self.counts.visits[:-1].max() + 1 >= self.tables.shape[1]:
            self._tabulate(2 * self.tables.shape[1])

    def _plan(self) -> None:
        self._set_policy(self.V[0])


class UCBH(QLearningAgent):
    """UCB-H."""

    name = "ucb-h"
    reference = "Jin, Allen-Zhu, Bubeck, Jordan 2018, Algorithm 1"
    guarantee = "regret O(sqrt(H^4 S A T iota)), T = K H; c = 1 suffices for optimism"
    constants = "published: all but c; derived: c = 1"
    learned_arrays = ("Q", "V", "sums", "beta", "rows", "followed")
    bernstein = False

    def bonus(self, n: Floats) -> Floats:
        """Return b_n of UCB-H."""
        return np.asarray(self.scale * np.sqrt(self.H**3 * self.iota / n))

    def beta_parts(self, n: Floats) -> tuple[Floats, Floats, Floats]:
        """Return of beta_n: the factor of sqrt(W + H), the term without W, the second branch."""
        c1, c2 = 4 * self.scale, 2 * self.scale
        H, iota = float(self.H), self.iota
        return (
            c1 * np.sqrt(H * iota / n),
            c1 * sqrt(H**7 * self.S * self.A) * iota / n,
            c2 * np.sqrt(H**3 * iota / n),
        )

    def bonuses(self, n: Floats) -> tuple[Floats, ...]:
        """Return b_n of UCB-H, and the parts of beta_n."""
        return self.bonus(n), *self.beta_parts(n)

    def _prepare(self) -> None:
        super()._prepare()
        rows = self.problem.table.rows
        self.Q = np.full(rows, float(self.H))
        self.beta, self.sums = np.zeros(rows), np.zeros((2, rows))
        self.learned = kernels.Learned(Q=self.Q, beta=self.beta, sums=self.sums)

    def _count(self, steps: Ints) -> None:
        super()._count(steps)
        table = self.problem.table
        for t, e in enumerate(steps):
            row, s = table.row_of_entry[e], table.indices[e]
            state = table.state[row % table.pairs]
            kernels.update_q(
                self.H, t, row, e, self.V[t + 1, s], self.arrays, self.bernstein,
                self.tables, self.counts.visits, self.learned,
            )  # fmt: skip
            best = kernels.greedy(t, state, table.first, table.stride, self.Q)
            self.rows[t, state], self.V[t, state] = best, min(float(self.H), self.Q[best])

    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        return kernels.learn_by_rates(
            rng, episodes, nature, self.arrays, self.bernstein, self.tables, self.counts.arrays,
            self.learned, RowPolicy(self.V, self.rows), self.followed, record,
        )  # fmt: skip


class UCBB(UCBH):
    """UCB-B."""

    name = "ucb-b"
    reference = "Jin, Allen-Zhu, Bubeck, Jordan 2018, Algorithm 2"
    guarantee = "regret O(sqrt(H^3 S A T iota) + ...), for constants c1, c2 that are not published"
    constants = "chosen: c1 = 4 and c2 = 2"
    bernstein = True
