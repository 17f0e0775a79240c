"""UCFH and other algorithms: regret and mistakes over 100,000 episodes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from evaluation.formatting import labels, number, span, unseeded
from evaluation.grid import Job, grid
from evaluation.measurements import Values
from evaluation.plotting import GREY, Analysis, dot_plot, legend, new_figure, powers_of_ten, style
from evaluation.statistics import median
from ucfh._utils.statistics import NOISE, ranking
from ucfh.algorithms.registry import agent_class
from ucfh.comparison.result import Failure, grid_of
from ucfh.comparison.runner import SeedRun, makers, run_job
from ucfh.exceptions import InputError
from ucfh.problems import make
from ucfh.simulation.result import TOLERANCE

AGENTS = [
    "ucfh", "certified-ucfh",
    "rmax", "kakade", "mbie", "mbie-eb", "delayed-q", "ucrl2", "mormax", "beb", "auer-ortner",
    "fiechter", "reveliotis", "phased-q", "indirect", "azar",
    "psrl", "ucbvi-ch", "ucbvi-bf", "ubev", "orlc", "euler", "mvp", "ucb-h", "ucb-b", "bpi-ucbvi",
    "bpi-ucrl", "opsrl", "eqo", "rlsvi", "bayes-ucbvi", "q-early-settled", "epsilon-greedy",
    "uniform",
]  # fmt: skip
QUICK_AGENTS = [
    "ucfh", "certified-ucfh", "rmax", "mbie", "ucrl2", "psrl", "ucbvi-bf", "ubev", "euler", "ucb-h",
    "epsilon-greedy", "uniform",
]  # fmt: skip
HIGHLIGHTED = ("ucfh", "certified-ucfh", "psrl", "ucrl2", "ucbvi-bf", "eqo", "ucb-h", "uniform")
CURVE_POINTS = 50


def run_baseline(
    problem: str,
    agent: str,
    episodes: int,
    epsilon: float,
    delta: float,
    scale: float = 1.0,
    *,
    seed: int,
) -> Values:
    """Run an agent and evaluate its policies exactly."""
    mdp = make(problem)
    maker = makers(mdp, [agent], epsilon, delta, episodes, scale)[agent]
    outcome = run_job(SeedRun(agent, maker, seed, mdp, episodes, epsilon))
    if isinstance(outcome, Failure):
        raise InputError(outcome.reason)
    shown = slice(None, None, -(-len(outcome.regret_curve) // CURVE_POINTS))
    return {
        "mistakes": int(outcome.mistakes),
        "last_mistake": int(outcome.last_mistake),
        "regret": outcome.regret,
        "gap": outcome.gap,
        "optimal": mdp.at_start(mdp.optimal().values),
        "samples": outcome.samples,
        "scale": outcome.scale,
        "after": grid_of(episodes)[shown].tolist(),
        "regrets": outcome.regret_curve[shown].tolist(),
    }


def jobs(quick: bool = False) -> list[Job]:
    """Return runs of all agents; UCRL-gamma needs at most two successors, as chain has."""
    replicates, episodes = (2, 5_000) if quick else (16, 100_000)
    problems = [
        "hard:n=4,actions=3,horizon=6,gap=0.25", "riverswim", "tutoring",
        "random:states=10,actions=3,successors=4,horizon=6,seed={replicate}",
    ]  # fmt: skip
    return grid(
        run_baseline, replicates, episodes=episodes, epsilon=0.1, delta=0.1,
        problem=problems, agent=QUICK_AGENTS if quick else AGENTS,
    ) + grid(
        run_baseline, replicates, episodes=episodes, epsilon=0.1, delta=0.1, problem="chain:n=5",
        agent=["ucrl-gamma", "ucfh", "certified-ucfh", "ucrl2", "psrl", "uniform"],
    )  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Rank agents by regret relative to uniformly random actions, problem by problem."""
    problem = results["problem"].map(unseeded)
    results = results.assign(name=problem.map(labels(problem)))
    uniform = results[results["agent"] == "uniform"].set_index(["name", "replicate"])["regret"]
    index = pd.MultiIndex.from_frame(results[["name", "replicate"]])
    results["share"] = results["regret"] / uniform.reindex(index).to_numpy()
    results["within"] = results["gap"] <= results["epsilon"] + TOLERANCE
    online, sampled = results[results["samples"] == 0], results[results["samples"] > 0]
    medians = online.groupby(["name", "agent"], sort=False)["regret"].median()
    ranks = medians.map(lambda x: 0.0 if x <= NOISE else x).groupby("name").rank(pct=True)
    order = list(ranks.groupby("agent").mean().sort_values(kind="stable").index)
    tables = {
        "regret": _regrets(online, order),
        "mistakes": _mistakes(online, order),
        "constants": pd.DataFrame(
            [(name, agent_class(name).constants) for name in [*order, *sampled["agent"].unique()]],
            columns=["agent", "constants"],
        ),
    }
    if len(sampled):
        wide = (
            sampled.groupby(["agent", "name"], sort=False)["samples"].median().unstack(sort=False)
        )
        tables["samples"] = wide.map(number).reset_index()
    figures = {"baselines": _curves(online, order), "baselines-all": _shares(online, order)}
    return Analysis(_numbers(online, sampled), tables, figures)


