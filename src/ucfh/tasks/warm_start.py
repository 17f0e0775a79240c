"""What a task can begin with: a log, another task, or a model.

The steps of a log, or of another task, become steps that somebody else chose, in episodes of their
own; they count like any others, if they are of the same task, which is then assumed. Of a model,
the optimal policy is followed as long as nothing better is known: nothing is assumed of it, since
decisions may be anything.

An imported episode is known by its name: the one in the log, or the one in the other task together
with that task's name and the time of its first decision. So a warm start may be interrupted,
repeated, or made from a log that has grown since: of an episode that is there already, only the
steps that are new are added. If a step differs from the one that was imported under its name, the
source is refused before any of its steps is written. An outcome that was missing when it was
imported stays missing, and no later steps of its episode are added.

The steps of a task are imported in the order of its decisions, on which the proofs of
`docs/theory/flight.md` rest; those of a log in the order of the log.
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
from ucfh.tasks.protocol import Serving
from ucfh.tasks.records import OUTCOME, StepRecord, WarmStart
from ucfh.tasks.store import Transaction

if TYPE_CHECKING:
    from ucfh.tasks.task import Task

T = TypeVar("T")
TOGETHER = 500
"""Steps that are written in one transaction: others may ask and tell in between."""
SAME = "is of the same task, which has not changed since"
"""What is assumed of logs and of other tasks."""
ONE_NAME = "every episode has one name, in all that the task began with, and no two share a name"
"""What is assumed of logs: nothing else shows whether two episodes are the same."""
IMPORTED = re.compile(r".* \([0-9a-f]{12}\)")
"""The names of episodes that were imported from a task."""


class ImportedStep(NamedTuple):
    """A step to be imported; ``state``, ``action`` and ``next_state`` are labels.

    Attributes:
        name, t: its episode here, and its number there.
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
    """Let a task begin with what is known from elsewhere; how many episodes were added.

    None: a model has no episodes.

    Args:
        task: the task.
        source: a log that `ucfh.read_log` reads; or a model, an `MDP` or its file, with the same
            names of states and actions.

    """
    if isinstance(source, Log):
        raise InputError("a Log holds counts and no steps: pass the file, or the frame, it is from")
    if isinstance(source, MDP) or (is_file(source) and Path(source).suffix in ENDINGS):
        _begin_with_model(task, source)
        return None
    if not is_source(source):
        what = "a log (a file or a frame), another Task, or a model"
        raise wrong_type("source", source, what)
    assumed = [f"the log {_name(source)} {SAME}", ONE_NAME]
    return _begin_with_steps(task, _name(source), assumed, lambda: _of_log(task, source))


def begin_with_task(task: Task, source: Task) -> int:
    """Let a task begin with the steps of another one; how many episodes were added."""
    if (source.store.name, source.number) == (task.store.name, task.number):
        raise InvalidReport(f"task {task.name!r} cannot begin with itself: pass another one")
    what = f"task {source.name!r} in {source.store.name}"
    _check_same(task, source)
    check_no_conflicts(source.store, source.number)
    task.write(lambda tx, serving: _find_masked(tx, serving, source))
    begun = source.store.beginnings(source.number)
    assumed = [f"{what} {SAME}", *(x.sentence for x in begun if x.sentence)]
    return _begin_with_steps(task, what, assumed, lambda: _of_task(task, source))


def _find_masked(tx: Transaction, serving: Serving, source: Task) -> None:
    """Add the states of another task that do not have all actions, with those that they have."""
    if serving.known.declaration.states is not None:
        return
    book, actions = source.states, source.declaration.action_labels
    for label, have in zip(book.labels[1:], book.actions[1:], strict=True):
        if have is not None:
            serving.known.find_state(tx, label, [actions[a] for a in have], source.name, 0)


def _name(source: Any) -> str:
    return str(source) if is_file(source) else type(source).__name__


def _begin_with_steps(
    task: Task, what: str, assumed: list[str], steps: Callable[[], Iterator[ImportedStep]]
) -> int:
    """Record the steps that are new; with the first of them, what is assumed of them.

    Args:
        task: the task.
        what: the source, for messages.
        assumed: a sentence for each assumption.
        steps: makes an iterator over the steps, those of one episode in order. It is used twice:
            all steps are compared with those that are there before any is written.

    Returns:
        The number of episodes that were added.

    """

    def compare(tx: Transaction, serving: Serving) -> None:
        for step in some:
            _is_new(tx, serving, what, step)

    def write(tx: Transaction, serving: Serving) -> int:
        due, added = list(assumed), 0
        for step in some:
            if _is_new(tx, serving, what, step):
                for sentence in [*due, *[REPLACED] * step.replaced]:
                    tx.add_beginning(WarmStart(sentence, {}))
                due, added = [], added + (step.t == 0)
                _record(tx, serving, step)
        return added

    every, added = steps(), 0
    while some := list(islice(every, TOGETHER)):
        task.write(compare)
    every = steps()
    while some := list(islice(every, TOGETHER)):
        added += task.write(write)
    return added


