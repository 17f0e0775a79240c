"""Concurrent episodes: decisions are taken in one order, and outcomes arrive in another.

The delay of an outcome may depend on the outcome: "bought" arrives at once, "did not buy" only at
the timeout. Counting outcomes as they arrive would therefore be a selection by outcome. Instead
(proofs in `docs/theory/flight.md`),

1. decisions are numbered when they are taken, and an outcome belongs to its decision;
2. for each (segment, state, action) triple, outcomes count up to the first decision whose outcome
   is pending;
3. later outcomes of the same triple are kept `ahead`: bounds on the mean of one function may use
   them, with pending outcomes as missing;
4. the audit gets all decisions in one queue, up to the first open one; if the queue behind that
   one gets long, it passes with a missing outcome.

A missing outcome is known to be missing, and counts as such.

An outcome with contradictory reports counts as pending forever, which is valid for every outcome
and every reason for the second report. If a report names another action than the recommended one,
the outcome is pending in the triples of the recommended action and of every action that a report
names.
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

NO_STEP = (-1, -1, np.nan)
"""Action, state and reward before the first step of an episode."""
LONGEST_QUEUE = 10_000
"""Most decisions that wait for the audit behind an open one."""


class PendingStep:
    """A decision, and its outcome once it is reported.

    Attributes:
        order: its place among all decisions.
        episode, t, state, action: the decision.
        before: action, state and reward of the previous step of its episode.
        reward, following: the outcome, as in `Steps`.
        known, counted: whether its outcome is known, and whether it is counted.
        contradicted: whether it has contradictory reports, and so is never counted.
        extra: whether it is a copy of the decision for another action that a report names; a copy
            is also contradicted.

    """

    __slots__ = (
        "action", "before", "contradicted", "counted", "episode", "extra", "following", "known",
        "order", "reward", "state", "t",
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
        self.known = self.counted = self.contradicted = self.extra = False


class DelayedOutcomes:
    """Orders steps whose outcomes arrive with a delay.

    Args:
        segment: (H,) the segment of each step.

    Attributes:
        open: by episode, the decision whose outcome is pending.

    """

    def __init__(self, segment: Ints) -> None:
        self._segment = segment.tolist()
        self._queue: deque[PendingStep] = deque()  # from the first open one on
        self._triples: dict[tuple[int, int, int], deque[PendingStep]] = {}
        self._before: dict[int, tuple[int, int, float]] = {}  # of episodes that go on
        self._counted: list[PendingStep] = []
        self._passed: list[PendingStep] = []
        self._decided = 0
        self.open: dict[int, PendingStep] = {}

    def decide(
        self, episode: int, t: int, state: int, action: int, named: Iterable[int] = ()
    ) -> None:
        """Add the next decision.

        ``named``: other actions that contradictory reports of it name. Its outcome is unknown for
        these actions, from here on: no earlier draw is left out there.
        """
        before = self._before.pop(episode, NO_STEP)
        self._decided += 1
        step = self.open[episode] = PendingStep(self._decided, episode, t, state, action, before)
        self._queue.append(step)
        if len(self._queue) > LONGEST_QUEUE:
            self._passed.append(self._queue.popleft())
            self._release()
        self._triples.setdefault((self._segment[t], state, action), deque()).append(step)
        for other in named:
            self._add_extra(step, other)

    def _add_extra(self, step: PendingStep, action: int) -> None:
        """Add an unknown outcome of a decision for another action."""
        queue = self._triples.setdefault((self._segment[step.t], step.state, action), deque())
        if all(x.order != step.order for x in queue):
            extra = PendingStep(step.order, step.episode, step.t, step.state, action, step.before)
            extra.contradicted = extra.extra = True
            queue.append(extra)
            if step in self._queue:  # the audit has to know that an outcome is missing there
                self._queue.insert(self._queue.index(step) + 1, extra)

    def tell(
        self, episode: int, reward: float, following: int, is_over: bool, taken: int | None = None
    ) -> None:
        """Add the outcome of an episode's open decision; ``is_over``: whether the episode is over.

        ``taken``: the action taken, if it differs from the recommended one. The decision then moves
        to the end of the queue of that action.
        """
        step = self.open.pop(episode)
        step.reward, step.following, step.known = reward, following, True
        if taken is not None:
            triple = self._segment[step.t], step.state, step.action
            self._triples[triple].remove(step)
            self._count(triple)
            step.action = taken
            self._triples.setdefault((triple[0], step.state, taken), deque()).append(step)
        if not is_over:
            self._before[episode] = step.action, step.state, reward
        self._count((self._segment[step.t], step.state, step.action))
        self._release()

    def mark_unknown(self, episode: int, taken: int | None = None) -> None:
        """Leave the outcome of an episode's open decision unknown.

        ``taken``: the action that its report names, if it differs from the recommended one.
        """
        step = self.open.pop(episode)
        step.contradicted = True
        if taken is not None:
            self._add_extra(step, taken)
        self._release()

    def _count(self, key: tuple[int, int, int]) -> None:
        """Count the steps of a triple up to the first without an outcome."""
        queue = self._triples[key]
        while queue and queue[0].known:
            queue[0].counted = True
            self._counted.append(queue.popleft())
        if not queue:
            del self._triples[key]

    def _release(self) -> None:
        """Pass the steps before the first open decision of the queue to the audit."""
        while self._queue and (self._queue[0].known or self._queue[0].contradicted):
            self._passed.append(self._queue.popleft())

    @property
    def uncounted(self) -> list[PendingStep]:
        """The decisions that are not counted yet, in their order.

        A decision with contradictory actions is listed once for each of them.
        """
        return sorted(self._uncounted(), key=lambda step: (step.order, step.action))

    def _uncounted(self) -> Iterator[PendingStep]:
        """The decisions that are not counted yet, in order within each triple."""
        return chain.from_iterable(self._triples.values())

    def counted(self) -> Steps:
        """Return the steps counted since the last call, in order within each triple."""
        out, self._counted = steps_of(self._counted), []
        return out

    def passed(self) -> tuple[AuditSteps, PreviousStep]:
        """Return the steps passed to the audit since the last call, in order."""
        steps, self._passed = self._passed, []
        earlier = [[x.before[k] for x in steps] for k in range(3)]
        action, state = (np.array(x, np.int64) for x in earlier[:2])
        passages = to_audit_steps(steps_of(steps))
        begins = passages.new & ~np.array([x.extra for x in steps], bool)  # an episode begins once
        before = PreviousStep(action, state, np.array(earlier[2], float))
        return replace(passages, new=begins), before

    def ahead(self, data: SparseCounts) -> SparseCounts | None:
        """Return all data with pending outcomes as missing; None if no outcome is pending."""
        waiting = list(self._uncounted())
        if not waiting:
            return None
        out = data.copy()
        out.add(steps_of(waiting))
        return out

    def state(self) -> dict[str, Any]:
        """Return its state as arrays by name; call `counted` and `passed` before."""
        first = self._queue[0].order if self._queue else self._decided + 1
        # the order within a pair is not that of the decisions if other actions were taken
        kept = [*self._uncounted(), *(x for x in self._queue if x.counted)]
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
        rewards, steps = arrays["flight_paid"].tolist(), list[PendingStep]()
        for numbers, (reward, earlier) in zip(arrays["flight"].tolist(), rewards, strict=True):
            order, episode, t, state, action, following, *last, a, s = numbers
            step = PendingStep(order, episode, t, state, action, (a, s, earlier))
            step.reward, step.following = reward, following
            step.known, step.counted, step.contradicted, step.extra = map(bool, last)
            if order >= first:
                steps.append(step)
            if not step.counted:
                self._triples.setdefault((self._segment[t], state, action), deque()).append(step)
            if not step.known and not step.contradicted:
                self.open[episode] = step
        self._queue = deque(sorted(steps, key=lambda step: (step.order, step.extra)))
        entries = zip(arrays["before"].tolist(), arrays["before_paid"].tolist(), strict=True)
        self._before = {e: (action, state, reward) for (e, action, state), reward in entries}


def steps_of(steps: Sequence[PendingStep]) -> Steps:
    """Return decisions as steps; open ones are missing."""
    return Steps(
        t=np.array([x.t for x in steps], np.int64),
        state=np.array([x.state for x in steps], np.int64),
        action=np.array([x.action for x in steps], np.int64),
        reward=np.array([x.reward for x in steps], float),
        following=np.array([x.following for x in steps], np.int64),
        starts=np.zeros(0, np.int64),
    )


def _table(steps: Iterable[PendingStep]) -> Ints:
    """(n, 12) the integers of decisions."""
    rows = [
        (
            *(x.order, x.episode, x.t, x.state, x.action, x.following),
            *(x.known, x.counted, x.contradicted, x.extra, *x.before[:2]),
        )
        for x in steps
    ]
    return np.array(rows, np.int64).reshape(-1, 12)
