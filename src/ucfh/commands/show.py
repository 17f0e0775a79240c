"""Commands that look something up: bounds, problems, the worth of a policy."""

from __future__ import annotations

import inspect
import json as jsonlib
from math import inf
from typing import Any

from ucfh.errors import InputError

MANY = "more than 1e308, the largest number that fits"
"""What is said of an infinite number where JSON has none."""


def print_json(result: Any) -> None:
    """One JSON value on stdout."""
    print(jsonlib.dumps(result, indent=2))


def show_bounds(
    states: int,
    actions: int,
    horizon: int,
    epsilon: float,
    delta: float,
    successors: int | None,
    json: bool,
) -> None:
    """The table of bounds, smallest first."""
    from dataclasses import asdict

    from ucfh.theory.bounds import bounds

    rows = bounds(states, actions, horizon, epsilon, delta, successors)
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
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    table.add_column("bound", no_wrap=True)
    table.add_column("episodes", justify="right", no_wrap=True)
    table.add_column("ratio", justify="right", no_wrap=True)
    table.add_column("formula")
    for row in rows:
        number = "-" if row.episodes is None else f"{row.episodes:.4g}".replace("inf", "> 1e308")
        ratio = _ratio(row.episodes, order)
        table.add_row(
            row.name,
            number if row.exact else f"~{number}",
            "-" if ratio is None else f"{ratio:.2g}",
            row.formula,
        )
    console = Console(highlight=False)
    console.print("Episodes worse than epsilon (at most, or for the lower bound at least)")
    console.print(table)
    console.print("~      an order: constant 1, no logarithms but ln(1/delta); compare with orders")
    console.print("ratio  to the order of UCFH's bound")
    for row in rows:
        if row.note:
            console.print(f"[bold]{row.name}[/]: {row.reference}; {row.note}")


def _ratio(episodes: float | None, order: float | None) -> float | None:
    """How many times as large a number is, where both are numbers."""
    if not episodes or not order or inf in (episodes, order):
        return None
    return episodes / order


def show_problems(json: bool) -> None:
    """The list of named problems with their parameters."""
    from ucfh.problems import catalogue

    listed: list[dict[str, Any]] = []
    for name, builder in catalogue().items():
        parameters = inspect.signature(builder).parameters.values()
        defaults = {
            p.name: p.default for p in parameters if p.default is not inspect.Parameter.empty
        }
        summary = (inspect.getdoc(builder) or "").splitlines()[0]
        listed.append({"name": name, "summary": summary, "parameters": defaults})
    if json:
        print_json({"problems": listed})
        return
    from rich import box
    from rich.console import Console
    from rich.table import Table

    table = Table(box=box.SIMPLE)
    table.add_column("problem")
    table.add_column("what it is")
    table.add_column("parameters and defaults", style="dim")
    for row in listed:
        text = ", ".join(f"{k}={v}" for k, v in row["parameters"].items())
        table.add_row(row["name"], row["summary"], text)
    console = Console()
    console.print(table)
    console.print("one in full: ucfh problems NAME        learn it: ucfh learn NAME")


def show_problem(name: str, write: str | None, force: bool, json: bool) -> None:
    """One problem: what it models, its size and its optimum."""
    from ucfh.problems import catalogue, make

    if write is not None:
        from ucfh.files import check_outputs
        from ucfh.models import ENDINGS

        check_outputs([(write, ENDINGS)], [], force)
    mdp = make(name)
    plan = mdp.optimal()
    facts = {
        "problem": name,
        "states": mdp.states,
        "actions": mdp.actions,
        "horizon": mdp.horizon,
        "successors": int(mdp.table.lengths[:-1].max()),
        "stage_dependent": mdp.table.stages > 1,
        "optimal": mdp.at_start(plan.values),
        "note": mdp.note or None,
    }
    if write is not None:
        from ucfh.models import write_model

        write_model(mdp, write, force)
    if json:
        print_json(facts)
        return
    builder = catalogue().get(name.partition(":")[0])
    if builder is not None:
        print(inspect.getdoc(builder))
        print()
    for key, value in facts.items():
        if value is not None:
            print(f"{key.replace('_', ' '):>16}  {value}")
    if write is not None:
        print(f"{'written':>16}  {write}")


def show_evaluation(policy: str, problem: str, json: bool) -> None:
    """What a policy earns, beside the optimum."""
    from ucfh.policies import read_policy
    from ucfh.problems import make

    if policy.endswith(".npz"):
        raise InputError(f"{policy} is no policy: pass a .csv or .json that --policy wrote")
    mdp = make(problem)
    pi = read_policy(policy, mdp)
    value, optimal = mdp.value(pi), mdp.at_start(mdp.optimal().values)
    result = {
        "problem": problem,
        "policy": policy,
        "value": value,
        "optimal": optimal,
        "gap": optimal - value,
        "standard_deviation": mdp.variance(pi) ** 0.5,
    }
    if json:
        print_json(result)
        return
    print(f"{policy} earns {value:.6g} an episode on {problem}, of an optimal {optimal:.6g}")
    print(
        f"gap {optimal - value:.6g}; the reward of one episode has a standard deviation of "
        f"{result['standard_deviation']:.4g}"
    )
