"""Arguments that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

Problem = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="a name (see: ucfh problems), such as chain:n=8, or a model file, .json or .npz",
        show_default=False,
    ),
]
Epsilon = Annotated[float, typer.Option(help="how much worse than the optimum is still good")]
Delta = Annotated[float, typer.Option(help="the probability with which the guarantee may fail")]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]
Force = Annotated[bool, typer.Option("--force", help="overwrite files that exist")]
