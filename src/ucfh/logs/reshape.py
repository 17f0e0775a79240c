"""Conversion of wide logs, a line for each episode, to a row for each step."""

from __future__ import annotations

from itertools import chain, compress, repeat
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.logs.batches import Batch, InvalidValue
from ucfh.logs.column_mapping import STEP, ColumnMapping
from ucfh.logs.labels import ValueCodes, quoted, text_of


class _PresenceCodes(ValueCodes):
    """The codes of values: 1 if present, 0 if blank."""

    def find(self, value: Any) -> int:
        return int(text_of(value) != "")


class WideRows:
    """Converts the lines of a wide log to rows.

    The steps are the numbers in the header. An episode ends where all later values are blank. A
    value of the whole episode (a reward, done) belongs to its last step. A step without an action
    before another step is invalid.
    """

    def __init__(self, mapping: ColumnMapping) -> None:
        self._mapping, self._filled = mapping, _PresenceCodes()
        self._before: Any = None  # the id of the line before

    def of(self, batch: Batch) -> Batch:
        """Return the rows of a batch of lines, by column and part: "state 0", "state 1", ..."""
        mapping, T, n = self._mapping, len(self._mapping.steps), len(batch)
        acted = self._is_filled(batch, ("action", "reward"))
        has_state = self._is_filled(batch, ("state",))
        # up to the last action, or the step before the last state
        length = np.maximum(_last(acted) + 1, _last(has_state)).clip(1, T)
        keep = (np.arange(T) < length[:, None]).ravel().tolist()
        first = np.append(0, np.cumsum(length)[:-1])
        values: dict[str, list[Any]] = {
            "episode": list(chain.from_iterable(map(repeat, self._ids(batch), length.tolist()))),
            "t": list(compress(chain.from_iterable(repeat(mapping.steps, n)), keep)),
        }
        for column, parts in mapping.columns.items():
            for i, name in enumerate(parts):
                if column in ("episode", "t"):
                    continue
                key = f"{column} {i}" if column in ("state", "next_state") else column
                if STEP in name:
                    values[key] = self._flat(batch, name, 0, keep)
                    if column == "state" and mapping.after:
                        values[f"next_state {i}"] = self._flat(batch, name, 1, keep)
                elif column == "state":
                    lists = map(repeat, batch.values[name], length.tolist())
                    values[key] = list(chain.from_iterable(lists))
                    if mapping.after:
                        values[f"next_state {i}"] = values[key][:]
                else:
                    values[key] = _at_last(batch.values[name], first + length - 1)
        self._mark_holes(values["action"], acted, first, length)
        broken = {int(first[i]): why for i, why in batch.broken.items()}
        return Batch(np.repeat(batch.lines, length), values, broken, batch.share)

    def _is_filled(self, batch: Batch, columns: tuple[str, ...]) -> Bools:
        """Return whether some column has a value at each step (n, steps)."""
        out: Any = False
        for column in columns:
            for name in self._mapping.columns[column]:
                if STEP in name:
                    lists = [batch.values[x] for x in self._mapping.by_step[name]]
                    out = out | np.stack([self._filled.of(x) for x in lists], 1).astype(bool)
        return np.asarray(out)

    def _flat(self, batch: Batch, name: str, shift: int, keep: list[bool]) -> list[Any]:
        """Return the values of a column at the steps to keep, or ``shift`` steps later."""
        T = len(self._mapping.steps)
        lists = [batch.values[x] for x in self._mapping.by_step[name][shift : shift + T]]
        return list(compress(chain.from_iterable(zip(*lists, strict=True)), keep))

    def _ids(self, batch: Batch) -> list[Any]:
        """Return the episode id of each line; lines without one are broken."""
        names = self._mapping.columns["episode"]
        if not names:
            return [str(line) for line in batch.lines.tolist()]
        ids = batch.values[names[0]][:]
        for i, value in enumerate(ids):
            text = text_of(value)
            if not text or text == self._before:
                again = f"episode {quoted(value)} is also on the line before"
                ids[i] = f"line {batch.lines[i]}"
                batch.broken.setdefault(i, again if text else "its episode is missing")
            self._before = text
        return ids

    def _mark_holes(self, action: list[Any], acted: Bools, first: Ints, length: Ints) -> None:
        """Replace blank actions by their errors."""
        names = self._mapping.by_step[self._mapping.columns["action"][0]]
        filled = self._filled.of(action) == 1
        line = np.repeat(np.arange(len(length)), length)
        for i in np.flatnonzero(~filled).tolist():
            t = i - int(first[line[i]])
            none = not acted[line[i]].any() and length[line[i]] == 1
            why = "it has no step" if none else f"{names[t]} is blank, but what follows is not"
            action[i] = InvalidValue(why)


def _last(filled: Bools) -> Ints:
    """Return the last filled step (n,) of each line (n, steps), -1 for none."""
    steps = filled.shape[1]
    return np.where(filled.any(1), steps - 1 - filled[:, ::-1].argmax(1), -1)


def _at_last(column: list[Any], last: Ints) -> list[Any]:
    """Return the values of lines at their last rows ``last`` (n,), and 0 at all others."""
    out: list[Any] = [0] * (int(last[-1]) + 1)
    for at, value in zip(last.tolist(), column, strict=True):
        out[at] = value
    return out
