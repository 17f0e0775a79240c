"""Settings of a log: the options of `ucfh.read_log`, and the settings file beside the log.

``students.csv.toml`` holds the options for ``students.csv``, by the same names:

    rewards = [0, 100]
    dropouts = "outcome"
    columns = {state = ["level", "mood"], action = "lesson"}
    bins = {level = [40, 70]}
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from ucfh._utils import validation
from ucfh._utils.files import AnyPath, naming, parse_toml, read_text, write_text
from ucfh.exceptions import InputError, check_count, check_type, unknown, wrong_type
from ucfh.logs.batches import COLUMNS
from ucfh.rewards import DEFAULT, RewardRange

MOST_DECLARED = 10**5
"""The largest number of states or actions that may be declared."""
MOST_STEPS = 10**5
"""The largest horizon that may be declared."""
JOINED = ("state", "next_state")
"""The columns that may have several parts."""


@dataclass(frozen=True)
class Quantiles:
    """Bins with about equal numbers of rows in the held-out first episodes."""

    number: int
    episodes: int


Cuts = Mapping[str, "tuple[float, ...] | Quantiles"]
"""The edges of the bins by column, or the rule to choose them."""


@dataclass(frozen=True)
class Settings:
    """The options of a log; see `ucfh.read_log`."""

    columns: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Sequence[str] | int | None = None
    actions: Sequence[str] | int | None = None
    terminal: Sequence[str] = ()
    horizon: int | None = None
    time_dependent: bool = False
    segments: Sequence[int] = ()
    rewards: RewardRange = DEFAULT
    blank_reward: float | None = None
    max_return: float | None = None
    encoding: str | None = None
    decimal: str = "."
    bins: Cuts = field(default_factory=dict)
    dropouts: str | None = None
    ignore_case: bool = False
    accept_losses: bool = False


def check_settings(given: Mapping[str, Any]) -> Settings:
    """Check options, and return them as settings."""
    return Settings(**{name: CHECKS[name](name, x) for name, x in given.items() if x is not None})


def settings_path(path: AnyPath) -> Path:
    """Return the path of the settings file of a log: students.csv.toml for students.csv."""
    return Path(f"{path}.toml")


def read_settings(path: AnyPath) -> dict[str, Any]:
    """Read the settings file of a log; return an empty dictionary if there is none."""
    file = settings_path(path)
    if not file.is_file():
        return {}
    text = read_text(file)
    with naming(file):
        options = parse_toml(text)
        for key in options:
            if key not in CHECKS:
                raise unknown("key", key, CHECKS)
        check_settings(options)
    return options


def write_settings(
    path: AnyPath, given: Mapping[str, Any], force: bool = False, assumed: Sequence[str] = ()
) -> Path:
    """Write the settings file of a log, and return its path.

    Args:
        path: the log.
        given: the options of `ucfh.read_log`.
        force: whether to overwrite the file.
        assumed: assumptions to write as comments, a sentence each.

    """
    check_settings(given)
    printable = ("".join(x if x.isprintable() else "?" for x in sentence) for sentence in assumed)
    lines = [f"# assumed: {sentence}\n" for sentence in printable]
    lines += [f"{name} = {_toml(given[name])}\n" for name in CHECKS if given.get(name) is not None]
    file = settings_path(path)
    write_text(file, "".join(lines), force)
    return file


def combine(stored: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """Merge options over those of the settings file; columns and bins are merged per key."""
    out = dict(stored)
    for name, value in given.items():
        both = name in ("columns", "bins") and isinstance(value, Mapping)
        out[name] = {**out.get(name, {}), **value} if both else value
    return out


def _toml(value: Any) -> str:
    """Format a value as TOML, in one line."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_toml(str(k))} = {_toml(x)}" for k, x in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Iterable):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value.item() if isinstance(value, np.number) else value)


def _columns(name: str, given: Any) -> dict[str, tuple[str, ...]]:
    """Check the source columns of each log column."""
    check_type(name, given, Mapping, 'names by column, such as {"state": "mood"}')
    out: dict[str, tuple[str, ...]] = {}
    for column, value in given.items():
        if column not in COLUMNS:
            raise unknown("column of a log", column, COLUMNS)
        parts = (value,) if isinstance(value, str) else value
        several = isinstance(parts, Sequence) and all(isinstance(x, str) for x in parts)
        if not several or not parts or (len(parts) > 1 and column not in JOINED):
            what = "the name of a column" + (", or a list of names" * (column in JOINED))
            raise wrong_type(f"{name}[{column!r}]", value, what)
        out[column] = tuple(parts)
    return out


