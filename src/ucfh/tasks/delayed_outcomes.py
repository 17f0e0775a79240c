"""Episodes that overlap: decisions are taken in one order, and outcomes come in another.

How long an outcome takes may depend on what it is: "bought" comes at once, "did not buy" only when
time is over. Whoever counts outcomes as they arrive selects by outcome. So, as
`docs/theory/flight.md` proves,

1. decisions are numbered when they are taken, and an outcome belongs to its decision;
2. in each row, what is counted ends before the first decision whose outcome is yet to come;
3. what was told after that, in the same row, is kept `ahead`: bounds on the mean of one function
   may use it, with outcomes yet to come as lost;
4. the audit takes all decisions in one line, which ends before the first that is open; if the line
   behind that one gets long, it goes on without knowing what came of it.

An outcome that is lost is known to be so, and counts as such.

An outcome that was reported in two different ways is treated as unknown: it counts like one that
stays open, which is right whatever it was, and whatever the reason for the second report. If a
report names
another action than the given one, the pair of the decision is treated as unknown as well: the outcome
counts as unknown in the pair of the given action and in that of every action that a report names.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.auditing.steps import AuditSteps, PreviousStep, to_audit_steps
from ucfh.sparse_counts import LOST, SparseCounts, Steps

NOTHING = (-1, -1, np.nan)
"""Action, state and reward before the first step of an episode: there were none."""
LONGEST_LINE = 10_000
"""Decisions that the audit lets wait behind one that is open."""


class PendingStep:
    """A decision, and its outcome once it is told.

    Attributes:
        order: its place among all decisions.
        episode, t, state, action: where it was taken, and what.
        before: action, state and reward of the step before in its episode.
        reward, following: what came of it, as in `Steps`.
        told, counted: whether its outcome is told, and whether that is counted.
        doubtful: whether its outcome was reported in different ways, and so is never counted.
        extra: whether it stands for the same decision in the pair of another action that a report
            names; it is doubtful, too.

    """

    __slots__ = (
        "action", "before", "counted", "doubtful", "episode", "extra", "following", "order",
        "reward", "state", "t", "told",
    )  # fmt: skip

    def __init__(
        self,
        order: int,
        episode: int,
        t: int,
        state: int,
        action: int,
        before: tuple[int, int, float],
    ) -> None:
        self.order, self.episode, self.t, self.state, self.action = order, episode, t, state, action
        self.before = before
        self.reward, self.following = np.nan, LOST
        self.told = self.counted = self.doubtful = self.extra = False


class DelayedOutcomes:
    """Takes decisions and outcomes, and gives out steps in the order in which they count.

    Args:
        segment: (H,) the segment of each step.

    Attributes:
        open: by episode, the decision whose outcome is yet to come.

    """

    def __init__(self, segment: Ints) -> None:
        self._segment = segment.tolist()
        self._line: deque[PendingStep] = deque()  # from the first open one on
        self._rows: dict[tuple[int, int, int], deque[PendingStep]] = {}
        self._before: dict[int, tuple[int, int, float]] = {}  # of episodes that go on
        self._counted: list[PendingStep] = []
        self._passed: list[PendingStep] = []
        self._decided = 0
        self.open: dict[int, PendingStep] = {}

    def decide(
        self, episode: int, t: int, state: int, action: int, named: Iterable[int] = ()
    ) -> None:
        """Take a decision, the next one in the order of all.

        ``named``: other actions that contradictory reports of it name. Its outcome is unknown in
        their pairs, from here on: no draw before this decision is left out there.
        """
        before = self._before.pop(episode, NOTHING)
        self._decided += 1
        step = self.open[episode] = PendingStep(self._decided, episode, t, state, action, before)
        self._line.append(step)
        if len(self._line) > LONGEST_LINE:
            self._passed.append(self._line.popleft())
            self._pass_on()
        self._rows.setdefault((self._segment[t], state, action), deque()).append(step)
        for other in named:
            self._add_extra(step, other)

    def _add_extra(self, step: PendingStep, action: int) -> None:
        """Add an unknown outcome of a decision to the pair of another action."""
        row = self._rows.setdefault((self._segment[step.t], step.state, action), deque())
        if all(x.order != step.order for x in row):
            extra = PendingStep(step.order, step.episode, step.t, step.state, action, step.before)
            extra.doubtful = extra.extra = True
            row.append(extra)
            if step in self._line:  # the audit has to know that an outcome is missing there
                self._line.insert(self._line.index(step) + 1, extra)

    def tell(
        self, episode: int, reward: float, following: int, over: bool, taken: int | None = None
    ) -> None:
        """Take the outcome of an episode's open decision; whether the episode is over.

        ``taken``: the action that was taken, if it differs from the one given. The decision then
        leaves its pair, and comes last among those of the pair that it belongs to.
        """
        step = self.open.pop(episode)
        step.reward, step.following, step.told = reward, following, True
        if taken is not None:
            given = self._segment[step.t], step.state, step.action
            self._rows[given].remove(step)
            self._count(given)
            step.action = taken
            self._rows.setdefault((given[0], step.state, taken), deque()).append(step)
        if not over:
            self._before[episode] = step.action, step.state, reward
        self._count((self._segment[step.t], step.state, step.action))
        self._pass_on()

    def suboptimality(self, episode: int, taken: int | None = None) -> None:
        """Let the outcome of an episode's open decision stay unknown.

        ``taken``: the action that its report names, if it differs from the one given.
        """
        step = self.open.pop(episode)
        step.doubtful = True
        if taken is not None:
            self._add_extra(step, taken)
        self._pass_on()

    def _count(self, key: tuple[int, int, int]) -> None:
        """Count the steps of a row up to the first without an outcome."""
        row = self._rows[key]
        while row and row[0].told:
            row[0].counted = True
            self._counted.append(row.popleft())
        if not row:
            del self._rows[key]

    def _pass_on(self) -> None:
        """Give the audit what comes before the first open decision of the line."""
        while self._line and (self._line[0].told or self._line[0].doubtful):
            self._passed.append(self._line.popleft())

    @property
    def uncounted(self) -> list[PendingStep]:
        """The decisions that are not counted yet, in their order, open or behind an open one.

        One whose pair is treated as unknown is listed once for each action that it may belong to.
        """
        return sorted(self._in_rows(), key=lambda step: (step.order, step.action))

    def _in_rows(self) -> Iterator[PendingStep]:
        """The decisions that are not counted yet, those of a pair in its order."""
        return chain.from_iterable(self._rows.values())

    def counted(self) -> Steps:
        """The steps that have come to count since this was called last, those of a row in order."""
        out, self._counted = steps_of(self._counted), []
        return out

    def passed(self) -> tuple[AuditSteps, PreviousStep]:
        """The steps that the audit may take since this was called last, in their order."""
        line, self._passed = self._passed, []
        earlier = [[x.before[k] for x in line] for k in range(3)]
        action, state = (np.array(x, np.int64) for x in earlier[:2])
        passages = to_audit_steps(steps_of(line))
        begins = passages.new & ~np.array([x.extra for x in line], bool)  # an episode begins once
        before = PreviousStep(action, state, np.array(earlier[2], float))
        return replace(passages, new=begins), before

    def ahead(self, data: SparseCounts) -> SparseCounts | None:
        """All that was told, with what is yet to come as lost; None if nothing is waiting."""
        waiting = list(self._in_rows())
        if not waiting:
            return None
        out = data.copy()
        out.add(steps_of(waiting))
        return out

    def state(self) -> dict[str, Any]:
        """All of it as arrays by name, to be stored; nothing may be left to be given out."""
        first = self._line[0].order if self._line else self._decided + 1
        # the order within a pair is not that of the decisions if other actions were taken
        kept = [*self._in_rows(), *(x for x in self._line if x.counted)]
        before = sorted(self._before.items())
        return {
            "decided": np.array([self._decided, first]),
            "flight": _table(kept),
            "flight_paid": np.array([(x.reward, x.before[2]) for x in kept]).reshape(-1, 2),
            "before": np.array([(e, *x[:2]) for e, x in before], np.int64).reshape(-1, 3),
            "before_paid": np.array([x[2] for _, x in before], float),
        }

    def restore(self, arrays: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        self._decided, first = arrays["decided"].tolist()
        paid, line = arrays["flight_paid"].tolist(), list[PendingStep]()
        for numbers, (reward, earlier) in zip(arrays["flight"].tolist(), paid, strict=True):
            order, episode, t, state, action, following, *last, a, s = numbers
            step = PendingStep(order, episode, t, state, action, (a, s, earlier))
            step.reward, step.following = reward, following
            step.told, step.counted, step.doubtful, step.extra = map(bool, last)
            if order >= first:
                line.append(step)
            if not step.counted:
                self._rows.setdefault((self._segment[t], state, action), deque()).append(step)
            if not step.told and not step.doubtful:
                self.open[episode] = step
        self._line = deque(sorted(line, key=lambda step: (step.order, step.extra)))
        entries = zip(arrays["before"].tolist(), arrays["before_paid"].tolist(), strict=True)
        self._before = {e: (action, state, reward) for (e, action, state), reward in entries}


def steps_of(line: Sequence[PendingStep]) -> Steps:
    """Decisions as steps; those that are open are lost."""
    return Steps(
        t=np.array([x.t for x in line], np.int64),
        state=np.array([x.state for x in line], np.int64),
        action=np.array([x.action for x in line], np.int64),
        reward=np.array([x.reward for x in line], float),
        following=np.array([x.following for x in line], np.int64),
        starts=np.zeros(0, np.int64),
    )


def _table(line: Iterable[PendingStep]) -> Ints:
    """(n, 12) the integers of decisions."""
    rows = [
        (
            *(x.order, x.episode, x.t, x.state, x.action, x.following),
            *(x.told, x.counted, x.doubtful, x.extra, *x.before[:2]),
        )
        for x in line
    ]
    return np.array(rows, np.int64).reshape(-1, 12)
