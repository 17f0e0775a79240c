"""The rows of a log in batches, from CSV, JSON lines or Parquet; docs/logs.md describes them.

What cannot be read is handed on too, as a broken row with its line: nothing is dropped here.
Memory is bounded, whatever the length of a file.
"""

from __future__ import annotations

import codecs
import csv
import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from io import BufferedReader, BytesIO, RawIOBase
from itertools import chain, islice
from pathlib import Path
from typing import IO, Any

import numpy as np

from ucfh._support.arrays import Ints
from ucfh._support.files import AnyPath, check_ending
from ucfh.errors import InputError, not_installed, unknown

COLUMNS = ("episode", "t", "state", "action", "reward", "next_state", "done")
ENDINGS = (".csv", ".jsonl", ".parquet")
ZIPPED = ".gz"
CUT = "it has no line break, so it may be half-written"

CHUNK = 2**16
"""Bytes of CSV at a time: what fits into a processor's cache is parsed twice as fast."""
BATCH = 1000
"""Rows at a time, where they are parsed one by one."""
BEGINNINGS = {
    "utf-16": (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE),
    "utf-32": (codecs.BOM_UTF32_LE, codecs.BOM_UTF32_BE),
}
"""How files in other encodings may begin; that of UTF-32 may look like one of UTF-16."""
MAX_LINE = 2**20
"""Bytes of the longest line."""
GZIP = b"\x1f\x8b"
"""How gzip files begin."""
HIDDEN = b"\x1f"
"""Stands for a comma within quotes while lines are split."""


@dataclass(eq=False)
class Batch:
    """Rows of a log, in their order.

    Attributes:
        lines: (n,) the line of each, counted from 1; in Parquet, the row.
        values: of each column, n values as the file has them; None where there is none.
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


def kind_of(path: AnyPath) -> str:
    """The ending of a log's path, such as ".csv"; that of a zipped file without its ".gz"."""
    name = Path(path)
    if name.suffix.lower() == ZIPPED:
        return check_ending(name.with_suffix(""), ENDINGS[:2])
    return check_ending(name, ENDINGS)


def read_batches(
    file: IO[bytes], path: AnyPath, names: dict[str, str], encoding: str | None = None
) -> Iterator[Batch]:
    """The rows of an open file, by the ending of its path.

    ``names`` maps the columns that are wanted to their names in the file. "done" may be missing
    there, unless it was given another name. ``encoding``: of the text; None: UTF-8.
    """
    kind, codec = kind_of(path), None if encoding is None else _codec(encoding)
    if kind == ".parquet":
        if codec is not None:
            raise InputError("Parquet is not text: leave the encoding out")
        yield from _read_parquet(file, names)
        return
    size = max(1, os.fstat(file.fileno()).st_size)
    zipped = Path(path).suffix.lower() == ZIPPED
    source: Any = gzip.GzipFile(fileobj=file) if zipped else file
    if codec is not None and codec.name not in ("utf-8", "utf-8-sig", "ascii"):
        source = BufferedReader(_AsUtf8(source, codec))
    try:
        for batch in (_read_csv if kind == ".csv" else _read_jsonl)(source, names):
            batch.share = min(1.0, file.tell() / size)
            yield batch
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"not gzip, or cut short ({error}): unzip what can be read of it, and pass that"
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read to its end ({error.strerror or error})") from None


def _codec(name: str) -> codecs.CodecInfo:
    """A text encoding by its name."""
    try:
        "".encode(name)  # refuses those that are not of text, which a look-up finds too
        return codecs.lookup(name)
    except (LookupError, ValueError, TypeError):
        raise InputError(f"unknown encoding {name!r}: pass utf-8, cp1252, latin-1, ...") from None


class _AsUtf8(RawIOBase):
    """A file in another encoding, read as UTF-8."""

    def __init__(self, source: IO[bytes], codec: codecs.CodecInfo) -> None:
        assert codec.incrementaldecoder is not None
        self._source, self._name = source, codec.name
        self._decoder = codec.incrementaldecoder()
        self._ready, self._line = b"", 1

    def readable(self) -> bool:
        """It can be read."""
        return True

    def readinto(self, room: Any) -> int:
        """Fill some room with UTF-8; 0 at the end."""
        while not self._ready:
            data = self._source.read(CHUNK)
            try:
                text = self._decoder.decode(data, final=not data)
            except UnicodeError:
                raise InputError(
                    f"line {self._line}, or one soon after it, is not {self._name}: pass the "
                    "encoding that the file has"
                ) from None
            self._line += text.count("\n")
            self._ready = text.encode()
            if not data:
                break
        n = min(len(room), len(self._ready))
        room[:n], self._ready = self._ready[:n], self._ready[n:]
        return n


