"""The step of each row in its episode: by its t, its date, or its place."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools, Ints
from ucfh.logs.labels import MISSING, ValueCodes, text_of

PEEK = 1000
"""The number of rows that are searched for a step 0, or for dates."""
MANY = 100
"""The number of rows with t > 0 from which the unit of t is detected."""


class TimeCodes(ValueCodes):
    """The codes of time steps: nonnegative integers."""

    def find(self, value: Any) -> int:
        """Return the time step, or `MISSING`."""
        text = text_of(value)
        return int(text) if text.isascii() and text.isdigit() and len(text) < 10 else MISSING


class Dates(ValueCodes):
    """The codes of ISO 8601 dates and times: microseconds; UTC by default."""

    def find(self, value: Any) -> int:
        """Return microseconds since the beginning of 1 A.D., or `MISSING`."""
        try:
            time = value if isinstance(value, date) else datetime.fromisoformat(text_of(value))
        except ValueError:
            return MISSING
        if not isinstance(time, datetime):
            time = datetime(time.year, time.month, time.day)
        zoned = time if time.tzinfo else time.replace(tzinfo=UTC)
        return (zoned - datetime.min.replace(tzinfo=UTC)) // timedelta(microseconds=1)


class StepClock:
    """The steps of rows: numbers, dates in order, or the places of rows in their episode.

    Args:
        early: the t of the first rows; None without a column t.
        first: the t of the first step, if known.

    Attributes:
        kind: "numbers", "dates" or "order".
        first: the t of the first step: 1 if t counts from 1, else 0.
        unit: the increment of t from step to step: 4 if t is 0, 4, 8, such as hours.

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
        """Return the t of a step that is counted from 0; elementwise."""
        return self.first + self.unit * step

    def times(self, horizon: int) -> range:
        """Return the t of each step (H,)."""
        return range(self.t(0), self.t(horizon), self.unit)

    def steps(self, column: list[Any] | None, new: Bools, due: Ints) -> Ints:
        """Return the steps (n,) of n rows, from 0; negative if invalid or out of order.

        Args:
            column: the t of the rows.
            new: (n,) whether a row is the first of its episode.
            due: (n,) the number of earlier rows of the episode.

        """
        if column is None:
            return due
        codes = self._codes.of(column)
        if self.kind == "numbers":
            whole = (codes >= 0) & (codes % self.unit == 0)
            return np.where(whole, codes // self.unit - self.first, MISSING)
        later = np.append(True, codes[1:] > codes[:-1])
        return np.where((codes != MISSING) & (new | later), due, MISSING)
