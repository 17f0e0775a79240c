"""Commands of ``ucfh task`` that certify, export, import and check."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Annotated

import typer

from ucfh.cli.options import AsJson, Force
from ucfh.cli.printing import NOT_CERTIFIED, certificate_lines, print_json, print_lines
from ucfh.cli.task_options import StoreFile, TaskName, opened, plan

if TYPE_CHECKING:
    from ucfh._utils.files import Labels
    from ucfh.tasks.task import Task

DAMAGED = 1
"""The exit code of a store in which something is wrong."""


def certificate(
    store: StoreFile,
    policy: Annotated[str | None, typer.Option(help="write the policy: .csv or .json")] = None,
    force: Force = False,
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """Report what the policy earns at least, and how far it may be from optimal.

    From all that was told so far. Also prints what any policy earns at most, what late and lost
    outcomes cost, and what is assumed. Exit code 3 if the policy is not certified to be within
    epsilon.

    \b
    Examples:
      ucfh task certificate calls.db
      ucfh task certificate calls.db --policy calls-policy.csv --json
    """
    from ucfh._utils.files import check_outputs
    from ucfh.io import policies

    check_outputs([(policy, policies.ENDINGS)], [store], force)
    with opened(store, task) as live:
        known = live.certificate()
        states, actions = _labels(live)
        if json:
            print_json(
                {
                    "store": live.store.name,
                    "task": live.name,
                    **known.as_dict(),
                    "certified": known.certified,
                    "state_names": states.names,
                    "action_names": actions.names,
                }
            )
        else:
            count = len(live.declaration.segments) + 1
            segmented = {live.declaration.horizon: "step", 1: ""}.get(count, "segment")
            print_lines(
                {
                    "task": f"{live.name} in {live.store.name}: {known.episodes} episodes; "
                    f"{known.waiting} decisions are not counted yet, "
                    f"{known.lost} outcomes are lost{_conflicts(known.conflicts)}",
                    **certificate_lines(
                        known, states, actions, segmented, range(live.declaration.horizon)
                    ),
                    "assumed": f"\n{'':>14}".join(known.assumed),
                }
            )
        if policy is not None:
            live.policy().write(policy, force)
            if not json:
                print_lines({"policy": policy})
    if not known.certified:
        raise typer.Exit(NOT_CERTIFIED)


def _conflicts(count: int) -> str:
    return f"; {count} outcomes were reported in two different ways" if count else ""


def _labels(task: Task) -> tuple[Labels, Labels]:
    """What states, without the end, and actions are called."""
    from ucfh._utils.files import Labels

    names = tuple(task.states.names[1:])
    actions = tuple(task.declaration.action_names)
    return Labels("state", names, len(names)), Labels("action", actions, len(actions))


def export(
    store: StoreFile,
    log: Annotated[str, typer.Argument(metavar="LOG", help="the log to write, .csv")],
    force: Force = False,
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """Write the steps of a task as a log.

    ucfh certify reads the same counts from it, without options: what was declared is written to a
    file beside the log, LOG.toml. Outcomes that are yet to come are lost in the log. A task with
    conflicting reports has no log.

    \b
    Example:
      ucfh task export calls.db calls.csv
    """
    with opened(store, task) as live:
        done = live.export(log, force)
    if json:
        print_json({**done._asdict(), "path": log, "settings": str(done.settings)})
    else:
        print_lines(
            {
                "log": f"{log}: {done.episodes} episodes, {done.steps} steps; {done.lost} outcomes "
                f"are lost, {done.waiting} yet to come",
                "settings": str(done.settings),
            }
        )


def import_log(
    store: StoreFile,
    log: Annotated[str, typer.Argument(metavar="LOG", help="a log, or a model, .json or .npz")],
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """Import a log or a model, for a task to begin with.

    The episodes of a log are recorded, as if somebody had chosen their actions. A model's best
    policy is followed at the beginning. What this assumes is listed with the certificate. Of
    episodes that are there already, by their names, only new steps are added.

    \b
    Example:
      ucfh task import calls.db calls-of-last-year.csv
    """
    with opened(store, task) as live:
        count = live.warm_start(log)
        if json:
            print_json({"source": log, "episodes": count})
        else:
            what = "its best policy, to begin with" if count is None else f"{count} new episodes"
            print_lines({"imported": f"{log}: {what}"})
        plan(live)


def check(
    store: StoreFile,
    task: Annotated[
        str | None,
        typer.Option("--task", help="check only this task", show_default=False),
    ] = None,
    json: AsJson = False,
) -> None:
    """Check a store: count everything again and compare.

    Checks all its tasks, or the one that is named. Prints what is wrong, a line each; exit code 1
    if something is.

    \b
    Example:
      ucfh task check calls.db
    """
    from ucfh.tasks.errors import StoreError
    from ucfh.tasks.opening import open_store, open_task

    found: dict[str, list[str]] = {}
    with closing(open_store(store)) as kept:
        for name in kept.tasks() if task is None else [task]:
            try:
                with open_task(kept, name, planning="off") as live:
                    found[name] = live.check()
            except StoreError as fault:
                found[name] = [str(fault)]
    if json:
        checked = [{"task": name, "problems": lines} for name, lines in found.items()]
        print_json({"store": kept.name, "tasks": checked})
    else:
        for name, lines in found.items():
            print_lines({"task": f"{name} in {kept.name}"})
            for line in lines or ["nothing is wrong"]:
                print_lines({"check": line})
    if any(found.values()):
        raise typer.Exit(DAMAGED)
