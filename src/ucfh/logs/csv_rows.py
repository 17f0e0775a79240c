"""Rows of a log in CSV; docs/howto/logs.md describes it."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from io import BytesIO
from itertools import chain
from typing import IO, Any

import numpy as np

from ucfh.exceptions import InputError
from ucfh.logs.batches import CUT, MAX_LINE, Batch, collect, lines_of, not_utf8

CHUNK = 2**17
"""Bytes of a chunk: small enough for a processor's cache, which doubles the speed."""
HIDDEN = b"\x1f"
"""Placeholder of a separator within quotes while lines are split."""
SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
"""Column separators, and their names."""


class CsvSource:
    """An open CSV file; the separator is detected in the first line."""

    unit = "line"

    def __init__(self, file: IO[bytes]) -> None:
        head = next(lines_of(file), b"")
        if head.startswith(b"\x1f\x8b"):
            raise InputError("it is gzip: name it .csv.gz")
        if b"\0" in head:
            raise not_utf8(1, head)
        if b"\r" in head.rstrip(b"\r\n"):
            raise InputError("its lines end with CR alone: save it with LF or CRLF line ends")
        try:
            text = head.decode("utf-8-sig")
        except UnicodeDecodeError:
            raise not_utf8(1, head) from None
        self._file = file
        self._mark, self.columns = _names_in(text)
        self.kind = f"CSV with {SEPARATORS[self._mark]}"

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:  # noqa: ARG002
        """Yield all rows, with the wanted columns."""
        at, width = {name: self.columns.index(name) for name in wanted}, len(self.columns)
        line, rest, file, mark = 1, b"", self._file, self._mark
        while data := file.read(CHUNK):
            data = rest + data
            end = data.rfind(b"\n") + 1
            data, rest = data[:end], data[end:]
            if data.count(b'"') % 2 or len(rest) > MAX_LINE:
                # a value in quotes continues after a line break: only a parser of all the rest
                # can tell
                lines = chain(BytesIO(data), lines_of(file, rest))
                yield from collect(_parse_csv(lines, line, width, at, mark), at)
                return
            columns = _split(data, width, at, mark)
            if columns is None:
                yield from collect(_parse_csv(BytesIO(data), line, width, at, mark), at)
            elif data:
                yield Batch(line + 1 + np.arange(data.count(b"\n")), columns)
            line += data.count(b"\n")
        yield from collect(_parse_csv(BytesIO(rest), line, width, at, mark), at)


def _names_in(head: str) -> tuple[str, list[str]]:
    """Return the separator that gives the most columns in the first line, and their names."""
    names: dict[str, list[str]] = {}
    for mark in SEPARATORS:
        with suppress(csv.Error):
            names[mark] = next(csv.reader([head], delimiter=mark), [])
    if not names:
        raise InputError("line 1 must name the columns, separated by commas")
    mark = max(names, key=lambda mark: len(names[mark]))
    if not names[mark]:
        raise InputError("it is empty: line 1 must name the columns")
    return mark, [name.strip() for name in names[mark]]


def _split(data: bytes, width: int, at: dict[str, int], mark: str) -> dict[str, list[str]] | None:
    """Split complete lines of ``width`` values into columns; None if that needs a full parser."""
    comma = ord(mark)
    if b"\r" in data:
        data = data.replace(b"\r\n", b"\n")
    quoted = b'"' in data
    if width < 2 or b"\r" in data or (quoted and HIDDEN in data):
        return None
    letters = np.frombuffer(data, np.uint8)
    if quoted:
        quote = letters == ord('"')
        inside = np.bitwise_xor.accumulate(quote.view(np.uint8)).view(bool)
        marks = np.flatnonzero(quote)
        around = np.append(letters[marks[::2] - 1], letters[marks[1::2] + 1])
        if not ((around == comma) | (around == ord("\n"))).all():
            return None
        letters = letters.copy()
        letters[inside & (letters == comma)] = HIDDEN[0]
        letters = letters[~quote]
        data = letters.tobytes()
    ends, commas = np.flatnonzero(letters == ord("\n")), np.flatnonzero(letters == comma)
    if len(commas) != len(ends) * (width - 1):
        return None
    between = commas.reshape(len(ends), width - 1)
    if (between[:, -1] > ends).any() or (between[1:, 0] < ends[:-1]).any():
        return None
    try:
        values = data.decode().replace("\n", mark).split(mark)
    except UnicodeDecodeError:
        return None
    columns = {name: values[j:-1:width] for name, j in at.items()}
    if quoted and HIDDEN in data:
        places = np.searchsorted(
            np.sort(np.append(ends, commas)), np.flatnonzero(letters == HIDDEN[0])
        )
        with_commas = set((places % width).tolist())
        for name, j in at.items():
            if j in with_commas:
                columns[name] = list(map(_SeparatorRestorer(mark).__getitem__, columns[name]))
    return columns


class _SeparatorRestorer(dict[str, str]):
    """Cache of values with their separators restored."""

    def __init__(self, mark: str) -> None:
        super().__init__()
        self._mark = mark

    def __missing__(self, value: str) -> str:
        self[value] = restored = value.replace(chr(HIDDEN[0]), self._mark)
        return restored


def _parse_csv(
    lines: Iterable[bytes], before: int, width: int, at: dict[str, int], mark: str
) -> Iterator[tuple[int, Sequence[Any] | str]]:
    """Yield the line and the values of each row, or an error; ``before``: lines before."""
    tail = []
    row_lines: list[str] = []  # several lines if a quoted value contains line breaks

    def whole() -> Iterator[str]:
        for number, line in enumerate(lines, before + 1):
            if not line.endswith(b"\n"):
                tail.append(line)
                continue
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise not_utf8(number, line) from None
            row_lines.append(text)
            yield text

    reader = csv.reader(whole(), delimiter=mark, strict=True)
    while True:
        row_lines.clear()
        try:
            row = next(reader, None)
        except csv.Error as error:
            _check_quotes(before + reader.line_num, row_lines, width, mark)
            yield before + reader.line_num, f"it is not CSV ({error})"
            continue
        line = before + reader.line_num
        if len(row_lines) > 1:
            _check_quotes(line, row_lines, width, mark)
        if row is None:
            break
        if len(row) == width:
            yield line, [row[j] for j in at.values()]
        elif row:
            yield line, f"it has {len(row)} values, but line 1 names {width} columns"
    if tail:
        yield before + reader.line_num + 1, CUT


def _check_quotes(last: int, lines: list[str], width: int, mark: str) -> None:
    """Raise if an unclosed quote has swallowed other rows, up to line ``last``."""
    values = [len(line.split(mark)) for line in lines]
    if values[0] >= width and width in values[1:]:
        raise InputError(
            f"line {last - len(lines) + 1} opens a quote that continues to line {last}, over "
            "other rows: close it, or leave it out"
        )
