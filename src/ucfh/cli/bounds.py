"""``ucfh bounds``."""

from __future__ import annotations

from dataclasses import asdict
from decimal import ROUND_FLOOR, Context
from math import inf
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh.cli.options import AsJson
from ucfh.cli.printing import print_json, print_table
from ucfh.cli.progress import ProgressBar
from ucfh.exceptions import InputError

if TYPE_CHECKING:
    from ucfh.mdp import MDP

MANY = "more than 1e308, the largest number that fits"
"""The note on an infinite number, which JSON lacks."""


def bounds(
    epsilon: Annotated[
        float, typer.Option(help="largest acceptable loss per episode", show_default=False)
    ],
    delta: Annotated[
        float,
        typer.Option(
            help="largest acceptable probability that the guarantee is wrong", show_default=False
        ),
    ],
    problem: Annotated[
        str | None,
        typer.Argument(
            metavar="PROBLEM",
            help="a problem as ucfh learn takes it: adds its own lower bound to those of its size",
            show_default=False,
        ),
    ] = None,
    states: Annotated[
        int | None, typer.Option(help="number of states, S", show_default=False)
    ] = None,
    actions: Annotated[
        int | None, typer.Option(help="number of actions, A", show_default=False)
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="steps in an episode, H", show_default=False)
    ] = None,
    successors: Annotated[
        int | None,
        typer.Option(help="most states that can follow one action in a state, C; default: S"),
    ] = None,
    json: AsJson = False,
) -> None:
    """Print sample-complexity bounds, of the paper and others, for a size or a problem.

    For a problem, also a lower bound for any algorithm that stops by itself; this takes seconds for
    tens of states, and minutes for hundreds.

    \b
    Examples:
      ucfh bounds --states 10 --actions 2 --horizon 10 --epsilon 0.1 --delta 0.05
      ucfh bounds hard:n=4 --epsilon 0.1 --delta 0.05
    """
    from ucfh.theory.bounds import bounds as bounds_for

    mdp, size = None, (states, actions, horizon, successors)
    if problem is not None:
        mdp, size = _of_problem(problem, size)
    S, A, H, C = _checked(size)
    rows = bounds_for(S, A, H, epsilon, delta, C)
    lower = None if mdp is None else _lower_bound(mdp, epsilon, delta)
    order = next(row.episodes for row in rows if row.name == "UCFH, order")
    if json:
        sizes = {"states": S, "actions": A, "horizon": H, "successors": S if C is None else C}
        listed = [asdict(row) | {"ratio": _ratio(row.episodes, order)} for row in rows]
        for one in listed:
            if one["episodes"] == inf:  # which JSON cannot say
                one["episodes"], one["note"] = None, f"{MANY}; {one['note']}".rstrip("; ")
        about = {"problem": problem, **sizes, "epsilon": epsilon, "delta": delta}
        print_json({**about, "floor": lower, "bounds": listed})
        return
    print("Upper bounds: the number of episodes worse than epsilon")
    print("Lower bounds (Theorem 2): the expected number of episodes until a policy is output")
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
    if lower is not None:
        print(f"Floor on this problem: {_describe(lower)}")


Size = tuple[int | None, int | None, int | None, int | None]
"""S, A, H and C; None where not given."""


def _of_problem(name: str, given: Size) -> tuple[MDP, Size]:
    """Return a problem and its size, which must not be given by options."""
    from ucfh.problems import make

    if any(x is not None for x in given):
        raise InputError(
            "a problem has its own size: leave out --states, --actions, --horizon and --successors"
        )
    mdp = make(name)
    table = mdp.problem.table
    states = table.states * table.segments  # learned apart, if transitions depend on the step
    return mdp, (states, mdp.actions, mdp.horizon, int(table.lengths[:-1].max()))


def _checked(size: Size) -> tuple[int, int, int, int | None]:
    """Return the size, or raise if it is not complete."""
    states, actions, horizon, successors = size
    if states is None or actions is None or horizon is None:
        raise InputError(
            "the size is not complete: pass --states, --actions and --horizon, or a problem's name"
        )
    return states, actions, horizon, successors


def _lower_bound(mdp: MDP, epsilon: float, delta: float) -> float:
    """Return the lower bound on the expected number of episodes on a problem."""
    from ucfh.theory.lower_bounds import episode_lower_bound

    with ProgressBar() as bar:

        def report(share: float) -> None:
            bar.show("other models that must be excluded", share)

        return episode_lower_bound(mdp, epsilon, delta, progress=report).episodes


def _describe(lower: float) -> str:
    """Describe a lower bound on the number of episodes."""
    if not lower:
        return "none was found; a rule may exist that stops without data."
    digits = Context(prec=4, rounding=ROUND_FLOOR).create_decimal(repr(lower))
    return f"any rule that stops by itself needs at least {digits:f} episodes on average."


def _ratio(episodes: float | None, order: float | None) -> float | None:
    """Return the ratio of two numbers, or None if one is missing or infinite."""
    if not episodes or not order or inf in (episodes, order):
        return None
    return episodes / order
