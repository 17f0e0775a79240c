"""Growth of mistakes with H, 1/epsilon, S, A and C, against the order of Theorem 1."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf, log2
from typing import Any

import numpy as np
import pandas as pd

from evaluation.formatting import number, span
from evaluation.grid import Job, grid
from evaluation.measurements import full_run
from evaluation.plotting import GREY, Analysis, legend, new_figure, style
from evaluation.statistics import exponent

AXES = {"1/eps": 2, "H": 2, "S and C": 2, "S": 1, "A": 1, "C": 1}
"""The varied quantity, and its exponent in Theorem 1 without logarithms."""

X = {"H": "horizon", "S and C": "successors", "S": "states", "A": "actions", "C": "successors"}
TRUE, SMALL = "true m", "m/1e6"
TOLERANCE = 0.05
"""Exponents that differ by less count as equal."""


def _hard(n=4, actions=4, horizon=10, gap=0.25, epsilon=0.1) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    name = f"hard:n={n},actions={actions},horizon={horizon},gap={gap},seed={{replicate}}"
    return {"problem": name, "epsilon": epsilon}


def _random(s=8, actions=4, c=4, horizon=8, epsilon=0.1) -> dict[str, Any]:  # type: ignore[no-untyped-def]
    name = f"random:states={s},actions={actions},successors={c},horizon={horizon}"
    return {"problem": f"{name},seed={{replicate}}", "epsilon": epsilon}


def _cases() -> Iterator[tuple[str, int, float, str, list[dict[str, Any]]]]:
    """Yield family, replicates, factor of m, axis and the points along the axis.

    With the true m, the hard class has a gap of 1/4. With a millionth of m, its gaps are in
    proportion to epsilon/H, as in the proof of Theorem 2.
    """
    hard, few = ("hard, true m", 10, 1.0), [2, 4, 8, 16, 32]
    yield *hard, "1/eps", [_hard(epsilon=0.4 / 2**k) for k in range(7)]
    yield *hard, "H", [_hard(horizon=h) for h in (4, 8, 16, 32, 64)]
    yield *hard, "S and C", [_hard(n=n) for n in few]
    yield *hard, "A", [_hard(actions=a) for a in (4, 8, 16, 32, 64)]
    hard = ("hard, m/1e6", 20, 1e-6)
    yield *hard, "1/eps", [_hard(gap=0.4 / 2**k, epsilon=0.8 / 2**k) for k in range(7)]
    yield (
        *hard,
        "H",
        [_hard(horizon=h, gap=0.8 / (h - 2), epsilon=0.2) for h in (6, 10, 18, 34, 66)],
    )
    yield *hard, "S and C", [_hard(n=n, gap=0.1, epsilon=0.2) for n in few]
    yield *hard, "A", [_hard(actions=a, gap=0.1, epsilon=0.2) for a in (4, 8, 16, 32, 64)]
    for m, factor in ((TRUE, 1.0), (SMALL, 1e-6)):
        random = (f"random, {m}", 10, factor)
        yield *random, "1/eps", [_random(epsilon=0.4 / 2**k) for k in range(6)]
        yield *random, "H", [_random(horizon=h) for h in (4, 8, 16, 32)]
        yield *random, "S", [_random(s=s) for s in (4, 8, 16, 32)]
        yield *random, "A", [_random(actions=a) for a in (2, 4, 8, 16)]
        yield *random, "C", [_random(s=16, c=c) for c in (2, 4, 8, 16)]


def jobs(quick: bool = False) -> list[Job]:
    """Return full runs along each axis; quick: the first three points, two runs each."""
    return [
        job
        for family, replicates, factor, axis, points in _cases()
        for job in grid(
            full_run, 2 if quick else replicates, points[:3] if quick else points,
            group=f"{family}: {axis}", delta=0.1, m_factor=factor,
        )
    ]  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Fit exponents along each axis, and compare mistakes with the wait for first updates."""
    fits = pd.DataFrame([_fit(group, runs) for group, runs in results.groupby("group", sort=False)])
    table = pd.DataFrame({
        "axis": fits["group"], "doublings": fits["octaves"].map(lambda x: number(x, 2)),
        "runs per point": fits["replicates"].map(str), "order": fits["order"].map(str),
        "Theorem 1": fits["theorem"].map(_two), "wait": fits["wait"].map(_two),
        "mistakes (95% interval)": fits["text"],
    })  # fmt: skip
    return Analysis(
        _numbers(results, fits.set_index("group")), {"exponents": table},
        {"scaling-exponents": _exponents(fits), "scaling": _lines(results)},
    )  # fmt: skip


def _two(x: float) -> str:
    return "-" if np.isnan(x) else f"{x:.2f}"


