"""Epsilon-suboptimal episodes of full runs, against Theorems 1 and 2.

A *mistake* is an episode whose policy is more than epsilon worse than optimal.
"""

from __future__ import annotations

from math import inf
from typing import Any

import pandas as pd

from evaluation.formatting import number, short, span, unseeded
from evaluation.grid import Job, grid
from evaluation.measurements import full_run
from evaluation.plotting import Analysis, dot_plot, legend, new_figure

PROBLEMS = [
    "hard", "chain", "riverswim", "deepsea", "grid", "random", "tutoring", "revenue", "calls",
]  # fmt: skip
QUICK_PROBLEMS = ["hard", "chain", "riverswim", "deepsea", "tutoring", "calls"]
NAMED, RANGE = "Named problems", "Range of Theorem 2"
HARD = "hard:n=1,actions={},horizon={},epsilon={},seed={{replicate}}"
VARIANTS = {"paper": "published", "corrected": "corrected"}


def jobs(quick: bool = False) -> list[Job]:
    """Return runs on all named problems, and on hard ones in the range of Theorem 2.

    These are the largest problems of the hard class for which 64-bit counts suffice.
    """
    replicates = 2 if quick else 10
    return grid(
        full_run, replicates, group=NAMED, problem=QUICK_PROBLEMS if quick else PROBLEMS,
        epsilon=[0.2, 0.05], delta=0.1, variant=["paper", "corrected"],
    ) + grid(
        full_run, replicates, group=RANGE, delta=0.0001,
        cases=[
            {"problem": HARD.format(2, 3, "0.000028"), "epsilon": 0.000028},
            {"problem": HARD.format(8, 10, "0.00022"), "epsilon": 0.00022},
            {"problem": HARD.format(64, 10, "0.00022"), "epsilon": 0.00022},
        ],
    )  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Compare mistakes with both theorems, and with the wait for first updates."""
    results = results.assign(
        problem=results["problem"].map(unseeded),
        variant=results["variant"].map(VARIANTS),
        wait=results["m"] * results["w_min"],
    )
    setting = ["group", "problem", "epsilon", "variant"]
    settings = results.groupby(setting, sort=False).agg(
        mistakes=("mistakes", "median"), fewest=("mistakes", "min"), most=("mistakes", "max"),
        bound=("bound", "median"), lower_bound=("lower_bound", "median"),
        last_mistake=("last_mistake", "max"), episodes=("episodes", "median"),
        wait=("wait", "first"), states=("states", "first"), actions=("actions", "first"),
        replicates=("mistakes", "size"),
    ).reset_index()  # fmt: skip
    made = settings[(settings["mistakes"] > 0) & (settings["mistakes"] < inf)]
    tables = {
        f"{group} {variant}": _table(settings[chosen])
        for group in (NAMED, RANGE)
        for variant in VARIANTS.values()
        if (chosen := (settings["group"] == group) & (settings["variant"] == variant)).any()
    }
    return Analysis(_numbers(results, settings, made), tables, {"mistakes": _figure(settings)})


def _numbers(results: pd.DataFrame, settings: pd.DataFrame, made: pd.DataFrame) -> dict[str, Any]:
    some = results[results["mistakes"] > 0]
    ranged = results[results["lower_bound"].notna()]
    both = made.pivot(
        index=["group", "problem", "epsilon"], columns="variant", values=["wait", "mistakes"]
    ).dropna()
    waits = both["wait", "published"] / both["wait", "corrected"]
    mistakes = both["mistakes", "published"] / both["mistakes", "corrected"]
    none = settings[settings["most"] == 0]
    return {
        "runs": len(results),
        "over": int((results["mistakes"] > results["bound"]).sum()),
        "bound_ratio": span(some["bound"] / some["mistakes"], 2),
        "left": int((~results["captured"]).sum()),
        "without": ", ".join(
            dict.fromkeys(f"{x.problem} (ε = {x.epsilon:g})" for x in none.itertuples())
        ),
        "waits": span(made["mistakes"] / made["wait"]),
        "longer_than_wait": int(
            (made["mistakes"] > made["wait"] * made["states"] * made["actions"]).sum()
        ),
        "wait_ratio": span(waits, 2),
        "wait_difference": 100 * (mistakes / waits - 1).abs().max(),
        "both": len(both),
        "ranged": ranged["problem"].nunique(),
        "lower_bound": span(ranged["lower_bound"]),
        "ranged_mistakes": span(ranged["mistakes"]),
        "least_ratio": (ranged["mistakes"] / ranged["lower_bound"]).min(),
        "last_mistake": some["last_mistake"].max(),
        "final_ratio": span(some["episodes"] / some["last_mistake"], 2),
        "replicates": span(settings["replicates"]),
        "spread": (made["most"] / made["fewest"]).max(),
    }


def _table(settings: pd.DataFrame) -> pd.DataFrame:
    rows = []
    for x in settings.itertuples():
        ends = span([x.fewest, x.most])
        rows.append({
            "problem": short(x.problem), "ε": number(x.epsilon),
            "mistakes (range)": number(x.mistakes) + (f" ({ends})" if " to " in ends else ""),
            "Theorem 1": number(x.bound),
            "Theorem 1 / mistakes": number(x.bound / x.mistakes, 2) if x.mistakes else "-",
            "Theorem 2": number(x.lower_bound),
            "last mistake": number(x.last_mistake),
            "final after": number(x.episodes),
        })  # fmt: skip
    table = pd.DataFrame(rows)
    return table if settings["lower_bound"].notna().any() else table.drop(columns="Theorem 2")


def _figure(settings: pd.DataFrame) -> Any:
    marks = []
    for x in settings.itertuples():
        row = f"{short(x.problem)}, ε={x.epsilon:g}"
        marks += [
            (row, f"mistakes, {x.variant} constants", x.mistakes, x.fewest, x.most),
            (row, f"Theorem 1, {x.variant} constants", x.bound, x.bound, x.bound),
        ]
        if x.lower_bound == x.lower_bound:
            marks.append((row, "Theorem 2", *3 * [x.lower_bound]))
    data = pd.DataFrame(marks, columns=["row", "kind", "value", "low", "high"])
    figure = new_figure(1.4 + 0.24 * data["row"].nunique())
    bounds = [kind for kind in data["kind"].unique() if kind.startswith("Theorem 1")]
    dot_plot(figure.subplots(), data, "episodes", hollow=bounds)
    legend(figure, 2)
    return figure
