"""Agents that try a change every m visits to a row, and make it only if it helps.

Delayed Q-learning and MoRMax were made for discounted rewards, and are adapted to fixed horizons by
making the step t part of the state: rows, counts and values are those of (t, s, a), S H stands for
S, H for 1/(1-gamma) and the largest value, 1 for gamma, and Q_t = H-t+1 at first. A row is visited
at most once an episode, and what is learned at t changes only what is done at t or before: that
policies are kept until the end of an episode makes no difference.

Between attempts everything is constant, and sums over visits follow from counts: both run in bulk.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.algorithms.phased import Threshold
from ucfh.counts import NEVER, Counts


class DelayedUpdate(Threshold):
    """An agent that tries to change a row every m visits to it."""

    by_segment = True

    @abstractmethod
    def collecting(self) -> Bools:
        """(rows - 1,) whose samples are collected."""

    def collect(self, seen: Counts) -> None:
        """Look at samples of rows that are collected, before they are added to v."""

    @abstractmethod
    def attempt(self, row: int) -> bool:
        """Try to change a row that has m samples in v, and drop these; whether it was changed."""

    def room(self) -> Ints:
        """A row is due when m samples are collected."""
        return np.where(self.collecting(), self.m - self.v.visits[:-1], NEVER)

    def observe(self, seen: Counts) -> bool:
        """Collect; attempt what is due, in the order of time."""
        keep = np.append(self.collecting(), False)
        seen.visits[~keep] = 0
        seen.successors[~keep[self.problem.table.row_of_entry]] = 0
        self.collect(seen)
        self.v.add(seen)
        changed = [row for row in np.flatnonzero(self.room() <= 0) if self.attempt(int(row))]
        if not changed:
            return False
        self.updated = int(changed[0])
        self.plan()
        return True
