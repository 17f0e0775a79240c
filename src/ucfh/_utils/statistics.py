"""Medians and rankings from a few runs each, exact whatever the distribution of the runs:

- The interval of a median is made of order statistics: x_(k) and x_(n+1-k) have it between them
  unless fewer than k of n fair coins fall on one side, whose probability is a binomial sum.
- Two agents ran with the same seeds, so their differences are compared: the signed-rank test
  of Wilcoxon, its distribution counted over all signs, ties and zeros included. It tests whether
  the differences are symmetric about 0, as they are if the two could change places. Agents with
  the same median, or the same mean, whose differences are skewed may be told apart, too.
- Which agent did best is found from the same data, so the family of tests is that of all pairs,
  not only those with the best; with Holm's correction, the probability of any false claim is below
  5 %.
- Who looks at the data after n_1 < ... < n_K seeds, and stops when all is clear, gives each look an
  equal share of that 5 %: p-values of a look are those of the pairs that are still open, corrected
  by Holm, times K. Proof that the probability of any false claim is below alpha = 5 % still: Let T
  be the pairs that do not differ. As long as none of T was claimed, all of T are open, and their
  agents have run with all n_k seeds, whoever else was left out. So the first false claim, at
  look k, needs a pair of T whose exact p-value of n_k seeds is at most alpha/(K |T|), as Holm's
  factor is at least |T|; that has probability alpha/K at most, and there are K looks.
  AdaStop (Mathieu et al. 2023; its code was seen) has the same plan for runs that are not paired:
  it compares means, with limits from permutations of the runs, drawn at random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, count, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from ucfh._utils.arrays import Floats

LEVEL = 0.95
"""The probability that an interval holds the median; 1 - LEVEL, that a ranking claims too much."""

NOISE = 1e-9
"""Regrets that differ by no more than this share of them are equal up to rounding."""


class Interval(NamedTuple):
    """A median, and bounds that hold the true one with probability ``coverage``."""

    median: float
    low: float
    high: float
    coverage: float


def median_interval(values: Sequence[float] | Floats) -> Interval:
    """The median of n values, and the narrowest order statistics that hold it at `LEVEL`.

    Fewer than six values cannot hold it with probability `LEVEL`: then it is their range, and
    ``coverage`` is the probability of that.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    Interval(median=3.5, low=1.0, high=6.0, coverage=0.96875)
    >>> median_interval([1.0, 2.0, 9.0]).coverage
    0.75

    """
    x = np.sort(np.asarray(values, float))
    n = len(x)
    k, ways = 0, 1  # of n fair coins, fewer than k + 1 fall on one side in this many ways
    while 2 * (more := ways + comb(n, k + 1)) / 2**n <= 1 - LEVEL:
        k, ways = k + 1, more
    return Interval(float(np.median(x)), float(x[k]), float(x[n - 1 - k]), 1 - 2 * ways / 2**n)


class Verdict(NamedTuple):
    """A two-sided p-value, and to which side the values lean: -1, 0 or 1."""

    p: float
    side: int

    @property
    def significant(self) -> bool:
        """Whether a difference is claimed, if the p-value is corrected for all that was tested."""
        return self.p <= 1 - LEVEL


def signed_rank(differences: Sequence[float] | Floats) -> Verdict:
    """Wilcoxon's signed-rank test of values that are symmetric about 0 if nothing differs.

    Zeros are dropped and equal sizes share their mean rank; given the sizes, the
    distribution, that of fair and independent signs, is counted exactly.

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
    """P-values (m,) corrected for their number: all claims below alpha hold, except with alpha.

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
    """With fewer seeds than this, no two of that many agents can differ significantly.

    >>> seeds_needed(2), seeds_needed(12)
    (6, 12)

    """
    return next(n for n in count(1) if comb(agents, 2) * 2.0 ** (1 - n) <= 1 - LEVEL)


class Place(NamedTuple):
    """The place of an agent in a ranking.

    Attributes:
        agent: its name.
        first, last: its rank lies between these, by the number of others that are significantly
            better, and worse.
        p: the corrected p-value of its difference from the best; None for the best itself.

    """

    agent: str
    first: int
    last: int
    p: float | None


def looks_of(seeds: int, agents: int) -> list[int]:
    """After how many seeds to look, if ``seeds`` is the most: that many, halved again and again.

    The first look has enough seeds that differences of all pairs can be significant. A single
    agent has none.

    >>> looks_of(100, 2), looks_of(100, 14), looks_of(10, 14)
    ([13, 25, 50, 100], [25, 50, 100], [10])

    """
    looks = [seeds]
    while agents > 1:
        first = -(-looks[0] // 2)
        least = comb(agents, 2) * 2.0 ** (1 - first) * (len(looks) + 1)
        if first == looks[0] or least > 1 - LEVEL:
            return looks
        looks.insert(0, first)
    return looks


Regrets = Mapping[str, Mapping[int, float]]
"""By agent and seed; seeds are numbered from 0."""

Pair = tuple[str, str]
"""Two agents."""


def verdicts(regrets: Regrets, looks: Sequence[int] | None = None) -> dict[Pair, Verdict]:
    """What is known of the difference of each pair of agents, with corrected p-values.

    ``looks``: after how many seeds one is to look; None: after all, and only then. A look that has
    seen no new seeds is left out, and a pair whose difference is significant is not tested again.
    """
    seen = 1 + max((seed for runs in regrets.values() for seed in runs), default=0)
    planned = [seen] if looks is None else looks
    out = {pair: Verdict(1.0, 0) for pair in combinations(regrets, 2)}
    for before, n in pairwise([0, *planned]):
        if before >= seen:
            break
        waiting = [pair for pair, verdict in out.items() if not verdict.significant]
        tests = [_compare(regrets[a], regrets[b], n) for a, b in waiting]
        corrected = np.minimum(len(planned) * holm([test.p for test in tests]), 1.0)
        for pair, test, p in zip(waiting, tests, corrected, strict=True):
            out[pair] = min(out[pair], Verdict(float(p), test.side))
    return out


def ranking(regrets: Regrets, looks: Sequence[int] | None = None) -> list[Place]:
    """Rank agents by their median regret, smallest first; ``looks`` as in `verdicts`.

    >>> runs = {"a": {k: 1.0 + k for k in range(20)}, "b": {k: 2.0 + k for k in range(20)}}
    >>> for place in ranking(runs):
    ...     print(place.agent, place.first, place.last, place.p)
    a 1 1 None
    b 2 2 1.9073486328125e-06

    """
    names = sorted(regrets, key=lambda name: float(np.median(list(regrets[name].values()))))
    found = verdicts({name: regrets[name] for name in names}, looks)
    better = dict.fromkeys(names, 0)
    worse = dict.fromkeys(names, 0)
    for (a, b), verdict in found.items():
        if verdict.significant:
            low, high = (a, b) if verdict.side < 0 else (b, a)
            better[high] += 1
            worse[low] += 1
    return [
        Place(
            name,
            1 + better[name],
            len(names) - worse[name],
            found[names[0], name].p if name != names[0] else None,
        )
        for name in names
    ]


def _compare(one: Mapping[int, float], other: Mapping[int, float], most: int) -> Verdict:
    """The test of the differences of two agents, over those of the first seeds that both have."""
    shared = sorted(seed for seed in one.keys() & other.keys() if seed < most)
    a = np.array([one[seed] for seed in shared], float)
    b = np.array([other[seed] for seed in shared], float)
    same = np.abs(a - b) <= NOISE * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
    return signed_rank(np.where(same, 0.0, a - b))
