"""``ucfh agents``."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from ucfh.cli.options import AsJson
from ucfh.cli.printing import print_json, print_lines, print_table

FACTS = ("reference", "setting", "guarantee", "constants")
"""The attributes of an agent that are listed."""

FAULTY = 1
"""The exit code if a user-defined agent has errors."""


def agents(
    name: Annotated[
        str | None,
        typer.Argument(
            help="show only this agent, in full; your own, module:Class, is also checked",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """List the agents, with source, setting and guarantee.

    Also lists the origin of their constants, and for one agent, its parameters. Exit code 1 if an
    agent of your own has errors.

    \b
    Examples:
      ucfh agents
      ucfh agents psrl
      ucfh agents mine:Eager
    """
    from ucfh._utils.plugins import is_plugin
    from ucfh.algorithms.registry import (
        AGENTS,
        describe_parameters,
        label_of,
        read_name,
        tell_origins,
    )
    from ucfh.simulation.checker import check_parameters, find_issues

    listed: list[dict[str, Any]] = []
    for key in AGENTS if name is None else [name]:
        kind, given = read_name(key)
        facts = {what: getattr(kind, what) for what in FACTS}
        if given:
            check_parameters(key)
        parameters = {
            x.name: x._asdict() | ({"given": given[x.name]} if x.name in given else {})
            for x in describe_parameters(kind)
        }
        listed.append({"name": label_of(kind), **facts, "parameters": parameters})
    own = name is not None and is_plugin(name)
    faults = find_issues(name) if name is not None and own else []
    if json:
        print_json({"agents": listed} | ({"faults": faults} if own else {}))
    elif name is not None:
        parameters = listed[0].pop("parameters")
        print_lines(listed[0])
        for x in parameters.values():
            default = "" if x["default"] is None else f"; default: {x['default']}"
            here = (
                f"; given: {'none' if x['given'] is None else x['given']}" if "given" in x else ""
            )
            print_lines({"parameter": f"{x['name']} ({x['kind']}{default}{here}): {x['words']}"})
        if not parameters:
            print_lines({"parameter": "none"})
        for fault in faults:
            print_lines({"fault": fault})
        if own and not faults:
            print_lines({"checked": "no faults found (see ucfh.check_agent)"})
    else:
        columns: list[dict[str, Any]] = [{"header": "agent", "no_wrap": True}]
        columns += [{"header": heading} for heading in ("source", *FACTS[1:])]
        rows = [
            [
                row["name"],
                *(row[key] for key in FACTS[:-1]),
                tell_origins(row["constants"]),
            ]
            for row in listed
        ]
        print_table(columns, rows)
        print("one in full, with its parameters: ucfh agents NAME")
    raise typer.Exit(FAULTY if faults else 0)
