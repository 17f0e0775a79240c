"""The knownness-importance table over a lifetime, drawn.

X_{kappa,iota} are the pairs of knownness kappa and importance iota (`ucfh.instruments`); a phase is
balanced if none of them with iota > 0 has more than kappa pairs. While a learner continues, its
pairs move from column 0 to the right, where a cell may hold more of them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from itertools import pairwise
from math import ceil, log10
from string import ascii_lowercase
from typing import Any

import numpy as np

from ucfh._support.palette import COLOURS, GREY
from ucfh.report.section import Figure

KNOWN, FULL, PROMISE = COLOURS[:3]
COLUMNS = 6
"""Columns of a table; the last one also has all pairs with larger knownness."""

AROUND, STRIP = 0.6, 2.8
"""Inches: the space above and below a table, and the height of the part below the tables."""


def knownness_figure(life: Mapping[str, Any], title: str) -> Figure:
    """Tables at some moments of one lifetime, and the whole lifetime below them.

    Args:
        life: "moments", at least one {"episode", "cells": [[kappa, iota, size], ...], "balanced"};
            "phases", equally long lists "first_episode", "balanced", "gap" V* - V and "mismatch"
            |V~ - V|; "epsilon"; "episodes", how many there were, without those of an endless
            last phase.
        title: names the problem.

    """
    moments = life["moments"]
    across = 2 if len(moments) == 4 else min(3, len(moments))
    down = ceil(len(moments) / across)
    places = [_place(iota) for moment in moments for _, iota, _ in moment["cells"]]
    rows = range(min(places), max(places) + 1)
    cell = min(0.2, 2.1 / len(rows))
    tall = down * (max(cell * len(rows), 0.5) + AROUND) + 0.2

    def draw(figure: Any) -> None:
        above, below = figure.subfigures(2, 1, height_ratios=[tall, STRIP])
        for k, moment in enumerate(moments):
            axes = above.add_subplot(down, across, k + 1)
            _table(axes, moment["cells"], rows, min(10.0, 0.75 * 72 * cell))
            on = " on" if moment["episode"] >= life["episodes"] > 0 else ""
            when = ("from " if on else "episode ") + _typeset(moment["episode"]) + on
            axes.set_title(f"{ascii_lowercase[k]}: {when}", loc="left", pad=15)
            word, colour = ("balanced", KNOWN) if moment["balanced"] else ("unbalanced", FULL)
            axes.annotate(
                word, (0, 1), (0, 3), xycoords="axes fraction", textcoords="offset points",
                weight="bold", color=colour,
            )  # fmt: skip
            axes.tick_params(labelleft=k % across == 0)
        above.supylabel("importance $\\iota$", fontsize="medium")
        limit = "at most $\\kappa$ pairs in a cell" + ("" if rows[0] else " of $\\iota > 0$")
        above.supxlabel(f"knownness $\\kappa$ (balanced: {limit})", fontsize="medium")
        _strip(below.add_subplot(), life)
        _legend(below)

    name = "knownness-" + re.sub(r"[^a-z0-9]+", "-", title.lower()).strip("-")
    return Figure(name, _caption(life, title), _alt(life, title), draw, tall + STRIP)


def _place(z: int) -> int:
    """The place of z in 0, 1, 2, 4, 8, ..."""
    return int(z).bit_length()


def _at(place: int) -> int:
    """The number at a place of 0, 1, 2, 4, 8, ..."""
    return 1 << place >> 1


def _short(x: float) -> str:
    """A number of episodes in three digits.

    >>> _short(0), _short(870), _short(42 * 10**8)
    ('0', '870', '4.2e9')

    """
    return f"{x:.3g}".replace("e+0", "e").replace("e+", "e")


def _typeset(x: float) -> str:
    """The same for matplotlib."""
    digits, _, power = _short(x).partition("e")
    return f"${digits}\\cdot 10^{{{power}}}$" if power else digits


def _table(axes: Any, cells: list[list[int]], rows: range, size_of_text: float) -> None:
    """One table: kappa to the right, iota upwards, and numbers of pairs."""
    from matplotlib.patches import Rectangle
    from matplotlib.patheffects import withStroke

    pairs: dict[tuple[int, int], int] = {}
    full = set()
    for kappa, iota, size in cells:
        at = min(_place(kappa), COLUMNS - 1), _place(iota) - rows[0]
        pairs[at] = pairs.get(at, 0) + size
        if size > kappa and iota > 0:
            full.add(at)
    for at, size in pairs.items():
        shade = 0.15 + 0.45 * min(1.0, log10(size))
        style: dict[str, Any] = {"fc": (*_rgb(KNOWN), shade), "ec": KNOWN, "lw": 0.8}
        text: dict[str, Any] = {}
        if at in full:
            style = {"fc": "white", "ec": FULL, "lw": 2, "hatch": "/////", "zorder": 2}
            text = {"weight": "bold", "path_effects": [withStroke(linewidth=3, foreground="w")]}
        axes.add_patch(Rectangle(at, 1, 1, clip_on=False, **style))
        x, y = at[0] + 0.5, at[1] + 0.46
        axes.text(x, y, str(size), ha="center", va="center", zorder=3, size=size_of_text, **text)
    names = [str(_at(place)) for place in range(COLUMNS)]
    axes.set_xticks(np.arange(COLUMNS) + 0.5, [*names[:-1], names[-1] + "+"], fontsize=9)
    shown = rows[:: -1 if len(rows) <= 6 else -2]
    axes.set_yticks([k - rows[0] + 0.5 for k in shown], [str(_at(k)) for k in shown], fontsize=9)
    axes.set_xticks(range(COLUMNS + 1), minor=True)
    axes.set_yticks(range(len(rows) + 1), minor=True)
    axes.grid(which="minor", color="#dddddd", lw=0.6)
    axes.tick_params(which="both", length=0, pad=2)
    axes.set_axisbelow(True)


def _rgb(colour: str) -> tuple[float, float, float]:
    from matplotlib.colors import to_rgb

    return to_rgb(colour)


def _strip(axes: Any, life: Mapping[str, Any]) -> None:
    """Losses and errors of all phases over the episodes, and which phases are unbalanced."""
    phases, epsilon = life["phases"], life["epsilon"]
    begin = [float(x) for x in phases["first_episode"]]
    first = max(begin[1] if len(begin) > 1 else float(life["episodes"]), 1.0)
    left, right = first / 10, 10 * max(begin[-1], float(life["episodes"]), first)
    edges = [left, *begin[1:], right]
    gap, mismatch = np.asarray(phases["gap"], float), np.asarray(phases["mismatch"], float)
    seen = np.concatenate([gap, mismatch, [epsilon]])
    floor = 10.0 ** np.floor(np.log10(seen[seen > 1e-12].min()) - 0.5)
    bottom, top = floor / 2, 3 * seen.max()
    axes.set(xscale="log", yscale="log", xlim=(left, right), ylim=(bottom, top))
    axes.fill_between(
        np.repeat(edges, 2)[1:-1], bottom, top,
        where=np.repeat(~np.asarray(phases["balanced"], bool), 2).tolist(),
        fc=(*_rgb(FULL), 0.1), ec=(*_rgb(FULL), 0.35), hatch="///", lw=0,
        label="unbalanced phases",
    )  # fmt: skip
    for values, colour, width, label in (
        (mismatch, PROMISE, 3, "$|\\tilde V - V|$: error of its estimate"),
        (gap, "black", 1.2, "$V^* - V$: loss of its policy"),
    ):
        heights = np.maximum(values, floor)
        axes.stairs(heights, edges, baseline=None, color=colour, lw=width, label=label)
    axes.axhline(epsilon, color=GREY, ls=":", lw=1.5)
    axes.annotate(
        f"$\\epsilon$ = {epsilon:g}", (right, epsilon), (-4, 4), textcoords="offset points",
        ha="right", color=GREY, bbox={"fc": "white", "ec": "none", "pad": 0},
    )  # fmt: skip
    at = [max(float(moment["episode"]), left) for moment in life["moments"]]
    near = (right / left) ** 0.03
    for k, x in enumerate(at):
        axes.axvline(x, color=GREY, lw=0.7, zorder=1)
        side = "left" if k and x < near * at[k - 1] else "center"
        side = "right" if k + 1 < len(at) and at[k + 1] < near * x else side
        axes.text(x, 1.03, ascii_lowercase[k], transform=axes.get_xaxis_transform(), ha=side)
    powers = np.arange(round(log10(floor)) + 1, np.floor(log10(top)) + 1)
    axes.set_yticks([floor, *10**powers], ["0", *(f"$10^{{{int(p)}}}$" for p in powers)])
    axes.minorticks_off()
    axes.set_xlabel("episodes")
    axes.set_ylabel("reward per episode")
    axes.tick_params(labelsize=9)


def _legend(figure: Any) -> None:
    """What the marks mean, those of the tables too."""
    from matplotlib.patches import Patch

    handles, names = figure.axes[0].get_legend_handles_labels()
    too_full = Patch(fc="white", ec=FULL, hatch="/////", lw=2)
    figure.legend(
        [too_full, *handles], ["more than $\\kappa$ pairs", *names],
        loc="outside lower center", ncols=2, frameon=False,
    )  # fmt: skip


def _caption(life: Mapping[str, Any], title: str) -> str:
    """What the figure shows, with the numbers that Section 3.1 of the paper is about."""
    phases = life["phases"]
    begin = [*phases["first_episode"], life["episodes"]]
    lasted = [end - start for start, end in pairwise(begin)]
    unbalanced = sum(n for n, ok in zip(lasted, phases["balanced"], strict=True) if not ok)
    off = [x for x, ok in zip(phases["mismatch"], phases["balanced"], strict=True) if ok]
    promise = "no phase is balanced"
    if off:
        promise = (
            f"in balanced ones the learner's optimistic estimate is off by at most {max(off):.2g}, "
            f"and Lemma 3 allows epsilon = {life['epsilon']:g}"
        )
    return (
        f"{title}: pairs by knownness and importance at some moments of one lifetime, and the "
        "whole lifetime below. Pairs move to the right as they become known; cells with too many "
        f"pairs (hatched) make a phase unbalanced. {_short(unbalanced)} of "
        f"{_short(life['episodes'])} episodes are in unbalanced phases; {promise}."
    )


def _alt(life: Mapping[str, Any], title: str) -> str:
    """The same for people who cannot see it."""
    tables = []
    for k, moment in enumerate(life["moments"]):
        full = sum(size > kappa and iota > 0 for kappa, iota, size in moment["cells"])
        said = "balanced" if moment["balanced"] else f"unbalanced, cells too full: {full}"
        tables.append(f"{ascii_lowercase[k]}, episode {_short(moment['episode'])}: {said}")
    gap, mismatch = life["phases"]["gap"], life["phases"]["mismatch"]
    return (
        f"Tables for {title}, knownness across and importance upwards, with numbers of pairs "
        f"({'; '.join(tables)}). Below, over episodes on a logarithmic axis, the error of the "
        f"learner's estimate goes from {mismatch[0]:.2g} to {mismatch[-1]:.2g} and the loss of its "
        f"policy from {gap[0]:.2g} to {gap[-1]:.2g}; epsilon is {life['epsilon']:g}."
    )
