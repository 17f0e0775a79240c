"""Confidence bounds on the mean value of the behavior policies, from the returns of a log.

The return of episode i is X_i in [0, 1], after rescaling. Its mean mu_i, given all that happened
before it began, is V^{pi_i} for the policy pi_i followed in it; policies may change, so mu_i may
depend on i and on the past. Bounded is M_n = (mu_1 + ... + mu_n)/n, from both sides.

One bet. For y >= -1 and 0 <= lambda < 1, with psi(lambda) = -ln(1 - lambda) - lambda,

    exp(lambda y - psi(lambda) y^2)  <=  1 + lambda y,

since (ln(1 + z) - z)/z^2 increases in z > -1 and z = lambda y >= -lambda, so that
ln(1 + z) - z >= (ln(1 - lambda) + lambda) y^2. Let x_i in [0, 1] be a guess of X_i that is made
before episode i, here the mean of all before and of one 1/2. With y = X_i - x_i and 1 + z <= e^z,
E[exp(lambda (X_i - mu_i) - psi(lambda)(X_i - x_i)^2) | past] <= 1: the products of these are a
supermartingale. By Ville's inequality, with probability 1 - delta, for all n at once,

    n M_n  >=  sum X_i - [ln(1/delta) + psi(lambda) sum (X_i - x_i)^2] / lambda.

It is taken for lambda_k = 2^-(k+1), k = 0, 1, ..., each with the share delta/((k+1)(k+2)) of delta:
the best of these bounds holds as well. The upper bound is the same for 1 - X_i. Each side has half
of delta.

Of an episode that was not logged to its end only Y_i <= X_i <= Z_i is known: the least return that
is compatible with the logged steps, and the largest return. Whatever the reason, even if it depends
on the outcomes, E[Y_i | past] <= mu_i <= E[Z_i | past]: Y_i gives the lower bound, Z_i the upper.

As it holds for all n at once, the log may end at any time. That M_n is about the policies that were
followed, not about a future one, needs no assumption on them except that no policy uses the future.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ucfh._utils.arrays import Bools, Floats

LAMBDA = 0.5 ** np.arange(1.0, 21.0)
"""lambda_k (20,); smaller ones would improve only logs of more than 10^12 episodes."""
PSI = -np.log1p(-LAMBDA) - LAMBDA
"""psi(lambda_k) (20,)."""
UNION_COST = np.log(np.arange(1.0, 21.0) * np.arange(2.0, 22.0))
"""ln((k+1)(k+2)) (20,)."""
ROUNDING = 1e-9
"""Relative error of sums of rounded rewards, and of the bounds, as a share of the range."""


@dataclass(frozen=True)
class BehaviorValue:
    """The value of the logged behavior per episode, in the user's units.

    Attributes:
        mean: the average return of the episodes, as far as they were logged.
        lower, upper: with probability 1 - delta, the average of the expected returns of the
            episodes, under the policies that were followed, lies between them.
        episodes: the number of episodes. incomplete: the number not logged to their end.

    """

    mean: float
    lower: float
    upper: float
    episodes: int
    incomplete: int


def behavior_of(
    returns: Floats, complete: Bools, least: float, most: float, delta: float
) -> BehaviorValue:
    """Bound the value of the logged behavior per episode.

    Args:
        returns: (n,) the return of each episode, as far as it was logged, in order.
        complete: (n,) True where the episode was logged to its end.
        least, most: the range of all returns; least is at most 0, and bounds the sum of the rewards
            of steps that were not logged from below.
        delta: the probability with which a bound may be wrong.

    """
    n, span = len(returns), most - least
    if n == 0:
        return BehaviorValue(np.nan, least, most, 0, 0)
    known = np.where(complete, returns, returns + least)
    at_least = np.clip((known - least) / span, 0.0, 1.0)
    at_most = np.where(complete, at_least, 1.0)
    low = _lower_bound(at_least, delta / 2)
    high = 1.0 - _lower_bound(1.0 - at_most, delta / 2)
    return BehaviorValue(
        mean=float(returns.mean()),
        lower=least + span * max(0.0, low - ROUNDING),
        upper=least + span * min(1.0, high + ROUNDING),
        episodes=n,
        incomplete=n - int(np.count_nonzero(complete)),
    )


def _lower_bound(x: Floats, delta: float) -> float:
    """Return a lower bound of the mean of the expectations of x (n,), each in [0, 1]."""
    n = len(x)
    guess = (0.5 + np.cumsum(x) - x) / np.arange(1.0, n + 1)
    spread = float(((x - guess) ** 2).sum())
    return float(x.mean() - ((UNION_COST - np.log(delta) + PSI * spread) / LAMBDA).min() / n)
