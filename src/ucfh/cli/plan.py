"""``ucfh plan``."""

from __future__ import annotations

import csv
import io
import json as jsonlib
import os
import sys
import time
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh._utils import files
from ucfh.cli.options import AsJson, Force
from ucfh.cli.printing import print_json, print_lines, printable
from ucfh.exceptions import InputError, check_count

if TYPE_CHECKING:
    from ucfh._utils.arrays import Floats
    from ucfh.interval_mdp import IntervalMDP
    from ucfh.planning import Plan

MOST_SHOWN = 10
"""The largest number of states that are printed."""
LARGE = 20_000_000
"""The size of a file, in bytes, from which progress is reported."""

KINDS = {
    "exact": "exactly, for the probabilities given",
    "optimistic": "optimistically, for the best model in the intervals (--robust: the worst)",
    "robust": "robustly, for the worst model in the intervals",
}


def plan(
    model: Annotated[
        str,
        typer.Argument(metavar="MODEL", help="a .json, .npz, or PRISM's .tra", show_default=False),
    ],
    robust: Annotated[
        bool,
        typer.Option("--robust", help="plan for the worst model in the intervals, not the best"),
    ] = False,
    horizon: Annotated[
        int | None, typer.Option(help="steps in an episode; .tra files do not say it")
    ] = None,
    states: Annotated[
        str | None, typer.Option(help="file of state names; default: the .sta beside the .tra")
    ] = None,
    labels: Annotated[
        str | None,
        typer.Option(help="file of labels, which names the start; default: the .lab beside it"),
    ] = None,
    state_rewards: Annotated[
        str | None, typer.Option(help="file of state rewards; default: the .srew beside it")
    ] = None,
    transition_rewards: Annotated[
        str | None, typer.Option(help="file of transition rewards; default: the .trew beside it")
    ] = None,
    policy: Annotated[str | None, typer.Option(help="write the policy: .csv or .json")] = None,
    values: Annotated[str | None, typer.Option(help="write the values: .csv or .json")] = None,
    threads: Annotated[
        int | None,
        typer.Option(help="number of threads; default: all cores where that pays; same result"),
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Compute the best policy of a model, and its value.

    The model may be known up to intervals: then it plans for the best model they allow, as UCFH
    does, or with --robust for the worst. Rewards may have any unit; values are in the same unit.

    \b
    Examples:
      ucfh plan commute.json --policy best.csv
      ucfh plan delivery.json --robust --values values.csv
      ucfh plan robot.tra --horizon 20 --json
    """
    from ucfh import policies, read_intervals
    from ucfh.problems import catalogue

    others = {
        "states": states,
        "labels": labels,
        "state_rewards": state_rewards,
        "transition_rewards": transition_rewards,
    }
    if model.partition(":")[0] in catalogue() and not os.path.exists(model):
        raise InputError(
            f"{model} is the name of a problem, and plan reads a file. Fix: write one in Python, "
            f"ucfh.write_model(ucfh.make({model!r}), 'model.json')"
        )
    if threads is not None:
        check_count("threads", threads)
    inputs = [path for path in (model, *others.values()) if path is not None]
    files.check_outputs([(path, policies.ENDINGS) for path in (policy, values)], inputs, force)
    begin = time.perf_counter()
    size = os.path.getsize(model) if os.path.isfile(model) else 0
    _report(size, f"reading {model}, {size / 1e6:.0f} MB")
    mdp = read_intervals(model, horizon, **others)
    middle = time.perf_counter()
    _report(size, f"planning {mdp.horizon} steps in {mdp.table.states} states")
    solution = mdp.plan(optimistic=not robust, threads=threads)
    end = time.perf_counter()
    kind = "exact" if mdp.exact else "robust" if robust else "optimistic"
    if json:
        print_json(summary(model, kind, mdp, solution.values) | {"seconds": end - begin})
    else:
        took = f"{middle - begin:.2f} s to read, {end - middle:.2f} s to plan"
        print_summary(model, kind, mdp, solution, took)
    if policy is not None:
        policies.write_policy(solution.policy, mdp.problem, policy, force)
    if values is not None:
        write_values(solution.values, mdp, values, force)


def _report(size: int, what: str) -> None:
    """Report a slow step on a terminal."""
    if size >= LARGE and sys.stderr is not None and sys.stderr.isatty():
        print(f"ucfh: {what} ...", file=sys.stderr)


def summary(model: str, kind: str, mdp: IntervalMDP, values: Floats) -> dict[str, Any]:
    """Return a plan as a JSON object; values (H+1, S)."""
    from ucfh import __version__

    return {
        "model": model,
        "kind": kind,
        "states": mdp.table.states,
        "actions": mdp.table.actions,
        "horizon": mdp.horizon,
        "successors": int(mdp.table.lengths[:-1].max()),
        "time_dependent": mdp.table.segments > 1,
        "value": mdp.at_start(values),
        "note": mdp.note or None,
        "version": __version__,
    }


def print_summary(model: str, kind: str, mdp: IntervalMDP, plan: Plan, took: str) -> None:
    """Print a plan as text."""
    S = mdp.table.states
    states, actions = files.labels_of(mdp.problem)
    lines = {
        "model": f"{model}: {S} states, {mdp.table.actions} actions, {mdp.horizon} steps",
        "planned": KINDS[kind],
        "value": f"{mdp.at_start(plan.values):.6g} per episode, from the start",
        "took": took,
    }
    if mdp.note:
        lines["note"] = mdp.note
    print_lines(lines)
    # the likeliest starts, then states in order
    shown = (-mdp.initial).argsort(kind="stable")[:MOST_SHOWN].tolist()
    width = max(5, *(len(str(states.label(s))) for s in shown))
    print(f"\n{'value':>12}  {'state':<{width}}  action at the first step")
    for s in shown:
        label = printable(str(states.label(s)))
        action = printable(str(actions.label(int(plan.policy[0, s]))))
        print(f"{plan.values[0, s]:>12.6g}  {label:<{width}}  {action}")
    if len(shown) < S:
        print(f"{'...':>12}  and {S - len(shown)} more: --policy and --values write all")


def write_values(values: Floats, mdp: IntervalMDP, path: str, force: bool = False) -> None:
    """Write values (H+1, S), without the last step, to a .csv or .json file."""
    from ucfh import policies

    states, _ = files.labels_of(mdp.problem)
    labels = [states.label(s) for s in range(mdp.table.states)]
    steps = values[:-1].tolist()
    if files.check_ending(path, policies.ENDINGS) == ".json":
        named = [{str(s): v for s, v in zip(labels, step, strict=True)} for step in steps]
        lines = ",\n".join(f"    {jsonlib.dumps(step, ensure_ascii=False)}" for step in named)
        text = (
            f'{{\n  "format": "ucfh-values",\n  "version": 1,\n  "horizon": {mdp.horizon},\n'
            f'  "values": [\n{lines}\n  ]\n}}\n'
        )
    else:
        out = io.StringIO()
        # a lone carriage return in a name would end the line, and csv does not quote it by itself
        odd = any("\r" in str(label) for label in labels)
        writer = csv.writer(
            out, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
        )
        writer.writerow(("t", "state", "value"))
        for t, step in enumerate(steps):
            writer.writerows((t, s, v) for s, v in zip(labels, step, strict=True))
        text = out.getvalue()
    files.write_text(path, text, force)
