"""Batches of rows, the common form of all log formats.

No row is dropped here: an unreadable one is passed on as a broken row with its line, and an invalid
value is replaced by an `InvalidValue` with the reason.
"""

from __future__ import annotations

import codecs
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import IO, Any, Protocol

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.exceptions import InputError

COLUMNS = ("episode", "t", "state", "action", "reward", "next_state", "done")
CUT = "it has no line break, so it may be half-written"

BATCH = 1000
"""Rows of a batch, where rows are parsed one by one."""
BEGINNINGS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
"""Byte order marks; the one of UTF-32 may look like one of UTF-16."""
MAX_LINE = 2**20
"""The largest number of bytes in a line."""


@dataclass(frozen=True)
class InvalidValue:
    """Placeholder of an unusable value, with the reason."""

    why: str


class Source(Protocol):
    """A stored log: its columns, and its rows as they are stored.

    Attributes:
        kind: the format in words, such as "CSV with semicolons".
        unit: the name of a row in messages: "line" or "row".
        columns: the names of the columns; of JSON lines, the keys of the first object.

    """

    kind: str
    unit: str
    columns: list[str]

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:
        """Yield all rows, with the wanted columns; ``claims``: is a late column an error?"""


@dataclass(eq=False)
class Batch:
    """Rows of a log, in their order.

    Attributes:
        lines: (n,) the line of each row, counted from 1; the row number where there are no lines.
        values: n values of each column, as stored; None for a missing value.
        broken: the reasons for unreadable rows, by index; these rows have no values. `CUT` is the
            last row of the log, if it may be half-written.
        share: the share of the file that was read, 0 to 1.

    """

    lines: Ints
    values: dict[str, list[Any]]
    broken: dict[int, str] = field(default_factory=dict)
    share: float = 1.0

    def __len__(self) -> int:
        return len(self.lines)

    def last(self) -> Batch:
        """Return the last row as a batch."""
        i = len(self) - 1
        values = {name: column[i:] for name, column in self.values.items()}
        broken = {0: self.broken[i]} if i in self.broken else {}
        return Batch(self.lines[i:], values, broken, self.share)

    def then(self, other: Batch) -> Batch:
        """Concatenate two batches; ``other`` is consumed (modified in place)."""
        n = len(self)
        for name, column in other.values.items():
            column[:0] = self.values[name]
        broken = self.broken | {n + i: why for i, why in other.broken.items()}
        return Batch(np.append(self.lines, other.lines), other.values, broken, other.share)


def collect(
    rows: Iterable[tuple[int, Sequence[Any] | str]], columns: Iterable[str]
) -> Iterator[Batch]:
    """Collect single rows into batches."""
    names, rest = list(columns), iter(rows)
    empty = [None] * len(names)
    while chunk := list(islice(rest, BATCH)):
        broken = {i: row for i, (_, row) in enumerate(chunk) if isinstance(row, str)}
        by_column = zip(*(empty if isinstance(row, str) else row for _, row in chunk), strict=True)
        values = {name: list(column) for name, column in zip(names, by_column, strict=True)}
        yield Batch(np.array([line for line, _ in chunk]), values, broken)


def lines_of(file: IO[bytes], begun: bytes = b"") -> Iterator[bytes]:
    """Yield the lines of a file; ``begun`` precedes the first."""
    while line := begun + file.readline(MAX_LINE):
        if len(line) >= MAX_LINE:
            raise InputError(f"a line has more than {MAX_LINE} bytes: is it a log?")
        yield line
        begun = b""


def not_utf8(number: int, line: bytes) -> InputError:
    """Return the error for a line that is not UTF-8, with a likely encoding."""
    likely = "latin-1"
    with suppress(UnicodeDecodeError):
        line.decode("cp1252")
        likely = "cp1252"
    for name, begins in BEGINNINGS.items():
        if number == 1 and line.startswith(begins):
            likely = name
    if number == 1 and likely in ("cp1252", "latin-1") and b"\0" in line:
        wide = "16" if line.count(b"\0") <= 0.6 * len(line) else "32"
        likely = f"utf-{wide}-{'be' if line.startswith(bytes(1)) else 'le'}"
    return InputError(
        f"line {number} is not UTF-8, but perhaps {likely}: save the file as UTF-8, or pass "
        f'--encoding {likely} (encoding="{likely}")'
    )


def by_text(value: Any) -> Any:
    """Return a value, booleans as text: in Python they equal 1 and 0."""
    return str(value) if isinstance(value, bool) else value
