"""The checks of a log, episode by episode; `ucfh.logs.reading` gives the reasons."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from operator import ne
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.logs.batches import CUT, Batch, InvalidValue
from ucfh.logs.counting import LOSES, STOPS, CountedRows, KnownStateCounter, UnknownStateCounter
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
from ucfh.logs.times import StepClock
from ucfh.logs.validation import CheckedRows, remedy_of, tell
from ucfh.rewards import DEFAULT, RewardRange

End = tuple[bool, int, int]
MOST_SAMPLED = 5
"""How many steps of the first episode are kept, to be shown."""


def _begin(new: Bools) -> Ints:
    """(n,) where the episode of each row begins among these; new (n,): the first of one."""
    return np.maximum.accumulate(np.where(new, np.arange(len(new)), 0))


def _so_far(marked: Bools, begin: Ints, before: bool) -> Ints:
    """(n,) how many rows of an episode are marked (n,) up to each; ``before``: one was, earlier."""
    total = np.cumsum(marked)
    return np.asarray(total - total[begin] + marked[begin] + (before & (begin == 0)), np.int64)


def _pairs(s: Ints, a: Ints) -> set[tuple[int, int]]:
    """The different pairs of n codes, s (n,) and a (n,)."""
    keys = np.unique(s << 32 | a)
    return set(zip((keys >> 32).tolist(), (keys & (2**32 - 1)).tolist(), strict=True))


class Episodes:
    """Reads rows, counts those that are right, and notes what is wrong with the others.

    Args:
        tally: where to count.
        faults: where to note.
        clock: tells the steps.
        numbers: reads rewards.
        units: the range of rewards.
        apart: how many of the first episodes are not counted.
        whole: whether episodes come as a whole, so that none is cut off at the end of the log.
        terminal: names of states that end an episode, as declared.

    Attributes:
        losses: how many rows and episodes there were, how many are lost, and where.
        returns: what episodes were paid.
        longest: the number of steps of the longest episode, counted or not, as far as its rows
            can be read and follow one another.
        stopped_last: how many episodes stop at the last step, with a blank next state.
        went_on: states from which some row, counted or not, continues.
        not_done, done_in: states in which some row arrived that is not done, and one that is.
        going_on: pairs (s, a) of rows that are not done. ending: (s, a, s') of rows that are.
        ends: how episodes ended that were not left at a fault: by (done, number of steps, what
            followed), how many, and the first lines.
        unfinished: such a key and the line, if the log ends in an episode that is not done.
        range: the least and the largest reward that is shown.
        sample: the first steps that are counted, (t, s, a, what followed, reward) each.

    """

    def __init__(
        self,
        tally: KnownStateCounter | UnknownStateCounter,
        faults: Issues,
        clock: StepClock,
        numbers: Numbers,
        units: RewardRange = DEFAULT,
        apart: int = 0,
        whole: bool = False,
        terminal: Sequence[str] = (),
    ) -> None:
        self.terminal = terminal
        self.tally, self.faults, self.clock = tally, faults, clock
        self.units, self.apart, self.whole = units, apart, whole
        self.longest = self.stopped_last = 0
        self.losses, self.returns = MissingCounts(), EpisodeReturns()
        self.went_on: set[int] = set()
        self.not_done: set[int] = set()
        self.done_in: set[int] = set()
        self.going_on: set[tuple[int, int]] = set()
        self.ending: set[tuple[int, int, int]] = set()
        self.ends: dict[End, tuple[int, list[int]]] = {}
        self.unfinished: tuple[End, int] | None = None
        self.range = np.inf, -np.inf
        self._same, self._differ = False, False  # rewards of an episode, one after another
        self.sample: list[tuple[Any, ...]] = []
        self._sampled = False
        self._numbers, self._flags, self._seen = numbers, FlagCodes(), EpisodeIds()
        # The last row waits for the next one, which shows whether its next_state is right. Of
        # it are kept: what is wrong so far, when it was due, its episode, whether it is the
        # first there, what the episode was left for before it, and whether its rows had ceased
        # to follow one another.
        self._held: Batch | None = None
        self._fault, self._due, self._is_new = 0, 0, True
        self._cause, self._torn = 0, False
        self._id: Any = None

    @property
    def repeats(self) -> bool:
        """Whether all rewards of an episode are the same, and those of others are not."""
        return bool(self._same) and not self._differ and self.range[0] < self.range[1]

    def read(self, batch: Batch) -> None:
        """Check some rows, and count them but for the last, which waits."""
        steps = self._check(batch if self._held is None else self._held.then(batch))
        self._settle(steps, len(steps.new) - 1)
        self._held, self._id = steps.rows.last(), steps.rows.values["episode"][-1]
        self._fault, self._due = int(steps.fault[-1]), int(steps.due[-1])
        self._is_new = bool(steps.new[-1])
        if self._is_new:
            self._cause, self._torn = 0, False

    def finish(self) -> None:
        """Count the last row of all."""
        if self._held is None:
            return
        steps = self._check(self._held, final=True)
        length, over = int(steps.t[0]) + 1, steps.done[0] == 1
        horizon = self.tally.horizon or max(self.longest, length)
        if not self.whole and not over and length < horizon:
            # the log ends here, perhaps before the episode does
            steps.last[0] = False
            if steps.following[0] == STOPPED:
                steps.following[0] = CUT_OFF
            if not self._cause and not steps.fault[0]:
                end = False, length, int(steps.following[0])
                self.unfinished = end, int(steps.rows.lines[0])
        self._settle(steps, 1)

    def _check(self, rows: Batch, final: bool = False) -> CheckedRows:
        """What is wrong with each row, by itself and against the one before and after it."""
        values, n, held, tally = rows.values, len(rows), int(self._held is not None), self.tally
        unsaid, new, again = self._episodes(values["episode"])
        last = np.append(new[1:], final)
        begin = _begin(new)
        due = np.arange(n) - begin + np.where(begin == 0, held * self._due, 0)
        t = self.clock.steps(values.get("t"), new, due)
        s, a = tally.states.of(values["state"]), tally.actions.of(values["action"])
        done = self._flags.of(values["done"]) if "done" in values else np.zeros(n, np.int64)
        reward = self._numbers.of(values["reward"]) if "reward" in values else np.zeros(n)
        if "reward" in values:
            same = (reward[1:] == reward[:-1])[~new[1:]]
            self._same, self._differ = self._same or same.any(), self._differ or not same.all()
        late = np.zeros(n, bool)
        if tally.horizon is not None:
            late = np.minimum(t, due) >= tally.horizon
        readable = ~unsaid
        readable[list(rows.broken)] = False
        if tally.ends.derived:
            usable = readable & (s >= 0)
            following, hidden = self._derive(new, t, s, done, usable)
        else:
            following, hidden = tally.states.of(values["next_state"]), np.zeros(n, bool)
            if self.terminal:
                ending = [tally.states.met(name) for name in self.terminal]
                done[(done == 0) & (following >= 0) & np.isin(following, ending)] = 1
        stops = last & (done != 1)
        blank = self._forgive(values, following, done, stops, t)
        row, possible = tally.locate(np.where((t == due) & ~late, t, -1), s, a, following, stops)
        over = (done == 1) | tally.is_terminal(following)

        # from the last kind to the first, which counts
        fault = np.zeros(n, np.int8)
        fault[~possible] = IssueKind.EXCLUDED
        fault[((following == MISSING) | (following == UNKNOWN)) & ~hidden] = IssueKind.NEXT_STATE
        fault[(reward < self.units.low) | (reward > self.units.high)] = IssueKind.RANGE
        fault[np.isnan(reward) & ~blank] = IssueKind.REWARD
        fault[row < 0] = IssueKind.ACTION
        fault[new & ~tally.locate_start(s)] = IssueKind.START
        fault[s < 0] = IssueKind.STATE
        fault[t != due] = IssueKind.T
        fault[late] = IssueKind.LONG
        fault[tally.is_terminal(s) | (~new & np.append(False, over[:-1]))] = IssueKind.AFTER
        fault[again] = IssueKind.REPEAT
        fault[unsaid | (a == MISSING) | (done == UNKNOWN)] = IssueKind.LINE
        for i, why in rows.broken.items():
            fault[i] = IssueKind.CUT if why == CUT else IssueKind.LINE
        if held and 0 < self._fault <= IssueKind.T:  # which the rows before it showed
            fault[0] = self._fault
        if tally.ends.derived:
            # the next row would show what followed, but has a fault: that is this one's, too
            hidden[:-1] &= fault[:-1] == 0
            fault[:-1][hidden[:-1]] = fault[1:][hidden[:-1]]
        else:
            differs = (s[1:] != following[:-1]) & (s[1:] != MISSING) & (t[1:] == t[:-1] + 1)
            fault[:-1][differs & ~last[:-1] & ~over[:-1] & (fault[:-1] == 0)] = IssueKind.MISMATCH
        return CheckedRows(rows, new, last, t, s, a, following, done, reward, due, fault, hidden)

    def _episodes(self, ids: list[Any]) -> tuple[Bools, Bools, Bools]:
        """(n,) whether a row does not say its episode, is the first of one, of one met before.

        A row that does not say is taken for one of the same episode; the ids are completed.
        """
        n, held = len(ids), int(self._held is not None)
        unsaid, again = np.zeros(n, bool), np.zeros(n, bool)
        if None in ids or "" in ids:
            before = self._id
            for i, value in enumerate(ids):
                unsaid[i] = value is None or value == ""
                before = ids[i] = before if unsaid[i] else value
        new = np.append(self._is_new, np.fromiter(map(ne, ids[1:], ids), bool, n - 1))
        begins = held + np.flatnonzero(new[held:])
        again[begins] = self._seen.add([ids[i] for i in begins])
        return unsaid, new, again

    def _derive(
        self, new: Bools, t: Ints, s: Ints, done: Ints, usable: Bools
    ) -> tuple[Ints, Bools]:
        """(n,) what followed, by the next row, and where that is hidden by its faults."""
        same = np.append(~new[1:], False)
        shows = same & np.append(usable[1:] & (t[1:] == t[:-1] + 1), False)
        following = np.where(shows, np.append(s[1:], STOPPED), STOPPED)
        open_ends = np.asarray(done != 1)
        if self.tally.horizon is not None:
            open_ends &= t + 1 != self.tally.horizon
            following[t + 1 == self.tally.horizon] = STOPPED
        following[done == 1] = ENDED
        hidden = same & ~shows & open_ends
        following[hidden] = MISSING
        return following, hidden

    def _forgive(
        self, values: dict[str, list[Any]], following: Ints, done: Ints, stops: Bools, t: Ints
    ) -> Bools:
        """(n,) where a reward may be blank; a blank next state is the end, or that of a drop-out.

        That an episode stops short is known here only if the horizon is.
        """
        tally, n = self.tally, len(t)
        ends = tally.ends
        short = final = np.zeros(n, bool)
        if tally.horizon is not None:
            short, final = stops & (t + 1 < tally.horizon), stops & (t + 1 == tally.horizon)
        final = final & (ends.dropouts is not None and not ends.derived)
        declared = (short & (ends.dropouts is not None)) | final
        if not ends.derived:
            none = following == MISSING
            for i in np.flatnonzero(none & (((done == 1) & tally.has_end) | declared)).tolist():
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

    def _settle(self, steps: CheckedRows, n: int) -> None:
        """Count the first n rows, or note their faults."""
        if not n:
            return
        fault, new, hidden = steps.fault[:n], steps.new[:n], steps.hidden[:n]
        bad, begin = fault > 0, _begin(new)
        # faults of the episode up to each row
        faults = _so_far(bad, begin, self._cause > 0)
        first = bad & (faults == 1)
        # a line that cannot be read may belong to any episode
        noted = np.where(fault <= IssueKind.CUT, bad & ~hidden, first)
        for kind in np.unique(fault[noted]).tolist():
            at = np.flatnonzero(noted & (fault == kind))
            at += hidden[at]
            lines, example = steps.rows.lines[at].tolist(), partial(tell, self, steps, int(at[0]))
            remedy = partial(remedy_of, self, steps, int(at[0]))
            self.faults.note(IssueKind(kind), lines, example, remedy=remedy)

        counts = self.losses.episodes + np.cumsum(new) > self.apart
        good, harmless = (faults == 0) & counts, is_harmless(fault)
        begins = new & (~bad | hidden | (fault >= IssueKind.ACTION)) & counts
        t, s, a = steps.t[:n], steps.s[:n], steps.a[:n]
        known = (t == steps.due[:n]) & (s >= 0) & (a >= 0) & counts
        loses = (
            first
            & ~harmless
            & known
            & ((fault < IssueKind.REPEAT) | (fault > IssueKind.AFTER) | hidden)
        )
        self._count(steps, good, loses, begins)
        paid, known = np.full(n, np.nan), np.flatnonzero(good)
        t_s_a = t[known], s[known], a[known]
        paid[known] = self.tally.paid(*t_s_a, steps.following[known], steps.reward[known])
        final = t + 1 == self.tally.horizon  # steps after it are not part of the return
        over = steps.last[:n] | (steps.done[:n] == 1) | final
        if not self.tally.ends.derived:
            self.stopped_last += int((good & final & (steps.following[:n] == STOPPED)).sum())
        at = np.flatnonzero(good & ~(np.isnan(paid) & final) & over)
        self.returns.add(begins, good, paid, at, t[at] + 1, steps.following[at])
        self._add_ends(steps, at)

        # what the episode was left for, up to each row
        at = np.maximum.accumulate(np.where(first | new, np.arange(n), 0))
        cause = np.where(first[at], fault[at], np.where(begin == 0, self._cause, 0))
        apart = bad & ((fault < IssueKind.LONG) | (t != steps.due[:n])) & ~hidden
        torn = _so_far(apart, begin, self._torn) > 0
        self.losses.episodes += int(new.sum())
        self.losses.spoilt += int((first & ~harmless & counts).sum())
        self._remember(steps, cause, torn, counts)
        self._cause, self._torn = int(cause[-1]), bool(torn[-1])

    def _count(self, steps: CheckedRows, good: Bools, loses: Bools, begins: Bools) -> None:
        """Pass on rows that are good (n,), or are left with their outcome lost (n,)."""
        n = len(good)
        kept = np.flatnonzero((good & (steps.following[:n] != CUT_OFF)) | loses)
        detail = steps.rows.values.get("detail")
        mark = np.zeros(n, np.int64) if detail is None else np.array(detail[:n], np.int64)
        mark |= np.where(steps.last[:n] & (steps.done[:n] != 1), STOPS, 0)
        mark[loses] |= LOSES
        columns = (steps.t, steps.s, steps.a, steps.following)
        t, s, a, following = (x[kept] for x in columns)
        starts = steps.s[:n][begins]
        self.tally.add(CountedRows(t, s, a, following, steps.reward[kept], mark[kept], starts))
        for i in np.flatnonzero(good)[: MOST_SAMPLED - len(self.sample)].tolist():
            if self._sampled or (self.sample and steps.t[i] != len(self.sample)):
                self._sampled = True
                break
            self.sample.append((*(x[i].item() for x in columns), steps.reward[i].item()))

    def _remember(self, steps: CheckedRows, cause: Ints, torn: Bools, counts: Bools) -> None:
        """Keep what the first n rows show in addition to counts.

        cause (n,) is what each one's episode was left for; torn (n,) whether its rows have ceased
        to follow one another; counts (n,) whether its episode is one that counts.
        """
        n = len(cause)
        columns = (steps.t, steps.s, steps.a, steps.following, steps.done)
        t, s, a, following, done = (x[:n] for x in columns)
        lost = (cause > 0) & ~is_harmless(cause) | (steps.fault[:n] == IssueKind.LINE)
        self.losses.add(lost & counts, np.where(torn, -1, t), s, a)
        self.longest = max(self.longest, int(t[~torn].max(initial=-1)) + 1)
        self.went_on.update(np.unique(s[s >= 0]).tolist())
        there, known = following >= 0, (s >= 0) & (a >= 0)
        ends = (done == 1) & (cause == 0) & there
        self.not_done.update(np.unique(following[there & (done != 1)]).tolist())
        self.done_in.update(np.unique(following[ends]).tolist())
        goes_on = known & (done != 1)
        self.going_on |= _pairs(s[goes_on], a[goes_on])
        last = (x[ends].tolist() for x in (s, a, following))
        self.ending.update(zip(*last, strict=True))
        least, most = self.range
        with np.errstate(invalid="ignore"):
            paid = steps.reward[:n]
            self.range = (
                float(np.fmin.reduce(paid, initial=least)),
                float(np.fmax.reduce(paid, initial=most)),
            )

    def _add_ends(self, steps: CheckedRows, at: Ints) -> None:
        """Remember how episodes ended at rows (k,), unless they lasted to the horizon."""
        at = at[steps.t[at] + 1 != self.tally.horizon]
        after = steps.following[at] - STOPPED
        keys = ((steps.t[at] + 1) * 2 + steps.done[at]) * 2**31 + after
        for key in np.unique(keys).tolist():
            lines = steps.rows.lines[at[keys == key]].tolist()
            end = bool(key >> 31 & 1), key >> 32, (key & (2**31 - 1)) + STOPPED
            count, before = self.ends.get(end, (0, []))
            self.ends[end] = count + len(lines), (before + lines)[:MOST_LINES]
