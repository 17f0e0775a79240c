"""Counts per step against pooled counts, and stationary policies against the optimum."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from evaluation.formatting import interval, labels, number, span, unseeded
from evaluation.grid import Job, grid
from evaluation.measurements import Values, certificate, full_run, sizes
from evaluation.plotting import GREY, Analysis, dot_plot, legend, new_figure, style
from evaluation.statistics import median
from ucfh.problems import make
from ucfh.theory.quantities import best_stationary

RUNS, CERTIFICATES, POLICIES = "full runs", "certificates", "policies"
HORIZONS = {
    "chain:n=5": (4, 6, 8, 12, 16, 24),
    "riverswim:n=6": (6, 8, 12, 16, 24),
    "tutoring": (2, 4, 6, 8, 12, 16, 24),
    "revenue:stock=6": (2, 4, 6, 8, 12, 16, 24),
    "calls": (2, 4, 6, 8, 12, 16, 24),
}


def stationary(problem: str) -> Values:
    """Return the optimal value and that of the best stationary policy; exact."""
    mdp = make(problem)
    value, policies = best_stationary(mdp)
    optimal = mdp.at_start(mdp.optimal().values)
    return {**sizes(mdp), "optimal": optimal, "stationary": value, "policies": policies}


def jobs(quick: bool = False) -> list[Job]:
    """Return full runs and certificates with both ways to count, and exact policy values."""
    large = "hard:n=4,actions=3,horizon=10,gap=0.25"
    problems = ["chain:n=5", large, "tutoring", "grid:rows=3,cols=3"]
    return [
        *grid(
            full_run, 1 if quick else 6, group=RUNS, delta=0.1, epsilon=0.2,
            per_step=[False, True], problem=problems[:2] if quick else problems,
        ),
        *grid(
            certificate, 1 if quick else 10, group=CERTIFICATES, delta=0.1,
            confidence=["kt", "tight"], per_step=[False, True],
            cases=[
                {"problem": "chain:n=5", "epsilon": 0.2},
                {"problem": large, "epsilon": 0.5},
                {"problem": "tutoring", "epsilon": 0.2},
            ],
        ),
        *grid(stationary, group=POLICIES, problem=[
            f"{name}{',' if ':' in name else ':'}horizon={h}"
            for name, horizons in HORIZONS.items() for h in horizons
        ]),
    ]  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Compare both ways to count run by run, and stationary policies with the optimum."""
    factors = _factors(results[results["group"] != POLICIES])
    policies = results[results["group"] == POLICIES].copy()
    policies["name"] = policies["problem"].map(lambda x: re.split("[:,]", x)[0])
    policies["share"] = 100 * policies["stationary"] / policies["optimal"]
    table = pd.DataFrame({
        "problem": factors["problem"], "measure": factors["kind"],
        "per step / pooled": [interval(x.value, x.low, x.high) for x in factors.itertuples()],
        "H": factors["horizon"].map(number), "Theorem 1": factors["bound"].map(number),
        "m w_min": factors["wait"].map(number), "pairs": factors["pairs"].map(str),
    })  # fmt: skip
    figures = {"stationarity": _policies(policies), "stationarity-counting": _figure(factors)}
    tables = {"factors": table, "policies": _shares(policies)}
    return Analysis(_numbers(factors, policies), tables, figures)


def _factors(results: pd.DataFrame) -> pd.DataFrame:
    """Return ratios of counting per step to pooling, by problem and measure."""
    problem = results["problem"].map(unseeded)
    names = problem.map(labels(problem))
    kind = np.where(results["group"] == RUNS, "mistakes", "certificate, " + results["confidence"])
    cost = results["mistakes"].where(results["group"] == RUNS, results["episodes"])
    results = results.assign(name=names, kind=kind, cost=cost)
    rows = []
    for (kind, name), runs in results.groupby(["kind", "name"], sort=False):
        steps, pooled = (runs[runs["per_step"] == x].set_index("replicate") for x in (True, False))
        ratios = steps["cost"] / pooled["cost"]
        first = {x: steps[x].iloc[0] / pooled[x].iloc[0] for x in ("bound", "m", "w_min")}
        value, low, high = median(ratios)
        ends = (np.nan, np.nan) if len(ratios) < 2 else (low, high)
        rows.append({
            "problem": name, "kind": kind, "value": value, "low": ends[0], "high": ends[1],
            "pairs": len(ratios), "horizon": runs["horizon"].iloc[0], **first,
            "wait": first["m"] * first["w_min"],
        })  # fmt: skip
    return pd.DataFrame(rows)


