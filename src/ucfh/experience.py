"""What was seen of a world of which nothing was listed in advance: steps in, sparse counts out.

States are numbered in the order in which they are found; 0 is the end, where an episode that is
over stays and nothing is done any more. A state has its actions from the moment it is found. Steps
are grouped into stages (all in one, each alone, or practice and exam): a row (s, a) is counted once
in each stage. Only what was seen takes room:

    pair of (s, a)    k = first[s] + i                    where i numbers the actions of s
    row of (t, s, a)  k * P + stage[t]                    P stages: a row keeps its number for good
    entries of a row  the states that followed, ascending; each with how often it did and what was
                      paid then: the sum, the least and the most

A pair (stage, s) is found when an action is first taken there; its place in that order,
1, 2, ..., is known before anything is drawn in it. The start is place 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ucfh._support.arrays import Bools, Floats, Ints

END = 0
"""The number of the end."""
SHIFT = 32
"""Bits of an entry's key that hold the state which followed; those above hold the row."""


@dataclass(eq=False)
class Steps:
    """Steps in the order in which they were taken, (n,) each, and where episodes began.

    Attributes:
        t: the step within its episode, from 0.
        state, action, following: numbers of the state, of the action and of the next state.
        reward: what was paid, in [0, 1].
        starts: (k,) the first state of each episode.

    """

    t: Ints
    state: Ints
    action: Ints
    reward: Floats
    following: Ints
    starts: Ints

    def __len__(self) -> int:
        return len(self.t)


class Pairs(NamedTuple):
    """The pairs of all states: first (S+1,), action (R,), and number (S, A), -1 if there is none.

    Those of s are first[s] up to first[s + 1].
    """

    first: Ints
    action: Ints
    number: Ints


