"""``ucfh task`` and its commands."""

from __future__ import annotations

import shlex
from contextlib import closing
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh._utils.formatting import segment_noun
from ucfh.cli.options import (
    AsJson,
    Force,
    MaxReturn,
    RewardLimits,
    read_range,
    read_segments,
)
from ucfh.cli.printing import (
    NOT_CERTIFIED,
    certificate_lines,
    join_lines,
    print_json,
    print_lines,
    print_table,
)
from ucfh.cli.task_options import (
    EpisodeName,
    StoreFile,
    TaskName,
    opened,
    plan,
    read_names,
    read_timeout,
    read_timeout_outcome,
)

if TYPE_CHECKING:
    from ucfh._utils.files import Labels
    from ucfh.tasks.task import Task

DAMAGED = 1
"""The exit code of a store with errors."""


def task() -> None:
    """Create and maintain live tasks.

    In a live task, ucfh ask prints the next action of an episode, and ucfh tell records its
    outcome, perhaps days later. Many episodes may be concurrent. All data are in one file, the
    store.

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
            help="steps, counted from 0, at which rewards or transitions may change (an exam at "
            "the end); every: they may change at every step",
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

    The store is created if it does not exist. Declarations cannot be changed later. The command is
    idempotent.

    \b
    Examples:
      ucfh task create calls.db --actions call,mail --horizon 8 --epsilon 0.2
      ucfh task create course.db --actions review,project --horizon 5 --epsilon 10 \\
          --rewards 0,100 --max-return 100 --timeout 10d --on-timeout left,0
    """
    from ucfh.tasks.opening import open_task
    from ucfh.tasks.status import declaration_dict

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
        on_timeout=read_timeout_outcome(on_timeout),
        planning="off",
    ) as live:
        declaration = live.declaration
        if json:
            print_json(
                {"store": live.store.name, "task": live.name, **declaration_dict(declaration)}
            )
            return
        limit = declaration.max_return
        most = "" if limit is None else f", at most {limit:g} an episode"
        option = "" if live.store.tasks() == [task] else f" --task {shlex.quote(task)}"
        print_lines(
            {
                "task": f"{task} in {live.store.name}: {len(declaration.actions)} actions, "
                f"{declaration.horizon} steps; rewards in {declaration.units}{most}",
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

    entries = []
    with closing(open_store(store)) as kept:
        for name in kept.tasks():
            with open_task(kept, name, planning="off") as live:
                entries.append(live.status())
    if json:
        print_json({"store": kept.name, "tasks": [asdict(x) for x in entries]})
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
            for x in entries
        ],
    )


def status(store: StoreFile, task: TaskName = None, json: AsJson = False) -> None:
    """Show the numbers of decisions and outcomes, and the bounds.

    The bounds are from the last plan; ucfh task certificate computes them from all outcomes.

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
    """List decisions and their outcomes, in the order of the decisions.

    \b
    Examples:
      ucfh task decisions calls.db
      ucfh task decisions calls.db --status all --episode customer-17 --json
    """
    with opened(store, task) as live:
        entries = live.decisions(status, episode)
    if json:
        print_json({"decisions": entries})
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
            _outcome_text(x),
        ]
        for x in entries
    ]
    print_table([{"header": head} for head in heads], rows)


def faults(store: StoreFile, task: TaskName = None, json: AsJson = False) -> None:
    """List rejected and late reports.

    They are not counted, but kept for diagnosis.

    \b
    Example:
      ucfh task faults calls.db
    """
    with opened(store, task) as live:
        entries = live.faults()
    if json:
        print_json({"faults": entries})
        return
    rows = []
    for x in entries:
        at = datetime.fromtimestamp(x["at"]).isoformat(" ", "minutes")
        said = [f"{key} {x[key]}" for key in x if key not in ("at", "kind", "episode", "t")]
        rows.append([at, x["kind"], x["episode"], str(x["t"]), "; ".join(said)])
    heads = ("at", "kind", "episode", "t", "what was said")
    print_table([{"header": head} for head in heads], rows)


def _outcome_text(entry: dict[str, Any]) -> str:
    """Describe the outcome of a decision."""
    note = f" ({entry['note']})" if entry["note"] else ""
    if entry["status"] == "open":
        return ""
    if entry["status"] == "lost":
        return f"lost{note}"
    then = "done" if entry["done"] else str(entry["next_state"])
    return f"{entry['reward']:g}, {then}{note}"


def expire(store: StoreFile, task: TaskName = None, json: AsJson = False) -> None:
    """Expire the open decisions whose deadline has passed.

    They get the declared timeout outcome, or count as missing. Until then, they hold back later
    decisions with the same action in the same state: run this regularly, such as every hour. A late
    outcome is never counted, whether this was run or not.

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

    The outcome of its open decision is missing; earlier outcomes stay. Until then, that decision
    holds back later ones with the same action in the same state.

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


def certificate(
    store: StoreFile,
    policy: Annotated[str | None, typer.Option(help="write the policy: .csv or .json")] = None,
    force: Force = False,
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """Report a lower bound on the value of the policy, and its optimality gap.

    Uses all outcomes so far. Also prints an upper bound on the value of any policy, the effect of
    delayed and missing outcomes, and the assumptions. Exit code 3 if the policy is not certified to
    be within epsilon.

    \b
    Examples:
      ucfh task certificate calls.db
      ucfh task certificate calls.db --policy calls-policy.csv --json
    """
    from ucfh import policies
    from ucfh._utils.files import check_outputs

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
            horizon = live.declaration.horizon
            segmented = segment_noun(len(live.declaration.segments) + 1, horizon)
            print_lines(
                {
                    "task": f"{live.name} in {live.store.name}: {known.episodes} episodes; "
                    f"{known.waiting} decisions are not counted yet, "
                    f"{known.lost} outcomes are lost{_conflicts(known.conflicts)}",
                    **certificate_lines(known, states, actions, segmented, range(horizon)),
                    "assumed": join_lines(known.assumed),
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
    """Return the labels of states, without the end, and of actions."""
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

    ucfh certify reads the same counts from it, without options: the declarations are written to the
    settings file, LOG.toml. Open outcomes are missing in the log. A task with conflicting reports
    cannot be exported.

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
    """Import a log or a model, to warm-start a task.

    The episodes of a log are recorded with unknown behavior policy. The best policy of a model is
    followed at the beginning. The certificate lists the assumptions. Only new steps are added to
    existing episodes.

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

    Checks all its tasks, or one. Prints the errors, a line each; exit code 1 if there are any.

    \b
    Example:
      ucfh task check calls.db
    """
    from ucfh.tasks.errors import StoreError
    from ucfh.tasks.opening import open_store, open_task

    entries: dict[str, list[str]] = {}
    with closing(open_store(store)) as kept:
        for name in kept.tasks() if task is None else [task]:
            try:
                with open_task(kept, name, planning="off") as live:
                    entries[name] = live.check()
            except StoreError as error:
                entries[name] = [str(error)]
    if json:
        checked = [{"task": name, "problems": lines} for name, lines in entries.items()]
        print_json({"store": kept.name, "tasks": checked})
    else:
        for name, lines in entries.items():
            print_lines({"task": f"{name} in {kept.name}"})
            for line in lines or ["nothing is wrong"]:
                print_lines({"check": line})
    if any(entries.values()):
        raise typer.Exit(DAMAGED)


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
"""The commands of ``ucfh task``, in the order of the help."""
