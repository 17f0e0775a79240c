"""Episodes until a policy is certified, by confidence set and by epsilon."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evaluation.formatting import interval, labels, number, span, unseeded
from evaluation.grid import Job, grid
from evaluation.measurements import certificate
from evaluation.plotting import GREY, Analysis, dot_plot, legend, new_figure, style
from evaluation.statistics import exponent, median
from ucfh._utils.statistics import ranking
from ucfh.simulation.result import TOLERANCE
from ucfh.theory.constants import constants

SETS = ["paper", "kl", "l1", "kl-ball", "kt", "kt-ball", "tight"]
METHODS, ACCURACY = "methods", "accuracy"


def jobs(quick: bool = False) -> list[Job]:
    """Return runs with each set on seven problems, and with two sets over several epsilon."""
    replicates = 2 if quick else 20
    random = "random:states=12,actions=3,successors=4,horizon=8,seed={replicate}"
    return grid(
        certificate, replicates, group=METHODS, delta=0.1,
        confidence=["kl", "kt", "tight"] if quick else SETS,
        cases=[
            {"problem": "chain:n=5", "epsilon": 0.2},
            {"problem": "riverswim", "epsilon": 0.2},
            {"problem": "hard:n=4,actions=3,horizon=10,gap=0.25", "epsilon": 0.5},
            {"problem": "tutoring", "epsilon": 0.1},
            {"problem": "calls", "epsilon": 0.1},
            {"problem": "grid:rows=3,cols=3", "epsilon": 0.5},
            {"problem": random, "epsilon": 0.5},
        ],
    ) + grid(
        certificate, replicates, group=ACCURACY, delta=0.1, confidence=["kt", "tight"],
        problem=["tutoring", "riverswim"],
        epsilon=[0.4, 0.2, 0.1] if quick else [0.4, 0.2, 0.1, 0.05, 0.025],
    )  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Count episodes to the certificate, check what is certified, and fit powers of 1/epsilon."""
    problem = results["problem"].map(unseeded)
    results = results.assign(name=problem.map(labels(problem)))
    methods = results[results["group"] == METHODS]
    methods = methods.assign(name=methods["name"] + ", ε=" + methods["epsilon"].map("{:g}".format))
    accuracy = results[results["group"] == ACCURACY]
    fits = _fits(accuracy)
    by = methods.groupby(["name", "confidence"], sort=False)
    medians = by["episodes"].median().unstack(sort=False)
    table = medians.map(number)
    cut = by["certified"].mean().unstack(sort=False) <= 0.5
    table = table.mask(cut, "> " + table).reset_index().rename(columns={"name": "problem"})
    finer = accuracy.groupby(["name", "confidence", "epsilon"], sort=False)["episodes"].median()
    wide = finer.unstack(sort=False).map(number).rename(columns="ε={:g}".format)
    wide["power of 1/ε"] = [interval(*(round(x, 2) for x in fits[key][0])) for key in wide.index]
    wide["at the end"] = [number(round(fits[key][1], 2)) for key in wide.index]
    tables = {"methods": table, "accuracy": wide.reset_index().rename(columns={"name": "problem"})}
    figures = {"certificates": _figure(methods), "certificates-accuracy": _lines(accuracy, fits)}
    return Analysis(_numbers(results, methods, medians, fits), tables, figures)


def _fits(accuracy: pd.DataFrame) -> dict[Any, Any]:
    """Return the power over all epsilon, and between the two smallest, by problem and set."""
    found = {}
    for key, runs in accuracy.groupby(["name", "confidence"], sort=False):
        samples = runs.groupby(1 / runs["epsilon"])["episodes"].apply(list)
        x, y = list(samples.index), list(samples)
        found[key] = exponent(x, y), exponent(x[-2:], y[-2:]).value
    return found


def _numbers(
    results: pd.DataFrame, methods: pd.DataFrame, medians: pd.DataFrame, fits: dict[Any, Any]
) -> dict[str, Any]:
    certified = results[results["certified"]]
    loss = (certified["optimal"] - certified["value"]).clip(lower=0)
    wrong = (results["upper"] < results["optimal"] - TOLERANCE) | (
        results["lower"] > results["value"] + TOLERANCE
    )
    first = medians.idxmin(axis=1) == "tight"
    second = medians.drop(columns="tight").min(axis=1) / medians["tight"]
    clear = 0
    for _, runs in methods.groupby("name"):
        episodes = {
            confidence: dict(zip(x["replicate"], x["episodes"], strict=True))
            for confidence, x in runs.groupby("confidence")
        }
        clear += next(place.last for place in ranking(episodes) if place.agent == "tight") == 1
    bounds = [
        constants(
            int(x.states), int(x.actions), int(x.horizon), x.epsilon, x.delta, int(x.successors)
        ).episode_bound
        for x in certified.itertuples()
    ]
    return {
        "runs": len(results),
        "problems": len(medians),
        "first": int(first.sum()),
        "medians": span(medians["tight"][first]),
        "ahead": span(second[first], 2),
        "significant": clear,
        "replicates": methods["replicate"].max() + 1,
        "certified": len(certified),
        "worse": int((loss > certified["epsilon"] + TOLERANCE).sum()),
        "wrong_bounds": int(wrong.sum()),
        "half_lose": 100 * (loss / certified["epsilon"]).median(),
        "theorem": span(bounds),
        "theorem_ratio": float((np.array(bounds) / certified["episodes"]).min()),
        "power": {
            f"{k} on {n}": interval(*(round(x, 2) for x in f)) for (n, k), (f, _) in fits.items()
        },
        "last_power": span(round(last, 2) for _, last in fits.values()),
    }


def _figure(methods: pd.DataFrame) -> Any:
    rows = [
        (name, confidence, *median(episodes))
        for (name, confidence), episodes in methods.groupby(["name", "confidence"], sort=False)[
            "episodes"
        ]
    ]
    data = pd.DataFrame(rows, columns=["row", "kind", "value", "low", "high"])
    figure = new_figure(1.3 + 0.62 * data["row"].nunique())
    dot_plot(figure.subplots(), data, "episodes to the certificate")
    legend(figure, 4)
    return figure


def _lines(accuracy: pd.DataFrame, fits: dict[Any, Any]) -> Any:
    figure = new_figure(4.2)
    axes = figure.subplots()
    for k, (key, runs) in enumerate(accuracy.groupby(["name", "confidence"], sort=False)):
        found = runs.groupby(1 / runs["epsilon"])["episodes"].apply(lambda x: median(list(x)))
        low, high = [x.low for x in found], [x.high for x in found]
        axes.vlines(found.index, low, high, color=style(k)["color"])
        label = f"{key[0]}, {key[1]}: power {number(fits[key][0].value, 2)}"
        axes.plot(found.index, [x.value for x in found], lw=1, ms=5, label=label, **style(k))
    x = np.array(sorted(1 / accuracy["epsilon"].unique()))
    top = 1.6 * (accuracy["episodes"] * accuracy["epsilon"] ** 2).max()
    axes.plot(x, top * x**2, "--", color=GREY, lw=1, label="power 2")
    axes.set(xscale="log", yscale="log", ylabel="episodes to the certificate")
    axes.set_xticks(x, [f"{1 / point:.3g}" for point in x])
    axes.minorticks_off()
    axes.set_xlabel("ε (smaller to the right)")
    axes.grid(alpha=0.25)
    legend(figure, 2)
    return figure
