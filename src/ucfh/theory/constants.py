"""The constants of UCFH, one function a symbol.

Symbols: S states, SA pairs, H horizon, C largest number of successors of a pair, B = min(A, H),
log = log2, ln natural. The printed algorithm (``variant="paper"``):

    w_min   = eps / (4 H S)
    U_max   = SA log(S H / w_min)
    delta_1 = delta / (2 U_max C)
    m       = 512 max(1, log log H)^2 (C H^2/eps^2) log^2(8 H^2 S^2/eps)
              ln(6 SA C log^2(4 S^2 H^2/eps) / delta)
    cut-off = S m H
    bound   = 6 SA m log^2(4 H^2 S/eps)                                         (Theorem 1)

``max(1, .)`` is not printed: log log H is undefined at H = 1, zero at H = 2, too small at H = 3.

``variant="corrected"`` repairs what the proof gets wrong, so that the theorem is true:

    w_min   = eps / (4 H S B)            a time-dependent policy weighs up to S B pairs, not S
    y       = max(S, 4) H / w_min
    U_max   = SA (ceil(log y) + 1)       updates of a pair need not double its n exactly
    delta_1 = delta / (2 U_max C)
    m       = 512 max(1, log log H)^2 (C H^2/eps^2) ceil(log 2y) (floor(log(H/w_min)) + 1)
              ln(6/delta_1)
    cut-off = max(S, 4) m H
    E_max   = (floor(log(H/w_min)) + 1) (1 + ceil(log(S B)))
    bound   = 16 SA m E_max              n excludes the running v: 16 where the paper has 6

Ceilings and floors of logarithms are taken of exact rationals (epsilon is read as the decimal
that was written), since y is often a power of two.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import ceil, floor, log, log2
from typing import TYPE_CHECKING, Literal

from ucfh.exceptions import InputError, check_count, check_unit, unknown

if TYPE_CHECKING:
    from ucfh.mdp import Problem

Variant = Literal["paper", "corrected"]
MOST = 10**50
"""The largest number of states, actions or steps that formulas accept."""


def floor_log2(x: Fraction) -> int:
    """floor(log2 x) for x >= 1, exactly."""
    return floor(x).bit_length() - 1


def ceil_log2(x: Fraction) -> int:
    """ceil(log2 x) for x >= 1, exactly."""
    return (ceil(x) - 1).bit_length()


def log_log(horizon: int) -> float:
    """max(1, log2 log2 H)."""
    return max(1.0, log2(log2(horizon))) if horizon > 2 else 1.0


@dataclass(frozen=True)
class Constants:
    """The constants for one size of problem; see the module for each formula.

    Attributes:
        states, pairs, horizon, successors: S, SA, H, C.
        branching: B, the most pairs of one state that a policy may take within an episode.
        epsilon, delta: accuracy and failure probability.
        variant: "paper" or "corrected".
        m_given: replaces m (and so the cut-off); no guarantee then.

    """

    states: int
    pairs: int
    horizon: int
    successors: int
    branching: int
    epsilon: float
    delta: float
    variant: Variant = "paper"
    m_given: float | None = None

    def __post_init__(self) -> None:
        for name in ("states", "pairs", "horizon", "successors", "branching"):
            check_count(name, getattr(self, name))
        for name in ("states", "horizon"):
            _check_size(name, getattr(self, name))
        check_unit("epsilon", self.epsilon)
        check_unit("delta", self.delta)
        for name, value in (("epsilon", self.epsilon), ("delta", self.delta)):
            if value < 1e-100:
                raise InputError(f"{name} = {value} is too small: pass a number such as 0.1")
        if self.variant not in ("paper", "corrected"):
            raise unknown("variant", self.variant, ("paper", "corrected"))
        if self.m_given is not None and not 0 < self.m_given < float("inf"):
            raise InputError(f"m = {self.m_given} must be a positive number")

    @property
    def printed(self) -> bool:
        """True for the printed variant."""
        return self.variant == "paper"

    @cached_property
    def _w_min(self) -> Fraction:
        S = self.states if self.printed else self.states * self.branching
        return Fraction(repr(float(self.epsilon))) / (4 * self.horizon * S)

    @property
    def w_min(self) -> float:
        """w_min, below which the weight of a pair hardly matters for the value of a policy."""
        return float(self._w_min)

    @property
    def _y(self) -> Fraction:
        return max(self.states, 4) * self.horizon / self._w_min

    @property
    def u_max(self) -> float:
        """U_max, the bound on the number of policy changes."""
        if self.printed:
            return self.pairs * log2(self.states * self.horizon / self._w_min)
        return float(self.pairs * (ceil_log2(self._y) + 1))

    @property
    def delta_1(self) -> float:
        """The failure probability of one confidence set."""
        return self.delta / (2 * self.u_max * self.successors)

    @cached_property
    def m(self) -> float:
        """m, the number of visits per unit of weight after which a pair is known."""
        if self.m_given is not None:
            return float(self.m_given)
        S, H, C, eps = self.states, self.horizon, self.successors, self.epsilon
        scale = 512 * log_log(H) ** 2 * C * H**2 / eps**2
        if self.printed:
            entries = self.pairs * C * log2(4 * S**2 * H**2 / eps) ** 2
            return scale * log2(8 * H**2 * S**2 / eps) ** 2 * log(6 * entries / self.delta)
        categories = ceil_log2(2 * self._y) * (floor_log2(H / self._w_min) + 1)
        return scale * categories * log(6 / self.delta_1)

    @property
    def cutoff(self) -> float:
        """The number of visits after which a pair is no longer updated."""
        return (self.states if self.printed else max(self.states, 4)) * self.m * self.horizon

    @property
    def e_max(self) -> float:
        """E_max, the most categories (kappa, iota) that a phase may violate; printed: its bound."""
        if self.printed:
            return log2(4 * self.horizon**2 * self.states / self.epsilon) ** 2
        kappas = 1 + ceil_log2(Fraction(self.states * self.branching))
        return float((floor_log2(self.horizon / self._w_min) + 1) * kappas)

    @property
    def episode_bound(self) -> float:
        """The bound on the number of epsilon-suboptimal episodes, with probability 1 - delta.

        Corrected, m' = max(m, H ceil(log2 2y)/(2 w_min)) stands for m: where C is far below SB, an
        episode may visit a pair more often than an update can count.
        """
        if self.printed:
            return 6 * self.pairs * self.m * self.e_max
        m = max(self.m, float(self.horizon * ceil_log2(2 * self._y) / (2 * self._w_min)))
        return 16 * self.pairs * m * self.e_max


def _check_size(name: str, value: int) -> int:
    """Return ``value`` if formulas of it do not leave the range of floats; else raise."""
    if check_count(name, value) > MOST:
        size = len(str(value)) if value < 10**1000 else "over 1000"
        raise InputError(
            f"{name}, a number of {size} digits, is too large to compute with: pass at most 1e50"
        )
    return int(value)


def constants(
    states: int,
    actions: int,
    horizon: int,
    epsilon: float,
    delta: float,
    successors: int | None = None,
    variant: Variant = "paper",
) -> Constants:
    """Return the constants for a problem size.

    Args:
        states, actions, horizon: S, A (of every state) and H.
        epsilon, delta: accuracy and failure probability.
        successors: C; None: S.
        variant: "paper" or "corrected".

    Raises:
        InputError: for arguments outside their range.

    >>> c = constants(states=5, actions=2, horizon=5, epsilon=0.5, delta=0.1)
    >>> print(f"{c.w_min:g} {c.m:.9g} {c.episode_bound:.6g}")
    0.005 869468797 5.18117e+12
    """
    S, A = _check_size("states", states), _check_size("actions", actions)
    C = S if successors is None else check_count("successors", successors)
    if C > S:
        raise InputError(f"successors = {C} is more than the {S} states: pass at most {S}")
    H = _check_size("horizon", horizon)
    epsilon, delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
    return Constants(S, S * A, H, C, min(A, H), epsilon, delta, variant)


def constants_of(
    problem: Problem, epsilon: float, delta: float, variant: Variant, m: float | None = None
) -> Constants:
    """Return the constants for the prior knowledge of an agent.

    Three extensions that the paper calls straightforward are reduced to its setting:

    - Transitions that depend on t: the segment-augmented problem, S H states with one pair of each
      taken per episode (B = 1).
    - An unknown start: one more state, before the start, with one action and any state after it;
      an episode then has H + 1 steps.
    - Unknown rewards: the mean reward of a pair is one more entry to bound (C + 1), and the
      accuracy required of the transitions is 3/4 epsilon. In a balanced phase rewards add at most
      eps'/16 for pairs of weight at least w_min (Cauchy-Schwarz over the categories, since
      n >= m w kappa and |X| <= kappa) and S B w_min <= eps'/4 for the others; with the eps' of
      the transitions that is 21/16 eps' = 63/64 epsilon for eps' = 3/4 epsilon.
    """
    table = problem.table
    S, pairs, H = table.states * table.segments, table.start, problem.horizon
    B = min(table.actions, H) if table.segments == 1 else 1
    C = int(table.lengths[:-1].max())
    epsilon, delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
    if problem.initial is None:
        S, pairs, H, C = S + 1, pairs + 1, H + 1, table.states
    if problem.rewards is None:
        C, epsilon = C + 1, epsilon * 3 / 4
    return Constants(S, pairs, H, C, B, epsilon, delta, variant, m if m is None else float(m))
