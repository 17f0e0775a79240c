"""Counters of a log's rows: over the table of a problem, or with unknown states."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.files import Labels
from ucfh.auditing.e_process import Audit
from ucfh.auditing.steps import AuditSteps
from ucfh.counts import Counts
from ucfh.exceptions import InputError
from ucfh.logs.early_termination import END, FAULTY, LEFT_OUT, EarlyTermination
from ucfh.logs.labels import LabelCodes
from ucfh.mdp import Problem
from ucfh.rewards import DEFAULT, RewardRange, check_segments
from ucfh.sparse_counts import LOST, SHIFT, SparseCounts, Steps

CODES = 2**20
"""The number of codes of states, and of actions, in a row number."""
PIECE = 2**16
"""Rows that are counted at once, which bounds the memory."""
STOPS, MISSING_OUTCOME = 2**6, 2**7
"""Marks of rows: the episode ends without being done; the outcome is missing due to an issue."""
MAX_ENTRIES = 2 * 10**7
"""The largest number of transitions of a full table."""


@dataclass(frozen=True, eq=False)
class LogContents:
    """The contents of a log that is read without a problem.

    Attributes:
        states, actions: what they are called, in order, terminal states included.
        experience: what was counted; state i is number i + 1 there.
        terminal: the indices of states in which the task is over.

    """

    states: Labels
    actions: Labels
    experience: SparseCounts
    terminal: tuple[int, ...]

    def as_table(self) -> tuple[Problem, Counts]:
        """Return a problem in which any state may follow any other, and the counts over it."""
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
            time_dependent=data.P > 1,
            state_names=self.states.names,
            action_names=self.actions.names,
        )
        table, counts = problem.table, Counts.zero(problem)
        row, following = data.key >> SHIFT, (data.key & (2**SHIFT - 1)) - 1
        pair, segment = np.divmod(row, data.P)
        s = np.searchsorted(data.pairs.first, pair, "right") - 2
        rows = segment * table.pairs + table.first[s] + data.pairs.action[pair]
        at = table.indptr[rows] + following
        counts.successors[at], counts.rewards[at] = data.c, data.paid
        counts.least[at], counts.most[at] = data.least, data.most
        counts.successors[table.entries_of(table.start)] = data.started[1:]
        counts.visits[:] = np.add.reduceat(counts.successors, table.indptr[:-1])
        return problem, counts


RowBlock = tuple[Ints, NDArray[np.int32], Floats, NDArray[np.uint8]]
"""Rows to be counted: (t, s, a) in one number, next state, reward and mark."""


class CountedRows(NamedTuple):
    """Rows with known or missing outcome, (n,) each, in the order of the log.

    Attributes:
        t, s, a: the step, from 0, and the codes of state and action.
        following: the code of the next state; `ENDED` or `STOPPED` where the log shows none.
        reward: in the units of the log; NaN where unknown.
        mark: `STOPS` if the episode ends there without being done; `MISSING_OUTCOME` if the outcome
            is missing due to an issue; in the lower bits, the halves of the bins of its state.
        starts: (k,) codes of the first states of episodes.

    """

    t: Ints
    s: Ints
    a: Ints
    following: Ints
    reward: Floats
    mark: Ints
    starts: Ints

    def audit_steps(self, following: Ints, horizon: int | None) -> AuditSteps:
        """Convert to audit input; following (n,): the resolved next states.

        At the last step, if ``horizon`` is given, outcomes cannot be missing.
        """
        lost = ((following < 0) & (following != LOST)).astype(np.int64)
        lost[((lost == 0) | (following == LEFT_OUT)) & (self.t + 1 == horizon)] = -1
        new, detail = self.t == 0, self.mark & (STOPS - 1)
        codes = (self.t, self.s, self.a, following.clip(-1))
        return AuditSteps(new, *codes, self.reward, lost, detail)


class KnownStateCounter:
    """Counts over the table of a problem.

    Args:
        problem: the prior knowledge.
        ends: the treatment of episodes without a logged end.
        ignore_case: whether names that differ only in case and blanks are the same.
        details: whether states are bins.

    Attributes:
        horizon: H.
        terminal: (S,) whether a state ends the episode.
        states, actions: the codes of their names.
        audit: the assumption checks.
        counted_rows: the number of rows that are counted.
        left_out: (t, s, a), (n,) each, of rows that end their episode early without a next state.
        has_end: whether there is a state for the end of an episode that shows none.

    """

    def __init__(
        self,
        problem: Problem,
        ends: EarlyTermination,
        ignore_case: bool = False,
        details: bool = False,
    ) -> None:
        table = problem.table
        self.problem, self.horizon, self.ends = problem, problem.horizon, ends
        self.states = LabelCodes(problem.state_names or problem.states, ignore_case)
        self.actions = LabelCodes(problem.action_names or problem.actions, ignore_case)
        self.terminal = np.zeros(problem.states, bool)
        self.terminal[list(problem.terminal)] = True
        self.counts, self.counted_rows = Counts.zero(problem), 0
        self.left_out: list[tuple[Ints, Ints, Ints]] = []
        self.audit = Audit(table.segments > 1, problem.rewards is None, details)
        self._row = np.full((table.states, table.actions), -1)
        self._row[table.state, table.action] = np.arange(table.pairs)
        self._keys = table.row_of_entry * table.states + table.indices
        ending = {name: s for name, s in self.states.index.items() if self.terminal[s]}
        pooled = table.segments == 1 < problem.horizon
        self._end_states, self.has_end = ends.end_states(ending, pooled), END in ending

    def is_terminal(self, s: Ints) -> Bools:
        """Return whether each of n states is terminal (n,)."""
        return np.asarray((s >= 0) & self.terminal[s.clip(0)], bool)

    def locate(
        self, t: Ints, s: Ints, a: Ints, following: Ints, stops: Bools
    ) -> tuple[Ints, Bools]:
        """Return the table rows (n,) of n steps, -1 for none, and which are possible (n,)."""
        row = np.where((t >= 0) & (s >= 0) & (a >= 0), self._row[s.clip(0), a.clip(0)], -1)
        row = np.where(row >= 0, row + t * self.problem.table.stride, -1)
        after = self._resolve(t, following, stops)
        return row, (after < 0) | (self._find(row, after) >= 0)

    def locate_start(self, s: Ints) -> Bools:
        """Return whether an episode can begin in each of n states (n,)."""
        return self._find(np.full(len(s), self.problem.table.start), s) >= 0

    def _find(self, row: Ints, following: Ints) -> Ints:
        wanted = row * self.problem.table.states + following
        at = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where((row >= 0) & (following >= 0) & (self._keys[at] == wanted), at, -1)

    def _resolve(self, t: Ints, following: Ints, stops: Bools) -> Ints:
        return self.ends.resolve(
            following, stops, t + 1 == self.horizon, self.is_terminal(following), self._end_states
        )

    def rewards_of(self, t: Ints, s: Ints, a: Ints, following: Ints, reward: Floats) -> Floats:
        """Return the rewards (n,) of n steps: the known ones, or else the logged ones.

        Args:
            t, s, a: (n,) step, state and action, of steps that `locate` has found.
            following: (n,) the logged next states.
            reward: (n,) the logged rewards.

        Returns:
            Rewards (n,); NaN where a known one depends on a next state that is not logged.

        """
        known, table = self.problem.rewards, self.problem.table
        if known is None:
            return reward
        out = known.pair[np.minimum(t, len(known.pair) - 1), self._row[s, a]]
        if known.successor is not None:
            row = self._row[s, a] + t * table.stride
            entry = self._find(row, self._resolve(t, following, np.zeros(len(t), bool)))
            more = known.successor[np.minimum(t, len(known.successor) - 1), entry.clip(0)]
            out = out + np.where(entry < 0, np.nan, more)
        return np.asarray(out, float)

    def counted(self, s: int, a: int) -> int:
        """Return the number of counted rows of a state-action pair."""
        row, table = int(self._row[s, a]), self.problem.table
        return 0 if row < 0 else int(self.counts.visits[row : table.start : table.pairs].sum())

    def add(self, rows: CountedRows) -> None:
        """Count rows."""
        counts, table = self.counts, self.problem.table
        t, s, a = rows.t, rows.s, rows.a
        after = self._resolve(t, rows.following, rows.mark & STOPS > 0)
        after = np.where(rows.mark & MISSING_OUTCOME > 0, FAULTY, after)
        self.audit.add(rows.audit_steps(after, self.ends.last(self.horizon)))
        out = after == LEFT_OUT
        self.left_out.append((t[out], s[out], a[out]))
        good = after >= 0
        row = (self._row[s, a] + t * table.stride)[good]
        entry = self._find(row, after[good])
        np.add.at(counts.visits, row, 1)
        np.add.at(counts.successors, entry, 1)
        if len(counts.rewards):
            counts.add_rewards(entry, np.nan_to_num(rows.reward[good]))
        counts.visits[-1] += len(rows.starts)
        start = self._find(np.full(len(rows.starts), table.start), rows.starts)
        np.add.at(counts.successors, start, 1)
        self.counted_rows += len(row)


class UnknownStateCounter:
    """Counts of transitions between states that are discovered in the log.

    Args:
        states, actions: their names, or their number; None if they are not declared.
        horizon: H, or None if unknown.
        ends: the treatment of episodes without a logged end.
        units: the range of rewards.
        ignore_case: whether names that differ only in case and blanks are the same.
        details: whether states are bins.

    Attributes:
        states, actions: the codes of their names, in the order of declaration or discovery.
        audit: the assumption checks, complete after `experience`.
        counted_rows, left_out, has_end: see `KnownStateCounter`; complete after `resolve_ends`.

    """

    has_end = True

    def __init__(
        self,
        states: Sequence[str] | int | None,
        actions: Sequence[str] | int | None,
        horizon: int | None,
        ends: EarlyTermination,
        units: RewardRange = DEFAULT,
        ignore_case: bool = False,
        details: bool = False,
    ) -> None:
        self.horizon, self.ends, self.units, self._details = horizon, ends, units, details
        self.states = LabelCodes(states, ignore_case)
        self.actions = LabelCodes(actions, ignore_case)
        self.audit, self.counted_rows = Audit(), 0
        self.left_out: list[tuple[Ints, Ints, Ints]] = []
        self._rows: list[RowBlock] = []
        self._starts: list[NDArray[np.int32]] = []
        self._pairs: Counter[int] | None = None
        self._terminal: list[int] = []

    def is_terminal(self, s: Ints) -> Bools:
        """Return False (n,): terminal states are unknown before the log has been read."""
        return np.zeros(len(s), bool)

    def locate(
        self,
        t: Ints,
        s: Ints,
        a: Ints,
        following: Ints,  # noqa: ARG002
        stops: Bools,  # noqa: ARG002
    ) -> tuple[Ints, Bools]:
        """Return the table rows (n,) of n steps, -1 for none, and which are possible (n,)."""
        for kind, names in (("state", self.states), ("action", self.actions)):
            if len(names.index) >= CODES:
                raise InputError(f"the log shows {CODES} {kind}s or more: group them into fewer")
        row = np.where((t >= 0) & (s >= 0) & (a >= 0), (t * CODES + s) * CODES + a, -1)
        return row, np.ones(len(t), bool)

    def locate_start(self, s: Ints) -> Bools:
        """Return whether an episode can begin in each of n states (n,)."""
        return s >= 0

    def rewards_of(
        self,
        t: Ints,  # noqa: ARG002
        s: Ints,  # noqa: ARG002
        a: Ints,  # noqa: ARG002
        following: Ints,  # noqa: ARG002
        reward: Floats,
    ) -> Floats:
        """Return the logged rewards (n,)."""
        return reward

    def counted(self, s: int, a: int) -> int:
        """Return the number of counted rows of a pair, after `resolve_ends`."""
        if self._pairs is None:
            self._pairs = Counter()
            for row, after, _, _ in self._rows:
                codes, times = np.unique(row[after >= 0] % CODES**2, return_counts=True)
                self._pairs.update(dict(zip(codes.tolist(), times.tolist(), strict=True)))
        return self._pairs[s * CODES + a]

    def add(self, rows: CountedRows) -> None:
        """Keep rows until the horizon and the ends are known."""
        row = (rows.t * CODES + rows.s) * CODES + rows.a
        following, mark = rows.following.astype(np.int32), rows.mark.astype(np.uint8)
        self._rows.append((row, following, rows.reward, mark))
        self._starts.append(rows.starts.astype(np.int32))

    @property
    def _end_states(self) -> tuple[int, int]:
        """The codes of the states "(end)" and "(left)"."""
        return len(self.states.index), len(self.states.index) + 1

    def resolve_ends(self, horizon: int, terminal: list[int]) -> None:
        """Resolve the next states of all rows, given the horizon and the terminal states."""
        self.horizon, self._terminal = horizon, terminal
        is_end = np.zeros(len(self.states.index), bool)
        is_end[terminal] = True
        for i, (row, following, reward, mark) in enumerate(self._rows):
            t, stops = row // CODES**2, mark & STOPS > 0
            ended = (following >= 0) & is_end[following.clip(0)]
            codes = following.astype(np.int64)
            after = self.ends.resolve(codes, stops, t + 1 == horizon, ended, self._end_states)
            after[mark & MISSING_OUTCOME > 0] = FAULTY
            self._rows[i] = row, after.astype(np.int32), reward, mark
            out = row[after == LEFT_OUT]
            self.left_out.append((out // CODES**2, out // CODES % CODES, out % CODES))
            self.counted_rows += int((after >= 0).sum())

    def experience(self, segments: Sequence[int] | bool, times: range) -> LogContents:
        """Return the contents of the log, with states and actions in order.

        ``segments``: as declared, in the t of the log; ``times``: (H,) the t of each step.
        """
        horizon, terminal, end_states = self.horizon, self._terminal, self._end_states
        assert horizon is not None
        parts = check_segments(segments, horizon, times)
        if self.ends.differ_at_last and horizon > 1:
            # the last step has other next states than the others
            parts = tuple(sorted({*parts, horizon - 1}))
        used = [any((x == code).any() for _, x, _, _ in self._rows) for code in end_states]
        s_names, s_order = _in_order(
            self.states, self.ends.name_end_states(self.states.index, used)
        )
        a_names, a_order = _in_order(self.actions, {})
        number = np.zeros(end_states[1] + 1, np.int64)
        number[s_order] = 1 + np.arange(len(s_order))  # of each code
        ends = {int(number[s]) - 1 for s in (*terminal, *end_states) if number[s]}
        action = np.argsort(a_order)
        data, no_action = SparseCounts(horizon, len(a_order), parts), np.zeros(len(a_order), bool)
        for at in range(len(s_order)):
            data.find(no_action if at in ends else None)
        none = np.zeros(0, np.int64)
        for starts in self._starts:
            data.add(Steps(none, none, none, np.zeros(0), none, number[starts]))
        every = len(parts) + 1 == horizon > 1
        self.audit = Audit(every or parts, True, self._details)
        rows, self._rows = self._rows, []
        for row, after, reward, mark in _merged(rows):
            t, s, a = row // CODES**2, number[row // CODES % CODES], action[row % CODES]
            after = np.where(after < 0, after, number[after])
            step = CountedRows(t, s - 1, a, after, reward, mark, none)
            codes = np.where(after < 0, after, after - 1)
            self.audit.add(step.audit_steps(codes, self.ends.last(horizon)))
            kept = (after >= 0) | (after == LOST)
            # an episode that has left shows no reward: it is 0
            rewards = self.units.scaled(np.where((after >= 0) & np.isnan(reward), 0.0, reward))
            data.add(Steps(t[kept], s[kept], a[kept], rewards[kept], after[kept], none))
        return LogContents(
            Labels("state", s_names, len(s_order)),
            Labels("action", a_names, len(a_order)),
            data,
            tuple(sorted(ends)),
        )


def _merged(rows: list[RowBlock]) -> Iterator[tuple[Ints, Ints, Floats, Ints]]:
    """Yield the rows in larger blocks; ``rows`` is consumed."""
    rows.reverse()
    while rows:
        piece: list[RowBlock] = []
        while rows and sum(len(row) for row, *_ in piece) < PIECE:
            piece.append(rows.pop())
        row, after, reward, mark = (np.concatenate(x) for x in zip(*piece, strict=True))
        yield row, after.astype(np.int64), reward, mark.astype(np.int64)


def _in_order(
    names: LabelCodes, end_states: dict[str, int]
) -> tuple[tuple[str, ...] | None, list[int]]:
    """Return names in the order of a problem, None for 0, 1, ..., n-1, and the code of each.

    ``end_states``: the codes of added states, which come last.
    """
    ordered = list(names.index)
    if names.is_open:
        numbers = all(re.fullmatch("-?[0-9]+", name) for name in ordered)
        ordered.sort(key=(lambda name: (int(name), name)) if numbers else None)
    codes = [names.index[name] for name in ordered]
    plain = ordered == [str(i) for i in range(len(ordered))]
    named = None if plain and not end_states else (*ordered, *end_states)
    return named, [*codes, *end_states.values()]
