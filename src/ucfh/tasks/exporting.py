"""A task as a log: what `ucfh.read_log` reads to the same counts.

Rows stand episode by episode. An outcome that was lost is a last row without reward and next state.
So is one that is yet to come: whoever left it out would select by outcome, as it may be slow for
what it is; whoever counts it as lost assumes nothing. A file beside the log (LOG.toml) says that,
and all else that was declared. So `ucfh certify LOG` needs no options.

A log cannot show these things:

- the order of decisions of different episodes: it is assumed that no action depends on outcomes of
  episodes that began later;
- that states have different actions: a log assumes that any action may be taken in any state, which
  costs some sharpness and no validity;
- an outcome that is missing in the middle of an episode. So a task with conflicting reports has no
  log: the steps after a conflict cannot be left out, since the conflict may be due to them.
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from ucfh._utils.files import AnyPath, check_ending, refuse_existing, replacing
from ucfh.logs.assumptions import REPLACED
from ucfh.logs.batches import COLUMNS
from ucfh.logs.labels import text_of
from ucfh.logs.settings import settings_path, write_settings
from ucfh.sparse_counts import END, LOST
from ucfh.tasks.config import Declaration
from ucfh.tasks.errors import InvalidReport, decoding
from ucfh.tasks.labels import StateIndex, canonical
from ucfh.tasks.records import StepRecord
from ucfh.tasks.store import TaskStore

ENDINGS = (".csv",)
PAGE = 500
"""Episodes that are read at a time."""


EXPORTED = (
    "which outcomes were known when this log was written did not depend on later outcomes, and no "
    "action depended on outcomes of episodes that began later",
    REPLACED,
)
"""What is assumed of the log of a task, and is written beside it."""


class ExportResult(NamedTuple):
    """What was written: the log, the file beside it, and how much of what there is.

    ``waiting``: outcomes that were yet to come, and are lost in the log.
    """

    path: Path
    settings: Path
    episodes: int
    steps: int
    lost: int
    waiting: int


class TaskLabels:
    """What the states and actions of a task are called in a log.

    Attributes:
        action_names: (A,) what actions are called.

    """

    def __init__(self, declaration: Declaration, states: StateIndex) -> None:
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
    """Return the steps of each episode, by its beginning, as they are at this moment.

    Each step has the action that was taken.

    Raises:
        Refused: some outcomes were reported in different ways.

    """
    moment, first = store.last_seq(task), 1
    check_no_conflicts(store, task)  # after the moment, so that none is missed
    while page := store.episodes(task, first, first + PAGE - 1, moment):
        steps: list[StepRecord] = []
        for step in page:
            if step.t == 0 and steps:
                yield steps
                steps = []
            steps.append(step if step.taken is None else step._replace(action=step.taken))
        yield steps
        first += PAGE


def check_no_conflicts(store: TaskStore, task: int) -> None:
    """Raise `InvalidReport` if a task has outcomes that were reported in different ways."""
    count = len(store.conflicts(task))
    if not count:
        return
    name = next(head.name for head in store.heads() if head.task == task)
    what = "1 outcome that was" if count == 1 else f"{count} outcomes that were"
    raise InvalidReport(
        f"task {name!r} has {what} reported in different ways, which a log cannot show as missing. "
        "Fix: continue with the task itself; ucfh task decisions lists its steps"
    )


def export(
    path: AnyPath,
    store: TaskStore,
    task: int,
    declaration: Declaration,
    states: StateIndex,
    force: bool = False,
) -> ExportResult:
    """Write a task to a .csv file, and how it is to be read to a file beside it."""
    check_ending(path, ENDINGS)
    refuse_existing(settings_path(path), force)
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
    begun = [x.sentence for x in store.beginnings(task) if x.sentence]
    assumed = list(dict.fromkeys([*EXPORTED, *begun]))
    settings = write_settings(path, settings_of(declaration, states), force, assumed)
    return ExportResult(Path(path), settings, **counts)


def log_rows(
    store: TaskStore, task: int, declaration: Declaration, states: StateIndex
) -> Iterator[tuple[list[StepRecord], list[tuple[Any, ...]]]]:
    """The steps of each episode, and the rows of a log that they make."""
    names = TaskLabels(declaration, states)
    held: list[StepRecord] | None = None

    def made(steps: list[StepRecord]) -> tuple[list[StepRecord], list[tuple[Any, ...]]]:
        with decoding(store.name):
            name = name_of_episode(steps[0].name)
            return steps, [_row(name, step, names, states) for step in steps]

    for steps in episodes_of(store, task):
        # a log that ends within an episode seems to be cut there: a whole one has to be last
        with decoding(store.name):
            whole = _is_whole(steps[-1], declaration, states)
        if not whole:
            yield made(steps)
            continue
        if held is not None:
            yield made(held)
        held = steps
    if held is not None:
        yield made(held)


def _is_whole(step: StepRecord, declaration: Declaration, states: StateIndex) -> bool:
    """Whether an episode that ends with this step is over, and nothing of it is lost."""
    s = step.following
    if s is None or s == LOST:
        return False
    return s == END or states.actions[s] == () or step.t + 1 == declaration.horizon


def name_of_episode(name: str) -> str:
    """Return the name of an episode in a log, which is different for different episodes.

    A name that a log would read as another one, such as 07 for 7, is written in quotes. The name
    does not depend on other episodes, so that it stays the same as a task grows.

    >>> name_of_episode("student-7"), name_of_episode("7"), name_of_episode("07")
    ('student-7', '7', '"07"')
    """
    number = str(int(name)) if name.isdecimal() else name
    if text_of(name) == number == name and not name.startswith('"'):
        return name
    return json.dumps(name, ensure_ascii=False)


def _row(name: str, step: StepRecord, names: TaskLabels, states: StateIndex) -> tuple[Any, ...]:
    """A row of a log."""
    s = step.following
    begin = (name, step.t, names.name_of(step.state), names.action_names[step.action])
    if s is None or s == LOST:
        return *begin, "", "", 0
    if s == END:
        return *begin, step.reward, "", 1
    return *begin, step.reward, names.name_of(s), int(states.actions[s] == ())


def settings_of(declaration: Declaration, states: StateIndex) -> dict[str, Any]:
    """What `ucfh.read_log` has to be told of a log of a task."""
    closed = states.names[1:]
    return {
        "states": None if declaration.states is None else closed,
        "actions": declaration.action_names,
        "horizon": declaration.horizon,
        "segments": list(declaration.segments) or None,
        "rewards": declaration.rewards,
        "max_return": declaration.max_return,
        "dropouts": "lost",
    }
