"""Rows of a log in Parquet; docs/howto/logs.md describes it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import IO

import numpy as np

from ucfh.errors import InputError, not_installed
from ucfh.logs.batches import BATCH, Batch, by_text, pick


def read_parquet(file: IO[bytes], names: dict[str, str]) -> Iterator[Batch]:
    """The rows of an open file; ``names`` are those of the wanted columns in it."""
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
                values[name] = [*map(by_text, found.to_pylist())]
            lines = np.arange(row + 1, row + 1 + batch.num_rows)
            row += batch.num_rows
            yield Batch(lines, values, share=row / rows)
    except (arrow.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise InputError(f"not Parquet that can be read, or cut short ({reason})") from None
