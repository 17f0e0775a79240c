"""The checks of a log, episode by episode; `ucfh.logs.reading` gives the reasons."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from operator import ne
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh._support.arrays import Bools, Floats, Ints
from ucfh.logs.batches import CUT, Batch
from ucfh.logs.faults import HARMLESS, MOST_LINES, Faults, Kind
from ucfh.logs.labels import MISSING, UNKNOWN, EpisodeIds, Flags, Numbers, Times, shown, text_of
from ucfh.logs.losses import Losses
from ucfh.logs.tally import ShownTally, ToldTally
from ucfh.units import DEFAULT, RewardRange

End = tuple[bool, int, int]


@dataclass(eq=False)
class _Steps:
    """Rows as numbers, each (n,): negative where a value is not there, or means nothing here.

    Attributes:
        rows: the rows themselves.
        new: whether it is the first of its episode.
        t, s, a, following, done, reward: the columns; t counts from 0.
        due: what t should be: how many rows of its episode came before.
        row, entry: where it is counted.
        start: where its state is counted, if it is the first of its episode.
        fault: its `Kind`.

    """

    rows: Batch
    new: Bools
    t: Ints
    s: Ints
    a: Ints
    following: Ints
    done: Ints
    reward: Floats
    due: Ints
    row: Ints
    entry: Ints
    start: Ints
    fault: NDArray[np.int8]


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
        first: the number of the first step, 0 or 1.
        units: the range of rewards.

    Attributes:
        counted: how many of the rows are counted.
        losses: how many rows and episodes there were, how many are lost, and where.
        longest: the number of steps of the longest episode, counted or not, as far as its rows
            can be read and follow one another.
        went_on: states from which some row, counted or not, continues.
        not_done, done_in: states in which some row arrived that is not done, and one that is.
        going_on: pairs (s, a) of rows that are not done. ending: (s, a, s') of rows that are.
        ends: how episodes ended that were not left at a fault: by (done, number of steps, last
            state), how many, and the first lines.
        unfinished: such a key and the line, if the log ends in an episode that is not done.

    """

    def __init__(
        self,
        tally: ToldTally | ShownTally,
        faults: Faults,
        first: int,
        units: RewardRange = DEFAULT,
    ) -> None:
        self.tally, self.faults, self.first = tally, faults, first
        self.units = units
        self.counted = self.longest = 0
        self.losses = Losses()
        self.went_on: set[int] = set()
        self.not_done: set[int] = set()
        self.done_in: set[int] = set()
        self.going_on: set[tuple[int, int]] = set()
        self.ending: set[tuple[int, int, int]] = set()
        self.ends: dict[End, tuple[int, list[int]]] = {}
        self.unfinished: tuple[End, int] | None = None
        self._times, self._numbers, self._flags, self._seen = (
            Times(),
            Numbers(),
            Flags(),
            EpisodeIds(),
        )
        # The last row waits for the next one, which shows whether its next_state is right. Of
        # it are kept: what is wrong so far, when it was due, its episode, whether it is the
        # first there, what the episode was left for before it, and whether its rows had ceased
        # to follow one another.
        self._held: Batch | None = None
        self._fault, self._due, self._is_new = 0, 0, True
        self._cause, self._torn = 0, False
        self._id: Any = None

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
        steps = self._check(self._held)
        self._settle(steps, 1)
        if not self._cause and not steps.done[0]:
            end = (False, int(steps.t[0]) + 1, int(steps.following[0]))
            self.unfinished = end, int(steps.rows.lines[0])

    def _check(self, rows: Batch) -> _Steps:
        """What is wrong with each row, by itself and against the one before and after it."""
        values, n, held = rows.values, len(rows), int(self._held is not None)
        unsaid, new, again = self._episodes(values["episode"])
        t = self._times.of(values["t"]) - self.first
        s, following = (self.tally.states.of(values[name]) for name in ("state", "next_state"))
        a = self.tally.actions.of(values["action"])
        done = self._flags.of(values["done"]) if "done" in values else np.zeros(n, np.int64)
        reward = self._numbers.of(values["reward"]) if "reward" in values else np.zeros(n)
        begin = _begin(new)
        due = np.arange(n) - begin + np.where(begin == 0, held * self._due, 0)
        late = np.zeros(n, bool) if self.tally.horizon is None else t >= self.tally.horizon
        row, entry = self.tally.locate(np.where((t == due) & ~late, t, -1), s, a, following)
        start = self.tally.locate_start(s)
        over = (done == 1) | self.tally.is_terminal(following)

        # from the last kind to the first, which counts
        fault = np.zeros(n, np.int8)
        fault[entry < 0] = Kind.EXCLUDED
        fault[following < 0] = Kind.NEXT_STATE
        fault[(reward < self.units.low) | (reward > self.units.high)] = Kind.RANGE
        fault[np.isnan(reward)] = Kind.REWARD
        fault[row < 0] = Kind.ACTION
        fault[new & (start < 0)] = Kind.START
        fault[s < 0] = Kind.STATE
        fault[late] = Kind.LONG
        fault[t != due] = Kind.T
        fault[self.tally.is_terminal(s) | (~new & np.append(False, over[:-1]))] = Kind.AFTER
        fault[again] = Kind.REPEAT
        fault[unsaid | (a == MISSING) | (done == UNKNOWN)] = Kind.LINE
        for i, why in rows.broken.items():
            fault[i] = Kind.CUT if why == CUT else Kind.LINE
        fault[:held] = self._fault
        differs = (s[1:] != following[:-1]) & (s[1:] != MISSING) & (t[1:] == t[:-1] + 1)
        fault[:-1][differs & ~new[1:] & ~over[:-1] & (fault[:-1] == 0)] = Kind.MISMATCH
        return _Steps(rows, new, t, s, a, following, done, reward, due, row, entry, start, fault)

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

    def _settle(self, steps: _Steps, n: int) -> None:
        """Count the first n rows, or note their faults."""
        if not n:
            return
        fault, new = steps.fault[:n], steps.new[:n]
        bad, begin = fault > 0, _begin(new)
        # faults of the episode up to each row
        faults = _so_far(bad, begin, self._cause > 0)
        # a line that cannot be read may belong to any episode
        noted = bad & ((faults == 1) | (fault <= Kind.CUT))
        for kind in np.unique(fault[noted]).tolist():
            at = np.flatnonzero(noted & (fault == kind))
            lines = steps.rows.lines[at].tolist()
            self.faults.note(Kind(kind), lines, partial(self._tell, steps, int(at[0])))

        good = faults == 0
        begins = new & (~bad | (fault >= Kind.ACTION))
        self.tally.add(
            steps.row[:n][good],
            steps.entry[:n][good],
            self.units.scaled(steps.reward[:n][good]),
            steps.start[:n][begins],
        )
        self.counted += int(good.sum())
        is_last = np.append(steps.new[1:], False)[:n]
        self._add_ends(steps, np.flatnonzero(good & (is_last | (steps.done[:n] == 1))))

        # what the episode was left for, up to each row
        first = bad & (faults == 1)
        at = np.maximum.accumulate(np.where(first | new, np.arange(n), 0))
        cause = np.where(first[at], fault[at], np.where(begin == 0, self._cause, 0))
        torn = _so_far(bad & (fault <= Kind.T), begin, self._torn) > 0
        self.losses.episodes += int(new.sum())
        self.losses.spoilt += int((first & ~np.isin(fault, HARMLESS)).sum())
        self._remember(steps, cause, torn)
        self._cause, self._torn = int(cause[-1]), bool(torn[-1])

    def _remember(self, steps: _Steps, cause: Ints, torn: Bools) -> None:
        """Keep what the first n rows show in addition to counts.

        cause (n,) is what each one's episode was left for; torn (n,) whether its rows have ceased
        to follow one another.
        """
        n = len(cause)
        columns = (steps.t, steps.s, steps.a, steps.following, steps.done)
        t, s, a, following, done = (x[:n] for x in columns)
        lost = (cause > 0) & ~np.isin(cause, HARMLESS) | (steps.fault[:n] == Kind.LINE)
        self.losses.add(lost, np.where(torn, -1, t), s, a)
        self.longest = max(self.longest, int(t[~torn].max(initial=-1)) + 1)
        self.went_on.update(np.unique(s[s >= 0]).tolist())
        ends, known = (done == 1) & (cause == 0), (s >= 0) & (a >= 0)
        self.not_done.update(np.unique(following[(following >= 0) & (done != 1)]).tolist())
        self.done_in.update(np.unique(following[ends]).tolist())
        goes_on = known & (done != 1)
        self.going_on |= _pairs(s[goes_on], a[goes_on])
        last = (x[ends].tolist() for x in (s, a, following))
        self.ending.update(zip(*last, strict=True))

    def _add_ends(self, steps: _Steps, at: Ints) -> None:
        """Remember how episodes ended at rows (k,), unless they lasted to the horizon."""
        at = at[steps.t[at] + 1 != self.tally.horizon]
        keys = ((steps.t[at] + 1) * 2 + steps.done[at]) * 2**31 + steps.following[at]
        for key in np.unique(keys).tolist():
            lines = steps.rows.lines[at[keys == key]].tolist()
            end = bool(key >> 31 & 1), key >> 32, key & (2**31 - 1)
            count, before = self.ends.get(end, (0, []))
            self.ends[end] = count + len(lines), (before + lines)[:MOST_LINES]

    def _tell(self, steps: _Steps, i: int) -> str:
        """What is wrong with a row, in words."""
        rows, kind, tally = steps.rows, steps.fault[i], self.tally

        def show(name: str, at: int = i) -> str:
            return f"{name} {shown(rows.values[name][at])}"

        if i in rows.broken:
            return rows.broken[i]
        columns = {Kind.STATE: "state", Kind.REWARD: "reward", Kind.NEXT_STATE: "next_state"}
        if kind in columns and not text_of(rows.values[columns[kind]][i]):
            return f"its {columns[kind]} is missing"
        if kind == Kind.LINE:
            if steps.a[i] == MISSING:
                return "its action is missing"
            if steps.done[i] == UNKNOWN:
                return f"{show('done')} is neither true nor false"
            return "its episode is missing"
        every = f"the {len(tally.states.index)} states"
        if kind == Kind.EXCLUDED:
            return f"{show('next_state')} cannot follow {show('state')} and {show('action')}"
        if kind == Kind.ACTION and steps.a[i] >= 0:
            return f"{show('state')} has no {show('action')}"
        if kind == Kind.MISMATCH:
            return f"{show('next_state')}, but the next row has {show('state', i + 1)}"
        paid = show("reward") if "reward" in rows.values else ""
        return {
            Kind.REPEAT: f"{show('episode')} appeared before, with others in between",
            Kind.AFTER: f"{show('t')} comes after the end of the episode",
            Kind.T: f"{show('t')} where {steps.due[i] + self.first} is expected",
            Kind.LONG: f"{show('t')} is beyond the horizon of {tally.horizon}",
            Kind.STATE: f"{show('state')} is not one of {every}",
            Kind.START: f"{show('state')} is not one in which the problem begins",
            Kind.ACTION: f"{show('action')} is not one of the {len(tally.actions.index)} actions",
            Kind.REWARD: paid,
            Kind.RANGE: paid,
            Kind.NEXT_STATE: f"{show('next_state')} is not one of {every}",
        }[Kind(kind)]
