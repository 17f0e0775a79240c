"""Stopping-rule benchmark: episodes until an algorithm stops, and the lower bound for any rule."""

from __future__ import annotations

from inspect import signature
from math import log
from typing import Any

import numpy as np
import pandas as pd

from evaluation.formatting import labels, number, span
from evaluation.grid import Job, grid
from evaluation.measurements import Values, sizes
from evaluation.plotting import GREY, Analysis, dot_plot, legend, new_figure, style
from evaluation.statistics import largest_share, median
from ucfh._utils.plugins import read_arguments
from ucfh.algorithms.registry import make_agent
from ucfh.mdp import MDP, Problem
from ucfh.problems import make
from ucfh.problems.paper import hard
from ucfh.simulation.result import TOLERANCE
from ucfh.simulation.runner import simulate
from ucfh.theory.constants import constants_of
from ucfh.theory.lower_bounds import episode_lower_bound, hard_class_lower_bound

CERTIFIED = [
    f"certified-ucfh:confidence={name}"
    for name in ("tight", "kt", "kt-ball", "kl", "kl-ball", "paper", "l1")
]
GROWTH = [
    f"{name}:schedule=growth"
    for name in ("bpi-ucrl", "fiechter", "rf-ucrl", "bpi-ucbvi", "rf-express")
]
KNOWN = [
    {"problem": "hard:n=1,actions=2,horizon=3,gap=0.25", "epsilon": 0.1},
    {"problem": "hard:n=4,actions=3,horizon=10,gap=0.25", "epsilon": 0.2},
    {"problem": "chain:n=3,horizon=3", "epsilon": 0.1},
    {"problem": "chain:n=5", "epsilon": 0.05},
    {"problem": "random:states=6,actions=2,successors=3,horizon=5,seed=0", "epsilon": 0.05},
    {"problem": "calls", "epsilon": 0.02},
    {"problem": "tutoring", "epsilon": 0.02},
    {"problem": "riverswim", "epsilon": 0.2},
    {"problem": "grid:rows=3,cols=3", "epsilon": 0.5},
]
UNKNOWN = [
    {"problem": "deepsea:n=4", "epsilon": 0.2, "rewards": "unknown"},
    {"problem": "chain:n=3,horizon=3,slip=0", "epsilon": 0.1, "rewards": "unknown"},
]
"""Deterministic problems with unknown rewards, drawn as 0 or 1."""

LEAD = "certified-ucfh tight"
BOUND, LOWER = "UCFH: bound of Theorem 1", "lower bound"


def _shown(problem: str, rewards: str) -> tuple[MDP, Problem]:
    """Return the MDP and what is known of it; unknown rewards are noisy, or one visit suffices."""
    mdp = make(problem)
    if rewards == "known":
        return mdp, mdp.problem
    return mdp.noisy(), mdp.problem.hiding("rewards")


def run_stopping_rule(
    problem: str,
    agent: str,
    epsilon: float,
    delta: float,
    max_episodes: int = 1_000_000,
    rewards: str = "known",
    *,
    seed: int,
) -> Values:
    """Run an agent until its policy is final; with a generative model, until it has its samples."""
    mdp, known = _shown(problem, rewards)
    made = make_agent(agent, mdp, epsilon, delta, max_episodes, seed, problem=known)
    run = simulate(mdp, made, max_episodes, seed)
    return {
        **sizes(mdp),
        "episodes": run.episodes,
        "samples": made.samples,
        "certified": run.final,
        "optimal": run.optimal,
        "value": run.value,
    }


def bound_episodes(problem: str, epsilon: float, delta: float, rewards: str = "known") -> Values:
    """Return exact bounds on the number of episodes.

    ``lower_bound``: on the expected number of episodes of any valid rule. ``class_lower_bound``: of
    the same on the worst problem of the paper's hard class. ``bound``: on the mistakes of UCFH, by
    Theorem 1.
    """
    mdp, known = _shown(problem, rewards)
    all_known, class_lower_bound = rewards == "known", None
    if all_known and problem.startswith("hard:"):
        named = signature(hard).bind(**read_arguments("hard", hard, problem[5:])[1])
        named.apply_defaults()
        n, actions, horizon, gap, bias = (
            named.arguments[x] for x in ("n", "actions", "horizon", "gap", "bias")
        )
        class_lower_bound = hard_class_lower_bound(n, actions, horizon, epsilon, delta, gap, bias)
    return {
        **sizes(mdp),
        "lower_bound": episode_lower_bound(mdp, epsilon, delta, known).episodes,
        "class_lower_bound": class_lower_bound,
        "bound": constants_of(known, epsilon, delta, "paper").episode_bound if all_known else None,
    }


