"""Mistakes with other confidence sets, against the set with all three published conditions."""

from __future__ import annotations

from math import isfinite, log
from typing import Any

import numpy as np
import pandas as pd

from evaluation.formatting import interval, labels, number, span, unseeded
from evaluation.grid import Job, grid
from evaluation.measurements import full_run
from evaluation.plotting import GREY, Analysis, dot_plot, legend, new_figure
from evaluation.statistics import LEVEL, ratio_of_means
from ucfh._utils.statistics import holm, signed_rank
from ucfh.theory.constants import constants

FULL = "paper"
SETS = {
    "without-hoeffding": "without (i)",
    "without-bernstein": "without (ii)",
    "without-deviation": "without (iii)",
    "kl": "KL set",
    FULL: "corrected constants",
}
TRUE, SMALL = 1.0, 1e-6
"""Factors of m."""


def jobs(quick: bool = False) -> list[Job]:
    """Return full runs with each set, with the true m and with a millionth of it."""
    sets = [FULL, "without-hoeffding", "without-bernstein", "without-deviation", "kl"]
    random = "random:states=8,actions=4,successors=4,horizon=8,seed={replicate}"
    return [
        job
        for factor, replicates, variants, gap in (
            (TRUE, 20, ["paper", "corrected"], 0.25),
            (SMALL, 40, ["paper"], 0.05),
        )
        for job in grid(
            full_run, 2 if quick else replicates, delta=0.1, epsilon=0.1, m_factor=factor,
            confidence=sets, variant=variants,
            cases=[
                {"problem": "chain:n=5"},
                {"problem": f"hard:n=4,actions=3,horizon=10,gap={gap}"},
                {"problem": "tutoring"},
                {"problem": random},
            ],
        )
    ]  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Compare each set with the full one of the same constants, by problem and replicate."""
    problem = results["problem"].map(unseeded)
    results = results.assign(
        name=problem.map(labels(problem)), wait=results["m"] * results["w_min"]
    )
    compared = pd.concat([_compare(results, factor) for factor in (TRUE, SMALL)])
    tables = {
        "true": _table(results, compared, TRUE, percent=True),
        "small": _table(results, compared, SMALL, percent=False),
    }
    return Analysis(_numbers(results, compared), tables, {"conditions": _figure(compared)})


def _compare(results: pd.DataFrame, factor: float) -> pd.DataFrame:
    """Return ratios of means, and signed-rank tests with Holm's correction.

    The full set with corrected constants is compared with the full set with published ones.
    """
    rows = []
    runs = results[results["m_factor"] == factor]
    for (name, variant, confidence), one in runs.groupby(
        ["name", "variant", "confidence"], sort=False
    ):
        base = (runs["name"] == name) & (runs["confidence"] == FULL)
        base &= runs["variant"] == ("paper" if confidence == FULL else variant)
        if confidence == FULL and variant == "paper":
            continue
        pairs = one.merge(runs[base], on="replicate", suffixes=("", "_full"))
        test = signed_rank(pairs["mistakes"] - pairs["mistakes_full"])
        ratio = ratio_of_means(pairs["mistakes"], pairs["mistakes_full"])
        rows.append((factor, name, variant, confidence, *ratio, test.p, test.side))
    columns = ["m_factor", "name", "variant", "confidence", "value", "low", "high", "p", "side"]
    found = pd.DataFrame(rows, columns=columns)
    found["p"] = holm(found["p"].to_numpy())
    found["significant"] = (found["p"] <= 1 - LEVEL) & ((found["value"] - 1) * found["side"] >= 0)
    return found


def _numbers(results: pd.DataFrame, compared: pd.DataFrame) -> dict[str, Any]:
    sets = compared[compared["confidence"] != FULL]
    true, small = sets[sets["m_factor"] == TRUE], sets[sets["m_factor"] == SMALL]
    corrected = compared[compared["confidence"] == FULL]
    full = results[(results["confidence"] == FULL) & (results["m_factor"] == TRUE)]
    waits = full.groupby(["name", "variant"])["wait"].first().unstack()
    ratio = waits["corrected"] / waits["paper"]
    slow = results[results["m_factor"] == TRUE]["wait"]
    fast = results[results["m_factor"] == SMALL]
    # Bernstein's condition at p = 0: 7 L/(3 n) < sqrt(L/(2 n)) with L = ln(6/delta_1)
    crossing = [
        98 / 9 * log(6 / constants(S, A, H, x.epsilon, x.delta, C).delta_1)
        for x in fast.drop_duplicates("name").itertuples()
        for S, A, H, C in [map(int, (x.states, x.actions, x.horizon, x.successors))]
    ]
    return {
        "runs": len(results),
        "true_change": 100 * (true["value"] - 1).abs().max(),
        "true_significant": int(true["significant"].sum()),
        "small": {
            confidence: {
                "significant": int(x["significant"].sum()),
                "cases": len(x),
                "ratio": span(x["value"]),
                "significant_ratio": span(x.loc[x["significant"], "value"]),
            }
            for confidence, x in small.groupby("confidence")
        },
        "visits": span(slow),
        "width": 1 / np.sqrt(slow.min()),
        "corrected": span(corrected["value"]),
        "corrected_wait": span(ratio),
        "corrected_difference": 100
        * (corrected.set_index("name")["value"] / ratio - 1).abs().max(),
        "small_visits": span(fast["wait"]),
        "crossing": span(crossing),
        "tightness": {str(f): _tightness(results, f) for f in (TRUE, SMALL)},
        "left": int((~results["captured"]).sum()),
    }


def _tightness(results: pd.DataFrame, factor: float) -> dict[str, str]:
    """Return, by set, |V~ - V| of the final policy relative to the full set: medians."""
    runs = results[results["m_factor"] == factor]
    off = runs.groupby(["name", "variant", "confidence"])["off"].median().unstack()
    return {name: span(off[name] / off[FULL]) for name in off if name != FULL}


def _table(
    results: pd.DataFrame, compared: pd.DataFrame, factor: float, percent: bool
) -> pd.DataFrame:
    runs = results[(results["m_factor"] == factor) & (results["confidence"] == FULL)]
    rows = []
    for (name, variant), full in runs.groupby(["name", "variant"], sort=False):
        constants_name = {"paper": "published"}.get(variant, variant)
        row = {
            "problem": name,
            "constants": constants_name,
            "full set": number(full["mistakes"].mean()),
        }
        found = compared[(compared["m_factor"] == factor) & (compared["name"] == name)]
        for x in found[(found["variant"] == variant) & (found["confidence"] != FULL)].itertuples():
            ends = [f"{100 * (end - 1):+z.2f}" for end in (x.value, x.low, x.high)]
            text = ends[0] + (f" ({ends[1]} to {ends[2]})" if isfinite(x.low) else "")
            text = text if percent else interval(x.value, x.low, x.high)
            row[SETS[x.confidence]] = text + "*" * x.significant
        rows.append(row)
    return pd.DataFrame(rows)


def _figure(compared: pd.DataFrame) -> Any:
    data = compared.rename(columns={"name": "row"}).assign(kind=compared["confidence"].map(SETS))
    data = data[(data["variant"] == "paper") | (data["confidence"] == FULL)]
    figure = new_figure(6.2)
    panels = figure.subplots(2, 1)
    for axes, factor, title in zip(panels, (TRUE, SMALL), ("true m", "m/$10^6$"), strict=True):
        chosen = data[data["m_factor"] == factor]
        dot_plot(axes, chosen, "", list(SETS.values()))
        axes.axvline(1, color=GREY, lw=1, ls="--", zorder=0)
        axes.set_title(title, loc="left", fontsize=10)
    panels[1].set_xlabel("mean mistakes relative to the full published set")
    legend(figure)
    return figure
