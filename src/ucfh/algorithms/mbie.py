"""Interval estimation for models: MBIE by L1 balls, MBIE-EB and BEB by bonuses.

Strehl, Littman: An analysis of model-based Interval Estimation for Markov Decision Processes. JCSS
74(8), 2008. Setting: discounted, transitions that do not depend on time, rewards in [0, 1] unknown;
only the first m visits of a pair count. Published, with Vmax = 1/(1-gamma):

    MBIE:     Q = r + gamma max p~ V over p~ with
              ||p~ - p^||_1 <= sqrt( 2 (ln(2^S - 2) + ln(2 S A m/delta))/n )
    MBIE-EB:  Q = r + gamma p^ V + beta/sqrt(n),  beta = Vmax sqrt( ln(2 S A m/delta)/2 )
    n = 0: Q = Vmax;  m = O( (S + ln(S A Vmax/(eps delta))) Vmax^4/eps^2 )

Theorem, for both: with probability 1 - delta, Q >= Q* at all times, and all but
O~(S^2 A Vmax^6/eps^3) steps are eps-optimal. Adapted to fixed horizons by Vmax = H, gamma = 1 and
planning over H - t steps after each episode; rewards are known, so their own bonus is left out.

Derived here: the ball is a statement about transition probabilities, and is taken as published. The
bonus is about p V*_{t+1} for each of the steps, so its logarithm gets a union over them,
ln(2 S A H m/delta). And m, of which only the order is published, is the least at which
radius(m) <= eps/(H(H-1)), for both: then p~ and p differ by two radii at most, and the values by
eps/2. A scale multiplies radius and bonus, so m follows it.

Kolter, Ng: Near-Bayesian Exploration in Polynomial Time. ICML 2009. Setting: known rewards, H steps
ahead at all times, a Dirichlet belief whose parameters sum to alpha(s,a):

    BEB:  Q_t = r + E[p] V_{t+1} + 2 H^2/(1 + alpha),  no cap; frozen once alpha > 4 H^3/eps

Theorem 1: with probability 1 - delta, within eps of the Bayes-optimal value at all but
O~(S A H^6/eps^2) steps. It bounds no gap to V*, and does not claim V~ >= V*. The prior is free;
here its weight is zero: alpha = n, E[p] = p^, and all successors are equally likely at n = 0.
Planned once per episode, for the remaining steps. A scale multiplies 2 H^2; the belief freezes at
4 H^3/eps for any scale (quoted from memory).
"""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from math import ceil, floor, inf, log, log1p
from typing import Any

import numpy as np

from ucfh._kernels.online import NO_CAP, Rule
from ucfh._utils.arrays import Floats
from ucfh.algorithms.bonus import BonusAgent
from ucfh.counts import NEVER
from ucfh.exceptions import InputError
from ucfh.mdp import Problem


def l1_radius(states: int, log_terms: Floats, n: Floats) -> Floats:
    """Return the bound (k,) of ||p^ - p||_1 after n visits, with failure probability e^-log_terms.

    sqrt( 2 (ln(2^S - 2) + log_terms)/n ), by Weissman et al. 2003. 0 where S = 1.
    """
    if states == 1:
        return np.zeros_like(n)
    subsets = states * log(2) + log1p(-(2.0 ** (1 - states)))
    return np.sqrt(2 * (subsets + log_terms) / n)


class MBIE(BonusAgent):
    """MBIE.

    Args (in addition to those of `BonusAgent`):
        m: number of visits to a pair that are counted, at least 1; None: as derived above.

    """

    name = "mbie"
    reference = "Strehl, Littman 2008, MBIE"
    setting = "discounted; adapted: 1/(1-gamma) = H; m derived"
    guarantee = "O~(S^2 A H^6/eps^3) mistakes"
    constants = "published: the radius; derived: m"

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        episodes: int,
        scale: float = 1.0,
        m: float | None = None,
    ) -> None:
        if m is not None and not 1 <= m < NEVER:
            raise InputError(
                f"m = {m!r} must be a number of at least 1: correct it, or leave it out"
            )
        self.m_given = m
        super().__init__(problem, epsilon, delta, episodes, scale)

    @cached_property
    def m(self) -> float:
        """The visits of a pair that are counted: radius(m) <= eps/(H(H-1)) if not given."""
        if self.m_given is not None:
            return self.m_given
        target = self.epsilon / (self.H * (self.H - 1)) if self.H > 1 else inf
        visits = range(1, NEVER)
        return visits[bisect_left(visits, True, key=lambda m: self.radius(m, m) <= target)]

    def radius(self, n: Any, m: float) -> Any:
        """Return the radius of the ball around p^ after n (k,) visits."""
        log_term = np.log(2 * self.S * self.A * m / self.delta)
        return self.scale * l1_radius(self.S, log_term, np.asarray(n, float))

    def max_visits(self) -> int:
        """Return m."""
        return ceil(self.m)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the radius."""
        return {"radius": self.radius(n, self.m)}

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "m": self.m_given}


class MBIEBonus(MBIE):
    """MBIE-EB."""

    name = "mbie-eb"
    reference = "Strehl, Littman 2008, MBIE-EB"
    setting = "discounted; adapted: 1/(1-gamma) = H, and H in the logarithm; m derived"
    constants = "published: beta except the H in its logarithm; derived: that H, and m"

    @property
    def beta(self) -> float:
        """H sqrt( ln(2 S A H m/delta)/2 )."""
        log_term = log(2 * self.S * self.A * self.H * self.m / self.delta)
        return float(self.H * (log_term / 2) ** 0.5)

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return beta/sqrt(n)."""
        return {"flat": self.scale * self.beta / np.sqrt(n)}


class BEB(BonusAgent):
    """Bayesian exploration bonus."""

    name = "beb"
    reference = "Kolter, Ng 2009"
    setting = "plans H steps ahead at all times; here the steps left in the episode"
    guarantee = "near Bayes-optimal except O~(S A H^6/eps^2) times; not PAC"
    constants = "published: 2 H^2; unverified: the freeze at 4 H^3/eps; chosen: the prior"
    rule = Rule(cap=NO_CAP)
    by_step = True

    def max_visits(self) -> int:
        """Return the first n above 4 H^3/eps."""
        return floor(4 * self.H**3 / self.epsilon) + 1

    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return 2 H^2/(1 + n)."""
        return {"flat": self.scale * 2 * self.H**2 / (1 + n)}
