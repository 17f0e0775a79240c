"""What can be said of a log only when all of it has been read: its ends, and what it lost."""

from __future__ import annotations

from collections import Counter
from functools import partial
from shlex import quote

import numpy as np

from ucfh._utils.arrays import Bools, Floats
from ucfh.exceptions import InputError, unknown
from ucfh.logs.counting import KnownStateCounter, UnknownStateCounter
from ucfh.logs.episodes import Episodes
from ucfh.logs.issues import IssueKind, Issues
from ucfh.logs.labels import ENDED, shown


def terminal_states(
    tally: KnownStateCounter | UnknownStateCounter, reader: Episodes, horizon: int
) -> list[int]:
    """States that end the episode: as told; or those that did, from which no row continues.

    At the horizon, they did if all rows say so, unless done means there that time is up: where it
    is said of a state that continues, too, or after a pair after which it is not at other steps.
    """
    if isinstance(tally, KnownStateCounter):
        return list(tally.problem.terminal)
    declared = {name: tally.states.met(name) for name in reader.terminal}
    for name, s in declared.items():
        if s < 0 and not tally.states.is_open:
            raise unknown("state in terminal", name, list(tally.states.index))
        if s in reader.went_on:
            raise InputError(
                f"terminal: {name!r} is declared to end an episode, but the log goes on from it. "
                "Fix: leave it out of terminal"
            )
    ends = {s for done, length, s in reader.ends if done and length < horizon and s >= 0}
    if not reader.done_in & reader.went_on:
        by_time = {after for s, a, after in reader.ending if (s, a) in reader.going_on}
        ends |= reader.done_in - reader.not_done - by_time
    return sorted((ends | {s for s in declared.values() if s >= 0}) - reader.went_on)


def note_ends(reader: Episodes, faults: Issues, horizon: int, terminal: list[int]) -> int:
    """Note episodes that ended before the horizon, in a state that is not terminal.

    Those that are declared to be drop-outs are no faults; returns how many there are.
    """
    names, dropped = list(reader.tally.states.index), 0

    def say(length: int, done: bool, s: int) -> str:
        where = f"the episode ends there after {length} of {horizon} steps"
        state = f", in state {names[s]!r}" if s >= 0 else ""
        return f"{where}{state}, {'which is not terminal' if done else 'and is not done'}"

    early = [
        (end, found)
        for end, found in reader.ends.items()
        if end[1] < horizon and end[2] not in (*terminal, ENDED)
    ]
    for (done, length, s), (count, lines) in sorted(early, key=lambda item: item[1][1]):
        if not done and reader.tally.ends.dropouts is not None:
            dropped += count
            continue
        kind = IssueKind.DONE if done else IssueKind.SHORT
        faults.note(kind, lines, partial(say, length, done, s), count)
        reader.losses.spoilt += count
    if IssueKind.SHORT in faults:
        last = Counter[int]()
        for (done, _, s), (count, _) in early:
            last[s] += 0 if done else count
        names_of_ends = [names[s] for s in sorted(set(last) - reader.went_on) if s >= 0]
        if 2 * sum(n for s, n in last.items() if s >= 0 and s not in reader.went_on) > last.total():
            some = ",".join(names_of_ends[:MOST_NAMED]) + ",..." * (len(names_of_ends) > MOST_NAMED)
            faults[IssueKind.SHORT].remedy = (
                f"declare the states in which the task is over, --terminal {quote(some)} "
                f"(terminal={names_of_ends[:MOST_NAMED]})"
            )
    if reader.unfinished is not None:
        (done, length, s), line = reader.unfinished
        if length < horizon and s not in terminal:
            faults.note(IssueKind.CUT, [line], partial(say, length, done, s))
    return dropped


def check_losses(reader: Episodes, faults: Issues) -> None:
    """Refuse a log that lost too much, or contradicts the problem."""
    refuting = [x for x in faults.values() if x.refutes]
    if not refuting and reader.losses.are_few(reader.tally.counted):
        return
    costly = [x for x in faults.values() if not x.harmless]
    if any(x.kind not in ("short", "done") for x in costly) and reader.losses.lost:
        costly = [x for x in costly if x.kind not in ("short", "done")]  # others cost rows
    worst = max(refuting or costly, key=lambda fault: fault.count)
    why = "bounds from the other rows are wrong if these are lost because of what happened"
    if refuting:
        told = f"that rewards are in {reader.units}" if worst.kind == "range" else "the problem"
        why = f"this contradicts {told}"
    raise InputError(
        f"{lost_in_words(reader)}: {worst.unit} {worst.lines[0]}: {worst.example}; {why}. "
        f"Fix: {worst.remedy}"
    )


MOST_NAMED = 5
"""How many states are named in a message."""
ROUNDED = 1e-9
"""The share of a sum of rewards by which it may be off."""
REPEATED = "keep the reward in the last row of an episode, and write 0 in its other rows"
"""What to do about an outcome of the whole episode that stands in every row of it."""


def check_returns(
    reader: Episodes, max_return: float | None, returns: Floats, complete: Bools
) -> None:
    """Refuse a declared largest return that an episode of the log exceeds.

    Args:
        reader: has read the log.
        max_return: as declared, or None.
        returns, complete: (k,) the return of each episode, and whether it is logged to its end.

    """
    if max_return is None:
        return
    settled = complete if reader.units.low < 0 else np.ones(len(complete), bool)
    allowed = float(max_return) + ROUNDED * max(1.0, abs(float(max_return)))
    for k in np.flatnonzero(settled & (returns > allowed))[:1]:
        remedy = f"declare at least {returns[settled].max():g}"
        if reader.repeats:
            remedy = f"every row of an episode has the same reward: {REPEATED}"
        raise InputError(
            f"max_return = {max_return:g} contradicts the log: the return of episode number "
            f"{k + 1} is {returns[k]:g}. Fix: {remedy}"
        )


def lost_in_words(reader: Episodes) -> str:
    """How many rows and episodes are lost, and where most of them."""
    losses = reader.losses
    text = f"{losses.lost} of {losses.rows} rows are lost"
    if not losses.lost:
        return f"{losses.spoilt} of {losses.episodes} episodes are not logged to their end"
    part = losses.worst(reader.tally.counted)
    if part is None:
        return f"{text}, in {losses.spoilt} of {losses.episodes} episodes"
    names = (reader.tally.states, reader.tally.actions)
    states, actions = ([shown(name) for name in each.index] for each in names)
    first, last = part.code[0], part.code[-1]
    if part.kind == "step":
        which = f"t = {reader.clock.t(first)}"
    elif part.kind == "state":
        which = f"state {states[first]}"
    else:
        which = f"action {actions[last]}"
        which += f" in state {states[first]}" if part.kind == "pair" else ""
    some = "all" if part.gone == part.seen else f"{part.gone} of the {part.seen}"
    return f"{text}, among them {some} with {which}"


def check_shown(tally: UnknownStateCounter, horizon: int, faults: Issues) -> None:
    """Refuse a log that shows too little to make a problem of."""
    missing = {
        "states": not tally.states.index,
        "actions": not tally.actions.index,
        "the horizon": not horizon,
    }
    if any(missing.values()):
        what = " and ".join(name for name, lacks in missing.items() if lacks)
        why = faults.first if faults else "it has no rows"
        raise InputError(
            f"no row of it can be counted ({why}); to continue with none, declare {what}"
        )
