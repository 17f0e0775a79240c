"""The lemmas and the theorem, each predicted and measured over full runs."""

from __future__ import annotations

from dataclasses import asdict
from math import isinf
from textwrap import fill
from typing import Any

import numpy as np
import pandas as pd

from evaluation.formatting import labels, number
from evaluation.grid import Job, grid
from evaluation.measurements import Values
from evaluation.plotting import GREY, Analysis, dot_plot, legend, new_figure
from evaluation.statistics import largest_share
from ucfh.problems import make
from ucfh.simulation.verification import verify
from ucfh.theory.constants import Variant

VARIANTS = {"paper": "published", "corrected": "corrected"}


def check_claims(
    problem: str,
    epsilon: float,
    delta: float,
    variant: Variant = "corrected",
    runs: int = 10,
    *,
    seed: int,
) -> Values:
    """Measure every claim; an infinite measurement is stored as null."""
    lines = [
        asdict(x) for x in verify(make(problem), epsilon, delta, variant, runs=runs, seed=seed)
    ]
    return {"lines": [x | {"measured": None} if isinf(x["measured"]) else x for x in lines]}


def jobs(quick: bool = False) -> list[Job]:
    """Return the claims on four problems; quick: on two, with two runs."""
    small = ["chain:n=5", "riverswim:n=4,horizon=6"]
    cases = [
        {"problem": small, "runs": 10},
        {"problem": "hard:n=3,actions=2,horizon=5,gap=0.25", "runs": 10},
        {"problem": "tutoring", "runs": 2},
    ]
    return grid(
        check_claims, cases=[{"problem": small, "runs": 2}] if quick else cases,
        delta=0.1, epsilon=0.2, variant=["paper", "corrected"],
    )  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Count the claims that hold, and divide predictions by measurements."""
    names = labels(results["problem"])
    claims = pd.DataFrame([
        {"problem": names[x.problem], "variant": VARIANTS[x.variant], "runs": x.runs, **line}
        for x in results.itertuples() for line in x.lines
    ])  # fmt: skip
    claims["measured"] = claims["measured"].astype(float).fillna(np.inf)
    with np.errstate(divide="ignore", invalid="ignore"):
        claims["margin"] = claims["predicted"].to_numpy(float) / claims["measured"].to_numpy()
    return Analysis(
        _numbers(results, claims), {"claims": _table(claims)}, {"claims": _figure(claims)}
    )


def _numbers(results: pd.DataFrame, claims: pd.DataFrame) -> dict[str, Any]:
    proved, published = claims[claims["proved"]], claims[~claims["proved"]]
    failed = published[~published["holds"].astype(bool)]
    positive = proved[(proved["margin"] > 0) & (proved["margin"] < np.inf)]
    captured = claims[claims["claim"].str.startswith("Lemma 1")]
    missed = int((captured["measured"] * captured["runs"]).round().sum())
    return {
        "runs": int(results["runs"].sum()),
        "problems": results["problem"].nunique(),
        "proved": len(proved),
        "proved_failed": int((~proved["holds"].astype(bool)).sum()),
        "published": len(published),
        "failed": failed.sort_values("margin").to_dict("records"),
        "tight": positive.loc[positive["margin"].idxmin()].to_dict(),
        "loose": positive.loc[positive["margin"].idxmax()].to_dict(),
        "missed": missed,
        "missed_share": largest_share(missed, int(captured["runs"].sum())),
        "missed_allowed": captured["predicted"].max(),
    }


def _table(claims: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for claim, of in claims.groupby("claim", sort=False):
        row = {"claim": claim}
        for variant, some in of.groupby("variant", sort=False):
            known = some[some["margin"].notna()]
            star = "" if some["proved"].all() else "*"
            row[f"{variant}: holds"] = f"{some['holds'].sum()} of {len(some)}{star}"
            row[f"{variant}: smallest margin"] = number(known["margin"].min())
        rows.append(row)
    return pd.DataFrame(rows)


def _figure(claims: pd.DataFrame) -> Any:
    data = claims[claims["margin"].notna()].rename(columns={"margin": "value"})
    data = data.assign(
        row=data["claim"].map(lambda x: fill(x, 30)), kind=data["variant"] + " constants"
    )
    figure = new_figure(1.3 + 0.5 * data["row"].nunique())
    axes = figure.subplots()
    dot_plot(
        axes, data, "predicted / measured (grey: the claim is exceeded)", hollow=list(data["kind"])
    )
    left = min(axes.get_xlim()[0], 0.5)
    axes.set_xlim(left=left)
    axes.axvspan(left, 1, color=GREY, alpha=0.15, lw=0)
    axes.tick_params(axis="y", labelsize=8)
    legend(figure, 2)
    return figure