def _numbers(online: pd.DataFrame, sampled: pd.DataFrame) -> dict[str, Any]:
    learning = online[online["agent"] != "uniform"]
    ends = learning.groupby(["agent", "name"])["within"].mean().gt(0.5).groupby("agent")
    shares = online.groupby(["agent", "name"])["share"].apply(lambda x: number(100 * np.median(x)))
    medians = online.groupby(["name", "agent"])["regret"].median().unstack()
    return {
        "agents": len(ends),
        "everywhere": ", ".join(ends.all()[ends.all()].index),
        "everywhere_count": int(ends.all().sum()),
        "nowhere": ", ".join(ends.any()[~ends.any()].index),
        "nowhere_count": int((~ends.any()).sum()),
        "share": {agent: dict(x.droplevel(0)) for agent, x in shares.groupby("agent")},
        "problems": len(medians),
        "psrl_first": int((medians.idxmin(axis=1) == "psrl").sum()),
        "samples": span(sampled["samples"]),
        "sampled_runs": len(sampled),
        "sampled_wrong": int((~sampled["within"]).sum()),
        "episodes": online["episodes"].max(),
        "replicates": online["replicate"].max() + 1,
    }


def _regrets(online: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """Return median shares, and the ranks that the tests leave open."""
    table: dict[str, dict[str, str]] = {agent: {"agent": agent} for agent in order}
    for name, runs in online.groupby("name", sort=False):
        regrets = {
            agent: dict(zip(x["replicate"], x["regret"], strict=True))
            for agent, x in runs.groupby("agent", sort=False)
        }
        shares = runs.groupby("agent")["share"].median()
        for place in ranking(regrets):
            rank = f"{place.first} to {place.last}"
            table[place.agent][str(name)] = f"{number(100 * shares[place.agent])} ({rank})"
    return pd.DataFrame(list(table.values())).fillna("-")


def _mistakes(online: pd.DataFrame, order: list[str]) -> pd.DataFrame:
    """Return the number of mistakes and the last one; medians."""
    found = online.groupby(["agent", "name"], sort=False)[["mistakes", "last_mistake"]].median()
    last = found["last_mistake"].map(
        lambda x: "-" if x >= online["episodes"].max() else f"{x:,.0f}"
    )
    text = found["mistakes"].map("{:,.0f}".format) + " / " + last
    return text.unstack(sort=False).reindex(order).fillna("-").reset_index()


def _curves(online: pd.DataFrame, order: list[str]) -> Any:
    """Draw median regret over episodes, on the problems that most agents ran on."""
    counts = online.groupby("name", sort=False)["agent"].nunique()
    names = list(counts[2 * counts > counts.max()].index)
    figure = new_figure(1.2 + 2.2 * -(-len(names) // 2))
    panels = figure.subplots(-(-len(names) // 2), 2, squeeze=False).ravel()
    chosen = [agent for agent in order if agent in HIGHLIGHTED]
    for axes, name in zip(panels, names, strict=False):
        runs, episodes = online[online["name"] == name], online["episodes"].max()
        lowest = max(runs["regret"][runs["regret"] > NOISE].min() / 10, 1e-3)
        for agent in order:
            found = runs[runs["agent"] == agent]
            if found.empty:
                continue
            curves = np.column_stack([np.stack(list(found["regrets"])), found["regret"]])
            quartiles = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
            low, middle, high = np.maximum(quartiles, lowest)
            after = [*found["after"].iloc[0], episodes]
            if agent not in chosen:
                axes.plot(after, middle, lw=0.6, color="#b8b8b8", zorder=1, label="others")
                continue
            marks: dict[str, Any] = style(chosen.index(agent)) | {"markevery": 8, "ms": 4}
            marks = {"color": GREY, "ls": "--"} if agent == "uniform" else marks
            axes.fill_between(after, low, high, alpha=0.15, lw=0, color=marks["color"])
            axes.plot(after, middle, lw=1.2, label=agent, zorder=3, **marks)
        axes.set(xscale="log", yscale="log", xlim=(episodes / 1000, episodes))
        axes.set_ylim(lowest / 1.5, 2 * runs["regret"].max())
        zero = {lowest: "0"} if runs.groupby("agent")["regret"].median().min() <= NOISE else {}
        powers_of_ten(axes.yaxis, 2 * lowest, 2 * runs["regret"].max(), zero)
        axes.set_title(name, fontsize=10)
        axes.set(xlabel="episodes", ylabel="regret (reward)")
        axes.grid(alpha=0.25)
    for axes in panels[len(names) :]:
        axes.remove()
    legend(figure)
    return figure


def _shares(online: pd.DataFrame, order: list[str]) -> Any:
    rows = [
        (agent, name, *(100 * x for x in median(shares)))
        for (name, agent), shares in online.groupby(["name", "agent"], sort=False)["share"]
    ]
    data = pd.DataFrame(rows, columns=["row", "kind", "value", "low", "high"])
    data[["value", "low", "high"]] = data[["value", "low", "high"]].where(lambda x: x > 1e-7, 0.0)
    data = data.sort_values("row", key=lambda x: x.map(order.index), kind="stable")
    kinds = list(dict.fromkeys(online["name"]))
    figure = new_figure(1.4 + 0.24 * len(order))
    axes = figure.subplots()
    dot_plot(axes, data, "regret in % of that of uniformly random actions", kinds, hollow=kinds)
    axes.axvline(100, color=GREY, lw=1, ls="--", zorder=0)
    legend(figure, 5)
    return figure
