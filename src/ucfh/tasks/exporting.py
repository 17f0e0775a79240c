"""A task as a log: what `ucfh.read_log` reads to the same counts.

Rows stand episode by episode. An outcome that was lost is a last row without reward and next state.
So is one that is yet to come: whoever left it out would select by outcome, as it may be slow for
what it is; whoever counts it as lost assumes nothing. A file beside the log (LOG.toml) says that,
and all else that was declared. So `ucfh certify LOG` needs no options.

Two things a log cannot say. In which order decisions of different episodes were taken: its bounds
may differ a little. And that states have different actions: there, it is assumed that any
action may be taken in any state, which costs some sharpness and no validity.
"""

from __future__ import annotations

import csv
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ucfh._support.files import AnyPath, check_ending, refuse_existing, replacing
from ucfh.experience import END, LOST
from ucfh.logs.batches import COLUMNS
from ucfh.logs.settings import beside, write_settings
from ucfh.tasks.declaration import Declaration
from ucfh.tasks.labels import StateBook, canonical
from ucfh.tasks.records import StepRecord
from ucfh.tasks.store import TaskStore

ENDINGS = (".csv",)
PAGE = 500
"""Episodes that are read at a time."""


class Exported(NamedTuple):
    """What was written: the log, the file beside it, and how much of what there is.

    ``waiting``: outcomes that were yet to come, and are lost in the log.
    """

    path: Path
    settings: Path
    episodes: int
    steps: int
    lost: int
    waiting: int


class TaskNames:
    """What the states and actions of a task are called in a log.

    Attributes:
        action_names: (A,) what actions are called.

    """

    def __init__(self, declaration: Declaration, states: StateBook) -> None:
        self.action_names: Sequence[str] = declaration.action_names
        self._actions, self._states = declaration.action_labels, states

    def number_of(self, state: Any) -> int:
        """The number of a state as users give it, -1 if it was never seen."""
        return self._states.number.get(canonical(state), -1)

    def name_of(self, s: int) -> str:
        """What a state is called; no two alike."""
        return self._states.names[s]

    def action_of(self, a: int) -> Any:
        """An action as users gave it."""
        return self._actions[a]


def episodes_of(store: TaskStore, task: int) -> Iterator[list[StepRecord]]:
    """The steps of each episode, in the order of beginning, as they are at this moment.

    Each step has the action that was taken. An episode with an outcome that was reported in
    different ways ends there, and that outcome is missing.
    """
    conflicts = dict(reversed(store.conflicts(task)))  # by episode, the first one
    for number, steps in enumerate(_stored_episodes(store, task), 1):
        end = conflicts.get(number, len(steps))
        kept = [x if x.taken is None else x._replace(action=x.taken) for x in steps[: end + 1]]
        if end < len(steps):
            kept[-1] = kept[-1]._replace(following=LOST, reward=None)
        yield kept


def _stored_episodes(store: TaskStore, task: int) -> Iterator[list[StepRecord]]:
    """The steps of each episode as they are stored."""
    moment, first = store.last_seq(task), 1
    while page := store.episodes(task, first, first + PAGE - 1, moment):
        steps: list[StepRecord] = []
        for step in page:
            if step.t == 0 and steps:
                yield steps
                steps = []
            steps.append(step)
        yield steps
        first += PAGE


def export(
    path: AnyPath,
    store: TaskStore,
    task: int,
    declaration: Declaration,
    states: StateBook,
    force: bool = False,
) -> Exported:
    """Write a task to a .csv file, and how it is to be read to a file beside it."""
    check_ending(path, ENDINGS)
    refuse_existing(beside(path), force)
    counts = {"episodes": 0, "steps": 0, "lost": 0, "waiting": 0}
    with (
        replacing(path, force) as temporary,
        temporary.open("w", newline="", encoding="utf-8") as file,
    ):
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(COLUMNS)
        for steps, rows in log_rows(store, task, declaration, states):
            counts["episodes"] += 1
            counts["steps"] += len(steps)
            counts["lost"] += steps[-1].following == LOST
            counts["waiting"] += steps[-1].following is None
            writer.writerows(rows)
    settings = write_settings(path, settings_of(declaration, states), force)
    return Exported(Path(path), settings, **counts)


def log_rows(
    store: TaskStore, task: int, declaration: Declaration, states: StateBook
) -> Iterator[tuple[list[StepRecord], list[tuple[Any, ...]]]]:
    """The steps of each episode, and the rows of a log that they make."""
    names, ids = TaskNames(declaration, states), _ids(store, task)
    held: list[StepRecord] | None = None

    def made(steps: list[StepRecord]) -> tuple[list[StepRecord], list[tuple[Any, ...]]]:
        name = steps[0].name if ids is None else ids[steps[0].name]
        return steps, [_row(name, step, names, states) for step in steps]

    for steps in episodes_of(store, task):
        # a log that ends within an episode seems to be cut there: a whole one has to be last
        if not _is_whole(steps[-1], declaration, states):
            yield made(steps)
            continue
        if held is not None:
            yield made(held)
        held = steps
    if held is not None:
        yield made(held)


def _is_whole(step: StepRecord, declaration: Declaration, states: StateBook) -> bool:
    """Whether an episode that ends with this step is over, and nothing of it is lost."""
    s = step.following
    if s is None or s == LOST:
        return False
    return s == END or states.actions[s] == () or step.t + 1 == declaration.horizon


def _ids(store: TaskStore, task: int) -> dict[str, str] | None:
    """Numbers for the names of episodes, if a log could not tell the names apart: 7 and 07."""
    names = store.episode_names(task)
    keys = {str(int(name)) if name.isdecimal() else name.strip() for name in names}
    if len(keys) == len(names):
        return None
    return {name: str(i + 1) for i, name in enumerate(names)}


def _row(name: str, step: StepRecord, names: TaskNames, states: StateBook) -> tuple[Any, ...]:
    """A row of a log."""
    s = step.following
    begin = (name, step.t, names.name_of(step.state), names.action_names[step.action])
    if s is None or s == LOST:
        return *begin, "", "", 0
    if s == END:
        return *begin, step.reward, "", 1
    return *begin, step.reward, names.name_of(s), int(states.actions[s] == ())


def settings_of(declaration: Declaration, states: StateBook) -> dict[str, Any]:
    """What `ucfh.read_log` has to be told of a log of a task."""
    closed = states.names[1:]
    return {
        "states": None if declaration.states is None else closed,
        "actions": declaration.action_names,
        "horizon": declaration.horizon,
        "stages": list(declaration.stages) or None,
        "rewards": declaration.rewards,
        "max_return": declaration.max_return,
        "dropouts": "lost",
    }
