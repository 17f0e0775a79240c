"""Sources of logs: files by their ending, frames, tables, and Minari data sets.

Memory is bounded for logs of any length.
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
from ucfh.logs.minari_rows import PREFIX, MinariSource

TEXTS: dict[str, Callable[[IO[bytes]], Source]] = {
    **dict.fromkeys((".csv", ".tsv", ".txt"), CsvSource),
    ".jsonl": JsonSource,
}
"""Text formats, which may be compressed or in another encoding than UTF-8."""
ENDINGS = (*TEXTS, ".parquet")
ZIPPED = ".gz"
BLOCK = 2**16
"""Bytes of a chunk that is decoded."""


def is_file(data: Any) -> bool:
    """Return whether a log is the path of a file."""
    return isinstance(data, str | os.PathLike) and not str(data).startswith(PREFIX)


def is_source(data: Any) -> bool:
    """Return whether a log can be read from ``data``."""
    kinds = ("iterate_episodes", "__arrow_c_stream__")
    return isinstance(data, str | os.PathLike) or any(hasattr(data, kind) for kind in kinds)


@contextmanager
def open_source(data: Any, encoding: str | None = None) -> Iterator[Source]:
    """Open a log; its errors begin with the path. ``encoding``: of text; None: UTF-8."""
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
    """Return the ending of a path, such as ".csv", without ".gz"."""
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
        text = BufferedReader(_Utf8Reader(text, codec))
    with _check_complete():
        return _TextSource(TEXTS[kind](text), file)


class _TextSource:
    """A text source that adds the share of the file read to each batch."""

    def __init__(self, rows: Source, file: IO[bytes]) -> None:
        self.kind, self.unit, self.columns = rows.kind, rows.unit, rows.columns
        self._rows, self._file = rows, file

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:
        """Yield all rows, with the wanted columns."""
        size = max(1, os.fstat(self._file.fileno()).st_size)
        with _check_complete():
            for batch in self._rows.batches(wanted, claims):
                batch.share = min(1.0, self._file.tell() / size)
                yield batch


@contextmanager
def _check_complete() -> Iterator[None]:
    """Raise an `InputError` if the file cannot be read to its end."""
    try:
        yield
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise InputError(
            f"not gzip, or cut short ({error}): unzip what can be read of it, and pass that"
        ) from None
    except OSError as error:
        raise InputError(f"cannot be read to its end ({error.strerror or error})") from None


def _codec(name: str) -> codecs.CodecInfo:
    """Return a text encoding by its name."""
    try:
        "".encode(name)  # raises for codecs that are not text encodings
        return codecs.lookup(name)
    except (LookupError, ValueError, TypeError):
        raise InputError(f"unknown encoding {name!r}: pass utf-8, cp1252, latin-1, ...") from None


class _Utf8Reader(RawIOBase):
    """A stream that converts another encoding to UTF-8."""

    def __init__(self, source: IO[bytes], codec: codecs.CodecInfo) -> None:
        assert codec.incrementaldecoder is not None
        self._source, self._name = source, codec.name
        self._decoder = codec.incrementaldecoder()
        self._ready, self._line = b"", 1

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, room: Any) -> int:
        """Fill a buffer with UTF-8; return the number of bytes, 0 at the end."""
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
