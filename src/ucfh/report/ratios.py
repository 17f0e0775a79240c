"""Ratios with intervals, by problem: as text and as figures."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from math import ceil, floor, isfinite, log10, nan
from textwrap import fill
from typing import Any, NamedTuple

import numpy as np

from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh.report.words import number

SIZE = 5.5
"""Size of the marks, in points."""


def with_interval(value: float, low: float, high: float) -> str:
    """A value and, if it has one, its interval.

    >>> with_interval(2.0, 1.5, 2.52), with_interval(2.0, nan, nan), with_interval(nan, nan, nan)
    ('2 (1.5 to 2.52)', '2', '-')
    """
    return number(value) + (f" ({number(low)} to {number(high)})" if isfinite(low) else "")


def typeset(text: str) -> str:
    """Numbers in a text as matplotlib sets them.

    >>> typeset("With m/1e+06"), typeset("2.5e-07")
    ('With m/$10^{6}$', '$2.5\\\\cdot 10^{-7}$')
    """
    found = re.sub(r"([0-9.]+)e\+?(-?)0*([0-9]+)", r"$\1\\cdot 10^{\2\3}$", text)
    return found.replace("$1\\cdot ", "$")


class Dot(NamedTuple):
    """A ratio to draw: its row and its kind; ``low`` is nan without an interval."""

    row: str
    kind: str
    value: float
    low: float = nan
    high: float = nan

    @property
    def drawable(self) -> bool:
        """Whether it has a place on a logarithmic axis."""
        return isfinite(self.value) and self.value > 0


def draw_dots(axes: Any, dots: Sequence[Dot], kinds: Sequence[str]) -> None:
    """Draw the drawable dots, by row from the top and by kind within a row, and a line at 1.

    ``kinds``: all kinds of the figure, in other panels too; their order gives the looks.
    """
    known = [dot for dot in dots if dot.drawable]
    rows = list(dict.fromkeys(dot.row for dot in known))
    left, right = _limits(known)
    axes.axvline(1, color=GREY, lw=1.2, ls="--", zorder=0)
    for dot in known:
        look = looks(kinds)[dot.kind]
        y = rows.index(dot.row) + 0.8 * ((kinds.index(dot.kind) + 0.5) / len(kinds) - 0.5)
        if isfinite(dot.low):
            ends = np.clip([dot.low, dot.high], left, right)
            axes.plot(ends, [y, y], color=look["color"], lw=2, solid_capstyle="butt")
        axes.plot([dot.value], [y], ls="", **look)
    for y in range(1, len(rows)):
        axes.axhline(y - 0.5, color=GREY, lw=0.5, alpha=0.5)
    axes.set_xscale("log")
    axes.set_xlim(left, right)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.set_yticks(range(len(rows)), [fill(row, 14) for row in rows])
    axes.tick_params(axis="y", length=0)
    ticks = _round_numbers(left, right)
    axes.set_xticks(ticks, [number(x) for x in ticks])
    axes.minorticks_off()
    axes.grid(axis="x", alpha=0.2)


def looks(kinds: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """Colour and mark of each kind."""
    return {
        kind: {"color": COLOURS[k % len(COLOURS)], "marker": MARKS[k % len(MARKS)], "ms": SIZE}
        for k, kind in enumerate(kinds)
    }


def legend(figure: Any, kinds: Sequence[str], columns: int) -> None:
    """Explain the marks, below all panels."""
    from matplotlib.lines import Line2D

    marks = [Line2D([], [], ls="", **look) for look in looks(kinds).values()]
    figure.legend(marks, kinds, loc="outside lower center", ncols=columns, frameon=False)


def _limits(dots: Sequence[Dot]) -> tuple[float, float]:
    """The smallest and the largest x to draw: all values and intervals, and room around 1."""
    ends = [x for dot in dots for x in dot[2:] if isinstance(x, float) and isfinite(x) and x > 0]
    return min([0.7, *ends]) / 1.15, max([1.4, *ends]) * 1.15


def _round_numbers(left: float, right: float) -> list[float]:
    """A few round numbers between two positive ones, with 1 if it lies between them.

    >>> _round_numbers(0.2, 12), _round_numbers(1e-4, 1e4)
    ([0.2, 0.5, 1.0, 2.0, 5.0, 10.0], [0.0001, 0.01, 1.0, 100.0, 10000.0])
    """
    low, high = floor(log10(left)), ceil(log10(right))
    digits = (1,) if right > 1000 * left else (1, 2, 5) if right > 30 * left else (1, 2, 3, 5)
    step = max(1, ceil((high - low) / 6))
    powers = [power for power in range(low, high + 1) if power % step == 0]
    every = [float(f"{digit}e{power}") for power in powers for digit in digits]
    return [x for x in every if left <= x <= right]
