"""How a log is to be understood: what `ucfh.read_log` is told, or a file beside the log remembers.

``students.csv.toml`` holds what was declared of ``students.csv``, by the same names:

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
"""The most states or actions that may be declared: no table of all transitions has more."""
MOST_STEPS = 10**5
"""The most steps of an episode that may be declared."""
DROPOUTS = ("outcome", "lost", "random")
"""What can be declared of an episode that stops short."""
JOINED = ("state", "next_state")
"""The columns that may be made of several."""


@dataclass(frozen=True)
class Quantiles:
    """Bins of about equal numbers of rows, by the first episodes, which are then not counted."""

    number: int
    episodes: int


Cuts = Mapping[str, "tuple[float, ...] | Quantiles"]
"""Of each column that is cut into bins, the edges, or how to choose them."""


@dataclass(frozen=True)
class Settings:
    """All that is declared of a log; `ucfh.read_log` says what each means."""

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
    """What was declared, by name, checked; None where it was not."""
    return Settings(**{name: CHECKS[name](name, x) for name, x in given.items() if x is not None})


def beside(path: AnyPath) -> Path:
    """The file that remembers how a log is understood: students.csv.toml of students.csv."""
    return Path(f"{path}.toml")


def read_settings(path: AnyPath) -> dict[str, Any]:
    """What the file beside a log says, by name; nothing if there is none."""
    file = beside(path)
    if not file.is_file():
        return {}
    text = read_text(file)
    with naming(file):
        found = parse_toml(text)
        for key in found:
            if key not in CHECKS:
                raise unknown("key", key, CHECKS)
        check_settings(found)
    return found


def write_settings(
    path: AnyPath, given: Mapping[str, Any], force: bool = False, assumed: Sequence[str] = ()
) -> Path:
    """Write the file beside a log, and return its path.

    Args:
        path: the log.
        given: the settings, as `ucfh.read_log` takes them.
        force: whether to overwrite the file.
        assumed: assumptions, a sentence each, which become comments.

    """
    check_settings(given)
    printable = ("".join(x if x.isprintable() else "?" for x in sentence) for sentence in assumed)
    lines = [f"# assumed: {sentence}\n" for sentence in printable]
    lines += [f"{name} = {_toml(given[name])}\n" for name in CHECKS if given.get(name) is not None]
    file = beside(path)
    write_text(file, "".join(lines), force)
    return file


def combine(remembered: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, and what is remembered besides; columns and bins one by one."""
    out = dict(remembered)
    for name, value in given.items():
        both = name in ("columns", "bins") and isinstance(value, Mapping)
        out[name] = {**out.get(name, {}), **value} if both else value
    return out


def _toml(value: Any) -> str:
    """A value as TOML writes it, in one line."""
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_toml(str(k))} = {_toml(x)}" for k, x in value.items())
        return f"{{{pairs}}}"
    if isinstance(value, bool | str):
        return json.dumps(value, ensure_ascii=False)
    if isinstance(value, Iterable):
        return f"[{', '.join(map(_toml, value))}]"
    return repr(value.item() if isinstance(value, np.number) else value)


def _columns(name: str, given: Any) -> dict[str, tuple[str, ...]]:
    """The columns of the source that each of ours is made of."""
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
    return _listed(name, name.removesuffix("s"), given)


def _terminal(name: str, given: Any) -> Sequence[str]:
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise wrong_type(name, given, "the names of states, such as ['died', 'discharged']")
    return _listed(name, name, given)


def _listed(name: str, one: str, given: Iterable[Any]) -> Sequence[str]:
    """Names that differ, at least one."""
    if not (names := list(given)):
        raise InputError(f"{name} is empty. Fix: list at least one name, or leave {name} out")
    found = validation.check_names(one, names, len(names))
    assert found is not None
    return found


def _steps(name: str, given: Any) -> Sequence[int]:
    """Steps with which segments begin; against the horizon they are checked when that is known."""
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
    """Edges, ascending, or the number of quantiles and of episodes that show them."""
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
    "dropouts": _one_of(*DROPOUTS),
    "ignore_case": _is(bool, "true or false"),
    "accept_losses": _is(bool, "true or false"),
}
"""What may be declared, and how each is checked."""
OF_THE_TASK = (
    "states", "actions", "terminal", "horizon", "time_dependent", "segments", "rewards",
    "max_return",
)  # fmt: skip
"""What a problem says too, if one is given."""
