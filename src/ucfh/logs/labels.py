"""Parsers of values: labels of states and actions, flags, rewards, episode ids."""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.exceptions import InputError
from ucfh.logs.batches import InvalidValue

MISSING, UNKNOWN = -1, -2
"""Codes of a missing value, and of an invalid one."""
ENDED, STOPPED, CUT_OFF = -3, -4, -5
"""Codes of a next state that is missing: the task is over, the episode or the log ends early."""
MOST_SHOWN = 60
"""The largest number of characters of a value in a message."""
MOST_KEPT = 10**5
"""The largest number of values of a column that are cached."""

_WHOLE = re.compile(r"(-?[0-9]+)\.0*")


def text_of(value: Any) -> str:
    """Return a value as stripped text; integral numbers such as 3.0 become "3".

    >>> text_of(" home "), text_of(3), text_of("3.0"), text_of(None)
    ('home', '3', '3', '')
    """
    text = "" if value is None or isinstance(value, InvalidValue) else str(value).strip()
    whole = _WHOLE.fullmatch(text)
    return whole[1] if whole else text


def quoted(value: Any) -> str:
    """Return a value in quotes for a message, shortened."""
    text = repr(value) if isinstance(value, str | int | float | list) else repr(str(value))
    return text if len(text) <= MOST_SHOWN else f"{text[:MOST_SHOWN]}..."


class ValueCodes(dict[Any, int], ABC):
    """Cache of the code of each value of a column."""

    def of(self, column: list[Any]) -> Ints:
        """Return the codes (n,) of n values."""
        try:
            return np.fromiter(map(self.__getitem__, column), np.int64, len(column))
        except TypeError:  # a list or an object is replaced by its JSON text
            column[:] = [
                json.dumps(value, default=str) if isinstance(value, list | dict) else value
                for value in column
            ]
            return np.fromiter(map(self.__getitem__, column), np.int64, len(column))

    def __missing__(self, value: Any) -> int:
        code = self.find(value)
        if len(self) < MOST_KEPT:
            self[value] = code
        return code

    @abstractmethod
    def find(self, value: Any) -> int:
        """Return the code of one value."""


class LabelCodes(ValueCodes):
    """The codes of states, or actions: declared ones, or else all in the log.

    Args:
        declared: the names, or their number; None if unknown.
        ignore_case: whether names that differ only in case and blanks are the same.

    Attributes:
        index: the code of each name; without a declaration, in the order of discovery. Of equal
            names, only the first is included.

    """

    def __init__(self, declared: Iterable[str] | int | None, ignore_case: bool = False) -> None:
        super().__init__()
        self.is_open = declared is None
        if isinstance(declared, int):
            declared = map(str, range(declared))
        self.index: dict[str, int] = {}
        self._same: dict[str, int] | None = {} if ignore_case else None
        for name in declared or ():
            before, code = len(self.index), self._add(name)
            if len(self.index) == before:
                other = list(self.index)[code]
                raise InputError(
                    f"{name!r} and {other!r} differ only in case or blanks: do not ignore it"
                )
        # a number that is not a name is an index, as in other files
        self._numbers = {str(i): i for i in range(len(self.index))}

    def _add(self, name: str) -> int:
        """Return the code of a name, which may be new."""
        if self._same is None:
            return self.index.setdefault(name, len(self.index))
        code = self._same.setdefault(folded(name), len(self.index))
        if code == len(self.index):
            self.index[name] = code
        return code

    def find(self, value: Any) -> int:
        """Return the code of a name, or `MISSING`, or `UNKNOWN`."""
        text = text_of(value)
        if not text:
            return MISSING
        if self.is_open:
            return self._add(text)
        for name in (str(value), str(value).strip(), text):
            if name in self.index:
                return self.index[name]
        if self._same is not None and folded(text) in self._same:
            return self._same[folded(text)]
        return self._numbers.get(text, UNKNOWN)

    def code_of(self, name: str) -> int:
        """Return the code of a name that is declared or discovered, else `UNKNOWN`."""
        if not self.is_open:
            return self.find(name)
        text = text_of(name)
        if self._same is not None:
            return self._same.get(folded(text), UNKNOWN)
        return self.index.get(text, UNKNOWN)

    def alike(self) -> Iterator[tuple[str, str]]:
        """Yield pairs of names that differ only in case or blanks."""
        seen: dict[str, str] = {}
        for name in self.index:
            other = seen.setdefault(folded(name), name)
            if other != name:
                yield other, name


