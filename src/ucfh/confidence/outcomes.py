"""Rewards as part of what follows: an outcome is a next state and what was paid on the way there.

f(s', r) = r + V*_{t+1}(s') is a fixed function of the outcome, so the bound on the mean of one
function (`ucfh.confidence.known_states`, 2) serves transition and reward at one price. It is a
bound for every nu, nu - exp(mean of ln(nu - f) - eta). Of each next state are kept: how often it
was seen, the sum of what was paid, the least and the most. If these two differ, then, as the
logarithm is concave, on [least, most] it is at least its chord:

    mean of ln(nu - f)  >=  the same for a part of the visits paid the least, and the rest the most,

with the sum kept. So such a next state stands for two outcomes, whatever was paid in between: the
bound is right, exact for rewards of two values, and no worse than if rewards were drawn as 0 or 1
with their mean. Rewards that always come out the same cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ucfh._kernels.kl import kl_reach
from ucfh._kernels.mixtures import portfolio_regret
from ucfh._utils.arrays import Bools, Floats, Ints

ROUND_UP = 1 + 1e-12
"""By how much budgets are raised, as they are sums of rounded numbers."""


class Outcomes(NamedTuple):
    """Outcomes of k next states: source (m,) of each, in 0..k-1, ascending.

    reward (m,): what it pays. c (m,): how often, not always a whole number. again (m,): the same
    without the first visit of its next state. noisy (k,): whether a next state stands for two.
    """

    source: Ints
    reward: Floats
    c: Floats
    again: Floats
    noisy: Bools


def outcomes_of(
    c: Ints, paid: Floats, least: Floats, most: Floats, first: Ints | None = None
) -> Outcomes:
    """The outcomes of k next states, seen c (k,) times, with their sums, least and most (k,).

    ``again`` is about the first (k,) of these visits only, if that is given.
    """
    noisy = (c > 0) & (most > least)
    source = np.repeat(np.arange(len(c)), 1 + noisy)
    second = np.append(False, source[1:] == source[:-1])
    width = np.where(noisy, most - least, 1.0)
    high = np.clip((paid / np.maximum(c, 1) - least) / width, 0.0, 1.0)
    part = np.where(noisy[source], np.where(second, high[source], 1 - high[source]), 1.0)
    reward = np.where(c[source] > 0, np.where(second, most[source], least[source]), 0.0)
    times = c[source].astype(float) * part
    again = np.maximum((c if first is None else first)[source] - 1, 0) * part
    return Outcomes(source, reward, times, again, noisy)


def mean_reward(
    paid: Floats, visits: Ints | Floats, price: Floats | float
) -> tuple[Floats, Floats]:
    """(rows,) bounds of mean rewards in [0, 1] from below and above; from sums (rows,).

    Item 6 of `ucfh.confidence.known_states`; price: ln(1/delta), with the number of rows in it.
    """
    n = np.maximum(visits, 1).astype(float)
    mean = np.clip(paid / n, 0.0, 1.0)
    c = (price + portfolio_regret(n)) / n * ROUND_UP
    high = np.where(visits > 0, mean + kl_reach(mean, 1 - mean, c), 1.0)
    low = np.where(visits > 0, mean - kl_reach(1 - mean, mean, c), 0.0)
    return np.maximum(low - 1e-15, 0.0), np.minimum(high + 1e-15, 1.0)
