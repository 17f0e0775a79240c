"""Warm starts of a task from a log, another task, or a model.

The steps of a log or of another task are recorded in episodes of their own, as steps that this task
did not choose. They count like all others, under the assumption that they are of the same task. The
optimal policy of a model is a prior policy (`ucfh.tasks.agent`), which needs no assumption.

The name of an imported episode is its name in the log, or its name in the other task with a hash of
that task's name and the time of its first decision. So warm starts are idempotent, may be
interrupted, and may use a log that has grown: only new steps of an episode are added. If a step
differs from the one that was imported under its name, the source is rejected before any of its
steps is written. An outcome that was missing at import stays missing, and no later steps of its
episode are added.

The steps of a task are imported in the order of its decisions, which the proofs of
`docs/theory/flight.md` need; those of a log in the order of the log.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from ucfh._utils.files import Labels, labels_of
from ucfh.exceptions import InputError, wrong_type
from ucfh.io import ENDINGS, read_model
from ucfh.logs.assumptions import REPLACED
from ucfh.logs.column_layout import ColumnLayout
from ucfh.logs.column_mapping import map_columns
from ucfh.logs.labels import FlagCodes, Numbers, text_of
from ucfh.logs.reading import Log, read_log
from ucfh.logs.settings import Settings, check_settings, combine, read_settings
from ucfh.logs.sources import is_file, is_source, open_source
from ucfh.mdp import MDP
from ucfh.sparse_counts import END, LOST
from ucfh.tasks.errors import Conflict, InvalidReport
from ucfh.tasks.exporting import check_no_conflicts, settings_of
from ucfh.tasks.labels import StateIndex, canonical
from ucfh.tasks.protocol import TaskProtocol
from ucfh.tasks.records import OUTCOME, StepRecord, WarmStart
from ucfh.tasks.store import Transaction

if TYPE_CHECKING:
    from ucfh.tasks.task import Task

T = TypeVar("T")
STEPS_PER_TRANSACTION = 500
"""Steps per transaction, so that other calls do not wait for long."""
SAME_TASK = "is of the same task, which has not changed since"
"""The assumption on logs and other tasks."""
ONE_NAME = "every episode has one name, in all that the task began with, and no two share a name"
"""The assumption on logs, where the name alone identifies an episode."""
IMPORTED = re.compile(r".* \([0-9a-f]{12}\)")
"""The pattern of names of episodes that were imported from a task."""


class ImportedStep(NamedTuple):
    """A step to be imported; ``state``, ``action`` and ``next_state`` are labels.

    Attributes:
        name, t: its episode in the importing task, and its step.
        done: whether the episode was over after it.
        lost: whether its outcome is missing.
        replaced: whether another action was taken than the one recommended.

    """

    name: str
    t: int
    state: Any
    action: Any
    reward: float
    next_state: Any
    done: bool
    lost: bool
    replaced: bool = False


def warm_start(task: Task, source: Any) -> int | None:
    """Add prior knowledge from a log or a model to a task; see `Task.warm_start`.

    Args:
        task: the task.
        source: a log that `ucfh.read_log` reads; or a model, an `MDP` or its file, with the same
            names of states and actions.

    Returns:
        The number of episodes that were added; None for a model.

    """
    if isinstance(source, Log):
        raise InputError("a Log holds counts and no steps: pass the file, or the frame, it is from")
    if isinstance(source, MDP) or (is_file(source) and Path(source).suffix in ENDINGS):
        _use_model(task, source)
        return None
    if not is_source(source):
        what = "a log (a file or a frame), another Task, or a model"
        raise wrong_type("source", source, what)
    assumed = [f"the log {_name(source)} {SAME_TASK}", ONE_NAME]
    return _import_steps(task, _name(source), assumed, lambda: _log_steps(task, source))


def warm_start_from_task(task: Task, source: Task) -> int:
    """Add the steps of another task; returns the number of added episodes."""
    if (source.store.name, source.number) == (task.store.name, task.number):
        raise InvalidReport(f"task {task.name!r} cannot begin with itself: pass another one")
    what = f"task {source.name!r} in {source.store.name}"
    _check_same(task, source)
    check_no_conflicts(source.store, source.number)
    task.write(lambda tx, protocol: _find_masked(tx, protocol, source))
    warm_starts = source.store.warm_starts(source.number)
    assumed = [f"{what} {SAME_TASK}", *(x.sentence for x in warm_starts if x.sentence)]
    return _import_steps(task, what, assumed, lambda: _task_steps(task, source))


def _find_masked(tx: Transaction, protocol: TaskProtocol, source: Task) -> None:
    """Add the states of another task that do not available all actions, with their actions."""
    if protocol.cache.declaration.states is not None:
        return
    book, actions = source.states, source.declaration.action_labels
    for label, available in zip(book.labels[1:], book.actions[1:], strict=True):
        if available is not None:
            protocol.cache.find_state(tx, label, [actions[a] for a in available], source.name, 0)


def _name(source: Any) -> str:
    return str(source) if is_file(source) else type(source).__name__


def _import_steps(
    task: Task, what: str, assumed: list[str], steps: Callable[[], Iterator[ImportedStep]]
) -> int:
    """Record new steps; the first transaction also records the assumptions.

    Args:
        task: the task.
        what: the source, for messages.
        assumed: a sentence for each assumption.
        steps: returns an iterator over the steps, in order within each episode. It is called
            twice: all steps are compared with recorded ones before any is written.

    Returns:
        The number of episodes that were added.

    """

    def compare(tx: Transaction, protocol: TaskProtocol) -> None:
        for step in some:
            _is_new(tx, protocol, what, step)

    def write(tx: Transaction, protocol: TaskProtocol) -> int:
        due, added = list(assumed), 0
        for step in some:
            if _is_new(tx, protocol, what, step):
                for sentence in [*due, *[REPLACED] * step.replaced]:
                    tx.add_warm_start(WarmStart(sentence, {}))
                due, added = [], added + (step.t == 0)
                _record(tx, protocol, step)
        return added

    every, added = steps(), 0
    while some := list(islice(every, STEPS_PER_TRANSACTION)):
        task.write(compare)
    every = steps()
    while some := list(islice(every, STEPS_PER_TRANSACTION)):
        added += task.write(write)
    return added


def _is_new(tx: Transaction, protocol: TaskProtocol, what: str, step: ImportedStep) -> bool:
    """True if a step is new.

    Raises:
        Conflict: a different step is recorded under its name.

    """
    last, known = tx.last(step.name), protocol.cache
    if last is None:
        return True
    if last.kind == OUTCOME and step.t > last.t:
        return last.state != LOST and step.t == last.t + 1
    decision, outcome, _ = tx.step(last.episode, step.t)
    if decision is None:
        return False
    known.load_states(tx, decision.state)
    if outcome is not None:
        known.load_states(tx, outcome.following)
    texts = known.states.texts
    is_same = texts[decision.state] == canonical(
        step.state
    ) and decision.action == known.find_action(step.action, decision.state)
    if is_same and not step.lost and outcome is not None and outcome.following != LOST:
        following = None if step.done else canonical(step.next_state)
        recorded = None if outcome.following == END else texts[outcome.following]
        is_same = (outcome.reward, recorded, outcome.taken) == (step.reward, following, None)
    if not is_same:
        raise Conflict(
            f"{what}: step {step.t} of episode {step.name!r} differs from the one that was "
            "imported before. Fix: give the episodes of different sources different names"
        )
    return False


def _record(tx: Transaction, protocol: TaskProtocol, step: ImportedStep) -> None:
    name, t, state, action, reward, following, done, lost, _ = step
    if lost:
        protocol.record(tx, name, t, state, action)
        protocol.abandon(tx, name, "lost before")
    else:
        protocol.record(tx, name, t, state, action, reward, following, done)


def _check_same(task: Task, source: Task) -> None:
    """Raise `InvalidReport` if two tasks available different actions or horizons."""
    if source.declaration.action_names != task.declaration.action_names:
        raise InvalidReport(
            f"task {source.name!r} has other actions than {task.name!r}: they must be the same, in "
            "the same order"
        )
    if source.declaration.horizon != task.declaration.horizon:
        raise InvalidReport(
            f"task {source.name!r} has horizon {source.declaration.horizon}, and {task.name!r} has "
            f"{task.declaration.horizon}: they must be the same"
        )


def _task_steps(task: Task, source: Task) -> Iterator[ImportedStep]:
    """Yield the steps of another task, in the order of its decisions.

    A pending outcome is missing. Episodes that came from this task are left out.
    """
    labels, actions = source.states.labels, task.declaration.action_labels
    moment, after = source.store.last_seq(source.number), 0
    names: dict[str, str | None] = {}  # here, by those there
    while page := source.store.steps(source.number, "all", None, STEPS_PER_TRANSACTION, after):
        for x in page:
            if x.seq > moment:
                return
            if x.t == 0:
                names[x.name] = _name_here(task, source, x)
            if (name := names[x.name]) is None:
                continue
            s = x.following
            yield ImportedStep(
                name,
                x.t,
                labels[x.state],
                actions[x.action if x.taken is None else x.taken],
                x.reward or 0.0,
                None if s is None or s <= END else labels[s],
                s == END,
                s is None or s == LOST,
                x.taken is not None,
            )
        after = page[-1].seq


def _name_here(task: Task, source: Task, first: StepRecord) -> str | None:
    """The name in this task of an episode of another task, None if it came from this task."""
    if not IMPORTED.fullmatch(first.name):
        return _named(first.name, source.name, first.asked)
    own = task.store.steps(task.number, "all", first.name.rpartition(" (")[0], 1)
    if own and first.name == _named(own[0].name, task.name, own[0].asked):
        return None
    return first.name


def _named(name: str, task: str, asked: float) -> str:
    """The unique name of an imported episode."""
    return f"{name} ({blake2b(repr((task, asked)).encode(), digest_size=6).hexdigest()})"


def _log_steps(task: Task, source: Any) -> Iterator[ImportedStep]:
    """Yield the steps of a log; raise `InvalidReport` if it has errors."""
    declaration, book = task.declaration, task.states
    declared = settings_of(declaration, book)
    remembered = read_settings(source) if is_file(source) else {}
    given = {name: declared[name] for name in ("actions", "horizon", "rewards", "states")}
    given = {name: value for name, value in given.items() if value is not None}
    given.setdefault("dropouts", remembered.get("dropouts", "lost"))
    log = read_log(source, **given)
    if wrong := [fault for fault in log.faults if fault.kind != "cut"]:
        raise InvalidReport(f"{_name(source)}: {wrong[0]}")
    settings = check_settings(combine(remembered, given))
    names = {name: a for a, name in enumerate(declaration.action_names)}
    apart = declaration.horizon - 1 in declaration.segments or declaration.horizon == 1
    # a log may end anywhere: before an episode that it does not show to its end, too
    cut = any(fault.kind == "cut" for fault in log.faults)
    for name, rows in _without_last(_episodes(source, settings, apart), cut):
        for t, (state, action, reward, after, done) in enumerate(rows):
            yield ImportedStep(
                f"{name} (log)",
                t,
                _label(book, state),
                declaration.action_labels[names[action]],
                reward,
                _label(book, after) if after else None,
                done,
                not after and not done,
            )


def _without_last(episodes: Iterator[T], cut: bool) -> Iterator[T]:
    """Yield the episodes without the last, if that is cut."""
    last = next(episodes, None)
    for episode in episodes:
        assert last is not None
        yield last
        last = episode
    if last is not None and not cut:
        yield last


def _label(book: StateIndex, name: str) -> Any:
    """The label of a state by its name in a log; the name is the label of a new state."""
    s = book.named.get(name)
    return name if s is None else book.labels[s]


Row = tuple[str, str, float, str, bool]


def _episodes(source: Any, settings: Settings, apart: bool) -> Iterator[tuple[str, list[Row]]]:
    """Yield the name and the rows of each episode.

    A row: state, action, reward, next state (or "") and whether the episode is over.

    ``apart``: whether the last step is a segment of its own.
    """
    flags, numbers = FlagCodes(), Numbers(settings.decimal, settings.blank_reward)
    with open_source(source, settings.encoding) as found:
        roles = map_columns(found.columns, settings.columns, True, found.kind == "JSON lines")
        layout = ColumnLayout(roles, settings.bins, settings.decimal)
        if layout.derived and not apart:
            raise InputError(
                "the log does not show the next state of the last step: name its column "
                "of next states, or declare the last step as a segment of the task"
            )
        rows: list[Row] = []
        before, skipped = None, layout.held_out
        for batch in layout.transform(found.batches(roles.wanted, roles.claims)):
            values = batch.values
            n = len(batch)
            none = [None] * n
            done = flags.of(values["done"]) if "done" in values else [0] * n
            reward = numbers.of(values["reward"])
            after = values.get("next_state", none)
            for j in range(n):
                if j in batch.broken:
                    continue
                if values["episode"][j] != before and before is not None:
                    if skipped == 0:
                        finished = _with_next_states(rows, layout.derived, settings.horizon or 0)
                        yield text_of(before), finished
                    skipped, rows = max(0, skipped - 1), []
                before = values["episode"][j]
                state, action = text_of(values["state"][j]), text_of(values["action"][j])
                rows.append(
                    (state, action, float(reward[j]), text_of(after[j]), bool(done[j] == 1))
                )
        if rows and skipped == 0:
            yield text_of(before), _with_next_states(rows, layout.derived, settings.horizon or 0)


def _with_next_states(rows: list[Row], derived: bool, horizon: int) -> list[Row]:
    """The rows of an episode, with next states from the next rows if they are derived."""
    if not derived:
        return rows
    out = []
    for i, (state, action, reward, _, done) in enumerate(rows):
        after = rows[i + 1][0] if i + 1 < len(rows) else ""
        out.append((state, action, reward, after, done or i + 1 == horizon))
    return out


def _use_model(task: Task, source: Any) -> None:
    """Write the optimal policy of a model as the prior policy of a task."""
    model = source if isinstance(source, MDP) else read_model(source)
    declaration = task.declaration
    if model.horizon != declaration.horizon:
        raise InvalidReport(
            f"the model has horizon {model.horizon}, and the task has {declaration.horizon}: they "
            "must be the same"
        )
    states, actions = labels_of(model.problem)
    number = _numbers(actions, declaration.action_names)
    plan, prior = model.optimal().policy, {}
    for s in range(model.states):
        if s not in model.problem.terminal:
            prior[text_of(states.label(s))] = [
                number[int(plan[t, s])] for t in range(model.horizon)
            ]
    task.add_warm_start(WarmStart("", prior))


def _numbers(actions: Labels, names: list[str]) -> list[int]:
    """(A,) the numbers in a task of the actions of a model."""
    called = [text_of(actions.label(a)) for a in range(actions.count)]
    for name in called:
        if name not in names:
            listed = ", ".join(names)
            raise InvalidReport(
                f"the model has an action {name!r}, and the task only {listed}: rename it"
            )
    return [names.index(name) for name in called]
