"""Counts by step against a slow sum of the formula, and its mean over all that can happen."""

from __future__ import annotations

from itertools import product
from math import exp, lgamma, log, pi, prod
from typing import Any

import numpy as np
import pytest

import ucfh
from ucfh.auditing.segments import report_of_counts
from ucfh.counts import counts_of


def ln_kt(a: int, b: int) -> float:
    return lgamma(a + 0.5) + lgamma(b + 0.5) - log(pi) - lgamma(a + b + 1)


def slow_e(counts: Any) -> float:
    """The mean over pairs and successors of E; counts (H, S, A, S)."""
    H, S, A, _ = counts.shape
    total = 0.0
    for s, a, after in product(range(S), range(A), range(S)):
        ln = 0.0
        c, n = (
            sum(int(x[t, s, a]) for t in range(H)) for x in (counts[..., after], counts.sum(-1))
        )
        for t in range(H):
            c_t, n_t = int(counts[t, s, a, after]), int(counts[t, s, a].sum())
            ln += ln_kt(c_t, n_t - c_t)
        ln -= sum(k * log(k / n) for k in (c, n - c) if k)
        total += exp(ln) / (S * A * S)
    return total


def task(H: int, S: int, A: int) -> ucfh.Problem:
    return ucfh.Problem(S, A, H, rewards=np.zeros((S, A)), time_dependent=True)


@pytest.mark.parametrize("seed", range(20))
def test_counts_by_step(seed: int) -> None:
    """Clean ones and others; some steps and pairs without counts."""
    rng = np.random.default_rng(seed)
    H, S, A = (int(x) for x in rng.integers(2, 5, 3))
    p = rng.dirichlet(np.ones(S), (1 if seed % 2 else H, S, A))
    n = rng.integers(0, 30, (H, S, A)) * (rng.random((H, S, A)) < 0.8)
    counts = rng.multinomial(n, np.broadcast_to(p, (H, S, A, S)))
    problem = task(H, S, A)
    report = report_of_counts(counts_of(counts, problem), problem, 0.01)
    e = slow_e(counts)
    assert report.e_values["next state by step"] == pytest.approx(max(1, e), rel=1e-9)
    assert [x.name for x in report.findings] == ["step"] * (e >= 100)


def test_the_expected_evidence_of_counts_is_at_most_one() -> None:
    """Seven draws of one pair, of which somebody who knows all before chooses the step."""
    depth, p = 7, (0.3, 0.7)

    def mean(played: tuple[tuple[int, int], ...]) -> tuple[float, float, float]:
        """By whoever stops for the largest E; and of the martingale: the least, the largest."""
        counts = np.zeros((2, 1, 1, 2), int)
        for t, x in played:
            counts[t, 0, 0, x] += 1
        e = slow_e(np.pad(counts, ((0, 0), (0, 1), (0, 0), (0, 0)))) * 2 - 1  # the other state: 1
        kt = exp(sum(ln_kt(*counts[t, 0, 0].tolist()) for t in (0, 1)))
        m = kt / prod(p[x] for _, x in played)
        assert e <= m + 1e-9
        if len(played) == depth:
            return e, m, m
        ways = [
            np.sum([np.multiply(p[x], mean((*played, (t, x)))) for x in (0, 1)], axis=0)
            for t in (0, 1)
        ]
        stopped, least, largest = zip(*ways, strict=True)
        return max(e, *stopped), min(least), max(largest)

    assert mean(()) == pytest.approx((1, 1, 1), abs=1e-9)
