"""Logs of episodes, collected by any policy, as counts over a problem's table.

Rules for the rows that are counted. Bounds from counts rest on one assumption: given the history,
and that a pair (s, a) is counted once more, its next state is drawn from p(.|s, a). It holds for
any choice of rows that depends neither on the outcome nor on anything after it. So

- the behavior policy may be anything that does not know the future;
- the log may end at any time, even because of its contents, and lose its last line: the outcomes
  of each pair are then a prefix of all its outcomes, and bounds that hold at all times hold for
  every prefix. This requires one episode after another. If concurrent episodes are written when
  they are over, the end of a log loses the slow ones, possibly because of their outcomes;
- an episode is counted up to its first issue and left there. To leave all of it out because of a
  later issue would be a choice by outcome;
- a step after the horizon is left out before its outcome is seen, with the rest of the episode:
  only data are lost (`Issue.harmless`). The same would hold for an action that the problem does
  not have, if its name were known before its outcome; some logs name actions by outcome;
- where an outcome is unusable, or steps are missing, or contradict each other or the problem, the
  cause may be the outcome. The bounds hold only if it is not, and `Log.assumptions` says so. A log
  with more than a few such rows in a thousand, or many of one step, state, action or pair
  (`ucfh.logs.missing_data`), is refused unless `accept_losses`: it no longer shows the task, as
  when every exam yields 90 where rewards end at 1. The same holds for any row that the problem
  excludes, since it is left out because of its outcome;
- where an episode ends early, its rows are counted, and its future is assumed to be like that of
  other episodes; also where an episode is done in a state from which others continue. More than a
  few are refused, unless the meaning of early termination is declared
  (`ucfh.logs.early_termination`);
- where next states are derived from the next rows, a row counts only if the next one is valid. If
  not, its outcome is missing. At the last step only the reward is known: that step is a segment of
  its own;
- whole episodes may be left out by their place in the log, such as held-out first episodes, by
  which bins are chosen (`ucfh.logs.bins`). Columns may be joined and binned by anything that was
  known before the outcomes that are counted;
- "done" means that the task was over, so the last state is terminal, unless any row, counted or
  not, continues from it. At the horizon every episode is over: a state that is reached only there
  is terminal if all rows to it are done, unless done seems to mean a timeout: if states that
  continue are done as well, or a pair is done there but not at other steps.

States, actions and the horizon may be declared. Otherwise they, and whether t begins with 1, are
taken from all readable rows, counted or not: one state too many costs data, one too few costs
validity, and one step too few makes it another task.
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
from ucfh.logs.column_mapping import map_columns
from ucfh.logs.counting import KnownStateCounter, LogContents, UnknownStateCounter
from ucfh.logs.early_termination import EarlyTermination
from ucfh.logs.episode_checks import Episodes
from ucfh.logs.finalize import (
    check_missing,
    check_not_empty,
    check_returns,
    note_early_ends,
    terminal_states,
)
from ucfh.logs.issues import Issue, IssueKind, Issues
from ucfh.logs.labels import Numbers
from ucfh.logs.settings import (
    OF_THE_TASK,
    Settings,
    check_settings,
    combine,
    read_settings,
    settings_path,
)
from ucfh.logs.sources import is_file, open_source
from ucfh.logs.summary import ReadSummary, summarize
from ucfh.logs.times import PEEK, StepClock
from ucfh.mdp import Problem
from ucfh.problems import AnyProblem, as_problem
from ucfh.rewards import RewardRange

MOST_STATES, MOST_COMBINATIONS = 10**6, 10**7
"""The largest number of states, and a limit on the combinations of their parts."""


@dataclass(frozen=True, eq=False)
class Log:
    """A log, read and counted.

    Attributes:
        states, actions: their labels, in order.
        horizon: H.
        rows, episodes: the numbers of rows and episodes.
        counted: the number of rows in the counts.
        faults: the issues by kind.
        assumptions: the assumptions behind bounds from these counts.
        told: the given problem and the counts over its table, or None.
        shown: the contents of a log that is read without a problem, or None.
        closed: whether all states were declared.
        units: the range of rewards.
        max_return: the largest return, if it was declared.
        times: (H,) the t of each step: range(0, 24, 4) if the log counts hours from 0 to 20.
        audit: the assumption checks.
        returns: (k,) the return of each episode in the units of the log, in order: the sum of its
            first H rewards. Known rewards replace logged ones.
        complete: (k,) whether each episode is logged to its end: to the horizon, a terminal state,
            or its early end, if that is declared to be an outcome.
        truncated: the number of episodes that continue after the horizon; later rewards do not
            count.
        notes: remarks that are no issues, a sentence each.
        understood: the summary of how the log was read.

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
    def _table(self) -> tuple[Problem, Counts]:
        if self.told is not None:
            return self.told
        assert self.shown is not None
        data = self.shown.experience
        if data.P not in (1, self.horizon) or self.units.after_end > 0 or data.lost.any():
            raise InputError(
                "a log with segments, with lost outcomes, or with rewards below 0, has no problem "
                "and counts over a table: use ucfh.certify(log)"
            )
        return self.shown.as_table()

    @property
    def problem(self) -> Problem:
        """The given problem; or one in which any logged state may follow any other.

        Its rewards are in [0, 1]. The certificate of a log needs no such table.

        Raises:
            InputError: the log has segments, missing outcomes, or rewards below 0.

        """
        return self._table[0]

    @property
    def counts(self) -> Counts:
        """Counts over the problem's table; its last row is the start."""
        return self._table[1]

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
    """Read and count a log; the module says which rows count, docs/howto/logs.md the format.

    Options that are None are taken from the settings file of the log, such as log.csv.toml.

    Args:
        path: a .csv, .jsonl or .parquet file, the first two also compressed, as .csv.gz; a frame of
            pandas or Polars, a table of Arrow; or a Minari data set, or "minari:ID".
        problem: the prior knowledge of the task. Without it, only the options below are known, and
            states that the log does not show may exist.
        columns: source columns where names differ, such as {"state": "s"}; a state may have several
            parts, {"state": ["level", "mood"]}; {"state": "mood_{t}", ...} if a row is an episode.
        states, actions: their names, or their number if they are called 0, 1, ...; undeclared
            states may be more than the log shows.
        terminal: the terminal states, for a log with next states and without a column done.
        horizon: H; by default the length of the longest episode, counted or not. Later steps of an
            episode are not counted.
        time_dependent: whether transitions and rewards may depend on t.
        segments: the change points: steps, in the t of the log, at which transitions and rewards
            may change (an exam at the end).
        rewards: the smallest and the largest possible reward of a step; (0, 1) by default.
        blank_reward: the meaning of a blank reward, such as 0.
        max_return: the largest possible return of an episode, if known.
        encoding: the encoding of the text, such as "cp1252"; UTF-8 by default.
        decimal: the decimal mark, "." or ",".
        bins: the edges between bins, by column that is part of the state, such as
            {"score": [40, 70]}; or {"score": {"quantiles": 4, "episodes": 500}} for quantiles of
            the first 500 episodes, which are then not counted.
        dropouts: the meaning of early termination: "outcome", "lost" or "random".
        ignore_case: whether names that differ only in case and blanks are the same.
        strict: whether to raise at the first issue.
        accept_losses: whether to continue if more than a few rows are missing, or rows contradict
            the problem; `Log.assumptions` then says which.
        progress: called with the share of the log that was read.

    Raises:
        InputError: the log cannot be read, options contradict it, or too many rows are missing.

    """
    known = None if problem is None else as_problem(problem)
    given = {
        "columns": columns, "states": states, "actions": actions, "terminal": terminal,
        "horizon": horizon,
        "time_dependent": time_dependent, "segments": segments, "rewards": rewards,
        "blank_reward": blank_reward, "max_return": max_return, "encoding": encoding,
        "decimal": decimal, "bins": bins, "dropouts": dropouts, "ignore_case": ignore_case,
        "accept_losses": accept_losses,
    }  # fmt: skip
    settings, stored = _settings(path, known, given)
    with open_source(path, settings.encoding) as source:
        rewarded, may_lack = known is None or known.rewards is None, source.kind == "JSON lines"
        mapping = map_columns(source.columns, settings.columns, rewarded, may_lack)
        layout = ColumnLayout(mapping, settings.bins, settings.decimal)
        counter, issues = _counter_for(settings, layout, known), Issues(source.unit)
        batches = layout.transform(source.batches(mapping.wanted, mapping.claims))
        begin = next(batches, None)
        while begin is not None and len(begin) < PEEK and (more := next(batches, None)):
            begin = begin.then(more)
        early = [] if begin is None else begin.values.get("t")
        clock = StepClock(early and early[:PEEK], mapping.steps[0] if mapping.steps else None)
        numbers, whole = Numbers(settings.decimal, settings.blank_reward), bool(mapping.steps)
        units = settings.rewards
        if settings.terminal and layout.derived:
            raise InputError(
                "terminal: a log without a column of next states does not show in which state an "
                "episode ends. Fix: set done in the last row of an episode whose task is over"
            )
        reader = Episodes(
            counter, issues, clock, numbers, units, layout.held_out, whole, settings.terminal
        )
        for batch in chain([] if begin is None else [begin], batches):
            reader.read(batch)
            if len(counter.states.index) > MOST_STATES:
                why = f"the log shows more than {MOST_STATES} states"
                raise InputError(layout.too_many_states(why))
            if layout.combinations >= MOST_COMBINATIONS:
                why = f"the parts of the state make {layout.combinations:,} combinations"
                raise InputError(layout.too_many_states(why))
            if strict:
                _refuse(issues)
            if progress is not None:
                progress(batch.share)
        reader.finish()
        return _finish(source, stored, settings, layout, reader, strict)


