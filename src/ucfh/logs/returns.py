"""What the episodes of a log were paid, and whether each is logged to its end."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.logs.labels import ENDED


class EpisodeReturns:
    """Collects what episodes that began were paid, in own units, in their order."""

    def __init__(self) -> None:
        self._paid: list[Floats] = []
        self._length: list[NDArray[np.int32]] = []  # 0: not seen to end
        self._following: list[NDArray[np.int32]] = []

    def add(
        self, begins: Bools, good: Bools, reward: Floats, at: Ints, length: Ints, following: Ints
    ) -> None:
        """Take n rows.

        Args:
            begins: (n,) whether an episode begins there.
            good: (n,) whether a row belongs to what its episode is known by.
            reward: (n,) what each paid; NaN if that is not known.
            at: (k,) the good rows with which episodes end.
            length, following: (k,) the number of steps until then, and what followed.

        """
        number = np.cumsum(begins)  # 0: the episode that goes on from before
        size = int(number[-1]) + 1
        paid = np.bincount(number[good], np.nan_to_num(reward[good]), size).astype(np.float64)
        until, after = np.zeros((2, size), np.int32)
        until[number[at]], after[number[at]] = length, following
        if self._paid:
            self._paid[-1][-1] += paid[0]
            if until[0]:
                self._length[-1][-1], self._following[-1][-1] = until[0], after[0]
        if size > 1:
            self._paid.append(paid[1:])
            self._length.append(until[1:])
            self._following.append(after[1:])

    def close(self, horizon: int, terminal: Bools, left: bool) -> tuple[Floats, Bools]:
        """(k,) what each of k episodes was paid, and whether it is logged to its end.

        Args:
            horizon: H.
            terminal: (S,) whether a state ends the episode.
            left: whether an episode that stops short has ended, too.

        """
        if not self._paid:
            return np.zeros(0), np.zeros(0, bool)
        length, after = np.concatenate(self._length), np.concatenate(self._following)
        ended = (after == ENDED) | ((after >= 0) & terminal[after.clip(0)]) | left
        return np.concatenate(self._paid), (length > 0) & (ended | (length == horizon))
