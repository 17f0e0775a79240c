"""Draws, and how they are held against a law."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import numpy as np
import numpy.typing as npt
from hypothesis import settings
from scipy import stats

Counts = npt.NDArray[np.int64]


Floats = npt.NDArray[np.float64]


LARGEST = 9 * 10**18


THRESHOLD = 1e-4


DRAWS = 200_000


fixed = settings(derandomize=True, deadline=None, max_examples=200)


def draw(fill: Callable[..., None], *args: object, shape: int | tuple[int, int] = DRAWS) -> Counts:
    out = np.empty(shape, dtype=np.int64)
    fill(np.random.default_rng(20150607), *args, out)
    return out


def chi_square(observed: Floats | Counts, expected: Floats) -> float:
    """Return the p-value, with adjacent cells merged until 10 draws are expected in each."""
    cells = [[0.0, 0.0]]
    for o, e in zip(observed, expected, strict=True):
        cells[-1][0] += o
        cells[-1][1] += e
        if cells[-1][1] >= 10.0:
            cells.append([0.0, 0.0])
    rest = cells.pop()
    cells[-1][0] += rest[0]
    cells[-1][1] += rest[1]
    o, e = np.array(cells).T
    return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(cells) - 1))


def mass_p_value(values: Counts, pmf: Callable[[Counts], Floats], support: Counts) -> float:
    """Compare with a mass function given on a range of integers that misses at most 1e-9."""
    assert support[0] <= values.min()
    assert values.max() <= support[-1]
    expected = pmf(support) * values.size
    assert abs(expected.sum() / values.size - 1.0) < 1e-9
    return chi_square(np.bincount(values - support[0], minlength=support.size), expected)


def central_moments(factorial: Sequence[Fraction]) -> tuple[Fraction, list[Fraction]]:
    """Return the mean and the central moments 0..6, from the factorial ones, E[X (X - 1) ...]."""
    second_kind = [[Fraction(int(i == j == 0)) for j in range(7)] for i in range(7)]
    for i, j in product(range(1, 7), range(1, 7)):
        second_kind[i][j] = j * second_kind[i - 1][j] + second_kind[i - 1][j - 1]
    raw = [sum((second_kind[r][j] * factorial[j] for j in range(7)), Fraction(0)) for r in range(7)]
    central = [
        sum((math.comb(r, j) * raw[j] * (-raw[1]) ** (r - j) for j in range(r + 1)), Fraction(0))
        for r in range(7)
    ]
    return raw[1], central


def falling(x: int, r: int) -> int:
    return math.prod(x - i for i in range(r))


def binomial_moments(n: int, p: float) -> tuple[Fraction, list[Fraction]]:
    return central_moments([falling(n, r) * Fraction(p) ** r for r in range(7)])


def hypergeometric_moments(g: int, b: int, s: int) -> tuple[Fraction, list[Fraction]]:
    return central_moments(
        [Fraction(falling(g, r) * falling(s, r), falling(g + b, r)) for r in range(7)]
    )


def check_moments(
    values: Counts | npt.NDArray[np.object_], moments: tuple[Fraction, list[Fraction]]
) -> None:
    """Check mean, variance and third central moment against 5 exact standard errors.

    The powers are taken of offsets from the nearest integer to the mean, subtracted as integers.
    """
    mean, mu = moments
    center = round(mean)
    offsets = (values - center).astype(float) - float(mean - center)
    for r in (1, 2, 3):
        error = math.sqrt((mu[2 * r] - mu[r] ** 2) / offsets.size)
        assert abs(np.mean(offsets**r) - float(mu[r])) < 5.0 * error, r


def offsets(rng: np.random.Generator, sd: float, low: int, high: int) -> list[int]:
    """Return offsets of up to 10 standard deviations, and those next to zero."""
    some = [-1, 1, 2, *(int(z * sd) for z in rng.uniform(-10.0, 10.0, 8))]
    return [k for k in some if low <= k <= high]
