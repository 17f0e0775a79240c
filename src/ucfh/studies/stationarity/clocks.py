"""What the best policy that does not look at t earns, compared with the optimum."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ucfh._support.canvas import spread
from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh.experiments.store import Result
from ucfh.report.section import Figure, TextTable
from ucfh.report.words import labels, listed, number, plural

CLOSE = 0.99
"""A policy with at least this share is close to the optimum."""

LINE = 0.2
"""The height of a label, in inches."""


class Share(NamedTuple):
    """What the best stationary policy earns, as a share of the optimum."""

    share: float
    horizon: int
    policies: int


Shares = dict[str, dict[int, Share]]
"""By problem, without its horizon, and by horizon."""


def shares_of(results: Sequence[Result]) -> Shares:
    """All shares among some results, horizons in order."""
    found: Shares = {}
    for result in results:
        values = result.values
        if "stationary" in values:
            problem = re.sub(r"\bhorizon=\d+,?", "", result.arguments["problem"]).rstrip(":,")
            share = values["stationary"] / values["optimal"] if values["optimal"] > 0 else 1.0
            by_horizon = found.setdefault(problem, {})
            by_horizon[values["horizon"]] = Share(share, values["horizon"], values["policies"])
    names = labels(found)
    return {names[problem]: dict(sorted(some.items())) for problem, some in found.items()}


def percent(share: float) -> str:
    """A share in per cent; never 100 if it is less.

    >>> percent(0.7846), percent(0.99999), percent(1.0)
    ('78.5 %', '99.99 %', '100 %')
    """
    if 0.9995 <= share < 1 - 1e-12:
        return "99.99 %" if share > 0.9999 else "99.9 %"
    return f"{number(100 * share)} %"


def on_policies(shares: Shares) -> list[str]:
    """A paragraph, if there is anything to say."""
    if not shares:
        return []
    ends = {name: some[max(some)] for name, some in shares.items()}
    least, where = min((min(some.values()), name) for name, some in shares.items())
    close = [name for name, end in ends.items() if end.share >= CLOSE]
    far = [
        f"{name} ({percent(end.share)} at H = {end.horizon})"
        for name, end in ends.items()
        if name not in close
    ]
    worth = (
        f"looking at t helps most on {where}, where the best policy that ignores t earns "
        f"{percent(least.share)} of the optimum at H = {least.horizon}"
        if percent(least.share) != percent(1.0)
        else "looking at t helps on none of them"
    )
    return [
        f"Policies, exactly: of {plural(len(shares), 'problem')}, {worth}. At the longest horizon "
        f"a policy that ignores t earns at least {percent(CLOSE)} on {len(close)}"
        + (f", but not on {listed(far)}." if far else ".")
    ]


def table_of_policies(shares: Shares) -> TextTable:
    """The smallest share of each problem, and the share at its longest horizon."""
    rows = []
    for name, some in shares.items():
        worst, end = min(some.values()), some[max(some)]
        rows.append(
            [name, str(worst.policies), percent(worst.share), str(worst.horizon),
             percent(end.share), str(end.horizon)]
        )  # fmt: skip
    return TextTable(
        "What the best policy that does not look at t earns, as a share of the optimum; all such "
        "policies were tried.",
        ["problem", "policies", "worst", "at H", "at the end", "H"],
        rows,
    )


def figure_of_policies(shares: Shares) -> Figure:
    """Shares over the horizon, a line for each problem."""
    lowest = min(share.share for some in shares.values() for share in some.values())
    horizons = sorted({horizon for some in shares.values() for horizon in some})
    height = 3.8

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        bottom = 100 * lowest - 0.06 * (100 - 100 * lowest) - 0.5
        top = 101 + 0.03 * (100 - 100 * lowest)
        axes.set_xscale("log")
        axes.set_xlim(horizons[0] / 1.1, horizons[-1] * 1.1)
        axes.set_ylim(bottom, top)
        axes.axhline(100, color=GREY, lw=1.2, ls="--", zorder=0)
        names = list(shares)
        ends = [(100 * shares[n][max(shares[n])].share - bottom) / (top - bottom) for n in names]
        places = spread(np.array(ends), LINE / (height - 0.9))
        outside = {"transform": axes.transAxes, "clip_on": False}
        for k, name in enumerate(names):
            look: dict[str, Any] = {"color": COLOURS[k % len(COLOURS)]}
            ys = [100 * share.share for share in shares[name].values()]
            mark = MARKS[k % len(MARKS)]
            axes.plot(list(shares[name]), ys, marker=mark, ms=5.5, lw=1.6, **look)
            axes.plot([1, 1.04], [ends[k], places[k]], lw=0.8, **look, **outside)
            axes.plot([1.06], [places[k]], marker=mark, ms=5.5, **look, **outside)
            axes.text(1.09, places[k], name, va="center", **look, **outside)
        ticks = horizons[:1]
        for horizon in horizons:
            if horizon >= 1.2 * ticks[-1]:
                ticks.append(horizon)
        axes.set_xticks(ticks, [str(h) for h in ticks])
        axes.minorticks_off()
        axes.grid(alpha=0.2)
        axes.set_xlabel("horizon H")
        axes.set_ylabel("share of the optimum, %")

    return Figure(
        "stationarity",
        "The best policy that does not look at t: its share of the optimum, by horizon.",
        "Share of the optimum over the horizon on a logarithmic axis, one line per problem; the "
        "smallest shares: "
        + "; ".join(f"{name} {percent(min(some.values()).share)}" for name, some in shares.items())
        + ".",
        draw,
        height,
    )
