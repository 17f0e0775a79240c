"""``ucfh problems``."""

from __future__ import annotations

from inspect import Parameter, getdoc, signature
from typing import Annotated, Any

import typer

from ucfh.cli.options import AsJson, Force
from ucfh.cli.printing import print_json, print_table
from ucfh.exceptions import InputError


def problems(
    name: Annotated[
        str | None, typer.Argument(help="show only this problem, in full", show_default=False)
    ] = None,
    write: Annotated[
        str | None,
        typer.Option(help="write it as a model file: .json or .npz", show_default=False),
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """List the named problems, or show one of them.

    \b
    Examples:
      ucfh problems
      ucfh problems hard:n=4
      ucfh problems tutoring --write tutoring.json
    """
    if name is not None:
        _show(name, write, force, json)
    elif write is not None:
        raise InputError("--write needs the name of a problem: ucfh problems NAME --write FILE")
    else:
        _list(json)


def _list(json: bool) -> None:
    """Print all problems with their parameters."""
    from ucfh.problems import catalogue

    listed: list[dict[str, Any]] = []
    for name, builder in catalogue().items():
        parameters = signature(builder).parameters.values()
        defaults = {p.name: p.default for p in parameters if p.default is not Parameter.empty}
        summary = (getdoc(builder) or "").splitlines()[0]
        listed.append({"name": name, "summary": summary, "parameters": defaults})
    if json:
        print_json({"problems": listed})
        return
    columns = [
        {"header": "problem"},
        {"header": "what it is"},
        {"header": "parameters and defaults", "style": "dim"},
    ]
    print_table(
        columns,
        [
            [x["name"], x["summary"], ", ".join(f"{k}={v}" for k, v in x["parameters"].items())]
            for x in listed
        ],
    )
    print("one in full: ucfh problems NAME        learn it: ucfh learn NAME")


def _show(name: str, write: str | None, force: bool, json: bool) -> None:
    """Print the description, size and optimal value of a problem."""
    from ucfh._utils.files import check_outputs
    from ucfh._utils.plugins import is_plugin
    from ucfh.io import ENDINGS, write_model
    from ucfh.problems import catalogue, find_problem_plugin, make

    check_outputs([(write, ENDINGS)], [], force)
    mdp = make(name)
    plan = mdp.optimal()
    facts = {
        "problem": name,
        "states": mdp.states,
        "actions": mdp.actions,
        "horizon": mdp.horizon,
        "successors": int(mdp.table.lengths[:-1].max()),
        "time_dependent": mdp.table.segments > 1,
        "optimal": mdp.at_start(plan.values),
        "note": mdp.note or None,
    }
    if write is not None:
        write_model(mdp, write, force)
    if json:
        print_json(facts)
        return
    builder = catalogue().get(name.partition(":")[0])
    if builder is None and is_plugin(name):
        builder = find_problem_plugin(name).thing
    if callable(builder):
        print(getdoc(builder))
        print()
    for key, value in facts.items():
        if value is not None:
            shown = f"{value:.6g}" if isinstance(value, float) else value
            print(f"{key.replace('_', ' '):>16}  {shown}")
    if write is not None:
        print(f"{'written':>16}  {write}")
