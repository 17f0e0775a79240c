"""Where a log's rows are counted: over the table of a problem, or over all that it shows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ucfh._support.arrays import Bools, Floats, Ints
from ucfh.counts import Counts
from ucfh.errors import InputError
from ucfh.logs.labels import NameCodes
from ucfh.problem import Problem

MAX_ENTRIES = 2 * 10**7
"""The most transitions between the states that a log shows; more would not fit into memory."""


class ToldTally:
    """Counts over the table of a problem.

    Attributes:
        horizon: H.
        terminal: (S,) whether a state ends the episode.
        states, actions: how the problem calls them.

    """

    def __init__(self, problem: Problem) -> None:
        table = problem.table
        self.problem, self.horizon = problem, problem.horizon
        self.states = NameCodes(problem.state_names or problem.states)
        self.actions = NameCodes(problem.action_names or problem.actions)
        self.terminal = np.zeros(problem.states, bool)
        self.terminal[list(problem.terminal)] = True
        self.counts = Counts.zero(problem)
        self._row = np.full((table.states, table.actions), -1)
        self._row[table.state, table.action] = np.arange(table.pairs)
        self._keys = table.row_of_entry * table.states + table.indices

    def is_terminal(self, s: Ints) -> Bools:
        """(n,) whether each of n states ends the episode."""
        return np.asarray((s >= 0) & self.terminal[s.clip(0)], bool)

    def locate(self, t: Ints, s: Ints, a: Ints, following: Ints) -> tuple[Ints, Ints]:
        """(n,) the row and the entry of each of n transitions, -1 where there is none."""
        row = np.where((t >= 0) & (s >= 0) & (a >= 0), self._row[s.clip(0), a.clip(0)], -1)
        row = np.where(row >= 0, row + t * self.problem.table.stride, -1)
        return row, self._find(row, following)

    def locate_start(self, s: Ints) -> Ints:
        """(n,) the entry of each of n first states, -1 where an episode cannot begin."""
        return self._find(np.full(len(s), self.problem.table.start), s)

    def _find(self, row: Ints, following: Ints) -> Ints:
        wanted = row * self.problem.table.states + following
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where((row >= 0) & (following >= 0) & (self._keys[at] == wanted), at, -1)

    def counted(self, s: int, a: int) -> int:
        """How many rows of a pair are counted."""
        row, table = int(self._row[s, a]), self.problem.table
        return 0 if row < 0 else int(self.counts.visits[row : table.start : table.pairs].sum())

    def add(self, row: Ints, entry: Ints, reward: Floats, start: Ints) -> None:
        """Count n transitions by row (n,), entry (n,) and reward (n,), and k starts by entry."""
        counts = self.counts
        np.add.at(counts.visits, row, 1)
        np.add.at(counts.successors, entry, 1)
        if len(counts.rewards):
            counts.add_paid(entry, reward)
        counts.visits[-1] += len(start)
        np.add.at(counts.successors, start, 1)


class ShownTally:
    """Counts over the states and actions that come up, in arrays that grow with them.

    Attributes:
        horizon: H, or None where it is not declared.
        states, actions: as declared, or as they come up.
        successors: (T, S, A, S) how often; T is 1 unless transitions depend on t.
        rewards: (T, S, A) their sums.
        start: (S,) how often an episode began in each state.

    """

    def __init__(
        self,
        states: Sequence[str] | int | None,
        actions: Sequence[str] | int | None,
        horizon: int | None,
        stage_dependent: bool,
    ) -> None:
        self.horizon, self.stage_dependent = horizon, stage_dependent
        self.states, self.actions = NameCodes(states), NameCodes(actions)
        self.successors = np.zeros((1, 0, 0, 0), np.int64)
        self.rewards = np.zeros((1, 0, 0))
        self.start = np.zeros(0, np.int64)

    def is_terminal(self, s: Ints) -> Bools:
        """(n,) False: it is not known of any state before the log has been read."""
        return np.zeros(len(s), bool)

    def locate(self, t: Ints, s: Ints, a: Ints, following: Ints) -> tuple[Ints, Ints]:
        """(n,) the row and the entry of each of n transitions, -1 where there is none."""
        stage = t if self.stage_dependent else np.minimum(t, 0)
        self._grow(int(stage.max(initial=0)) + 1)
        _, S, A = self.rewards.shape
        row = np.where((stage >= 0) & (s >= 0) & (a >= 0), (stage * S + s) * A + a, -1)
        return row, np.where((row >= 0) & (following >= 0), row * S + following, -1)

    def locate_start(self, s: Ints) -> Ints:
        """(n,) the entry of each of n first states, -1 where there is none."""
        return s.clip(-1)

    def counted(self, s: int, a: int) -> int:
        """How many rows of a pair are counted."""
        return int(self.successors[:, s, a].sum())

    def add(self, row: Ints, entry: Ints, reward: Floats, start: Ints) -> None:
        """Count n transitions by row (n,), entry (n,) and reward (n,), and k starts by entry."""
        np.add.at(self.successors.reshape(-1), entry, 1)
        np.add.at(self.rewards.reshape(-1), row, reward)
        np.add.at(self.start, start, 1)

    def _grow(self, stages: int) -> None:
        """Make room for that many stages, and for all labels met so far."""
        need = (stages, len(self.states.index), len(self.actions.index))
        have = self.rewards.shape
        if all(n <= m for n, m in zip(need, have, strict=True)):
            return
        T, S, A = (max(n, m) for n, m in zip(need, have, strict=True))
        if T * S * A * S > MAX_ENTRIES:
            by_stage = f" at {T} steps" if self.stage_dependent else ""
            raise InputError(
                f"the log shows {S} states and {A} actions{by_stage}, too many for a table of all "
                "transitions between them: group states into fewer, or pass a problem that says "
                "which states can follow which"
            )
        # half as much more, so that it seldom happens
        roomy = tuple(m if n <= m else n + n // 2 for n, m in zip(need, have, strict=True))
        T, S, A = roomy if prod(roomy) * roomy[1] <= MAX_ENTRIES else (T, S, A)
        self.successors = _widen(self.successors, (T, S, A, S))
        self.rewards = _widen(self.rewards, (T, S, A))
        self.start = _widen(self.start, (S,))

    def problem(self, horizon: int, terminal: Sequence[int]) -> tuple[Problem, Counts]:
        """The problem that was shown, with its states and actions in order, and its counts.

        ``terminal``: codes of states that are terminal.
        """
        self._grow(1)  # of a log without rows
        s_names, s_order = _in_order(self.states)
        a_names, a_order = _in_order(self.actions)
        S, A = len(s_order), len(a_order)
        problem = Problem(
            S,
            A,
            horizon,
            terminal=[s_order.index(s) for s in terminal],
            stage_dependent=self.stage_dependent,
            state_names=s_names,
            action_names=a_names,
        )
        table, counts = problem.table, Counts.zero(problem)
        stages = range(min(table.stages, len(self.successors)))
        shown = np.zeros((table.stages, S, A, S), np.int64)
        shown[: len(stages)] = self.successors[np.ix_(stages, s_order, a_order, s_order)]
        sums = np.zeros((table.stages, S, A))
        sums[: len(stages)] = self.rewards[np.ix_(stages, s_order, a_order)]
        rows, following = table.rectangular()
        counts.successors[: len(rows)] = shown.reshape(-1, S)[rows, following]
        counts.successors[len(rows) :] = self.start[s_order]
        counts.visits[:] = np.add.reduceat(counts.successors, table.indptr[:-1])
        counts.rewards[:-1] = sums[:, table.state, table.action].ravel()
        return problem, counts


def _widen(old: Any, shape: tuple[int, ...]) -> Any:
    """An array of the shape, with the old one in its corner and zeros elsewhere."""
    new = np.zeros(shape, old.dtype)
    new[tuple(slice(n) for n in old.shape)] = old
    return new


def _in_order(names: NameCodes) -> tuple[list[str] | None, list[int]]:
    """Names in the order of a problem, and the code of each; no names for 0, 1, ..., n-1."""
    ordered = list(names.index)
    if names.is_open:
        numbers = all(re.fullmatch("-?[0-9]+", name) for name in ordered)
        ordered.sort(key=(lambda name: (int(name), name)) if numbers else None)
    plain = ordered == [str(i) for i in range(len(ordered))]
    return None if plain else ordered, [names.index[name] for name in ordered]
