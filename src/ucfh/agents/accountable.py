"""Learners that bound values from both sides: ORLC, EULER and BPI-UCBVI.

All are for transitions that do not depend on the step (counts are pooled), here with known rewards.
V~ and V_ are the upper and lower bounds, p^ V stands for p^ V_{t+1}, ||f||^2 = p^ f^2.

Dann, Li, Wei, Brunskill: Policy Certificates: Towards Accountable Reinforcement Learning. ICML 2019
(arXiv 1811.03056), Algorithm 1 (ORLC). Holds at all times; needs neither K nor epsilon.

    phi = min( 1, sqrt( 0.52/n (1.4 ln ln max(e, 2n) + ln(26 S A (H+1+S)/delta)) ) )
    psi = sqrt(12) sd_p^(V~) phi + 45 S H^2 phi^2 + (1/H) p^ (V~ - V_)
    Q~ = min( H-t+1, r + p^ V~ + psi ),  Q_ = max( 0, r + p^ V_ - psi ),  both at argmax Q~

With probability 1 - delta, the policy played earns between V_ and V~ in all episodes: that is its
certificate. Mistakes: O~(S A H^2/eps^2 + S^2 A H^3/eps). The paper's summand 1 * phi in psi is
about unknown rewards, and left out. The constants of psi and the 26 (H+1+S) of phi are not certain:
no text of the algorithm was at hand.

Zanette, Brunskill: Tighter Problem-Dependent Regret Bounds in Reinforcement Learning without Domain
Knowledge using Value Function Bounds. ICML 2019 (arXiv 1901.00210), EULER. K announced, T = K H.

    l = ln(4 S A T/(delta/7)),  J = H l/3
    b(V) = sqrt(2 l/n) sd_p^(V) + J/max(1, n-1) + (4 J + H sqrt(2 l))/n + sqrt(2 l/n) ||V~ - V_||
    Q~ = min( H-t+1, r + p^ V~ + b(V~) ),  Q_ = max( 0, r + p^ V_ - b(V_) ),  both at argmax Q~

With probability 1 - delta, V_ <= V* <= V~; regret O~( sqrt(Q* S A T) + sqrt(S) S A H^2 (sqrt(S) +
sqrt(H)) ), Q* the largest variance of a step's reward and next value. The 4 in l and the constants
of b are those of public code; delta/7 is not certain. The paper's bonus for unknown rewards is left
out.

Menard, Domingues, Jonsson, Kaufmann, Leurent, Valko: Fast active learning for pure exploration in
reinforcement learning. ICML 2021 (arXiv 2007.13442), BPI-UCBVI. Holds at all times, and stops:

    beta(n) = ln(3 S A H/delta) + S ln(8e(n+1)),  beta*(n) = ln(3 S A H/delta) + ln(8e(n+1))
    b(V) = 3 sqrt(beta*/n) sd_p^(V) + 14 H^2 beta/n + (1/H) p^ (V~ - V_)
    Q~ = min( H, r + p^ V~ + b(V~) ),  Q_ = max( 0, r + p^ V_ - b(V_) ),  V_ = max_a Q_
    G = min( H, 6 sqrt(beta*/n) sd_p^(V~) + 36 H^2 beta/n + (1 + 3/H) p^ G ) at argmax Q~;  n = 0: H

It stops when G at the start is at most eps, and its policy is then eps-optimal with probability 1 -
delta, after O~(S A H^3/eps^2) episodes. Printed for counts by step; pooled ones, as here, serve
where transitions do not depend on it, and need fewer episodes. Its bounds hold in all episodes, so
the stop may be tested in some only: here in one of every 2 %. The rates beta were seen in print,
the constants 3, 14, 6 and 36 were not. They suffice, whatever is printed. With probability 1 - 2
delta/3, which is what the rates are made for, KL(p^, p) <= beta/n and |(p^ - p) V*| <= sqrt(2
Var_p(V*) beta*/n) + 3 H beta*/n, for all n and all (t, s, a). For 0 <= f <= H, KL(p^, p) >= p^ g -
ln p e^g and e^-x <= 1 - x + x^2/2 give

    (1)  Var_p(f) <= 2 Var_p^(f) + 2 H^2 beta/n              (g = -(f - p^ f)^2/H^2)
    (2)  p f <= (1 + 1/H) p^ f + ((H+1)^2/2) beta/n          (g = -2 f/(H (H+1)))

Let V_ <= V* <= V~ at step t+1, V~ - V_ <= G and V~ - V^pi <= G, pi the policy of argmax Q~. By (1),
sd_p^(V*) <= sd_p^(V~) + sqrt(H p^ (V~ - V*)) and 2 sqrt(x y) <= x + y,

    (3)  |(p^ - p) V*| <= 2 sd_p^(V~) sqrt(beta*/n) + (1/H) p^ (V~ - V*) + (H^2 + 5 H) beta/n

is at most b(V~), so that Q~ >= Q* at step t; with V_ for V~ and V* - V_ for V~ - V*, Q_ <= Q*. At
a = pi_t(s), where 3 sqrt(x y) <= (9/4) x + y bounds what sd_p^(V_) has beyond sd_p^(V~),

    V~ - V_ <= p^ (V~ - V_) + b(V~) + b(V_)
            <= 6 sd_p^(V~) sqrt(beta*/n) + 30.25 H^2 beta/n + (1 + 3/H) p^ (V~ - V_)
    V~ - V^pi <= p^ (V~ - V^pi) + b(V~) + (p^ - p) V* + (p - p^) (V* - V^pi)
            <= 5 sd_p^(V~) sqrt(beta*/n) + 22 H^2 beta/n + (1 + 2/H) p^ G

by (3) and (2): both are at most G at step t.

A scale multiplies all of a bonus, the term of V~ - V_ included, and what stands before n in G.
"""

