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
  it: only data are lost (`Issue.harmless`). The same would hold for an action that the problem
  does not have, if its name were known before its outcome; some logs name actions by outcome;
- where an outcome cannot be used, or steps are missing, or contradict each other or the problem,
  it may be because of what happened. No reader can know. The bounds then hold only if it is
  not, and `Log.assumptions` says so. A log that lost more than a few rows in a thousand so, or many
  of one step, state, action or pair (`ucfh.logs.missing_data`), is refused unless `accept_losses`:
  it no longer shows the task, as when every exam pays 90 where rewards end at 1. So is one with
  rows that
  the problem excludes, however few: they are left out because of their outcome;
- where an episode stops short, what was seen is counted, and the same assumed of what was not;
  also where one is done in a state from which others continue. More than a few are refused, too,
  unless it is declared what a drop-out means (`ucfh.logs.early_termination`);
- where next states are those of the next rows, that row has to be right for this one to count. If
  it is not, the outcome of this one is lost with it. At the last step no outcome is known but the
  reward, whatever happens: that step is counted apart;
- whole episodes may be left out by their place in the log, such as the first ones, by which bins
  are chosen (`ucfh.logs.bins`). Columns may be joined and cut into bins by anything that was known
  before the outcomes that are counted;
- "done" says that the task was over, so the last state is terminal; but a state from which any
  row continues, counted or not, is not taken to be. At the horizon every episode is over, and done
  says little: a state that is reached only there is taken to be terminal if all rows say so, unless
  done seems to mean that time is up: it is said of states that continue, too, or after a state and
  an action after which it is not said at other steps.

States, actions and the horizon may be declared. What is not, and whether t begins with 1, is what
the log shows, in any row that can be read, counted or not: one state too many costs data, one too
few costs validity, and one step too few makes it another task.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from typing import Any, SupportsIndex

import numpy as np

from ucfh._utils.arrays import Bools, Floats
from ucfh._utils.files import AnyPath, Labels, labels_of
from ucfh.auditing.e_process import Audit
from ucfh.counts import Counts
from ucfh.exceptions import InputError
from ucfh.logs.assumptions import Assumption, assumptions_of, notes_of
from ucfh.logs.batches import Source
from ucfh.logs.column_layout import ColumnLayout
from ucfh.logs.column_mapping import find_roles
from ucfh.logs.counting import KnownStateCounter, LogContents, UnknownStateCounter
from ucfh.logs.early_termination import EarlyTermination
from ucfh.logs.episodes import Episodes
from ucfh.logs.finalize import (
    check_losses,
    check_returns,
    check_shown,
    note_ends,
    terminal_states,
)
from ucfh.logs.issues import Issue, IssueKind, Issues
from ucfh.logs.labels import Numbers
from ucfh.logs.settings import (
    OF_THE_TASK,
    Settings,
    beside,
    check_settings,
    combine,
    read_settings,
)
from ucfh.logs.sources import is_file, open_source
from ucfh.logs.summary import ReadSummary, understand
from ucfh.logs.times import PEEK, StepClock
from ucfh.mdp import Problem
from ucfh.problems import AnyProblem, as_problem
from ucfh.rewards import RewardRange

MOST_STATES, MOST_COMBINATIONS = 10**6, 10**7
"""The most states that a log may show, and more than their parts may make."""


@dataclass(frozen=True, eq=False)
class Log:
    """What a log shows.

    Attributes:
        states, actions: what they are called, in order.
        horizon: H.
        rows, episodes: how many there are in the log.
        counted: how many of the rows are in the counts.
        faults: what is wrong with it, by kind.
        assumptions: the assumptions behind bounds from these counts.
        told: the problem that was given and counts over its table, or None.
        shown: what the log shows without a problem, or None.
        closed: whether all states were declared: there are no others.
        units: the range of rewards. max_return: the largest return, if it was declared.
        times: (H,) the log's own t of each step: range(0, 24, 4) if it counts hours, 0 to 20.
        audit: tests of what is assumed.
        returns: (k,) the return of each episode that began, in own units, in order: the sum of its
            first H rewards. Known rewards are used where there are any, in place of logged ones.
        complete: (k,) whether it is logged to its end: at the horizon, in a terminal state, or
            where it left, if that is declared to be an outcome.
        truncated: how many episodes continue after the horizon: later rewards do not count.
        notes: what is worth knowing, but no fault, a sentence each.
        understood: how it was read.

    """

    states: Labels
    actions: Labels
    horizon: int
    rows: int
    episodes: int
    counted: int
    faults: tuple[Issue, ...]
    assumptions: tuple[Assumption, ...]
    told: tuple[Problem, Counts] | None
    shown: LogContents | None
    closed: bool
    units: RewardRange
    max_return: float | None
    times: range
    audit: Audit
    returns: Floats
    complete: Bools
    truncated: int
    notes: tuple[str, ...]
    understood: ReadSummary

    @cached_property
    def _over_a_table(self) -> tuple[Problem, Counts]:
        if self.told is not None:
            return self.told
        assert self.shown is not None
        data = self.shown.experience
        if data.P not in (1, self.horizon) or self.units.after_end > 0 or data.lost.any():
            raise InputError(
                "a log with segments, with lost outcomes, or with rewards below 0, has no problem "
                "and counts over a table: use ucfh.certify(log)"
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
            f"Log({self.episodes} episode{'s' * (self.episodes != 1)}, {self.counted} of "
            f"{self.rows} rows counted, {len(self.faults)} kind{'s' * (len(self.faults) != 1)} of "
            f"faults, {self.states.count} states, {self.actions.count} actions, "
            f"{self.horizon} steps)"
        )


