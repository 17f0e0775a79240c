"""How mistakes grow: exponents fitted along each axis, compared with those of Theorem 1.

A label names a family of problems and what is varied, as in "hard, true m: 1/eps".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from itertools import groupby
from math import isnan

from ucfh._support.statistics import Fit, exponent
from ucfh.experiments.store import Result
from ucfh.report.section import Reading, TextTable
from ucfh.report.words import listed, number, plural, times
from ucfh.studies.scaling.growth import AXES, Growth, exponents_figure, grown_along, lines_figure

FEW = 5
"""With fewer runs per point, a bootstrap shows too little of the noise."""


def read(results: Sequence[Result]) -> Reading:
    """Exponents along each axis, and whether waiting explains them."""
    grown, unread = grown_along(results)
    fitted = [growth for growth in grown if not isnan(growth.measured.exponent)]
    if not fitted:
        return Reading(["No axis has two points with mistakes: no exponent can be fitted."], [], [])
    true = [growth for growth in fitted if not isnan(growth.theorem)]
    other = [growth for growth in fitted if isnan(growth.theorem)]
    runs = sum(len(values) for growth in fitted for values in growth.runs)
    how = (
        "Exponents are slopes of the logarithm of mean mistakes against that of the variable, over "
        f"{plural(runs, 'run')}; in brackets, 95 % intervals from a bootstrap over the runs of "
        "each point."
    )
    seen = [f"{_finding(true, other)} {how}"]
    seen += [_true(true)] if true else []
    seen += [_other(other)] if other else []
    seen.append(_doubts(grown, fitted, unread))
    along = [growth for growth in fitted if growth.axis == "1/eps"]
    figures = [exponents_figure(fitted)] + ([lines_figure(along)] if along else [])
    return Reading(seen, figures, [_table(grown)])


def _two(x: float) -> str:
    return "-" if isnan(x) else f"{x:.2f}"


def _seen(growth: Growth) -> str:
    return _two(growth.measured.exponent)


def _interval(found: Fit) -> str:
    text = _two(found.exponent)
    return text if isnan(found.low) else f"{text} ({_two(found.low)} to {_two(found.high)})"


def _of(growths: Sequence[Growth], text: Callable[[Growth], str]) -> str:
    return listed([f"{text(growth)} for {growth.axis}" for growth in growths])


def _families(growths: Sequence[Growth]) -> list[list[Growth]]:
    return [list(group) for _, group in groupby(growths, key=lambda growth: growth.family)]


def _steepest(growths: Sequence[Growth]) -> list[Growth]:
    """Along 1/eps and H, in the family where mistakes grow the most with them."""
    found = defaultdict(list)
    for growth in growths:
        if growth.axis in ("1/eps", "H"):
            found[growth.family].append(growth)
    return max(
        found.values(),
        key=lambda group: sum(growth.measured.exponent for growth in group),
        default=[],
    )


def _finding(true: list[Growth], other: list[Growth]) -> str:
    """The main finding in one sentence."""
    parts = []
    if true:
        slower = [growth for growth in true if growth.against(growth.theorem) < 0]
        parts.append(
            "with the true constants, mistakes grow more slowly than Theorem 1's number along "
            f"{len(slower)} of {len(true)} axes"
        )
        if steepest := _steepest(true):
            parts[-1] += (
                f" ({steepest[0].family}: exponents {_of(steepest, _seen)} where the number has "
                f"{listed([_two(growth.theorem) for growth in steepest])})"
            )
    if steepest := _steepest(other):
        parts.append(
            f"with other constants the steepest growth has exponents {_of(steepest, _seen)} "
            f"({steepest[0].family}), where the theorem's order is 2"
        )
    elif not true:
        parts.append(f"mistakes grow with exponents {_of(other, _seen)}")
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _true(true: list[Growth]) -> str:
    """What explains the growth of mistakes with the true constants."""
    text = [
        "Before the first update of a pair the learner waits for m w_min visits of it. In theory "
        "this wait grows like H/eps times logarithms, one power of each less than Theorem 1."
    ]
    for growths in _families(true):
        family = growths[0].family
        shares = [share for growth in growths for share in growth.shares]
        equal = sum(abs(share - 1) < 0.01 for share in shares)
        if equal > 0.8 * len(shares):
            by = max(max(growth.means) / min(growth.means) for growth in growths)
            text.append(
                f"For {family}, mistakes are within 1 % of this wait for all pairs to be tried in "
                f"{equal} of {plural(len(shares), 'run')}, while they grow by a factor of up to "
                f"{number(by)}: nearly all are made while waiting."
            )
            continue
        ratios = [ratio for growth in growths for ratio in growth.ratios]
        text.append(
            f"For {family}, mean mistakes are {number(min(ratios))} to {number(max(ratios))} times "
            "this wait for all pairs."
        )
        for growth in growths:
            if growth.axis == "H" and growth.against(growth.wait) < 0:
                text.append(
                    f"Along H this ratio goes from {number(growth.ratios[0])} to "
                    f"{number(growth.ratios[-1])}: a longer episode visits more pairs, and their "
                    "waits overlap."
                )
    for side, words in (
        (0, "like Theorem 1's number, within the intervals"),
        (1, "faster than Theorem 1's number"),
    ):
        found = [growth for growth in true if growth.against(growth.theorem) == side]
        if found:
            each = [
                f"{growth.axis} ({growth.family}: {_interval(growth.measured)} against "
                f"{_two(growth.theorem)})"
                for growth in found
            ]
            text.append(f"Mistakes grow {words}, along {listed(each)}.")
    least = min(
        results[0].values["bound"] / mean
        for growth in true
        for (_, results), mean in zip(growth.points, growth.means, strict=True)
    )
    text.append(f"Theorem 1's number is at least {times(least)} the mean mistakes at every point.")
    return " ".join(text)


def _other(other: list[Growth]) -> str:
    """What was measured where the wait is short."""
    text = ["With other constants than the true ones no theorem holds."]
    for growths in _families(other):
        found = _of(growths, lambda growth: _interval(growth.measured))
        text.append(f"For {growths[0].family}, exponents are {found}.")
        for growth in growths:
            if growth.axis == "1/eps":
                text.append(
                    f"From the largest epsilon to the smallest, mistakes go from "
                    f"{number(growth.ratios[0])} to {number(growth.ratios[-1])} times the wait: "
                    + (
                        "it takes longer than that to find the better actions."
                        if growth.against(growth.wait) > 0
                        else "they do not grow significantly faster than it."
                    )
                )
            if growth.axis == "H" and growth.hard and growth.x[0] > 2:
                paying = exponent([x - 2 for x in growth.x], growth.means)
                text.append(
                    "Only H - 2 steps pay on the hard class; the exponent for H - 2 is "
                    f"{_two(paying)}."
                )
            if growth.axis == "S and C" and growth.hard and growth.against(1.5) < 0:
                text.append(
                    f"With S and C together, {_seen(growth)} is nearer to the 1 of S alone than to "
                    "2: on the hard class C is the number of successors of the first row, "
                    "and every arm leads to two states."
                )
    return " ".join(text)


def _doubts(grown: list[Growth], fitted: list[Growth], unread: int) -> str:
    octaves = [number(f([growth.octaves for growth in fitted]), 2) for f in (min, max)]
    text = [
        f"What remains uncertain: {' to '.join(dict.fromkeys(octaves))} octaves are few to "
        "distinguish a power from logarithms. Means are off their fitted lines by a factor up to "
        f"{number(max(growth.off for growth in fitted), 2)}; the intervals contain the noise of "
        "runs, not this."
    ]
    fewest = min(len(values) for growth in fitted for values in growth.runs)
    if fewest < FEW:
        text.append(f"Some points have only {plural(fewest, 'run')}, too few to trust an interval.")
    if left_out := sum(growth.left_out for growth in grown):
        text.append(
            f"Left out: {plural(left_out, 'point')} with no mistake in any run, or with endless "
            "mistakes."
        )
    if unread:
        labels = listed([repr(": " + axis) for axis in AXES], "or")
        text.append(f"Not read: {plural(unread, 'result')} whose label does not end in {labels}.")
    return " ".join(text)


def _table(grown: list[Growth]) -> TextTable:
    rows = [
        [
            f"{growth.family}: {growth.axis}",
            number(growth.octaves, 2),
            " to ".join(
                dict.fromkeys(str(f(map(len, growth.runs), default=0)) for f in (min, max))
            ),
            str(AXES[growth.axis].order),
            _two(growth.theorem),
            _two(growth.wait),
            _interval(growth.measured),
        ]
        for growth in grown
    ]
    caption = (
        "Exponents along each axis: of Theorem 1 without logarithms (order) and with them (where "
        "it holds), of the wait for the first updates of all pairs to be tried (A n on the hard "
        "class, else A S, times m w_min), and of the measured mistakes, with 95 % intervals. "
        "Octaves are doublings of the variable; for S and C together the variable is C, which is n "
        "on the hard class."
    )
    columns = ["axis", "octaves", "runs a point", "order", "Theorem 1", "wait", "mistakes"]
    return TextTable(caption, columns, rows)
