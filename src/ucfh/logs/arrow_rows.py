"""Rows of a log in Parquet, in a frame of pandas or Polars, or in a table of Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import IO, Any

import numpy as np

from ucfh.exceptions import InputError, not_installed
from ucfh.logs.batches import BATCH, Batch, by_text


class ParquetSource:
    """An open file in Parquet."""

    kind, unit = "Parquet", "row"

    def __init__(self, file: IO[bytes]) -> None:
        _check_installed("a log in Parquet")
        from pyarrow import parquet

        with _reading("not Parquet that can be read, or cut short"):
            self._file = parquet.ParquetFile(file)
            self.columns: list[str] = self._file.schema_arrow.names

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:  # noqa: ARG002
        """Yield all rows, with the wanted columns."""
        with _reading("not Parquet that can be read, or cut short"):
            batches = self._file.iter_batches(BATCH, columns=list(wanted))
            yield from _rows_of(batches, wanted, self._file.metadata.num_rows)


class ArrowSource:
    """A frame, a table, or another object with an Arrow stream."""

    unit = "row"

    def __init__(self, frame: Any) -> None:
        self.kind = f"a {type(frame).__name__} of {type(frame).__module__.partition('.')[0]}"
        _check_installed("a log in a frame")
        from pyarrow import RecordBatchReader

        shape = getattr(frame, "shape", None)
        self._total = shape[0] if shape else None
        with _reading("it cannot be read as a table of Arrow; make each column numbers or text"):
            self._stream = RecordBatchReader.from_stream(frame)
            self.columns: list[str] = self._stream.schema.names

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:  # noqa: ARG002
        """Yield all rows, with the wanted columns."""
        with _reading("it cannot be read to its end"):
            slices = (
                part.slice(first, BATCH)
                for part in self._stream
                for first in range(0, part.num_rows, BATCH)
            )
            yield from _rows_of(slices, wanted, self._total)


def _rows_of(batches: Iterable[Any], wanted: Sequence[str], total: int | None) -> Iterator[Batch]:
    """Convert Arrow batches to Python values; NaN becomes None."""
    from pyarrow import compute, types

    row = 0
    for batch in batches:
        values = {}
        for name in wanted:
            column = batch.column(name)
            if types.is_floating(column.type):
                column = compute.if_else(compute.is_nan(column), None, column)
            values[name] = [*map(by_text, column.to_pylist())]
        lines = np.arange(row + 1, row + 1 + batch.num_rows)
        row += batch.num_rows
        yield Batch(lines, values, share=row / max(1, total or row))


def _check_installed(what: str) -> None:
    try:
        import pyarrow  # noqa: F401
    except ImportError:
        raise not_installed(what, "pyarrow") from None


@contextmanager
def _reading(trouble: str) -> Iterator[None]:
    """Convert errors of Arrow to an `InputError` of one line."""
    from pyarrow import ArrowException

    try:
        yield
    except (ArrowException, OSError, TypeError, ValueError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"{trouble} ({reason})") from None
