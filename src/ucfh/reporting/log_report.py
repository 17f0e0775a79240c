"""The report on a log: its certificate with formatted numbers, levels of confidence and the policy.

Bounds are rounded outward, so that every sentence stays true.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import groupby, pairwise
from math import floor, isfinite, log10
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh._utils.formatting import lower_bound, percent, plural, segment_noun, upper_bound
from ucfh.auditing.report import AssumptionCheck, report_of
from ucfh.certificate import Certificate, UncertaintySource
from ucfh.logs.reading import Log

ROUNDING = 1e-9
"""The share of the largest return below which a difference is a rounding error."""
LEAST_SHARE = 0.005
"""The smallest share of the uncertainty of a state-action pair that is listed."""
FEW_EPISODES = 100
"""The number of episodes below which estimates may be wrong by more than a factor of two."""
MOST_PAIRS = 5
"""The largest number of state-action pairs that are listed."""


class ConfidenceLevel(NamedTuple):
    """A level of confidence in a choice; marks are distinguishable without color."""

    key: str
    mark: str
    name: str


SETTLED = ConfidenceLevel("settled", "\N{BLACK CIRCLE}", "settled")
CLOSE = ConfidenceLevel("close", "\N{CIRCLE WITH LEFT HALF BLACK}", "close")
OPEN = ConfidenceLevel("open", "\N{WHITE CIRCLE}", "open")
UNSEEN = ConfidenceLevel("unseen", "\N{EN DASH}", "never seen")
LEVELS = (SETTLED, CLOSE, OPEN, UNSEEN)


class Choice(NamedTuple):
    """The action of the policy in a state from step ``first`` to ``last``, in the t of the log.

    suboptimality: an upper bound on the suboptimality of the action; nan without data.
    least, most: the range of the number of visits of the action there.
    """

    first: int
    last: int
    action: str
    level: ConfidenceLevel
    suboptimality: float
    least: int
    most: int


class PolicyRow(NamedTuple):
    """The policy in a state with ``visits`` visits in the log."""

    state: str
    visits: int
    choices: list[Choice]


@dataclass(frozen=True, eq=False)
class LogReport:
    """A log and its certificate, with formatted numbers.

    Attributes:
        source: the path of the log.
        log: the log.
        known: its certificate.
        tested: the assumption checks.

    """

    source: str
    log: Log
    known: Certificate
    tested: Sequence[AssumptionCheck] = ()

    @property
    def name(self) -> str:
        """The name of the log's file."""
        return PurePath(self.source).name

    @property
    def noun(self) -> str:
        """The noun for an episode: "student" if its column is "student" or "student_id"."""
        given = self.log.understood.columns.get("episode", "")
        word = re.sub(r"[\W_]*(id|nr|no|number)?[\W_]*$", "", given, flags=re.I)
        plain = re.fullmatch(r"[^\W\d_]{3,20}", word)
        return word.lower() if plain else "episode"

    @property
    def nouns(self) -> str:
        """The plural of `noun`."""
        return plural(2, self.noun).removeprefix("2 ")

    @property
    def per(self) -> str:
        """The unit of returns, such as "per student"."""
        return f"per {self.noun}"

    def called(self, column: str) -> str:
        """Return the source column of a log column, as in " (mood)"; "" if equal."""
        name = self.log.understood.columns.get(column, column)
        return "" if name == column else f" ({name})"

    # -- numbers ----------------------------------------------------------------------------------

    @cached_property
    def ends(self) -> tuple[float, float]:
        """The smallest and the largest possible return."""
        return self.log.units.return_range(self.log.horizon, self.log.max_return)

    @cached_property
    def _digits(self) -> Decimal:
        """The last digit of formatted numbers: about a thousandth of the largest return."""
        least, most = self.ends
        return Decimal(1).scaleb(min(0, floor(log10(most - least)) - 3))

    def at_least(self, x: float) -> str:
        """Format a lower bound, rounded down."""
        return _signed(lower_bound(x, self._digits))

    def at_most(self, x: float) -> str:
        """Format an upper bound, rounded up."""
        return _signed(upper_bound(x, self._digits))

    def about(self, x: float) -> str:
        """Format a number that is not a bound, rounded to the nearest."""
        return _signed(f"{Decimal(repr(float(x))).quantize(self._digits):,f}")

    @property
    def sure(self) -> str:
        """The confidence of the bounds, such as "90%"."""
        return percent(1 - self.known.delta)

    @property
    def both_sure(self) -> str:
        """The confidence of two statements at once."""
        return percent(max(0.0, 1 - 2 * self.known.delta))

    # -- the plan ---------------------------------------------------------------------------------

    def level(self, suboptimality: float) -> ConfidenceLevel:
        """Return the level of confidence in a choice, given its suboptimality bound."""
        if not isfinite(suboptimality):
            return UNSEEN
        if suboptimality <= ROUNDING * (self.ends[1] - self.ends[0]):
            return SETTLED
        close = self.known.epsilon is not None and suboptimality <= self.known.epsilon
        return CLOSE if close else OPEN

    @cached_property
    def over(self) -> tuple[int, ...]:
        """The terminal states."""
        if self.log.shown is not None:
            return self.log.shown.terminal
        assert self.log.told is not None
        return self.log.told[0].terminal

    @cached_property
    def visits(self) -> Ints:
        """The number of visits of each state (S,)."""
        S = self.log.states.count
        if self.log.shown is not None:
            data = self.log.shown.experience
            state = np.repeat(np.arange(S + 1), np.diff(data.pairs.first) * data.P)
            return np.bincount(state, data.visits, S + 1)[1:].astype(np.int64)
        assert self.log.told is not None
        table, counts = self.log.told[0].table, self.log.told[1]
        state = np.tile(table.state, table.segments)
        return np.bincount(state, counts.visits[:-1], S).astype(np.int64)

    @cached_property
    def rows(self) -> list[PolicyRow]:
        """The policy in every state that is not terminal, in the order of the log."""
        states, over = self.log.states, set(self.over)
        return [
            PolicyRow(str(states.label(s)), int(self.visits[s]), self._choices(s))
            for s in range(states.count)
            if s not in over
        ]

    def _choices(self, s: int) -> list[Choice]:
        """Return the policy in a state; steps with the same action and level are merged."""
        known, times = self.known, self.log.times
        assert known.suboptimality is not None
        assert known.visits is not None
        suboptimalities, visits = known.suboptimality[:, s].tolist(), known.visits[:, s].tolist()
        cells = [
            (a, self.level(suboptimality))
            for a, suboptimality in zip(known.policy[:, s], suboptimalities, strict=True)
        ]
        out = []
        for (a, level), group in groupby(range(len(cells)), cells.__getitem__):
            steps = list(group)
            here = slice(steps[0], steps[-1] + 1)
            action = str(self.log.actions.label(a))
            out.append(
                Choice(
                    times[steps[0]],
                    times[steps[-1]],
                    action,
                    level,
                    max(suboptimalities[here]),
                    min(visits[here]),
                    max(visits[here]),
                )
            )
        return out

    @property
    def named(self) -> list[list[tuple[str | int, str | int]]]:
        """The labels of states and their actions, for each step."""
        states, actions, over = self.log.states, self.log.actions, set(self.over)
        names = [(s, states.label(s)) for s in range(states.count) if s not in over]
        return [
            [(name, actions.label(line[s])) for s, name in names]
            for line in self.known.policy.tolist()
        ]

    @cached_property
    def segments(self) -> list[tuple[int, int]]:
        """The first and the last step of each time segment."""
        H = self.log.horizon
        if self.log.shown is not None:
            segment = self.log.shown.experience.segment
        else:
            assert self.log.told is not None
            segment = np.arange(H) * (self.log.told[0].table.segments > 1)
        begins = [0, *(1 + np.flatnonzero(np.diff(segment))).tolist(), H]
        return [(self.log.times[a], self.log.times[b - 1]) for a, b in pairwise(begins)]

    @property
    def segment_word(self) -> str:
        """The noun for a segment: "step", "segment", or "" if all steps are one segment."""
        return segment_noun(len(self.segments), self.log.horizon)

    def pair(self, x: UncertaintySource) -> str:
        """Return an action in a state, in words."""
        at = f" at {steps_words(*self.segments[x.segment])}" if len(self.segments) > 1 else ""
        return f"{self.log.actions.label(x.action)} in state {self.log.states.label(x.state)}{at}"

    @property
    def missing(self) -> list[UncertaintySource]:
        """The largest sources of uncertainty, largest first."""
        return [x for x in self.known.missing[:MOST_PAIRS] if x.share >= LEAST_SHARE]

    @property
    def untried(self) -> list[UncertaintySource]:
        """The most important state-action pairs without data."""
        untried = () if self.known.more is None else self.known.more.untried
        return [x for x in untried[:MOST_PAIRS] if x.share >= LEAST_SHARE * untried[0].share]