def _names(name: str, given: Any) -> Sequence[str] | int:
    if isinstance(given, str):
        raise InputError(f"{name} = {given!r}: pass a list of names, or how many there are")
    if not isinstance(given, Iterable):
        number = check_count(name, given)
        if number > MOST_DECLARED:
            raise InputError(f"{name} = {number} is too many: pass at most {MOST_DECLARED}")
        return number
    return _name_list(name, name.removesuffix("s"), given)


def _terminal(name: str, given: Any) -> Sequence[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong_type(name, given, "the names of states, such as ['died', 'discharged']")
    return _name_list(name, name, given)


def _name_list(name: str, one: str, given: Iterable[Any]) -> Sequence[str]:
    """Check that names are distinct, and at least one."""
    if not (names := list(given)):
        raise InputError(f"{name} is empty. Fix: list at least one name, or leave {name} out")
    checked = validation.check_names(one, names, len(names))
    assert checked is not None
    return checked


def _steps(name: str, given: Any) -> Sequence[int]:
    """Check change points; they are checked against the horizon when it is known."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong_type(name, given, "steps, such as [9]: those with which a new segment begins")
    return list(given)


def _horizon(name: str, given: Any) -> int:
    if (steps := check_count(name, given)) > MOST_STEPS:
        raise InputError(f"{name} = {steps} is too many: an episode may have {MOST_STEPS} steps")
    return steps


def _bins(name: str, given: Any) -> dict[str, tuple[float, ...] | Quantiles]:
    check_type(name, given, Mapping, 'edges by column, such as {"score": [40, 70]}')
    return {column: _cut(f"{name}[{column!r}]", value) for column, value in given.items()}


def _cut(name: str, given: Any) -> tuple[float, ...] | Quantiles:
    """Check ascending edges, or the numbers of quantiles and of held-out episodes."""
    if isinstance(given, Mapping):
        if set(given) != {"quantiles", "episodes"}:
            raise wrong_type(name, dict(given), '{"quantiles": 4, "episodes": 500}')
        number = check_count(f"{name}['quantiles']", given["quantiles"], 2)
        return Quantiles(number, check_count(f"{name}['episodes']", given["episodes"]))
    try:
        edges = tuple(float(x) for x in given)
    except (TypeError, ValueError):
        edges = ()
    rising = all(isfinite(x) for x in edges) and list(edges) == sorted(set(edges))
    if isinstance(given, str) or not edges or not rising:
        raise wrong_type(name, given, "numbers, ascending: the edges between bins, as in [40, 70]")
    return edges


def _is(kind: Any, what: str) -> Callable[[str, Any], Any]:
    def check(name: str, given: Any) -> Any:
        check_type(name, given, kind, what)
        return given

    return check


def _one_of(*choices: str) -> Callable[[str, Any], str]:
    def check(name: str, given: Any) -> str:
        if given not in choices:
            raise wrong_type(name, given, " or ".join(repr(x) for x in choices))
        return str(given)

    return check


CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "columns": _columns,
    "states": _names,
    "actions": _names,
    "terminal": _terminal,
    "horizon": _horizon,
    "time_dependent": _is(bool, "true or false"),
    "segments": _steps,
    "rewards": lambda _, x: RewardRange.check(x),
    "blank_reward": _is(int | float | np.number, "a number: what a blank reward means"),
    "max_return": _is(int | float | np.number, "a number: the largest sum of an episode's rewards"),
    "encoding": _is(str, "the name of an encoding, such as cp1252"),
    "decimal": _one_of(".", ","),
    "bins": _bins,
    "dropouts": _one_of("outcome", "lost", "random"),
    "ignore_case": _is(bool, "true or false"),
    "accept_losses": _is(bool, "true or false"),
}
"""The options, and their checks."""
OF_THE_TASK = (
    "states", "actions", "terminal", "horizon", "time_dependent", "segments", "rewards",
    "max_return",
)  # fmt: skip
"""The options that a given problem replaces."""