def jobs(quick: bool = False) -> list[Job]:
    """Return runs of all rules; reveliotis, which simulates every episode, has a lower limit."""

    def rules(replicates: int, agent: Any, cases: Any, limit: int = 10**15) -> list[Job]:
        return grid(
            run_stopping_rule,
            replicates,
            cases,
            "rules",
            delta=0.1,
            max_episodes=limit,
            agent=agent,
        )

    online = [*CERTIFIED, *GROWTH, "phased-q", "indirect", "azar"]
    small, river = [KNOWN[0], KNOWN[2]], KNOWN[7]
    if quick:
        return [
            *grid(bound_episodes, cases=[*small, river, UNKNOWN[0]], group="bounds", delta=0.1),
            *rules(2, online, [*small, river]),
            *rules(2, "reveliotis", small, 10_000_000),
            *rules(1, "reveliotis", [river], 100_000),
            *rules(2, ["eprl", CERTIFIED[0]], UNKNOWN[:1]),
        ]
    large = [case for case in KNOWN if case not in small]
    return [
        *grid(bound_episodes, cases=[*KNOWN, *UNKNOWN], group="bounds", delta=0.1),
        *rules(20, online, KNOWN),
        *rules(20, "reveliotis", small, 10_000_000),
        *rules(6, "reveliotis", large, 10_000_000),
        *rules(20, ["eprl", *CERTIFIED], UNKNOWN),
    ]


def analyze(results: pd.DataFrame) -> Analysis:
    """Rank the rules, and compare them with the lower bound and the bound of Theorem 1."""
    names = labels(results["problem"])
    unknown = np.where(results["rewards"] == "unknown", " (unknown rewards)", "")
    results = results.assign(name=results["problem"].map(names) + unknown)
    bounds = results[results["group"] == "bounds"].set_index("name")
    runs = results[results["group"] == "rules"].copy()
    runs["rule"] = (
        runs["agent"].str.replace(":confidence=", " ").str.replace(":schedule=growth", "")
    )
    runs["cost"] = (runs["episodes"] + runs["samples"] / runs["horizon"]).clip(lower=1)
    runs["loss"] = (runs["optimal"] - runs["value"]).clip(lower=0)
    runs["wrong"] = runs["certified"].astype(bool) & (runs["loss"] > runs["epsilon"] + TOLERANCE)
    scores = _scores(runs, bounds)
    behind = np.log(scores["value"] / scores.groupby("name")["value"].transform("min"))
    order = list(behind.groupby(scores["rule"]).median().sort_values(kind="stable").index)
    tables = {
        "medians": _medians(scores, bounds, order),
        "problems": _problems(scores, bounds),
        "rules": _rules(runs, scores, order),
    }
    numbers = _numbers(runs, scores, bounds)
    return Analysis(numbers, tables, {"stopping_rules": _figure(scores, bounds, order)})


