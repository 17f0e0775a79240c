"""Rows of a log in JSON lines; docs/howto/logs.md describes it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, Any

from ucfh.logs.batches import CUT, Batch, by_text, collect, lines_of, not_utf8, pick


def read_jsonl(file: IO[bytes], names: dict[str, str]) -> Iterator[Batch]:
    """The rows of an open file; ``names`` are those of the wanted columns in it."""

    def rows() -> Iterator[tuple[int, Sequence[Any] | str]]:
        is_first, keys = True, list(names.values())
        for line, row in _parse_jsonl(file):
            if isinstance(row, str):
                yield line, row
                continue
            if is_first:
                pick(list(row), names)
                is_first = False
            yield line, [by_text(row.get(key)) for key in keys]

    return collect(rows(), names)


def _parse_jsonl(file: IO[bytes]) -> Iterator[tuple[int, dict[str, Any] | str]]:
    # NaN, which is not JSON but often written, is no value
    decode = json.JSONDecoder(object_pairs_hook=_once, parse_constant=lambda _: None).decode
    for number, line in enumerate(lines_of(file), 1):
        if line.isspace():
            continue
        whole = line.endswith(b"\n")
        try:
            row = decode(line.decode("utf-8-sig" if number == 1 else "utf-8"))
            yield number, row if isinstance(row, dict) else "it is not a JSON object"
        except UnicodeDecodeError:
            if whole:
                raise not_utf8(number, line) from None
            yield number, CUT
        except (ValueError, RecursionError) as error:
            yield number, f"it is not a JSON object ({error})" if whole else CUT


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key appears twice")
    return found
