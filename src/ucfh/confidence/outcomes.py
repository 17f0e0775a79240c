"""Outcomes: pairs of a next state and the reward of the transition to it.

f(s', r) = r + V*_{t+1}(s') is a fixed function of the outcome, so the bound on the mean of one
function (`ucfh.confidence.known_states`, 2) covers transition and reward with one event. It is a
bound for every nu, nu - exp(mean of ln(nu - f) - eta). Stored for each next state are its count and
the sum, the least and the most of the rewards. If the least and the most differ, then, as the
logarithm is concave, on [least, most] it is at least its chord:

    mean of ln(nu - f)  >=  the same with the least reward for a part of the visits, else the most,

with the sum kept. So such a next state stands for two outcomes, whatever the rewards in between:
the bound is valid, exact for rewards of two values, and no worse than if rewards were drawn as 0 or
1 with their mean. Deterministic rewards cost nothing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ucfh._kernels.kl import kl_reach
from ucfh._kernels.mixtures import portfolio_regret
from ucfh._utils.arrays import Bools, Floats, Ints

ROUND_UP = 1 + 1e-12
"""Factor by which budgets are raised, as they are sums of rounded numbers."""


class Outcomes(NamedTuple):
    """Outcomes of k next states: source (m,) of each, in 0..k-1, ascending.

    reward (m,): its reward. c (m,): its count, not always an integer. repeats (m,): the count
    without the first visit of its next state. noisy (k,): True for next states that stand for two
    outcomes.
    """

    source: Ints
    reward: Floats
    c: Floats
    repeats: Floats
    noisy: Bools


def outcomes_of(
    c: Ints, sums: Floats, least: Floats, most: Floats, first: Ints | None = None
) -> Outcomes:
    """Return the outcomes of k next states from counts, sums, least and most rewards, (k,) each.

    ``repeats`` is about the first (k,) of these visits only, if that is given.
    """
    noisy = (c > 0) & (most > least)
    source = np.repeat(np.arange(len(c)), 1 + noisy)
    second = np.append(False, source[1:] == source[:-1])
    width = np.where(noisy, most - least, 1.0)
    high = np.clip((sums / np.maximum(c, 1) - least) / width, 0.0, 1.0)
    part = np.where(noisy[source], np.where(second, high[source], 1 - high[source]), 1.0)
    reward = np.where(c[source] > 0, np.where(second, most[source], least[source]), 0.0)
    count = c[source].astype(float) * part
    repeats = np.maximum((c if first is None else first)[source] - 1, 0) * part
    return Outcomes(source, reward, count, repeats, noisy)


def mean_reward(sums: Floats, visits: Ints | Floats, cost: Floats | float) -> tuple[Floats, Floats]:
    """Return lower and upper bounds (rows,) of mean rewards in [0, 1], from sums (rows,).

    The event is item 6 of `ucfh.confidence.known_states`; cost: ln(1/delta), with the union bound
    over the rows.
    """
    n = np.maximum(visits, 1).astype(float)
    mean = np.clip(sums / n, 0.0, 1.0)
    c = (cost + portfolio_regret(n)) / n * ROUND_UP
    high = np.where(visits > 0, mean + kl_reach(mean, 1 - mean, c), 1.0)
    low = np.where(visits > 0, mean - kl_reach(1 - mean, mean, c), 0.0)
    return np.maximum(low - 1e-15, 0.0), np.minimum(high + 1e-15, 1.0)
