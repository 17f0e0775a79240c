"""``ucfh bounds``."""

from __future__ import annotations

from dataclasses import asdict
from math import inf
from typing import Annotated, Any

import typer

from ucfh.commands.options import AsJson
from ucfh.commands.printing import print_json, print_table

MANY = "more than 1e308, the largest number that fits"
"""What is said of an infinite number where JSON has none."""


def bounds(
    states: Annotated[int, typer.Option(help="number of states, S", show_default=False)],
    actions: Annotated[int, typer.Option(help="number of actions, A", show_default=False)],
    horizon: Annotated[int, typer.Option(help="steps in an episode, H", show_default=False)],
    epsilon: Annotated[
        float, typer.Option(help="largest acceptable loss per episode", show_default=False)
    ],
    delta: Annotated[
        float,
        typer.Option(
            help="largest acceptable probability that the guarantee is wrong", show_default=False
        ),
    ],
    successors: Annotated[
        int | None,
        typer.Option(help="most states that can follow one action in a state, C; default: S"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Print the paper's bounds, and others, for a size of problem.

    \b
    Example:
      ucfh bounds --states 10 --actions 2 --horizon 10 --epsilon 0.1 --delta 0.05
    """
    from ucfh.theory.bounds import bounds as bounds_for

    rows = bounds_for(states, actions, horizon, epsilon, delta, successors)
    order = next(row.episodes for row in rows if row.name == "UCFH, order")
    if json:
        size = {"states": states, "actions": actions, "horizon": horizon}
        size["successors"] = states if successors is None else successors
        listed = [asdict(row) | {"ratio": _ratio(row.episodes, order)} for row in rows]
        for one in listed:
            if one["episodes"] == inf:  # which JSON cannot say
                one["episodes"], one["note"] = None, f"{MANY}; {one['note']}".rstrip("; ")
        print_json({**size, "epsilon": epsilon, "delta": delta, "bounds": listed})
        return
    print("Episodes worse than epsilon: at most this many (a lower bound: at least)")
    columns: list[dict[str, Any]] = [
        {"header": "bound", "no_wrap": True},
        {"header": "episodes", "justify": "right", "no_wrap": True},
        {"header": "ratio", "justify": "right", "no_wrap": True},
        {"header": "formula"},
    ]
    cells = []
    for row in rows:
        number = "-" if row.episodes is None else f"{row.episodes:.4g}".replace("inf", "> 1e308")
        ratio = _ratio(row.episodes, order)
        cells.append(
            [
                row.name,
                number if row.exact else f"~{number}",
                "-" if ratio is None else f"{ratio:.2g}",
                row.formula,
            ]
        )
    print_table(columns, cells)
    print("~      an order: constant 1, no logarithms but ln(1/delta); compare with orders only")
    print("ratio  to the order of UCFH's bound")
    for row in rows:
        if row.note:
            print(f"{row.name}: {row.reference}; {row.note}")


def _ratio(episodes: float | None, order: float | None) -> float | None:
    """How many times as large a number is, where both are numbers."""
    if not episodes or not order or inf in (episodes, order):
        return None
    return episodes / order
