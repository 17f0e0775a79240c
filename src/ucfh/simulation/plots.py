"""Figures of runs."""

from __future__ import annotations

from textwrap import fill
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ucfh._utils.files import AnyPath, check_ending
from ucfh._utils.plotting import ENDINGS, add_legend, check_axes, fit_title, new_figure, save

if TYPE_CHECKING:
    from ucfh.simulation.result import Run

GAP, PROMISE, LIMIT = "#0072B2", "#E69F00", "#555555"
"""Two colours that differ for people with any colour vision (Okabe and Ito), and grey."""


def plot_run(
    run: Run, title: str, path: AnyPath | None = None, force: bool = False, ax: Any = None
) -> Any:
    """Draw what each policy lost or, with a certificate, how bounds closed in; the figure.

    It is saved if there is a path. On axes of a user's own, which get a legend, it is the upper
    part of what would be drawn.
    """
    check_axes(ax, path)
    if run.certificate is not None and ax is None:
        return plot_bounds(
            course_of(run), run.epsilon, run.certificate.certified, title, path, force, run.optimal
        )
    if path is not None:
        check_ending(path, ENDINGS)
    axes = new_figure(8, 4.8).subplots() if ax is None else ax
    if run.certificate is None:
        _draw_losses(axes, run)
    else:
        _draw_bounds(axes, course_of(run))
        axes.axhline(run.optimal, color=LIMIT, ls="--", lw=1, label="the best policy earns this")
    axes.set_xlabel("episodes")
    if ax is None:
        axes.set_title(fill(title, 70), parse_math=False)
        axes.figure.legend(loc="outside lower center", ncols=3, frameon=False)
    else:
        fit_title(axes, title)
        add_legend(axes)
    save(axes.figure, path, force)
    return axes.figure


def _draw_losses(axes: Any, run: Run) -> None:
    """Draw what each policy lost over the episodes that followed it.

    Two lines over the number of episodes, both axes logarithmic: the gap V* - V^pi of the policy
    that was followed, and V~ - V*, by how much the agent overestimates the optimum. Epsilon and
    the number of mistakes that the agent's theorem allows are marked.
    """
    phases = run.phases
    begin = np.array([float(x) for x in phases.first_episode])
    end = begin + np.array([float(x) for x in phases.episodes])
    last = max(float(end[-1]), 1.0) * (10 if run.final else 1)
    edges = np.concatenate([[0.5 if len(end) < 2 else max(0.5, end[0] / 3)], end[:-1], [last]])
    if run.episode_bound is not None:
        last = max(last, 3 * run.episode_bound)

    gap = np.asarray(phases.gap, float)
    promise = np.asarray(phases.optimistic, float) - run.optimal
    positive = np.concatenate([gap[gap > 1e-12], promise[promise > 1e-12], [run.epsilon]])
    floor = 10 ** np.floor(np.log10(positive.min()) - 1)

    axes.set_xscale("log")
    axes.set_yscale("log")
    for values, colour, label in (
        (promise, PROMISE, "overestimate, $\\tilde V - V^*$"),
        (gap, GAP, "loss of the policy, $V^* - V^\\pi$"),
    ):
        heights = np.maximum(values, floor)
        axes.stairs(heights, edges, baseline=None, color=colour, lw=2, label=label)
    bad = gap > run.epsilon + 1e-9
    axes.fill_between(
        np.repeat(edges, 2)[1:-1],
        np.repeat(np.where(bad, np.maximum(gap, floor), run.epsilon), 2),
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
    top = np.ceil(np.log10(max(gap.max(), promise.max(), run.epsilon)))
    powers = np.arange(np.log10(floor) + 1, top + 1)
    axes.set_yticks([floor, *10**powers], ["0", *(f"$10^{{{int(power)}}}$" for power in powers)])
    axes.set_xlim(edges[0], last)
    axes.set_ylim(floor / 2, 2 * 10**top)
    axes.set_ylabel("reward per episode")
    axes.grid(alpha=0.2)


class BoundsCurve(NamedTuple):
    """How bounds closed in: after so many episodes, upper, lower and gap, (k,) each."""

    episodes: list[float]
    upper: list[float]
    lower: list[float]
    gap: list[float]


def course_of(run: Run) -> BoundsCurve:
    """How the bounds of a run closed in."""
    phases = run.phases
    return BoundsCurve(
        [float(x) for x in phases.first_episode],
        [float(x) for x in phases.optimistic],
        [float(x) for x in phases.lower],
        [float(x) for x in phases.gap_bound],
    )


def _draw_bounds(axes: Any, course: BoundsCurve) -> None:
    """The bounds over the number of episodes."""
    x = np.maximum(course.episodes, 0.7)
    axes.plot(x, course.upper, color=PROMISE, lw=2, label="no policy earns more")
    axes.plot(x, course.lower, color=GAP, lw=2, label="this policy earns at least this")
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
    """Draw how bounds close in; the figure, which is saved if there is a path.

    Above, over the number of episodes: the upper bound on V* and the lower bound on what the
    policy earns, around V*, if that is known. Below: how far the policy may be from optimal, until
    it is epsilon.
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
            f"the best policy earns {optimal:.3g} (the agent does not know)",
            (0.01, optimal),
            xycoords=("axes fraction", "data"),
            va="bottom",
            color=LIMIT,
        )
    above.set_title(fill(title, 70), parse_math=False)
    below.plot(x, course.gap, color="black", lw=2, label="at most this far from optimal")
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
    below.set_ylabel("distance from optimal")
    below.grid(alpha=0.2)
    figure.legend(loc="outside lower center", ncols=3, frameon=False)
    save(figure, path, force)
    return figure
