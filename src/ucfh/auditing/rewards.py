"""Labels of rewards.

Each of the first `MAX_VALUES` distinct rewards has its own label, and later ones are binned at the
eighths of these values: the meaning of a label never changes (docs/theory/audit.md, Proposition
69).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from ucfh._utils.arrays import Floats, Ints

MAX_VALUES = 32
"""The number of rewards with labels of their own."""
PARTS = 8
"""The number of intervals for all other rewards."""


class RewardCodes:
    """Labels of rewards: one for each of the first distinct values, then one for each interval."""

    def __init__(self) -> None:
        self.values: list[float] = []
        self.edges: Floats = np.zeros(0)

    def of(self, rewards: Floats) -> Ints:
        """Return (n,) the labels of rewards (n,); -1 for nan."""
        codes = np.full(len(rewards), -1, np.int64)
        self._match(rewards, codes)
        while len(self.values) < MAX_VALUES and len(left := self._unmatched(rewards, codes)):
            self.values.append(float(rewards[left[0]]))
            codes[rewards == self.values[-1]] = len(self.values) - 1
        left = self._unmatched(rewards, codes)
        if len(left):
            if not len(self.edges):
                inside = np.arange(1, PARTS) / PARTS
                self.edges = np.unique(np.quantile(self.values, inside))
            codes[left] = MAX_VALUES + np.searchsorted(self.edges, rewards[left], "right")
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
        """Return the reward or interval of a label: "0.5" or "0.5 to 0.75"."""
        if code < MAX_VALUES:
            return f"{self.values[code]:.4g}"
        limits = [f"{x:.4g}" for x in self.edges]
        names = [f"less than {limits[0]}"]
        names += [f"{low} to {high}" for low, high in pairwise(limits)]
        return [*names, f"{limits[-1]} or more"][code - MAX_VALUES]
