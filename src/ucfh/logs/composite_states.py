"""States composed of several columns, or of binned numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.logs.batches import InvalidValue
from ucfh.logs.bins import Bins
from ucfh.logs.labels import MOST_KEPT, Numbers, ValueCodes, quoted, text_of

JOINT = "|"
"""Separator of the parts of a state."""
MOST_DETAILS = 6
"""The largest number of parts whose half of the bin is passed to the audit."""


class TextPart(ValueCodes):
    """A part of a state that is text.

    Attributes:
        column: the name of the source column.
        labels: the label of each code, or the reason why it is invalid.

    """

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column
        self.labels: list[str | InvalidValue] = [InvalidValue(f"its {column} is missing")]
        self._index = {"": 0}

    @property
    def variety(self) -> int:
        """The number of different values seen."""
        return len(self.labels) - 1

    def find(self, value: Any) -> int:
        """Return the code of a value."""
        text = text_of(value)
        if text not in self._index:
            self._index[text] = len(self.labels)
            contains = f"{self.column} {quoted(text)} contains {JOINT!r}, which joins parts of a "
            self.labels.append(InvalidValue(f"{contains}state") if JOINT in text else text)
        return self._index[text]


class NumberPart:
    """A part of a state that is a binned number; bins may be chosen later.

    Attributes:
        column: the name of the source column.
        labels: the label of each code, or the reason why it is invalid.

    """

    def __init__(self, column: str, decimal: str) -> None:
        self.column = column
        self.labels: list[str | InvalidValue] = [InvalidValue(f"its {column} is missing")]
        self._bins: Bins | None = None
        self._numbers = Numbers(decimal)
        self._invalid: dict[str, int] = {}

    @property
    def variety(self) -> int:
        """The number of bins."""
        return 0 if self._bins is None else len(self._bins.labels)

    def cut(self, bins: Bins) -> None:
        """Set the bins."""
        self._bins = bins
        self.labels += bins.labels

    def numbers(self, column: list[Any]) -> Floats:
        """Return the numbers (n,) of n values, NaN for values that are not numbers."""
        numbers = self._numbers.of(column)
        return np.where(np.isfinite(numbers), numbers, np.nan)

    def of(self, column: list[Any]) -> Ints:
        """Return the codes (n,) of n values."""
        return self.with_halves(column, halved=False)[0]

    def with_halves(self, column: list[Any], halved: bool = True) -> tuple[Ints, Ints]:
        """Return the codes (n,) of n values, and (n,) 1 for each in the upper half of its bin."""
        assert self._bins is not None
        numbers = self.numbers(column)
        known = np.flatnonzero(~np.isnan(numbers))
        places, codes, upper = self._bins.of(numbers[known]), *np.zeros((2, len(numbers)), np.int64)
        codes[known] = 1 + places
        if halved:
            upper[known] = self._bins.halves(numbers[known], places)
        for i in np.flatnonzero(np.isnan(numbers)).tolist():
            if text := text_of(column[i]):
                codes[i] = self._code_of_invalid(text)
        return codes, upper

    def _code_of_invalid(self, text: str) -> int:
        """Return the code of a text that is not a number."""
        if text not in self._invalid:
            if len(self._invalid) >= MOST_KEPT:
                return 0
            self._invalid[text] = len(self.labels)
            why = f"{self.column} {quoted(text)} is not a number, but is cut into bins"
            self.labels.append(InvalidValue(why))
        return self._invalid[text]


def join(parts: Sequence[TextPart | NumberPart], codes: Sequence[Ints]) -> list[Any]:
    """Return the labels of n states from the codes (n,) of each part; None if all are missing."""
    key = codes[0]
    for part, code in zip(parts[1:], codes[1:], strict=True):
        key = np.unique(key, return_inverse=True)[1] * len(part.labels) + code
    _, first, inverse = np.unique(key, return_index=True, return_inverse=True)
    labels = np.empty(len(first), object)
    for i, at in enumerate(first.tolist()):
        texts = [part.labels[code[at]] for part, code in zip(parts, codes, strict=True)]
        wrong = [text for text in texts if isinstance(text, InvalidValue)]
        labels[i] = wrong[0] if wrong else JOINT.join(map(str, texts))
        if not any(code[at] for code in codes):
            labels[i] = None
    return list(labels[inverse])


def details(halves: Sequence[Ints]) -> Ints:
    """Return (n,) one code for the halves (n,) of all parts of n states."""
    return np.asarray(sum(upper << i for i, upper in enumerate(halves[:MOST_DETAILS])), np.int64)
