"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="a name (see: ucfh problems), such as chain:n=8, or a model file, .json or .npz",
        show_default=False,
    ),
]
Epsilon = Annotated[float, typer.Option(help="largest acceptable loss per episode")]
Delta = Annotated[
    float, typer.Option(help="largest acceptable probability that the guarantee is wrong")
]
AsJson = Annotated[bool, typer.Option("--json", help="print one JSON object and nothing else")]
Encoding = Annotated[
    str | None, typer.Option(help="encoding of the log, such as cp1252; default: utf-8")
]
AcceptLosses = Annotated[
    bool,
    typer.Option(
        "--accept-losses",
        help="use a log although rows are lost or contradict what is assumed, and list that",
    ),
]
Force = Annotated[bool, typer.Option("--force", help="overwrite files that exist")]
