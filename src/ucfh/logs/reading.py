"""Logs of episodes, collected by any policy, as counts over a problem's table.

Which rows may be counted? Bounds from counts rest on this: given all that happened before, and
that a pair (s, a) is counted once more, its next state is drawn from p(.|s, a). It holds for any
choice of what to count that does not look at the outcome, nor at anything after it. So

- the policy that chose the actions may be anything that does not know the future;
- the log may end at any time, even because of what it shows, and lose its last line: the
  outcomes of each pair are then a beginning of all its outcomes, and bounds that hold at all times
  hold for every beginning. That is so for one episode after another. Of episodes side by side,
  written when they are over, an end loses the slow ones, perhaps for what happened in them;
- an episode is counted up to its first fault and left there. Leaving all of it out because of
  what is wrong later in it would be a choice by outcome; counting it up to there is not;
- a step after the horizon is left out before its outcome is seen, and the rest of the episode with
  it: only data are lost (`Fault.harmless`). The same would hold for an action that the problem
  does not have, if its name were known before its outcome; some logs name actions by outcome;
- where an outcome cannot be used, or steps are missing, or contradict each other or the problem,
  it may be because of what happened. No reader can know. The bounds then hold only if it is
  not, and `Log.assumptions` says so. A log that lost more than a few rows in a thousand so, or many
  of one step, state, action or pair (`ucfh.logs.losses`), is refused unless `accept_losses`: it no
  longer shows the task, as when every exam pays 90 where rewards end at 1. So is one with rows that
  the problem excludes, however few: they are left out because of their outcome;
- where an episode stops short, what was seen is counted, and the same assumed of what was not;
  also where one is done in a state from which others continue. More than a few are refused, too.
  "done" says that the task was over, so the last state is terminal; but a state from which any
  row continues, counted or not, is not taken to be. At the horizon every episode is over, and done
  says little: a state that is reached only there is taken to be terminal if all rows say so, unless
  done seems to mean that time is up: it is said of states that continue, too, or after a state and
  an action after which it is not said at other steps.

States, actions and the horizon may be declared. What is not, and whether t begins with 1, is what
the log shows, in any row that can be read, counted or not: one state too many costs data, one too
few costs validity, and one step too few makes it another task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from itertools import chain
from typing import SupportsIndex

from ucfh._support import validation
from ucfh._support.files import AnyPath, Labels, labels_of, naming, open_bytes
from ucfh.counts import Counts
from ucfh.errors import InputError, check_count, unknown
from ucfh.logs.batches import COLUMNS, Batch
from ucfh.logs.episodes import Episodes
from ucfh.logs.faults import Fault, Faults, Kind
from ucfh.logs.labels import Times, shown
from ucfh.logs.rows import kind_of, read_batches
from ucfh.logs.tally import Shown, ShownTally, ToldTally
from ucfh.problem import MDP, Problem, as_problem
from ucfh.units import DEFAULT, RewardRange, check_stages

PEEK = 1000
"""The number of rows that are searched for a step 0."""
MOST_DECLARED = 10**5
"""The most states or actions that may be declared: no table of all transitions has more."""
MOST_NAMED = 5
"""How many terminal states are named."""


@dataclass(frozen=True, eq=False)
class Log:
    """What a log shows.

    Attributes:
        states, actions: what they are called, in order.
        horizon: H.
        rows, episodes: how many there are in the log.
        counted: how many of the rows are in the counts.
        faults: what is wrong with it, by kind.
        assumptions: what bounds from these counts rest on, a sentence each.
        told: the problem that was given and counts over its table, or None.
        shown: what the log shows without a problem, or None.
        closed: whether all states were declared: there are no others.
        units: the range of rewards. max_return: the largest return, if it was declared.

    """

    states: Labels
    actions: Labels
    horizon: int
    rows: int
    episodes: int
    counted: int
    faults: tuple[Fault, ...]
    assumptions: tuple[str, ...]
    told: tuple[Problem, Counts] | None
    shown: Shown | None
    closed: bool = True
    units: RewardRange = DEFAULT
    max_return: float | None = None

    @cached_property
    def _over_a_table(self) -> tuple[Problem, Counts]:
        if self.told is not None:
            return self.told
        assert self.shown is not None
        if self.shown.experience.P not in (1, self.horizon) or self.units.after_end > 0:
            raise InputError(
                "a log with stages, or with rewards below 0, has no problem and counts over a "
                "table: use ucfh.certify(log)"
            )
        return self.shown.over_a_table()

    @property
    def problem(self) -> Problem:
        """The problem that was given; or one in which any state that is shown may follow another.

        Rewards are in [0, 1] there, and the certificate of a log needs no such table.
        """
        return self._over_a_table[0]

    @property
    def counts(self) -> Counts:
        """Counts over the problem's table; its last row is the start."""
        return self._over_a_table[1]

    def __repr__(self) -> str:
        return (
            f"Log({self.episodes} episodes, {self.counted} of {self.rows} rows counted, "
            f"{len(self.faults)} kinds of faults, {self.states.count} states, "
            f"{self.actions.count} actions, {self.horizon} steps)"
        )


