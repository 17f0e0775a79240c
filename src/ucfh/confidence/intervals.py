"""Confidence sets for a transition probability: (p^, n) -> (lo, hi).

The published set (Algorithm 1, ConfidenceSet), with L = ln(6/delta_1), is all p' in [0, 1] with

    (i)    |p' - p^| <= sqrt(L / 2n)                                             Hoeffding
    (ii)   |p' - p^| <= sqrt(2 p^ (1-p^) L / n) + 7 L / (3 (n-1))                 Bernstein
    (iii)  |sqrt(p' (1-p')) - sqrt(p^ (1-p^))| <= rho = sqrt(2 L / (n-1))         deviation

(ii) and (iii) only for n > 1; n = 0 gives [0, 1]. Planning needs its convex hull. By symmetry let
u = min(p^, 1-p^) <= 1/2, and let X(x) = 2x^2/(1 + sqrt(1 - 4x^2)) <= x be the p' <= 1/2 of
standard deviation x. Then (iii) allows [X(sd - rho), X(sd + rho)], around u, and its mirror image,
where X(x) = 0 for x < 0; from sd + rho = 1/2 on, both are one interval.

Conditions (i) and (ii) exclude the mirror image if it is disjoint from the interval around u. Let
d = 1/2 - u and y^2 = rho (2 sd + rho). It is disjoint if
(sd + rho)^2 = 1/4 - d^2 + y^2 is less than 1/4, that is, y < d; and it begins at
1 - X(sd + rho) = 1/2 + sqrt(d^2 - y^2), at least d away from u. But (i) keeps p' within
rho/2 < y < d of u, and (ii) within sd rho + 7 rho^2/6 = y^2/2 + 2 rho^2/3 <= 7 y^2/6 < y < d,
as rho <= y < 1/2. Either suffices. So the set is one interval, and stays one if any one of the
three conditions is left out: it is bounded below by u - b and X(sd - rho), above by u + b and by
X(sd + rho) if sd + rho < 1/2, else by 1 - X(sd - rho), with b the smaller of (i) and (ii). The
bound 1 - X(sd - rho) binds only where (i) is left out: if sd > rho it is at least d + rho away
from u.

The KL set is { q : n kl(p^, q) <= ln(2/delta_1) }. It has probability 1 - delta_1 by Chernoff's
bound, and it implies (i)-(iii): it lies inside the published set and keeps Theorem 1.

Both sets bound the mean of any variable in [0, 1], not only of a Bernoulli variable, through the
same kl event; unknown mean rewards are bounded by the same sets.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf, log
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh._utils.validation import as_numbers
from ucfh.exceptions import InputError, check_unit, unknown

ULP = 2.0**-52
CONDITIONS = ("hoeffding", "bernstein", "deviation")
ConfidenceSet = Callable[[Any, Any, float], tuple[Floats, Floats]]


@dataclass(frozen=True, eq=False)
class Box:
    """The confidence bounds of an agent.

    Attributes:
        lo, hi: (entries,) of transition probabilities.
        reward_lo, reward_hi: (rows,) of mean rewards; 0 and 1 where those are known.

    """

    lo: Floats
    hi: Floats
    reward_lo: Floats
    reward_hi: Floats

    def holds(self, p: Floats, mean_rewards: Floats | None) -> bool:
        """Return True if the bounds contain p (entries,), and mean rewards (rows - 1,) if given."""
        slack = 1e-12  # the bounds are computed in double precision
        inside = bool(((self.lo - slack <= p) & (p <= self.hi + slack)).all())
        if mean_rewards is None:
            return inside
        r_lo, r_hi = self.reward_lo[:-1] - slack, self.reward_hi[:-1] + slack
        return inside and bool(((r_lo <= mean_rewards) & (mean_rewards <= r_hi)).all())


def _check(p_hat: Any, n: Any, delta_1: float) -> tuple[Floats, Floats]:
    """Return p^ and n as broadcast floats; p^ is set to 0 where n is 0."""
    check_unit("delta_1", delta_1)
    given = as_numbers("p_hat", p_hat), as_numbers("n", n)
    try:
        p, visits = np.broadcast_arrays(*given)
    except ValueError:
        raise InputError(
            f"p_hat has shape {given[0].shape} and n {given[1].shape}: they must broadcast"
        ) from None
    if not (visits >= 0).all():
        raise InputError(f"n = {visits[~(visits >= 0)][0]} must be at least 0")
    p = np.where(visits > 0, p, 0.0)
    if not ((p >= 0) & (p <= 1)).all():
        raise InputError(f"p_hat = {p[~((p >= 0) & (p <= 1))][0]} is outside [0, 1]")
    return p, visits


def _of_deviation(x: Floats) -> Floats:
    """X(x), the p <= 1/2 with sqrt(p (1-p)) = x, for 0 <= x <= 1/2."""
    return np.asarray(2 * x**2 / (1 + np.sqrt(np.maximum(0.0, 1 - 4 * x**2))))


def confidence_set(
    p_hat: Any, n: Any, delta_1: float, *, without: str | None = None
) -> tuple[Floats, Floats]:
    """Return the hull of the published set, for arrays p^ and n of any shapes that broadcast.

    Args:
        p_hat: p^, in [0, 1].
        n: the number of samples, at least 0.
        delta_1: the failure probability of one set, in (0, 1].
        without: a condition to leave out, "hoeffding", "bernstein" or "deviation", to measure its
            effect. The set becomes larger, so it is valid at the same delta_1.

    Returns:
        The arrays lo and hi.

    Raises:
        InputError: if an argument is outside its range, or the shapes do not broadcast.

    >>> lo, hi = confidence_set([0.0, 0.1, 0.5], n=1000, delta_1=0.01)
    >>> print(lo.round(4), hi.round(4))
    [0.     0.0511 0.4434] [0.013  0.1489 0.5566]
    """
    if without is not None and without not in CONDITIONS:
        raise unknown("condition", without, CONDITIONS)
    p, n = _check(p_hat, n, delta_1)
    L = log(6 / delta_1)
    u = np.minimum(p, 1 - p)
    sd = np.sqrt(u * (1 - u))
    with np.errstate(divide="ignore", invalid="ignore"):
        less = np.maximum(n - 1, 0)
        allowed = {
            "hoeffding": np.sqrt(L / (2 * n)),
            "bernstein": np.where(n > 1, sd * np.sqrt(2 * L / n) + 7 * L / (3 * less), inf),
            "deviation": np.sqrt(2 * L / less),
        }
    if without is not None:
        allowed[without] = np.full_like(n, inf)
    hoeffding, bernstein, rho = allowed.values()
    b = np.minimum(hoeffding, bernstein)
    below = _of_deviation(np.maximum(0, sd - rho))
    above = np.where(sd + rho < 0.5, _of_deviation(np.minimum(0.5, sd + rho)), 1 - below)
    # p^ itself is a member, despite rounding
    lo = np.minimum(np.maximum(np.maximum(u - b, below), 0.0), u)
    hi = np.maximum(np.minimum(np.minimum(u + b, above), 1.0), u)
    flip = p > 0.5
    return np.where(flip, 1 - hi, lo), np.where(flip, 1 - lo, hi)


def kl_set(p_hat: Any, n: Any, delta_1: float) -> tuple[Floats, Floats]:
    """Return the KL set, lo and hi, for arrays p^ and n of any shapes that broadcast.

    >>> lo, hi = kl_set([0.0, 0.1, 0.5], n=1000, delta_1=0.01)
    >>> print(lo.round(4), hi.round(4))
    [0.     0.0719 0.4487] [0.0053 0.1337 0.5513]
    """
    from ucfh._kernels.kl import kl_reach

    p, n = _check(p_hat, n, delta_1)
    with np.errstate(divide="ignore"):
        c = log(2 / delta_1) / n
    lo, hi = p - kl_reach(1 - p, p, c), p + kl_reach(p, 1 - p, c)
    # the sum rounds to nearest: step outward by more than that
    return np.maximum(lo - ULP * p, 0.0), np.minimum(hi + ULP * hi, 1.0)


SETS: dict[str, ConfidenceSet] = {
    "paper": confidence_set,
    "kl": kl_set,
    **{f"without-{name}": partial(confidence_set, without=name) for name in CONDITIONS},
}


def choose_set(name: str) -> ConfidenceSet:
    """Return the confidence set of that name, or raise `InputError`."""
    if name not in SETS:
        raise unknown("confidence set", name, SETS)
    return SETS[name]
