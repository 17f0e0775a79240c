"""``ucfh agents``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ucfh.commands.options import AsJson
from ucfh.commands.printing import print_json, print_lines, print_table

FACTS = ("reference", "setting", "guarantee", "constants")
"""What is said of a learner."""


def agents(
    name: Annotated[
        str | None, typer.Argument(help="show only this learner, in full", show_default=False)
    ] = None,
    json: AsJson = False,
) -> None:
    """List the learners, with source, setting and guarantee.

    Also where their constants come from.

    \b
    Examples:
      ucfh agents
      ucfh agents psrl
    """
    from ucfh.agents.registry import AGENTS, origins, parameters_of, read_name

    listed: list[dict[str, Any]] = []
    for key in AGENTS if name is None else [name]:
        found, given = read_name(key)
        facts = {what: getattr(found, what) for what in FACTS}
        listed.append({"name": found.name, **facts, "parameters": parameters_of(found) | given})
    if json:
        print_json({"agents": listed})
    elif name is not None:
        parameters = listed[0].pop("parameters")
        print_lines(listed[0])
        for key, default in parameters.items():
            print(f"{'parameter':>12}  {key}" + ("" if default is None else f" = {default}"))
    else:
        columns: list[dict[str, Any]] = [{"header": "learner", "no_wrap": True}]
        columns += [{"header": heading} for heading in ("source", *FACTS[1:])]
        rows = [
            [
                row["name"],
                *(row[key] for key in FACTS[:-1]),
                ", ".join(origins(row["constants"])) or "none",
            ]
            for row in listed
        ]
        print_table(columns, rows)
        print("one in full, with its parameters: ucfh agents NAME")