def _settings(
    path: Any, known: Problem | None, given: Mapping[str, Any]
) -> tuple[Settings, str | None]:
    """Merge the options with the settings file; return the path of that file if it is used."""
    given = {name: value for name, value in given.items() if value is not None}
    stored = read_settings(path) if is_file(path) else {}
    file = str(settings_path(path)) if stored else None
    if known is not None:
        again = ", ".join(name for name in OF_THE_TASK if name in given)
        if again:
            raise InputError(
                f"{again}: the problem that is given declares the task. Fix: leave {again} out"
            )
        stored = {name: x for name, x in stored.items() if name not in OF_THE_TASK}
    return check_settings(combine(stored, given)), file


def _counter_for(
    settings: Settings, layout: ColumnLayout, known: Problem | None
) -> KnownStateCounter | UnknownStateCounter:
    ends, details = EarlyTermination(layout.derived, settings.dropouts), bool(settings.bins)
    if known is not None:
        return KnownStateCounter(known, ends, settings.ignore_case, details)
    H = settings.horizon or len(layout.mapping.steps) or None
    declared = settings.states, settings.actions, H
    return UnknownStateCounter(*declared, ends, settings.rewards, settings.ignore_case, details)


def _refuse(issues: Issues) -> None:
    if issues:
        raise InputError(issues.first)


