"""The figure of a comparison."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ucfh._utils.files import AnyPath, check_ending
from ucfh._utils.palette import COLOURS
from ucfh._utils.plotting import (
    ENDINGS,
    add_legend,
    check_axes,
    fit_title,
    new_figure,
    save,
    spread,
)
from ucfh.comparison.table import KEPT, KEPT_MEANS
from ucfh.exceptions import InputError, unknown

if TYPE_CHECKING:
    from ucfh._utils.arrays import Floats
    from ucfh.comparison.result import AgentSummary, Comparison

STYLES = ("-", "--", ":", "-.")
"""Four kinds of dashes and seven colours in turn make 28 kinds of lines."""

SHOWN = 1000
"""The first 1/SHOWN of the episodes is left out: all learn little in it, and equally little."""

LABEL = 0.165
"""The height of a label, in inches."""


CURVES = {"regret": "regret_curve", "mistakes": "mistakes_curve"}
"""Attributes of an outcome that are drawn."""


def plot_comparison(
    result: Comparison,
    title: str = "",
    path: AnyPath | None = None,
    force: bool = False,
    ax: Any = None,
    curve: str = "regret",
) -> Any:
    """Draw regret and mistakes over the episodes; the figure is saved if there is a path.

    A line is the median over the seeds, and its band the middle half of them; axes are
    logarithmic, with a place for 0 at the bottom. Labels stand where the lines end. On axes of
    a user's own, it is one of the two, with a legend. Colours and dashes follow the order in which
    the agents were given, so that they are the same in all figures of the same agents.
    """
    check_axes(ax, path)
    if path is not None:
        check_ending(path, ENDINGS)
    if curve not in CURVES:
        raise unknown("curve", curve, CURVES)
    standings = sorted(result.standings(), key=lambda x: result.agents.index(x.place.agent))
    if not standings:
        raise InputError("every run failed: there is nothing to draw")
    mark = "" if all(x.changed for x in standings) else f"{KEPT} {KEPT_MEANS}"
    scaled = [f"scale {x:g}" for x in sorted({x.scale for x in result.outcomes} - {1.0})]
    problem = [result.problem] if result.problem else []
    if ax is not None:
        _draw(ax, result, standings, curve)
        fit_title(ax, title or ", ".join([*problem, *scaled]))
        add_legend(ax, mark)
        return ax.figure
    height = max(4.8, LABEL * len(standings) + 1.4)
    figure = new_figure(12, height)
    titles = (
        "regret: reward lost, compared with the optimum",
        f"mistakes: episodes that lose more than {result.epsilon:g}",
    )
    for axes, name, text in zip(figure.subplots(1, 2), CURVES, titles, strict=True):
        ends = _draw(axes, result, standings, name)
        _label(axes, result, standings, ends, height)
        axes.set_title(text, fontsize=10)
        axes.set_ylabel("")
    said = title or ", ".join([*problem, result.seeds_run, f"epsilon {result.epsilon:g}", *scaled])
    said += ": median and middle half of the seeds"
    figure.suptitle(fill(said, 110), parse_math=False, fontsize=11)
    if mark:
        figure.supxlabel(mark, fontsize=8.5)
    save(figure, path, force)
    return figure


def _draw(axes: Any, result: Comparison, standings: list[AgentSummary], name: str) -> Floats:
    """Draw the curves of all agents; (agents,) where they end."""
    shown = result.grid >= result.episodes / SHOWN
    grid = result.grid[shown]
    curves = [standing.curve(CURVES[name])[:, shown] for standing in standings]
    medians = np.array([curve[1] for curve in curves])
    floor, top = _range(medians)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(grid[0], max(result.episodes, 2 * grid[0]))
    axes.set_ylim(floor / 1.5, 1.5 * top)
    for standing, curve in zip(standings, curves, strict=True):
        k = result.agents.index(standing.place.agent)
        low, median, high = np.maximum(curve, floor)
        axes.fill_between(grid, low, high, color=_look(k)["color"], alpha=0.12, lw=0)
        # dashes over unbroken lines, so that both show where lines coincide
        order = 2 + 0.1 * (k % 4)
        axes.plot(grid, median, lw=1.6, zorder=order, label=standing.label, **_look(k))
    ends: Floats = np.maximum(medians[:, -1], floor)
    powers = np.arange(np.ceil(np.log10(floor)), np.floor(np.log10(1.5 * top)) + 1)
    ticks = {10.0**power: f"$10^{{{int(power)}}}$" for power in powers}
    if medians[:, -1].min() < floor:
        ticks[floor] = "0"
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.grid(alpha=0.2)
    axes.set_xlabel("episodes")
    axes.set_ylabel(name)
    return ends


def _look(k: int) -> dict[str, str]:
    """Colour and dashes of the k-th agent that was given."""
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


def _label(
    axes: Any, result: Comparison, standings: list[AgentSummary], ends: Floats, height: float
) -> None:
    """Write the agents' names beside the ends of their lines, without overlap."""
    bottom, top = np.log(axes.get_ylim())
    at = (np.log(ends) - bottom) / (top - bottom)
    places = spread(at, LABEL / (height - 1.2))
    outside = {"transform": axes.transAxes, "clip_on": False}
    for standing, y, place in zip(standings, at, places, strict=True):
        look = _look(result.agents.index(standing.place.agent))
        axes.plot([1, 1.03], [y, place], lw=0.8, color=look["color"], **outside)
        axes.plot([1.03, 1.1], [place, place], lw=1.6, **look, **outside)
        axes.text(
            1.11, place, standing.label, va="center", fontsize=8.5, color=look["color"],
            **outside,
        )  # fmt: skip
