"""Where a log comes from: a file, by its ending, a frame, a table, or a Minari data set.

Memory is bounded, however long it is.
"""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any

from ucfh._utils.files import AnyPath, check_ending, naming, open_bytes
from ucfh.exceptions import InputError, wrong_type
from ucfh.logs.arrow_rows import ArrowSource, ParquetSource
from ucfh.logs.batches import Batch, Source
from ucfh.logs.csv_rows import CsvSource
from ucfh.logs.jsonl_rows import JsonSource
from ucfh.logs.minari_rows import MARK, MinariSource

TEXTS: dict[str, Callable[[IO[bytes]], Source]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), CsvSource),
    ".jsonl": JsonSource,
}
"""Formats that are text: they may be compressed, or in another encoding than UTF-8."""
ENDINGS = (*TEXTS, ".parquet")
ZIPPED = ".gz"
BLOCK = 2**16
"""Bytes that are decoded at a time."""


def is_file(data: Any) -> bool:
    """Whether a log is the path of a file."""
    return isinstance(data, str | os.PathLike) and not str(data).startswith(MARK)


def is_source(data: Any) -> bool:
    """Whether it is something that a log can be read from."""
    kinds = ("iterate_episodes", "__arrow_c_stream__")
    return isinstance(data, str | os.PathLike) or any(hasattr(data, kind) for kind in kinds)


@contextmanager
def open_source(data: Any, encoding: str | None = None) -> Iterator[Source]:
    """A log, opened; its errors begin with the path. ``encoding``: of text; None: UTF-8."""
    if is_file(data):
        kind = _kind_of(data)
        with open_bytes(data) as file, naming(data):
            yield _open_file(file, data, kind, encoding)
        return
    if not is_source(data):
        what = "the path of a file, a frame of pandas or Polars, a table of Arrow or a Minari "
        raise wrong_type("path", data, f"{what}data set")
    if encoding is not None:
        raise InputError("the log is not text: leave the encoding out")
    with naming(data if isinstance(data, str) else f"the {type(data).__name__}"):
        is_minari = isinstance(data, str) or hasattr(data, "iterate_episodes")
        yield MinariSource(data) if is_minari else ArrowSource(data)


def _kind_of(path: AnyPath) -> str:
    """The ending of a log's path, such as ".csv"; that of a compressed file without its ".gz"."""
    name = Path(path)
    if name.suffix.lower() == ZIPPED:
        return check_ending(name.with_suffix(""), tuple(TEXTS))
    return check_ending(name, ENDINGS)


def _open_file(file: IO[bytes], path: AnyPath, kind: str, encoding: str | None) -> Source:
    codec = None if encoding is None else _codec(encoding)
    if kind == ".parquet":
        if codec is not None:
            raise InputError("Parquet is not text: leave the encoding out")
        return ParquetSource(file)
    zipped = Path(path).suffix.lower() == ZIPPED
    text: Any = gzip.GzipFile(fileobj=file) if zipped else file
    if codec is not None and codec.name not in ("utf-8", "utf-8-sig", "ascii"):
        text = BufferedReader(_AsUtf8(text, codec))
    with _whole():
        return _TextSource(TEXTS[kind](text), file)


class _TextSource:
    """A file of text, of which each batch says how much was read by then."""

    def __init__(self, rows: Source, file: IO[bytes]) -> None:
        self.kind, self.unit, self.columns = rows.kind, rows.unit, rows.columns
        self._rows, self._file = rows, file

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:
        """All rows, with the wanted columns."""
        size = max(1, os.fstat(self._file.fileno()).st_size)
        with _whole():
            for batch in self._rows.batches(wanted, claims):
                batch.share = min(1.0, self._file.tell() / size)
                yield batch


@contextmanager
def _whole() -> Iterator[None]:
    """Refuse a file that cannot be read to its end."""
    try:
        yield
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
            data = self._source.read(BLOCK)
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
