"""Export of a task as a log that `ucfh.read_log` reads to the same counts.

Rows are grouped by episode. A missing outcome is a last row without reward and next state. So is a
pending one: leaving it out would select by outcome, since its delay may depend on it; a missing
outcome needs no assumption. A settings file beside the log (LOG.toml) contains the declaration, so
`ucfh certify LOG` needs no options.

A log cannot represent

- the order of decisions of different episodes: the assumption is that no action depends on outcomes
  of episodes that began later;
- different actions in different states: a log assumes that every state has all actions, which gives
  wider, but valid bounds;
- an outcome that is missing in the middle of an episode. So a task with conflicting reports has no
  log: the steps after a conflict cannot be left out, since they may be the reason for it.
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
"""Episodes per query."""


LOG_ASSUMPTIONS = (
    "which outcomes were known when this log was written did not depend on later outcomes, and no "
    "action depended on outcomes of episodes that began later",
    REPLACED,
)
"""The assumptions on the log of a task, for its settings file."""


class ExportResult(NamedTuple):
    """The files of an export, and the numbers of their contents.

    ``waiting``: pending outcomes, which are missing in the log.
    """

    path: Path
    settings: Path
    episodes: int
    steps: int
    lost: int
    waiting: int


class TaskLabels:
    """The names of the states and actions of a task in a log.

    Attributes:
        action_names: (A,) the names of the actions.

    """

    def __init__(self, declaration: Declaration, states: StateIndex) -> None:
        self.action_names: Sequence[str] = declaration.action_names
        self._actions, self._states = declaration.action_labels, states

    def number_of(self, state: Any) -> int:
        """Return the number of a state's label, -1 if it is unknown."""
        return self._states.number.get(canonical(state), -1)

    def name_of(self, s: int) -> str:
        """Return the unique name of a state."""
        return self._states.names[s]

    def action_of(self, a: int) -> Any:
        """Return the label of an action."""
        return self._actions[a]


def episodes_of(store: TaskStore, task: int) -> Iterator[list[StepRecord]]:
    """Yield the steps of each episode, by its beginning, as they are now, with the actions taken.

    Raises:
        InvalidReport: some outcomes have contradictory reports.

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
    """Raise `InvalidReport` if a task has outcomes with contradictory reports."""
    count = len(store.conflicts(task))
    if not count:
        return
    name = next(head.name for head in store.progress() if head.task == task)
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
    """Write a task to a .csv file, with a settings file beside it."""
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
    warm_starts = [x.sentence for x in store.warm_starts(task) if x.sentence]
    assumed = list(dict.fromkeys([*LOG_ASSUMPTIONS, *warm_starts]))
    settings = write_settings(path, settings_of(declaration, states), force, assumed)
    return ExportResult(Path(path), settings, **counts)


def log_rows(
    store: TaskStore, task: int, declaration: Declaration, states: StateIndex
) -> Iterator[tuple[list[StepRecord], list[tuple[Any, ...]]]]:
    """Yield the steps of each episode with their log rows."""
    names = TaskLabels(declaration, states)
    last_complete: list[StepRecord] | None = None

    def made(steps: list[StepRecord]) -> tuple[list[StepRecord], list[tuple[Any, ...]]]:
        with decoding(store.name):
            name = name_of_episode(steps[0].name)
            return steps, [_row(name, step, names, states) for step in steps]

    for steps in episodes_of(store, task):
        # a log that ends within an episode seems to be cut there: a whole one has to be last
        with decoding(store.name):
            is_complete = _is_complete(steps[-1], declaration, states)
        if not is_complete:
            yield made(steps)
            continue
        if last_complete is not None:
            yield made(last_complete)
        last_complete = steps
    if last_complete is not None:
        yield made(last_complete)


def _is_complete(step: StepRecord, declaration: Declaration, states: StateIndex) -> bool:
    """True if an episode whose last step is this one is over, with all outcomes known."""
    s = step.following
    if s is None or s == LOST:
        return False
    return s == END or states.actions[s] == () or step.t + 1 == declaration.horizon


def name_of_episode(name: str) -> str:
    """Return the unique name of an episode in a log.

    A name that a log would read as another one, such as 07 for 7, is quoted. The name does not
    depend on other episodes, so it does not change as a task grows.

    >>> name_of_episode("student-7"), name_of_episode("7"), name_of_episode("07")
    ('student-7', '7', '"07"')
    """
    number = str(int(name)) if name.isdecimal() else name
    if text_of(name) == number == name and not name.startswith('"'):
        return name
    return json.dumps(name, ensure_ascii=False)


def _row(name: str, step: StepRecord, names: TaskLabels, states: StateIndex) -> tuple[Any, ...]:
    """The log row of a step."""
    s = step.following
    begin = (name, step.t, names.name_of(step.state), names.action_names[step.action])
    if s is None or s == LOST:
        return *begin, "", "", 0
    if s == END:
        return *begin, step.reward, "", 1
    return *begin, step.reward, names.name_of(s), int(states.actions[s] == ())


def settings_of(declaration: Declaration, states: StateIndex) -> dict[str, Any]:
    """Return the arguments of `ucfh.read_log` for a log of a task."""
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
