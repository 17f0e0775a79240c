"""What can be said of medians and of a ranking from a few runs each; exact, whatever their law.

- The interval of a median is made of order statistics: x_(k) and x_(n+1-k) have it between them
  unless fewer than k of n fair coins fall on one side, whose probability is a binomial sum.
- Two learners ran with the same seeds, so their differences are compared: the signed-rank test
  of Wilcoxon, its law counted out over all signs, ties and zeros included.
- Which learner did best is read off the same data, so the family of tests is that of all pairs,
  not only those with the best; Holm's correction over it keeps every false claim below 5 %.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, count
from math import comb
from typing import NamedTuple

import numpy as np

from ucfh.table import Floats

LEVEL = 0.95
"""How surely an interval holds the median, and 1 - LEVEL how rarely a ranking claims too much."""

NOISE = 1e-9
"""Regrets whose difference is no larger share of them than this are equal up to rounding."""


class Interval(NamedTuple):
    """A median, and bounds that hold that of the law with probability ``coverage``."""

    median: float
    low: float
    high: float
    coverage: float


def median_interval(values: Sequence[float] | Floats) -> Interval:
    """The median of n values, and the narrowest order statistics that hold it surely enough.

    Fewer than six values cannot hold it with probability `LEVEL`: then it is their range, and
    ``coverage`` says how sure that is.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    Interval(median=3.5, low=1.0, high=6.0, coverage=0.96875)
    >>> median_interval([1.0, 2.0, 9.0]).coverage
    0.75

    """
    x = np.sort(np.asarray(values, float))
    n = len(x)
    k, ways = 0, 1  # of n fair coins, fewer than k + 1 fall on one side in so many ways
    while 2 * (more := ways + comb(n, k + 1)) / 2**n <= 1 - LEVEL:
        k, ways = k + 1, more
    return Interval(float(np.median(x)), float(x[k]), float(x[n - 1 - k]), 1 - 2 * ways / 2**n)


class Verdict(NamedTuple):
    """A two-sided p-value, and to which side the values lean: -1, 0 or 1."""

    p: float
    side: int


def signed_rank(differences: Sequence[float] | Floats) -> Verdict:
    """Wilcoxon's signed-rank test of values that are symmetric about 0 if nothing differs.

    Zeros are dropped and equal sizes share their mean rank; the law given the sizes, which is
    that of fair and independent signs, is counted out.

    >>> signed_rank([3.0, 1.0, 4.0, 1.5, 9.0, 2.0])
    Verdict(p=0.03125, side=1)
    >>> signed_rank([1.0, -1.0, 0.0])
    Verdict(p=1.0, side=0)

    """
    d = np.asarray(differences, float)
    d = d[d != 0]
    sizes, which, times = np.unique(np.abs(d), return_inverse=True, return_counts=True)
    del sizes
    # twice the mean rank of each size is whole
    ranks = (2 * np.cumsum(times) - times + 1)[which]
    total, above = int(ranks.sum()), int(ranks[d > 0].sum())
    rarer = min(above, total - above)
    law = np.zeros(rarer + 1)  # P(ranks of positive signs sum to k), as far as it is asked for
    law[0] = 1.0
    for rank in ranks:
        moved = np.zeros_like(law)
        moved[rank:] = law[: max(0, len(law) - rank)]
        law = (law + moved) / 2
    return Verdict(min(1.0, 2 * float(law.sum())), int(np.sign(2 * above - total)))


def holm(p: Sequence[float] | Floats) -> Floats:
    """P-values (m,) corrected for their number: all claims below alpha hold but for alpha.

    >>> holm([0.01, 0.04, 0.03]).round(2).tolist()
    [0.03, 0.06, 0.06]

    """
    given = np.asarray(p, float)
    order = np.argsort(given, kind="stable")
    corrected = np.maximum.accumulate(given[order] * np.arange(len(given), 0, -1))
    out = np.empty_like(given)
    out[order] = np.minimum(corrected, 1.0)
    return out


def seeds_needed(agents: int) -> int:
    """With fewer seeds than this no two of so many learners can be told apart.

    >>> seeds_needed(2), seeds_needed(12)
    (6, 12)

    """
    return next(n for n in count(1) if comb(agents, 2) * 2.0 ** (1 - n) <= 1 - LEVEL)


class Place(NamedTuple):
    """Where a learner stands.

    Attributes:
        agent: its name.
        first, last: its rank lies between these: so many others are told apart from it, on
            either side.
        p: of its difference from the best, corrected; None for the best itself.

    """

    agent: str
    first: int
    last: int
    p: float | None


def ranking(regrets: Mapping[str, Mapping[int, float]]) -> list[Place]:
    """Rank learners by their median regret, given by name and seed, smallest first.

    >>> runs = {"a": {k: 1.0 + k for k in range(20)}, "b": {k: 2.0 + k for k in range(20)}}
    >>> for place in ranking(runs):
    ...     print(place.agent, place.first, place.last, place.p)
    a 1 1 None
    b 2 2 1.9073486328125e-06

    """
    names = sorted(regrets, key=lambda name: float(np.median(list(regrets[name].values()))))
    pairs = list(combinations(names, 2))
    tests = [_compare(regrets[a], regrets[b]) for a, b in pairs]
    corrected = dict(zip(pairs, holm([test.p for test in tests]), strict=True))
    better = dict.fromkeys(names, 0)
    worse = dict.fromkeys(names, 0)
    for (a, b), test in zip(pairs, tests, strict=True):
        if corrected[a, b] <= 1 - LEVEL:
            low, high = (a, b) if test.side < 0 else (b, a)
            better[high] += 1
            worse[low] += 1
    return [
        Place(
            name,
            1 + better[name],
            len(names) - worse[name],
            float(corrected[names[0], name]) if name != names[0] else None,
        )
        for name in names
    ]


def _compare(one: Mapping[int, float], other: Mapping[int, float]) -> Verdict:
    """The test of the differences of two learners, over the seeds that both ran with."""
    shared = sorted(one.keys() & other.keys())
    a = np.array([one[seed] for seed in shared], float)
    b = np.array([other[seed] for seed in shared], float)
    same = np.abs(a - b) <= NOISE * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
    return signed_rank(np.where(same, 0.0, a - b))
