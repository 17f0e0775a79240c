"""Runs to a certificate, and how many episodes they take as epsilon shrinks."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan, log, nan
from typing import Any, NamedTuple

import numpy as np

from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh._support.statistics import LEVEL, Fit, Interval, exponent, fit, median_interval
from ucfh.experiments.store import Result
from ucfh.report.section import Figure, TextTable
from ucfh.report.words import bars, listed, number, span, unseeded

PREDICTED = 2.0
"""The power of 1/epsilon, for small epsilon."""


class Case(NamedTuple):
    """A problem, without its seed, and the accuracy asked for."""

    problem: str
    epsilon: float


RunsByCase = dict[Case, dict[str, list[Result]]]
"""By case and kind of sets."""


def runs_of(results: Sequence[Result]) -> RunsByCase:
    """Runs in the order given."""
    found: RunsByCase = {}
    for result in results:
        case = Case(unseeded(result.arguments["problem"]), result.arguments["epsilon"])
        by_set = found.setdefault(case, {})
        by_set.setdefault(result.arguments["confidence"], []).append(result)
    return found


def median(runs: Sequence[Result]) -> Interval:
    """The median number of episodes; too small if runs were cut off."""
    return median_interval([run.values["episodes"] for run in runs])


def is_cut(runs: Sequence[Result]) -> bool:
    """Whether so many runs were cut off that the median is too small."""
    return 2 * sum(not run.values["certified"] for run in runs) >= len(runs)


def episodes(runs: Sequence[Result] | None) -> str:
    """The median as text."""
    if not runs:
        return "-"
    return ("> " if is_cut(runs) else "") + number(median(runs).median)


def marks(axes: Any, found: list[Interval], at: list[float], k: int, name: str, x: bool) -> None:
    """Medians with their intervals, of the k-th kind; along x or y."""
    reach = [[m.median - m.low for m in found], [m.high - m.median for m in found]]
    medians = [m.median for m in found]
    where: dict[str, Any] = (
        {"x": medians, "y": at, "xerr": reach} if x else {"x": at, "y": medians, "yerr": reach}
    )
    axes.errorbar(
        **where, fmt=MARKS[k % len(MARKS)], color=COLOURS[k % len(COLOURS)], ms=5, lw=1.2,
        label=name,
    )  # fmt: skip


class EpsilonGrowth(NamedTuple):
    """A kind of sets on a problem, over several epsilon.

    Attributes:
        problem, kind: which.
        at: runs by 1/epsilon, in order, where none was cut off.
        power: of 1/epsilon, over all. last: between the two smallest epsilon.

    """

    problem: str
    kind: str
    at: dict[float, list[Result]]
    power: Fit
    last: float


def growths(runs: RunsByCase) -> list[EpsilonGrowth]:
    """The growth on every problem, with every kind of sets."""
    points: dict[tuple[str, str], dict[float, list[Result]]] = {}
    for case in runs:
        for kind in runs[case]:
            points.setdefault((case.problem, kind), {})
    for case, by_set in sorted(runs.items(), key=lambda item: -item[0].epsilon):
        for kind, found in by_set.items():
            if all(run.values["certified"] for run in found):
                points[case.problem, kind][1 / case.epsilon] = found
    return [_growth(*key, at) for key, at in points.items()]


def _growth(problem: str, kind: str, at: dict[float, list[Result]]) -> EpsilonGrowth:
    if len(at) < 2:
        return EpsilonGrowth(problem, kind, at, Fit(nan, nan, nan), nan)
    power = fit(list(at), [[run.values["episodes"] for run in runs] for runs in at.values()])
    ends = list(at)[-2:]
    last = exponent(ends, [float(np.mean([run.values["episodes"] for run in at[x]])) for x in ends])
    return EpsilonGrowth(problem, kind, at, power, last)


def told(found: list[EpsilonGrowth], names: dict[str, str]) -> str:
    """The powers of 1/epsilon in a paragraph; empty if there is none."""
    known = [x for x in found if not isnan(x.power.exponent)]
    if not known:
        return ""
    each = [f'{_power(x.power)} with "{x.kind}" on {names[x.problem]}' for x in known]
    fitted = "least squares on means"
    if any(not isnan(x.power.low) for x in known):
        fitted += f", in brackets {100 * LEVEL:.0f} % bootstrap intervals"
    text = (
        f"The number of episodes grows like 1/epsilon to the power {listed(each)} ({fitted}). For "
        f"small epsilon {PREDICTED:g} is predicted; between the two smallest epsilon it is "
        f"{span(round(x.last, 2) for x in known)}. "
    )
    cheap = [names[x.problem] for x in known if x.kind == "best" and x.last < 0.5]
    if cheap:
        text += (
            f'On {listed(cheap)} a smaller epsilon costs "best" few more episodes, because it '
            "bounds directly how far a policy is from the optimum: an optimal policy that is "
            "clearly better than all others is soon found. "
        )
    steep = [
        f'"{x.kind}" on {names[x.problem]}'
        for x in known
        if x.power.exponent > PREDICTED > round(x.last, 2)
    ]
    if steep:
        text += (
            f"A power of more than {PREDICTED:g} over all epsilon, as with {listed(steep)}, comes "
            "from the largest epsilon, which needs few data. "
        )
    return text.strip()


def _power(found: Fit) -> str:
    if isnan(found.low):
        return _two(found.exponent)
    return f"{_two(found.exponent)} ({_two(found.low)} to {_two(found.high)})"


def _two(power: float) -> str:
    """A power with at most two decimals."""
    return number(round(power, 2))


def table(runs: RunsByCase, found: list[EpsilonGrowth], names: dict[str, str]) -> TextTable:
    """Medians by epsilon, and the powers."""
    epsilons = sorted({case.epsilon for case in runs}, reverse=True)
    rows = [
        [
            f"{names[x.problem]}, {x.kind}",
            *(episodes(runs.get(Case(x.problem, e), {}).get(x.kind)) for e in epsilons),
            _power(x.power),
            _two(x.last),
        ]
        for x in found
    ]
    caption = (
        "Median number of episodes to the certificate, by epsilon; the power of 1/epsilon over "
        "all epsilon, and between the two smallest (at the end)."
    )
    columns = ["problem, sets", *(f"eps {number(e)}" for e in epsilons), "power", "at the end"]
    return TextTable(caption, columns, rows)


def figure(found: list[EpsilonGrowth], names: dict[str, str]) -> Figure | None:
    """Episodes against 1/epsilon; None if no problem has only certified runs."""
    lines = [x for x in found if x.at]
    if not lines:
        return None
    medians = [[median(runs) for runs in x.at.values()] for x in lines]

    def draw(empty: Any) -> None:
        axes = empty.subplots()
        axes.set(xscale="log", yscale="log")
        for k, (x, y) in enumerate(zip(lines, medians, strict=True)):
            power = x.power.exponent
            label = f"{x.kind} on {names[x.problem]}"
            label += "" if isnan(power) else f", power {number(power, 2)}"
            marks(axes, y, list(x.at), k, label, x=False)
            colour = COLOURS[k % len(COLOURS)]
            axes.plot(list(x.at), [m.median for m in y], lw=1, alpha=0.5, color=colour)
        at = np.array(sorted({point for x in lines for point in x.at}))
        if len(at) > 1:
            level = max(
                log(m.high) - PREDICTED * log(point)
                for x, y in zip(lines, medians, strict=True)
                for point, m in zip(x.at, y, strict=True)
            )
            line = 1.6 * np.exp(level) * at**PREDICTED
            axes.plot(at, line, color=GREY, ls="--", lw=1, label=f"power {PREDICTED:g}")
        axes.set_xticks(at, [f"{1 / point:.3g}" for point in at])
        axes.minorticks_off()
        axes.set_xlabel("epsilon, smaller to the right")
        axes.set_ylabel("episodes to the certificate")
        axes.grid(alpha=0.25)
        empty.legend(loc="outside upper center", ncols=2, frameon=False, columnspacing=1.2)

    shown = bars(m for y in medians for m in y)
    caption = (
        f"Episodes until a policy is certified, by epsilon; both axes are logarithmic. Median and "
        f"{shown}. The dashed line has the predicted power of 1/epsilon."
    )
    rises = [
        f"{x.kind} on {names[x.problem]} from {number(y[0].median)} to {number(y[-1].median)}"
        for x, y in zip(lines, medians, strict=True)
    ]
    alt = f"Episodes over epsilon, from large to small, on logarithmic axes: {'; '.join(rises)}."
    return Figure("certificates-accuracy", caption, alt, draw, 4.2)
