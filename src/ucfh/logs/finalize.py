"""Checks of a log after all rows were read: ends of episodes, missing rows, returns."""

from __future__ import annotations

from collections import Counter
from functools import partial
from shlex import quote

import numpy as np

from ucfh._utils.arrays import Bools, Floats
from ucfh.exceptions import InputError, unknown
from ucfh.logs.counting import KnownStateCounter, UnknownStateCounter
from ucfh.logs.episode_checks import Episodes
from ucfh.logs.issues import IssueKind, Issues
from ucfh.logs.labels import ENDED, quoted


def terminal_states(
    counter: KnownStateCounter | UnknownStateCounter, reader: Episodes, horizon: int
) -> list[int]:
    """Return the terminal states: the declared ones, and ends from which no row continues.

    A state that is done at the horizon is terminal if all rows that lead to it are done there. It
    is not if done seems to mean a timeout: if states that continue are done as well, or if the same
    state-action pair is not done at other steps.
    """
    if isinstance(counter, KnownStateCounter):
        return list(counter.problem.terminal)
    declared = {name: counter.states.code_of(name) for name in reader.terminal}
    for name, s in declared.items():
        if s < 0 and not counter.states.is_open:
            raise unknown("state in terminal", name, list(counter.states.index))
        if s in reader.continuing_states:
            raise InputError(
                f"terminal: {name!r} is declared to end an episode, but the log goes on from it. "
                "Fix: leave it out of terminal"
            )
    ends = {s for done, length, s in reader.ends if done and length < horizon and s >= 0}
    if not reader.done_states & reader.continuing_states:
        by_time = {
            after for s, a, after in reader.final_transitions if (s, a) in reader.continuing_pairs
        }
        ends |= reader.done_states - reader.not_done_states - by_time
    return sorted((ends | {s for s in declared.values() if s >= 0}) - reader.continuing_states)


def note_early_ends(reader: Episodes, issues: Issues, horizon: int, terminal: list[int]) -> int:
    """Note episodes that ended before the horizon in a state that is not terminal.

    Returns:
        The number of early ends whose meaning is declared; these are not issues.

    """
    names, dropouts = list(reader.counter.states.index), 0

    def say(length: int, done: bool, s: int) -> str:
        where = f"the episode ends there after {length} of {horizon} steps"
        state = f", in state {names[s]!r}" if s >= 0 else ""
        return f"{where}{state}, {'which is not terminal' if done else 'and is not done'}"

    early = [
        (end, rows)
        for end, rows in reader.ends.items()
        if end[1] < horizon and end[2] not in (*terminal, ENDED)
    ]
    for (done, length, s), (count, lines) in sorted(early, key=lambda item: item[1][1]):
        if not done and reader.counter.ends.dropouts is not None:
            dropouts += count
            continue
        kind = IssueKind.DONE if done else IssueKind.SHORT
        issues.note(kind, lines, partial(say, length, done, s), count)
        reader.missing.incomplete += count
    if IssueKind.SHORT in issues:
        last = Counter[int]()
        for (done, _, s), (count, _) in early:
            last[s] += 0 if done else count
        ends = {s: n for s, n in last.items() if s >= 0 and s not in reader.continuing_states}
        if 2 * sum(ends.values()) > last.total():
            labels = [names[s] for s in sorted(ends)]
            some = ",".join(labels[:MOST_NAMED]) + ",..." * (len(labels) > MOST_NAMED)
            issues[IssueKind.SHORT].remedy = (
                f"declare the states in which the task is over, --terminal {quote(some)} "
                f"(terminal={labels[:MOST_NAMED]})"
            )
    if reader.unfinished is not None:
        (done, length, s), line = reader.unfinished
        if length < horizon and s not in terminal:
            issues.note(IssueKind.CUT, [line], partial(say, length, done, s))
    return dropouts


def check_missing(reader: Episodes, issues: Issues) -> None:
    """Raise if too many rows are missing, or rows contradict the problem."""
    refuting = [x for x in issues.values() if x.refutes]
    if not refuting and reader.missing.are_few(reader.counter.counted):
        return
    costly = [x for x in issues.values() if not x.harmless]
    if any(x.kind not in ("short", "done") for x in costly) and reader.missing.missing:
        costly = [x for x in costly if x.kind not in ("short", "done")]  # others cost rows
    worst = max(refuting or costly, key=lambda issue: issue.count)
    why = "bounds from the other rows are wrong if these are lost because of what happened"
    if refuting:
        known = f"that rewards are in {reader.units}" if worst.kind == "range" else "the problem"
        why = f"this contradicts {known}"
    raise InputError(
        f"{missing_words(reader)}: {worst.unit} {worst.lines[0]}: {worst.example}; {why}. "
        f"Fix: {worst.remedy}"
    )


MOST_NAMED = 5
"""The largest number of states in a message."""
ROUNDED = 1e-9
"""The relative rounding error of a sum of rewards."""
REPEATED = "keep the reward in the last row of an episode, and write 0 in its other rows"
"""The remedy for a return that is repeated in every row of its episode."""


def check_returns(
    reader: Episodes, max_return: float | None, returns: Floats, complete: Bools
) -> None:
    """Raise if an episode exceeds the declared largest return.

    Args:
        reader: the checks, after all rows were read.
        max_return: the declared largest return, or None.
        returns, complete: (k,) the return of each episode, and whether it is logged to its end.

    """
    if max_return is None:
        return
    final = complete if reader.units.low < 0 else np.ones(len(complete), bool)
    allowed = float(max_return) + ROUNDED * max(1.0, abs(float(max_return)))
    for k in np.flatnonzero(final & (returns > allowed))[:1]:
        remedy = f"declare at least {returns[final].max():g}"
        if reader.repeats:
            remedy = f"every row of an episode has the same reward: {REPEATED}"
        raise InputError(
            f"max_return = {max_return:g} contradicts the log: the return of episode number "
            f"{k + 1} is {returns[k]:g}. Fix: {remedy}"
        )


def missing_words(reader: Episodes) -> str:
    """Return the numbers of missing rows and episodes, and the worst part, in words."""
    counts = reader.missing
    text = f"{counts.missing} of {counts.rows} rows are lost"
    if not counts.missing:
        return f"{counts.incomplete} of {counts.episodes} episodes are not logged to their end"
    part = counts.worst_part(reader.counter.counted)
    if part is None:
        return f"{text}, in {counts.incomplete} of {counts.episodes} episodes"
    names = (reader.counter.states, reader.counter.actions)
    states, actions = ([quoted(name) for name in each.index] for each in names)
    first, last = part.code[0], part.code[-1]
    if part.kind == "step":
        which = f"t = {reader.clock.t(first)}"
    elif part.kind == "state":
        which = f"state {states[first]}"
    else:
        which = f"action {actions[last]}"
        which += f" in state {states[first]}" if part.kind == "pair" else ""
    some = "all" if part.missing == part.seen else f"{part.missing} of the {part.seen}"
    return f"{text}, among them {some} with {which}"


def check_not_empty(counter: UnknownStateCounter, horizon: int, issues: Issues) -> None:
    """Raise if a log has no states, actions or steps."""
    missing = {
        "states": not counter.states.index,
        "actions": not counter.actions.index,
        "the horizon": not horizon,
    }
    if any(missing.values()):
        what = " and ".join(name for name, lacks in missing.items() if lacks)
        why = issues.first if issues else "it has no rows"
        raise InputError(
            f"no row of it can be counted ({why}); to continue with none, declare {what}"
        )
