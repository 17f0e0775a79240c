"""What was seen of a world of which nothing was listed in advance: steps in, sparse counts out.

States are numbered in the order in which they are found; 0 is the end, where an episode that is
over stays and nothing is done any more. A state has its actions from the moment it is found. Steps
are grouped into segments (all in one, each alone, or practice and exam): a row (s, a) is counted
once in each segment. Only what was seen takes room:

    pair of (s, a)    k = first[s] + i                    where i numbers the actions of s
    row of (t, s, a)  k * P + segment[t]                    P segments: a row keeps its number for
    good entries of a row  the states that followed, ascending; each with how often it did and what
    was
                      paid then: the sum, the least and the most

A pair (segment, s) is found when an action is first taken there; its place in that order,
1, 2, ..., is known before anything is drawn in it. The start is place 0.

An outcome may be lost: the action was taken, and what followed never came to be known. It is
counted apart, with what was paid if that is known; see Proposition 67 of `docs/theory/open.md`.

Where episodes overlap, outcomes come late, and steps are counted in the order in which they were
decided, row by row; `ahead` then holds all that was told (`docs/theory/flight.md`).
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
"""Stands for a next state that never came to be known."""
SHIFT = 32
"""Bits of an entry's key that hold the state which followed; those above hold the row."""


@dataclass(eq=False)
class Steps:
    """Steps in the order in which they were taken, (n,) each, and where episodes began.

    Attributes:
        t: the step within its episode, from 0.
        state, action, following: numbers of the state, of the action and of the next state; `LOST`
            if what followed is lost.
        reward: what was paid, in [0, 1]; nan if that is lost, too.
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

    Those of s are first[s] up to first[s + 1].
    """

    first: Ints
    action: Ints
    number: Ints


