"""The losses of a log: rows that cannot be counted, perhaps because of what they would show.

A few lost rows can be neglected: k lost of n outcomes of a pair move their mean by at most k/n,
which for five or fewer is about what its bound allows anyway. Where more are lost, what is left
may describe another task than the one that was logged; see `ucfh.logs.reading`. So there is a limit
for the rows of the log, for its episodes, and for the rows of each step, state, action and pair: a
reward out of range in the last of 250 steps is only one row in 250, and all that the log is about.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

from ucfh._utils.arrays import Bools, Ints

FEW = 0.005
"""The share of rows that may be lost without `accept_losses`: a few in a thousand."""
FEW_EPISODES = 2 * FEW
"""The share of episodes that may be left at a fault: half of their rows are lost, on average."""
PART, LEAST = 0.05, 5
"""The share that may be lost of one step, state, action or pair; and the number that always may."""


class Part(NamedTuple):
    """A part of a log that lost too much.

    Attributes:
        kind: "step", "state", "action" or "pair".
        code: of the step, state or action; of a pair (state, action).
        gone, seen: how many of its rows are lost, and how many there are.

    """

    kind: str
    code: tuple[int, ...]
    gone: int
    seen: int


class MissingCounts:
    """How many rows there are, and are lost: of all, and of each part.

    Attributes:
        rows, lost: of all.
        episodes: how many there are. spoilt: how many are left at a fault, or stop short.
        seen, gone: by "step", "state" and "action", (codes,) rows of each.
        gone_of_pair: lost rows of each (state, action).

    """

    def __init__(self) -> None:
        self.rows = self.lost = self.episodes = self.spoilt = 0
        self.seen = {name: np.zeros(0, np.int64) for name in ("step", "state", "action")}
        self.gone = dict(self.seen)
        self.gone_of_pair: Counter[tuple[int, int]] = Counter()

    def add(self, lost: Bools, step: Ints, state: Ints, action: Ints) -> None:
        """Take n rows: whether each is lost (n,), and its codes (n,), negative for none."""
        self.rows += len(lost)
        self.lost += int(lost.sum())
        for name, code in (("step", step), ("state", state), ("action", action)):
            there = code >= 0
            self.seen[name] = _plus(self.seen[name], np.bincount(code[there]))
            if lost.any():
                self.gone[name] = _plus(self.gone[name], np.bincount(code[there & lost]))
        known = lost & (state >= 0) & (action >= 0)
        self.gone_of_pair.update(zip(state[known].tolist(), action[known].tolist(), strict=True))

    def lose(self, step: Ints, state: Ints, action: Ints) -> None:
        """Take n of the rows for lost after all, by their codes (n,)."""
        self.lost += len(step)
        for name, code in (("step", step), ("state", state), ("action", action)):
            self.gone[name] = _plus(self.gone[name], np.bincount(code))
        self.gone_of_pair.update(zip(state.tolist(), action.tolist(), strict=True))

    def are_few(self, counted: Callable[[int, int], int]) -> bool:
        """Whether they can be neglected; counted(s, a) is how many rows of a pair are."""
        few = self.lost <= FEW * self.rows and self.spoilt <= FEW_EPISODES * self.episodes
        return few and self.worst(counted) is None

    def worst(self, counted: Callable[[int, int], int]) -> Part | None:
        """The first part that lost all of its rows, or else the first that lost too many."""
        parts = list(self._parts(counted))
        return next((x for x in parts if x.gone == x.seen), parts[0] if parts else None)

    def _parts(self, counted: Callable[[int, int], int]) -> Iterator[Part]:
        for kind, gone in self.gone.items():
            seen = self.seen[kind][: len(gone)]
            for code in np.flatnonzero((gone > 0) & (gone == seen) | _too_many(gone, seen)):
                yield Part(kind, (int(code),), int(gone[code]), int(seen[code]))
        for (s, a), n in self.gone_of_pair.items():
            left = counted(s, a)
            if left and _too_many(n, n + left):  # of a pair without any, nothing is said
                yield Part("pair", (s, a), n, n + left)


def _too_many(gone: Any, seen: Any) -> Any:
    """Whether too many rows are lost of those of a part; elementwise."""
    return (gone > LEAST) & (gone > PART * seen)


def _plus(one: Ints, other: Ints) -> Ints:
    """The sum of two arrays, the shorter of them continued with zeros."""
    short, long = sorted((one, other), key=len)
    out = long.copy()
    out[: len(short)] += short
    return out
