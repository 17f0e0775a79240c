"""Counts: the one currency between the world and a learner.

A simulator, a live environment and a log all produce counts over the learner's table, and a
learner never knows which of them did.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from ucfh.problem import Problem
from ucfh.table import Floats, Ints, Table


@dataclass(eq=False)
class Counts:
    """How often each row was visited, and what followed.

    Attributes:
        visits: (rows,) n(s, a), or n(t, s, a) where rows have stages; the last is the start.
        successors: (entries,) n(s, a, s').
        rewards: (rows,) the sum of the rewards seen in each row; zero where they are known.
        scores: (k,) what single episodes scored, for a learner that asked (see
            `ucfh.agents.base.Watch`).
        steps: (k, H) the entries of k episodes, step by step, for a learner that asked.

    """

    visits: Ints
    successors: Ints
    rewards: Floats
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    steps: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    @classmethod
    def zero(cls, problem: Problem) -> Counts:
        """No visits yet."""
        table = problem.table
        return cls(
            np.zeros(table.rows, np.int64),
            np.zeros(table.entries, np.int64),
            np.zeros(table.rows),
        )

    def add(self, other: Counts) -> None:
        """Add another's counts to these."""
        self.visits += other.visits
        self.successors += other.successors
        self.rewards += other.rewards
        self.scores = np.concatenate([self.scores, other.scores])

    def move_row(self, row: int, table: Table, to: Counts) -> None:
        """Add one row's counts to another's, and forget them here."""
        entries = table.entries_of(row)
        to.visits[row] += self.visits[row]
        to.successors[entries] += self.successors[entries]
        to.rewards[row] += self.rewards[row]
        self.visits[row] = 0
        self.successors[entries] = 0
        self.rewards[row] = 0.0

    def state(self, prefix: str) -> dict[str, Ints | Floats]:
        """Copies of the arrays by name, to be stored."""
        return {
            f"{prefix}_visits": self.visits.copy(),
            f"{prefix}_successors": self.successors.copy(),
            f"{prefix}_rewards": self.rewards.copy(),
        }

    def restore(self, prefix: str, arrays: dict[str, Ints | Floats]) -> None:
        """Take back what `state` gave."""
        self.visits[:] = arrays[f"{prefix}_visits"]
        self.successors[:] = arrays[f"{prefix}_successors"]
        self.rewards[:] = arrays[f"{prefix}_rewards"]