def folded(name: str) -> str:
    """Return a name normalized in case and blanks.

    >>> folded(" New  York ")
    'new york'
    """
    return " ".join(name.split()).casefold()


class FlagCodes(ValueCodes):
    """The codes of done: 1 or 0; a missing value is 0."""

    def find(self, value: Any) -> int:
        """Return 1, 0, or `UNKNOWN`."""
        return {"": 0, "0": 0, "false": 0, "1": 1, "true": 1}.get(text_of(value).lower(), UNKNOWN)


class Numbers(dict[Any, float]):
    """Parser of the numbers of a column, with a cache.

    Args:
        decimal: the decimal mark, "." or ",".
        blank: the meaning of a missing value, or None.

    """

    def __init__(self, decimal: str = ".", blank: float | None = None) -> None:
        super().__init__()
        self._comma, self._blank = decimal == ",", blank

    def of(self, column: list[Any]) -> Floats:
        """Return the numbers (n,) of n values, NaN for values that are not numbers."""
        look_up = self.__getitem__ if len(self) < MOST_KEPT else self._read
        try:
            return np.fromiter(map(look_up, column), np.float64, len(column))
        except TypeError:  # a list or an object
            return np.fromiter(map(self._read, column), np.float64, len(column))

    def __missing__(self, value: Any) -> float:
        self[value] = number = self._read(value)
        return number

    def _read(self, value: Any) -> float:
        if self._blank is not None and (value is None or str(value).isspace() or value == ""):
            return self._blank
        if isinstance(value, str):
            # Python accepts 0_1 as a number; a point may separate thousands
            if "_" in value or (self._comma and "." in value):
                return np.nan
            value = value.replace(",", ".") if self._comma else value
        try:
            return float(value)
        except (TypeError, ValueError, OverflowError):
            return np.nan


class EpisodeIds:
    """The set of episode ids seen: exact for numbers, by a 64-bit hash for other ids.

    The latest ids are kept in a set, all others as sorted runs of consecutive numbers. So numbered
    episodes take almost no memory, others 16 bytes each.
    """

    def __init__(self) -> None:
        self._latest: set[int] = set()
        self._first = self._last = np.zeros(0, np.int64)

    def add(self, ids: Iterable[Any]) -> Bools:
        """Add n ids, and return whether each was seen before (n,)."""
        keys = [
            int(text) if text.isdecimal() and len(text) < 19 else hash(text)
            for text in map(str, ids)
        ]
        seen, latest = self._is_merged(np.array(keys, np.int64)), self._latest
        if len(set(keys)) < len(keys) or not latest.isdisjoint(keys):
            for i, key in enumerate(keys):
                seen[i] |= key in latest
                latest.add(key)
        latest.update(keys)
        if len(latest) > MOST_KEPT:
            self._merge()
        return seen

    def _is_merged(self, keys: Ints) -> Bools:
        if not self._first.size:
            return np.zeros(len(keys), bool)
        at = np.searchsorted(self._first, keys, "right") - 1
        return np.asarray((at >= 0) & (keys <= self._last[at]), bool)

    def _merge(self) -> None:
        latest = np.fromiter(self._latest, np.int64, len(self._latest))
        latest = latest[~self._is_merged(latest)]
        self._latest.clear()
        first, last = np.append(self._first, latest), np.append(self._last, latest)
        order = np.argsort(first, kind="stable")
        first, last = first[order], last[order]
        apart = first[1:] != last[:-1] + 1
        self._first, self._last = first[np.append(True, apart)], last[np.append(apart, True)]
