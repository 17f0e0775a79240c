"""``ucfh tell``."""

from __future__ import annotations

import sys
import warnings
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from ucfh.cli.options import AsJson
from ucfh.cli.printing import print_json
from ucfh.cli.task_options import (
    EpisodeName,
    StoreFile,
    TaskName,
    action_of_label,
    opened,
    plan,
    state_of_label,
)
from ucfh.exceptions import InputError
from ucfh.tasks.errors import LateOutcomeWarning

if TYPE_CHECKING:
    from ucfh.tasks.task import Task


def tell(
    store: StoreFile,
    episode: EpisodeName,
    reward: Annotated[float, typer.Option(help="the reward of the step", show_default=False)],
    step: Annotated[
        int | None,
        typer.Option(
            help="the step, counted from 0; default in a terminal: the open one. Scripts have to "
            "pass it: run twice, they would report the outcome of the next step",
            show_default=False,
        ),
    ] = None,
    state: Annotated[str | None, typer.Option(help="the next state", show_default=False)] = None,
    done: Annotated[bool, typer.Option("--done", help="say that the episode is over")] = False,
    action: Annotated[
        str | None,
        typer.Option(help="the action taken, if it is not the one given", show_default=False),
    ] = None,
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """Report the outcome of a decision, and print the next action.

    Prints only the action, and nothing on stdout if the episode is over. The outcome is durable
    before anything is printed. With --step, the command is idempotent. An outcome after its
    deadline is kept, but not counted: a line on stderr says so, and the exit code is 0. After that,
    the task plans if there are enough new outcomes; the first plan also compiles code, for up to
    half a minute.

    \b
    Examples:
      ucfh tell calls.db --episode customer-17 --step 0 --reward 0 --state interested
      ucfh tell calls.db --episode customer-17 --step 1 --reward 1 --done
    """
    with opened(store, task) as live:
        t = _open_step(live, episode) if step is None else step
        following = None if state is None or done else state_of_label(live, state)
        with warnings.catch_warnings(record=True) as late:
            warnings.simplefilter("always", LateOutcomeWarning)
            decision = live.tell(
                (episode, t),
                reward=reward,
                state=following,
                done=done,
                action=None if action is None else action_of_label(live, action),
            )
        if json:
            print_json(
                {
                    "episode": episode,
                    "t": t,
                    "counted": not late,
                    "next": None if decision is None else asdict(decision),
                }
            )
        elif decision is not None:
            print(decision.action)
        if decision is None:
            note = str(late[0].message) if late else f"episode {episode!r} is over"
            print(f"ucfh: {note}", file=sys.stderr)
        plan(live)


def _open_step(task: Task, episode: str) -> int:
    """Return the step of an episode that waits for its outcome; 0 for an unknown episode."""
    if sys.stdin is None or not sys.stdin.isatty():
        raise InputError(
            "--step is missing, which is needed where the input is not a terminal: a command that "
            "is run twice would report the outcome of the next step. Fix: pass --step"
        )
    steps = task.decisions("all", episode)
    if steps and steps[-1]["status"] != "open":
        raise InputError(
            f"episode {episode!r} has no open decision: ask for one, or pass --step to repeat "
            "an outcome"
        )
    return int(steps[-1]["t"]) if steps else 0
