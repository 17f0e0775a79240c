"""Rows of a log in JSON lines; docs/howto/logs.md describes it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from typing import IO, Any

from ucfh.exceptions import InputError
from ucfh.logs.batches import CUT, Batch, by_text, collect, lines_of, not_utf8


class JsonSource:
    """An open file of JSON lines; its columns are the keys of the first object."""

    kind, unit = "JSON lines", "line"

    def __init__(self, file: IO[bytes]) -> None:
        self._rows = _parse_jsonl(file)
        self._begin: list[tuple[int, dict[str, Any] | str]] = []
        self.columns: list[str] = []
        for line, row in self._rows:
            self._begin.append((line, row))
            if isinstance(row, dict):
                self.columns = list(row)
                break

    def batches(self, wanted: Sequence[str], claims: Callable[[str], bool]) -> Iterator[Batch]:
        """Yield all rows, with the wanted columns; objects may lack some."""
        known = {*wanted, *self.columns}

        def rows() -> Iterator[tuple[int, Sequence[Any] | str]]:
            for line, row in chain(self._begin, self._rows):
                if isinstance(row, str):
                    yield line, row
                    continue
                for key in row.keys() - known:
                    if claims(key):
                        raise InputError(
                            f"line {line} has the key {key!r}, which the first object lacks: write "
                            "it there with null for no value"
                        )
                    known.add(key)
                yield line, [by_text(row.get(key)) for key in wanted]

        return collect(rows(), wanted)


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
    out = dict(pairs)
    if len(out) < len(pairs):
        raise ValueError("a key appears twice")
    return out
