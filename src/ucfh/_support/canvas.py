"""Figures that are drawn without a display, and saved."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

from ucfh._support.arrays import Floats
from ucfh._support.files import AnyPath, replacing
from ucfh.errors import InputError

ENDINGS = (".png", ".svg", ".pdf")

CHOSEN = "MPLBACKEND"
"""The variable that chooses pyplot's window system, which is not needed here."""


def load_matplotlib() -> Any:
    """The package matplotlib, whatever window system it is told to use."""
    chosen = os.environ.pop(CHOSEN, None)
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
            os.environ[CHOSEN] = chosen
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """An empty figure of matplotlib, in inches, laid out with "constrained".

    It is not made by pyplot, which would ask for a window system and keep it in memory.
    """
    load_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, path: AnyPath, force: bool) -> None:
    """Save a figure."""
    with replacing(path, force) as temporary, warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a name in a script the font lacks
        figure.savefig(temporary, dpi=150)


def spread(at: Floats, gap: float) -> Floats:
    """Heights (n,) as near as possible to those given, ``gap`` apart, within [0, 1].

    Least squares: heights less their rank times the gap are pooled where they fall.

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
