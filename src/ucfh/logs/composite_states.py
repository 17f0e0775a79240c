"""States that are made of several columns, or of numbers cut into bins."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.logs.batches import InvalidValue
from ucfh.logs.bins import Bins
from ucfh.logs.labels import MOST_KEPT, Numbers, ValueCodes, shown, text_of

JOINT = "|"
"""Stands between the parts of a state."""
MOST_DETAILS = 6
"""How many parts of a state say in which half of their bin they lie."""


class TextPart(ValueCodes):
    """A part that is text.

    Attributes:
        column: what it is called.
        labels: what stands for each code: a text, or why there is none.

    """

    def __init__(self, column: str) -> None:
        super().__init__()
        self.column = column
        self.labels: list[str | InvalidValue] = [InvalidValue(f"its {column} is missing")]
        self._index = {"": 0}

    @property
    def variety(self) -> int:
        """How many different ones it may have, as far as they were met."""
        return len(self.labels) - 1

    def find(self, value: Any) -> int:
        """The code of one value."""
        text = text_of(value)
        if text not in self._index:
            self._index[text] = len(self.labels)
            contains = f"{self.column} {shown(text)} contains {JOINT!r}, which joins parts of a "
            self.labels.append(InvalidValue(f"{contains}state") if JOINT in text else text)
        return self._index[text]


class NumberPart:
    """A part that is a number, cut into bins, which may be chosen later.

    Attributes:
        column: what it is called.
        labels: what stands for each code: a text, or why there is none.

    """

    def __init__(self, column: str, decimal: str) -> None:
        self.column = column
        self.labels: list[str | InvalidValue] = [InvalidValue(f"its {column} is missing")]
        self._bins: Bins | None = None
        self._numbers = Numbers(decimal)
        self._odd: dict[str, int] = {}

    @property
    def variety(self) -> int:
        """How many different ones it may have: the number of bins."""
        return 0 if self._bins is None else len(self._bins.labels)

    def cut(self, bins: Bins) -> None:
        """Let the bins be these."""
        self._bins = bins
        self.labels += bins.labels

    def numbers(self, column: list[Any]) -> Floats:
        """(n,) the numbers of n values, NaN where one is none."""
        found = self._numbers.of(column)
        return np.where(np.isfinite(found), found, np.nan)

    def of(self, column: list[Any]) -> Ints:
        """(n,) the codes of n values."""
        return self.with_halves(column, halved=False)[0]

    def with_halves(self, column: list[Any], halved: bool = True) -> tuple[Ints, Ints]:
        """(n,) the codes of n values, and (n,) 1 for each in the upper half of its bin."""
        assert self._bins is not None
        numbers = self.numbers(column)
        known = np.flatnonzero(~np.isnan(numbers))
        places, codes, upper = self._bins.of(numbers[known]), *np.zeros((2, len(numbers)), np.int64)
        codes[known] = 1 + places
        if halved:
            upper[known] = self._bins.halves(numbers[known], places)
        for i in np.flatnonzero(np.isnan(numbers)).tolist():
            if text := text_of(column[i]):
                codes[i] = self._code_of_odd(text)
        return codes, upper

    def _code_of_odd(self, text: str) -> int:
        """The code of a text that is no number."""
        if text not in self._odd:
            if len(self._odd) >= MOST_KEPT:
                return 0
            self._odd[text] = len(self.labels)
            why = f"{self.column} {shown(text)} is no number, but is cut into bins"
            self.labels.append(InvalidValue(why))
        return self._odd[text]


def join(parts: Sequence[TextPart | NumberPart], codes: Sequence[Ints]) -> list[Any]:
    """The labels of n states, from the codes (n,) of each part; None if all parts are missing."""
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
    """(n,) a code of which halves (n,) of their bins the parts of n states lie in."""
    return np.asarray(sum(upper << i for i, upper in enumerate(halves[:MOST_DETAILS])), np.int64)
