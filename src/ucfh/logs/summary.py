"""The summary of how a log was read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucfh.logs.batches import Source
from ucfh.logs.column_layout import ColumnLayout
from ucfh.logs.early_termination import END, LEFT
from ucfh.logs.episode_checks import Episodes
from ucfh.logs.labels import ENDED, LabelCodes


@dataclass(frozen=True)
class ReadSummary:
    """The summary of how a log was read.

    Attributes:
        kind: the format, such as "CSV with semicolons".
        settings: the path of the settings file that was used, or None.
        columns: the source columns of each log column, in words.
        t: the numbering of steps, in words.
        dropouts: the number of episodes that end early, if the meaning is declared.
        sample: the first steps of an episode: (t, state, action, reward, next state).
        states, actions: the number of rows of each, most frequent first.
        rewards: the smallest and the largest logged reward; None if there is none.

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


def summarize(
    source: Source, settings: str | None, layout: ColumnLayout, reader: Episodes, dropouts: int
) -> ReadSummary:
    """Summarize a log after all rows were read; ``dropouts``: the number of early ends."""
    counter, clock = reader.counter, reader.clock
    states, actions = list(counter.states.index), list(counter.actions.index)
    columns = {name: " + ".join(parts) for name, parts in layout.mapping.columns.items() if parts}
    if layout.derived:
        columns["next_state"] = "the state of the next row"
    elif layout.mapping.after:
        columns["next_state"] = "the state of the next step"
    steps = {
        "numbers": f"integers from {clock.first}"
        + (f", {clock.unit} from one step to the next" if clock.unit > 1 else ""),
        "dates": "dates, in order",
        "order": "the order of the rows of an episode",
    }[clock.kind]
    if layout.mapping.steps:
        steps = f"the numbers in the header, from {clock.first} to {layout.mapping.steps[-1]}"

    def name(t: int, following: int) -> str:
        if following >= 0:
            return states[following]
        short = following != ENDED and t + 1 != counter.horizon
        return {"outcome": LEFT}.get(str(counter.ends.dropouts), "(not shown)") if short else END

    least, most = reader.range
    return ReadSummary(
        source.kind,
        settings,
        columns,
        steps,
        dropouts,
        tuple(
            (clock.t(t), states[s], actions[a], reward, name(t, following))
            for t, s, a, following, reward in reader.sample
        ),
        _by_rows(counter.states, reader.missing.seen["state"]),
        _by_rows(counter.actions, reader.missing.seen["action"]),
        (least, most) if least <= most else None,
    )


def _by_rows(names: LabelCodes, rows: Any) -> dict[str, int]:
    """Return the number of rows of each name, most frequent first."""
    counts = np.zeros(len(names.index), np.int64)
    counts[: len(rows)] = rows
    labels = list(names.index)
    return {labels[i]: int(counts[i]) for i in np.argsort(-counts, kind="stable").tolist()}
