"""Where a log's rows are counted: over the table of a problem, or as all that it shows."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucfh._support.arrays import Bools, Floats, Ints
from ucfh._support.files import Labels
from ucfh.counts import Counts
from ucfh.errors import InputError
from ucfh.experience import SHIFT, Experience, Steps
from ucfh.logs.labels import NameCodes
from ucfh.problem import Problem

CODES = 2**20
"""More states, or actions, than a log may show."""
PIECE = 2**18
"""Rows that are counted at once: more of them need more memory."""
MAX_ENTRIES = 2 * 10**7
"""The most transitions of a table in which any state may follow any other."""


@dataclass(frozen=True, eq=False)
class Shown:
    """What a log without a problem shows.

    Attributes:
        states, actions: what they are called, in order, terminal states included.
        experience: what was counted; state i is number i + 1 there.
        terminal: the indices of states in which the task is over.

    """

    states: Labels
    actions: Labels
    experience: Experience
    terminal: tuple[int, ...]

    def over_a_table(self) -> tuple[Problem, Counts]:
        """The problem in which any of the states may follow any other, and the counts over it."""
        data, S, A = self.experience, self.states.count, self.actions.count
        data.make_room()
        if data.P * S * A * S > MAX_ENTRIES:
            raise InputError(
                f"{S} states and {A} actions are too many for a table of all transitions between "
                "them: use the log itself, which needs none"
            )
        problem = Problem(
            S,
            A,
            data.horizon,
            terminal=self.terminal,
            stage_dependent=data.P > 1,
            state_names=self.states.names,
            action_names=self.actions.names,
        )
        table, counts = problem.table, Counts.zero(problem)
        row, following = data.key >> SHIFT, (data.key & (2**SHIFT - 1)) - 1
        pair, stage = np.divmod(row, data.P)
        s = np.searchsorted(data.pairs.first, pair, "right") - 2
        mine = stage * table.pairs + table.first[s] + data.pairs.action[pair]
        at = table.indptr[mine] + following
        counts.successors[at], counts.rewards[at] = data.c, data.paid
        counts.least[at], counts.most[at] = data.least, data.most
        counts.successors[table.entries_of(table.start)] = data.started[1:]
        counts.visits[:] = np.add.reduceat(counts.successors, table.indptr[:-1])
        return problem, counts


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
    """Transitions between states and actions as they come up, in the order of the log.

    Attributes:
        horizon: H, or None where it is not declared.
        states, actions: as declared, or as they come up.

    """

    def __init__(
        self,
        states: Sequence[str] | int | None,
        actions: Sequence[str] | int | None,
        horizon: int | None,
    ) -> None:
        self.horizon = horizon
        self.states, self.actions = NameCodes(states), NameCodes(actions)
        self._steps: list[tuple[Ints, Any, Floats]] = []
        self._starts: list[Ints] = []
        self._pairs: dict[int, int] | None = None

    def is_terminal(self, s: Ints) -> Bools:
        """(n,) False: it is not known of any state before the log has been read."""
        return np.zeros(len(s), bool)

    def locate(self, t: Ints, s: Ints, a: Ints, following: Ints) -> tuple[Ints, Ints]:
        """(n,) the row and the entry of each of n transitions, -1 where there is none."""
        for kind, names in (("state", self.states), ("action", self.actions)):
            if len(names.index) > CODES:
                raise InputError(f"the log shows more than {CODES} {kind}s: group them into fewer")
        row = np.where((t >= 0) & (s >= 0) & (a >= 0), (t * CODES + s) * CODES + a, -1)
        return row, np.where((row >= 0) & (following >= 0), following, -1)

    def locate_start(self, s: Ints) -> Ints:
        """(n,) the entry of each of n first states, -1 where there is none."""
        return s.clip(-1)

    def counted(self, s: int, a: int) -> int:
        """How many rows of a pair are counted."""
        if self._pairs is None:
            pairs: Counter[int] = Counter()
            for row, _, _ in self._steps:
                codes, times = np.unique(row % CODES**2, return_counts=True)
                pairs.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))
            self._pairs = dict(pairs)
        return self._pairs.get(s * CODES + a, 0)

    def add(self, row: Ints, entry: Ints, reward: Floats, start: Ints) -> None:
        """Count n transitions by row (n,), entry (n,) and reward (n,), and k starts by entry."""
        self._steps.append((row, entry.astype(np.int32), reward))
        self._starts.append(start.astype(np.int32))
        self._pairs = None

    def experience(self, horizon: int, stages: Sequence[int], terminal: Sequence[int]) -> Shown:
        """What was shown, with states and actions in order; ``terminal``: codes of ends."""
        s_names, s_order = _in_order(self.states)
        a_names, a_order = _in_order(self.actions)
        ends = {s_order.index(s) for s in terminal}
        number, action = np.argsort(s_order) + 1, np.argsort(a_order)  # of each code
        found, no_action = Experience(horizon, len(a_order), stages), np.zeros(len(a_order), bool)
        for at in range(len(s_order)):
            found.find(no_action if at in ends else None)
        none = np.zeros(0, np.int64)
        for starts in self._starts:
            found.add(Steps(none, none, none, np.zeros(0), none, number[starts]))
        steps, self._steps = self._steps, []
        for row, after, reward in _merged(steps):
            t, s, a = row // CODES**2, row // CODES % CODES, row % CODES
            found.add(Steps(t, number[s], action[a], reward, number[after], none))
        return Shown(
            Labels("state", s_names, len(s_order)),
            Labels("action", a_names, len(a_order)),
            found,
            tuple(sorted(ends)),
        )


def _merged(
    steps: list[tuple[Ints, Any, Floats]],
) -> Iterator[tuple[Ints, Ints, Floats]]:
    """The same steps in fewer, larger pieces; those that were passed on are let go of."""
    steps.reverse()
    while steps:
        piece: list[tuple[Ints, Any, Floats]] = []
        while steps and sum(len(row) for row, _, _ in piece) < PIECE:
            piece.append(steps.pop())
        row, after, reward = (np.concatenate(x) for x in zip(*piece, strict=True))
        yield row, after.astype(np.int64), reward


def _in_order(names: NameCodes) -> tuple[tuple[str, ...] | None, list[int]]:
    """Names in the order of a problem, and the code of each; no names for 0, 1, ..., n-1."""
    ordered = list(names.index)
    if names.is_open:
        numbers = all(re.fullmatch("-?[0-9]+", name) for name in ordered)
        ordered.sort(key=(lambda name: (int(name), name)) if numbers else None)
    plain = ordered == [str(i) for i in range(len(ordered))]
    return None if plain else tuple(ordered), [names.index[name] for name in ordered]
