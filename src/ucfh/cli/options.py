"""Options that several commands have."""

from __future__ import annotations

from typing import Annotated

import typer

from ucfh.exceptions import InputError

ProblemName = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM",
        help="a name (see: ucfh problems), such as chain:n=8; a model file, .json or .npz; or your "
        "own, module:function",
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
Cluster = Annotated[
    str | None,
    typer.Option(
        help="run on the workers of a Dask scheduler, such as tcp://host:8786", show_default=False
    ),
]
Force = Annotated[bool, typer.Option("--force", help="overwrite files that exist")]
RewardLimits = Annotated[
    str | None,
    typer.Option(
        metavar="LOW,HIGH",
        help="least and largest reward of a step that are possible; default: 0,1 (write "
        "--rewards=-1,1 if the first is negative)",
    ),
]
MaxReturn = Annotated[
    float | None,
    typer.Option(
        help="largest sum of an episode's rewards, if you know it: fewer episodes are needed then"
    ),
]
Segments = Annotated[
    str | None,
    typer.Option(
        metavar="T,...",
        help="steps at which rewards or transitions may change (an exam at the end), counted "
        "from 0 or, of a log, in its own t; every: they may change at every step",
    ),
]


def read_range(text: str | None) -> tuple[float, float]:
    """Parse a range of rewards such as -1,1."""
    if text is None:
        return 0.0, 1.0
    try:
        low, high = (float(x) for x in text.split(","))
    except ValueError:
        raise InputError(f"--rewards {text} must be two numbers, such as 0,1") from None
    return low, high


def read_segments(text: str | None) -> list[int] | bool:
    """Parse change points such as 9; return True for every."""
    if text is None or text == "every":
        return text is not None
    try:
        return [int(x) for x in text.split(",")]
    except ValueError:
        raise InputError(
            f"--segments {text} must be steps, such as 9 or 5,9, or the word every"
        ) from None
