"""How commands print: JSON for programs, lines and tables for people."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from ucfh.certificate import Certificate
    from ucfh.problem import Problem

NOT_CERTIFIED = 3
"""The exit code of data that contradict the assumptions or, from a log, do not reach epsilon."""

ROUNDING = 1e-9
"""A smaller distance from optimal is none."""


def print_json(result: Any) -> None:
    """One JSON value on stdout."""
    print(json.dumps(result, indent=2))


def print_lines(lines: Mapping[str, str]) -> None:
    """Facts, one a line, their names in a column on the left."""
    for key, text in lines.items():
        print(f"{key:>12}  {text}")


def print_table(columns: Sequence[Mapping[str, Any]], rows: Sequence[Sequence[str]]) -> None:
    """A table as wide as the terminal; a column is what rich's ``add_column`` takes."""
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    for column in columns:
        table.add_column(**column)
    for row in rows:
        table.add_row(*row)
    Console(highlight=False, markup=False).print(table)


def certificate_lines(known: Certificate, problem: Problem) -> dict[str, str]:
    """A certificate for a person: what is known, how surely, and what is missing."""
    from ucfh._support.files import labels_of

    if known.contradiction is not None:
        return {"refuted": known.contradiction}
    near = "optimal" if known.gap < ROUNDING else f"within {known.gap:.3g} of optimal"
    lines = {
        "known": f"This policy earns at least {known.lower:.3f} per episode; no policy earns more "
        f"than {known.upper:.3f}.",
        "": f"It is {near} ({100 * (1 - known.delta):.4g} % confidence).",
    }
    if not known.certified and known.missing:
        states, actions = labels_of(problem)
        pairs = [
            f"{actions.label(x.action)} in {states.label(x.state)}"
            + (f" at step {x.stage + 1}" if problem.table.stages > 1 else "")
            + f" ({x.visits} visits, {x.share:.0%})"
            if x.state >= 0
            else f"where episodes start ({x.visits} seen, {x.share:.0%})"
            for x in known.missing[:5]
        ]
        lines["missing"] = "the gap depends most on: " + "; ".join(pairs)
    return lines