def _points(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the points of an axis with finitely many mistakes, and some."""
    axis = runs["group"].iloc[0].split(": ")[1]
    x = 1 / runs["epsilon"] if axis == "1/eps" else runs[X[axis]]
    hard = runs["problem"].str.startswith("hard")
    tried = np.where(hard, runs["successors"], runs["states"]) * runs["actions"]
    points = runs.assign(x=x, tried=tried * runs["m"] * runs["w_min"]).groupby("x").agg(
        mean=("mistakes", "mean"), runs=("mistakes", list), bound=("bound", "first"),
        wait=("tried", "first"),
    )  # fmt: skip
    return points[(points["mean"] > 0) & (points["mean"] < inf)]


def _fit(group: str, runs: pd.DataFrame) -> dict[str, Any]:
    points, (family, axis) = _points(runs), group.split(": ")
    x = points.index.to_numpy()
    fit = exponent(x, list(points["runs"]))
    theorem = exponent(x, points["bound"].to_numpy()[:, None]).value
    low, high = (fit.value, fit.value) if np.isnan(fit.low) else (fit.low, fit.high)
    rest = np.log(points["mean"]) - fit.value * np.log(x)
    return {
        "group": group, "family": family, "axis": axis, "order": AXES[axis],
        "octaves": log2(x[-1] / x[0]), "replicates": min(map(len, points["runs"])),
        "theorem": theorem, "wait": exponent(x, points["wait"].to_numpy()[:, None]).value,
        "exponent": fit.value, "low": fit.low, "high": fit.high,
        "text": _two(fit.value) + ("" if np.isnan(fit.low) else f" ({low:.2f} to {high:.2f})"),
        "side": int(low > theorem + TOLERANCE) - int(high < theorem - TOLERANCE),
        "ratios": list(points["mean"] / points["wait"]),
        "least_bound": (points["bound"] / points["mean"]).min(),
        "growth": points["mean"].max() / points["mean"].min(),
        "without_two": exponent(x - 2, list(points["runs"])).value if axis == "H" else np.nan,
        "off": float(np.exp(np.abs(rest - rest.mean()).max())),
    }  # fmt: skip


def _numbers(results: pd.DataFrame, fits: pd.DataFrame) -> dict[str, Any]:
    true = fits[fits["theorem"].notna()]
    hard = results[results["group"].str.startswith("hard, true m")]
    share = hard["mistakes"] / (hard["successors"] * hard["actions"] * hard["m"] * hard["w_min"])
    random = fits[fits["family"] == "random, true m"]["ratios"]
    return {
        "runs": len(results),
        "axes": len(true),
        "slower": int((true["side"] < 0).sum()),
        "fit": fits.to_dict("index"),
        "hard_runs": len(hard),
        "hard_at_wait": int(((share - 1).abs() < 0.01).sum()),
        "hard_growth": fits[fits["family"] == "hard, true m"]["growth"].max(),
        "random_ratio": span(ratio for ratios in random for ratio in ratios),
        "least_bound": true["least_bound"].min(),
        "octaves": span(fits["octaves"], 2),
        "off": fits["off"].max(),
    }


def _exponents(fits: pd.DataFrame) -> Any:
    figure = new_figure(1.9 + 0.2 * (len(fits) + fits["axis"].nunique()))
    axes, y, ticks = figure.subplots(), 0.0, {}
    families = list(dict.fromkeys(fits["family"]))
    theorem: dict[str, Any] = {"marker": "D", "mfc": "none", "color": GREY, "ls": "", "ms": 9}
    for axis, group in fits.groupby(
        fits["axis"].astype(pd.CategoricalDtype(list(AXES))), observed=True
    ):
        top = y
        for fit in group.itertuples():
            marks = style(families.index(fit.family))
            axes.plot(fit.theorem, y, label="Theorem 1, with logarithms", **theorem)
            axes.hlines(y, fit.low, fit.high, lw=2, color=marks["color"])
            axes.plot(fit.exponent, y, ls="", ms=6, label=fit.family, **marks)
            y -= 1
        ticks[(top + y + 1) / 2] = axis
        axes.plot(
            2 * [AXES[axis]], [top + 0.5, y + 0.5], "--", color=GREY, label="Theorem 1, order"
        )
        y -= 1
    axes.set_yticks(list(ticks), list(ticks.values()))
    axes.set_ylim(y + 1, 1)
    axes.set_xlabel("exponent")
    axes.grid(alpha=0.25, axis="x")
    legend(figure, 2)
    return figure


def _lines(results: pd.DataFrame) -> Any:
    figure = new_figure(4.2)
    axes = figure.subplots()
    along = results[results["group"].str.endswith(": 1/eps")]
    for k, (group, runs) in enumerate(along.groupby("group", sort=False)):
        points = _points(runs)
        positive = [[x for x in values if x > 0] for values in points["runs"]]
        low, high = list(map(min, positive)), list(map(max, positive))
        axes.vlines(points.index, low, high, lw=1.5, color=style(k)["color"])
        axes.plot(points.index, points["mean"], ms=6, label=group.split(": ")[0], **style(k))
    ticks = sorted(1 / along["epsilon"].unique())
    x, middle = np.array(ticks)[[0, len(ticks) // 2]], 1e5
    for slope in (1, 2):
        y = middle * (x / x[0]) ** slope
        axes.plot(x, y, ":", color=GREY)
        axes.text(x[1], y[1], f" exponent {slope}", va="center", color=GREY)
    axes.set(xscale="log", yscale="log", xlabel="1/ε", ylabel="mistakes (episodes)")
    axes.set_xticks(ticks, [f"{x:g}" for x in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.25)
    legend(figure, 2)
    return figure
