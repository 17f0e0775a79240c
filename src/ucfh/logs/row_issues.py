"""Checked rows, and the issue of a row in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.logs.batches import Batch, InvalidValue
from ucfh.logs.counting import KnownStateCounter
from ucfh.logs.issues import IssueKind
from ucfh.logs.labels import MISSING, UNKNOWN, quoted, text_of

if TYPE_CHECKING:
    from ucfh.logs.episode_checks import Episodes


@dataclass(eq=False)
class CheckedRows:
    """Rows as numbers, (n,) each; codes are negative for missing and invalid values.

    Attributes:
        rows: the rows as read.
        new, last: whether a row is the first, or the last, of its episode.
        t, s, a, following, done, reward: the columns; t counts from 0.
        due: the expected t: the number of earlier rows of the episode.
        issue: the `IssueKind`.
        hidden: whether the issue is of the next row, from which the next state is derived.

    """

    rows: Batch
    new: Bools
    last: Bools
    t: Ints
    s: Ints
    a: Ints
    following: Ints
    done: Ints
    reward: Floats
    due: Ints
    issue: NDArray[np.int8]
    hidden: Bools


COLUMNS = {
    IssueKind.LINE: "action",
    IssueKind.T: "t",
    IssueKind.STATE: "state",
    IssueKind.REWARD: "reward",
    IssueKind.NEXT_STATE: "next_state",
}
"""The column of an issue."""


def remedy_of(reader: Episodes, steps: CheckedRows, i: int) -> str | None:
    """Return the remedy for the issue of a row, or None for the usual one of its kind."""
    kind, counter, values = IssueKind(steps.issue[i]), reader.counter, steps.rows.values
    if i in steps.rows.broken or kind not in (
        IssueKind.STATE, IssueKind.ACTION, IssueKind.REWARD, IssueKind.NEXT_STATE
    ):  # fmt: skip
        return None
    value = values.get(COLUMNS.get(kind, ""), [None] * (i + 1))[i]
    blank = kind in COLUMNS and not isinstance(value, InvalidValue) and not text_of(value)
    ends = blank and kind != IssueKind.STATE and steps.last[i] and steps.done[i] != 1
    if ends and counter.ends.dropouts is not None and counter.horizon is None:
        return "declare the horizon, --horizon H (horizon=H)"
    if kind == IssueKind.REWARD:
        return None
    if blank and ends:
        return (
            "declare with --dropouts outcome, lost or random why episodes end there, and the "
            'horizon, --horizon H (dropouts="outcome", horizon=H)'
        )
    if blank and kind == IssueKind.NEXT_STATE:
        return "write the state of the next row of its episode there"
    if blank:
        return "write the state in every row"
    if isinstance(counter, KnownStateCounter):
        return "pass the problem that the log is from, or none"
    return None


def describe(reader: Episodes, steps: CheckedRows, i: int) -> str:
    """Describe the issue of a row in words."""
    rows, kind = steps.rows, steps.issue[i]
    if i in rows.broken:
        return rows.broken[i]
    where = f"at t = {rows.values['t'][i]}: " if reader.whole else ""

    def show(name: str, at: int = i) -> str:
        return f"{name} {quoted(rows.values[name][at])}"

    if kind in COLUMNS and COLUMNS[kind] in rows.values:
        value = rows.values[COLUMNS[kind]][i]
        if isinstance(value, InvalidValue):
            return value.why if kind == IssueKind.LINE else where + value.why
        if not text_of(value) and kind != IssueKind.LINE:
            return f"{where}its {COLUMNS[kind]} is missing"
    return where + _describe_values(reader, steps, i, show)


def _describe_values(reader: Episodes, steps: CheckedRows, i: int, show: Callable[..., str]) -> str:
    rows, kind, counter = steps.rows, IssueKind(steps.issue[i]), reader.counter
    if kind == IssueKind.LINE:
        if steps.a[i] == MISSING:
            return "its action is missing"
        if steps.done[i] == UNKNOWN:
            return f"{show('done')} is neither true nor false"
        return "its episode is missing"
    every = f"the {len(counter.states.index)} states"
    if kind == IssueKind.EXCLUDED:
        name = "next_state" if "next_state" in rows.values else ""
        follows = show(name) if name else "what the next row shows"
        return f"{follows} cannot follow {show('state')} and {show('action')}"
    if kind == IssueKind.ACTION and steps.a[i] >= 0:
        return f"{show('state')} has no {show('action')}"
    if kind == IssueKind.MISMATCH:
        return f"{show('next_state')}, but the next row has {show('state', i + 1)}"
    if kind == IssueKind.T and reader.clock.kind == "dates":
        return f"{show('t')} is not after that of the row before"
    t = show("t") if "t" in rows.values else f"step {reader.clock.t(steps.due[i])}"
    reward = show("reward") if "reward" in rows.values else ""
    n_actions = len(counter.actions.index)
    following = show("next_state") if "next_state" in rows.values else ""
    return {
        IssueKind.REPEAT: f"{show('episode')} appeared before, with others in between",
        IssueKind.AFTER: f"{t} comes after the end of the episode",
        IssueKind.T: f"{t} where {reader.clock.t(steps.due[i])} is expected",
        IssueKind.LONG: f"{t} is beyond the horizon of {counter.horizon}",
        IssueKind.STATE: f"{show('state')} is not one of {every}",
        IssueKind.START: f"{show('state')} is not one in which the problem begins",
        IssueKind.ACTION: f"{show('action')} is not one of the {n_actions} actions",
        IssueKind.REWARD: reward,
        IssueKind.RANGE: reward,
        IssueKind.NEXT_STATE: f"{following} is not one of {every}",
    }[kind]
