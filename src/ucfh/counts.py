"""Transition counts of a known table, and the limits at which an agent receives them.

A simulator, an environment and a log all produce counts over the agent's table; the agent does not
depend on their source. The agent requests counts at `Limits`, and the scores of episodes until then
by a `ScoringRule`.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ucfh._kernels.types import CountArrays
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.validation import as_array, as_numbers
from ucfh.exceptions import InputError, check_type
from ucfh.mdp import Problem
from ucfh.problems import AnyProblem, as_problem
from ucfh.transitions import Table

NEVER = np.iinfo(np.int64).max
"""The limit of a row whose visits have no effect, and need not be counted."""

UNLIMITED = 2**62
"""A limit on visits that is never reached, of a row whose visits are counted."""

GROWTH = 0.02
"""The relative growth of episodes after which an agent plans again, or tests whether to stop."""

MAX_TOTAL = 2**61
"""Counts sum to less than this, so that no sum of two overflows in 64 bits."""

ARRAYS = ("visits", "successors", "rewards", "least", "most")
"""The arrays of `Counts` that are stored and added up."""

ROUNDING = 1e-9
"""The relative error of a sum of rewards by rounding."""


def due_after(episodes: int) -> int:
    """Return the number of episodes at which to plan or test again: 2% more, at least one.

    >>> [due_after(n) for n in (0, 1, 99, 100, 10**6)]
    [1, 2, 100, 102, 1020000]
    """
    return episodes + max(1, int(GROWTH * episodes))


@dataclass(eq=False)
class Counts:
    """Visits of each row of a table, and counts of successors.

    Attributes:
        visits: (rows,) n(s, a), or n(t, s, a) where rows have segments; the last is the start.
        successors: (entries,) n(s, a, s').
        rewards: (entries,) the sum of the rewards of each transition; empty where rewards are
            known.
        least, most: (entries,) the smallest and the largest of these rewards, 1 and 0 before the
            first visit; empty where rewards are known. If they are not given: 0 and 1, unless the
            sum implies a single value.
        scores: (k,) the scores of single episodes, if requested (see `ScoringRule`).
        steps: (k, H) the entries of k episodes, step by step, if requested.

    """

    visits: Ints
    successors: Ints
    rewards: Floats = field(default_factory=lambda: np.zeros(0))
    least: Any = None
    most: Any = None
    scores: Floats = field(default_factory=lambda: np.zeros(0))
    steps: Ints = field(default_factory=lambda: np.zeros((0, 0), np.int64))

    def __post_init__(self) -> None:
        """Convert lists to arrays."""
        self.visits = as_array("visits", self.visits)
        self.successors = as_array("successors", self.successors)
        self.rewards = as_numbers("rewards", self.rewards)
        if self.rewards.shape == self.successors.shape:
            visited, sums = self.successors > 0, self.rewards
            if self.least is None:
                self.least = np.where(visited & (sums < self.successors), 0.0, 1.0)
            if self.most is None:
                self.most = np.where(visited & (sums > 0), 1.0, 0.0)
        self.least = as_numbers("least", np.zeros(0) if self.least is None else self.least)
        self.most = as_numbers("most", np.zeros(0) if self.most is None else self.most)

    @property
    def arrays(self) -> CountArrays:
        """The counts, for the kernels."""
        return CountArrays(self.successors, self.visits)

    @classmethod
    def zero(cls, problem: AnyProblem) -> Counts:
        """Return counts of no visits for a problem."""
        problem = as_problem(problem)
        table = problem.table
        size = table.entries if problem.rewards is None else 0
        return cls(
            np.zeros(table.rows, np.int64),
            np.zeros(table.entries, np.int64),
            np.zeros(size),
            np.ones(size),
            np.zeros(size),
        )

    def copy(self) -> Counts:
        """Return a copy; scores and steps are shared."""
        arrays = {name: getattr(self, name).copy() for name in ARRAYS}
        return Counts(**arrays, scores=self.scores, steps=self.steps)

    def times(self, k: float, table: Table) -> Counts:
        """Return the counts multiplied by k >= 1, with the same frequencies."""
        out = self.copy()
        out.successors = np.rint(self.successors * k).astype(np.int64)
        out.visits = np.add.reduceat(out.successors, table.indptr[:-1])
        if len(out.rewards):
            out.rewards = self.rewards * (out.successors / np.maximum(self.successors, 1))
        return out

    def reward_sums(self, table: Table) -> Floats:
        """Return (rows,) the sum of the rewards in each row; 0 where rewards are known."""
        if not len(self.rewards):
            return np.zeros(table.rows)
        return np.asarray(np.add.reduceat(self.rewards, table.indptr[:-1]), float)

    def add_rewards(self, entry: Ints, reward: Floats) -> None:
        """Add rewards (n,) of transitions, by their entries (n,)."""
        np.add.at(self.rewards, entry, reward)
        np.minimum.at(self.least, entry, reward)
        np.maximum.at(self.most, entry, reward)

    def check(self, problem: Problem) -> None:
        """Raise `InputError` unless these are consistent counts of the problem."""
        table = problem.table
        self._check_sizes(Counts.zero(problem))
        least = np.minimum.reduceat(self.successors, table.indptr[:-1])
        _check_rows(
            table, least >= 0, "{row}: the count of a successor is {x}: pass 0 or more", least
        )
        for array in (self.visits, self.successors):
            if array.sum(dtype=float) >= MAX_TOTAL:
                raise InputError(f"counts must sum to less than 2^61 = {MAX_TOTAL}")
        total = np.add.reduceat(self.successors, table.indptr[:-1])
        unequal = "{row}: the counts of its successors sum to {x}, not to the number of its visits"
        _check_rows(table, total == self.visits, unequal, total)
        if problem.rewards is None:
            self._check_rewards(problem)

    def _check_rewards(self, problem: Problem) -> None:
        """Check that rewards are in [0, 1], and 0 in terminal states and at the start."""
        table, c = problem.table, self.successors
        rewards, least, most = (np.asarray(x, float) for x in (self.rewards, self.least, self.most))
        at, slack = table.indptr[:-1], ROUNDING * c
        sums, visits = self.reward_sums(table), self.visits * (1 + ROUNDING)
        unknown = np.append(problem.reward_unknown, False)
        fits = np.logical_and.reduceat((rewards >= -slack) & (rewards <= c + slack), at)
        wrong = "{row}: its rewards sum to {x:g}, outside [0, visits]: rescale them to [0, 1]"
        _check_rows(table, (fits & (sums <= visits)) | ~unknown, wrong, sums)
        over = "{row}: its rewards sum to {x:g}, but there are no rewards where the task is over"
        _check_rows(table, unknown | (sums == 0), over, sums)
        inside = (least >= 0) & (most <= 1) & (c * least <= rewards + slack)
        inside &= rewards <= c * most + slack
        valid = np.logical_and.reduceat(inside | (c == 0), at)
        wrong = "{row}: the sum of its rewards, {x:g}, is not between the least and the most"
        _check_rows(table, valid | ~unknown, wrong, sums)

    def _check_sizes(self, like: Counts) -> None:
        """Check that the arrays have the same lengths as those of other counts."""
        for name in ARRAYS:
            array, size = getattr(self, name), len(getattr(like, name))
            if array.shape != (size,):
                raise InputError(
                    f"the counts have {array.size} {name}, and this problem has {size}: pass the "
                    "problem they belong to"
                    + (" (one sum of rewards for each successor)" if name == "rewards" else "")
                )
            if name in ("visits", "successors") and array.dtype.kind not in "iu":
                raise InputError(f"{name} must be integers, of an integer type")

    def add(self, other: Counts) -> None:
        """Add other counts of the same problem to these."""
        check_type("seen", other, Counts, "ucfh.Counts of the agent's problem")
        other._check_sizes(self)
        self.visits += other.visits
        self._merge(slice(None), other)
        self.scores = np.concatenate([self.scores, other.scores])

    def _merge(self, at: slice, other: Counts) -> None:
        """Add other counts of the entries ``at``."""
        self.successors[at] += other.successors[at]
        if len(self.rewards):
            self.rewards[at] += other.rewards[at]
            self.least[at] = np.minimum(self.least[at], other.least[at])
            self.most[at] = np.maximum(self.most[at], other.most[at])

    def move_row(self, row: int, table: Table, to: Counts) -> None:
        """Move the counts of one row to ``to``: add them there, and clear them here."""
        at = table.entries_of(row)
        to.visits[row] += self.visits[row]
        to._merge(at, self)
        self.visits[row], self.successors[at] = 0, 0
        if len(self.rewards):
            self.rewards[at], self.least[at], self.most[at] = 0.0, 1.0, 0.0

    def state(self, prefix: str) -> dict[str, Ints | Floats]:
        """Return copies of the arrays by name, to be stored."""
        return {f"{prefix}_{name}": getattr(self, name).copy() for name in ARRAYS}

    def restore(self, prefix: str, arrays: dict[str, Ints | Floats]) -> None:
        """Restore the arrays returned by `state`."""
        for name in ARRAYS:
            getattr(self, name)[:] = arrays[f"{prefix}_{name}"]


@dataclass(frozen=True, eq=False)
class ScoringRule:
    """Rule for scores of episodes, which bound the value of a policy from below.

    The score is the sum of the rewards while the episode follows the watched policy plus, once it
    leaves that policy, ``leaving`` for the remaining steps. Known rewards count with their mean.

    Attributes:
        rows: (H, S) the rows of the watched policy.
        leaving: (H+1, S) the score of the remaining steps, by the step and state of leaving.

    """

    rows: Ints
    leaving: Floats


@dataclass(frozen=True, eq=False)
class Limits:
    """Limits of visits and episodes before an agent receives the counts.

    Attributes:
        visits: (rows,) the environment stops at the end of the first episode in which the visits
            of some row since the last `Agent.observe` reach this number, at most 2^62; `NEVER` for
            rows that have no effect, whose visits need not be counted. 0 stops after one
            episode: at least one runs between two calls.
        episodes: stop after this many episodes; None: no limit.
        drop_surplus: whether visits beyond a row's limit are dropped.
        watch: the rule for scores; None: no scores. Scored episodes are simulated one by one.
        steps: whether to record every step (`Counts.steps`), which simulates one by one as well.

    """

    visits: Ints
    episodes: int | None = None
    drop_surplus: bool = False
    watch: ScoringRule | None = None
    steps: bool = False

    def check(self, counts: Counts, table: Table, fix: str) -> None:
        """Raise `InputError`, with the remedy ``fix``, if a row has more visits than its limit.

        For agents whose guarantee needs update times that do not depend on the data: a surplus
        has to be dropped before it is counted.
        """
        for row in np.flatnonzero(counts.visits > self.visits)[:1]:
            raise InputError(
                f"{table.name_of(int(row))}: {counts.visits[row]} visits, more than the "
                f"{self.visits[row]} that the schedule allows before the next update. Fix: {fix}"
            )


def check_schedule(state: dict[str, Any], first: int, rows: Bools, table: Table, fix: str) -> None:
    """Raise `InputError` unless rows were updated at ``first`` visits and then at doublings.

    rows (rows,): True for the rows to check. The state of the agent holds the counts n of its
    model and v since each row's last update. ``fix`` is the remedy.
    """
    n, v = state["n_visits"], state["v_visits"]
    doublings = np.round(np.log2(np.maximum(n, first) / first))
    valid = ((n == 0) | (n == first * 2.0**doublings)) & (v <= np.maximum(n, first))
    for row in np.flatnonzero(rows & ~valid)[:1]:
        raise InputError(
            f"{table.name_of(int(row))}: {n[row]} visits in the model and {v[row]} since its last "
            f"update, which do not follow the schedule. Fix: {fix}"
        )


def _check_rows(table: Table, valid: Bools, message: str, x: Any) -> None:
    """Raise `InputError` with a message about the first row that is not valid (rows,)."""
    for row in np.flatnonzero(~valid)[:1]:
        raise InputError(message.format(row=table.name_of(int(row)), x=x[row]))


def counts_of(array: Any, problem: Problem) -> Counts:
    """Return counts from an array of the counts of next states, (S, A, S) or (H, S, A, S)."""
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
        raise InputError("counts must be integers")
    if (given < 0).any():
        raise InputError(f"counts must be at least 0: one of them is {given[given < 0][0]}")
    if given.sum(dtype=float) >= MAX_TOTAL:
        raise InputError(f"counts must sum to less than 2^61 = {MAX_TOTAL}: scale them down")
    if problem.rewards is None:
        raise InputError(
            "arrays of counts hold no rewards: pass rewards to the problem, or pass ucfh.Counts"
        )
    counts = Counts.zero(problem)
    rows, indices = table.rectangular()
    flat = given.reshape(-1, table.states).astype(np.int64)
    outside = flat.sum() - flat[rows, indices].sum()
    if outside:
        raise InputError(
            f"{outside} counts are of successors that the problem excludes: leave successors out "
            "of the problem"
        )
    counts.successors[: len(rows)] = flat[rows, indices]
    counts.visits[:-1] = np.add.reduceat(counts.successors, table.indptr[:-1])[:-1]
    return counts