def read_log(
    path: AnyPath | Any,
    problem: AnyProblem | None = None,
    *,
    columns: Mapping[str, str | Sequence[str]] | None = None,
    states: Iterable[str] | SupportsIndex | None = None,
    actions: Iterable[str] | SupportsIndex | None = None,
    terminal: Iterable[str] | None = None,
    horizon: int | None = None,
    time_dependent: bool | None = None,
    segments: Sequence[int] | None = None,
    rewards: tuple[float, float] | None = None,
    blank_reward: float | None = None,
    max_return: float | None = None,
    encoding: str | None = None,
    decimal: str | None = None,
    bins: Mapping[str, Any] | None = None,
    dropouts: str | None = None,
    ignore_case: bool | None = None,
    strict: bool = False,
    accept_losses: bool | None = None,
    progress: Callable[[float], None] | None = None,
) -> Log:
    """Count what a log shows; the module says which rows count, docs/howto/logs.md the format.

    What is None may be said by a file beside the log, such as log.csv.toml, under the same names.

    Args:
        path: a .csv, .jsonl or .parquet file, the first two also compressed, as .csv.gz; a frame of
            pandas or Polars, a table of Arrow; or a Minari data set, or "minari:ID".
        problem: what is known about the task. Without it nothing is, but what is declared below:
            states, successors, rewards and the start are what the log shows, and may be others.
        columns: names of columns where they differ, such as {"state": "s"}; a state may be made of
            several, {"state": ["level", "mood"]}; {"state": "mood_{t}", ...} if a row is an
            episode.
        states, actions: their names, or how many there are, if they are called 0, 1, ...; of
            states that are not declared there may be more than the log shows.
        terminal: the states in which the task is over, for a log that has next states, but no
            column done.
        horizon: H; without it, the length of the longest episode, counted or not. Of an episode
            that lasts longer, the first H steps are counted.
        time_dependent: whether transitions and rewards may depend on t.
        segments: the steps, in the log's own t, from which on they may be others (an exam at the
            end).
        rewards: the least and the largest reward of a step that are possible; (0, 1) by default.
        blank_reward: what a reward means that is left blank, such as 0.
        max_return: the largest sum of the rewards of an episode, if somebody knows it.
        encoding: that of the text, such as "cp1252"; None: UTF-8.
        decimal: what stands before the decimals of a number: "." or ",".
        bins: of columns that are parts of the state, and numbers, the edges between bins, such as
            {"score": [40, 70]}, or {"score": {"quantiles": 4, "episodes": 500}}: as the first 500
            episodes show them, which are then not counted.
        dropouts: what it means that an episode stops short: "outcome", "lost" or "random".
        ignore_case: whether names that differ only in case and blanks are the same.
        strict: whether to raise at the first fault.
        accept_losses: whether to continue where more than a few rows are lost, or rows contradict
            the problem; `Log.assumptions` then says which.
        progress: called now and then with the share of the log that was read.

    """
    told = None if problem is None else as_problem(problem)
    given = {
        "columns": columns, "states": states, "actions": actions, "terminal": terminal,
        "horizon": horizon,
        "time_dependent": time_dependent, "segments": segments, "rewards": rewards,
        "blank_reward": blank_reward, "max_return": max_return, "encoding": encoding,
        "decimal": decimal, "bins": bins, "dropouts": dropouts, "ignore_case": ignore_case,
        "accept_losses": accept_losses,
    }  # fmt: skip
    settings, remembered = _settings(path, told, given)
    with open_source(path, settings.encoding) as source:
        rewarded, may_lack = told is None or told.rewards is None, source.kind == "JSON lines"
        roles = find_roles(source.columns, settings.columns, rewarded, may_lack)
        layout = ColumnLayout(roles, settings.bins, settings.decimal)
        tally, faults = _tally(settings, layout, told), Issues(source.unit)
        batches = layout.lay_out(source.batches(roles.wanted, roles.claims))
        begin = next(batches, None)
        while begin is not None and len(begin) < PEEK and (more := next(batches, None)):
            begin = begin.then(more)
        early = [] if begin is None else begin.values.get("t")
        clock = StepClock(early and early[:PEEK], roles.steps[0] if roles.steps else None)
        numbers, whole = Numbers(settings.decimal, settings.blank_reward), bool(roles.steps)
        units = settings.rewards
        if settings.terminal and layout.derived:
            raise InputError(
                "terminal: a log without a column of next states does not show in which state an "
                "episode ends. Fix: set done in the last row of an episode whose task is over"
            )
        reader = Episodes(
            tally, faults, clock, numbers, units, layout.apart, whole, settings.terminal
        )
        for batch in chain([] if begin is None else [begin], batches):
            reader.read(batch)
            if len(tally.states.index) > MOST_STATES:
                why = f"the log shows more than {MOST_STATES} states"
                raise InputError(layout.too_many_states(why))
            if layout.combinations >= MOST_COMBINATIONS:
                why = f"the parts of the state make {layout.combinations:,} combinations"
                raise InputError(layout.too_many_states(why))
            if strict:
                _refuse(faults)
            if progress is not None:
                progress(batch.share)
        reader.finish()
        return _close(source, remembered, settings, layout, reader, strict)


