"""Mapping of source columns to log columns.

In a long log a row is a step. In a wide log a row is an episode, with columns for every step: names
with ``{t}``, such as ``mood_{t}``, stand for ``mood_0``, ``mood_1``, ...
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from shlex import quote
from types import MappingProxyType

from ucfh._utils.formatting import listed
from ucfh.exceptions import InputError, nearest, some_of, unknown
from ucfh.logs.batches import COLUMNS

STEP = "{t}"
"""Placeholder of the step number in the column names of a wide log."""
OPTIONAL = ("t", "next_state", "done")
"""Columns that a log may lack."""
TIMES = (
    *("step", "steps", "timestep", "stage", "period", "turn"),
    *("time", "timestamp", "date", "datetime", "month", "week", "day", "hour"),
)
"""First words of column names that may mean t."""


@dataclass(frozen=True)
class ColumnMapping:
    """The source columns of each log column, () where there is none.

    Attributes:
        columns: the source columns by log column; with ``{t}`` in a wide log.
        ignored: source columns that have the name of a log column and are not read.
        like_t: a source column that is not read, though its name may mean t; "" if none.
        steps: the numbers of the steps in a wide log; () in a long log.
        by_step: the source columns of each name with ``{t}``, step by step.
        after: whether a wide log has states after its last step.

    """

    columns: Mapping[str, tuple[str, ...]]
    ignored: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    by_step: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    after: bool = False
    like_t: str = ""

    @property
    def wanted(self) -> list[str]:
        """The source columns that are read."""
        names = (name for parts in self.columns.values() for name in parts)
        return list(dict.fromkeys(x for name in names for x in self.by_step.get(name, (name,))))

    def claims(self, name: str) -> bool:
        """Return whether a column would be read if it were in the source from the beginning."""
        if self.steps:
            return any(_steps_of(pattern, [name]) for pattern in self.by_step)
        return name in COLUMNS and not self.columns[name]


def map_columns(
    there: Sequence[str],
    given: Mapping[str, tuple[str, ...]],
    rewards: bool = True,
    may_lack: bool = False,
) -> ColumnMapping:
    """Map source columns to log columns.

    Args:
        there: the names of the source columns.
        given: the declared source columns by log column; others have the same name.
        rewards: whether rewards are read.
        may_lack: whether the source may have columns that are not listed.

    Raises:
        InputError: a column is missing, ambiguous, or used twice.

    """
    names = {column: given.get(column, (column,)) for column in COLUMNS}
    if not rewards:
        names["reward"] = ()
    if any(STEP in name for parts in names.values() for name in parts):
        return _wide(there, given, names)
    if may_lack and not there:  # there are no rows either
        if len(names["state"]) > 1 and "next_state" not in given:
            names["next_state"] = ()
        return ColumnMapping(names)
    ignored: list[str] = []
    spelt: dict[str, str] = {}
    for column, parts in names.items():
        if column in given or not parts:
            if parts != (column,) and column in there:
                ignored.append(column)
        elif column == "next_state" and len(names["state"]) > 1 and column in there:
            ignored.append(column)
            names[column] = ()
        elif column not in there and column in OPTIONAL:
            if other := _spelt_otherwise(column, there):
                spelt[column] = other
            names[column] = ("done",) if column == "done" and may_lack else ()
    lacking = ("done",) if may_lack else None
    _check_there({x: () if parts == lacking else parts for x, parts in names.items()}, there, spelt)
    _check_parts(names)
    like_t = "" if names["t"] else _like_t(names, there)
    ignored = [x for x in ignored if rewards or x != "reward"]
    return ColumnMapping(names, tuple(ignored), like_t=like_t)


def _check_there(
    names: Mapping[str, tuple[str, ...]],
    there: Sequence[str],
    spelt: Mapping[str, str] = MappingProxyType({}),
) -> None:
    """Raise if columns are missing, all at once.

    Args:
        names: the source columns to read, by log column.
        there: the names of the source columns.
        spelt: optional log columns, and source columns that are probably meant for them.

    """
    read = dict.fromkeys(name for parts in names.values() for name in parts)
    lacking = [name for name in read if _check_once(name, there) not in there]
    if lacking and not there:
        raise InputError(f"it has no columns: it needs some, such as {', '.join(lacking)}")
    free = [name for name in there if name not in read]
    meant = {
        column: tuple(x if x in there else nearest(x, free) or "NAME" for x in parts)
        for column, parts in names.items()
        if not set(lacking).isdisjoint(parts)
    }
    how = in_options(meant | {column: (name,) for column, name in spelt.items()})
    if lacking:
        names_missing = listed([*map(repr, lacking)], "or")
        raise InputError(
            f"no column is called {names_missing} (there are: {some_of(there)}); say which is "
            f"meant, as in {how}"
        )
    if spelt:
        which = " and ".join(f"{name!r} the {column}" for column, name in spelt.items())
        raise InputError(f"is the column {which}? If so, pass {how}; if not, rename it")


def in_options(names: Mapping[str, tuple[str, ...]]) -> str:
    """Return the option that declares a mapping of columns.

    >>> print(in_options({"t": ("week no",)}))
    --columns 't=week no' (columns={"t": "week no"})
    >>> print(in_options({"state": ("level", "mood")}))
    --columns state=level+mood (columns={"state": ["level", "mood"]})
    """
    options = " ".join(f"--columns {quote(x + '=' + '+'.join(names[x]))}" for x in names)
    values = {x: parts[0] if len(parts) == 1 else parts for x, parts in names.items()}
    return f"{options} (columns={json.dumps(values, ensure_ascii=False)})"


def _check_once(name: str, there: Sequence[str]) -> str:
    if there.count(name) > 1:
        raise InputError(f"the column {name!r} appears twice: rename one of the two")
    return name


def _check_parts(names: Mapping[str, tuple[str, ...]]) -> None:
    """Raise if next_state and state differ in their parts, or a column is used twice."""
    state, following = names["state"], names["next_state"]
    if following and len(following) != len(state):
        raise InputError(
            f"columns: state has {len(state)} parts and next_state {len(following)}: name as many, "
            "or leave next_state out"
        )
    role: dict[str, str] = {}
    for column, parts in names.items():
        for name in parts:
            if column != "reward" and role.setdefault(name, column) != column:
                raise InputError(
                    f"columns: {name!r} is both {role[name]} and {column}: name another one"
                )


def _spelt_otherwise(column: str, there: Sequence[str]) -> str:
    """Return a source column that differs from a log column in case or marks only, or ""."""
    alike = (x for x in there if re.sub(r"[\W_]", "", x).casefold() == column.replace("_", ""))
    return next(alike, "")


def _like_t(names: Mapping[str, tuple[str, ...]], there: Sequence[str]) -> str:
    """Return an unread column whose name may mean t, or ""."""
    read = {name for parts in names.values() for name in parts}
    words = {x: re.split(r"[\W_]", x.strip().casefold())[0] for x in there if x not in read}
    return next((x for x, word in words.items() if word in TIMES), "")


def _wide(
    there: Sequence[str],
    given: Mapping[str, tuple[str, ...]],
    names: dict[str, tuple[str, ...]],
) -> ColumnMapping:
    """Map the columns of a wide log."""
    for column in ("episode", "t", "next_state", "done"):
        if column not in given and (column in ("t", "next_state") or column not in there):
            names[column] = ()
    _check_wide(given, names)
    (action,) = names["action"]
    steps = sorted(_steps_of(action, there))
    if not steps:
        raise unknown("column", action.replace(STEP, "0"), there)
    first, last = steps[0], steps[-1]
    patterns = [x for x in names["state"] if STEP in x]
    after = not names["next_state"] and all(last + 1 in _steps_of(x, there) for x in patterns)
    by_step: dict[str, tuple[str, ...]] = {}
    for column, parts in names.items():
        for name in parts:
            if STEP not in name:
                _check_there({column: (name,)}, there)
                continue
            numbered = _steps_of(name, there)
            wanted = range(first, last + 1 + (after and column == "state"))
            for t in wanted:
                if t not in numbered:
                    raise InputError(
                        f"there is {list(_steps_of(action, there).values())[-1]!r}, but no "
                        f"{name.replace(STEP, str(t))!r}: every step needs {name!r}"
                    )
            for t in sorted(numbered):
                if t not in wanted:
                    raise InputError(
                        f"there is {numbered[t]!r}, but no {action.replace(STEP, str(t))!r}: every "
                        "step needs its action"
                    )
            by_step[name] = tuple(_check_once(numbered[t], there) for t in wanted)
    ignored = tuple(x for x in ("t", "next_state") if not names[x] and x in there)
    return ColumnMapping(names, ignored, tuple(steps), by_step, after)


def _check_wide(given: Mapping[str, tuple[str, ...]], names: dict[str, tuple[str, ...]]) -> None:
    """Raise if only some names have {t}."""
    if "t" in given:
        raise InputError(f"columns: names with {STEP} say the step: leave t out")
    if STEP in "".join(names["episode"]):
        raise InputError(f"columns: {names['episode'][0]!r} is of all steps: leave {STEP} out")
    several = [column for column, parts in names.items() if STEP in "".join(parts)]
    for column in ("state", "action", *(["next_state"] if names["next_state"] else [])):
        if column not in several:
            raise InputError(
                f"columns: {several[0]} has {STEP}, but {column} has not ({names[column][0]!r}): "
                f"write {STEP} in both, if a row is an episode, or in none"
            )
    _check_parts(names)


def _steps_of(name: str, there: Sequence[str]) -> dict[int, str]:
    """Return the source column of each step of a name with {t}."""
    before, _, behind = name.partition(STEP)
    out: dict[int, str] = {}
    for column in there:
        match = re.fullmatch(f"{re.escape(before)}([0-9]{{1,9}}){re.escape(behind)}", column)
        if match is None:
            continue
        step = int(match[1])
        if out.setdefault(step, column) != column:
            raise InputError(
                f"the columns {out[step]!r} and {column!r} are both step {step}: rename one"
            )
    return out