from __future__ import annotations

from math import ceil, e, log
from typing import Any

import numpy as np

from ucfh._kernels.episodes import promise
from ucfh._kernels.groups import Nature, Record
from ucfh._kernels.online import CAP_HORIZON, LOWER_OF_BEST, LOWER_OF_PLAYED, Rule
from ucfh.agents.base import NEVER
from ucfh.agents.online import Online
from ucfh.table import Floats, Ints

GROWTH = 1.02
"""How much later the next test is whether to stop."""


class ORLC(Online):
    """ORLC; ``lower`` and ``gap_bound`` are the certificate of the policy that it plays."""

    name = "orlc"
    reference = "Dann, Li, Wei, Brunskill 2019, Algorithm 1"
    setting = "as here; known rewards"
    guarantee = "policy certificates; O~(S A H^2/eps^2 + S^2 A H^3/eps) mistakes"
    constants = "unverified: those of psi, and the 26 of phi"
    rule = Rule(lower=LOWER_OF_PLAYED)

    def phi(self, n: Floats) -> Floats:
        """After n (k,) visits."""
        log_term = log(26 * self.S * self.A * (self.H + 1 + self.S) / self.delta)
        lnln = np.log(np.log(np.maximum(e, 2 * n)))
        return np.minimum(1.0, np.sqrt(0.52 / n * (1.4 * lnln + log_term)))

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Those of psi."""
        phi = self.phi(n)
        return {
            "deviation": self.scale * 12**0.5 * phi,
            "flat": self.scale * 45 * self.S * self.H**2 * phi**2,
            "spread": np.full_like(n, self.scale / self.H),
        }

    def _plan(self) -> None:
        super()._plan()
        self.lower = 0.0 - promise(self.start, -self.L[0])
        self.gap_bound = promise(self.start, self.V[0] - self.L[0])


class EULER(Online):
    """EULER."""

    name = "euler"
    reference = "Zanette, Brunskill 2019"
    setting = "as here; K announced, known rewards"
    guarantee = "regret O~(sqrt(Q* S A T) + S^1.5 A H^2 (S^0.5 + H^0.5)), T = K H"
    constants = "from code: the bonus; unverified: delta/7"
    rule = Rule(lower=LOWER_OF_PLAYED, own=True)

    @property
    def log_term(self) -> float:
        """ln(4 S A T/(delta/7)), T = K H."""
        return log(28 * self.S * self.A * self.K * self.H / self.delta)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Those of b."""
        H, two_l = self.H, 2 * self.log_term
        root = self.scale * np.sqrt(two_l / n)
        J = H * self.log_term / 3
        return {
            "deviation": root,
            "flat": self.scale * (J / np.maximum(1, n - 1) + (4 * J + H * two_l**0.5) / n),
            "distance": root,
        }


