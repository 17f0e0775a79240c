"""Agents that attempt an update of a pair every m visits, and keep it only if it lowers the value.

Delayed Q-learning and MoRMax are for discounted rewards, and are adapted to fixed horizons by
making the step t part of the state: counts and values are those of triples (t, s, a), S H stands
for S, H for 1/(1-gamma) and the largest value, 1 for gamma, and Q_t = H-t+1 at first. A triple is
visited at most once per episode, and an update at t changes the policy only at t or before, so
keeping the policy until the end of an episode makes no difference.

Between attempts the policy is constant, and sums over visits follow from counts: both run in
bulk.
"""

from __future__ import annotations

from abc import abstractmethod

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.algorithms.phased import Threshold
from ucfh.counts import NEVER, Counts


class DelayedUpdate(Threshold):
    """An agent that attempts an update of a triple every m visits to it."""

    by_segment = True

    @abstractmethod
    def collecting(self) -> Bools:
        """Return the mask (rows - 1,) of triples whose samples are collected."""

    def collect(self, seen: Counts) -> None:
        """Process the collected samples before they are added to v."""

    @abstractmethod
    def attempt(self, row: int) -> bool:
        """Attempt an update from the m samples in v, and drop them; return whether it succeeded."""

    def visits_left(self) -> Ints:
        """Return the visits until m samples are collected."""
        return np.where(self.collecting(), self.m - self.v.visits[:-1], NEVER)

    def observe(self, seen: Counts) -> bool:
        """Collect; attempt the updates that are due, in the order of steps."""
        keep = np.append(self.collecting(), False)
        seen.visits[~keep] = 0
        seen.successors[~keep[self.problem.table.row_of_entry]] = 0
        self.collect(seen)
        self.v.add(seen)
        changed = [row for row in np.flatnonzero(self.visits_left() <= 0) if self.attempt(int(row))]
        if not changed:
            return False
        self.updated = int(changed[0])
        self.plan()
        return True
