"""The figure of a comparison."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any

import numpy as np

from ucfh._utils.files import AnyPath, check_ending
from ucfh._utils.plotting import (
    COLORS,
    ENDINGS,
    add_legend,
    check_axes,
    fit_title,
    new_figure,
    save,
    spread,
)
from ucfh.comparison.table import UNCHANGED, UNCHANGED_MEANS
from ucfh.exceptions import InputError, unknown

if TYPE_CHECKING:
    from ucfh._utils.arrays import Floats
    from ucfh.comparison.result import AgentSummary, Comparison

STYLES = ("-", "--", ":", "-.")
"""Four dash patterns and seven colors make 28 line styles."""

SHOWN = 1000
"""The first 1/SHOWN of the episodes is left out: agents hardly differ there."""

LABEL = 0.165
"""The height of a label, in inches."""


CURVES = {"regret": "regret_curve", "mistakes": "mistakes_curve"}
"""The attribute of an outcome for each curve."""


def plot_comparison(
    result: Comparison,
    title: str = "",
    path: AnyPath | None = None,
    force: bool = False,
    ax: Any = None,
    curve: str = "regret",
) -> Any:
    """Draw regret and mistakes over the episodes; return the figure.

    A line is the median over the seeds, and its band the interquartile range; axes are
    logarithmic, with 0 at the bottom. Labels stand at the ends of the lines. Colors and dashes
    follow the order of ``result.agents``, so that they agree in all figures of the same agents.

    Args:
        result: the comparison.
        title: the title of the figure.
        path: the file to save the figure to, if any.
        force: True overwrites an existing file.
        ax: axes of the caller's figure, on which one curve and a legend are drawn.
        curve: "regret" or "mistakes", the curve drawn on ``ax``.

    """
    check_axes(ax, path)
    if path is not None:
        check_ending(path, ENDINGS)
    if curve not in CURVES:
        raise unknown("curve", curve, CURVES)
    standings = sorted(result.standings(), key=lambda x: result.agents.index(x.place.agent))
    if not standings:
        raise InputError("every run failed: there is nothing to draw")
    mark = "" if all(x.changed for x in standings) else f"{UNCHANGED} {UNCHANGED_MEANS}"
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
        "regret: sum of the gaps V* - V",
        f"mistakes: episodes with a gap above {result.epsilon:g}",
    )
    for axes, name, text in zip(figure.subplots(1, 2), CURVES, titles, strict=True):
        ends = _draw(axes, result, standings, name)
        _label(axes, result, standings, ends, height)
        axes.set_title(text, fontsize=10)
        axes.set_ylabel("")
    title = title or ", ".join([*problem, result.seeds_run, f"epsilon {result.epsilon:g}", *scaled])
    title += ": median and interquartile range over the seeds"
    figure.suptitle(fill(title, 110), parse_math=False, fontsize=11)
    if mark:
        figure.supxlabel(mark, fontsize=8.5)
    save(figure, path, force)
    return figure


def _draw(axes: Any, result: Comparison, standings: list[AgentSummary], name: str) -> Floats:
    """Draw the curves of all agents; return their last values (agents,)."""
    shown = result.grid >= result.episodes / SHOWN
    grid = result.grid[shown]
    curves = [standing.curve(CURVES[name])[:, shown] for standing in standings]
    medians = np.array([curve[1] for curve in curves])
    lowest, top = _range(medians)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(grid[0], max(result.episodes, 2 * grid[0]))
    axes.set_ylim(lowest / 1.5, 1.5 * top)
    for standing, curve in zip(standings, curves, strict=True):
        k = result.agents.index(standing.place.agent)
        low, median, high = np.maximum(curve, lowest)
        axes.fill_between(grid, low, high, color=_style(k)["color"], alpha=0.12, lw=0)
        # dashes over unbroken lines, so that both show where lines coincide
        order = 2 + 0.1 * (k % 4)
        axes.plot(grid, median, lw=1.6, zorder=order, label=standing.label, **_style(k))
    ends: Floats = np.maximum(medians[:, -1], lowest)
    powers = np.arange(np.ceil(np.log10(lowest)), np.floor(np.log10(1.5 * top)) + 1)
    ticks = {10.0**power: f"$10^{{{int(power)}}}$" for power in powers}
    if medians[:, -1].min() < lowest:
        ticks[lowest] = "0"
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.minorticks_off()
    axes.grid(alpha=0.2)
    axes.set_xlabel("episodes")
    axes.set_ylabel(name)
    return ends


def _style(k: int) -> dict[str, str]:
    """Return color and dashes of the k-th agent."""
    return {"color": COLORS[k % len(COLORS)], "ls": STYLES[k % len(STYLES)]}


def _range(medians: Floats) -> tuple[float, float]:
    """Return the y range of curves (agents, points): of their ends and the largest start.

    If a curve ends at 0, the lower limit is a power of 10, drawn in place of 0.
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
        style = _style(result.agents.index(standing.place.agent))
        axes.plot([1, 1.03], [y, place], lw=0.8, color=style["color"], **outside)
        axes.plot([1.03, 1.1], [place, place], lw=1.6, **style, **outside)
        axes.text(
            1.11, place, standing.label, va="center", fontsize=8.5, color=style["color"],
            **outside,
        )  # fmt: skip