def read_log(
    path: AnyPath,
    problem: Problem | MDP | None = None,
    *,
    columns: Mapping[str, str] | None = None,
    states: Iterable[str] | SupportsIndex | None = None,
    actions: Iterable[str] | SupportsIndex | None = None,
    horizon: int | None = None,
    stage_dependent: bool = False,
    stages: Sequence[int] = (),
    rewards: tuple[float, float] = (0.0, 1.0),
    max_return: float | None = None,
    encoding: str | None = None,
    strict: bool = False,
    accept_losses: bool = False,
    progress: Callable[[float], None] | None = None,
) -> Log:
    """Count what a log shows; the module says which rows count, docs/howto/logs.md the format.

    Args:
        path: a .csv, .jsonl or .parquet file; the first two also compressed, as .csv.gz.
        problem: what is known about the task. Without it nothing is, but what is declared below:
            states, successors, rewards and the start are what the log shows, and may be others.
        columns: names of columns where they differ, such as {"state": "s"}.
        states, actions: their names, or how many there are, if they are called 0, 1, ...; of
            states that are not declared there may be more than the log shows.
        horizon: H; without it, the length of the longest episode, counted or not.
        stage_dependent: whether transitions and rewards may depend on t.
        stages: the steps, counted from 0, from which on they may be others (an exam at the end).
        rewards: the least and the largest reward of a step that are possible.
        max_return: the largest sum of the rewards of an episode, if somebody knows it.
        encoding: that of the text, such as "cp1252"; None: UTF-8.
        strict: whether to raise at the first fault.
        accept_losses: whether to continue where more than a few rows are lost, or rows contradict
            the problem; `Log.assumptions` then says which.
        progress: called now and then with the share of the file that was read.

    """
    told = None if problem is None else as_problem(problem)
    names = _check_columns(columns or {})
    tally: ToldTally | ShownTally
    units = RewardRange.check(rewards)
    declared = (states, actions, horizon, max_return)
    plain = not stage_dependent and not stages and units == DEFAULT
    if told is None:
        H = None if horizon is None else check_count("horizon", horizon)
        tally = ShownTally(_declared("state", states), _declared("action", actions), H)
    elif declared == (None,) * 4 and plain:
        tally = ToldTally(told)
        if told.rewards is not None:
            del names["reward"]
    else:
        raise InputError(
            "the problem has states, actions, horizon, stages and rewards: leave them out"
        )
    faults = Faults("row" if kind_of(path) == ".parquet" else "line")
    with open_bytes(path) as file, naming(path):
        batches = read_batches(file, path, names, encoding)
        begin = next(batches, None)
        while begin is not None and len(begin) < PEEK and (more := next(batches, None)):
            begin = begin.then(more)
        reader = Episodes(tally, faults, _first_step(begin), units)
        for batch in chain([] if begin is None else [begin], batches):
            reader.read(batch)
            if strict:
                _refuse(faults)
            if progress is not None:
                progress(batch.share)
        reader.finish()
        H = tally.horizon or reader.longest
        ending = _terminal(tally, reader, H)
        _note_ends(reader, faults, H, ending)
        if strict:
            _refuse(faults)
        if not accept_losses:
            _check_losses(reader, faults)
        if isinstance(tally, ToldTally):
            known, shown = (tally.problem, tally.counts), None
            labels = labels_of(tally.problem)
        else:
            _check_shown(tally, H, faults)
            parts = check_stages(True if stage_dependent else stages, H)
            known, shown = None, tally.experience(H, parts, ending)
            labels = shown.states, shown.actions
            units.scaled_return(max_return, H)  # or an error that says what is wrong with it
    return Log(
        *labels,
        horizon=H,
        rows=reader.losses.rows,
        episodes=reader.losses.episodes,
        counted=reader.counted,
        faults=tuple(faults[kind] for kind in sorted(faults)),
        assumptions=tuple(_assumptions(tally, reader, shown, H, units, max_return)),
        told=known,
        shown=shown,
        closed=not tally.states.is_open,
        units=units,
        max_return=max_return,
    )


def _check_columns(given: Mapping[str, str]) -> dict[str, str]:
    """The name in the file of each column."""
    for column in given:
        if column not in COLUMNS:
            raise unknown("column of a log", column, COLUMNS)
    return {column: given.get(column, column) for column in COLUMNS}


def _declared(kind: str, given: Iterable[str] | SupportsIndex | None) -> Sequence[str] | int | None:
    if given is None:
        return None
    if isinstance(given, str):
        raise InputError(f"{kind}s = {given!r}: pass a list of names, or how many there are")
    if not isinstance(given, Iterable):
        number = check_count(f"{kind}s", given)
        if number > MOST_DECLARED:
            raise InputError(f"{kind}s = {number} is too many: pass at most {MOST_DECLARED}")
        return number
    names = list(given)
    return validation.check_names(kind, names, check_count(f"{kind}s", len(names)))


def _first_step(begin: Batch | None) -> int:
    """1 if a log counts steps from 1, else 0; of a log that begins in an episode, too."""
    steps = set() if begin is None else set(Times().of(begin.values["t"][:PEEK]).tolist())
    return 1 if 1 in steps and 0 not in steps else 0