def _settings(
    path: Any, told: Problem | None, given: Mapping[str, Any]
) -> tuple[Settings, str | None]:
    """What was given, or is remembered beside the log; and the file that remembers it."""
    given = {name: value for name, value in given.items() if value is not None}
    remembered = read_settings(path) if is_file(path) else {}
    file = str(beside(path)) if remembered else None
    if told is not None:
        again = ", ".join(name for name in OF_THE_TASK if name in given)
        if again:
            raise InputError(
                f"{again}: the problem that is given declares the task. Fix: leave {again} out"
            )
        remembered = {name: x for name, x in remembered.items() if name not in OF_THE_TASK}
    return check_settings(combine(remembered, given)), file


def _tally(
    settings: Settings, layout: ColumnLayout, told: Problem | None
) -> KnownStateCounter | UnknownStateCounter:
    ends, details = EarlyTermination(layout.derived, settings.dropouts), bool(settings.bins)
    if told is not None:
        return KnownStateCounter(told, ends, settings.ignore_case, details)
    H = settings.horizon or len(layout.roles.steps) or None
    declared = settings.states, settings.actions, H
    return UnknownStateCounter(*declared, ends, settings.rewards, settings.ignore_case, details)


def _refuse(faults: Issues) -> None:
    if faults:
        raise InputError(faults.first)


def _close(
    source: Source,
    remembered: str | None,
    settings: Settings,
    layout: ColumnLayout,
    reader: Episodes,
    strict: bool,
) -> Log:
    """What the log shows, once all of it has been read, unless it has to be refused."""
    tally, faults, shown = reader.tally, reader.faults, None
    H = tally.horizon or reader.longest
    times = reader.clock.times(H)
    ending = terminal_states(tally, reader, H)
    if isinstance(tally, UnknownStateCounter):
        tally.settle(H, ending)
    if settings.dropouts is None:
        for rows in tally.left_out:
            reader.losses.lose(*rows)
    dropped = reader.stopped_last + note_ends(reader, faults, H, ending)
    if strict:
        _refuse(faults)
    if not settings.accept_losses:
        check_losses(reader, faults)
    is_end = np.isin(np.arange(len(tally.states.index)), ending)
    returns, complete = reader.returns.close(H, is_end, settings.dropouts == "outcome")
    told = None
    if isinstance(tally, KnownStateCounter):
        told, labels = (tally.problem, tally.counts), labels_of(tally.problem)
    else:
        check_shown(tally, H, faults)
        settings.rewards.scaled_return(settings.max_return, H)  # or an error that says why not
        check_returns(reader, settings.max_return, returns, complete)
        shown = tally.experience(settings.time_dependent or settings.segments, times)
        labels = shown.states, shown.actions
    names = [[str(x.label(i)) for i in range(x.count)] for x in labels]
    tally.audit.state_names, tally.audit.action_names = names
    tally.audit.times = times
    return Log(
        *labels,
        horizon=H,
        rows=reader.losses.rows,
        episodes=reader.losses.episodes,
        counted=tally.counted_rows,
        faults=tuple(faults[kind] for kind in sorted(faults)),
        assumptions=tuple(assumptions_of(settings, layout, reader, shown, H, dropped)),
        told=told,
        shown=shown,
        closed=not tally.states.is_open,
        units=settings.rewards,
        max_return=settings.max_return,
        times=times,
        audit=tally.audit,
        returns=returns,
        complete=complete,
        truncated=faults[IssueKind.LONG].count if IssueKind.LONG in faults else 0,
        notes=tuple(notes_of(layout, reader, H, shown)),
        understood=understand(source, remembered, layout, reader, dropped),
    )
