"""Figures: a color-blind safe palette, and dot plots on a logarithmic axis."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from math import ceil, floor, isfinite, log10
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""Distinct with any color vision (Okabe and Ito, without their yellow, which is too pale)."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X")
GREY = "#555555"
WIDTH = 6.4


class Analysis(NamedTuple):
    """The numbers, tables and figures of a study, for the report template."""

    numbers: dict[str, Any]
    tables: dict[str, pd.DataFrame]
    figures: dict[str, Any]


def new_figure(height: float) -> Any:
    """Return an empty Matplotlib figure of the report's width, in inches."""
    return Figure(figsize=(WIDTH, height), layout="constrained")


def style(k: int) -> dict[str, Any]:
    """Return color and marker of the k-th kind; no two of the first 49 are alike."""
    return {
        "color": COLORS[k % len(COLORS)],
        "marker": MARKERS[(k + k // len(COLORS)) % len(MARKERS)],
    }


def powers_of_ten(axis: Any, low: float, high: float, extra: dict[float, str]) -> None:
    """Set ticks at about six powers of ten between two numbers, and at some extra places."""
    ends = ceil(log10(low)), floor(log10(high))
    ticks = {10.0**k: f"$10^{{{k}}}$" for k in range(ends[0], ends[1] + 1)}
    ticks = {x: "1" if x == 1 else text for x, text in ticks.items()}
    step = max(1, ceil(len(ticks) / 6))
    ticks = dict(list(ticks.items())[::step]) | extra
    axis.set_ticks(list(ticks), list(ticks.values()))
    axis.axes.minorticks_off()


def dot_plot(
    axes: Any,
    data: pd.DataFrame,
    xlabel: str,
    kinds: Sequence[str] | None = None,
    hollow: Collection[str] = (),
) -> None:
    """Draw values with intervals: a row for each problem, a marker for each kind.

    Zeros and infinities are drawn at the ends of the logarithmic axis, where a tick says so.

    Args:
        axes: where to draw.
        data: columns row, kind, value and, if there are intervals, low and high.
        xlabel: the label of the axis.
        kinds: the order of the kinds; default: of appearance.
        hollow: kinds with open markers.

    """
    rows = list(dict.fromkeys(data["row"]))
    kinds = list(dict.fromkeys(data["kind"])) if kinds is None else list(kinds)
    columns = [name for name in ("value", "low", "high") if name in data]
    numbers = data[columns].to_numpy(float)
    finite = numbers[np.isfinite(numbers) & (numbers > 0)]
    left, right = 10.0 ** floor(log10(finite.min())), 10.0 ** ceil(log10(finite.max()))
    if right <= 10 * left:
        left, right = finite.min() / 1.3, finite.max() * 1.3
    low, high, extra = left, right, {}
    if (numbers == 0).any():
        low = left / (right / left) ** 0.12
        extra[low] = "0"
    if np.isinf(numbers).any():
        high = right * (right / left) ** 0.12
        extra[high] = "inf"
    edge = (high / low) ** 0.03
    for k, kind in enumerate(kinds):
        chosen = data[data["kind"] == kind]
        if chosen.empty:
            continue
        y = [rows.index(row) + 0.8 * ((k + 0.5) / len(kinds) - 0.5) for row in chosen["row"]]
        place = chosen[columns].clip(low, high)
        if "low" in chosen:
            axes.hlines(y, place["low"], place["high"], color=style(k)["color"], lw=1.5)
        face = {"mfc": "white"} if kind in hollow else {}
        axes.plot(place["value"], y, ls="", ms=5, label=kind, **style(k), **face)
    for row in range(1, len(rows)):
        axes.axhline(row - 0.5, color=GREY, lw=0.5, alpha=0.5)
    axes.set_xscale("log")
    axes.set_xlim(low / edge, high * edge)
    if isfinite(log10(left)) and right > 10 * left:
        powers_of_ten(axes.xaxis, left, right, extra)
    axes.set_yticks(range(len(rows)), rows)
    axes.set_ylim(len(rows) - 0.5, -0.5)
    axes.tick_params(axis="y", length=0)
    axes.set_xlabel(xlabel)
    axes.grid(axis="x", alpha=0.25)


def in_figure(x: float) -> str:
    """Format a number with three digits, as matplotlib sets it.

    >>> in_figure(870), in_figure(4.2e9)
    ('870', '$4.2\\\\cdot 10^{9}$')
    """
    digits, _, power = f"{x:.3g}".partition("e")
    return f"${digits}\\cdot 10^{{{int(power)}}}$" if power else digits


def legend(figure: Any, columns: int = 3) -> None:
    """Explain all labeled marks of a figure once, below its panels."""
    handles: dict[str, Any] = {}
    for axes in figure.axes:
        for handle, label in zip(*axes.get_legend_handles_labels(), strict=True):
            handles.setdefault(label, handle)
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=columns,
        frameon=False, fontsize=9,
    )  # fmt: skip
