"""Figures drawn without a display and saved, or drawn on axes of a caller's figure."""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping
from textwrap import fill
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh._utils.files import AnyPath, check_ending, replacing
from ucfh.exceptions import InputError, wrong_type

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#000000", "#E69F00", "#56B4E9")
"""Colors for readers with any color vision (Okabe and Ito); their yellow is too pale."""

GREY = "#555555"

ENDINGS = (".png", ".svg", ".pdf")

EMBEDDED = {"pdf.fonttype": 42}
"""Matplotlib settings that embed TrueType fonts: publishers reject type 3, the default."""

BACKEND = "MPLBACKEND"
"""The environment variable that selects pyplot's backend, which is not needed here."""


def load_matplotlib() -> Any:
    """Import matplotlib, whatever backend the environment selects."""
    chosen = os.environ.pop(BACKEND, None)
    try:
        import matplotlib
    except (ImportError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"cannot draw: matplotlib does not load ({reason}); install it again: "
            "pip install --force-reinstall matplotlib"
        ) from None
    finally:
        if chosen is not None:
            os.environ[BACKEND] = chosen
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """Return an empty matplotlib figure, in inches, with constrained layout.

    pyplot is not used: it would load a window system and keep the figure in memory.
    """
    load_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def check_axes(ax: Any, path: AnyPath | None) -> None:
    """Raise unless ``ax`` is None, or axes of the caller's figure and no path is given."""
    if ax is None:
        return
    load_matplotlib()
    from matplotlib.axes import Axes
    from matplotlib.figure import FigureBase

    if isinstance(ax, FigureBase):
        raise InputError("ax is a figure: pass axes of it, such as figure.subplots()")
    if isinstance(ax, list | tuple | np.ndarray):
        raise InputError("ax holds several axes: pass one of them, such as ax[0]")
    if not isinstance(ax, Axes):
        raise wrong_type("ax", ax, "axes of matplotlib, such as pyplot.gca()")
    if ax.figure is None:
        raise InputError("ax has been removed from its figure: pass axes that are in one")
    if ax.name != "rectilinear":
        raise InputError(f"ax is {ax.name}: pass rectangular axes")
    if path is not None:
        raise InputError("ax belongs to your figure: save that, ax.figure.savefig(path)")


TEXT = 9
"""Font size of titles on axes, in points."""

ROOM = 0.6
"""Largest share of the axes' height for a legend."""


def fit_title(axes: Any, text: str) -> None:
    """Write a title above axes, wrapped to their width; no title if it is empty."""
    if not text:
        return
    _lay_out(axes)
    title = axes.set_title(text, parse_math=False, fontsize=TEXT, pad=4)
    fits = 0.95 * axes.bbox.width / title.get_window_extent().width
    if fits < 1:
        title.set_text(fill(text, max(10, int(fits * len(text)))))


def add_legend(axes: Any, title: str = "") -> None:
    """Add a legend inside axes, above the data: the y range grows to make room."""
    _lay_out(axes)
    for columns in range(len(axes.get_legend_handles_labels()[1]), 0, -1):
        legend = axes.legend(
            fontsize=8, title=title, title_fontsize=8, loc="upper left", ncols=columns,
            alignment="left", borderaxespad=0.3, columnspacing=1.2,
        )  # fmt: skip
        box = legend.get_window_extent()
        if box.width <= 0.98 * axes.bbox.width:
            break
    share = min(ROOM, 1.05 * box.height / axes.bbox.height + 0.03)
    scale = axes.yaxis.get_transform()
    bottom, top = scale.transform(axes.get_ylim())
    axes.set_ylim(top=scale.inverted().transform(bottom + (top - bottom) / (1 - share)))


def _lay_out(axes: Any) -> None:
    """Apply the layout of the figure, if it has one, so that the size of axes is known."""
    engine = axes.figure.get_layout_engine()
    if engine is not None:
        engine.execute(axes.figure.figure)


def save(figure: Any, path: AnyPath | None, force: bool) -> None:
    """Save a figure, unless the path is None."""
    if path is None:
        return
    with replacing(path, force) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # characters that the font lacks
        with load_matplotlib().rc_context(EMBEDDED):
            figure.savefig(temporary, dpi=150)


def plot_bars(
    bars: Mapping[str, tuple[float, float]],
    limit: float,
    words: tuple[str, str, str],
    title: str,
    path: AnyPath | None,
    force: bool,
    ax: Any,
) -> Any:
    """Draw intervals by name, one below the other, and a limit; return the figure.

    A bar is solid up to the low end of its interval and hatched up to the high end.

    Args:
        bars: the interval of each name.
        limit: the position of a vertical line.
        words: the legend entries of the low ends, the high ends and the limit.
        title: the title of the figure.
        path: the file to save the figure to, if any.
        force: True overwrites an existing file.
        ax: axes of the caller's figure; None: a new figure.

    """
    check_axes(ax, path)
    if path is not None:
        check_ending(path, ENDINGS)
    axes = new_figure(7, 1.4 + 0.5 * len(bars)).subplots() if ax is None else ax
    left = min(0.0, *(low for low, _ in bars.values()))
    y = range(len(bars))
    low, high = np.array(list(bars.values())).T
    style = {"height": 0.5, "edgecolor": COLORS[0]}
    axes.barh(y, low - left, left=left, color=COLORS[0], label=words[0], **style)
    axes.barh(y, high - low, left=low, color="white", hatch="////", label=words[1], **style)
    axes.axvline(limit, color=GREY, ls="--", lw=1.5, label=words[2])
    axes.set_yticks(y, list(bars))
    axes.set_ylim(len(bars) - 0.5, -0.5)
    axes.set_xlabel("reward per episode")
    fit_title(axes, title)
    add_legend(axes)
    save(axes.figure, path, force)
    return axes.figure


def spread(at: Floats, gap: float) -> Floats:
    """Return heights (n,) closest to ``at``, at least ``gap`` apart, within [0, 1].

    Least squares: isotonic regression of the heights less their rank times the gap.

    >>> spread(np.array([0.5, 0.5, 0.9]), 0.1).round(2).tolist()
    [0.45, 0.55, 0.9]
    """
    order = np.argsort(at, kind="stable")
    steps = gap * np.arange(len(at))
    blocks: list[tuple[float, int]] = []
    for value in at[order] - steps:
        blocks.append((float(value), 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (a, m), (b, n) = blocks[-2:]
            blocks[-2:] = [((m * a + n * b) / (m + n), m + n)]
    level = np.repeat([x for x, _ in blocks], [n for _, n in blocks])
    out = np.empty_like(at)
    out[order] = np.clip(level, 0.0, max(0.0, 1.0 - gap * (len(at) - 1))) + steps
    return out