def _refuse(faults: Faults) -> None:
    if faults:
        raise InputError(faults.first)


def _terminal(tally: ToldTally | ShownTally, reader: Episodes, horizon: int) -> list[int]:
    """States that end the episode: as told; or those that did, from which no row continues.

    At the horizon, they did if all rows say so, unless done means there that time is up: where it
    is said of a state that continues, too, or after a pair after which it is not at other steps.
    """
    if isinstance(tally, ToldTally):
        return list(tally.problem.terminal)
    ends = {s for done, length, s in reader.ends if done and length < horizon}
    if not reader.done_in & reader.went_on:
        by_time = {after for s, a, after in reader.ending if (s, a) in reader.going_on}
        ends |= reader.done_in - reader.not_done - by_time
    return sorted(ends - reader.went_on)


def _note_ends(reader: Episodes, faults: Faults, horizon: int, terminal: list[int]) -> None:
    """Note episodes that ended before the horizon, in a state that is not terminal."""
    names = list(reader.tally.states.index)

    def tell(length: int, done: bool, s: int) -> str:
        where = f"the episode ends there after {length} of {horizon} steps, in state {names[s]!r}"
        return f"{where}, {'which is not terminal' if done else 'and is not done'}"

    early = [(end, found) for end, found in reader.ends.items() if end[1] < horizon]
    for (done, length, s), (count, lines) in sorted(early, key=lambda item: item[1][1]):
        if s not in terminal:
            kind = Kind.DONE if done else Kind.SHORT
            faults.note(kind, lines, partial(tell, length, done, s), count)
            reader.losses.spoilt += count
    if reader.unfinished is not None:
        (done, length, s), line = reader.unfinished
        if length < horizon and s not in terminal:
            faults.note(Kind.CUT, [line], partial(tell, length, done, s))


def _check_losses(reader: Episodes, faults: Faults) -> None:
    """Refuse a log that lost too much, or contradicts the problem."""
    refuting = [x for x in faults.values() if x.refutes]
    if not refuting and reader.losses.are_few(reader.tally.counted):
        return
    costly = [x for x in faults.values() if not x.harmless]
    if reader.losses.lost:  # those that cost rows
        costly = [x for x in costly if x.kind not in ("short", "done")]
    worst = max(refuting or costly, key=lambda fault: fault.count)
    why = "If it is because of what happened, bounds from the rest are wrong"
    if refuting:
        told = f"that rewards are in {reader.units}" if worst.kind == "range" else "the problem"
        why = f"It contradicts {told}"
    remedy = "repair the log"
    if worst.kind != "range":
        remedy += ", or continue with --accept-losses (accept_losses=True)"
    raise InputError(f"{_lost(reader)}: {worst.first}. {why}: {remedy}")


def _lost(reader: Episodes) -> str:
    """How many rows and episodes are lost, and where most of them, in words."""
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
        which = f"t = {first + reader.first}"
    elif part.kind == "state":
        which = f"state {states[first]}"
    else:
        which = f"action {actions[last]}"
        which += f" in state {states[first]}" if part.kind == "pair" else ""
    some = "all" if part.gone == part.seen else f"{part.gone} of the {part.seen}"
    return f"{text}, among them {some} with {which}"


def _check_shown(tally: ShownTally, horizon: int, faults: Faults) -> None:
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


def _assumptions(
    tally: ToldTally | ShownTally,
    reader: Episodes,
    shown: Shown | None,
    horizon: int,
    units: RewardRange,
    max_return: float | None,
) -> Iterator[str]:
    yield (
        "no episode is in the log, or missing from it, because of what happened in it, and no "
        "action was chosen with knowledge of the future"
    )
    if shown is None:
        yield "the given problem is right"
    else:
        stages = {horizon: "the step, the state and", 1: "the state and"}
        alone = stages.get(shown.experience.P, "the stage, the state and")
        yield f"the next state and the reward depend on {alone} the action alone"
        if not tally.states.is_open:
            yield f"there are no states besides the {shown.states.count} that were declared"
        if tally.actions.is_open:
            yield f"there are no actions besides the {shown.actions.count} that the log shows"
        if tally.horizon is None:
            yield f"an episode lasts {horizon} steps, as the longest in the log does"
        yield f"rewards lie in {units}"
        if max_return is not None:
            yield f"no episode pays more than {max_return:g} in all"
        if shown.terminal:
            some = ", ".join(repr(str(shown.states.label(s))) for s in shown.terminal[:MOST_NAMED])
            more = ", ..." if len(shown.terminal) > MOST_NAMED else ""
            yield f"the task is over, and nothing more is paid, in these states: {some}{more}"
    if reader.first:
        yield "t counts from 1, as no early row has t = 0"
    harmful = [fault for fault in reader.faults.values() if not fault.harmless]
    if harmful:
        kinds = ", ".join(fault.kind for fault in harmful)
        yield (
            f"the faults of the log ({kinds}; {_lost(reader)}) have nothing to do with what "
            "happened in it"
        )
