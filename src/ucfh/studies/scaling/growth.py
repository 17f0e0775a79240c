"""Measurements along an axis: how mistakes grow with H, 1/eps, S, A or C; and their figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import isnan, log2, nan
from typing import Any, NamedTuple

import numpy as np

from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh._support.statistics import Fit, exponent, fit
from ucfh.experiments.store import Result
from ucfh.report.section import Figure
from ucfh.report.words import listed


class Axis(NamedTuple):
    """What is varied, and its exponent in Theorem 1 without logarithms."""

    order: int
    x: Callable[[Result], float]


AXES = {
    "1/eps": Axis(2, lambda result: 1 / result.arguments["epsilon"]),
    "H": Axis(2, lambda result: result.values["horizon"]),
    "S and C": Axis(2, lambda result: result.values["successors"]),
    "S": Axis(1, lambda result: result.values["states"]),
    "A": Axis(1, lambda result: result.values["actions"]),
    "C": Axis(1, lambda result: result.values["successors"]),
}

THEOREM = {"marker": "D", "mfc": "none", "color": GREY, "ls": ""}
ALIKE = 0.05
"""Exponents that differ by less are called alike."""


@dataclass(frozen=True, eq=False)
class Growth:
    """Measurements along an axis.

    Attributes:
        family, axis: the parts of the label.
        points: x, and the results there, in the order of x; all with mistakes, finitely many.
        left_out: at how many other x there were no mistakes, or infinitely many.

    """

    family: str
    axis: str
    points: list[tuple[float, list[Result]]]
    left_out: int

    @cached_property
    def x(self) -> list[float]:
        """The x of the points."""
        return [x for x, _ in self.points]

    @cached_property
    def runs(self) -> list[list[float]]:
        """The mistakes of each run at each point."""
        return [[result.values["mistakes"] for result in found] for _, found in self.points]

    @cached_property
    def means(self) -> list[float]:
        """The mean mistakes of the runs at each point."""
        return [sum(values) / len(values) for values in self.runs]

    @cached_property
    def hard(self) -> bool:
        """Whether all problems are of the hard class."""
        names = {result.arguments["problem"] for _, found in self.points for result in found}
        return all(name.partition(":")[0] == "hard" for name in names)

    @cached_property
    def octaves(self) -> float:
        """How many doublings of x there are."""
        return log2(self.x[-1] / self.x[0]) if self.points else 0.0

    @cached_property
    def measured(self) -> Fit:
        """The exponent of mistakes."""
        return fit(self.x, self.runs)

    @cached_property
    def off(self) -> float:
        """The largest factor by which a mean is off the fitted line."""
        rest = np.log(self.means) - self.measured.exponent * np.log(self.x)
        return float(np.exp(np.abs(rest - rest.mean()).max()))

    @cached_property
    def theorem(self) -> float:
        """The exponent of Theorem 1's number, with its logarithms, if it holds at all points."""
        bounds = [found[0].values["bound"] for _, found in self.points]
        return nan if None in bounds else exponent(self.x, bounds)

    @cached_property
    def waits(self) -> list[float]:
        """At each point, m w_min visits of each pair that has to be tried.

        On the hard class these are the arms, A at each of n = C states; else all S A pairs.
        """
        found = []
        for _, results in self.points:
            values = results[0].values
            rows = values["successors" if self.hard else "states"]
            found.append(rows * values["actions"] * values["m"] * values["w_min"])
        return found

    @cached_property
    def wait(self) -> float:
        """The exponent of the wait."""
        return exponent(self.x, self.waits)

    @cached_property
    def ratios(self) -> list[float]:
        """Mean mistakes at each point over the wait."""
        return [mean / wait for mean, wait in zip(self.means, self.waits, strict=True)]

    @cached_property
    def shares(self) -> list[float]:
        """The mistakes of each run over the wait."""
        both = zip(self.runs, self.waits, strict=True)
        return [mistakes / wait for values, wait in both for mistakes in values]

    def against(self, value: float) -> int:
        """-1, 0 or 1: whether the exponent is surely below a value, near it, or surely above."""
        found = self.measured
        low, high = (found.exponent,) * 2 if isnan(found.low) else (found.low, found.high)
        return int(low > value + ALIKE) - int(high < value - ALIKE)