def columns_of(rows: Sequence[PolicyRow], unit: int) -> list[tuple[int, int]]:
    """Return the first and the last step of each column; steps without a change share one.

    ``unit``: the increment of t from step to step.
    """
    begins = sorted({choice.first for row in rows for choice in row.choices})
    last = max((row.choices[-1].last for row in rows), default=-1)
    return [(a, b - unit) for a, b in pairwise([*begins, last + unit])]


def most_visited(rows: list[PolicyRow], most: int) -> tuple[list[PolicyRow], list[PolicyRow]]:
    """Split rows into the ``most`` to show, by visits if they are too many, and the others."""
    if len(rows) <= most:
        return rows, []
    order = sorted(rows, key=lambda row: -row.visits)
    return order[:most], order[most:]


def steps_words(first: int, last: int) -> str:
    """Return a range of steps in words.

    >>> steps_words(2, 2), steps_words(0, 3)
    ('step 2', 'steps 0 to 3')
    """
    return f"step {first}" if first == last else f"steps {first} to {last}"


def _signed(number: str) -> str:
    """Return a formatted number with a typographic minus sign, and zero as "0"."""
    return number.replace("-", "\N{MINUS SIGN}") if number.strip("-0.") else "0"


def accuracy_words(episodes: int) -> str:
    """Return the accuracy of an estimate from so many episodes, in words."""
    if episodes < FEW_EPISODES:
        return "a rough estimate, as there are few episodes"
    return "an estimate, usually right within a factor of two"


def answer_of(source: str, log: Log, known: Certificate) -> LogReport:
    """Return the report on a log and its certificate, with the assumption checks."""
    return LogReport(source, log, known, report_of(log.audit).tested)
