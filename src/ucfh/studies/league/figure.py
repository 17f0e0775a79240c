"""Episodes by rule and problem, between the floor and the bound of Theorem 1."""

from __future__ import annotations

from typing import Any

from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh.report.section import Figure
from ucfh.report.words import bars, plural, span
from ucfh.studies.league.standings import Contest, Standings

BAND = 0.66
"""Inches, of a problem."""


def figure(found: Standings) -> Figure:
    """A band for each problem; the rules in it, one under the other."""
    contests, rules = list(found.scores), found.rules
    step = 0.86 / len(rules)
    scores = [one for by_rule in found.scores.values() for one in by_rule.values()]

    def draw(empty: Any) -> None:
        axes = empty.subplots()
        axes.set_xscale("log")
        _ends(axes, found, contests)
        for k, rule in enumerate(rules):
            _marks(axes, found, contests, k, rule, step * (k - (len(rules) - 1) / 2))
        for i in range(1, len(contests)):
            axes.axhline(i - 0.5, color=GREY, lw=0.5, alpha=0.5)
        axes.set_yticks(range(len(contests)), [_lines(found, contest) for contest in contests])
        axes.set_ylim(len(contests) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("episodes until it stops")
        axes.grid(axis="x", alpha=0.25)
        empty.legend(loc="outside upper center", ncols=3, frameon=False, columnspacing=1.0)

    caption = (
        "Episodes until each rule stops, by problem, on a logarithmic axis: median and "
        f"{bars(one.episodes for one in scores)}. Open marks: samples of a generative model, "
        "divided by H. An arrow: it had not stopped by then. Thick black lines: the floor, where "
        "it is at least one episode; grey lines: what Theorem 1 allows UCFH as printed."
    )
    medians = span(one.episodes.median for one in scores)
    alt = (
        f"Marks of {plural(len(rules), 'rule')} on {plural(len(contests), 'problem')}, over "
        f"episodes on a logarithmic axis; medians are {medians}."
    )
    return Figure("league", caption, alt, draw, 1.9 + BAND * len(contests))


def _lines(found: Standings, contest: Contest) -> str:
    name = found.names[contest].replace(" (", "\n(")
    return f"{name}\neps {contest.epsilon:g}"


def _ends(axes: Any, found: Standings, contests: list[Contest]) -> None:
    """The floor and the bound of each problem."""
    floors = {i: x for i, contest in enumerate(contests) if (x := found.floor(contest)) is not None}
    bounds = {
        i: found.floors[contest]["bound"]
        for i, contest in enumerate(contests)
        if contest in found.floors and found.floors[contest]["bound"] is not None
    }
    for ends, colour, width, name in (
        (floors, "black", 3.0, "floor"),
        (bounds, GREY, 1.5, "ucfh, its bound"),
    ):
        if ends:
            low, high = [i - 0.4 for i in ends], [i + 0.4 for i in ends]
            axes.vlines(list(ends.values()), low, high, color=colour, lw=width, label=name)


def _marks(
    axes: Any, found: Standings, contests: list[Contest], k: int, rule: str, offset: float
) -> None:
    """The medians of the k-th rule, with their intervals."""
    at = [i for i, contest in enumerate(contests) if rule in found.scores[contest]]
    scores = [found.scores[contests[i]][rule] for i in at]
    x = [one.episodes.median for one in scores]
    reach = [
        [one.episodes.median - one.episodes.low for one in scores],
        [one.episodes.high - one.episodes.median for one in scores],
    ]
    colour = COLOURS[k % len(COLOURS)]
    hollow = any(one.by_samples for one in scores)
    axes.errorbar(
        x, [i + offset for i in at], xerr=reach,
        fmt=MARKS[(k + k // len(COLOURS)) % len(MARKS)], color=colour, ms=4, lw=1, label=rule,
        markerfacecolor="white" if hollow else colour,
    )  # fmt: skip
    for i, one in zip(at, scores, strict=True):
        if one.cut:
            axes.annotate(
                "", (one.episodes.median * 12, i + offset), (one.episodes.median, i + offset),
                arrowprops={"arrowstyle": "->", "color": colour, "lw": 1},
            )  # fmt: skip
