"""Transformation of source columns to log columns, batch by batch.

source  ->  a row for each step  ->  parts joined, numbers binned  ->  log columns
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from ucfh.exceptions import InputError, unknown
from ucfh.logs.batches import Batch
from ucfh.logs.bins import Bins, quantile_bins
from ucfh.logs.column_mapping import STEP, ColumnMapping
from ucfh.logs.composite_states import NumberPart, TextPart, details, join
from ucfh.logs.reshape import WideRows
from ucfh.logs.settings import Cuts, Quantiles


class ColumnLayout:
    """Transforms source columns to log columns, and adds a column "detail" if there are bins.

    Args:
        mapping: the source columns of each log column.
        bins: the bins of columns that are parts of the state.
        decimal: the decimal mark.

    Attributes:
        derived: whether next states are derived from the next rows, for lack of a column.
        held_out: the number of first episodes that serve to choose bins and are not counted.

    """

    def __init__(self, mapping: ColumnMapping, bins: Cuts, decimal: str) -> None:
        state, following = mapping.columns["state"], mapping.columns["next_state"]
        for column in bins:
            if column not in state:
                raise unknown("column of the state", column, state)
        self.mapping, self.derived = mapping, not following and not mapping.after
        self._wide = WideRows(mapping) if mapping.steps else None
        self._cuts = [bins.get(column) for column in state]
        self.held_out = max((x.episodes for x in self._cuts if isinstance(x, Quantiles)), default=0)

        def parts(columns: tuple[str, ...]) -> list[TextPart | NumberPart]:
            pairs = zip(columns, self._cuts, strict=True)
            return [TextPart(x) if cut is None else NumberPart(x, decimal) for x, cut in pairs]

        self._parts = {"state": parts(state)}
        if not self.derived:
            self._parts["next_state"] = parts(state if mapping.after else following)
        for i, cut in enumerate(self._cuts):
            if isinstance(cut, tuple):
                self._cut(i, Bins(_plain(state[i]), cut))

    def transform(self, batches: Iterable[Batch]) -> Iterator[Batch]:
        """Yield the log columns of all rows."""
        rest = iter(batches)
        begin = self._choose_bins(rest) if self.held_out else []
        for batch in chain(begin, map(self._long, rest)):
            for column, parts in self._parts.items():
                self._join(batch.values, column, parts)
            yield batch

    @property
    def combinations(self) -> int:
        """The number of states that the values seen so far could form."""
        return prod(max(1, part.variety) for part in self._parts["state"])

    def too_many_states(self, text: str) -> str:
        """Return ``text`` with the remedy for too many states: bin the part with most values."""
        worst = max(self._parts["state"], key=lambda part: part.variety)
        if len(self._parts["state"]) == 1:
            return f"{text}: group them into fewer, or cut {worst.column!r} into bins"
        return (
            f"{text}: {worst.column!r} alone has {worst.variety} values; leave it out of the "
            f"state, or cut it into bins, --bins {worst.column}=EDGE,EDGE"
        )

    def _long(self, batch: Batch) -> Batch:
        """Return a row for each step, by column and part: "state 0", "state 1", ..."""
        if self._wide is not None:
            return self._wide.of(batch)
        values: dict[str, list[Any]] = {}
        for column, names in self.mapping.columns.items():
            for i, name in enumerate(names):
                key = f"{column} {i}" if column in self._parts else column
                values[key] = batch.values[name][:]
        return Batch(batch.lines, values, batch.broken, batch.share)

    def _join(
        self, values: dict[str, list[Any]], column: str, parts: list[TextPart | NumberPart]
    ) -> None:
        """Replace the parts of a column by their joined values."""
        columns = [values.pop(f"{column} {i}") for i in range(len(parts))]
        if isinstance(parts[0], TextPart) and len(parts) == 1:
            values[column] = columns[0]
            return
        codes, halves = [], []
        for part, given in zip(parts, columns, strict=True):
            if column == "state" and isinstance(part, NumberPart):
                code, upper = part.with_halves(given)
                halves.append(upper)
            else:
                code = part.of(given)
            codes.append(code)
        values[column] = join(parts, codes)
        if halves:
            values["detail"] = details(halves).tolist()

    def _cut(self, i: int, bins: Bins) -> None:
        for parts in self._parts.values():
            part = parts[i]
            assert isinstance(part, NumberPart)
            part.cut(bins)

    def _choose_bins(self, batches: Iterator[Batch]) -> list[Batch]:
        """Read the held-out episodes, and choose bins by them."""
        begin: list[Batch] = []
        place: list[int] = []  # of the episode of each row, from 1
        before: Any = None
        for batch in map(self._long, batches):
            begin.append(batch)
            for value in batch.values["episode"]:
                given = value is not None and value != ""
                place.append((place[-1] if place else 0) + (given and value != before))
                before = value if given else before
            if place[-1] > self.held_out:
                break
        else:
            raise InputError(
                f"bins: it has {place[-1] if place else 0} episodes, so the first {self.held_out} "
                "cannot be set apart: pass fewer"
            )
        for i, cut in enumerate(self._cuts):
            if isinstance(cut, Quantiles):
                part = self._parts["state"][i]
                assert isinstance(part, NumberPart)
                column = list(chain.from_iterable(x.values[f"state {i}"] for x in begin))
                numbers = part.numbers(column)[np.array(place) <= cut.episodes]
                numbers, name = numbers[~np.isnan(numbers)], self.mapping.columns["state"][i]
                self._cut(i, quantile_bins(name, _plain(name), cut, numbers))
        return begin


def _plain(name: str) -> str:
    """Return the name of a column without its step mark: "score" for "score_{t}"."""
    return name.replace(STEP, "").strip(" _-.") or name
