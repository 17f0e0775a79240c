"""Logs with a line for each episode, laid out with a row for each step."""

from __future__ import annotations

from itertools import chain, compress, repeat
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.logs.batches import Batch, InvalidValue
from ucfh.logs.column_mapping import STEP, ColumnMapping
from ucfh.logs.labels import ValueCodes, shown, text_of


class _Filled(ValueCodes):
    """Whether a value is there: 1 or 0."""

    def find(self, value: Any) -> int:
        return int(text_of(value) != "")


class WideRows:
    """Makes rows of the lines of a wide log.

    Its steps are the numbers in its header; where all is blank from some step on, the episode
    stopped there. What is of the whole episode (a reward, whether it is done) belongs to the last
    step there is. A step without an action, before another one, cannot be used.
    """

    def __init__(self, roles: ColumnMapping) -> None:
        self._roles, self._filled = roles, _Filled()
        self._before: Any = None  # the id of the line before

    def of(self, batch: Batch) -> Batch:
        """The rows of a batch of lines, by column and part: "state 0", "state 1", ..."""
        roles, T, n = self._roles, len(self._roles.steps), len(batch)
        taken = self._is_filled(batch, ("action", "reward"))
        seen = self._is_filled(batch, ("state",))
        # a step was taken, or a later state seen
        length = np.maximum(_last(taken) + 1, _last(seen)).clip(1, T)
        keep = (np.arange(T) < length[:, None]).ravel().tolist()
        first = np.append(0, np.cumsum(length)[:-1])
        values: dict[str, list[Any]] = {
            "episode": list(chain.from_iterable(map(repeat, self._ids(batch), length.tolist()))),
            "t": list(compress(chain.from_iterable(repeat(roles.steps, n)), keep)),
        }
        for column, parts in roles.columns.items():
            for i, name in enumerate(parts):
                if column in ("episode", "t"):
                    continue
                key = f"{column} {i}" if column in ("state", "next_state") else column
                if STEP in name:
                    values[key] = self._flat(batch, name, 0, keep)
                    if column == "state" and roles.after:
                        values[f"next_state {i}"] = self._flat(batch, name, 1, keep)
                elif column == "state":
                    lists = map(repeat, batch.values[name], length.tolist())
                    values[key] = list(chain.from_iterable(lists))
                    if roles.after:
                        values[f"next_state {i}"] = values[key][:]
                else:
                    values[key] = _at_last(batch.values[name], first + length - 1)
        self._mark_holes(values["action"], taken, first, length)
        broken = {int(first[i]): why for i, why in batch.broken.items()}
        return Batch(np.repeat(batch.lines, length), values, broken, batch.share)

    def _is_filled(self, batch: Batch, columns: tuple[str, ...]) -> Bools:
        """(n, steps) whether some column says something of each step."""
        out: Any = False
        for column in columns:
            for name in self._roles.columns[column]:
                if STEP in name:
                    lists = [batch.values[x] for x in self._roles.by_step[name]]
                    out = out | np.stack([self._filled.of(x) for x in lists], 1).astype(bool)
        return np.asarray(out)

    def _flat(self, batch: Batch, name: str, shift: int, keep: list[bool]) -> list[Any]:
        """The values of a column at all steps that are kept, or ``shift`` steps later."""
        T = len(self._roles.steps)
        lists = [batch.values[x] for x in self._roles.by_step[name][shift : shift + T]]
        return list(compress(chain.from_iterable(zip(*lists, strict=True)), keep))

    def _ids(self, batch: Batch) -> list[Any]:
        """What each line calls its episode; lines that do not say are broken."""
        names = self._roles.columns["episode"]
        if not names:
            return [str(line) for line in batch.lines.tolist()]
        ids = batch.values[names[0]][:]
        for i, value in enumerate(ids):
            text = text_of(value)
            if not text or text == self._before:
                again = f"episode {shown(value)} has the line before, too"
                ids[i] = f"line {batch.lines[i]}"
                batch.broken.setdefault(i, again if text else "its episode is missing")
            self._before = text
        return ids

    def _mark_holes(self, action: list[Any], taken: Bools, first: Ints, length: Ints) -> None:
        """Say of steps without an action what is wrong."""
        names = self._roles.by_step[self._roles.columns["action"][0]]
        filled = self._filled.of(action) == 1
        line = np.repeat(np.arange(len(length)), length)
        for i in np.flatnonzero(~filled).tolist():
            t = i - int(first[line[i]])
            none = not taken[line[i]].any() and length[line[i]] == 1
            why = "it has no step" if none else f"{names[t]} is blank, but what follows is not"
            action[i] = InvalidValue(why)


def _last(filled: Bools) -> Ints:
    """(n,) the last step of each line (n, steps) that is filled, -1 where none is."""
    steps = filled.shape[1]
    return np.where(filled.any(1), steps - 1 - filled[:, ::-1].argmax(1), -1)


def _at_last(column: list[Any], last: Ints) -> list[Any]:
    """Values of lines at their last rows, which are ``last`` (n,), and 0 at all others."""
    out: list[Any] = [0] * (int(last[-1]) + 1)
    for at, value in zip(last.tolist(), column, strict=True):
        out[at] = value
    return out
