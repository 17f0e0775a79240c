"""The runs of a comparison as columns: for frames of pandas, and for CSV files."""

from __future__ import annotations

import csv
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ucfh._utils.files import AnyPath, write_text
from ucfh.exceptions import not_installed

if TYPE_CHECKING:
    from ucfh.comparison.result import Comparison

ENDINGS = (".csv",)

TOTALS = (
    "agent", "seed", "regret", "mistakes", "last_mistake", "gap", "changed", "scale", "samples",
    "planning_seconds", "seconds", "constants",
)  # fmt: skip
"""Attributes of an `Outcome` that are one value for a run."""

Columns = dict[str, list[Any]]
"""The values of each column, all of one length."""


def totals_of(result: Comparison) -> Columns:
    """One row for each agent and seed."""
    runs = result.outcomes
    return {
        "problem": [result.problem] * len(runs),
        **{name: [getattr(run, name) for run in runs] for name in TOTALS},
    }


def curves_of(result: Comparison) -> Columns:
    """One row for each agent, seed and point: regret and mistakes after so many episodes."""
    runs, grid = result.outcomes, result.grid.astype(np.int64).tolist()
    return {
        "problem": [result.problem] * (len(runs) * len(grid)),
        "agent": [run.agent for run in runs for _ in grid],
        "seed": [run.seed for run in runs for _ in grid],
        "episode": grid * len(runs),
        "regret": [value for run in runs for value in run.regret_curve.tolist()],
        "mistakes": [value for run in runs for value in run.mistakes_curve.tolist()],
    }


def frame_of(columns: Columns) -> Any:
    """A frame of pandas."""
    try:
        from pandas import DataFrame
    except ImportError:
        raise not_installed("a frame", "pandas") from None
    return DataFrame(columns)


def curves_path(path: AnyPath) -> Path:
    """Where the curves go, if the totals go to ``path``.

    >>> curves_path("runs.csv").name
    'runs-curves.csv'
    """
    given = Path(path)
    return given.with_name(f"{given.stem}-curves{given.suffix}")


def write_csv(columns: Columns, path: AnyPath, force: bool = False) -> None:
    """Write columns to a .csv file, with all digits."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_text(path, text.getvalue(), force)
