"""The successor table: the possible next states of each pair, as flat rows.

Everything that depends on a transition (probabilities, counts, confidence bounds, rewards on
the next state) is a flat array over the entries of one table, in compressed sparse row form:

    row of (t, s, a)  =  t * R + first[s] + i        where i numbers the actions of s
    entries of a row  =  indptr[row] : indptr[row + 1], successors in ascending order

R is the number of pairs, ``segments`` is 1 (transitions do not depend on t, and t * R is left out)
or H. Dense problems are the case of full rows; a state with fewer actions has fewer rows. The
last row is the start: its successors are the states in which an episode may begin. So the start
is counted, bounded and planned like any other row.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.types import Layout
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.memory import check_memory
from ucfh.exceptions import InputError


@dataclass(frozen=True, eq=False)
class Table:
    """The successors of every pair and of the start.

    Attributes:
        states: S.
        actions: A, the largest number of actions.
        segments: 1, or H where the rows depend on the time step.
        first: (S+1,) first row of each state within a segment.
        action: (R,) the action of each row within a segment.
        indptr: (segments*R + 2,) the first entry of each row, and the number of entries.
        indices: (entries,) the successor of each entry.

    """

    states: int
    actions: int
    segments: int
    first: Ints
    action: Ints
    indptr: Ints
    indices: NDArray[np.int32]

    @property
    def pairs(self) -> int:
        """R, the number of pairs (s, a) within a segment."""
        return len(self.action)

    @property
    def start(self) -> int:
        """The index of the start row, the last one."""
        return self.segments * self.pairs

    @property
    def rows(self) -> int:
        """The number of rows, the start included."""
        return self.start + 1

    @property
    def entries(self) -> int:
        """The number of entries, those of the start included."""
        return len(self.indices)

    @property
    def stride(self) -> int:
        """The distance of a row from one time step to the next: R, or 0 without segments."""
        return self.pairs if self.segments > 1 else 0

    @cached_property
    def arrays(self) -> Layout:
        """The arrays of the table, for the kernels."""
        return Layout(self.first, self.action, self.indptr, self.indices, self.stride)

    @cached_property
    def short_arrays(self) -> Layout:
        """The arrays of the table, without those that are implied.

        The actions are empty where every state has all of them, and the successors where every pair
        lists all states in order.
        """
        all_actions = self.pairs == self.states * self.actions
        return self.arrays._replace(
            action=self.action[:0] if all_actions else self.action,
            indices=self.indices[:0] if self.is_dense else self.indices,
        )

    @cached_property
    def lengths(self) -> Ints:
        """(rows,) the number of successors of each row."""
        return np.diff(self.indptr)

    @cached_property
    def is_dense(self) -> bool:
        """True if every pair has all states as successors."""
        return bool((self.lengths[:-1] == self.states).all())

    @cached_property
    def state(self) -> Ints:
        """(R,) the state of each row within a segment."""
        return np.repeat(np.arange(self.states), np.diff(self.first))

    @cached_property
    def row_of_entry(self) -> Ints:
        """(entries,) the row of each entry."""
        return np.repeat(np.arange(self.rows), self.lengths)

    @cached_property
    def available(self) -> Bools:
        """(S, A) True where the state has the action."""
        mask = np.zeros((self.states, self.actions), bool)
        mask[self.state, self.action] = True
        return mask

    @cached_property
    def _row_of_pair(self) -> Ints:
        """(S, A) the row of each pair within a segment, -1 where the state lacks the action."""
        rows = np.full((self.states, self.actions), -1)
        rows[self.state, self.action] = np.arange(self.pairs)
        return rows

    def entries_of(self, row: int) -> slice:
        """Return the slice of the entries of one row."""
        return slice(int(self.indptr[row]), int(self.indptr[row + 1]))

    def pair_of(self, row: int) -> tuple[int, int, int]:
        """Return (t, s, a) of a row; t is 0 without segments, and (0, -1, -1) is the start."""
        if row == self.start:
            return 0, -1, -1
        t, k = divmod(row, self.pairs)
        return t, int(self.state[k]), int(self.action[k])

    def name_of(self, row: int) -> str:
        """Return the name of a row, for messages: "(s=0, a=1)"."""
        if row == self.start:
            return "the start"
        t, s, a = self.pair_of(row)
        return f"(t={t}, s={s}, a={a})" if self.segments > 1 else f"(s={s}, a={a})"

    def rows_of(self, policy: Any, horizon: int) -> Ints:
        """Return (H, S) the rows of a policy, or raise `InputError` if a state lacks an action.

        ``policy`` is (H, S), or (S,) for one that does not depend on the time step.
        """
        try:
            pi = np.asarray(policy)
        except ValueError:
            raise InputError(
                "policy must be an array (H, S), or (S,): its lines differ in length"
            ) from None
        if pi.shape not in ((self.states,), (horizon, self.states)):
            raise InputError(
                f"policy has shape {pi.shape}: it must be (H, S) = {(horizon, self.states)}, "
                f"or (S,) = {(self.states,)} for a policy that does not depend on the time step"
            )
        if not np.issubdtype(pi.dtype, np.integer):
            raise InputError(f"policy has type {pi.dtype}: actions are integers")
        check_memory(
            f"a policy of {horizon} steps in {self.states} states", 34 * horizon * self.states
        )
        pi = np.broadcast_to(pi, (horizon, self.states)).astype(np.int64)
        inside = (pi >= 0) & (pi < self.actions)
        states = np.arange(self.states)
        rows = self._row_of_pair[states, np.where(inside, pi, 0)]
        bad = ~inside | (rows < 0)
        if bad.any():
            t, s = np.argwhere(bad)[0]
            have = ", ".join(map(str, np.flatnonzero(self.available[s])))
            raise InputError(
                f"policy[{t}, {s}] = {pi[t, s]}: state {s} has only the actions {have}"
            )
        offsets: Ints = np.arange(horizon)[:, None] * self.stride
        return np.ascontiguousarray(rows + offsets, np.int64)

    def policy_of(self, rows: Ints) -> NDArray[Any]:
        """Return (H, S) the actions of rows (H, S): the inverse of `rows_of`."""
        pairs = rows - self.stride * np.arange(len(rows))[:, None]
        return np.asarray(self.action[pairs], np.min_scalar_type(self.actions - 1))

    def rectangular(self) -> tuple[Ints, Ints]:
        """Return (t*S + s)*A + a and the successor of each entry, without those of the start."""
        body = int(self.indptr[self.start])
        t, k = np.divmod(self.row_of_entry[:body], self.pairs)
        rows = (t * self.states + self.state[k]) * self.actions + self.action[k]
        return rows, self.indices[:body].astype(np.int64)

    def dense(self, flat: Floats) -> Floats:
        """Return a flat array over entries as (S, A, S) or (H, S, A, S), zero without an entry."""
        out = np.zeros((self.segments, self.states, self.actions, self.states), flat.dtype)
        rows, indices = self.rectangular()
        out.reshape(-1, self.states)[rows, indices] = flat[: len(rows)]
        return out if self.segments > 1 else out[0]

    def positions_of(self, other: Table) -> Ints:
        """Return (other.entries,) the index in this table of each entry of ``other``.

        Raise `InputError` if ``other`` has an entry that this table lacks: an agent would observe a
        successor that its problem excludes.
        """
        same = (
            self.states == other.states
            and self.segments == other.segments
            and np.array_equal(self.available, other.available)
        )
        if not same:
            raise InputError(
                "the agent was made for another problem: their states, actions or segments differ "
                f"({self!r} against {other!r}); make it from mdp.problem"
            )
        mine = self.row_of_entry * self.states + self.indices
        theirs = other.row_of_entry * self.states + other.indices
        at = np.minimum(np.searchsorted(mine, theirs), self.entries - 1)
        missing = np.flatnonzero(mine[at] != theirs)
        if missing.size:
            e = missing[0]
            row = self.name_of(int(other.row_of_entry[e]))
            raise InputError(
                f"state {other.indices[e]} can follow {row}, but the agent's problem excludes it: "
                "add it to the successors, or leave the successors out"
            )
        return np.asarray(at, np.int64)

    def by_segment(self, horizon: int) -> Table:
        """Return the table with a copy of the rows for each time step."""
        if self.segments > 1:
            return self
        body = self.indptr[self.start]
        begin = self.indptr[: self.start] + body * np.arange(horizon)[:, None]
        indptr = np.concatenate([begin.ravel(), self.indptr[-2:] + body * (horizon - 1)])
        indices = np.concatenate([np.tile(self.indices[:body], horizon), self.indices[body:]])
        return replace(self, segments=horizon, indptr=indptr, indices=indices)

    def __repr__(self) -> str:
        segments = f", segments={self.segments}" if self.segments > 1 else ""
        return (
            f"Table(states={self.states}, pairs={self.pairs}{segments}, "
            f"successors<={int(self.lengths.max())})"
        )


@dataclass(frozen=True, eq=False)
class Rewards:
    """Mean rewards r_t(s, a) + r_t(s, a, s'), over the rows and entries of a table.

    Attributes:
        pair: (1 or H, R) the part that does not depend on the next state.
        successor: (1 or H, entries) the part that does, or None. The first axis is 1 where the
            table itself has a row for every segment.

    """

    pair: Floats
    successor: Floats | None = None

    def __post_init__(self) -> None:
        # in one layout: kernels are compiled anew for each kind
        object.__setattr__(self, "pair", np.ascontiguousarray(self.pair))
        if self.successor is not None:
            object.__setattr__(self, "successor", np.ascontiguousarray(self.successor))

    def by_entry(self, table: Table) -> Floats:
        """Return (entries,) mean rewards by entry, of a table with segments if r_t depends on t."""
        pair = np.broadcast_to(self.pair, (table.segments, table.pairs)).ravel()
        mean = np.append(pair, 0.0)[table.row_of_entry]
        return mean if self.successor is None else mean + self.successor[0]

    @property
    def by_segment(self) -> bool:
        """True if the rewards of a row depend on the time step."""
        return len(self.pair) > 1 or (self.successor is not None and len(self.successor) > 1)


def build(
    states: int,
    available: Bools,
    segments: int,
    rows: Ints,
    indices: Ints,
    start: Ints,
    terminal: Sequence[int] = (),
) -> tuple[Table, Ints]:
    """Build a table from unordered entries.

    Args:
        states: S.
        available: (S, A) True where the state has the action.
        segments: 1 or H.
        rows: (E,) the rectangular row (t*S + s)*A + a of each entry; entries of pairs that are
            not available or belong to a terminal state are ignored.
        indices: (E,) the successor of each entry.
        start: the states in which an episode may begin, ascending.
        terminal: states that end the episode: one action, which stays there.

    Returns:
        The table, and (entries,) the source of each of its entries: an index into ``rows``, or
        -1 where the entry is new (terminal states, and the start).

    Raises:
        InputError: if a row has no successor, a repeated or an invalid one, or a state no action.

    """
    actions = available.shape[1]
    ends = np.zeros(states, bool)
    ends[list(terminal)] = True
    keep_pair = np.where(ends[:, None], np.arange(actions) == 0, available)
    first = np.concatenate([[0], np.cumsum(keep_pair.sum(1))])
    action = np.nonzero(keep_pair)[1]
    pairs = len(action)
    number = np.cumsum(keep_pair.ravel()) - 1

    segment, pair = np.divmod(rows, states * actions)
    keep = keep_pair.ravel()[pair] & ~ends[pair // actions]
    source = np.flatnonzero(keep)
    at_end = first[:-1][ends]
    row = np.concatenate(
        [
            segment[keep] * pairs + number[pair[keep]],
            (np.arange(segments)[:, None] * pairs + at_end).ravel(),
            np.full(len(start), segments * pairs),
        ]
    )
    index = np.concatenate([indices[keep], np.tile(np.flatnonzero(ends), segments), start])
    source = np.concatenate([source, np.full(segments * len(at_end) + len(start), -1)])

    order = np.lexsort((index, row))
    row, index, source = row[order], index[order], source[order]
    indptr = np.searchsorted(row, np.arange(segments * pairs + 2))
    table = Table(
        states=states,
        actions=actions,
        segments=segments,
        first=first.astype(np.int64),
        action=action.astype(np.int64),
        indptr=indptr.astype(np.int64),
        indices=index.astype(np.int32),
    )
    _check(table, index)
    return table, np.asarray(source, np.int64)


def _check(table: Table, index: Ints) -> None:
    """Check that rows have successors, each within range and once, and states have actions."""
    bad = np.flatnonzero((index < 0) | (index >= table.states))
    if bad.size:
        row = table.name_of(int(table.row_of_entry[bad[0]]))
        raise InputError(
            f"successor {index[bad[0]]} of {row} is not a state: states are 0 to {table.states - 1}"
        )
    without = np.flatnonzero(np.diff(table.first) == 0)
    if without.size:
        raise InputError(
            f"state {without[0]} has no action: give it at least one, or make it terminal"
        )
    empty = np.flatnonzero(table.lengths == 0)
    if empty.size:
        raise InputError(f"{table.name_of(int(empty[0]))} has no successor: give it at least one")
    same_row = np.diff(table.row_of_entry) == 0
    twice = np.flatnonzero(same_row & (np.diff(index) == 0))
    if twice.size:
        row = table.name_of(int(table.row_of_entry[twice[0]]))
        raise InputError(f"{row} lists successor {index[twice[0]]} twice: merge the two")
