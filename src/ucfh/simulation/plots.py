"""Figures of runs."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ucfh._utils.files import AnyPath, check_ending
from ucfh._utils.plotting import (
    COLORS,
    ENDINGS,
    GREY,
    add_legend,
    check_axes,
    fit_title,
    new_figure,
    save,
)

if TYPE_CHECKING:
    from ucfh.simulation.result import Run

GAP, OPTIMISM, LIMIT = COLORS[0], COLORS[5], GREY


def plot_run(
    run: Run, title: str, path: AnyPath | None = None, force: bool = False, ax: Any = None
) -> Any:
    """Draw the gap of each policy or, for a certified agent, the bounds; return the figure.

    Args:
        run: the run to draw.
        title: the title of the figure.
        path: the file to save the figure to, if any.
        force: True overwrites an existing file.
        ax: axes of the caller's figure, on which the upper panel and a legend are drawn.

    """
    check_axes(ax, path)
    if run.certificate is not None and ax is None:
        return plot_bounds(
            bounds_of(run), run.epsilon, run.certificate.certified, title, path, force, run.optimal
        )
    if path is not None:
        check_ending(path, ENDINGS)
    axes = new_figure(8, 4.8).subplots() if ax is None else ax
    if run.certificate is None:
        _draw_gaps(axes, run)
    else:
        _draw_bounds(axes, bounds_of(run))
        axes.axhline(run.optimal, color=LIMIT, ls="--", lw=1, label="optimal value V*")
    axes.set_xlabel("episodes")
    if ax is None:
        axes.set_title(fill(title, 70), parse_math=False)
        axes.figure.legend(loc="outside lower center", ncols=3, frameon=False)
    else:
        fit_title(axes, title)
        add_legend(axes)
    save(axes.figure, path, force)
    return axes.figure


def _draw_gaps(axes: Any, run: Run) -> None:
    """Draw the gap of each policy over the episodes that followed it.

    Two lines over the number of episodes, both axes logarithmic: the gap V* - V^pi of the
    policy, and the agent's optimism V~ - V*. Epsilon and the theorem's bound on the number of
    epsilon-suboptimal episodes are marked.
    """
    phases = run.phases
    begin = np.array([float(x) for x in phases.first_episode])
    end = begin + np.array([float(x) for x in phases.episodes])
    last = max(float(end[-1]), 1.0) * (10 if run.final else 1)
    edges = np.concatenate([[0.5 if len(end) < 2 else max(0.5, end[0] / 3)], end[:-1], [last]])
    if run.episode_bound is not None:
        last = max(last, 3 * run.episode_bound)

    gap = np.asarray(phases.gap, float)
    optimism = np.asarray(phases.optimistic, float) - run.optimal
    positive = np.concatenate([gap[gap > 1e-12], optimism[optimism > 1e-12], [run.epsilon]])
    lowest = 10 ** np.floor(np.log10(positive.min()) - 1)

    axes.set_xscale("log")
    axes.set_yscale("log")
    for values, color, label in (
        (optimism, OPTIMISM, "optimism, $\\tilde V - V^*$"),
        (gap, GAP, "gap of the policy, $V^* - V^\\pi$"),
    ):
        heights = np.maximum(values, lowest)
        axes.stairs(heights, edges, baseline=None, color=color, lw=2, label=label)
    bad = gap > run.epsilon + 1e-9
    axes.fill_between(
        np.repeat(edges, 2)[1:-1],
        np.repeat(np.where(bad, np.maximum(gap, lowest), run.epsilon), 2),
        run.epsilon,
        where=np.repeat(bad, 2).tolist(),
        color=GAP,
        alpha=0.2,
        lw=0,
        label=f"mistakes: {run.mistakes():.3g} episodes",
    )
    axes.axhline(run.epsilon, color=LIMIT, ls="--", lw=1)
    axes.annotate(
        f"epsilon = {run.epsilon:g}",
        (0.5, run.epsilon),
        xycoords=("axes fraction", "data"),
        ha="center",
        va="bottom",
        color=LIMIT,
    )
    if run.episode_bound is not None:
        axes.axvline(run.episode_bound, color=LIMIT, ls=":", lw=1.5)
        axes.annotate(
            f"mistakes allowed: {run.episode_bound:.2g} ",
            (run.episode_bound, 0.5),
            xycoords=("data", "axes fraction"),
            rotation=90,
            ha="right",
            va="center",
            color=LIMIT,
        )
    top = np.ceil(np.log10(max(gap.max(), optimism.max(), run.epsilon)))
    powers = np.arange(np.log10(lowest) + 1, top + 1)
    axes.set_yticks([lowest, *10**powers], ["0", *(f"$10^{{{int(power)}}}$" for power in powers)])
    axes.set_xlim(edges[0], last)
    axes.set_ylim(lowest / 2, 2 * 10**top)
    axes.set_ylabel("reward per episode")
    axes.grid(alpha=0.2)


class BoundsCurve(NamedTuple):
    """Upper and lower bounds and the gap after numbers of episodes, (k,) each."""

    episodes: list[float]
    upper: list[float]
    lower: list[float]
    gap: list[float]


def bounds_of(run: Run) -> BoundsCurve:
    """Return the bounds of a run, by phase."""
    phases = run.phases
    return BoundsCurve(
        [float(x) for x in phases.first_episode],
        [float(x) for x in phases.optimistic],
        [float(x) for x in phases.lower],
        [float(x) for x in phases.gap_bound],
    )


def _draw_bounds(axes: Any, course: BoundsCurve) -> None:
    """Draw the bounds over the number of episodes."""
    x = np.maximum(course.episodes, 0.7)
    axes.plot(x, course.upper, color=OPTIMISM, lw=2, label="upper bound on V*")
    axes.plot(x, course.lower, color=GAP, lw=2, label="lower bound on the policy's value")
    axes.fill_between(x, course.lower, course.upper, color=LIMIT, alpha=0.1, lw=0)
    axes.set_xscale("log")
    axes.set_xlim(x[0], max(1.3 * x[-1], 2 * x[0]))
    axes.set_ylabel("reward per episode")
    axes.grid(alpha=0.2)


def plot_bounds(
    course: BoundsCurve,
    epsilon: float,
    certified: bool,
    title: str,
    path: AnyPath | None = None,
    force: bool = False,
    optimal: float | None = None,
) -> Any:
    """Draw bounds over the number of episodes; return the figure.

    The upper panel shows the upper bound on V*, the lower bound on the policy's value and V*, if
    known; the lower panel the bound on the optimality gap, and epsilon.

    Args:
        course: the bounds.
        epsilon: the accuracy.
        certified: True marks the last number of episodes.
        title: the title of the figure.
        path: the file to save the figure to, if any.
        force: True overwrites an existing file.
        optimal: V*, if known.

    """
    if path is not None:
        check_ending(path, ENDINGS)
    x = np.maximum(course.episodes, 0.7)
    figure = new_figure(8, 5.6)
    above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
    _draw_bounds(above, course)
    if optimal is not None:
        above.axhline(optimal, color=LIMIT, ls="--", lw=1)
        above.annotate(
            f"V* = {optimal:.3g} (unknown to the agent)",
            (0.01, optimal),
            xycoords=("axes fraction", "data"),
            va="bottom",
            color=LIMIT,
        )
    above.set_title(fill(title, 70), parse_math=False)
    below.plot(x, course.gap, color="black", lw=2, label="bound on the optimality gap")
    below.axhline(epsilon, color=LIMIT, ls="--", lw=1)
    below.annotate(
        f"epsilon = {epsilon:g}",
        (0.01, epsilon),
        xycoords=("axes fraction", "data"),
        va="bottom",
        color=LIMIT,
    )
    if certified:
        for axes in (above, below):
            axes.axvline(x[-1], color=LIMIT, ls=":", lw=1.5)
        below.annotate(
            f"certified after {course.episodes[-1]:.0f} episodes ",
            (x[-1], 0.92),
            xycoords=("data", "axes fraction"),
            ha="right",
            va="top",
            color=LIMIT,
        )
    below.set_yscale("log")
    below.set_xlabel("episodes")
    below.set_ylabel("optimality gap")
    below.grid(alpha=0.2)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    save(figure, path, force)
    return figure
