"""How a log was read, for people who want to check that before they conclude anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucfh.logs.batches import Source
from ucfh.logs.column_layout import ColumnLayout
from ucfh.logs.early_termination import END, LEFT
from ucfh.logs.episodes import Episodes
from ucfh.logs.labels import ENDED, LabelCodes


@dataclass(frozen=True)
class ReadSummary:
    """How a log was read.

    Attributes:
        kind: what it is, such as "CSV with semicolons".
        settings: the file beside it that was used, or None.
        columns: of each of our columns, those of the source that it is made of.
        t: what the steps are, in words.
        dropouts: how many episodes stop short, if it is declared what that means.
        sample: the first steps of an episode: (t, state, action, reward, next state).
        states, actions: how many rows there are of each, those with most of them first.
        rewards: the least and the largest that is shown; None if none is.

    """

    kind: str
    settings: str | None
    columns: Mapping[str, str]
    t: str
    dropouts: int
    sample: tuple[tuple[int, str, str, float, str], ...]
    states: Mapping[str, int]
    actions: Mapping[str, int]
    rewards: tuple[float, float] | None


def understand(
    source: Source, settings: str | None, layout: ColumnLayout, reader: Episodes, dropped: int
) -> ReadSummary:
    """How a log was read, once it was; ``dropped``: how many episodes are drop-outs."""
    tally, clock = reader.tally, reader.clock
    states, actions = list(tally.states.index), list(tally.actions.index)
    columns = {name: " + ".join(parts) for name, parts in layout.roles.columns.items() if parts}
    if layout.derived:
        columns["next_state"] = "the state of the next row"
    elif layout.roles.after:
        columns["next_state"] = "the state of the next step"
    steps = {
        "numbers": f"whole numbers from {clock.first}"
        + (f", {clock.unit} from one step to the next" if clock.unit > 1 else ""),
        "dates": "dates, in order",
        "order": "the order of the rows of an episode",
    }[clock.kind]
    if layout.roles.steps:
        steps = f"the numbers in the header, from {clock.first} to {layout.roles.steps[-1]}"

    def name(t: int, following: int) -> str:
        if following >= 0:
            return states[following]
        short = following != ENDED and t + 1 != tally.horizon
        return {"outcome": LEFT}.get(str(tally.ends.dropouts), "(not shown)") if short else END

    least, most = reader.range
    return ReadSummary(
        source.kind,
        settings,
        columns,
        steps,
        dropped,
        tuple(
            (clock.t(t), states[s], actions[a], reward, name(t, following))
            for t, s, a, following, reward in reader.sample
        ),
        _by_rows(tally.states, reader.losses.seen["state"]),
        _by_rows(tally.actions, reader.losses.seen["action"]),
        (least, most) if least <= most else None,
    )


def _by_rows(names: LabelCodes, rows: Any) -> dict[str, int]:
    """How many rows there are of each name, most first."""
    counts = np.zeros(len(names.index), np.int64)
    counts[: len(rows)] = rows
    labels = list(names.index)
    return {labels[i]: int(counts[i]) for i in np.argsort(-counts, kind="stable").tolist()}