def grown_along(results: Sequence[Result]) -> tuple[list[Growth], int]:
    """Results by label, and how many have a label of another kind."""
    groups: dict[tuple[str, str], dict[float, list[Result]]] = defaultdict(dict)
    unread = 0
    for result in results:
        family, _, axis = result.label.rpartition(": ")
        if axis in AXES and "bound" in result.values:
            x = float(AXES[axis].x(result))
            groups[family, axis].setdefault(x, []).append(result)
        else:
            unread += 1
    grown = []
    for (family, axis), found in groups.items():
        points = []
        for x in sorted(found):
            mistakes = [result.values["mistakes"] for result in found[x]]
            if None not in mistakes and any(mistakes):
                points.append((x, found[x]))
        grown.append(Growth(family, axis, points, len(found) - len(points)))
    families = list(dict.fromkeys(growth.family for growth in grown))
    grown.sort(key=lambda growth: (families.index(growth.family), list(AXES).index(growth.axis)))
    return grown, unread


def _looks(growths: Sequence[Growth]) -> dict[str, dict[str, Any]]:
    """Colour and mark of each family."""
    families = dict.fromkeys(growth.family for growth in growths)
    return {
        family: {"color": COLOURS[k % len(COLOURS)], "marker": MARKS[k % len(MARKS)]}
        for k, family in enumerate(families)
    }


def exponents_figure(fitted: list[Growth]) -> Figure:
    """Exponents with intervals, next to those of the theorem."""
    looks = _looks(fitted)
    rows = [growth for axis in AXES for growth in fitted if growth.axis == axis]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        y, ticks = 0.0, {}
        for axis, group in groupby(rows, key=lambda growth: growth.axis):
            top = y
            for growth in group:
                found, look = growth.measured, looks[growth.family]
                if not isnan(growth.theorem):
                    axes.plot(growth.theorem, y, ms=9, **THEOREM)
                if not isnan(found.low):
                    axes.plot([found.low, found.high], [y, y], lw=2, color=look["color"])
                axes.plot(found.exponent, y, ms=6, ls="", **look)
                y -= 1
            ticks[(top + y + 1) / 2] = axis
            order = AXES[axis].order
            axes.plot([order, order], [top + 0.5, y + 0.5], lw=1.5, ls="--", color=GREY)
            axes.axhline(y, lw=0.5, color=GREY, alpha=0.4)
            y -= 1
        handles = [
            axes.plot([], [], ls="-", lw=2, ms=6, label=family, **look)[0]
            for family, look in looks.items()
        ]
        handles += axes.plot([], [], ms=9, label="Theorem 1, with logs", **THEOREM)
        handles += axes.plot([], [], ls="--", lw=1.5, color=GREY, label="Theorem 1, without logs")
        axes.set_ylim(y + 1, 1)
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("exponent")
        axes.grid(alpha=0.25, axis="x")
        figure.legend(handles=handles, loc="outside lower center", ncols=2, frameon=False)

    return Figure(
        "scaling-exponents",
        "Fitted exponents of mistakes, with 95 % intervals where they are wider than the mark; "
        "open diamonds: those of Theorem 1's number over the same points, where it holds.",
        "Rows by axis (" + listed(list(dict.fromkeys(growth.axis for growth in rows))) + ") and "
        "family of problems; from left to right the exponent of mistakes, of Theorem 1's number "
        "with its logarithms and of its order. The table has the numbers.",
        draw,
        height=1.9 + 0.2 * (len(rows) + len({growth.axis for growth in rows})),
    )


def lines_figure(along: list[Growth]) -> Figure:
    """Mistakes against 1/eps."""
    looks = _looks(along)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.set_yscale("log")
        for growth in along:
            positive = [[value for value in values if value > 0] for values in growth.runs]
            look = looks[growth.family]
            low, high = list(map(min, positive)), list(map(max, positive))
            axes.vlines(growth.x, low, high, lw=1.5, color=look["color"])
            axes.plot(growth.x, growth.means, lw=1.5, ms=6, label=growth.family, **look)
        left, right = min(growth.x[0] for growth in along), max(growth.x[-1] for growth in along)
        every = [mean for growth in along for mean in growth.means]
        middle = (min(every) * max(every)) ** 0.5
        x = left * (right / left) ** np.array([0.2, 0.8])
        for slope in (1, 2):
            y = middle / 2 * (x / x[0]) ** slope
            axes.plot(x, y, lw=1.2, ls=":", color=GREY)
            axes.annotate(
                f"exponent {slope}", (x[1], y[1]), (4, 0), textcoords="offset points",
                va="center", color=GREY,
            )  # fmt: skip
        axes.set_xlabel("1/eps")
        axes.set_ylabel("mistakes")
        axes.grid(alpha=0.25)
        figure.legend(loc="outside lower center", ncols=2, frameon=False)

    return Figure(
        "scaling",
        "Mean mistakes against 1/eps; bars reach from the fewest to the most of any run. Dotted: "
        "growth with exponents 1 and 2.",
        "Both axes logarithmic. A line for each of "
        + listed([f"{g.family} (exponent {g.measured.exponent:.2f})" for g in along])
        + ".",
        draw,
        height=4.2,
    )