class BPIUCBVI(Online):
    """BPI-UCBVI.

    ``gap_bound`` is G at the start, when it was tested last; ``done`` once that is at most epsilon.

    Attributes:
        clock: (2,) the episodes seen, and those after which to test whether to stop.

    """

    name = "bpi-ucbvi"
    reference = "Menard, Domingues, Jonsson, Kaufmann, Leurent, Valko 2021, Algorithm 2"
    setting = "by step; counts pooled here, known rewards"
    guarantee = "stops after O~(S A H^3/eps^2) episodes, then eps-optimal"
    constants = "published: beta and beta*; derived: 3, 14, 6 and 36"
    rule = Rule(cap=CAP_HORIZON, lower=LOWER_OF_BEST, own=True)
    by_step = True
    kept = (*Online.kept, "clock")

    def _prepare(self) -> None:
        self.clock = np.array([0, 1])
        super()._prepare()

    def thresholds(self, n: Any) -> tuple[Any, Any]:
        """beta and beta* after n (k,) visits."""
        log_term = log(3 * self.S * self.A * self.H / self.delta)
        more = np.log(8 * e * (n + 1))
        return log_term + self.S * more, log_term + more

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Those of b."""
        beta, star = self.thresholds(n)
        return {
            "deviation": self.scale * 3 * np.sqrt(star / n),
            "flat": self.scale * 14 * self.H**2 * beta / n,
            "spread": np.full_like(n, self.scale / self.H),
        }

    def gap_bound_now(self) -> float:
        """G at the start, of the policy planned last."""
        table, H, extra = self.problem.table, self.H, self.sheet.extra
        G = np.zeros(self.S)
        for t in range(H - 1, -1, -1):
            first = t * table.stride
            begin = table.indptr[first : first + table.pairs]
            at = slice(begin[0], table.indptr[first + table.pairs])
            n = np.maximum(self.counts.visits[first : first + table.pairs], 1)
            beta, star = self.thresholds(n)
            p = self.counts.successors[at] / np.repeat(n, table.lengths[first : first + len(n)])
            v = self.V[t + 1][table.indices[at]]
            if extra.size:
                v = v + extra[min(t, len(extra) - 1), at]
            mean, square = (np.add.reduceat(p * x, begin - begin[0]) for x in (v, v * v))
            deviation = np.sqrt(np.maximum(0.0, square - mean * mean))
            width = 6 * np.sqrt(star / n) * deviation + 36 * H**2 * beta / n
            after = np.add.reduceat(p * G[table.indices[at]], begin - begin[0])
            bound = np.minimum(H, self.scale * width + (1 + self.scale * 3 / H) * after)
            bound[self.counts.visits[first : first + table.pairs] == 0] = H
            G = bound[self.rows[t] - first]
        return float(promise(self.start, G))

    def _plan(self) -> None:
        super()._plan()
        seen, test = self.clock
        if seen >= test or test == NEVER:
            self.gap_bound = self.gap_bound_now()
            stops = self.gap_bound <= self.epsilon
            self.clock[1] = NEVER if stops else max(seen + 1, ceil(GROWTH * seen))
        self.done = bool(self.clock[1] == NEVER)

    def _count(self, steps: Ints) -> None:
        super()._count(steps)
        self.clock[0] += 1

    def _learn(
        self, rng: np.random.Generator, nature: Nature, episodes: int, record: Record
    ) -> tuple[int, int]:
        seen, test = self.clock
        walked, recorded = super()._learn(rng, nature, int(min(episodes, test - seen)), record)
        self.clock[0] += walked
        if self.clock[0] == test:
            self._look_up()
            self._plan()
        return walked, recorded

    def state(self) -> dict[str, Any]:
        """Counts, what else was learned, and what the last test found."""
        return {**super().state(), "gap_bound": self.gap_bound}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""
        super().restore(state)
        self.gap_bound = float(state["gap_bound"])