def _finish(
    source: Source,
    stored: str | None,
    settings: Settings,
    layout: ColumnLayout,
    reader: Episodes,
    strict: bool,
) -> Log:
    """Check the log after all rows were read, and return it."""
    counter, issues, shown = reader.counter, reader.issues, None
    H = counter.horizon or reader.longest
    times = reader.clock.times(H)
    ending = terminal_states(counter, reader, H)
    if isinstance(counter, UnknownStateCounter):
        counter.resolve_ends(H, ending)
    if settings.dropouts is None:
        for rows in counter.left_out:
            reader.missing.mark_missing(*rows)
    dropouts = reader.stopped_last + note_early_ends(reader, issues, H, ending)
    if strict:
        _refuse(issues)
    if not settings.accept_losses:
        check_missing(reader, issues)
    is_end = np.isin(np.arange(len(counter.states.index)), ending)
    returns, complete = reader.returns.close(H, is_end, settings.dropouts == "outcome")
    known = None
    if isinstance(counter, KnownStateCounter):
        known, labels = (counter.problem, counter.counts), labels_of(counter.problem)
    else:
        check_not_empty(counter, H, issues)
        settings.rewards.scaled_return(settings.max_return, H)  # or an error that says why not
        check_returns(reader, settings.max_return, returns, complete)
        shown = counter.experience(settings.time_dependent or settings.segments, times)
        labels = shown.states, shown.actions
    names = [[str(x.label(i)) for i in range(x.count)] for x in labels]
    counter.audit.state_names, counter.audit.action_names = names
    counter.audit.times = times
    return Log(
        *labels,
        horizon=H,
        rows=reader.missing.rows,
        episodes=reader.missing.episodes,
        counted=counter.counted_rows,
        faults=tuple(issues[kind] for kind in sorted(issues)),
        assumptions=tuple(assumptions_of(settings, layout, reader, shown, H, dropouts)),
        told=known,
        shown=shown,
        closed=not counter.states.is_open,
        units=settings.rewards,
        max_return=settings.max_return,
        times=times,
        audit=counter.audit,
        returns=returns,
        complete=complete,
        truncated=issues[IssueKind.LONG].count if IssueKind.LONG in issues else 0,
        notes=tuple(notes_of(layout, reader, H, shown)),
        understood=summarize(source, stored, layout, reader, dropouts),
    )