class Experience:
    """Counts of what was seen, of states that were found on the way.

    Args:
        horizon: H.
        actions: A, the largest number of actions of a state.
        stages: the first step of each stage after the first, ascending; () for one stage.

    Attributes:
        stage: (H,) the stage of each step. P: the number of stages.
        key, c: (entries,) row << 32 | next state, ascending, and how often that was seen.
        paid, least, most: (entries,) the sum of what was paid then, the least and the most.
        visits: (rows,) of each row, the start left out.
        last_new: (rows,) the number of visits when a next state was last seen for the first time.
        reached: (S, H) whether an action was taken in a state at a step.
        place: (S * P,) of each s * P + stage, in the order of finding; 0: not found yet.
        started: (S,) how often an episode began in each state.
        started_new: the number of episodes when one last began in a new state.
        found: how many pairs (stage, s) were found.

    """

    def __init__(self, horizon: int, actions: int, stages: Sequence[int] = ()) -> None:
        self.horizon, self.actions = horizon, actions
        self.stage = np.searchsorted(np.asarray(stages, np.int64), np.arange(horizon), "right")
        self.P = len(stages) + 1
        self._available: list[Bools | None] = [np.zeros(actions, bool)]  # None: all
        self._pairs: Pairs | None = None
        self.key, self.c = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.paid, self.least, self.most = np.zeros(0), np.zeros(0), np.zeros(0)
        self.visits, self.last_new = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.place, self.reached = np.zeros(self.P, np.int64), np.zeros((1, horizon), bool)
        self.found = 0
        self.started, self.started_new = np.zeros(1, np.int64), 0

    @property
    def states(self) -> int:
        """S, the end included."""
        return len(self._available)

    @property
    def episodes(self) -> int:
        """How many began."""
        return int(self.started.sum())

    def find(self, available: Bools | None = None) -> int:
        """Add a state with the actions that are available (A,), all of them by default."""
        self._available.append(available)
        self._pairs = None
        return len(self._available) - 1

    @property
    def pairs(self) -> Pairs:
        """The pairs of all states found so far."""
        if self._pairs is None:
            have = np.ones((self.states, self.actions), bool)
            for s, available in enumerate(self._available):
                if available is not None:
                    have[s] = available
            first = np.concatenate([[0], np.cumsum(have.sum(1))])
            number = np.where(have, np.cumsum(have.ravel()).reshape(have.shape) - 1, -1)
            self._pairs = Pairs(first, np.nonzero(have)[1], number)
        return self._pairs

    def available(self, s: int) -> Bools:
        """(A,) the actions of a state."""
        given = self._available[s]
        return np.ones(self.actions, bool) if given is None else given

    def rows_of(self, t: Ints, state: Ints, action: Ints) -> Ints:
        """(n,) the row of each of n steps."""
        return np.asarray(self.pairs.number[state, action] * self.P + self.stage[t], np.int64)

    def pair_of(self, row: int) -> tuple[int, int, int]:
        """(stage, s, a) of a row, with states numbered without the end; (0, -1, -1): the start."""
        if row == len(self.pairs.action) * self.P:
            return 0, -1, -1
        k, stage = divmod(row, self.P)
        s = int(np.searchsorted(self.pairs.first, k, "right")) - 1
        return stage, s - 1, int(self.pairs.action[k])

    def add(self, steps: Steps) -> None:
        """Count steps, in the order in which they were taken."""
        self.make_room()
        self._begin(steps.starts)
        if not len(steps):
            return
        row = self.rows_of(steps.t, steps.state, steps.action)
        self.reached[steps.state, steps.t] = True
        self._place(steps.state * self.P + self.stage[steps.t])
        order = np.argsort(row, kind="stable")  # of one row, in time
        begins = np.flatnonzero(np.diff(row[order], prepend=-1))
        nth = np.empty(len(row), np.int64)  # which visit of its row a step is
        nth[order] = np.arange(len(row)) - np.repeat(begins, np.diff([*begins, len(row)]))
        nth += self.visits[row] + 1

        key = row << SHIFT | steps.following
        order = np.argsort(key, kind="stable")
        begins = np.flatnonzero(np.diff(key[order], prepend=-1))
        keys, paid = key[order][begins], steps.reward[order]
        at = np.searchsorted(self.key, keys)
        new = self.key[np.minimum(at, len(self.key) - 1)] != keys if len(self.key) else at >= 0
        np.maximum.at(self.last_new, keys[new] >> SHIFT, nth[order][begins][new])
        self.key = np.insert(self.key, at[new], keys[new])
        self.c = np.insert(self.c, at[new], 0)
        self.paid = np.insert(self.paid, at[new], 0.0)
        self.least = np.insert(self.least, at[new], np.inf)
        self.most = np.insert(self.most, at[new], -np.inf)

        at = np.searchsorted(self.key, keys)
        self.c[at] += np.diff([*begins, len(row)])
        self.paid[at] += np.add.reduceat(paid, begins)
        self.least[at] = np.minimum(self.least[at], np.minimum.reduceat(paid, begins))
        self.most[at] = np.maximum(self.most[at], np.maximum.reduceat(paid, begins))
        self.visits += np.bincount(row, minlength=len(self.visits))

    def make_room(self) -> None:
        """Lengthen what has a place for each state or row: states may have been found."""
        rows = len(self.pairs.action) * self.P
        if len(self.started) == self.states:
            return
        self.visits = np.pad(self.visits, (0, rows - len(self.visits)))
        self.last_new = np.pad(self.last_new, (0, rows - len(self.last_new)))
        self.place = np.pad(self.place, (0, self.states * self.P - len(self.place)))
        new = self.states - len(self.started)
        self.started = np.pad(self.started, (0, new))
        self.reached = np.pad(self.reached, ((0, new), (0, 0)))

    def _place(self, where: Ints) -> None:
        """Give pairs s * P + stage (n,) their places, in the order in which they come up."""
        codes, first = np.unique(where, return_index=True)
        new = self.place[codes] == 0
        codes = codes[new][np.argsort(first[new])]
        self.place[codes] = self.found + 1 + np.arange(len(codes))
        self.found += len(codes)

    def _begin(self, starts: Ints) -> None:
        """Count episodes that began in states (k,)."""
        states, first = np.unique(starts, return_index=True)
        new = self.started[states] == 0
        if new.any():
            self.started_new = self.episodes + int(first[new].max()) + 1
        self.started += np.bincount(starts, minlength=len(self.started))

    def state(self) -> dict[str, Ints | Floats]:
        """Copies of the arrays by name, to be stored."""
        out = {name: getattr(self, name).copy() for name in ARRAYS}
        have = np.array([self.available(s) for s in range(self.states)])
        return {**out, "discoveries": np.array([self.found, self.started_new]), "available": have}

    def restore(self, arrays: dict[str, Ints | Floats]) -> None:
        """Restore what `state` returned."""
        for name in ARRAYS:
            setattr(self, name, arrays[name].copy())
        self.found, self.started_new = (int(x) for x in arrays["discoveries"])
        have = arrays["available"].astype(bool)
        self._available = [None if mask.all() else mask for mask in have]
        self._pairs = None


ARRAYS = ("key", "c", "paid", "least", "most", "visits", "last_new", "place", "reached", "started")
"""The arrays of an `Experience` that are stored."""
