"""RLSVI: tabular randomized least-squares value iteration, with noise in place of a bonus.

Osband, Van Roy, Wen: Generalization and Exploration via Randomized Value Functions. ICML 2016
(arXiv 1402.0635). Russo: Worst-Case Regret Bounds for Exploration via Randomized Value Functions.
NeurIPS 2019 (arXiv 1906.02870). Setting: episodic, time-dependent. Before episode k, with noise
that is independent for all (t, s, a) and drawn anew,

    Q_t = r + sum_{s'} n(s,a,s') V_{t+1}(s')/(n + 1) + N(0, beta_k/(n + 1)),   V_t = max Q_t
    beta_k = (1/2) S H^3 ln(2 H S A k)

Theorem 1 (2019): E[regret] = O~(H^3 S^{3/2} sqrt(A K)) on every problem. Its beta_k and the theorem
were read in a summary of the paper; the n + 1, which is least squares with a prior of one sample
of 0, and the absence of clipping are quoted from memory. Rewards are unknown in the paper, known
here. It is published for per-step counts; pooled counts, as here, are valid where transitions do
not depend on the step, and the agent keeps per-step counts where they do. The regret bound is the
paper's, for per-step counts and rewards of pairs; it is not proved here.

The noise makes V >= V* at the start often enough. Let U(s') be the reward on s' plus V*_{t+1}(s'):
0 <= U <= R, R = H - 1, or H where rewards depend on next states. Let d_t(s) be the probability of s
at step t under the optimal policy in the agent's model p^ = n(s,a,.)/(n + 1), and g = |(p^ - p) U|
at the optimal action. The optimal policy has the value V* + X in the model, X normal
with mean at least -sum d g and variance sum d^2 beta_k/(n + 1), and V is at least that. By Cauchy
and Schwarz, sum d g <= sqrt(S H sum d^2 g^2). So wherever, with l = ln(2 H S A k),

    (1)  g <= H sqrt( l/(2 (n + 1)) )  for all (t, s),

the mean is at least minus one standard deviation, and P( V >= V* at the start ) >= Phi(-1) = .1587,
by the noise alone. And (1) holds before episode k, whatever n is, with probability 1 - S H e^-x,

    x = min over n = 1, 2, ..., H (k - 1) of 2 ( (H/R) sqrt(l/2) - 1/sqrt(n + 1) )^2 - ln(n + 1)/2,

for l >= 2, where what is squared is positive. (For large k, x is about l - ln(H k)/2 at least, and
S H e^-x at most about sqrt(H/k)/(2 A).) Proof: let Z be the sum of U(s') - p U over n visits.
E e^{y (U - p U)} <= e^{(y R)^2/8} (Hoeffding), so the mean of e^{y Z - n (y R)^2/8} over y normal
with variance 4/R^2, which is e^{2 Z^2/(R^2 (n + 1))}/sqrt(n + 1), is a supermartingale that begins
with 1. By Ville's inequality |Z| <= R sqrt( (n + 1) (x/2 + ln(n + 1)/4) ) for all n at once, except
with probability e^-x; and g <= (|Z| + R)/(n + 1), which is (1) by the choice of x. Without visits g
is R at most, and (1) holds. For R = 0, the value is known.

A scale multiplies the noise.
"""

from __future__ import annotations

import numpy as np

from ucfh._kernels import thompson as kernels
from ucfh._kernels.types import EnvironmentArrays, Record, RowPolicy
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.bonus import SeededAgent


class RLSVI(SeededAgent):
    """RLSVI.

    Attributes:
        clock: (1,) k, the number of the next episode, counted from 1.

    """

    name = "rlsvi"
    reference = "Osband, Van Roy, Wen 2016; beta of Russo 2019"
    setting = "episodic, time-dependent, but counts pooled here; known rewards"
    guarantee = "E[regret] = O~(H^3 S^1.5 sqrt(A K)), for counts by step (not proved here)"
    constants = "published: beta; unverified: the 1 in n + 1"
    learned_arrays = (*SeededAgent.learned_arrays, "clock")

    def _prepare(self) -> None:
        self.clock = np.ones(1, np.int64)
        self.noise = kernels.Noise(
            factor=0.5 * self.S * self.H**3 * self.scale**2,
            cases=2.0 * self.H * self.S * self.A,
        )
        self.V = np.zeros((self.H + 1, self.S))

    def deviation(self, k: int, n: Floats) -> Floats:
        """Return the standard deviation (i,) of the noise before episode k, after n (i,) visits."""
        return np.asarray(kernels.deviation(self.noise, k) / np.sqrt(n + 1))

    def _plan(self) -> None:
        seen, out = self.counts.arrays, RowPolicy(self.V, self.rows)
        kernels.plan_with_noise(self.generator, self.arrays, self.noise, self.clock, seen, out)
        self._set_policy(self.V[0])

    def _count(self, steps: Ints) -> None:
        super()._count(steps)
        self.clock += 1

    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        return kernels.learn_by_noise(
            rng, self.generator, episodes, nature, self.arrays, self.noise, self.clock,
            self.counts.arrays, RowPolicy(self.V, self.rows), self.followed, record,
        )  # fmt: skip