def _scores(runs: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    """Return the median, its interval and the distance to the lower bound, by problem and rule."""
    rows = []
    for (name, rule), of in runs.groupby(["name", "rule"], sort=False):
        value, low, high = median(of["cost"])
        stopped, sampled = of["certified"].mean(), bool(of["samples"].max() > 0)
        lower_bound = bounds.at[name, "lower_bound"] if name in bounds.index else np.nan
        # the lower bound is about rules that know less than these two kinds
        comparable = lower_bound >= 1 and stopped == 1 and not sampled and rule != "reveliotis"
        rows.append({
            "name": name, "rule": rule, "value": value, "low": low, "high": high,
            "cut": stopped <= 0.5, "sampled": sampled,
            "distance": of["cost"].mean() / lower_bound if comparable else np.nan,
        })  # fmt: skip
    scores = pd.DataFrame(rows)
    fewest = scores["value"].where(~scores["cut"]).groupby(scores["name"]).transform("min")
    return scores.assign(first=scores["value"] == fewest)


def _numbers(runs: pd.DataFrame, scores: pd.DataFrame, bounds: pd.DataFrame) -> dict[str, Any]:
    lead = scores[scores["rule"] == LEAD].set_index("name")
    others = scores[scores["rule"] != LEAD].groupby("name")["low"].min()
    ratio = scores["value"] / scores["name"].map(lead["value"])
    foreign = ~scores["rule"].str.startswith("certified") & ~scores["sampled"] & ~scores["cut"]
    ratios = {rule: span(x, 2) for rule, x in ratio[foreign].groupby(scores["rule"])}
    lower_bounds = bounds["lower_bound"][bounds["lower_bound"] >= 1]
    stops = runs[runs["certified"].astype(bool)]
    shares = [largest_share(int(x["wrong"].sum()), len(x)) for _, x in stops.groupby("rule")]
    sampled = runs[runs["samples"] > 0]["samples"]
    cut = runs[~runs["certified"].astype(bool)]
    return {
        "problems": len(bounds),
        "rules": scores["rule"].nunique(),
        "first": int(lead["first"].sum()),
        "medians": span(lead["value"]),
        "separated": int((lead["high"] < others.reindex(lead.index)).sum()),
        "ratio": ratios,
        "lower_bounds": len(lower_bounds),
        "lower_bound": span(lower_bounds, 2),
        "distance": span(lead["distance"], 2),
        "bound_distance": span((bounds["bound"] / lower_bounds).dropna(), 2),
        "class_lower_bound": dict(bounds["class_lower_bound"].dropna()),
        "stops": len(stops),
        "wrong": int(stops["wrong"].sum()),
        "largest_loss": 100 * (stops["loss"] / stops["epsilon"]).max(),
        "share": max(shares),
        "samples": span(sampled),
        "cut": len(cut),
        "cut_rules": ", ".join(cut["rule"].unique()),
    }


def _medians(scores: pd.DataFrame, bounds: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    text = scores["value"].map(number).where(~scores["cut"], "> " + scores["value"].map(number))
    wide = scores.assign(text=text).pivot(index="rule", columns="name", values="text")
    wide = wide.reindex(index=order, columns=list(dict.fromkeys(scores["name"]))).fillna("-")
    ends = bounds.reindex(wide.columns)
    wide.loc[LOWER] = [number(x, 2) for x in ends["lower_bound"]]
    wide.loc[BOUND] = [number(x) for x in ends["bound"]]
    return wide.reindex([LOWER, *order, BOUND]).reset_index()


def _problems(scores: pd.DataFrame, bounds: pd.DataFrame) -> pd.DataFrame:
    first = scores[scores["first"]].drop_duplicates("name").set_index("name")
    return pd.DataFrame([
        {
            "problem": f"{name}, ε={x.epsilon:g}", "lower bound": number(x.lower_bound, 2),
            "first": first.at[name, "rule"],
            "episodes": f"{number(first.at[name, 'value'])} ({number(first.at[name, 'low'])} to "
            f"{number(first.at[name, 'high'])})",
            "mean / lower bound": number(first.at[name, "distance"], 2), BOUND: number(x.bound),
        }
        for name, x in zip(bounds.index, bounds.itertuples(), strict=True)
    ])  # fmt: skip


def _rules(runs: pd.DataFrame, scores: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    rows = []
    for rule in order:
        of, score = runs[runs["rule"] == rule], scores[scores["rule"] == rule]
        stops, wrong = int(of["certified"].sum()), int(of["wrong"].sum())
        rows.append({
            "rule": rule, "stopped": f"{stops} of {len(of)}", "wrong": str(wrong),
            "at most, %": number(100 * largest_share(wrong, stops), 2) if stops else "-",
            "mean / lower bound": span(score["distance"], 2),
        })  # fmt: skip
    return pd.DataFrame(rows)


def _figure(scores: pd.DataFrame, bounds: pd.DataFrame, order: list[str]) -> Any:
    data = scores.assign(kind=scores["rule"], row=scores["name"].str.replace(" (", "\n("))
    names = list(dict.fromkeys(scores["name"]))
    figure = new_figure(2.2 + 0.7 * len(names))
    axes = figure.subplots()
    limits = bounds.reindex(names)[["lower_bound", "bound"]]
    dot_plot(
        axes, data, "episodes until the rule stops", order, set(scores[scores["sampled"]]["rule"])
    )
    for column, color, width, label in (
        ("lower_bound", "black", 3, LOWER),
        ("bound", GREY, 1.5, BOUND),
    ):
        at = [i for i, x in enumerate(limits[column]) if x >= 1]
        x = limits[column].iloc[at]
        axes.vlines(x, np.array(at) - 0.4, np.array(at) + 0.4, color=color, lw=width, label=label)
    axes.set_xlim(1, 5 * np.nanmax(limits["bound"]))
    cut = scores[scores["cut"]]
    for x in cut.itertuples():
        k = order.index(x.rule)
        y = names.index(x.name) + 0.8 * ((k + 0.5) / len(order) - 0.5)
        arrow = {"arrowstyle": "->", "color": style(k)["color"]}
        axes.annotate("", (12 * x.value, y), (x.value, y), arrowprops=arrow)
    ticks = range(0, int(log(np.nanmax(limits["bound"]), 10)) + 1, 3)
    axes.set_xticks([10.0**k for k in ticks], [f"$10^{{{k}}}$" if k else "1" for k in ticks])
    legend(figure)
    return figure
