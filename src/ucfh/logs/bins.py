"""Numbers cut into bins, which are parts of states.

Bins may be chosen by anything but the outcomes that are then counted: edges that somebody declares
beforehand, or quantiles of a first part of the log, which is not counted. Edges chosen after a look
at all rows are chosen by outcome, and void the bounds.

A bin hides where in it a number lies. To test whether that matters, the audit gets the half of it:
below or above a split. Any split will do that is fixed before the step whose outcome is predicted:
the midpoint of a bin with two declared edges, the median of its numbers in the first part, or of
the first `MOST_SPLIT` numbers met in it (until then all are in the lower half).
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.exceptions import InputError
from ucfh.logs.settings import Quantiles

MOST_SPLIT = 100
"""How many numbers of a bin are met before it is split at their median."""


class Bins:
    """The bins of one column.

    Args:
        column: its name, for labels.
        edges: k of them, ascending.
        shown: numbers (m,) of a first part of the log that is not counted, if there is one.

    Attributes:
        labels: of the k + 1 bins: "score<40", "40<=score<70", "score>=70".

    """

    def __init__(self, column: str, edges: tuple[float, ...], shown: Floats | None = None) -> None:
        self.edges: Floats = np.array(edges)
        low, high = _text(edges[0]), _text(edges[-1])
        inner = [f"{_text(a)}<={column}<{_text(b)}" for a, b in pairwise(edges)]
        self.labels = [f"{column}<{low}", *inner, f"{column}>={high}"]
        self._split: Floats = np.full(len(self.labels), np.inf)
        self._split[1:-1] = (self.edges[1:] + self.edges[:-1]) / 2
        self._met: list[list[float]] = [[] for _ in self.labels]
        if shown is not None:
            places = self.of(shown)
            for i in range(len(self.labels)):
                self._split[i] = np.median(shown[places == i]) if (places == i).any() else np.inf

    def of(self, numbers: Floats) -> Ints:
        """(n,) the bin of each of n numbers."""
        return np.searchsorted(self.edges, numbers, "right")

    def halves(self, numbers: Floats, places: Ints) -> Ints:
        """(n,) 1 where a number lies in the upper half of its bin (n,), in the order of the log."""
        out = (numbers >= self._split[places]).astype(np.int64)
        for i in np.flatnonzero(np.isinf(self._split)):
            here = np.flatnonzero(places == i)
            met, room = self._met[i], MOST_SPLIT - len(self._met[i])
            met += numbers[here[:room]].tolist()
            if len(met) == MOST_SPLIT:
                self._split[i] = np.median(met)
                out[here[room:]] = numbers[here[room:]] >= self._split[i]
        return out


def quantile_bins(column: str, name: str, cut: Quantiles, numbers: Floats) -> Bins:
    """Bins with about equally many of some numbers (n,) in each; ``name``: of labels."""
    shares, different = np.arange(1, cut.number) / cut.number, np.unique(numbers)
    if len(different) < 2:
        raise InputError(
            f"bins: {column!r} has no two different numbers in the first {cut.episodes} episodes: "
            "declare edges, or more episodes"
        )
    edges = np.quantile(numbers, shares, method="higher").clip(different[1])  # none is empty
    return Bins(name, tuple(np.unique(edges).tolist()), numbers)


def _text(edge: Any) -> str:
    """An edge, as short as it can be written."""
    short = f"{edge:g}"
    return short if float(short) == edge else repr(float(edge))
