"""UCRL2, Auer and Ortner's UCRL, and UCRL-gamma: optimism over sets of models, in rounds.

UCRL2. Jaksch, Ortner, Auer: Near-optimal Regret Bounds for Reinforcement Learning. JMLR 11 (2010)
1563-1600. Setting: average reward, communicating, diameter D, stationary, no reset.

    round k, from step t_k on: plan over all models with
        || p~ - p^ ||_1 <= sqrt( 14 S ln(2 A t_k/delta) / max(1, n) )
    follow that until v(s,a) >= max(1, n(s,a)) for the pair just visited; then n += v for all pairs

The balls contain p except with probability delta/(15 t_k^6). Theorem 2: regret at most
34 D S sqrt(A T ln(T/delta)) with probability 1 - delta.

Auer, Ortner: Logarithmic Online Regret Bounds for Undiscounted Reinforcement Learning. NIPS 19
(2007) 49-56 (average reward, unichain); Online Regret Bounds for a New Reinforcement Learning
Algorithm, ACVW 2005, is for trials of fixed length, as here. Taken: the widths of 2007, of every
probability of a next state; a round ends when some width has fallen below half of what it was.

    |p~(s'|s,a) - p^| <= conf = min(1, sqrt( ln(4 t^5 S^2 A) / (2 n) ))

The intervals contain p except with probability t^-4/2. (Neither paper was available: the width is
quoted from memory, and its probability follows from Hoeffding's inequality.) Theorem 1 (2007):
expected regret O(log T); the first paper's PAC form is O~(S^10 A H^7/eps^3). The algorithm uses
neither epsilon nor delta.

UCRL-gamma. Lattimore, Hutter: PAC Bounds for Discounted MDPs. ALT 2012, 320-334; TCS 558 (2014)
125-143. Setting: discounted, stationary, known rewards, at most two successors of a pair (C = 2).
UCFH is modeled on it. With H for 1/(1-gamma):

    w_min = eps/(4 H S),  U_max = S A log2(S H/w_min)
    delta_1 = delta/(2 U_max),  L1 = ln(2/delta_1)
    m = 1280 L1 (H/eps)^2 max(1, ln ln H)^2 ln(S H/eps) ln(H/eps)
    set: all p~ with |p~ - p^| <= min( sqrt(2 L1 p~(1-p~)/n) + 2 L1/(3n), sqrt(L1/(2n)) )
    update a pair when v >= max(m w_min, n) and n < S m H, but only after a delay of
    H ln(8 S H/eps) steps, in which the same policy is followed

The structure is certain; the 1280 of m, delta_1 and the bases of the logarithms (2 in U_max, e in
all others) are quoted from memory of the published version, not checked, and an earlier version on
arXiv has other constants. ``scale`` c takes c^2 L1 for L1.

Adapted to fixed horizons, all three: planning is exact (fixed-horizon extended value iteration);
the end of a round is tested after each episode; t = 1 + steps so far; rewards are known, so their
sets are left out; the delay is ceil(ln(8 S H/eps)) episodes. A ball or box is a statement about
p(.|s,a), independent of the planning problem, so optimism carries over. The theorems do not: none
of the three has a theorem for fixed horizons.
"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil, log, log2

import numpy as np

from ucfh._kernels.online import NO_CAP, Rule
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.phased import FULL, Phased
from ucfh.confidence.intervals import Box
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError
from ucfh.planning import extended_value_iteration


class UCRL2(Phased):
    """UCRL2."""

    name = "ucrl2"
    reference = "Jaksch, Ortner, Auer 2010"
    setting = "average reward, diameter D; stationary; no reset"
    guarantee = "regret <= 34 D S sqrt(A T ln(T/delta)); no theorem for fixed horizons"
    constants = "published: the radius"
    rule = Rule(cap=NO_CAP)

    @property
    def t(self) -> float:
        """The first step of this round, counted from 1."""
        return 1 + float(self.n.visits[:-1].sum(dtype=float))

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the radius of the L1 ball."""
        width = 14 * self.S * log(2 * self.A * self.t / self.delta)
        return {"radius": self.scale * np.sqrt(width / n)}

    def visits_left(self) -> Ints:
        """Return the visits until the visits of each pair have doubled."""
        n, v = self.n.visits[:-1], self.v.visits[:-1]
        return np.where(n < FULL, np.maximum(n, 1) - v, NEVER)

    def learn(self, due: Ints) -> None:  # noqa: ARG002
        """Move all counts from v to n."""
        self.n.add(self.v)
        self.v = Counts.zero(self.problem)


class IntervalAgent(Phased):
    """An agent that plans over intervals of all transition probabilities."""

    box: Box

    @abstractmethod
    def bounds(self, p_hat: Floats, n: Floats) -> tuple[Floats, Floats]:
        """Return (lo, hi), each (k,), for p^ (k,) after n (k,) visits, n >= 1."""

    def sweep(self) -> None:
        """Plan by extended value iteration over the box, [0, 1] without visits."""
        table = self.problem.table
        n = self.n.visits[table.row_of_entry]
        lo, hi = self.bounds(self.n.successors / np.maximum(n, 1), np.maximum(n, 1.0))
        trivial = np.zeros(table.rows), np.ones(table.rows)
        self.box = Box(np.where(n > 0, lo, 0.0), np.where(n > 0, hi, 1.0), *trivial)
        plan = extended_value_iteration(table, self.box.lo, self.box.hi, self.rewards, self.H)
        self.V[:], self.rows[:] = plan.values, table.rows_of(plan.policy, self.H)


