"""``ucfh ask``."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from ucfh.cli.options import AsJson
from ucfh.cli.printing import print_json
from ucfh.cli.task_options import EpisodeName, StoreFile, TaskName, opened, state_of_label


def ask(
    store: StoreFile,
    state: Annotated[
        str,
        typer.Argument(
            metavar="STATE", help="the state that the episode is in now", show_default=False
        ),
    ],
    episode: EpisodeName,
    task: TaskName = None,
    json: AsJson = False,
) -> None:
    """Print the next action in an episode of a live task.

    Prints only the action. An episode begins with its first request. The command is idempotent: the
    decision is durable before it is printed, and printed again if you ask again. Report the outcome
    with ucfh tell, which prints the next action. Create a task with ucfh task create.

    \b
    Examples:
      ucfh ask calls.db new --episode customer-17
      ucfh ask calls.db new --episode customer-17 --json
    """
    with opened(store, task) as live:
        decision = live.ask(state_of_label(live, state), episode)
        if json:
            print_json(asdict(decision))
        else:
            print(decision.action)
