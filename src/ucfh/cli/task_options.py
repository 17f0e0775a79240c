"""Options of the commands on live tasks, and their parsers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh.exceptions import InputError

if TYPE_CHECKING:
    from ucfh.tasks.task import Task

StoreFile = Annotated[
    str,
    typer.Argument(
        metavar="STORE",
        help="the file, or the postgresql:// address, that keeps the task",
        show_default=False,
    ),
]
TaskName = Annotated[
    str | None,
    typer.Option(
        "--task", help="name of the task; needed if the store has several", show_default=False
    ),
]
EpisodeName = Annotated[
    str, typer.Option("--episode", help="your own name of the episode", show_default=False)
]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
"""The seconds of a unit of time."""


@contextmanager
def opened(path: str, name: str | None) -> Iterator[Task]:
    """Open a task of a store; without a name, the only one."""
    from ucfh.tasks.errors import Conflict
    from ucfh.tasks.opening import open_store, open_task

    with closing(open_store(path)) as store:
        names = [] if name is not None else store.tasks()
        if len(names) > 1:
            raise InputError(f"{store.name} has the tasks {', '.join(names)}: name one with --task")
        with open_task(store, name or (names or ["task"])[0], planning="off") as task:
            try:
                yield task
            except Conflict:  # bounds that rest on the contradicted report are computed again
                plan(task)
                raise


def plan(task: Task) -> None:
    """Plan if a plan is due, after flushing the output; a failure is reported on stderr."""
    sys.stdout.flush()
    task.planner.try_step()
    if task.planner.error is not None:
        print(f"ucfh: planning failed, and is tried again: {task.planner.error}", file=sys.stderr)


def state_of_label(task: Task, text: str) -> Any:
    """Return the state with a label as written in logs, or a new state of that name.

    States are strings in a shell; a task that was created in Python may have numbers or tuples.
    """
    from ucfh.logs.labels import text_of

    book = task.states
    if (number := book.named.get(text_of(text), 0)) > 0:
        return book.labels[number]
    if not _is_text(text) and not all(isinstance(x, str) for x in book.labels[1:]):
        raise InputError(
            f"state {text} is new, and this task has states that are not texts: ask for it in "
            "Python the first time"
        )
    return text


def action_of_label(task: Task, text: str) -> Any:
    """Return the action with a label as written in logs; unknown labels are returned unchanged."""
    names = task.declaration.action_names
    return task.declaration.action_labels[names.index(text)] if text in names else text


def _is_text(text: str) -> bool:
    """Return whether text is not valid JSON, such as a number, a list or true."""
    try:
        json.loads(text)
    except ValueError:
        return True
    return False


def read_names(text: str | None) -> list[str] | None:
    """Split names separated by commas."""
    return None if text is None else [name.strip() for name in text.split(",")]


def read_timeout(text: str | None) -> float | None:
    """Parse a duration such as 7d, 12h, 30m or 3600 into seconds."""
    if text is None:
        return None
    number, unit = (text[:-1], text[-1]) if text[-1:] in UNITS else (text, "s")
    try:
        return float(number) * UNITS[unit]
    except ValueError:
        raise InputError(
            f"--timeout {text} must be a number of seconds, or one with a unit: 30m, 12h, 7d"
        ) from None


def read_timeout_outcome(text: str | None) -> str | tuple[str, float] | None:
    """Parse the outcome of a timeout: lost, or a state and a reward."""
    if text is None or text == "lost":
        return text
    state, _, reward = text.rpartition(",")
    try:
        return state, float(reward)
    except ValueError:
        raise InputError(
            f"--on-timeout {text} must be lost, or a state and a reward, such as left,0"
        ) from None