def _is_new(tx: Transaction, serving: Serving, what: str, step: ImportedStep) -> bool:
    """Whether a step is to be recorded.

    Raises:
        Conflict: another step is there under its name.

    """
    last, known = tx.last(step.name), serving.known
    if last is None:
        return True
    if last.kind == OUTCOME and step.t > last.t:
        return last.state != LOST and step.t == last.t + 1
    decided, told, _ = tx.step(last.episode, step.t)
    if decided is None:
        return False
    known.catch_up(tx, decided.state)
    if told is not None:
        known.catch_up(tx, told.following)
    texts = known.states.texts
    same = texts[decided.state] == canonical(step.state) and decided.action == known.find_action(
        step.action, decided.state
    )
    if same and not step.lost and told is not None and told.following != LOST:
        following = None if step.done else canonical(step.next_state)
        there = None if told.following == END else texts[told.following]
        same = (told.reward, there, told.taken) == (step.reward, following, None)
    if not same:
        raise Conflict(
            f"{what}: step {step.t} of episode {step.name!r} differs from the one that was "
            "imported before. Fix: give the episodes of different sources different names"
        )
    return False


def _record(tx: Transaction, serving: Serving, step: ImportedStep) -> None:
    name, t, state, action, reward, following, done, lost, _ = step
    if lost:
        serving.record(tx, name, t, state, action)
        serving.abandon(tx, name, "lost before")
    else:
        serving.record(tx, name, t, state, action, reward, following, done)


def _check_same(task: Task, source: Task) -> None:
    """Raise if two tasks have different actions or horizons."""
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


def _of_task(task: Task, source: Task) -> Iterator[ImportedStep]:
    """Yield the steps of another task, in the order of its decisions.

    An outcome that is open there is missing here. Episodes that came from this task are left out.
    """
    labels, actions = source.states.labels, task.declaration.action_labels
    moment, after = source.store.last_seq(source.number), 0
    names: dict[str, str | None] = {}  # here, by those there
    while page := source.store.steps(source.number, "all", None, TOGETHER, after):
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
    """Return the name here of an episode of another task, None if it came from here."""
    if not IMPORTED.fullmatch(first.name):
        return _named(first.name, source.name, first.asked)
    own = task.store.steps(task.number, "all", first.name.rpartition(" (")[0], 1)
    if own and first.name == _named(own[0].name, task.name, own[0].asked):
        return None
    return first.name


def _named(name: str, task: str, asked: float) -> str:
    """Return the name of an imported episode, which no other one has."""
    return f"{name} ({blake2b(repr((task, asked)).encode(), digest_size=6).hexdigest()})"


def _of_log(task: Task, source: Any) -> Iterator[ImportedStep]:
    """Yield the steps of a log, if nothing is wrong with it."""
    declaration, book = task.declaration, task.states
    told = settings_of(declaration, book)
    remembered = read_settings(source) if is_file(source) else {}
    given = {name: told[name] for name in ("actions", "horizon", "rewards", "states")}
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
    """Episodes but for the last, if that is cut."""
    held = next(episodes, None)
    for episode in episodes:
        assert held is not None
        yield held
        held = episode
    if held is not None and not cut:
        yield held


def _label(book: StateIndex, name: str) -> Any:
    """The label of a state that a log calls so; a new one is called the same."""
    s = book.named.get(name)
    return name if s is None else book.labels[s]


Row = tuple[str, str, float, str, bool]


def _episodes(source: Any, settings: Settings, apart: bool) -> Iterator[tuple[str, list[Row]]]:
    """The name and the rows of each episode.

    A row: state, action, reward, next state (or "") and whether the episode is over.

    ``apart``: whether the last step is a segment of its own.
    """
    flags, numbers = FlagCodes(), Numbers(settings.decimal, settings.blank_reward)
    with open_source(source, settings.encoding) as found:
        roles = map_columns(found.columns, settings.columns, True, found.kind == "JSON lines")
        layout = ColumnLayout(roles, settings.bins, settings.decimal)
        if layout.derived and not apart:
            raise InputError(
                "the log does not show what follows the last step: name its column of next states, "
                "or declare the last step as a segment of the task"
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
                        closed = _closed(rows, layout.derived, settings.horizon or 0)
                        yield text_of(before), closed
                    skipped, rows = max(0, skipped - 1), []
                before = values["episode"][j]
                state, action = text_of(values["state"][j]), text_of(values["action"][j])
                rows.append(
                    (state, action, float(reward[j]), text_of(after[j]), bool(done[j] == 1))
                )
        if rows and skipped == 0:
            yield text_of(before), _closed(rows, layout.derived, settings.horizon or 0)


def _closed(rows: list[Row], derived: bool, horizon: int) -> list[Row]:
    """Rows whose next states are those of the next rows, if they are derived."""
    if not derived:
        return rows
    out = []
    for i, (state, action, reward, _, done) in enumerate(rows):
        after = rows[i + 1][0] if i + 1 < len(rows) else ""
        out.append((state, action, reward, after, done or i + 1 == horizon))
    return out


def _begin_with_model(task: Task, source: Any) -> None:
    """Follow the optimal policy of a model as long as nothing better is known."""
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
    task.begin_with(WarmStart("", prior))


def _numbers(actions: Labels, names: list[str]) -> list[int]:
    """(A,) the number of each action of a model among those of a task."""
    called = [text_of(actions.label(a)) for a in range(actions.count)]
    for name in called:
        if name not in names:
            listed = ", ".join(names)
            raise InvalidReport(
                f"the model has an action {name!r}, and the task only {listed}: rename it"
            )
    return [names.index(name) for name in called]
