"""The report as a figure: bounds as bars, and the policy as a grid of states by step."""

from __future__ import annotations

from math import isfinite
from textwrap import fill, shorten
from typing import Any

from ucfh._utils.files import AnyPath, check_ending
from ucfh._utils.plotting import COLORS, ENDINGS, GREY, new_figure, save
from ucfh.reporting.log_report import (
    CLOSE,
    OPEN,
    SETTLED,
    UNSEEN,
    LogReport,
    columns_of,
    most_visited,
)
from ucfh.reporting.text import BoundsBar, bounds_bars, headline, level_words, levels_used

MOST_DRAWN = 40
"""The largest number of states in a figure."""
WIDTH, LINE = 8.0, 0.27
"""The width of the figure, and the height of a line of text, in inches."""
LETTER = 0.067
"""The width of a character in a cell, in inches."""
FACES = {SETTLED: "#cfe5f3", CLOSE: "#e8f2f9", OPEN: "#fdf0d9", UNSEEN: "#ffffff"}
"""Colors of cells; their marks carry the same information."""


def plot_answer(answer: LogReport, path: AnyPath, force: bool = False) -> None:
    """Draw a report to a .png, .svg or .pdf file.

    Args:
        answer: the report.
        path: the file to write.
        force: whether to overwrite an existing file.

    Raises:
        InputError: the file exists, or has another ending.

    """
    check_ending(path, ENDINGS)
    rows, others = most_visited(answer.rows, MOST_DRAWN)
    bars = [] if answer.known.contradiction is not None else bounds_bars(answer)
    verdict, sentence = headline(answer)
    title = fill(f"{answer.name}. {verdict}: {sentence[0].lower()}{sentence[1:]}", 80)
    legend = [f"{x.mark} {x.name}: {level_words(answer, x)}" for x in levels_used(answer)]
    if others:
        legend.append(f"{len(others):,} states that the log shows less often are left out")
    heights = [0.5 + 2 * LINE * len(bars), 0.6 + LINE * (len(rows) + len(legend))]
    figure = new_figure(WIDTH, sum(heights) + LINE * (1 + title.count("\n")))
    figure.suptitle(title, fontsize=11, x=0.02, ha="left", parse_math=False)
    above, below = figure.subplots(2, 1, height_ratios=heights)
    _draw_bounds(above, answer, bars)
    _draw_plan(below, answer, rows)
    below.set_xlabel("\n".join(legend), loc="left", fontsize=8.5, parse_math=False)
    save(figure, path, force)


def _draw_bounds(axes: Any, answer: LogReport, bars: list[BoundsBar]) -> None:
    left = min(answer.ends[0], 0.0)
    for y, bar in enumerate(bars):
        axes.barh(y, bar.low - left, left=left, height=0.4, color=COLORS[0])
        axes.barh(
            y, bar.high - bar.low, left=bar.low, height=0.4, color="white", edgecolor=COLORS[0],
            hatch="////",
        )  # fmt: skip
        axes.plot(bar.mean, y, "o", color="white", markeredgecolor="black")
        text = f"{bar.name}: {bar.text}"
        axes.text(left, y - 0.3, text, fontsize=9, va="bottom", parse_math=False)
    axes.set_ylim(len(bars) - 0.6, -0.9)
    axes.set_yticks([])
    full = f"at least, with {answer.sure} confidence"
    dot = "; dot: paid on average" * any(isfinite(bar.mean) for bar in bars)
    label = f"earned {answer.per} (full: {full}; hatched: perhaps{dot})"
    axes.set_xlabel(label, fontsize=9, color=GREY)
    axes.spines[["top", "right", "left"]].set_visible(False)


def _draw_plan(axes: Any, answer: LogReport, rows: Any) -> None:
    from matplotlib.patches import Rectangle

    columns = columns_of(rows, answer.log.times.step)
    room = (WIDTH - 2.0) / max(1, len(columns)) / LETTER
    for y, row in enumerate(rows):
        for choice in row.choices:
            inside = [k for k, (a, _) in enumerate(columns) if choice.first <= a <= choice.last]
            x, width = inside[0], len(inside)
            face = FACES[choice.level]
            axes.add_patch(Rectangle((x, y), width, 1, facecolor=face, edgecolor=GREY, lw=0.6))
            letters = max(1, int(room * width) - 3)
            name = choice.action
            name = name if len(name) <= letters else name[: max(1, letters - 1)] + "…"
            color = GREY if choice.level == UNSEEN else "black"
            text = f"{choice.level.mark} {name}"
            axes.text(
                x + 0.012 * len(columns), y + 0.5, text, fontsize=8, va="center", color=color,
                parse_math=False, clip_on=True,
            )  # fmt: skip
    axes.set_xlim(0, max(1, len(columns)))
    axes.set_ylim(len(rows), 0)
    names = [f"{a}" if a == b else f"{a}\N{EN DASH}{b}" for a, b in columns]
    axes.set_xticks([k + 0.5 for k in range(len(columns))], names, fontsize=8)
    axes.xaxis.tick_top()
    states = [shorten(row.state, 24, placeholder="…") for row in rows]
    axes.set_yticks([k + 0.5 for k in range(len(rows))], states, fontsize=8, parse_math=False)
    axes.set_title("step", fontsize=9, loc="left", color=GREY)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
