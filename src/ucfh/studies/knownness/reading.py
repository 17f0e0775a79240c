"""A lifetime by knownness and importance: from when it is balanced, and from when right."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from ucfh.experiments.store import Result
from ucfh.report.section import Reading, TextTable
from ucfh.report.words import number, plural, short, times
from ucfh.studies.knownness.tables import knownness_figure

ROUNDING = 1e-9


class Life(NamedTuple):
    """The numbers of one lifetime.

    Attributes:
        right: the first episode from which all policies are within epsilon; None if the last
            one is not.
        balanced: the first episode from which all phases are balanced; None likewise.
        off: the largest |V~ - V| of a balanced phase; None if there is none.
        wrong: balanced phases in which |V~ - V| is more than epsilon.

    """

    name: str
    phases: int
    right: int | None
    balanced: int | None
    off: float | None
    wrong: int
    epsilon: float


def read(results: Sequence[Result]) -> Reading:
    """Read lifetimes that were watched."""
    lives = [_life(result) for result in results]
    rows = [
        [
            life.name,
            str(life.phases),
            "-" if life.right is None else number(life.right),
            "-" if life.balanced is None else number(life.balanced),
            "-" if life.off is None else number(life.off),
            number(life.epsilon),
        ]
        for life in lives
    ]
    columns = ["problem", "phases", "right from", "balanced from", "most off", "epsilon"]
    caption = (
        "Lifetimes: the episode from which every policy is within epsilon, the episode from which "
        "every phase is balanced, and the largest |V~ - V| of a balanced phase (most off)."
    )
    figures = [
        knownness_figure(result.values, short(result.arguments["problem"])) for result in results
    ]
    return Reading([_finding(lives), _lemma(lives)], figures, [TextTable(caption, columns, rows)])


def _life(result: Result) -> Life:
    values: dict[str, Any] = result.values
    phases, epsilon = values["phases"], values["epsilon"]
    off = [x for x, fine in zip(phases["mismatch"], phases["balanced"], strict=True) if fine]
    return Life(
        short(result.arguments["problem"]),
        len(phases["gap"]),
        _from(phases["first_episode"], [x <= epsilon + ROUNDING for x in phases["gap"]]),
        _from(phases["first_episode"], phases["balanced"]),
        max(off, default=None),
        sum(x > epsilon + ROUNDING for x in off),
        epsilon,
    )


def _from(begins: list[int], fine: list[bool]) -> int | None:
    """The first episode of the first phase from which all are fine."""
    bad = [k for k, x in enumerate(fine) if not x]
    first = bad[-1] + 1 if bad else 0
    return begins[first] if first < len(begins) else None


def _finding(lives: list[Life]) -> str:
    """Whether being right comes before being balanced."""
    both = [(x, x.right, x.balanced) for x in lives if x.right is not None and x.balanced]
    early = [(x, right, balanced) for x, right, balanced in both if right < balanced]
    if not early:
        return (
            f"In {plural(len(lives), 'lifetime')}, policies did not stay within epsilon before "
            "phases stayed balanced."
        )
    said = "; ".join(
        f"on {x.name} all policies are within epsilon from episode {number(right)} and all phases "
        f"are balanced from episode {number(balanced)}, "
        + (f"{times(balanced / right)} as late" if right else "while the first policy was right")
        for x, right, balanced in early
    )
    return (
        f"The learner is right long before the proof can show it, in {len(early)} of "
        f"{plural(len(lives), 'lifetime')}: {said}. The proof needs balance: visits in proportion "
        "to m, which are far more than it takes to choose well."
    )


def _lemma(lives: list[Life]) -> str:
    """Whether |V~ - V| is at most epsilon in balanced phases, as Lemma 3 says."""
    wrong = [x for x in lives if x.wrong]
    if wrong:
        said = "; ".join(f"{x.name} in {plural(x.wrong, 'phase')}" for x in wrong)
        return f"In balanced phases V~ and V differed by more than epsilon: {said}."
    room = [x.epsilon / x.off for x in lives if x.off]
    if not room:
        return "No balanced phase had a difference between V~ and V."
    return (
        "In balanced phases V~ and V never differed by more than epsilon; the bound was at least "
        f"{times(min(room))} the measured difference."
    )
