"""Planted bugs: each must be caught by the sweep within a modest number of runs.

Unlike the rest of the sweep, this file knows the inside of the package: a rewrite of that has to
plant the same mistakes again.

Bounds are conservative, so mistakes of a few percent of delta (a union bound that forgets actions,
outcomes counted in the order of their arrival) do not show here. `tests/slow/test_open_world.py`
and `tests/slow/test_in_flight.py` plant those where a single event has all of delta.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any
from unittest.mock import patch

import numpy as np

from sweep.sweep import cells_of, exceeding, failing, repeat_case, run_one


@contextmanager
def closed_without_states() -> Iterator[None]:
    """Declared states are closed before any is found: unseen states are worth nothing."""
    from ucfh.sparse_counts import SparseCounts
    from ucfh.tasks.agent import TaskAgent

    made, find = TaskAgent.__init__, SparseCounts.find

    def declare(self: Any, task: Any, *more: Any) -> None:
        made(self, task, *more)
        if task.states is not None:
            self.agent.best._closed = True
            self.agent.plan()

    def find_anyway(self: Any, *given: Any) -> Any:
        was, self.closed = self.closed, False
        try:
            return find(self, *given)
        finally:
            self.closed = was

    with (
        patch.object(TaskAgent, "__init__", declare),
        patch.object(SparseCounts, "find", find_anyway),
    ):
        yield


@contextmanager
def chord_beyond_the_cut() -> Iterator[None]:
    """Known rewards of missing outcomes are spread up to 1, though values are cut off before."""
    from ucfh.confidence.unknown_states import UnknownStateBounds

    take = UnknownStateBounds.update

    def spread(self: Any, data: Any) -> None:
        take(self, data)
        known, H = self.evidence.known, self.horizon
        end = min(1.0, float(self.cap[0] - (self.cap[1] if H > 1 else 0.0)))
        k, least, paid = known["lost_known"], known["lost_least"], known["lost_paid"]
        wrong = k * end - (k - paid) * (end - least) / np.maximum(1.0 - least, 1e-9)
        known["lost_paid"][:] = np.where(least < end, wrong, paid)

    with patch.object(UnknownStateBounds, "update", spread):
        yield


@contextmanager
def missing_at_random() -> Iterator[None]:
    """Missing outcomes of a log are left out, as if they had nothing to do with what they were."""
    from ucfh import certification

    certify = certification.certificate_from_sparse_counts

    def without(data: Any, *given: Any, **more: Any) -> Any:
        return certify(data.without_lost() if data.lost.any() else data, *given, **more)

    with patch.object(certification, "certificate_from_sparse_counts", without):
        yield


@contextmanager
def behavior_without_width() -> Iterator[None]:
    """The mean return of a log is taken for the value of its policy."""
    from dataclasses import replace

    from ucfh import certification
    from ucfh.confidence.behavior_policy import behavior_of as bound

    def exactly(*given: Any) -> Any:
        was = bound(*given)
        return replace(was, lower=was.mean, upper=was.mean) if was.episodes else was

    with patch.object(certification, "behavior_of", exactly):
        yield


@contextmanager
def end_pays_the_least() -> Iterator[None]:
    """After its end an episode is paid the smallest reward, not 0."""
    from ucfh.rewards import RewardRange

    with patch.object(RewardRange, "after_end", property(lambda _: 0.0)):
        yield


Bug = Callable[[], AbstractContextManager[None]]
PLANTED: dict[str, tuple[Bug, str]] = {
    "declared states closed before they are found": (closed_without_states, "task"),
    "chord of known rewards beyond the cut": (chord_beyond_the_cut, "log"),
    "missing outcomes left out": (missing_at_random, "log"),
    "behavior without its confidence width": (behavior_without_width, "log"),
    "the end pays the smallest reward": (end_pays_the_least, "log"),
}
"""Planted bugs, and the entry point that shows them."""


def runs_until_caught(name: str, most: int, first: int = 0) -> int | None:
    """After how many runs a planted bug fails the sweep; None: not within ``most``.

    An error that the package without the bug does not have fails it at once, and so do false
    claims of a case that is repeated, or of cells, beyond their threshold.
    """
    bug, entry = PLANTED[name]
    results = []
    for seed in range(first, first + most):
        with bug():
            x = run_one(entry, seed)
        results.append(x)
        if x.errors and not run_one(entry, seed).errors:
            return len(results)
        with bug():
            cases = repeat_case(x)
        if cases and (failing(cases) or exceeding(cells_of(results), 1e-4)):
            return len(results)
    return None
