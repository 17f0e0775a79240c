"""Rows of a log in batches, whatever its format.

What cannot be read is passed on too, as a broken row with its line: nothing is dropped here. Nor
is a value that means nothing: an `InvalidValue` stands in its place, and says why.
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
"""Rows at a time, where they are parsed one by one."""
BEGINNINGS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
"""How files in other encodings may begin; that of UTF-32 may look like one of UTF-16."""
MAX_LINE = 2**20
"""Bytes of the longest line."""


@dataclass(frozen=True)
class InvalidValue:
    """Stands for a value that cannot be used, and says why."""

    why: str


class Source(Protocol):
    """A log as it is stored: its columns, and its rows as they are there.

    Attributes:
        kind: what it is, in words, such as "CSV with semicolons".
        unit: what its rows are called: "line" or "row".
        columns: their names; of JSON lines, those of the first object.

    """

    kind: str
    unit: str
    columns: list[str]

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:
        """All rows, with the wanted columns; ``claims`` tells columns that must not come later."""


@dataclass(eq=False)
class Batch:
    """Rows of a log, in their order.

    Attributes:
        lines: (n,) the line of each, counted from 1; where there are no lines, the row.
        values: of each column, n values as the source has them; None where there is none.
        broken: why a row cannot be read, by its index; it has no values. `CUT` is the last one,
            if it may be half-written.
        share: how much of the file was read by then, 0 to 1.

    """

    lines: Ints
    values: dict[str, list[Any]]
    broken: dict[int, str] = field(default_factory=dict)
    share: float = 1.0

    def __len__(self) -> int:
        return len(self.lines)

    def last(self) -> Batch:
        """The last row alone."""
        i = len(self) - 1
        values = {name: column[i:] for name, column in self.values.items()}
        broken = {0: self.broken[i]} if i in self.broken else {}
        return Batch(self.lines[i:], values, broken, self.share)

    def then(self, other: Batch) -> Batch:
        """These rows, and after them another's, which is used up."""
        n = len(self)
        for name, column in other.values.items():
            column[:0] = self.values[name]
        broken = self.broken | {n + i: why for i, why in other.broken.items()}
        return Batch(np.append(self.lines, other.lines), other.values, broken, other.share)


def collect(
    rows: Iterable[tuple[int, Sequence[Any] | str]], columns: Iterable[str]
) -> Iterator[Batch]:
    """Batches of rows that come one by one."""
    names, rest = list(columns), iter(rows)
    nothing = [None] * len(names)
    while some := list(islice(rest, BATCH)):
        broken = {i: row for i, (_, row) in enumerate(some) if isinstance(row, str)}
        by_column = zip(*(nothing if isinstance(row, str) else row for _, row in some), strict=True)
        values = {name: list(column) for name, column in zip(names, by_column, strict=True)}
        yield Batch(np.array([line for line, _ in some]), values, broken)


def lines_of(file: IO[bytes], begun: bytes = b"") -> Iterator[bytes]:
    """The lines of a file, of which the first has begun."""
    while line := begun + file.readline(MAX_LINE):
        if len(line) >= MAX_LINE:
            raise InputError(f"a line has more than {MAX_LINE} bytes: is it a log?")
        yield line
        begun = b""


def not_utf8(number: int, line: bytes) -> InputError:
    """A line is not text in UTF-8. Half of a log is another log, so none of it is read."""
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
    """A value, but true and false as text: to Python they are equal to 1 and 0."""
    return str(value) if isinstance(value, bool) else value
