"""Exact, distribution-free medians and rankings from few runs per agent.

- Confidence interval of a median: order statistics x_(k) and x_(n+1-k) contain it unless fewer
  than k of n fair coins fall on one side, whose probability is a binomial sum.
- Comparison of two agents, paired by seed: Wilcoxon's signed-rank test of their differences, with
  the exact distribution over all signs, ties and zeros included. The null hypothesis is symmetry
  about 0, which holds for exchangeable agents. Skewed differences may be significant even for
  agents with the same median or mean.
- Ranking: the best agent is selected from the same data, so the family of tests is that of all
  pairs; with Holm's correction, the probability of any false claim is below 5%.
- Sequential analysis with looks after n_1 < ... < n_K seeds, stopping when all is decided: each
  look gets an equal share of the 5%. Its p-values are those of the undecided pairs, corrected by
  Holm, times K. Proof that the probability of any false claim stays below alpha = 5%: Let T be
  the pairs that do not differ. Until one of T is claimed, all of T are undecided, and their agents
  have run with all n_k seeds. So the first false claim, at look k, needs a pair of T whose exact
  p-value of n_k seeds is at most alpha/(K |T|), as Holm's factor is at least |T|; this has
  probability at most alpha/K, and there are K looks.
  AdaStop (Mathieu et al. 2023; its code was read) has the same design for unpaired runs: it
  compares means, with limits from random permutations of the runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations, count, pairwise
from math import comb
from typing import NamedTuple

import numpy as np

from ucfh._utils.arrays import Floats

LEVEL = 0.95
"""The coverage of intervals; 1 - LEVEL: the probability of any false claim in a ranking."""

NOISE = 1e-9
"""Relative difference of regrets up to which they are equal."""


class Interval(NamedTuple):
    """A median, with bounds that contain the true one with probability ``coverage``."""

    median: float
    low: float
    high: float
    coverage: float


def median_interval(values: Sequence[float] | Floats) -> Interval:
    """Return the median of n values, with the narrowest interval of coverage `LEVEL`.

    Fewer than six values cannot reach `LEVEL`: then the interval is their range, with the
    ``coverage`` of that.

    >>> median_interval([5.0, 1.0, 4.0, 2.0, 3.0, 6.0])
    Interval(median=3.5, low=1.0, high=6.0, coverage=0.96875)
    >>> median_interval([1.0, 2.0, 9.0]).coverage
    0.75

    """
    x = np.sort(np.asarray(values, float))
    n = len(x)
    k, ways = 0, 1  # ways in which fewer than k + 1 of n fair coins fall on one side
    while 2 * (more := ways + comb(n, k + 1)) / 2**n <= 1 - LEVEL:
        k, ways = k + 1, more
    return Interval(float(np.median(x)), float(x[k]), float(x[n - 1 - k]), 1 - 2 * ways / 2**n)


class Verdict(NamedTuple):
    """A two-sided p-value, and the sign of the difference: -1, 0 or 1."""

    p: float
    side: int

    @property
    def significant(self) -> bool:
        """True if the difference is significant, for a p-value corrected for all tests."""
        return self.p <= 1 - LEVEL


def signed_rank(differences: Sequence[float] | Floats) -> Verdict:
    """Return Wilcoxon's signed-rank test of symmetry about 0.

    Zeros are dropped and equal sizes share their mean rank; given the sizes, the null
    distribution, of fair and independent signs, is exact.

    >>> signed_rank([3.0, 1.0, 4.0, 1.5, 9.0, 2.0])
    Verdict(p=0.03125, side=1)
    >>> signed_rank([1.0, -1.0, 0.0])
    Verdict(p=1.0, side=0)

    """
    d = np.asarray(differences, float)
    d = d[d != 0]
    sizes, which, times = np.unique(np.abs(d), return_inverse=True, return_counts=True)
    del sizes
    # twice the mean rank of each size is an integer
    ranks = (2 * np.cumsum(times) - times + 1)[which]
    total, above = int(ranks.sum()), int(ranks[d > 0].sum())
    rarer = min(above, total - above)
    pmf = np.zeros(rarer + 1)  # P(ranks of positive signs sum to k), for k <= rarer
    pmf[0] = 1.0
    for rank in ranks:
        shifted = np.zeros_like(pmf)
        shifted[rank:] = pmf[: max(0, len(pmf) - rank)]
        pmf = (pmf + shifted) / 2
    return Verdict(min(1.0, 2 * float(pmf.sum())), int(np.sign(2 * above - total)))


def holm(p: Sequence[float] | Floats) -> Floats:
    """Return p-values (m,) with Holm's correction for the family-wise error rate.

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
    """Return the least number of seeds with which agents can differ significantly.

    >>> seeds_needed(2), seeds_needed(12)
    (6, 12)

    """
    return next(n for n in count(1) if comb(agents, 2) * 2.0 ** (1 - n) <= 1 - LEVEL)


class Place(NamedTuple):
    """The place of an agent in a ranking.

    Attributes:
        agent: its name.
        first, last: the range of its rank, by the numbers of significantly better and worse
            agents.
        p: the corrected p-value of its difference from the best; None for the best itself.

    """

    agent: str
    first: int
    last: int
    p: float | None


def looks_of(seeds: int, agents: int) -> list[int]:
    """Return the numbers of seeds of the looks: ``seeds``, halved repeatedly.

    At the first look differences of all pairs can be significant. A single agent has one look.

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
"""Regrets by agent and seed; seeds are numbered from 0."""

Pair = tuple[str, str]
"""Two agents."""


def verdicts(regrets: Regrets, looks: Sequence[int] | None = None) -> dict[Pair, Verdict]:
    """Test the difference of each pair of agents, with corrected p-values.

    Args:
        regrets: the regrets.
        looks: the numbers of seeds of the looks; None: one look, after all. A look without new
            seeds is skipped, and a significant pair is not tested again.

    """
    seen = 1 + max((seed for runs in regrets.values() for seed in runs), default=0)
    planned = [seen] if looks is None else looks
    out = {pair: Verdict(1.0, 0) for pair in combinations(regrets, 2)}
    for before, n in pairwise([0, *planned]):
        if before >= seen:
            break
        undecided = [pair for pair, verdict in out.items() if not verdict.significant]
        tests = [_compare(regrets[a], regrets[b], n) for a, b in undecided]
        corrected = np.minimum(len(planned) * holm([test.p for test in tests]), 1.0)
        for pair, test, p in zip(undecided, tests, corrected, strict=True):
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
    tests = verdicts({name: regrets[name] for name in names}, looks)
    better = dict.fromkeys(names, 0)
    worse = dict.fromkeys(names, 0)
    for (a, b), verdict in tests.items():
        if verdict.significant:
            low, high = (a, b) if verdict.side < 0 else (b, a)
            better[high] += 1
            worse[low] += 1
    return [
        Place(
            name,
            1 + better[name],
            len(names) - worse[name],
            tests[names[0], name].p if name != names[0] else None,
        )
        for name in names
    ]


def _compare(one: Mapping[int, float], other: Mapping[int, float], most: int) -> Verdict:
    """Test the differences of two agents over their common seeds below ``most``."""
    shared = sorted(seed for seed in one.keys() & other.keys() if seed < most)
    a = np.array([one[seed] for seed in shared], float)
    b = np.array([other[seed] for seed in shared], float)
    same = np.abs(a - b) <= NOISE * np.maximum(1.0, np.maximum(np.abs(a), np.abs(b)))
    return signed_rank(np.where(same, 0.0, a - b))
