"""How ``ucfh verify`` is called."""

from __future__ import annotations

from typing import Annotated

import typer

from ucfh.commands.options import AsJson, Delta, Epsilon
from ucfh.defaults import DELTA


def verify(
    problems: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[PROBLEM]...",
            help="names (see: ucfh problems) or model files; default: three small ones",
            show_default=False,
        ),
    ] = None,
    epsilon: Epsilon = 0.2,
    delta: Delta = DELTA,
    variant: Annotated[str, typer.Option(help="the constants: paper, corrected, or both")] = "both",
    runs: Annotated[int, typer.Option(help="whole lifetimes on each problem")] = 5,
    seed: Annotated[int, typer.Option(help="of the first lifetime")] = 0,
    json: AsJson = False,
) -> None:
    """Check the paper's lemmas and theorem on whole lifetimes: predicted, measured, margin.

    Lines that are only printed, and known to be wrong or not proved, may fail; they are shown. Exit
    code 1 if a line fails that is proved.

    \b
    Examples:
      ucfh verify
      ucfh verify chain:n=5 --epsilon 0.5 --variant corrected --runs 20
    """
    from ucfh.commands.verify import run_verify

    raise typer.Exit(run_verify(problems or [], epsilon, delta, variant, runs, seed, json))
