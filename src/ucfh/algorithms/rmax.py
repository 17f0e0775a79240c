"""R-MAX, and Kakade's H-step R-MAX: unknown pairs have the largest possible value.

R-MAX. Brafman, Tennenholtz: R-MAX - A General Polynomial Time Algorithm for Near-Optimal
Reinforcement Learning. JMLR 3 (2002) 213-231. Setting: average reward in zero-sum stochastic games
(here: no adversary), eps-return mixing time T, no reset; a pair is known after (quoted from memory)

    K1 = max( ceil((4 S T Rmax/eps)^3), ceil(-6 ln^3(delta/(6 S A))) ) + 1   visits.

    loop
        an unknown pair leads to a state with reward Rmax in every step; a known one has p^
        follow an optimal T-step policy of that model until a pair becomes known
        on its K1-th visit a pair becomes known; later visits are not used

Adapted to fixed horizons: T = H, Rmax = 1, and eps/H for eps, as the paper's is one of averages; so
(4 S H^2/eps)^3. An unknown pair has Q_t = H-t+1, and a plan is kept until the episode's end.

Kakade: On the Sample Complexity of Reinforcement Learning. PhD thesis, UCL, 2003, chapter 8.
Setting: T-step values divided by T. It separates known states, all of whose actions were tried m
times, from unknown ones, in which it takes the least-tried action ("balanced wandering") and which
have the value 1 per step:

    loop
        in known states play an optimal T-step policy of the model, in others the least-tried action
        when all actions of a state have m tries: the state is known, and the model has its p^

m is published as O((S T^2/eps^2) ln(S A/delta)). The constant is derived here: values err by less
than a T if every p^ errs by at most a in L1 (Lemma 8.5.4), which holds after m samples, with
probability 1 - delta' each, if m a^2 >= 2 (ln(2^S - 2) + ln(1/delta')) (Weissman et al. 2003). With
eps/H for eps, a = eps/(4 H^2) (an error of eps/4 on the sum) and delta' = delta/(2 S A):

    m = ceil( (32 H^4/eps^2) (ln(2^S - 2) + ln(2 S A/delta)) )

(The thesis has 8 S/a^2 ln(2 S/delta') samples, Lemma 8.5.5, which gives ten to forty times as many
in small problems.) With one state, p is known: m = 1.

Tries of an unknown state's actions are balanced up to a factor of two: an action with the least
power of two of tries is taken until its tries have doubled. So the policy changes S A log2(m)
times, not with every visit. A state is known after the same A m visits as under strict balance, the
only fact that the theorem uses; for m = 1 (deterministic problems, Theorem 8.3.5) both agree.

Both: derived here. Optimistic values are V~ >= V* - eps/4, with probability 1 - delta/2. (K1: by
Hoeffding every entry of p^ is within K1^{-1/3} <= eps/(4 S H^2), except with probability
2 exp(-2 K1^{1/3}) each; values then err by at most eps/16.) If an episode is worse than eps, it
visits an unknown pair with probability eps/(2 H) at least; there are at most S A m such visits.
So with probability 1 - delta at most (4 H/eps)(S A m + ln(2/delta)) episodes are worse than eps.
"""

from __future__ import annotations

from fractions import Fraction
from math import ceil, log

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.algorithms.mbie import l1_radius
from ucfh.algorithms.phased import Threshold, best_rows, next_doubling
from ucfh.counts import NEVER


class RMax(Threshold):
    """R-MAX, with the number of visits K1 of its own paper.

    >>> from ucfh import make, simulate
    >>> mdp = make("chain:n=5")
    >>> agent = RMax(mdp.problem, epsilon=0.5, delta=0.1, episodes=1)
    >>> agent.m
    1000000001
    >>> run = simulate(mdp, agent)
    >>> run.final, run.episodes > 1e9, run.gap <= 0.5
    (True, True, True)

    """

    name = "rmax"
    reference = "Brafman, Tennenholtz 2002"
    setting = "average reward, mixing time T = H; accuracy eps/H; stationary"
    guarantee = "PAC, polynomial; here <= (4 H/eps)(S A K1 + ln(2/delta)) mistakes (derived)"
    constants = "unverified: K1; derived: the bound on mistakes"

    def prepare(self) -> None:
        """Compute m, and the bound on mistakes."""
        super().prepare()
        pairs = self.problem.table.start
        self.update_bound = float(pairs)
        if self.scale >= 1:
            useful_visits = pairs * self.m + log(2 / self.delta)
            self.episode_bound = 4 * self.H / self.epsilon * useful_visits

    def required_visits(self) -> float:
        """Return K1 at accuracy eps/H."""
        per_entry = 4 * self.S * self.H**2 / Fraction(repr(self.epsilon))
        hoeffding = ceil(-6 * log(self.delta / (6 * self.S * self.A)) ** 3)
        return max(ceil(per_entry**3), hoeffding) + 1

    def visits_left(self) -> Ints:
        """Return the visits until the m-th one of each unknown pair."""
        unknown = self.n.visits[:-1] == 0
        return np.where(unknown, self.m - self.v.visits[:-1], NEVER)


class Kakade(RMax):
    """Kakade's R-MAX, with balanced wandering in unknown states."""

    name = "kakade"
    reference = "Kakade 2003, chapter 8"
    setting = "T-step averages, T = H; accuracy eps/H; stationary"
    guarantee = "<= (4 H/eps)(S A m + ln(2/delta)) mistakes (derived)"
    constants = "derived: m, by Weissman's inequality, and the bound on mistakes"

    def required_visits(self) -> float:
        """Return (32 H^4/eps^2) (ln(2^S - 2) + ln(2 S A/delta)); 0 where S = 1."""
        log_term = log(2 * self.S * self.A / self.delta)
        radius = float(l1_radius(self.S, np.array([log_term]), np.ones(1))[0])  # after one visit
        return (4 * self.H**2 * radius / self.epsilon) ** 2

    def prepare(self) -> None:
        """Compute m; each action is chosen once for every power of two below m, and for m."""
        super().prepare()
        self.update_bound = float(self.problem.table.start * (1 + (self.m - 1).bit_length()))

    def sweep(self) -> None:
        """Plan; then choose the least-tried action in unknown states."""
        super().sweep()
        table = self.problem.table
        n = self.n.visits[:-1].reshape(table.segments, -1)
        tries = next_doubling(self.v.visits[:-1]).reshape(n.shape)
        complete = self.v.visits[:-1].reshape(n.shape) >= self.m
        unknown = n[:, table.first[:-1]] == 0
        chosen = best_rows(table, np.where(complete, -NEVER, -tries))
        chosen += np.arange(table.segments)[:, None] * table.pairs
        self.rows[:] = np.where(unknown, chosen, self.rows)
        self.target = np.full(n.size, NEVER)
        at = chosen[unknown]
        self.target[at] = np.minimum(tries.ravel()[at], self.m)

    def visits_left(self) -> Ints:
        """Return the tries of the chosen actions until they have doubled, or are m."""
        return np.where(self.target < NEVER, self.target - self.v.visits[:-1], NEVER)

    def learn(self, due: Ints) -> None:
        """Move the counts of states whose actions all have m tries: they are known."""
        table = self.problem.table
        segment, pair = np.divmod(due, table.pairs)
        for t, s in zip(segment, table.state[pair], strict=True):
            rows = t * table.pairs + np.arange(table.first[s], table.first[s + 1])
            if (self.v.visits[rows] >= self.m).all():
                super().learn(rows)
