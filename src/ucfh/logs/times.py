"""Which step of its episode a row is: as its t says, by its date, or by its place."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.logs.labels import MISSING, ValueCodes, text_of

PEEK = 1000
"""The number of rows that are searched for a step 0, or for dates."""
MANY = 100
"""So many rows with t > 0 show in which unit it counts; fewer may lack steps by accident."""
MICROSECOND = timedelta(microseconds=1)


class TimeCodes(ValueCodes):
    """Time steps: whole numbers from 0 on; nothing else is one."""

    def find(self, value: Any) -> int:
        """The time step, or `MISSING`."""
        text = text_of(value)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else MISSING


class Dates(ValueCodes):
    """Dates and times as ISO 8601 writes them, in microseconds; without a zone they are UTC."""

    def find(self, value: Any) -> int:
        """Microseconds since the beginning of 1 A.D., or `MISSING`."""
        try:
            found = value if isinstance(value, date) else datetime.fromisoformat(text_of(value))
        except ValueError:
            return MISSING
        if not isinstance(found, datetime):
            found = datetime(found.year, found.month, found.day)
        zoned = found if found.tzinfo else found.replace(tzinfo=UTC)
        return (zoned - datetime.min.replace(tzinfo=UTC)) // MICROSECOND


class StepClock:
    """The steps of rows: numbers, dates in order, or the places of rows in their episode.

    Args:
        early: the t of the first rows; None if there is no such column.
        first: the number of the first step, if it is known.

    Attributes:
        kind: "numbers", "dates" or "order".
        first: the number of the first step: 1 if steps are counted from there, else 0.
        unit: how much t grows from one step to the next: 4 where t is 0, 4, 8, as hours may be.

    """

    def __init__(self, early: list[Any] | None, first: int | None = None) -> None:
        self._codes: ValueCodes = TimeCodes()
        self.kind, self.first, self.unit = "numbers", first or 0, 1
        if early is None:
            self.kind = "order"
        elif first is None:
            steps, dates = self._codes.of(early), Dates().of(early)
            dated = (dates != MISSING) & (steps == MISSING)
            if dated.sum() > (steps != MISSING).sum():
                self.kind, self._codes = "dates", Dates()
            else:
                self.first = 1 if 1 in steps and 0 not in steps else 0
                later = steps[steps > 0]
                if len(later) >= MANY and 0 in steps and not (later % later.min()).any():
                    self.unit = int(later.min())

    def t(self, step: Any) -> Any:
        """Return the log's own t of a step that is counted from 0; elementwise."""
        return self.first + self.unit * step

    def times(self, horizon: int) -> range:
        """(H,) the log's own t of each step."""
        return range(self.t(0), self.t(horizon), self.unit)

    def steps(self, column: list[Any] | None, new: Bools, due: Ints) -> Ints:
        """(n,) the step of each of n rows, from 0; negative where it is none, or out of order.

        Args:
            column: their t.
            new: (n,) whether a row is the first of its episode.
            due: (n,) how many rows of its episode came before.

        """
        if column is None:
            return due
        codes = self._codes.of(column)
        if self.kind == "numbers":
            whole = (codes >= 0) & (codes % self.unit == 0)
            return np.where(whole, codes // self.unit - self.first, MISSING)
        later = np.append(True, codes[1:] > codes[:-1])
        return np.where((codes != MISSING) & (new | later), due, MISSING)
