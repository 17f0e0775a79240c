"""Every bound of the paper, and of its section on related work, as a formula and a number.

Two kinds of number stand side by side and are marked: *exact* ones have their true constants
(Theorem 1 as published and as corrected, Theorem 2 as published and as proved, where valid);
*order* ones are the leading term of an O~ bound with constant 1 and all logarithms but ln(1/delta)
left out, as the paper states it. Orders may be compared with orders: the row "UCFH, order" is the
paper's own.

Bounds in time steps are converted to episodes as the paper says: the state is augmented by the time
step (S -> S H), and an episode worse than eps has at least one bad time step.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import e, inf, log

from ucfh.exceptions import InputError, check_count, check_unit
from ucfh.theory.constants import Constants, constants

ETA = 1 / 10
"""eta in the proof of Theorem 2."""
C_3 = e**-4 / 80
"""The term added to delta in Theorem 2: the share of bandits an eps-optimal policy may miss."""


@dataclass(frozen=True)
class Bound:
    """One row of the table of bounds.

    Attributes:
        name: the algorithm or theorem.
        reference: the publication.
        formula: in S, A, C, H, eps, delta; converted to episodes.
        episodes: the number, infinite beyond the largest float; None where the bound is not
            valid. Upper bounds count epsilon-suboptimal episodes, lower bounds expected episodes
            until a policy is output.
        exact: True if constants and logarithms are the true ones.
        lower: True for a lower bound.
        note: the setting, or the reason for a missing number.

    """

    name: str
    reference: str
    formula: str
    episodes: float | None
    exact: bool = False
    lower: bool = False
    note: str = ""


def lower_bound(states: int, actions: int, horizon: int, epsilon: float, delta: float) -> float:
    """Return the lower bound of Proposition 12 (`docs/theory/errata.md`), in expected episodes.

    Every algorithm that outputs a deterministic policy, epsilon-optimal with probability 1 - delta,
    needs at least this many episodes on average on some problem of this size:

        (3/16) (A-1)(S-3)/eps'^2 ln( 1/(4 (delta + e^-4/80)) ),   eps' = 160 eps e^4/(H-2).

    Args:
        states: S > 3.
        actions: A > 1.
        horizon: H > 2.
        epsilon: below (H-2)/(640 e^4).
        delta: below 1/4 - e^-4/80 = 0.24977.

    Raises:
        InputError: outside this range, with the condition that fails.

    >>> round(lower_bound(100, 4, 50, 6.86836458328e-4, 1e-4), 3)
    23163.568

    """
    most = 0.25 - C_3
    if not delta < most:
        raise InputError(f"the proved lower bound needs delta < 1/4 - e^-4/80 = {most:.6g}")
    return 3 / 16 * _bandits(states, actions, horizon, epsilon, delta)


def theorem_2(states: int, actions: int, horizon: int, epsilon: float, delta: float) -> float:
    """Return the lower bound of Theorem 2 as published; `lower_bound` is 75 times as large.

    With the constants 1/400 and 1/4 of the bandit bound it rests on (the paper has them inverted,
    as 400 and 4), in the range that the paper claims:

        (1/400) (A-1)(S-3)/eps'^2 ln( 1/(4 (delta + e^-4/80)) )

    Args:
        states, actions, horizon: as in `lower_bound`.
        epsilon: below (H-2)/(640 e^4).
        delta: below e^-4/80.

    Raises:
        InputError: outside this range, with the condition that fails.

    >>> round(theorem_2(100, 4, 50, 6.86836458328e-4, 1e-4), 6)
    308.847573

    """
    bandits = _bandits(states, actions, horizon, epsilon, min(delta, C_3))
    if not delta < C_3:
        raise InputError(f"Theorem 2 needs delta < e^-4/80 = {C_3:.6g}")
    return bandits / 400


def _bandits(states: int, actions: int, horizon: int, epsilon: float, delta: float) -> float:
    """Return the common factor of the lower bounds, without their first constant."""
    if states <= 3 or actions <= 1 or horizon <= 2:
        raise InputError("Theorem 2 needs S > 3, A > 1 and H > 2")
    epsilon_0 = (horizon - 2) / (640 * e**4)
    if not epsilon < epsilon_0:
        raise InputError(f"Theorem 2 needs eps < (H-2)/(640 e^4) = {epsilon_0:.6g}")
    gap = 16 * epsilon * e**4 / ((horizon - 2) * ETA)
    return (actions - 1) * (states - 3) / gap**2 * log(1 / (4 * (delta + C_3)))


@dataclass(frozen=True)
class Order:
    """An O~ bound, by the exponents of S, A, C, H and 1/eps in its leading term."""

    name: str
    reference: str
    exponents: tuple[int, int, int, int, int]
    note: str

    @property
    def formula(self) -> str:
        """The leading term as a string, such as S^2 A H^3/eps^2 ln(1/delta)."""
        powers = [
            f"{symbol}^{k}" if k > 1 else symbol
            for symbol, k in zip(("S", "A", "C", "H", "eps"), self.exponents, strict=True)
            if k
        ]
        return f"{' '.join(powers[:-1])}/{powers[-1]} ln(1/delta)"

    def episodes(self, S: int, A: int, C: int, H: int, eps: float, delta: float) -> float:
        """Return the leading term as a number, infinite if it is larger than any float."""
        s, a, c, h, k = self.exponents
        try:
            return float(S**s * A**a * C**c * H**h) * log(1 / delta) / eps**k
        except OverflowError:
            return inf


ORDERS = [
    Order(
        "UCFH, order",
        "Dann, Brunskill 2015, Theorem 1",
        (1, 1, 1, 2, 2),
        "the order of Theorem 1, to compare with",
    ),
    Order(
        "UCRL2",
        "Jaksch, Ortner, Auer 2010, Corollary 3",
        (2, 1, 0, 3, 2),
        "from its regret bound, the reset after H steps ignored",
    ),
    Order(
        "Reveliotis-Bountourelis",
        "Reveliotis, Bountourelis 2007",
        (1, 1, 0, 4, 2),
        "acyclic; times 1/q if given policies reach each state with probability q (here q = 1)",
    ),
    Order(
        "Delayed Q-learning",
        "Strehl et al. 2006",
        (1, 1, 0, 6, 4),
        "S A H^5/eps^4 time steps, converted to episodes",
    ),
    Order(
        "Fiechter",
        "Fiechter 1994",
        (2, 1, 0, 7, 2),
        "discounted, episodes of length about H = 1/(1-gamma)",
    ),
    Order(
        "Kakade",
        "Kakade 2003, chapter 8",
        (2, 1, 0, 8, 3),
        "S^2 A H^6/eps^3 time steps, converted to episodes",
    ),
    Order("Auer-Ortner", "Auer, Ortner 2005", (10, 1, 0, 7, 3), "from its regret bound"),
]


def bounds(
    states: int,
    actions: int,
    horizon: int,
    epsilon: float,
    delta: float,
    successors: int | None = None,
) -> list[Bound]:
    """Return all bounds for a problem size, ascending, invalid ones last.

    Args:
        states, actions, horizon: S, A and H.
        epsilon, delta: accuracy and failure probability.
        successors: C; None: S.

    """
    # products of NumPy's integers would overflow
    states, actions = check_count("states", states), check_count("actions", actions)
    horizon = check_count("horizon", horizon)
    if check_unit("epsilon", epsilon) < 1e-50:
        raise InputError(f"epsilon = {epsilon} is too small: pass a number such as 0.1")
    both: dict[str, Constants] = {
        variant: constants(states, actions, horizon, epsilon, delta, successors, variant)
        for variant in ("paper", "corrected")
    }
    C = both["paper"].successors
    rows = [
        Bound(
            "Theorem 1, printed",
            "Dann, Brunskill 2015",
            "6 SA m log2^2(4 H^2 S/eps)",
            both["paper"].episode_bound,
            exact=True,
            note="as published, where the proof has gaps; max(1, log2 log2 H) in m",
        ),
        Bound(
            "Theorem 1, corrected",
            "Dann, Brunskill 2015, proof repaired",
            "16 SA m' E_max",
            both["corrected"].episode_bound,
            exact=True,
            note="proved; m' = max(m, H ceil(log2 2y)/(2 w_min)), nearly always m",
        ),
        *(
            Bound(
                order.name,
                order.reference,
                order.formula,
                order.episodes(states, actions, C, horizon, epsilon, delta),
                note=order.note,
            )
            for order in ORDERS
        ),
    ]
    for name, reference, constant, bound in (
        ("Theorem 2, proved", "Proposition 12 of the errata", "3/16", lower_bound),
        (
            "Theorem 2, published",
            "Dann, Brunskill 2015, its constant 400 inverted",
            "1/400",
            theorem_2,
        ),
    ):
        lower, note = None, "expected episodes until an algorithm outputs a deterministic policy"
        try:
            lower = bound(states, actions, horizon, epsilon, delta)
        except InputError as error:
            note = str(error)
        formula = f"{constant} (A-1)(S-3)/eps'^2 ln(1/(4 delta + e^-4/20))"
        rows.append(Bound(name, reference, formula, lower, exact=True, lower=True, note=note))
    return sorted(rows, key=lambda row: (row.episodes is None, row.episodes))
