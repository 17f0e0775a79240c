"""Missing data: rows that cannot be counted, possibly not at random.

A few missing rows can be neglected: k missing of n outcomes of a pair move their mean by at most
k/n, which for five or fewer is about the width of its bound. With more missing rows, the others may
describe another task; see `ucfh.logs.reading`. So there are limits for the rows of the log, for its
episodes, and for the rows of each step, state, action and pair: a reward out of range in the last
of 250 steps is only one row in 250, but may be the only reward of the task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ucfh._utils.arrays import Bools, Ints

FEW = 0.005
"""The share of rows that may be missing without `accept_losses`."""
FEW_EPISODES = 2 * FEW
"""The share of episodes that may be left at an issue: half of their rows are missing."""
PART, LEAST = 0.05, 5
"""The share of a step, state, action or pair that may be missing; a number that always may."""


class Part(NamedTuple):
    """A part of a log with too many missing rows.

    Attributes:
        kind: "step", "state", "action" or "pair".
        code: of the step, state or action; of a pair (state, action).
        missing, seen: the numbers of missing rows, and of all rows.

    """

    kind: str
    code: tuple[int, ...]
    missing: int
    seen: int


class MissingCounts:
    """The numbers of rows and of missing rows, in total and by part.

    Attributes:
        rows, missing: the total numbers of rows, and of missing rows.
        episodes, incomplete: the number of episodes, and of those left at an issue or ending early.
        seen, missing_by: by "step", "state" and "action", (codes,) rows and missing rows.
        missing_pairs: missing rows of each (state, action).

    """

    def __init__(self) -> None:
        self.rows = self.missing = self.episodes = self.incomplete = 0
        self.seen = {name: np.zeros(0, np.int64) for name in ("step", "state", "action")}
        self.missing_by = dict(self.seen)
        self.missing_pairs: Counter[tuple[int, int]] = Counter()

    def add(self, missing: Bools, step: Ints, state: Ints, action: Ints) -> None:
        """Add n rows: whether each is missing (n,), and its codes (n,), negative for none."""
        self.rows += len(missing)
        self.missing += int(missing.sum())
        for name, code in (("step", step), ("state", state), ("action", action)):
            there = code >= 0
            self.seen[name] = _plus(self.seen[name], np.bincount(code[there]))
            if missing.any():
                self.missing_by[name] = _plus(
                    self.missing_by[name], np.bincount(code[there & missing])
                )
        known = missing & (state >= 0) & (action >= 0)
        self.missing_pairs.update(zip(state[known].tolist(), action[known].tolist(), strict=True))

    def mark_missing(self, step: Ints, state: Ints, action: Ints) -> None:
        """Mark n of the rows as missing, by their codes (n,)."""
        self.missing += len(step)
        for name, code in (("step", step), ("state", state), ("action", action)):
            self.missing_by[name] = _plus(self.missing_by[name], np.bincount(code))
        self.missing_pairs.update(zip(state.tolist(), action.tolist(), strict=True))

    def are_few(self, counted: Callable[[int, int], int]) -> bool:
        """Return whether few rows are missing; ``counted(s, a)``: counted rows of a pair."""
        few = self.missing <= FEW * self.rows and self.incomplete <= FEW_EPISODES * self.episodes
        return few and self.worst_part(counted) is None

    def worst_part(self, counted: Callable[[int, int], int]) -> Part | None:
        """Return the first part without any row left, or else the first with too many missing."""
        parts = list(self._parts(counted))
        return next((x for x in parts if x.missing == x.seen), parts[0] if parts else None)

    def _parts(self, counted: Callable[[int, int], int]) -> Iterator[Part]:
        for kind, missing in self.missing_by.items():
            seen = self.seen[kind][: len(missing)]
            all_missing = (missing > 0) & (missing == seen)
            for code in np.flatnonzero(all_missing | _too_many(missing, seen)):
                yield Part(kind, (int(code),), int(missing[code]), int(seen[code]))
        for (s, a), n in self.missing_pairs.items():
            left = counted(s, a)
            if left and _too_many(n, n + left):  # pairs without counted rows are skipped
                yield Part("pair", (s, a), n, n + left)


def _too_many(missing: Any, seen: Any) -> Any:
    """Return whether too many rows of a part are missing; elementwise."""
    return (missing > LEAST) & (missing > PART * seen)


def _plus(one: Ints, other: Ints) -> Ints:
    """Return the sum of two arrays, the shorter one padded with zeros."""
    short, long = sorted((one, other), key=len)
    out = long.copy()
    out[: len(short)] += short
    return out