class SparseCounts:
    """Counts of what was seen, of states that were found on the way.

    Args:
        horizon: H.
        actions: A, the largest number of actions of a state.
        segments: the first step of each segment after the first, ascending; () for one segment.

    Attributes:
        segment: (H,) the segment of each step. P: the number of segments.
        key, c: (entries,) row << 32 | next state, ascending, and how often that was seen.
        paid, least, most: (entries,) the sum of what was paid then, the least and the most.
        visits: (rows,) outcomes of each row that were seen; the start is left out.
        last_new: (rows,) the number of visits when a next state was last seen for the first time.
        lost: (rows,) outcomes of each row that were lost.
        last_lost: (rows,) the number of visits when one was last lost.
        lost_unpaid: (rows,) of how many lost ones it is not known what was paid.
        lost_paid, lost_least, lost_most: (rows,) of the others, the sum of what was paid, the least
            and the most; 1 and 0 if there are none.
        reached: (S, H) whether an action was taken in a state at a step.
        place: (S * P,) of each s * P + segment, in the order of finding; 0: not found yet.
        started: (S,) how often an episode began in each state.
        started_new: the number of episodes when one last began in a new state.
        found: how many pairs (segment, s) were found.
        closed: whether all states are found: bounds may then value unseen next states by the
            values of these states. No other state can be added from then on.
        ahead: the same counts, and in each row also what was decided after an outcome that is yet
            to come; outcomes yet to come are lost there. None if there are none.

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
        self._forget_lost()
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
        """How many began."""
        return int(self.started.sum())

    def find(self, available: Bools | None = None) -> int:
        """Add a state with the actions that are available (A,), all of them by default."""
        if self.closed:
            raise ValueError("the state space is closed: bounds rest on the states found before")
        self._available.append(available)
        self._pairs = None
        return len(self._available) - 1

    @property
    def pairs(self) -> PairIndex:
        """The pairs of all states found so far."""
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
        """(A,) the actions of a state."""
        given = self._available[s]
        return np.ones(self.actions, bool) if given is None else given

    def rows_of(self, t: Ints, state: Ints, action: Ints) -> Ints:
        """(n,) the row of each of n steps."""
        return np.asarray(self.pairs.number[state, action] * self.P + self.segment[t], np.int64)

    def pair_of(self, row: int) -> tuple[int, int, int]:
        """(segment, s, a) of a row, with states numbered without the end; (0, -1, -1): the
        start."""
        if row == len(self.pairs.action) * self.P:
            return 0, -1, -1
        k, segment = divmod(row, self.P)
        s = int(np.searchsorted(self.pairs.first, k, "right")) - 1
        return segment, s - 1, int(self.pairs.action[k])

    def add(self, steps: Steps) -> None:
        """Count steps, in the order in which they were taken."""
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
        nth += self.visits[row]  # how many outcomes of its row were seen after a step
        if not seen.all():
            self._lose(row[~seen], reward[~seen], nth[~seen])
            row, following, reward, nth = row[seen], following[seen], reward[seen], nth[seen]

        key = row << SHIFT | following
        order = np.argsort(key, kind="stable")
        begins = np.flatnonzero(np.diff(key[order], prepend=-1))
        keys, paid = key[order][begins], reward[order]
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

    def _lose(self, row: Ints, reward: Floats, seen: Ints) -> None:
        """Count lost outcomes of rows (k,), with rewards (k,), after that many were seen (k,)."""
        known = ~np.isnan(reward)
        np.add.at(self.lost, row, 1)
        np.add.at(self.lost_unpaid, row, ~known)
        np.maximum.at(self.last_lost, row, seen)
        np.add.at(self.lost_paid, row[known], reward[known])
        np.minimum.at(self.lost_least, row[known], reward[known])
        np.maximum.at(self.lost_most, row[known], reward[known])

    def copy(self) -> SparseCounts:
        """The same counts, without ``ahead``."""
        out = copy(self)
        for name in ARRAYS:
            setattr(out, name, getattr(self, name).copy())
        out._available, out.ahead = list(self._available), None
        return out

    def times(self, k: float) -> SparseCounts:
        """Return the counts multiplied by k >= 1: the same frequencies, and no new next states.

        Outcomes are lost at the same rate until the end: the number of visits since the last lost
        outcome is the average between two of them, and does not grow with k.
        """
        out = self.copy()
        out.make_room()
        paid = np.rint((out.lost - out.lost_unpaid) * k)  # rewards of lost outcomes
        out.lost_paid = out.lost_paid * paid / np.maximum(out.lost - out.lost_unpaid, 1)
        for name in ("c", "started", "lost_unpaid"):
            setattr(out, name, np.rint(getattr(out, name) * k).astype(np.int64))
        between = out.visits // np.maximum(out.lost, 1)
        out.visits = np.bincount(out.key >> SHIFT, out.c, len(out.visits)).astype(np.int64)
        out.last_lost = np.where(out.lost > 0, np.maximum(out.visits - between, 0), 0)
        out.lost = out.lost_unpaid + paid.astype(np.int64)
        out.paid = out.paid * (out.c / np.maximum(self.c, 1))
        return out

    def without_lost(self) -> SparseCounts:
        """A copy without the outcomes that were lost, as if that had happened at random."""
        out = self.copy()
        out._forget_lost()
        out.make_room()
        return out

    def _forget_lost(self) -> None:
        self.lost, self.last_lost, self.lost_unpaid = np.zeros((3, 0), np.int64)
        self.lost_paid, self.lost_least, self.lost_most = np.zeros((3, 0))

    def make_room(self) -> None:
        """Lengthen what has a place for each state or row: states may have been found."""
        rows = len(self.pairs.action) * self.P
        if len(self.started) == self.states and len(self.lost) == rows:
            return
        for name in OF_ROWS:
            array = getattr(self, name)
            none = 1 if name == "lost_least" else 0
            setattr(self, name, np.pad(array, (0, rows - len(array)), constant_values=none))
        self.place = np.pad(self.place, (0, self.states * self.P - len(self.place)))
        new = self.states - len(self.started)
        self.started = np.pad(self.started, (0, new))
        self.reached = np.pad(self.reached, ((0, new), (0, 0)))

    def decide(self, t: Ints, state: Ints) -> None:
        """Note that actions are taken at steps (n,) in states (n,), in this order.

        A pair (segment, s) has its place from then on, whatever comes of the action.
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


LOSSES = ("lost", "last_lost", "lost_unpaid", "lost_paid", "lost_least", "lost_most")
"""The arrays of an `SparseCounts` that tell what was lost."""
OF_ROWS = ("visits", "last_new", *LOSSES)
"""The arrays with a place for each row."""
ARRAYS = ("key", "c", "paid", "least", "most", "place", "reached", "started", *OF_ROWS)
"""The arrays of an `SparseCounts` that are stored."""
