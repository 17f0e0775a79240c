"""What a log lost: rows that cannot be counted, perhaps because of what they would show.

A few lost rows can be assumed away. Where there are more of them, or all of one step, one state or
one action, what is left describes another task than the one that was logged; see `ucfh.live.logs`.
"""

from __future__ import annotations

import numpy as np

from ucfh.table import Bools, Ints

FEW = 0.005
"""The share of rows that may be lost without being asked: a few in a thousand."""


class Losses:
    """How many rows there are, and are lost: of all, and of each step, state and action.

    Attributes:
        rows, lost: of all.
        seen, gone: by "step", "state" and "action", (codes,) of each.

    """

    def __init__(self) -> None:
        self.rows = self.lost = 0
        self.seen = {name: np.zeros(0, np.int64) for name in ("step", "state", "action")}
        self.gone = dict(self.seen)

    def add(self, lost: Bools, **codes: Ints) -> None:
        """Take n rows: whether each is lost (n,), and its codes (n,) by name, negative for none."""
        self.rows += len(lost)
        self.lost += int(lost.sum())
        for name, code in codes.items():
            there = code >= 0
            self.seen[name] = _plus(self.seen[name], np.bincount(code[there]))
            if lost.any():
                self.gone[name] = _plus(self.gone[name], np.bincount(code[there & lost]))

    @property
    def are_few(self) -> bool:
        """Whether they can be assumed away."""
        return self.lost <= FEW * self.rows and self.whole() is None

    def whole(self) -> tuple[str, int] | None:
        """The first ("step", "state" or "action", code) of which every row is lost."""
        for name, gone in self.gone.items():
            all_gone = np.flatnonzero((gone > 0) & (gone == self.seen[name][: len(gone)]))
            if all_gone.size:
                return name, int(all_gone[0])
        return None


def _plus(one: Ints, other: Ints) -> Ints:
    """The sum of two arrays, the shorter of them continued with zeros."""
    short, long = sorted((one, other), key=len)
    out = long.copy()
    out[: len(short)] += short
    return out
