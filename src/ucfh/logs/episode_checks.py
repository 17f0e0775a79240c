"""Checks of a log, episode by episode; `ucfh.logs.reading` gives the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import ne
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.logs.batches import CUT, Batch, InvalidValue
from ucfh.logs.counting import (
    MISSING_OUTCOME,
    STOPS,
    CountedRows,
    KnownStateCounter,
    UnknownStateCounter,
)
from ucfh.logs.issues import MOST_LINES, IssueKind, Issues, is_harmless
from ucfh.logs.labels import (
    CUT_OFF,
    ENDED,
    MISSING,
    STOPPED,
    UNKNOWN,
    EpisodeIds,
    FlagCodes,
    Numbers,
    text_of,
)
from ucfh.logs.missing_data import MissingCounts
from ucfh.logs.returns import EpisodeReturns
from ucfh.logs.row_issues import CheckedRows, describe, remedy_of
from ucfh.logs.times import StepClock
from ucfh.rewards import DEFAULT, RewardRange

End = tuple[bool, int, int]
MOST_SAMPLED = 5
"""The number of steps of the first episode in the summary."""


def _begin(new: Bools) -> Ints:
    """Return the first row (n,) of the episode of each row, given the first rows ``new`` (n,)."""
    return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))


def _so_far(marked: Bools, begin: Ints, before: bool) -> Ints:
    """Return the running count (n,) of marked rows in an episode; ``before``: count one more."""
    total = np.cumsum(marked)
    return np.asarray(total - total[begin] + marked[begin] + (before & (begin == 0)), np.int64)


def _pairs(s: Ints, a: Ints) -> set[tuple[int, int]]:
    """Return the distinct pairs of codes s (n,) and a (n,)."""
    keys = np.unique(s << 32 | a)
    return set(zip((keys >> 32).tolist(), (keys & (2**32 - 1)).tolist(), strict=True))


class Episodes:
    """Checks rows, counts the valid ones, and collects the issues of the others.

    Args:
        counter: the counter of valid rows.
        issues: the issues to extend.
        clock: the step of each row.
        numbers: the parser of rewards.
        units: the range of rewards.
        held_out: the number of first episodes that are not counted.
        whole: whether episodes are always complete, so that the log cannot end within one.
        terminal: the declared names of terminal states.

    Attributes:
        missing: the numbers of rows and episodes, and of missing ones.
        returns: the returns of episodes.
        longest: the number of steps of the longest episode, counted or not, as far as its rows
            can be read and are consecutive.
        stopped_last: the number of episodes that end at the last step with a blank next state.
        continuing_states: the states of all rows, counted or not.
        not_done_states, done_states: the next states of rows that are not done, and that are.
        continuing_pairs: (s, a) of rows that are not done.
        final_transitions: (s, a, s') of rows that are done.
        ends: the ends of episodes without an issue: by (done, number of steps, next state), their
            number and the first lines.
        unfinished: such a key and the line, if the log ends in an episode that is not done.
        range: the smallest and the largest logged reward.
        sample: the first steps that are counted, (t, s, a, next state, reward) each.

    """

    def __init__(
        self,
        counter: KnownStateCounter | UnknownStateCounter,
        issues: Issues,
        clock: StepClock,
        numbers: Numbers,
        units: RewardRange = DEFAULT,
        held_out: int = 0,
        whole: bool = False,
        terminal: Sequence[str] = (),
    ) -> None:
        self.terminal = terminal
        self.counter, self.issues, self.clock = counter, issues, clock
        self.units, self.held_out = units, held_out
        self.whole = whole
        self.longest = self.stopped_last = 0
        self.missing, self.returns = MissingCounts(), EpisodeReturns()
        self.continuing_states: set[int] = set()
        self.not_done_states: set[int] = set()
        self.done_states: set[int] = set()
        self.continuing_pairs: set[tuple[int, int]] = set()
        self.final_transitions: set[tuple[int, int, int]] = set()
        self.ends: dict[End, tuple[int, list[int]]] = {}
        self.unfinished: tuple[End, int] | None = None
        self.range = np.inf, -np.inf
        self._same, self._differ = False, False  # rewards of an episode, one after another
        self.sample: list[tuple[Any, ...]] = []
        self._sampled = False
        self._numbers, self._flags, self._seen = numbers, FlagCodes(), EpisodeIds()
        # The last row waits for the next one, which confirms its next_state. State of the last
        # row: its issue so far, expected t, episode, whether it is the first row, the issue at
        # which its episode was left before it, and whether its rows are no longer consecutive.
        self._pending: Batch | None = None
        self._issue, self._due, self._is_new = 0, 0, True
        self._cause, self._torn = 0, False
        self._id: Any = None

    @property
    def repeats(self) -> bool:
        """True if rewards are constant within episodes and differ between them."""
        return bool(self._same) and not self._differ and self.range[0] < self.range[1]

    def read(self, batch: Batch) -> None:
        """Check a batch, and count all rows but the last, which waits for the next batch."""
        steps = self._check(batch if self._pending is None else self._pending.then(batch))
        self._process(steps, len(steps.new) - 1)
        self._pending, self._id = steps.rows.last(), steps.rows.values["episode"][-1]
        self._issue, self._due = int(steps.issue[-1]), int(steps.due[-1])
        self._is_new = bool(steps.new[-1])
        if self._is_new:
            self._cause, self._torn = 0, False

    def finish(self) -> None:
        """Count the last row of the log."""
        if self._pending is None:
            return
        steps = self._check(self._pending, final=True)
        length, over = int(steps.t[0]) + 1, steps.done[0] == 1
        horizon = self.counter.horizon or max(self.longest, length)
        if not self.whole and not over and length < horizon:
            # the log ends here, perhaps before the episode does
            steps.last[0] = False
            if steps.following[0] == STOPPED:
                steps.following[0] = CUT_OFF
            if not self._cause and not steps.issue[0]:
                end = False, length, int(steps.following[0])
                self.unfinished = end, int(steps.rows.lines[0])
        self._process(steps, 1)

    def _check(self, rows: Batch, final: bool = False) -> CheckedRows:
        """Check each row by itself and against the rows before and after it."""
        values, n, counter = rows.values, len(rows), self.counter
        pending = int(self._pending is not None)
        no_id, new, again = self._episodes(values["episode"])
        last = np.append(new[1:], final)
        begin = _begin(new)
        due = np.arange(n) - begin + np.where(begin == 0, pending * self._due, 0)
        t = self.clock.steps(values.get("t"), new, due)
        s, a = counter.states.of(values["state"]), counter.actions.of(values["action"])
        done = self._flags.of(values["done"]) if "done" in values else np.zeros(n, np.int64)
        reward = self._numbers.of(values["reward"]) if "reward" in values else np.zeros(n)
        if "reward" in values:
            same = (reward[1:] == reward[:-1])[~new[1:]]
            self._same, self._differ = self._same or same.any(), self._differ or not same.all()
        late = np.zeros(n, bool)
        if counter.horizon is not None:
            late = np.minimum(t, due) >= counter.horizon
        readable = ~no_id
        readable[list(rows.broken)] = False
        if counter.ends.derived:
            usable = readable & (s >= 0)
            following, hidden = self._derive(new, t, s, done, usable)
        else:
            following, hidden = counter.states.of(values["next_state"]), np.zeros(n, bool)
            if self.terminal:
                ending = [counter.states.code_of(name) for name in self.terminal]
                done[(done == 0) & (following >= 0) & np.isin(following, ending)] = 1
        stops = last & (done != 1)
        blank = self._forgive(values, following, done, stops, t)
        row, possible = counter.locate(np.where((t == due) & ~late, t, -1), s, a, following, stops)
        over = (done == 1) | counter.is_terminal(following)

        # from the last kind to the first, which counts
        issue = np.zeros(n, np.int8)
        issue[~possible] = IssueKind.EXCLUDED
        issue[((following == MISSING) | (following == UNKNOWN)) & ~hidden] = IssueKind.NEXT_STATE
        issue[(reward < self.units.low) | (reward > self.units.high)] = IssueKind.RANGE
        issue[np.isnan(reward) & ~blank] = IssueKind.REWARD
        issue[row < 0] = IssueKind.ACTION
        issue[new & ~counter.locate_start(s)] = IssueKind.START
        issue[s < 0] = IssueKind.STATE
        issue[t != due] = IssueKind.T
        issue[late] = IssueKind.LONG
        issue[counter.is_terminal(s) | (~new & np.append(False, over[:-1]))] = IssueKind.AFTER
        issue[again] = IssueKind.REPEAT
        issue[no_id | (a == MISSING) | (done == UNKNOWN)] = IssueKind.LINE
        for i, why in rows.broken.items():
            issue[i] = IssueKind.CUT if why == CUT else IssueKind.LINE
        if pending and 0 < self._issue <= IssueKind.T:  # which the rows before it showed
            issue[0] = self._issue
        if counter.ends.derived:
            # an issue of the next row hides the next state of this row
            hidden[:-1] &= issue[:-1] == 0
            issue[:-1][hidden[:-1]] = issue[1:][hidden[:-1]]
        else:
            differs = (s[1:] != following[:-1]) & (s[1:] != MISSING) & (t[1:] == t[:-1] + 1)
            issue[:-1][differs & ~last[:-1] & ~over[:-1] & (issue[:-1] == 0)] = IssueKind.MISMATCH
        return CheckedRows(rows, new, last, t, s, a, following, done, reward, due, issue, hidden)

    def _episodes(self, ids: list[Any]) -> tuple[Bools, Bools, Bools]:
        """Return masks (n,): the id is missing, first row of an episode, the id was seen before.

        A row without an id belongs to the episode of the row before; ``ids`` is completed.
        """
        n, pending = len(ids), int(self._pending is not None)
        no_id, again = np.zeros(n, bool), np.zeros(n, bool)
        if None in ids or "" in ids:
            before = self._id
            for i, value in enumerate(ids):
                no_id[i] = value is None or value == ""
                before = ids[i] = before if no_id[i] else value
        new = np.append(self._is_new, np.fromiter(map(ne, ids[1:], ids), bool, n - 1))
        begins = pending + np.flatnonzero(new[pending:])
        again[begins] = self._seen.add([ids[i] for i in begins])
        return no_id, new, again

    def _derive(
        self, new: Bools, t: Ints, s: Ints, done: Ints, usable: Bools
    ) -> tuple[Ints, Bools]:
        """Return the next states (n,) by the next rows, and where issues hide them (n,)."""
        same = np.append(~new[1:], False)
        shows = same & np.append(usable[1:] & (t[1:] == t[:-1] + 1), False)
        following = np.where(shows, np.append(s[1:], STOPPED), STOPPED)
        open_ends = np.asarray(done != 1)
        if self.counter.horizon is not None:
            open_ends &= t + 1 != self.counter.horizon
            following[t + 1 == self.counter.horizon] = STOPPED
        following[done == 1] = ENDED
        hidden = same & ~shows & open_ends
        following[hidden] = MISSING
        return following, hidden

    def _forgive(
        self, values: dict[str, list[Any]], following: Ints, done: Ints, stops: Bools, t: Ints
    ) -> Bools:
        """Return where a reward may be blank (n,), and resolve blank next states in ``following``.

        Early termination is known here only if the horizon is.
        """
        counter, n = self.counter, len(t)
        ends = counter.ends
        short = final = np.zeros(n, bool)
        if counter.horizon is not None:
            short, final = stops & (t + 1 < counter.horizon), stops & (t + 1 == counter.horizon)
        final = final & (ends.dropouts is not None and not ends.derived)
        declared = (short & (ends.dropouts is not None)) | final
        if not ends.derived:
            none = following == MISSING
            for i in np.flatnonzero(none & (((done == 1) & counter.has_end) | declared)).tolist():
                if not isinstance(values["next_state"][i], InvalidValue):
                    following[i] = ENDED if done[i] == 1 else STOPPED
        blank = np.zeros(n, bool)
        if "reward" in values:
            rewards = values["reward"]
            free = following == STOPPED if ends.dropouts in (None, "random") else declared
            final = final & (following == STOPPED)
            for i in np.flatnonzero((short & free) | final).tolist():
                blank[i] = not text_of(rewards[i]) and not isinstance(rewards[i], InvalidValue)
        return blank

    def _process(self, steps: CheckedRows, n: int) -> None:
        """Count the first n rows, or note their issues."""
        if not n:
            return
        issue, new, hidden = steps.issue[:n], steps.new[:n], steps.hidden[:n]
        bad, begin = issue > 0, _begin(new)
        # issues of the episode up to each row
        n_issues = _so_far(bad, begin, self._cause > 0)
        first = bad & (n_issues == 1)
        # a line that cannot be read may belong to any episode
        noted = np.where(issue <= IssueKind.CUT, bad & ~hidden, first)
        for kind in np.unique(issue[noted]).tolist():
            at = np.flatnonzero(noted & (issue == kind))
            at += hidden[at]
            lines, row = steps.rows.lines[at].tolist(), int(at[0])
            example = partial(describe, self, steps, row)
            remedy = partial(remedy_of, self, steps, row)
            self.issues.note(IssueKind(kind), lines, example, remedy=remedy)

        counts = self.missing.episodes + np.cumsum(new) > self.held_out
        good, harmless = (n_issues == 0) & counts, is_harmless(issue)
        begins = new & (~bad | hidden | (issue >= IssueKind.ACTION)) & counts
        t, s, a = steps.t[:n], steps.s[:n], steps.a[:n]
        known = (t == steps.due[:n]) & (s >= 0) & (a >= 0) & counts
        missing_outcome = (
            first
            & ~harmless
            & known
            & ((issue < IssueKind.REPEAT) | (issue > IssueKind.AFTER) | hidden)
        )
        self._count(steps, good, missing_outcome, begins)
        reward, known = np.full(n, np.nan), np.flatnonzero(good)
        t_s_a = t[known], s[known], a[known]
        reward[known] = self.counter.rewards_of(*t_s_a, steps.following[known], steps.reward[known])
        final = t + 1 == self.counter.horizon  # steps after it are not part of the return
        over = steps.last[:n] | (steps.done[:n] == 1) | final
        if not self.counter.ends.derived:
            self.stopped_last += int((good & final & (steps.following[:n] == STOPPED)).sum())
        at = np.flatnonzero(good & ~(np.isnan(reward) & final) & over)
        self.returns.add(begins, good, reward, at, t[at] + 1, steps.following[at])
        self._add_ends(steps, at)

        # the issue at which the episode was left, up to each row
        at = np.maximum.accumulate(np.where(first | new, np.arange(n), 0))
        cause = np.where(first[at], issue[at], np.where(begin == 0, self._cause, 0))
        gap = bad & ((issue < IssueKind.LONG) | (t != steps.due[:n])) & ~hidden
        torn = _so_far(gap, begin, self._torn) > 0
        self.missing.episodes += int(new.sum())
        self.missing.incomplete += int((first & ~harmless & counts).sum())
        self._observe(steps, cause, torn, counts)
        self._cause, self._torn = int(cause[-1]), bool(torn[-1])

    def _count(
        self, steps: CheckedRows, good: Bools, missing_outcome: Bools, begins: Bools
    ) -> None:
        """Pass valid rows (n,), and rows whose outcome is missing (n,), to the counter."""
        n = len(good)
        kept = np.flatnonzero((good & (steps.following[:n] != CUT_OFF)) | missing_outcome)
        detail = steps.rows.values.get("detail")
        mark = np.zeros(n, np.int64) if detail is None else np.array(detail[:n], np.int64)
        mark |= np.where(steps.last[:n] & (steps.done[:n] != 1), STOPS, 0)
        mark[missing_outcome] |= MISSING_OUTCOME
        columns = (steps.t, steps.s, steps.a, steps.following)
        t, s, a, following = (x[kept] for x in columns)
        starts = steps.s[:n][begins]
        self.counter.add(CountedRows(t, s, a, following, steps.reward[kept], mark[kept], starts))
        for i in np.flatnonzero(good)[: MOST_SAMPLED - len(self.sample)].tolist():
            if self._sampled or (self.sample and steps.t[i] != len(self.sample)):
                self._sampled = True
                break
            self.sample.append((*(x[i].item() for x in columns), steps.reward[i].item()))

    def _observe(self, steps: CheckedRows, cause: Ints, torn: Bools, counts: Bools) -> None:
        """Update the attributes that are not counts by the first n rows.

        Args:
            steps: the checked rows.
            cause: (n,) the issue at which the episode was left, or 0.
            torn: (n,) whether the rows of the episode are no longer consecutive.
            counts: (n,) whether the episode is counted.

        """
        n = len(cause)
        columns = (steps.t, steps.s, steps.a, steps.following, steps.done)
        t, s, a, following, done = (x[:n] for x in columns)
        missing = (cause > 0) & ~is_harmless(cause) | (steps.issue[:n] == IssueKind.LINE)
        self.missing.add(missing & counts, np.where(torn, -1, t), s, a)
        self.longest = max(self.longest, int(t[~torn].max(initial=-1)) + 1)
        self.continuing_states.update(np.unique(s[s >= 0]).tolist())
        there, known = following >= 0, (s >= 0) & (a >= 0)
        ends = (done == 1) & (cause == 0) & there
        self.not_done_states.update(np.unique(following[there & (done != 1)]).tolist())
        self.done_states.update(np.unique(following[ends]).tolist())
        goes_on = known & (done != 1)
        self.continuing_pairs |= _pairs(s[goes_on], a[goes_on])
        last = (x[ends].tolist() for x in (s, a, following))
        self.final_transitions.update(zip(*last, strict=True))
        least, most = self.range
        with np.errstate(invalid="ignore"):
            rewards = steps.reward[:n]
            self.range = (
                float(np.fmin.reduce(rewards, initial=least)),
                float(np.fmax.reduce(rewards, initial=most)),
            )

    def _add_ends(self, steps: CheckedRows, at: Ints) -> None:
        """Record the ends of episodes at rows (k,), unless they lasted to the horizon."""
        at = at[steps.t[at] + 1 != self.counter.horizon]
        after = steps.following[at] - STOPPED
        keys = ((steps.t[at] + 1) * 2 + steps.done[at]) * 2**31 + after
        for key in np.unique(keys).tolist():
            lines = steps.rows.lines[at[keys == key]].tolist()
            end = bool(key >> 31 & 1), key >> 32, (key & (2**31 - 1)) + STOPPED
            count, before = self.ends.get(end, (0, []))
            self.ends[end] = count + len(lines), (before + lines)[:MOST_LINES]