def _is_no_text(number: int, line: bytes) -> InputError:
    """A line is not text in UTF-8. A log of which half is read is another log: none of it is."""
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


def pick(there: Sequence[str], names: dict[str, str]) -> dict[str, int]:
    """Where each wanted column stands among those that are there."""
    found = {}
    for column, name in names.items():
        if there.count(name) > 1:
            raise InputError(f"the column {name!r} is there twice: rename one of the two")
        if name in there:
            found[column] = there.index(name)
        elif (column, name) != ("done", "done"):
            which = f'--columns {column}=NAME (columns={{"{column}": "NAME"}})'
            raise InputError(f"{unknown('column', name, there)}; say which it is by {which}")
    return found


def _read_csv(file: IO[bytes], names: dict[str, str]) -> Iterator[Batch]:
    head = next(_lines(file), b"")
    if head.startswith(GZIP):
        raise InputError("it is gzip: call it .csv.gz")
    if b"\0" in head:
        raise _is_no_text(1, head)
    if b"\r" in head.rstrip(b"\r\n"):
        raise InputError("its lines end with CR alone: save it with LF or CRLF line ends")
    try:
        there = next(csv.reader([head.decode("utf-8-sig")]), [])
    except UnicodeDecodeError:
        raise _is_no_text(1, head) from None
    except csv.Error:
        raise InputError("line 1 must name the columns, with commas between them") from None
    there = [name.strip() for name in there]
    if not there:
        raise InputError("it is empty: line 1 must name the columns")
    for mark, name in ((";", "semicolons"), ("\t", "tabs"), ("|", "bars")):
        if len(there) == 1 and mark in there[0]:
            raise InputError(f"its columns are divided by {name}: save it with commas")
    at, width = pick(there, names), len(there)
    line, rest = 1, b""
    while data := file.read(CHUNK):
        data = rest + data
        end = data.rfind(b"\n") + 1
        data, rest = data[:end], data[end:]
        if data.count(b'"') % 2 or len(rest) > MAX_LINE:
            # a value in quotes goes on after a line break: only a parser of all the rest can tell
            lines = chain(BytesIO(data), _lines(file, rest))
            yield from _collect(_parse_csv(lines, line, width, at), at)
            return
        columns = _split(data, width, at)
        if columns is None:
            yield from _collect(_parse_csv(BytesIO(data), line, width, at), at)
        elif data:
            yield Batch(line + 1 + np.arange(data.count(b"\n")), columns)
        line += data.count(b"\n")
    yield from _collect(_parse_csv(BytesIO(rest), line, width, at), at)


def _lines(file: IO[bytes], begun: bytes = b"") -> Iterator[bytes]:
    """The lines of a file, of which the first has begun."""
    while line := begun + file.readline(MAX_LINE):
        if len(line) >= MAX_LINE:
            raise InputError(f"a line has more than {MAX_LINE} bytes: is it a log?")
        yield line
        begun = b""


def _split(data: bytes, width: int, at: dict[str, int]) -> dict[str, list[str]] | None:
    """The columns of whole lines, each of ``width`` values; None if they need more care."""
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
        if not ((around == ord(",")) | (around == ord("\n"))).all():
            return None
        letters = letters.copy()
        letters[inside & (letters == ord(","))] = HIDDEN[0]
        letters = letters[~quote]
        data = letters.tobytes()
    ends, commas = np.flatnonzero(letters == ord("\n")), np.flatnonzero(letters == ord(","))
    if len(commas) != len(ends) * (width - 1):
        return None
    between = commas.reshape(len(ends), width - 1)
    if (between[:, -1] > ends).any() or (between[1:, 0] < ends[:-1]).any():
        return None
    try:
        values = data.decode().replace("\n", ",").split(",")
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
                columns[name] = list(map(_Commas().__getitem__, columns[name]))
    return columns