def _numbers(factors: pd.DataFrame, policies: pd.DataFrame) -> dict[str, Any]:
    mistakes = factors[factors["kind"] == "mistakes"]
    certificates = factors[factors["kind"] != "mistakes"]
    worst = policies.loc[policies["share"].idxmin()]
    ends = policies.loc[policies.groupby("name", sort=False)["horizon"].idxmax()]

    def sides(found: pd.DataFrame) -> dict[str, int]:
        return {
            "all": len(found),
            "above": int((found["low"] > 1).sum()),
            "below": int((found["high"] < 1).sum()),
        }

    return {
        "mistakes": span(mistakes["value"]),
        "bound": span(mistakes["bound"]),
        "certificates": span(certificates["value"]),
        "horizons": span(certificates["horizon"]),
        "mistakes_sides": sides(mistakes),
        "certificates_sides": sides(certificates),
        "m": span(mistakes["m"]),
        "w_min": span(mistakes["w_min"]),
        "wait": span(mistakes["wait"]),
        "in_waits": span(mistakes["value"] / mistakes["wait"]),
        "factor_h": int((certificates["value"] >= certificates["horizon"]).sum()),
        "worst": worst["share"],
        "worst_problem": worst["name"],
        "worst_horizon": worst["horizon"],
        "close": int((ends["share"] >= 99).sum()),
        "problems": len(ends),
        "far": ", ".join(
            f"{x.name} ({number(x.share)}% at H = {x.horizon:.0f})"
            for x in ends[ends["share"] < 99].itertuples(index=False)
        ),
    }


def _percent(share: float) -> str:
    """Round down: less than the optimal value is never shown as 100."""
    return f"{np.floor(100 * share) / 100:.2f}"


def _shares(policies: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for name, of in policies.groupby("name", sort=False):
        worst, end = of.loc[of["share"].idxmin()], of.loc[of["horizon"].idxmax()]
        rows.append({
            "problem": name, "policies": f"{worst['policies']:,.0f}",
            "smallest share, %": _percent(worst["share"]), "at H": number(worst["horizon"]),
            "share at the longest horizon, %": _percent(end["share"]), "H": number(end["horizon"]),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _policies(policies: pd.DataFrame) -> Any:
    figure = new_figure(3.6)
    axes = figure.subplots()
    for k, (name, of) in enumerate(policies.groupby("name", sort=False)):
        axes.plot(of["horizon"], of["share"], ms=5.5, lw=1.6, label=name, **style(k))
    axes.axhline(100, color=GREY, lw=1.2, ls="--", zorder=0)
    ticks = [2, 4, 6, 8, 12, 16, 24]
    axes.set(xscale="log", xlabel="horizon H (steps)", ylabel="share of the optimal value, %")
    axes.set_xticks(ticks, [str(h) for h in ticks])
    axes.minorticks_off()
    axes.grid(alpha=0.2)
    legend(figure, 5)
    return figure


def _figure(factors: pd.DataFrame) -> Any:
    marks = factors[["problem", "kind", "value", "low", "high"]].to_numpy().tolist()
    marks += [
        [x.problem, "H", x.horizon, np.nan, np.nan]
        for x in factors.drop_duplicates("problem").itertuples()
    ]
    marks += [
        [x.problem, "Theorem 1", x.bound, np.nan, np.nan]
        for x in factors.itertuples()
        if x.bound > 0
    ]
    data = pd.DataFrame(marks, columns=["row", "kind", "value", "low", "high"])
    figure = new_figure(1.4 + 0.6 * data["row"].nunique())
    axes = figure.subplots()
    dot_plot(
        axes, data, "counting per step relative to pooling over steps", hollow=["H", "Theorem 1"]
    )
    axes.axvline(1, color=GREY, lw=1, ls="--", zorder=0)
    legend(figure)
    return figure
