"""Sparse transition counts of an unknown state space.

States are numbered in the order of discovery; 0 is the end, an absorbing state without actions. A
state has its actions from its discovery on. Steps are grouped into segments (all in one, each
alone, or any division in between): a row (s, a) is counted once in each segment. Only observed
transitions take memory:

    pair of (s, a)    k = first[s] + i              where i numbers the actions of s
    row of (t, s, a)  k * P + segment[t]            P segments: the number of a row never changes
    entries of a row  observed next states, ascending; each with its count, and the sum, the least
                      and the most of its rewards

A pair (segment, s) is discovered when an action is first taken there; its place in that order,
1, 2, ..., is known before anything is drawn in it. The start is place 0.

An outcome may be missing: the action was taken, and its outcome is never observed. It is counted
separately, with its reward if that is known; see Proposition 67 of `docs/theory/open.md`.

With concurrent episodes, outcomes are delayed, and steps are counted in the order of their
decisions, row by row; `ahead` then holds all observed outcomes (`docs/theory/flight.md`).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ucfh._utils.arrays import Bools, Floats, Ints

END = 0
"""The number of the end."""
LOST = -1
"""The next state of a missing outcome."""
SHIFT = 32
"""The number of bits of an entry's key for the next state; the bits above hold the row."""


@dataclass(eq=False)
class Steps:
    """Steps in temporal order, (n,) each, and first states of episodes.

    Attributes:
        t: the step within the episode, from 0.
        state, action, following: numbers of the state, the action and the next state; `LOST` if
            the outcome is missing.
        reward: the reward, in [0, 1]; nan if it is missing.
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


class PairIndex(NamedTuple):
    """The pairs of all states: first (S+1,), action (R,), and number (S, A), -1 if there is none.

    The pairs of s are first[s] to first[s + 1] - 1.
    """

    first: Ints
    action: Ints
    number: Ints


class SparseCounts:
    """Sparse counts of transitions, with states added on discovery.

    Args:
        horizon: H.
        actions: A, the largest number of actions of a state.
        segments: the first step of each segment after the first, ascending; () for one segment.

    Attributes:
        segment: (H,) the segment of each step. P: the number of segments.
        key, c: (entries,) row << 32 | next state, ascending, and its count.
        paid, least, most: (entries,) the sum, the least and the most of its rewards.
        visits: (rows,) the number of observed outcomes of each row, without the start.
        last_new: (rows,) the number of visits when a new next state was last observed.
        lost: (rows,) the number of missing outcomes.
        last_lost: (rows,) the number of visits at the last missing outcome.
        lost_unpaid: (rows,) the number of missing outcomes with unknown rewards.
        lost_paid, lost_least, lost_most: (rows,) the sum, the least and the most of the known
            rewards of missing outcomes; 1 and 0 if there are none.
        reached: (S, H) True where an action was taken in the state at the step.
        place: (S * P,) the place of s * P + segment in the order of discovery; 0: undiscovered.
        started: (S,) the number of episodes that began in each state.
        started_new: the number of episodes when one last began in a new state.
        found: the number of discovered pairs (segment, s).
        closed: True if all states are known: bounds may then value unobserved next states by the
            values of these states. No state can be added from then on.
        ahead: the same counts with, in each row, also the decisions after a pending outcome;
            pending outcomes are missing there. None if no outcome is pending.

    """

    def __init__(self, horizon: int, actions: int, segments: Sequence[int] = ()) -> None:
        self.horizon, self.actions = horizon, actions
        self.segment = np.searchsorted(np.asarray(segments, np.int64), np.arange(horizon), "right")
        self.P = len(segments) + 1
        self._available: list[Bools | None] = [np.zeros(actions, bool)]  # None: all
        self._pairs: PairIndex | None = None
        self.key, self.c = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self.paid, self.least, self.most = np.zeros(0), np.zeros(0), np.zeros(0)
        self.visits, self.last_new = np.zeros(0, np.int64), np.zeros(0, np.int64)
        self._clear_missing()
        self.place, self.reached = np.zeros(self.P, np.int64), np.zeros((1, horizon), bool)
        self.found, self.closed = 0, False
        self.ahead: SparseCounts | None = None
        self.started, self.started_new = np.zeros(1, np.int64), 0

    @property
    def states(self) -> int:
        """S, the end included."""
        return len(self._available)

    @property
    def episodes(self) -> int:
        """The number of episodes that began."""
        return int(self.started.sum())

    def find(self, available: Bools | None = None) -> int:
        """Add a state with available actions (A,), by default all, and return its number."""
        if self.closed:
            raise ValueError("the state space is closed: bounds assume that no state is added")
        self._available.append(available)
        self._pairs = None
        return len(self._available) - 1

    @property
    def pairs(self) -> PairIndex:
        """The pairs of all known states."""
        if self._pairs is None:
            have = np.ones((self.states, self.actions), bool)
            for s, available in enumerate(self._available):
                if available is not None:
                    have[s] = available
            first = np.concatenate([[0], np.cumsum(have.sum(1))])
            number = np.where(have, np.cumsum(have.ravel()).reshape(have.shape) - 1, -1)
            self._pairs = PairIndex(first, np.nonzero(have)[1].copy(), number)
        return self._pairs

    def available(self, s: int) -> Bools:
        """Return (A,) True for the actions of a state."""
        given = self._available[s]
        return np.ones(self.actions, bool) if given is None else given

    def rows_of(self, t: Ints, state: Ints, action: Ints) -> Ints:
        """Return (n,) the row of each of n steps."""
        return np.asarray(self.pairs.number[state, action] * self.P + self.segment[t], np.int64)

    def pair_of(self, row: int) -> tuple[int, int, int]:
        """Return (segment, s, a) of a row, s numbered without the end; (0, -1, -1) is the start."""
        if row == len(self.pairs.action) * self.P:
            return 0, -1, -1
        k, segment = divmod(row, self.P)
        s = int(np.searchsorted(self.pairs.first, k, "right")) - 1
        return segment, s - 1, int(self.pairs.action[k])

    def add(self, steps: Steps) -> None:
        """Count steps, in temporal order."""
        self.begin(steps.starts)
        if not len(steps):
            return
        row = self.rows_of(steps.t, steps.state, steps.action)
        self.decide(steps.t, steps.state)
        seen, following, reward = steps.following != LOST, steps.following, steps.reward
        order = np.argsort(row, kind="stable")  # of one row, in time
        begins = np.flatnonzero(np.diff(row[order], prepend=-1))
        nth, so_far = np.empty(len(row), np.int64), np.append(0, np.cumsum(seen[order]))
        nth[order] = so_far[1:] - np.repeat(so_far[begins], np.diff([*begins, len(row)]))
        nth += self.visits[row]  # the number of observed outcomes of the row after each step
        if not seen.all():
            self._add_missing(row[~seen], reward[~seen], nth[~seen])
            row, following, reward, nth = row[seen], following[seen], reward[seen], nth[seen]

        key = row << SHIFT | following
        order = np.argsort(key, kind="stable")
        begins = np.flatnonzero(np.diff(key[order], prepend=-1))
        keys, rewards = key[order][begins], reward[order]
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
        self.paid[at] += np.add.reduceat(rewards, begins)
        self.least[at] = np.minimum(self.least[at], np.minimum.reduceat(rewards, begins))
        self.most[at] = np.maximum(self.most[at], np.maximum.reduceat(rewards, begins))
        self.visits += np.bincount(row, minlength=len(self.visits))

    def _add_missing(self, row: Ints, reward: Floats, seen: Ints) -> None:
        """Count missing outcomes of rows (k,), with rewards and numbers of visits before (k,)."""
        known = ~np.isnan(reward)
        np.add.at(self.lost, row, 1)
        np.add.at(self.lost_unpaid, row, ~known)
        np.maximum.at(self.last_lost, row, seen)
        np.add.at(self.lost_paid, row[known], reward[known])
        np.minimum.at(self.lost_least, row[known], reward[known])
        np.maximum.at(self.lost_most, row[known], reward[known])

    def copy(self) -> SparseCounts:
        """Return a copy, without ``ahead``."""
        out = copy(self)
        for name in ARRAYS:
            setattr(out, name, getattr(self, name).copy())
        out._available, out.ahead = list(self._available), None
        return out

    def times(self, k: float) -> SparseCounts:
        """Return the counts multiplied by k >= 1: the same frequencies, and no new next states.

        Outcomes are missing at the same rate until the end: the number of visits since the last
        missing outcome is the average between two of them, and does not grow with k.
        """
        out = self.copy()
        out.make_room()
        known = np.rint((out.lost - out.lost_unpaid) * k)  # missing outcomes with known rewards
        out.lost_paid = out.lost_paid * known / np.maximum(out.lost - out.lost_unpaid, 1)
        for name in ("c", "started", "lost_unpaid"):
            setattr(out, name, np.rint(getattr(out, name) * k).astype(np.int64))
        between = out.visits // np.maximum(out.lost, 1)
        out.visits = np.bincount(out.key >> SHIFT, out.c, len(out.visits)).astype(np.int64)
        out.last_lost = np.where(out.lost > 0, np.maximum(out.visits - between, 0), 0)
        out.lost = out.lost_unpaid + known.astype(np.int64)
        out.paid = out.paid * (out.c / np.maximum(self.c, 1))
        return out

    def without_lost(self) -> SparseCounts:
        """Return a copy without the missing outcomes, as if they were missing at random."""
        out = self.copy()
        out._clear_missing()
        out.make_room()
        return out

    def _clear_missing(self) -> None:
        """Reset the arrays of missing outcomes to no rows."""
        self.lost, self.last_lost, self.lost_unpaid = np.zeros((3, 0), np.int64)
        self.lost_paid, self.lost_least, self.lost_most = np.zeros((3, 0))

    def make_room(self) -> None:
        """Extend the arrays over states and rows to all known states."""
        rows = len(self.pairs.action) * self.P
        if len(self.started) == self.states and len(self.lost) == rows:
            return
        for name in ROW_ARRAYS:
            array = getattr(self, name)
            empty = 1 if name == "lost_least" else 0
            setattr(self, name, np.pad(array, (0, rows - len(array)), constant_values=empty))
        self.place = np.pad(self.place, (0, self.states * self.P - len(self.place)))
        new = self.states - len(self.started)
        self.started = np.pad(self.started, (0, new))
        self.reached = np.pad(self.reached, ((0, new), (0, 0)))

    def decide(self, t: Ints, state: Ints) -> None:
        """Record decisions at steps (n,) in states (n,), in this order.

        A pair (segment, s) has its place from then on, whatever the outcome.
        """
        self.make_room()
        self.reached[state, t] = True
        codes, first = np.unique(state * self.P + self.segment[t], return_index=True)
        new = self.place[codes] == 0
        codes = codes[new][np.argsort(first[new])]
        self.place[codes] = self.found + 1 + np.arange(len(codes))
        self.found += len(codes)

    def begin(self, starts: Ints) -> None:
        """Count episodes that began in states (k,)."""
        self.make_room()
        states, first = np.unique(starts, return_index=True)
        new = self.started[states] == 0
        if new.any():
            self.started_new = self.episodes + int(first[new].max()) + 1
        self.started += np.bincount(starts, minlength=len(self.started))

    def state(self) -> dict[str, Ints | Floats]:
        """Return copies of the arrays by name, to be stored."""
        out = {name: getattr(self, name).copy() for name in ARRAYS}
        have = np.array([self.available(s) for s in range(self.states)])
        return {**out, "discoveries": np.array([self.found, self.started_new]), "available": have}

    def restore(self, arrays: dict[str, Ints | Floats]) -> None:
        """Restore the arrays returned by `state`."""
        for name in ARRAYS:
            setattr(self, name, arrays[name].copy())
        self.found, self.started_new = (int(x) for x in arrays["discoveries"])
        have = arrays["available"].astype(bool)
        self._available = [None if mask.all() else mask for mask in have]
        self._pairs = None


ROW_ARRAYS = (
    "visits", "last_new", "lost", "last_lost", "lost_unpaid", "lost_paid", "lost_least",
    "lost_most",
)  # fmt: skip
"""The arrays of `SparseCounts` over rows."""
ARRAYS = ("key", "c", "paid", "least", "most", "place", "reached", "started", *ROW_ARRAYS)
"""The arrays of `SparseCounts` that are stored."""
