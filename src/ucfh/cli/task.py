"""``ucfh task``: its commands, those that certify and export apart (`task_keeping`)."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh.cli.options import AsJson, MaxReturn, RewardLimits, read_range, read_segments
from ucfh.cli.printing import print_json, print_lines, print_table
from ucfh.cli.task_maintenance import certificate, check, export, import_log
from ucfh.cli.task_options import (
    EpisodeName,
    StoreFile,
    TaskName,
    opened,
    plan,
    read_names,
    read_silence,
    read_timeout,
)

if TYPE_CHECKING:
    pass


def task() -> None:
    """Create live tasks and look after them.

    In a live task, ucfh ask says what to do in an episode, and ucfh tell takes what came of it,
    perhaps days later. Many episodes may be open at once, and all is kept in one file, the store.

    \b
    Examples:
      ucfh task create calls.db --actions call,mail --horizon 8 --epsilon 0.2
      ucfh ask calls.db new --episode customer-17
      ucfh tell calls.db --episode customer-17 --step 0 --reward 0 --state interested
      ucfh task status calls.db
    """


def create(
    store: StoreFile,
    actions: Annotated[
        str,
        typer.Option(
            metavar="A,B,...", help="the actions, separated by commas", show_default=False
        ),
    ],
    horizon: Annotated[int, typer.Option(help="most steps of an episode", show_default=False)],
    epsilon: Annotated[
        float, typer.Option(help="largest acceptable loss per episode", show_default=False)
    ],
    delta: Annotated[
        float | None,
        typer.Option(
            help="largest acceptable probability that the guarantee is wrong; default: 0.1"
        ),
    ] = None,
    rewards: RewardLimits = None,
    max_return: MaxReturn = None,
    states: Annotated[
        str | None,
        typer.Option(
            metavar="S,...", help="all states there are; default: they are found on the way"
        ),
    ] = None,
    segments: Annotated[
        str | None,
        typer.Option(
            metavar="T,...",
            help="steps, counted from 0, from which on rewards or transitions may be others (an "
            "exam at the end); every: they may be others at every step",
        ),
    ] = None,
    timeout: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="how long to wait for an outcome: seconds, or 30m, 12h, 7d; default: for ever",
        ),
    ] = None,
    on_timeout: Annotated[
        str | None,
        typer.Option(
            metavar="lost|STATE,REWARD",
            help="what it means if none comes in that time: lost (nothing is known; default), or "
            "the state in which the episode is over then, and the reward of that step",
        ),
    ] = None,
    task: Annotated[str, typer.Option("--task", help="name of the new task")] = "task",
    json: AsJson = False,
) -> None:
    """Create a live task in a store.

    The store is created if it does not exist. What is declared here cannot be changed later; run
    again with the same options, the command changes nothing.

    \b
    Examples:
      ucfh task create calls.db --actions call,mail --horizon 8 --epsilon 0.2
      ucfh task create course.db --actions review,project --horizon 5 --epsilon 10 \\
          --rewards 0,100 --max-return 100 --timeout 10d --on-timeout left,0
    """
    from ucfh.tasks.opening import open_task
    from ucfh.tasks.status_view import declared

    with open_task(
        store,
        task,
        actions=read_names(actions),
        horizon=horizon,
        epsilon=epsilon,
        delta=delta,
        rewards=None if rewards is None else read_range(rewards),
        max_return=max_return,
        states=read_names(states),
        segments=read_segments(segments) or None,
        timeout=read_timeout(timeout),
        on_timeout=read_silence(on_timeout),
        planning="off",
    ) as live:
        told = live.declaration
        if json:
            print_json({"store": live.store.name, "task": live.name, **declared(told)})
            return
        most = "" if told.max_return is None else f", at most {told.max_return:g} an episode"
        option = "" if live.store.tasks() == [task] else f" --task {shlex.quote(task)}"
        print_lines(
            {
                "task": f"{task} in {live.store.name}: {len(told.actions)} actions, "
                f"{told.horizon} steps; rewards in {told.units}{most}",
                "next": f"ucfh ask {shlex.quote(live.store.name)} STATE --episode NAME{option}",
            }
        )


def list_tasks(store: StoreFile, json: AsJson = False) -> None:
    """List the tasks of a store.

    \b
    Example:
      ucfh task list calls.db
    """
    from ucfh.tasks.opening import open_store, open_task

    found = []
    with closing(open_store(store)) as kept:
        for name in kept.tasks():
            with open_task(kept, name, planning="off") as live:
                found.append(live.status())
    if json:
        print_json({"store": kept.name, "tasks": [asdict(x) for x in found]})
        return
    heads = ("task", "episodes", "open", "outcomes", "lost", "loss at most")
    print_table(
        [{"header": head, "justify": "left" if head == "task" else "right"} for head in heads],
        [
            [
                x.task,
                *(f"{n:,}" for n in (x.begun, x.open, x.outcomes, x.lost)),
                "-" if x.gap is None else f"{x.gap:.4g}",
            ]
            for x in found
        ],
    )


def status(store: StoreFile, task: TaskName = None, json: AsJson = False) -> None:
    """Show what is open, told, lost and known.

    The bounds are those of the last plan; ucfh task certificate computes them from everything that
    was told so far.

    \b
    Example:
      ucfh task status calls.db
    """
    with opened(store, task) as live:
        now = live.status()
    if json:
        print_json(asdict(now))
    else:
        print(now)


def decisions(
    store: StoreFile,
    status: Annotated[str, typer.Option(help="which ones: open, told, lost or all")] = "open",
    episode: Annotated[
        str | None, typer.Option(help="only those of one episode", show_default=False)
    ] = None,
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """List decisions and what came of them.

    They come in the order in which they were taken.

    \b
    Examples:
      ucfh task decisions calls.db
      ucfh task decisions calls.db --status all --episode customer-17 --json
    """
    with opened(store, task) as live:
        found = live.decisions(status, episode)
    if json:
        print_json({"decisions": found})
        return
    heads = ("episode", "t", "state", "action", "policy", "asked", "outcome")
    rows = [
        [
            x["episode"],
            str(x["t"]),
            str(x["state"]),
            str(x["taken"]) + (f" (given: {x['action']})" if x["taken"] != x["action"] else ""),
            str(x["policy"]),
            datetime.fromtimestamp(x["asked"]).isoformat(" ", "minutes"),
            _came_of(x),
        ]
        for x in found
    ]
    print_table([{"header": head} for head in heads], rows)


def faults(store: StoreFile, task: TaskName = None, json: AsJson = False) -> None:
    """List what was refused, or told too late.

    None of it was counted. It is kept so that somebody can find out why.

    \b
    Example:
      ucfh task faults calls.db
    """
    with opened(store, task) as live:
        found = live.faults()
    if json:
        print_json({"faults": found})
        return
    rows = []
    for x in found:
        at = datetime.fromtimestamp(x["at"]).isoformat(" ", "minutes")
        said = [f"{key} {x[key]}" for key in x if key not in ("at", "kind", "episode", "t")]
        rows.append([at, x["kind"], x["episode"], str(x["t"]), "; ".join(said)])
    heads = ("at", "kind", "episode", "t", "what was said")
    print_table([{"header": head} for head in heads], rows)


def _came_of(entry: dict[str, Any]) -> str:
    """The outcome of a decision, in words."""
    note = f" ({entry['note']})" if entry["note"] else ""
    if entry["status"] == "open":
        return ""
    if entry["status"] == "lost":
        return f"lost{note}"
    then = "done" if entry["done"] else str(entry["next_state"])
    return f"{entry['reward']:g}, {then}{note}"


def expire(store: StoreFile, task: TaskName = None, json: AsJson = False) -> None:
    """Expire the open decisions whose deadline has passed.

    They count as lost, or as what silence was declared to mean. Until then, they hold back later
    decisions with the same action in the same state: run this every hour, say. An outcome that
    comes too late is never counted, whether this was run or not.

    \b
    Example:
      ucfh task expire calls.db
    """
    with opened(store, task) as live:
        count = live.expire()
        if json:
            print_json({"expired": count})
        else:
            print_lines({"expired": f"{count} decisions"})
        plan(live)


def abandon(
    store: StoreFile,
    episode: EpisodeName,
    reason: Annotated[str, typer.Option(help="why; shown with the decision")] = "",
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """Give up an episode whose outcome will never come.

    Its open decision is lost; what was told before stays. Until then, that decision holds back
    later ones with the same action in the same state.

    \b
    Example:
      ucfh task abandon calls.db --episode customer-18 --reason "moved away"
    """
    with opened(store, task) as live:
        live.abandon(episode, reason)
        if json:
            print_json({"abandoned": episode})
        else:
            print_lines({"abandoned": episode})
        plan(live)


PARTS = {
    "create": create,
    "list": list_tasks,
    "status": status,
    "decisions": decisions,
    "faults": faults,
    "certificate": certificate,
    "expire": expire,
    "abandon": abandon,
    "export": export,
    "import": import_log,
    "check": check,
}
"""The commands of ``ucfh task``, in the order of its help."""
