"""Rows of a log in a Minari data set, with integer observations as states.

A terminated episode is done, and its next state is the end, whatever the last observation: other
episodes may continue from the same observation. A truncated episode ends early.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import Any

from ucfh._utils.files import naming
from ucfh.exceptions import InputError, not_installed
from ucfh.logs.batches import COLUMNS, Batch, collect

PREFIX = "minari:"
"""The prefix of the path of a data set."""


class MinariSource:
    """A Minari data set, or the id of a local one."""

    unit, columns = "row", list(COLUMNS)

    def __init__(self, data: Any) -> None:
        try:
            import minari
        except ImportError:
            raise not_installed("a Minari data set", "minari") from None
        if isinstance(data, str):
            name = data.removeprefix(PREFIX)
            with naming(data):
                try:
                    data = minari.load_dataset(name)
                except (OSError, ValueError, ImportError) as error:
                    reason = " ".join(str(error).split())
                    raise InputError(
                        f"{reason}; download it with: minari download {name}"
                    ) from None
        self._data, self.kind = data, f"the Minari data set {data.spec.dataset_id}"
        self._state = _reader("observation", data.observation_space)
        self._action = _reader("action", data.action_space)

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:  # noqa: ARG002
        """Yield all rows, with the wanted columns."""
        at = [COLUMNS.index(name) for name in wanted]
        row, total = count(1), max(1, int(self._data.total_steps))

        def rows() -> Iterator[tuple[int, Sequence[Any]]]:
            for episode in self._data.iterate_episodes():
                seen, over = self._state(episode.observations), episode.terminations.tolist()
                after = [None if end else s for s, end in zip(seen[1:], over, strict=True)]
                steps = (self._action(episode.actions), episode.rewards.tolist(), after, over)
                for t, (s, *step) in enumerate(zip(seen[:-1], *steps, strict=True)):
                    values = (int(episode.id), t, s, *step)
                    yield next(row), [values[j] for j in at]

        for batch in collect(rows(), wanted):
            batch.share = int(batch.lines[-1]) / total
            yield batch


def _reader(what: str, space: Any) -> Callable[[Any], list[Any]]:
    """Return a function that converts arrays of a space to lists of values."""
    from gymnasium import spaces

    if isinstance(space, spaces.Discrete):
        return lambda values: [int(x) for x in values]
    whole = isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary)
    if whole and space.dtype.kind in "biu":
        return lambda values: [x.tolist() for x in values]
    raise InputError(
        f"its {what} space is {' '.join(str(space).split())[:80]}, but integers are needed: "
        "write a log with states of your own, in a frame or a file"
    )
