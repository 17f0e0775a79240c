"""The rows of a log's file, by its ending; memory is bounded, however long it is."""

from __future__ import annotations

import codecs
import gzip
import os
import zlib
from collections.abc import Iterator
from io import BufferedReader, RawIOBase
from pathlib import Path
from typing import IO, Any

from ucfh._support.files import AnyPath, check_ending
from ucfh.errors import InputError
from ucfh.logs.batches import Batch
from ucfh.logs.csv_rows import read_csv
from ucfh.logs.jsonl_rows import read_jsonl
from ucfh.logs.parquet_rows import read_parquet

TEXTS = {".csv": read_csv, ".jsonl": read_jsonl}
"""Formats that are text: they may be compressed, or in another encoding than UTF-8."""
ENDINGS = (*TEXTS, ".parquet")
ZIPPED = ".gz"
BLOCK = 2**16
"""Bytes that are decoded at a time."""


def kind_of(path: AnyPath) -> str:
    """The ending of a log's path, such as ".csv"; that of a compressed file without its ".gz"."""
    name = Path(path)
    if name.suffix.lower() == ZIPPED:
        return check_ending(name.with_suffix(""), tuple(TEXTS))
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
        yield from read_parquet(file, names)
        return
    size = max(1, os.fstat(file.fileno()).st_size)
    zipped = Path(path).suffix.lower() == ZIPPED
    source: Any = gzip.GzipFile(fileobj=file) if zipped else file
    if codec is not None and codec.name not in ("utf-8", "utf-8-sig", "ascii"):
        source = BufferedReader(_AsUtf8(source, codec))
    try:
        for batch in TEXTS[kind](source, names):
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
