"""Rewards as labels.

The first `MOST_VALUES` rewards that differ are labels as they are, and later ones fall between
eighths of these: such a label means the same from then on (docs/theory/audit.md, Proposition 69).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ucfh._utils.arrays import Floats, Ints

MOST_VALUES = 32
"""How many rewards are labels of their own."""
PARTS = 8
"""The number of intervals for all others."""


class RewardCodes:
    """Rewards as labels: those that were met first as they are, all others by intervals."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.edges: Floats = np.zeros(0)

    def of(self, rewards: Floats) -> Ints:
        """(n,) the labels of rewards (n,); -1 where there is none."""
        codes = np.full(len(rewards), -1, np.int64)
        self._match(rewards, codes)
        while len(self.values) < MOST_VALUES and len(left := self._unmatched(rewards, codes)):
            self.values.append(float(rewards[left[0]]))
            codes[rewards == self.values[-1]] = len(self.values) - 1
        left = self._unmatched(rewards, codes)
        if len(left):
            if not len(self.edges):
                inside = np.arange(1, PARTS) / PARTS
                self.edges = np.unique(np.quantile(self.values, inside))
            codes[left] = MOST_VALUES + np.searchsorted(self.edges, rewards[left], "right")
        return codes

    def _match(self, rewards: Floats, codes: Ints) -> None:
        if self.values:
            order = np.argsort(self.values)
            known = np.asarray(self.values)[order]
            at = np.searchsorted(known, rewards).clip(0, len(known) - 1)
            codes[:] = np.where(known[at] == rewards, order[at], -1)

    @staticmethod
    def _unmatched(rewards: Floats, codes: Ints) -> Ints:
        return np.flatnonzero((codes < 0) & ~np.isnan(rewards))

    def name(self, code: int) -> str:
        """What a label stands for: "0.5" or "0.5 to 0.75"."""
        if code < MOST_VALUES:
            return f"{self.values[code]:.4g}"
        limits = [f"{x:.4g}" for x in self.edges]
        names = [f"less than {limits[0]}"]
        names += [f"{low} to {high}" for low, high in pairwise(limits)]
        return [*names, f"{limits[-1]} or more"][code - MOST_VALUES]
