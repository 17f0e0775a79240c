"""What the world and an agent exchange: counts, and how long the world is to continue.

A simulator, a live environment and a log all produce counts over the agent's table, and a
agent never knows which of them did. The agent says in turn at which `Limits` it wants the
counts, and how episodes are to be scored until then (`ScoringRule`).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ucfh._kernels.groups import Seen
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.validation import as_array, as_numbers
from ucfh.exceptions import InputError, check_type
from ucfh.mdp import Problem
from ucfh.problems import AnyProblem, as_problem
from ucfh.transitions import Table

NEVER = np.iinfo(np.int64).max
"""More visits than can be counted: the row no longer changes anything."""

UNLIMITED = 2**62
"""A limit on visits that is never reached, though visits are counted."""

GROWTH = 0.02
"""The share of more episodes after which an agent plans again, or tests whether to stop."""

MOST_COUNTED = 2**61
"""Counts sum to less than this, so that no sum of two wraps around in 64 bits."""

ARRAYS = ("visits", "successors", "rewards", "least", "most")
"""The arrays of `Counts` that are stored and added up."""

ROUNDED_SUM = 1e-9
"""The share by which rounding may push a sum of rewards above their number."""


def due_after(episodes: int) -> int:
    """How many episodes there are when it is time again: 2 % more, and at least one.

    >>> [due_after(n) for n in (0, 1, 99, 100, 10**6)]
    [1, 2, 100, 102, 1020000]
    """
    return episodes + max(1, int(GROWTH * episodes))


@dataclass(eq=False)
class Counts:
    """How often each row was visited, and what followed.

    Attributes:
        visits: (rows,) n(s, a), or n(t, s, a) where rows have segments; the last is the start.
        successors: (entries,) n(s, a, s').
        rewards: (entries,) the sum of what was paid on the way to each successor; empty where
            rewards are told.
        least, most: (entries,) the least and the most that was paid then, 1 and 0 before the first
            visit; empty where rewards are told. If they are not given: 0 and 1, unless the sum
            leaves no choice.
        scores: (k,) the scores of single episodes, for an agent that asked (see `ScoringRule`).
        steps: (k, H) the entries of k episodes, step by step, for an agent that asked.

    """

    visits: Ints
    successors: Ints
    rewards: Floats = field(default_factory=lambda: np.zeros(0))
    least: Any = None
    most: Any = None
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    steps: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        """Accept lists, too."""
        self.visits = as_array("visits", self.visits)
        self.successors = as_array("successors", self.successors)
        self.rewards = as_numbers("rewards", self.rewards)
        if self.rewards.shape == self.successors.shape:
            seen, paid = self.successors > 0, self.rewards
            if self.least is None:
                self.least = np.where(seen & (paid < self.successors), 0.0, 1.0)
            if self.most is None:
                self.most = np.where(seen & (paid > 0), 1.0, 0.0)
        self.least = as_numbers("least", np.zeros(0) if self.least is None else self.least)
        self.most = as_numbers("most", np.zeros(0) if self.most is None else self.most)

    @property
    def arrays(self) -> Seen:
        """The counts as the kernels take them."""
        return Seen(self.successors, self.visits)

    @classmethod
    def zero(cls, problem: AnyProblem) -> Counts:
        """No visits yet."""
        problem = as_problem(problem)
        table = problem.table
        paid = table.entries if problem.rewards is None else 0
        return cls(
            np.zeros(table.rows, np.int64),
            np.zeros(table.entries, np.int64),
            np.zeros(paid),
            np.ones(paid),
            np.zeros(paid),
        )

    def copy(self) -> Counts:
        """The same numbers in arrays of their own."""
        arrays = {name: getattr(self, name).copy() for name in ARRAYS}
        return Counts(**arrays, scores=self.scores, steps=self.steps)

    def times(self, k: float, table: Table) -> Counts:
        """The same over a table, k times over, k >= 1, with the same frequencies."""
        out = self.copy()
        out.successors = np.rint(self.successors * k).astype(np.int64)
        out.visits = np.add.reduceat(out.successors, table.indptr[:-1])
        if len(out.rewards):
            out.rewards = self.rewards * (out.successors / np.maximum(self.successors, 1))
        return out

    def paid_by_row(self, table: Table) -> Floats:
        """(rows,) the sum of what was paid in each row; 0 where rewards are told."""
        if not len(self.rewards):
            return np.zeros(table.rows)
        return np.asarray(np.add.reduceat(self.rewards, table.indptr[:-1]), float)

    def add_paid(self, entry: Ints, reward: Floats) -> None:
        """Add what was paid, reward (n,), on the way to entries (n,), visit by visit."""
        np.add.at(self.rewards, entry, reward)
        np.minimum.at(self.least, entry, reward)
        np.maximum.at(self.most, entry, reward)

    def check(self, problem: Problem) -> None:
        """Raise unless these may be counts of the problem: whole, consistent, rewards in [0, 1]."""
        table = problem.table
        self._check_sizes(Counts.zero(problem))
        least = np.minimum.reduceat(self.successors, table.indptr[:-1])
        _check_rows(
            table, least >= 0, "{row}: a successor was counted {x} times: pass 0 or more", least
        )
        for array in (self.visits, self.successors):
            if array.sum(dtype=float) >= MOST_COUNTED:
                raise InputError(f"counts must sum to less than 2^61 = {MOST_COUNTED}")
        seen = np.add.reduceat(self.successors, table.indptr[:-1])
        unequal = (
            "{row}: its successors were counted {x} times, which is not the number of its visits"
        )
        _check_rows(table, seen == self.visits, unequal, seen)
        if problem.rewards is None:
            self._check_rewards(problem)

    def _check_rewards(self, problem: Problem) -> None:
        """Raise unless what was paid is possible: in [0, 1] each, and nothing after the end."""
        table, c = problem.table, self.successors
        paid, least, most = (np.asarray(x, float) for x in (self.rewards, self.least, self.most))
        at, slack = table.indptr[:-1], ROUNDED_SUM * c
        sums, visits = self.paid_by_row(table), self.visits * (1 + ROUNDED_SUM)
        pays = np.append(problem.pays_unknown, False)
        fits = np.logical_and.reduceat((paid >= -slack) & (paid <= c + slack), at)
        wrong = "{row}: its rewards sum to {x:g}, outside [0, visits]: rescale them to [0, 1]"
        _check_rows(table, (fits & (sums <= visits)) | ~pays, wrong, sums)
        over = "{row}: its rewards sum to {x:g}, but the task is over there and nothing is paid"
        _check_rows(table, pays | (sums == 0), over, sums)
        inside = (least >= 0) & (most <= 1) & (c * least <= paid + slack)
        inside &= paid <= c * most + slack
        right = np.logical_and.reduceat(inside | (c == 0), at)
        wrong = "{row}: its rewards, {x:g} in all, are not between their least and most"
        _check_rows(table, right | ~pays, wrong, sums)

    def _check_sizes(self, wanted: Counts) -> None:
        """Raise unless the arrays are as long as those of other counts."""
        for name in ARRAYS:
            array, size = getattr(self, name), len(getattr(wanted, name))
            if array.shape != (size,):
                raise InputError(
                    f"the counts have {array.size} {name}, and this problem has {size}: pass the "
                    "problem they belong to"
                    + (" (rewards are those of each successor)" if name == "rewards" else "")
                )
            if name in ("visits", "successors") and array.dtype.kind not in "iu":
                raise InputError(f"{name} must be whole numbers, of an integer type")

    def add(self, other: Counts) -> None:
        """Add other counts of the same problem to these."""
        check_type("seen", other, Counts, "ucfh.Counts of the agent's problem")
        other._check_sizes(self)
        self.visits += other.visits
        self._merge(slice(None), other)
        self.scores = np.concatenate([self.scores, other.scores])

    def _merge(self, at: slice, other: Counts) -> None:
        """Add what others counted of some entries."""
        self.successors[at] += other.successors[at]
        if len(self.rewards):
            self.rewards[at] += other.rewards[at]
            self.least[at] = np.minimum(self.least[at], other.least[at])
            self.most[at] = np.maximum(self.most[at], other.most[at])

    def move_row(self, row: int, table: Table, to: Counts) -> None:
        """Add one row's counts to those of ``to``, and clear them here."""
        at = table.entries_of(row)
        to.visits[row] += self.visits[row]
        to._merge(at, self)
        self.visits[row], self.successors[at] = 0, 0
        if len(self.rewards):
            self.rewards[at], self.least[at], self.most[at] = 0.0, 1.0, 0.0

    def state(self, prefix: str) -> dict[str, Ints | Floats]:
        """Copies of the arrays by name, to be stored."""
        return {f"{prefix}_{name}": getattr(self, name).copy() for name in ARRAYS}

    def restore(self, prefix: str, arrays: dict[str, Ints | Floats]) -> None:
        """Restore what `state` returned."""
        for name in ARRAYS:
            getattr(self, name)[:] = arrays[f"{prefix}_{name}"]


@dataclass(frozen=True, eq=False)
class ScoringRule:
    """How to score each episode: by how much of its reward a policy would have earned.

    An episode scores its reward while it follows the watched policy and, once it leaves that,
    ``leaving`` for the rest. Known rewards count with their mean.

    Attributes:
        rows: (H, S) the rows that the watched policy takes.
        leaving: (H+1, S) what counts for the rest, by the step and state in which it is left.

    """

    rows: Ints
    leaving: Floats


@dataclass(frozen=True, eq=False)
class Limits:
    """How much may happen before an agent wants the counts.

    Attributes:
        visits: (rows,) the world stops at the end of the first episode in which some row has
            been visited this often since the last `Agent.observe`, at most 2^62; `NEVER` for
            rows that change nothing, whose visits need not be counted. 0 stops after one
            episode: at least one runs between two calls.
        episodes: stop after this many episodes; None: no limit.
        drop_surplus: whether visits beyond a row's limit are not to be counted.
        watch: how to score episodes; None: not at all. Scored episodes are walked one by one.
        steps: whether to hand over every single step (`Counts.steps`); walked one by one too.

    """

    visits: Ints
    episodes: int | None = None
    drop_surplus: bool = False
    watch: ScoringRule | None = None
    steps: bool = False

    def check(self, seen: Counts, table: Table, fix: str) -> None:
        """Raise if a row of the counts has more visits than its limit.

        For agents whose guarantee needs update times that do not depend on the data: a surplus
        has to be dropped before it is counted. ``fix``: the remedy.
        """
        for row in np.flatnonzero(seen.visits > self.visits)[:1]:
            raise InputError(
                f"{table.name_of(int(row))}: {seen.visits[row]} visits, more than the "
                f"{self.visits[row]} that the schedule allows before the next update. Fix: {fix}"
            )


def check_schedule(state: dict[str, Any], first: int, rows: Bools, table: Table, fix: str) -> None:
    """Raise unless each of the rows (rows,) was updated at ``first`` visits and then at doublings.

    state: an agent's, with the counts n of its model and those since each row's last update, v.
    ``fix``: the remedy.
    """
    n, v = state["n_visits"], state["v_visits"]
    doublings = np.round(np.log2(np.maximum(n, first) / first))
    right = ((n == 0) | (n == first * 2.0**doublings)) & (v <= np.maximum(n, first))
    for row in np.flatnonzero(rows & ~right)[:1]:
        raise InputError(
            f"{table.name_of(int(row))}: {n[row]} visits in the model and {v[row]} since its last "
            f"update, which do not follow the schedule. Fix: {fix}"
        )


def _check_rows(table: Table, right: Bools, wrong: str, x: Any) -> None:
    """Raise ``wrong`` for the first row that is not ``right`` (rows,)."""
    for row in np.flatnonzero(~right)[:1]:
        raise InputError(wrong.format(row=table.name_of(int(row)), x=x[row]))


def counts_of(array: Any, problem: Problem) -> Counts:
    """Counts from how often each state followed each pair: (S, A, S) or (H, S, A, S)."""
    table = problem.table
    shape: tuple[int, ...] = (table.states, table.actions, table.states)
    shape = shape if table.segments == 1 else (table.segments, *shape)
    given = as_array("counts", array)
    if given.shape != shape:
        raise InputError(f"counts have shape {given.shape}: this problem needs {shape}")
    whole = given.dtype.kind in "iu" or (
        given.dtype.kind == "f" and bool((given == np.floor(given)).all())
    )
    if not whole or not np.isfinite(given).all():
        raise InputError("counts must be whole numbers")
    if (given < 0).any():
        raise InputError(f"counts must be at least 0: one of them is {given[given < 0][0]}")
    if given.sum(dtype=float) >= MOST_COUNTED:
        raise InputError(f"counts must sum to less than 2^61 = {MOST_COUNTED}: scale them down")
    if problem.rewards is None:
        raise InputError(
            "arrays of counts hold no rewards: give them to the problem, or pass ucfh.Counts"
        )
    counts = Counts.zero(problem)
    rows, indices = table.rectangular()
    flat = given.reshape(-1, table.states).astype(np.int64)
    outside = flat.sum() - flat[rows, indices].sum()
    if outside:
        raise InputError(
            f"{outside} counts are of successors that the problem excludes: leave its successors "
            "out"
        )
    counts.successors[: len(rows)] = flat[rows, indices]
    counts.visits[:-1] = np.add.reduceat(counts.successors, table.indptr[:-1])[:-1]
    return counts
