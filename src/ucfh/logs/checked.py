"""Rows that were checked, and what is wrong with one of them, in words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ucfh._support.arrays import Bools, Floats, Ints
from ucfh.logs.batches import Batch, Unusable
from ucfh.logs.faults import Kind
from ucfh.logs.labels import MISSING, UNKNOWN, shown, text_of

if TYPE_CHECKING:
    from ucfh.logs.episodes import Episodes


@dataclass(eq=False)
class CheckedRows:
    """Rows as numbers, each (n,): negative where a value is not there, or means nothing here.

    Attributes:
        rows: the rows themselves.
        new, last: whether it is the first of its episode, and its last.
        t, s, a, following, done, reward: the columns; t counts from 0.
        due: what t should be: how many rows of its episode came before.
        fault: its `Kind`.
        hidden: whether the fault is that of the next row, which would have shown what followed.

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
    fault: NDArray[np.int8]
    hidden: Bools


def tell(reader: Episodes, steps: CheckedRows, i: int) -> str:
    """What is wrong with a row, in words."""
    rows, kind, tally = steps.rows, steps.fault[i], reader.tally
    if i in rows.broken:
        return rows.broken[i]
    where = f"at t = {rows.values['t'][i]}: " if reader.whole else ""

    def show(name: str, at: int = i) -> str:
        return f"{name} {shown(rows.values[name][at])}"

    columns = {
        Kind.LINE: "action",
        Kind.T: "t",
        Kind.STATE: "state",
        Kind.REWARD: "reward",
        Kind.NEXT_STATE: "next_state",
    }
    if kind in columns and columns[kind] in rows.values:
        value = rows.values[columns[kind]][i]
        if isinstance(value, Unusable):
            return value.why if kind == Kind.LINE else where + value.why
        if not text_of(value) and kind != Kind.LINE:
            also = ""
            if tally.ends.dropouts is not None and tally.horizon is None and steps.last[i]:
                also = " (if the episode stopped there: declare the horizon)"
            return f"{where}its {columns[kind]} is missing{also}"
    return where + _say(reader, steps, i, show)


def _say(reader: Episodes, steps: CheckedRows, i: int, show: Callable[..., str]) -> str:
    rows, kind, tally = steps.rows, Kind(steps.fault[i]), reader.tally
    if kind == Kind.LINE:
        if steps.a[i] == MISSING:
            return "its action is missing"
        if steps.done[i] == UNKNOWN:
            return f"{show('done')} is neither true nor false"
        return "its episode is missing"
    every = f"the {len(tally.states.index)} states"
    if kind == Kind.EXCLUDED:
        name = "next_state" if "next_state" in rows.values else ""
        follows = show(name) if name else "what the next row shows"
        return f"{follows} cannot follow {show('state')} and {show('action')}"
    if kind == Kind.ACTION and steps.a[i] >= 0:
        return f"{show('state')} has no {show('action')}"
    if kind == Kind.MISMATCH:
        return f"{show('next_state')}, but the next row has {show('state', i + 1)}"
    if kind == Kind.T and reader.clock.kind == "dates":
        return f"{show('t')} is not after that of the row before"
    t = show("t") if "t" in rows.values else f"step {reader.clock.t(steps.due[i])}"
    paid = show("reward") if "reward" in rows.values else ""
    following = show("next_state") if "next_state" in rows.values else ""
    return {
        Kind.REPEAT: f"{show('episode')} appeared before, with others in between",
        Kind.AFTER: f"{t} comes after the end of the episode",
        Kind.T: f"{t} where {reader.clock.t(steps.due[i])} is expected",
        Kind.LONG: f"{t} is beyond the horizon of {tally.horizon}",
        Kind.STATE: f"{show('state')} is not one of {every}",
        Kind.START: f"{show('state')} is not one in which the problem begins",
        Kind.ACTION: f"{show('action')} is not one of the {len(tally.actions.index)} actions",
        Kind.REWARD: paid,
        Kind.RANGE: paid,
        Kind.NEXT_STATE: f"{following} is not one of {every}",
    }[kind]
