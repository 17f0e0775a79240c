"""Issues of a log: kinds, texts and remedies."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any

from ucfh.logs.early_termination import CHOICES

MOST_LINES = 3
"""The number of lines that are kept of an issue."""


class IssueKind(IntEnum):
    """The kinds of issues; of several issues of a row, the first kind counts."""

    NONE = 0
    LINE = 1
    CUT = 2
    REPEAT = 3
    AFTER = 4
    LONG = 5
    T = 6
    STATE = 7
    START = 8
    ACTION = 9
    REWARD = 10
    RANGE = 11
    NEXT_STATE = 12
    EXCLUDED = 13
    MISMATCH = 14
    SHORT = 15
    DONE = 16


def is_harmless(kind: Any) -> Any:
    """Return whether bounds hold although rows of this kind are left out; elementwise."""
    return (kind == IssueKind.CUT) | (kind == IssueKind.LONG)


REFUTING = (IssueKind.START, IssueKind.RANGE, IssueKind.EXCLUDED)
"""Issues of rows that contradict the prior knowledge or an assumption."""

_TEXTS = {
    IssueKind.LINE: (
        "a row cannot be read",
        "write a value in every column, and true or false in done",
    ),
    IssueKind.CUT: (
        "the log ends within an episode or a line",
        "nothing is lost but this row; if the log is complete, end its last line with a line break "
        "and set done, or next_state, in it",
    ),
    IssueKind.REPEAT: (
        "an episode appears again after others",
        "sort by episode and t, delete episodes that are in the log twice, and give different ones "
        "different ids",
    ),
    IssueKind.AFTER: ("a step after the end of an episode", "begin a new episode there"),
    IssueKind.T: (
        "t does not count the steps",
        "sort by episode and t, and count every step from 0, or all from 1, or write dates, "
        "as in 2024-02-28",
    ),
    IssueKind.LONG: (
        "an episode continues after the horizon",
        "declare a longer horizon if later rewards count",
    ),
    IssueKind.STATE: ("an unknown state", "add it to the declared states"),
    IssueKind.START: (
        "an episode cannot begin there",
        "leave the problem's start out, --unknown initial",
    ),
    IssueKind.ACTION: ("an unknown action", "add it to the declared actions"),
    IssueKind.REWARD: (
        "a reward is not a number",
        "write a number with a decimal point and no unit",
    ),
    IssueKind.RANGE: (
        "a reward is outside its range",
        "declare the smallest and the largest possible one, --rewards LOW,HIGH (rewards=(LOW, "
        "HIGH))",
    ),
    IssueKind.NEXT_STATE: ("an unknown next_state", "add it to the declared states"),
    IssueKind.EXCLUDED: (
        "a next_state that the problem excludes",
        "leave the problem's successors out, --unknown successors",
    ),
    IssueKind.MISMATCH: (
        "a next_state is not the state of the next step",
        "sort by episode and t, and correct one of the two",
    ),
    IssueKind.SHORT: (
        "an episode is shorter than the horizon",
        CHOICES,
    ),
    IssueKind.DONE: (
        "done in a state from which other episodes continue",
        "give the end its own next_state",
    ),
}


@dataclass
class Issue:
    """All issues of one kind in a log.

    Attributes:
        kind: the name of the kind, such as "reward".
        count: the number of rows. An episode is left at its first issue: its later rows are not
            checked, except for lines that cannot be read.
        lines: the first lines, or rows.
        unit: "line", or "row" where there are no lines.
        what: the kind in words.
        example: the description of the first row.
        remedy: the remedy.
        harmless: whether bounds from the counts hold nevertheless.
        refutes: whether the issue contradicts the problem.

    """

    kind: str
    unit: str
    what: str
    example: str
    remedy: str
    harmless: bool
    refutes: bool
    count: int = 0
    lines: tuple[int, ...] = ()

    @property
    def first(self) -> str:
        """The first row and its remedy, in one line."""
        return f"{self.unit} {self.lines[0]}: {self.example}; {self.remedy}"

    def __str__(self) -> str:
        others = ", ".join(map(str, self.lines[1:]))
        more = ", ..." if self.count > len(self.lines) else ""
        also = f" (also {self.unit} {others}{more})" if others else ""
        return f"{self.count} x {self.what}: {self.first}{also}"


class Issues(dict[IssueKind, Issue]):
    """The issues of a log by kind; ``unit`` is "line" or "row"."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self.unit = unit

    @property
    def first(self) -> str:
        """The first issue of the log and its remedy, in one line."""
        return min(self.values(), key=lambda issue: issue.lines[0]).first

    def note(
        self,
        kind: IssueKind,
        lines: Sequence[int],
        example: Callable[[], str],
        count: int | None = None,
        remedy: Callable[[], str | None] = lambda: None,
    ) -> None:
        """Add issues of a kind.

        Args:
            kind: the kind.
            lines: the lines.
            example: describes the first line.
            count: the number of issues, if ``lines`` are only the first ones.
            remedy: returns the remedy for the first line, or None for the usual one of its kind.

        """
        if kind not in self:
            what, usual = _TEXTS[kind]
            name, harmless, refutes = kind.name.lower(), bool(is_harmless(kind)), kind in REFUTING
            text = example()
            if (special := remedy()) is not None:
                usual = special
            elif kind == IssueKind.REWARD and "is missing" in text:
                usual = "declare what a blank means, such as --blank-reward 0 (blank_reward=0)"
            elif kind == IssueKind.REWARD and re.search(r"'\s*[-+]?\d*,\d+\s*'", text):
                usual = 'declare the decimal comma, --decimal , (decimal=",")'
            self[kind] = Issue(name, self.unit, what, text, usual, harmless, refutes)
        issue = self[kind]
        issue.count += len(lines) if count is None else count
        issue.lines = tuple(sorted([*issue.lines, *lines])[:MOST_LINES])