class _Commas(dict[str, str]):
    """Values with their commas back, each worked out once."""

    def __missing__(self, value: str) -> str:
        self[value] = shown = value.replace(chr(HIDDEN[0]), ",")
        return shown


def _parse_csv(
    lines: Iterable[bytes], before: int, width: int, at: dict[str, int]
) -> Iterator[tuple[int, Sequence[Any] | str]]:
    """The line and the values of each row, or why it cannot be read; ``before``: lines before."""
    tail = []
    taken: list[str] = []  # the lines of a row: more than one, where a value in quotes goes on

    def whole() -> Iterator[str]:
        for number, line in enumerate(lines, before + 1):
            if not line.endswith(b"\n"):
                tail.append(line)
                continue
            try:
                text = line.decode()
            except UnicodeDecodeError:
                raise _is_no_text(number, line) from None
            taken.append(text)
            yield text

    reader = csv.reader(whole(), strict=True)
    while True:
        taken.clear()
        try:
            row = next(reader, None)
        except csv.Error as error:
            _check_quotes(before + reader.line_num, taken, width, at["t"])
            yield before + reader.line_num, f"it is not CSV ({error})"
            continue
        line = before + reader.line_num
        if len(taken) > 1:
            _check_quotes(line, taken, width, at["t"])
        if row is None:
            break
        if len(row) == width:
            yield line, [row[j] for j in at.values()]
        elif row:
            yield line, f"it has {len(row)} values, and line 1 names {width} columns"
    if tail:
        yield before + reader.line_num + 1, CUT


def _check_quotes(last: int, lines: list[str], width: int, t: int) -> None:
    """Refuse where a quote that is not closed has swallowed other rows, up to line ``last``."""
    values = [line.split(",") for line in lines]
    like_rows = [len(x) >= width and x[t].strip().isdigit() for x in values]
    if like_rows[0] and any(like_rows[1:]):
        raise InputError(
            f"line {last - len(lines) + 1} opens a quote that goes on to line {last}, over other "
            "rows: close it, or leave it out"
        )


def _collect(
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


def _read_jsonl(file: IO[bytes], names: dict[str, str]) -> Iterator[Batch]:
    def rows() -> Iterator[tuple[int, Sequence[Any] | str]]:
        is_first, keys = True, list(names.values())
        for line, row in _parse_jsonl(file):
            if isinstance(row, str):
                yield line, row
                continue
            if is_first:
                pick(list(row), names)
                is_first = False
            yield line, [_by_text(row.get(key)) for key in keys]

    return _collect(rows(), names)


def _by_text(value: Any) -> Any:
    """A value, but true and false as text: to Python they are equal to 1 and 0."""
    return str(value) if isinstance(value, bool) else value


def _parse_jsonl(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    # NaN, which is not JSON but often written, is no value
    decode = json.JSONDecoder(object_pairs_hook=_once, parse_constant=lambda _: None).decode
    for number, line in enumerate(_lines(file), 1):
        if line.isspace():
            continue
        whole = line.endswith(b"\n")
        try:
            row = decode(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            yield number, row if isinstance(row, dict) else "it is not a JSON object"
        except UnicodeDecodeError:
            if whole:
                raise _is_no_text(number, line) from None
            yield number, CUT
        except (ValueError, RecursionError) as error:
            yield number, f"it is not a JSON object ({error})" if whole else CUT


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is there twice")
    return found


def _read_parquet(file: IO[bytes], names: dict[str, str]) -> Iterator[Batch]:
    try:
        import pyarrow as arrow
        from pyarrow import compute, parquet
    except ImportError:
        raise not_installed("a log in Parquet", "pyarrow") from None
    try:
        source = parquet.ParquetFile(file)
        there = source.schema_arrow.names
        wanted = {name: there[i] for name, i in pick(there, names).items()}
        row, rows = 0, max(1, source.metadata.num_rows)
        for batch in source.iter_batches(BATCH, columns=[*dict.fromkeys(wanted.values())]):
            values = {}
            for name, column in wanted.items():
                found = batch.column(column)
                if arrow.types.is_floating(found.type):
                    found = compute.if_else(compute.is_nan(found), None, found)
                values[name] = [*map(_by_text, found.to_pylist())]
            lines = np.arange(row + 1, row + 1 + batch.num_rows)
            row += batch.num_rows
            yield Batch(lines, values, share=row / rows)
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"not Parquet that can be read, or cut short ({reason})") from None