class AuerOrtner(IntervalAgent, UCRL2):
    """Auer and Ortner's UCRL."""

    name = "auer-ortner"
    reference = "Auer, Ortner 2005 and 2007"
    setting = "trials of fixed length (2005); widths for average reward (2007)"
    guarantee = "expected regret O(log T) (2007); no delta, no theorem for fixed horizons"
    constants = "unverified: the 4 t^5 S^2 A of the width"

    def _logarithm(self, t: float) -> float:
        """Return ln(4 t^5 S^2 A), times the square of the scale."""
        return self.scale**2 * (log(4 * self.S**2 * self.A) + 5 * log(t))

    def width(self, n: Floats) -> Floats:
        """Return conf (k,) after n (k,) visits, at the beginning of this round."""
        return np.minimum(1.0, np.sqrt(self._logarithm(self.t) / (2 * n)))

    def bounds(self, p_hat: Floats, n: Floats) -> tuple[Floats, Floats]:
        """Return p^ -+ conf."""
        conf = self.width(n)
        return np.maximum(p_hat - conf, 0.0), np.minimum(p_hat + conf, 1.0)

    def visits_left(self) -> Ints:
        """Return the visits until the width of each pair has halved.

        The logarithm grows with t, which can only delay that: a pair with all the visits of one
        limit may need more in the next.
        """
        n, v = self.n.visits[:-1], self.v.visits[:-1]
        now = self.t + float(v.sum(dtype=float))
        before = np.where(n > 0, self.width(np.maximum(n, 1.0)), 1.0)
        needed = np.floor(2 * self._logarithm(now) / before**2) + 1
        return np.where(n < FULL / 8, needed.astype(np.int64) - n - v, NEVER)


class UCRLGamma(IntervalAgent):
    """UCRL-gamma, for at most two successors of a pair.

    Attributes:
        w_min, u_max, delta_1, L1, m, cutoff: its constants.
        delay: episodes between a pair's last visit that counts and its update.
        waiting: (2,) the pair with a delayed update, or -1, and the episodes until that update.

    """

    name = "ucrl-gamma"
    reference = "Lattimore, Hutter 2012"
    setting = "discounted, 1/(1-gamma) = H; stationary; at most two successors"
    guarantee = "PAC, O~(S A/(eps^2 (1-gamma)^3)); no theorem for fixed horizons"
    constants = "unverified: 1280, delta_1 and the bases of the logarithms"
    learned_arrays = ("waiting",)

    def prepare(self) -> None:
        """Check the numbers of successors, and compute the constants."""
        table, S, H = self.problem.table, self.S, self.H
        most = int(table.lengths[:-1].max())
        if most > 2:
            row = table.name_of(int(table.lengths[:-1].argmax()))
            raise InputError(
                f"{self.name} is for at most two successors of a pair, but {row} has {most}: use "
                "ucfh, which extends it to any number"
            )
        self.w_min = self.epsilon / (4 * H * S)
        self.u_max = self.update_bound = S * self.A * log2(S * H / self.w_min)
        self.delta_1 = self.delta / (2 * self.u_max)
        self.L1 = self.scale**2 * log(2 / self.delta_1)
        loglog = max(1.0, log(log(H))) if H > 1 else 1.0
        x = H / self.epsilon
        self.m = max(1.0, 1280 * self.L1 * (x * loglog) ** 2 * log(S * x) * log(x))
        self.cutoff = S * self.m * H
        if self.cutoff > FULL:
            raise InputError(
                f"epsilon = {self.epsilon:g} needs {self.cutoff:.3g} visits to a pair, more "
                "than 64-bit counts hold: pass a larger epsilon"
            )
        self.delay = ceil(log(8 * S * x))
        self.waiting = np.array([-1, 0])

    def bounds(self, p_hat: Floats, n: Floats) -> tuple[Floats, Floats]:
        """Return the interval of p~ compatible with p^ (k,) after n (k,) visits."""
        return 1 - self._upper(1 - p_hat, n), self._upper(p_hat, n)

    def _upper(self, p_hat: Floats, n: Floats) -> Floats:
        """Return the largest p~: p~ - b = sqrt(c p~(1-p~)), b = p^ + 2 L1/(3n), c = 2 L1/n."""
        b, c = p_hat + 2 * self.L1 / (3 * n), 2 * self.L1 / n
        root = np.sqrt(np.maximum(0.0, (2 * b + c) ** 2 - 4 * (1 + c) * b**2))
        bernstein = np.where(b < 1, (2 * b + c + root) / (2 * (1 + c)), 1.0)
        hoeffding = p_hat + np.sqrt(self.L1 / (2 * n))
        return np.minimum(1.0, np.minimum(bernstein, hoeffding))

    def visits_left(self) -> Ints:
        """Let v grow to max(m w_min, n), if n < S m H."""
        n, v = self.n.visits[:-1], self.v.visits[:-1]
        update_at = np.maximum(ceil(self.m * self.w_min), n)
        return np.where(n < self.cutoff, np.maximum(update_at - v, 0), NEVER)

    def limits(self) -> Limits:
        """Return the visits until a pair is due, or the remaining episodes of the delay."""
        row, left = self.waiting
        if row < 0:
            return super().limits()
        return Limits(np.full(self.problem.table.rows, FULL), episodes=int(left))

    def observe(self, seen: Counts) -> bool:
        """Count; update a pair that is due after the delay, one pair at a time."""
        row, left = self.waiting
        if row < 0:
            self.v.add(seen)
            due = np.flatnonzero(self.visits_left() == 0)
            if due.size:
                self.waiting[:] = due[0], self.delay
            return False
        self.waiting[1] = left - seen.visits[-1]
        self.v.add(seen)
        if self.waiting[1] > 0:
            return False
        self.waiting[0] = -1
        self.updated = int(row)
        self.learn(np.array([row]))
        self.plan()
        return True
