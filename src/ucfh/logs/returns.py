"""The returns of the episodes of a log."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.logs.labels import ENDED


class EpisodeReturns:
    """Collects the returns of episodes, in the units of the log, in their order."""

    def __init__(self) -> None:
        self._returns: list[Floats] = []
        self._length: list[NDArray[np.int32]] = []  # 0: not seen to end
        self._following: list[NDArray[np.int32]] = []

    def add(
        self, begins: Bools, good: Bools, reward: Floats, at: Ints, length: Ints, following: Ints
    ) -> None:
        """Add n rows.

        Args:
            begins: (n,) whether an episode begins there.
            good: (n,) whether a row is before the first issue of its episode.
            reward: (n,) the rewards; NaN where unknown.
            at: (k,) the good rows with which episodes end.
            length, following: (k,) the number of steps until then, and the next states.

        """
        number = np.cumsum(begins)  # 0: the episode that goes on from before
        size = int(number[-1]) + 1
        total = np.bincount(number[good], np.nan_to_num(reward[good]), size).astype(np.float64)
        until, after = np.zeros((2, size), np.int32)
        until[number[at]], after[number[at]] = length, following
        if self._returns:
            self._returns[-1][-1] += total[0]
            if until[0]:
                self._length[-1][-1], self._following[-1][-1] = until[0], after[0]
        if size > 1:
            self._returns.append(total[1:])
            self._length.append(until[1:])
            self._following.append(after[1:])

    def close(self, horizon: int, terminal: Bools, left: bool) -> tuple[Floats, Bools]:
        """Return the returns (k,) of k episodes, and whether each is logged to its end (k,).

        Args:
            horizon: H.
            terminal: (S,) whether a state is terminal.
            left: whether early termination is an end.

        """
        if not self._returns:
            return np.zeros(0), np.zeros(0, bool)
        length, after = np.concatenate(self._length), np.concatenate(self._following)
        ended = (after == ENDED) | ((after >= 0) & terminal[after.clip(0)]) | left
        return np.concatenate(self._returns), (length > 0) & (ended | (length == horizon))
