"""Binning of numbers that are parts of states.

The choice of bins must not depend on outcomes that are counted: edges are declared beforehand, or
are quantiles of held-out first episodes. Edges chosen after a look at all rows void the bounds.

A bin hides the position of a number in it. To test whether the position matters, the audit gets the
half of the bin: below or above a split, fixed before the step whose outcome is predicted. The split
is the midpoint of a bin with two declared edges, the median of its held-out numbers, or the median
of its first `MOST_SPLIT` numbers (before that, all numbers are in the lower half).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.exceptions import InputError
from ucfh.logs.settings import Quantiles

MOST_SPLIT = 100
"""The number of values in a bin after which it is split at their median."""


class Bins:
    """The bins of one column.

    Args:
        column: the name of the column, for labels.
        edges: (k,) ascending.
        held_out: (m,) numbers of the episodes that are not counted, or None.

    Attributes:
        labels: the k + 1 labels: "score<40", "40<=score<70", "score>=70".

    """

    def __init__(
        self, column: str, edges: tuple[float, ...], held_out: Floats | None = None
    ) -> None:
        self.edges: Floats = np.array(edges)
        low, high = _text(edges[0]), _text(edges[-1])
        inner = [f"{_text(a)}<={column}<{_text(b)}" for a, b in pairwise(edges)]
        self.labels = [f"{column}<{low}", *inner, f"{column}>={high}"]
        self._split: Floats = np.full(len(self.labels), np.inf)
        self._split[1:-1] = (self.edges[1:] + self.edges[:-1]) / 2
        self._seen: list[list[float]] = [[] for _ in self.labels]
        if held_out is not None:
            places = self.of(held_out)
            for i in range(len(self.labels)):
                here = held_out[places == i]
                self._split[i] = np.median(here) if here.size else np.inf

    def of(self, numbers: Floats) -> Ints:
        """Return the bins (n,) of n numbers."""
        return np.searchsorted(self.edges, numbers, "right")

    def halves(self, numbers: Floats, places: Ints) -> Ints:
        """Return (n,) 1 for numbers in the upper halves of their bins (n,), in log order."""
        out = (numbers >= self._split[places]).astype(np.int64)
        for i in np.flatnonzero(np.isinf(self._split)):
            here = np.flatnonzero(places == i)
            seen, room = self._seen[i], MOST_SPLIT - len(self._seen[i])
            seen += numbers[here[:room]].tolist()
            if len(seen) == MOST_SPLIT:
                self._split[i] = np.median(seen)
                out[here[room:]] = numbers[here[room:]] >= self._split[i]
        return out


def quantile_bins(column: str, name: str, cut: Quantiles, numbers: Floats) -> Bins:
    """Return bins with about equally many of the numbers (n,); ``name`` is used in labels."""
    shares, different = np.arange(1, cut.number) / cut.number, np.unique(numbers)
    if len(different) < 2:
        raise InputError(
            f"bins: {column!r} has no two different numbers in the first {cut.episodes} episodes: "
            "declare edges, or more episodes"
        )
    edges = np.quantile(numbers, shares, method="higher").clip(different[1])  # none is empty
    return Bins(name, tuple(np.unique(edges).tolist()), numbers)


def _text(edge: Any) -> str:
    """Format an edge as short as possible."""
    short = f"{edge:g}"
    return short if float(short) == edge else repr(float(edge))
