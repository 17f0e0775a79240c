"""Results as plain JSON data, and the differences between two of them."""

from __future__ import annotations

import csv
import json
import re
from dataclasses import fields, is_dataclass
from math import isclose, isfinite
from pathlib import Path
from typing import Any

import numpy as np

DROPPED = re.compile(
    r"seconds|version|^(age|asked|at|created|deadline|made|margin|oldest|planner|store|token|told)$"
)
"""Fields that differ between two recordings: times, versions, places, and `verify`'s margin, which
is predicted / measured: for an identity, measured is a rounding error of this processor."""
PROSE = "<text>"
"""Stands for a string of four or more words: sentences may be reworded, fields may not go."""
LONGEST = 40
"""Longer lists of numbers are recorded as their length, sum, first and last number."""
RELATIVE, ABSOLUTE = 1e-9, 1e-3
"""Tolerances for floats, as another compiler may reorder sums: the relative one, and the size of a
number below which errors count as if it had that size. Integers and strings are exact."""


def plain(value: Any) -> Any:
    """Return a result as dicts, lists, strings, numbers, booleans and None."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain({x.name: getattr(value, x.name) for x in fields(value)})
    if hasattr(value, "_asdict"):
        return plain(value._asdict())
    if isinstance(value, dict):
        return {str(k): plain(x) for k, x in value.items() if not DROPPED.search(str(k))}
    if isinstance(value, np.ndarray) and value.dtype.kind in "iub" and value.ndim:
        return " ".join("".join(map(_digit, row)) for row in np.atleast_2d(value).tolist())
    if isinstance(value, np.ndarray | np.generic):
        return plain(value.tolist())
    if isinstance(value, list | tuple | range):
        numbers = all(isinstance(x, int | float) for x in value)
        if numbers and len(value) > LONGEST:
            ends = {"length": len(value), "first": value[0], "last": value[-1]}
            return plain({**ends, "sum": sum(value)})
        return [plain(x) for x in value]
    if isinstance(value, str):
        return PROSE if len(value.split()) > 3 else value
    if isinstance(value, float):
        return float(f"{value:.12g}") if isfinite(value) else str(value)
    if value is None or isinstance(value, int):
        return value
    raise TypeError(f"{type(value)} is not plain data")


def _digit(number: int) -> str:
    return str(int(number)) if 0 <= number < 10 else f"({number})"


def table(path: Path) -> list[dict[str, Any]]:
    """Return the rows of a CSV file, numbers read as numbers."""
    with open(path, newline="", encoding="utf-8") as file:
        return [{k: _number(x) for k, x in row.items()} for row in csv.DictReader(file)]


def _number(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def differences(old: Any, new: Any, path: str = "", relative: float = RELATIVE) -> list[str]:
    """List the paths at which two recordings differ, a line each.

    A field whose name alone has changed is one line, "path/old -> new: renamed".
    """
    if isinstance(old, dict) and isinstance(new, dict):
        gone, added = [x for x in old if x not in new], [x for x in new if x not in old]
        out = []
        for x in gone:
            same = next((y for y in added if not differences(old[x], new[y], "", relative)), None)
            out.append(f"{path}/{x} " + (f"-> {same}: renamed" if same else "is gone"))
            if same is not None:
                added.remove(same)
        out += [f"{path}/{x} is new" for x in added]
        for x in old:
            if x in new:
                out += differences(old[x], new[x], f"{path}/{x}", relative)
        return out
    if isinstance(old, list) and isinstance(new, list):
        if len(old) != len(new):
            return [f"{path}: {len(old)} items, now {len(new)}"]
        pairs = enumerate(zip(old, new, strict=True))
        return [y for i, (a, b) in pairs for y in differences(a, b, f"{path}/{i}", relative)]
    return [] if _same(old, new, relative) else [f"{path}: {old!r}, now {new!r}"]


def _same(old: Any, new: Any, relative: float) -> bool:
    numbers = all(isinstance(x, int | float) and not isinstance(x, bool) for x in (old, new))
    if numbers and isinstance(old, float) | isinstance(new, float):
        return isclose(old, new, rel_tol=relative, abs_tol=relative * ABSOLUTE)
    return type(old) is type(new) and bool(old == new)


def dumps(data: Any) -> str:
    """Return JSON with sorted keys, a line for each field and each list of numbers or strings."""
    text = json.dumps(data, indent=1, sort_keys=True, ensure_ascii=False)
    return re.sub(r"\[[^][{}]*\]", lambda x: re.sub(r"\s*\n\s*", " ", x[0]), text) + "\n"
