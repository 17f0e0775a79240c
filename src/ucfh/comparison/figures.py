"""The figure of a comparison."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ucfh._support.canvas import ENDINGS, new_figure, save, spread
from ucfh._support.files import AnyPath, check_ending
from ucfh._support.palette import COLOURS

if TYPE_CHECKING:
    from ucfh._support.arrays import Floats
    from ucfh.comparison.runner import Comparison, Standing

STYLES = ("-", "--", ":", "-.")
"""Four kinds of dashes and seven colours in turn make 28 kinds of lines."""

SHOWN = 1000
"""The first 1/SHOWN of the episodes is left out: all learn little in it, and equally little."""

LABEL = 0.165
"""The height of a label, in inches."""


def plot_comparison(
    result: Comparison, standings: list[Standing], title: str, path: AnyPath, force: bool = False
) -> None:
    """Draw regret and mistakes over the episodes, and save it.

    A line is the median over the seeds, and its band the middle half of them; axes are
    logarithmic, with a place for 0 at the bottom. Labels stand where the lines end.
    """
    check_ending(path, ENDINGS)
    height = max(4.8, LABEL * len(standings) + 1.4)
    shown = result.grid >= result.episodes / SHOWN
    grid = result.grid[shown]
    figure = new_figure(12, height)
    panels = figure.subplots(1, 2)
    for axes, name, text in zip(
        panels,
        ("regret_curve", "mistakes_curve"),
        (
            "regret: reward lost, compared with the optimum",
            f"mistakes: episodes worse than {result.epsilon:g}",
        ),
        strict=True,
    ):
        curves = [standing.curve(name)[:, shown] for standing in standings]
        medians = np.array([curve[1] for curve in curves])
        floor, top = _range(medians)
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(grid[0], max(result.episodes, 2 * grid[0]))
        axes.set_ylim(floor / 1.5, 1.5 * top)
        for k, curve in enumerate(curves):
            low, median, high = np.maximum(curve, floor)
            axes.fill_between(grid, low, high, color=_look(k)["color"], alpha=0.12, lw=0)
            # dashes over unbroken lines, so that both show where lines coincide
            axes.plot(grid, median, lw=1.6, zorder=2 + 0.1 * (k % 4), **_look(k))
        _label(axes, standings, np.maximum(medians[:, -1], floor), height)
        powers = np.arange(np.ceil(np.log10(floor)), np.floor(np.log10(1.5 * top)) + 1)
        ticks = {10.0**power: f"$10^{{{int(power)}}}$" for power in powers}
        if medians[:, -1].min() < floor:
            ticks[floor] = "0"
        axes.set_yticks(list(ticks), list(ticks.values()))
        axes.minorticks_off()
        axes.grid(alpha=0.2)
        axes.set_xlabel("episodes")
        axes.set_title(text, fontsize=10)
    figure.suptitle(
        fill(f"{title}: median and middle half of the seeds", 110), parse_math=False, fontsize=11
    )
    save(figure, path, force)


def _look(k: int) -> dict[str, str]:
    """Colour and dashes of the k-th line."""
    return {"color": COLOURS[k % len(COLOURS)], "ls": STYLES[k % len(STYLES)]}


def _range(medians: Floats) -> tuple[float, float]:
    """The smallest and largest y of curves (agents, points): where all end, and the start.

    Where one ends at 0, the smallest is a power of 10, drawn in place of 0.
    """
    shown = np.append(medians[:, -1], medians[:, 0].max())
    positive = shown[shown > 1e-9]
    if not positive.size:
        return 0.1, 10.0
    if positive.size < shown.size:
        return 10.0 ** (np.ceil(np.log10(positive.min())) - 1), float(positive.max())
    return float(positive.min()) / 2, float(positive.max())


def _label(axes: Any, standings: list[Standing], ends: Floats, height: float) -> None:
    """Write the learners' names beside the ends of their lines, without overlap."""
    bottom, top = np.log(axes.get_ylim())
    at = (np.log(ends) - bottom) / (top - bottom)
    places = spread(at, LABEL / (height - 1.2))
    outside = {"transform": axes.transAxes, "clip_on": False}
    for k, (standing, y, place) in enumerate(zip(standings, at, places, strict=True)):
        look = _look(k)
        axes.plot([1, 1.03], [y, place], lw=0.8, color=look["color"], **outside)
        axes.plot([1.03, 1.1], [place, place], lw=1.6, **look, **outside)
        axes.text(
            1.11, place, standing.place.agent, va="center", fontsize=8.5, color=look["color"],
            **outside,
        )  # fmt: skip
