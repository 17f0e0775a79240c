"""Full runs in the terms of the proof: importance, knownness and balance of the phases.

A phase is balanced if no cell of the knownness-importance table with positive importance iota holds
more state-action pairs than its knownness kappa; then V~ and V differ by at most epsilon.
"""

from __future__ import annotations

from string import ascii_lowercase
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.patches import Patch, Rectangle

from evaluation.formatting import number, short
from evaluation.grid import Job, grid
from evaluation.measurements import Values
from evaluation.plotting import COLORS, GREY, Analysis, in_figure, new_figure
from ucfh.algorithms.ucfh import UCFH
from ucfh.problems import make
from ucfh.simulation.result import Run
from ucfh.simulation.runner import simulate
from ucfh.theory.constants import Variant
from ucfh.theory.quantities import Knownness, knownness, weights_by_row

ROUNDING = 1e-9
SNAPSHOTS = 6
COLUMNS = 6
"""Columns of a table; the last one also holds all pairs with larger knownness."""


def record_knownness(
    problem: str, epsilon: float, delta: float, variant: Variant = "paper", *, seed: int
) -> Values:
    """Run UCFH until its policy is final; keep every phase, and the tables of some."""
    mdp = make(problem)
    agent = UCFH(mdp.problem, epsilon, delta, variant=variant)
    m, w_min = agent.constants.m, agent.constants.w_min
    tables: list[Knownness] = []
    errors: list[float] = []

    def record(_: Run) -> None:
        w = weights_by_row(mdp, agent.policy)
        tables.append(knownness(w, agent.n.visits[:-1], m, w_min))
        errors.append(float(abs(agent.optimistic - mdp.value(agent.policy))))

    run = simulate(mdp, agent, seed=seed, on_phase=record)
    first = [int(row.first_episode) for row in run.rows]
    return {
        "moments": [
            {
                "episode": first[k],
                "cells": [[*cell, size] for cell, size in tables[k].cells.items()],
                "balanced": tables[k].balanced,
            }
            for k in _snapshots(tables)
        ],
        "phases": {
            "first_episode": first,
            "balanced": [table.balanced for table in tables],
            "gap": [max(float(row.gap), 0.0) for row in run.rows],
            "mismatch": errors,
        },
        "epsilon": epsilon,
        "episodes": int(run.episodes),
    }


def _snapshots(tables: list[Knownness]) -> list[int]:
    """Choose the first and last phase, those around the last unbalanced one, and others between.

    The others differ most from these in mean knownness, on the scale 0, 1, 2, 4, 8, 16.
    """
    last = len(tables) - 1
    known = np.array([np.frexp(table.kappa[table.w > 0])[1].clip(0, 5).mean() for table in tables])
    chosen = {0, last}
    unbalanced = [k for k in range(last) if not tables[k].balanced]
    if unbalanced:
        chosen |= {unbalanced[-1], unbalanced[-1] + 1}
    while len(chosen) < min(SNAPSHOTS, last + 1):
        apart = np.abs(known[:, None] - known[sorted(chosen)]).min(1)
        apart[sorted(chosen)] = -1.0
        chosen.add(int(apart.argmax()))
    return sorted(chosen)


def jobs(quick: bool = False) -> list[Job]:
    """Return one full run on each of two problems; the quick version is the same."""
    del quick
    return grid(record_knownness, delta=0.1, variant="corrected", cases=[
        {"problem": "tutoring", "epsilon": 0.1},
        {"problem": "hard:n=4,actions=3,horizon=6,gap=0.25", "epsilon": 0.2},
    ])  # fmt: skip


def analyze(results: pd.DataFrame) -> Analysis:
    """Compare when policies become epsilon-optimal with when phases become balanced."""
    runs = []
    for x in results.itertuples():
        phases = pd.DataFrame(x.phases)
        optimal = _from(phases, phases["gap"] <= x.epsilon + ROUNDING)
        balanced = _from(phases, phases["balanced"])
        off = phases.loc[phases["balanced"], "mismatch"].max()
        runs.append({
            "name": short(x.problem), "phases": len(phases), "optimal": optimal,
            "balanced": balanced, "ratio": balanced / optimal if optimal else np.inf, "off": off,
            "epsilon": x.epsilon,
        })  # fmt: skip
    table = pd.DataFrame({
        "problem": [x["name"] for x in runs], "phases": [f"{x['phases']:,}" for x in runs],
        "ε-optimal from episode": [number(x["optimal"]) for x in runs],
        "balanced from episode": [number(x["balanced"]) for x in runs],
        "largest |V~ - V| of a balanced phase": [number(x["off"]) for x in runs],
        "ε": [number(x["epsilon"]) for x in runs],
    })  # fmt: skip
    figures = {f"knownness-{short(x.problem).split()[0]}": _figure(x) for x in results.itertuples()}
    numbers = {"runs": runs, "room": min(x["epsilon"] / x["off"] for x in runs)}
    return Analysis(numbers, {"runs": table}, figures)


def _from(phases: pd.DataFrame, fine: pd.Series) -> float:
    """Return the first episode from which all phases are fine; NaN if the last one is not."""
    start = int(np.flatnonzero(~fine.to_numpy(bool))[-1]) + 1 if not fine.all() else 0
    return float(phases["first_episode"].iloc[start]) if start < len(phases) else np.nan


def _figure(run: Any) -> Any:
    """Draw the tables of some phases, and below them all phases over episodes."""
    places = [int(iota).bit_length() for x in run.moments for _, iota, _ in x["cells"]]
    rows = range(min(places), max(places) + 1)
    figure = new_figure(7.6)
    above, below = figure.subfigures(2, 1, height_ratios=[4.8, 2.8])
    panels = above.subplots(-(-len(run.moments) // 3), 3, squeeze=False, sharey=True).ravel()
    for k, (axes, moment) in enumerate(zip(panels, run.moments, strict=False)):
        _table(axes, moment["cells"], rows)
        state, color = ("balanced", COLORS[0]) if moment["balanced"] else ("unbalanced", COLORS[1])
        title = f"{ascii_lowercase[k]}: episode {in_figure(moment['episode'])}\n{state}"
        axes.set_title(title, loc="left", fontsize=9, color=color)
    for axes in panels[len(run.moments) :]:
        axes.remove()
    above.supylabel("importance $\\iota$", fontsize=10)
    above.supxlabel("knownness $\\kappa$", fontsize=10)
    _phases(below.subplots(), run)
    handles, names = below.axes[0].get_legend_handles_labels()
    too_full = Patch(fc="white", ec=COLORS[1], hatch="/////")
    figure.legend(
        [too_full, *handles], ["more than $\\kappa$ pairs", *names],
        loc="outside lower center", ncols=2, frameon=False, fontsize=9,
    )  # fmt: skip
    return figure


def _table(axes: Any, cells: list[list[int]], rows: range) -> None:
    """Draw the number of pairs by knownness and importance; hatched where there are too many."""
    pairs: dict[tuple[int, int], int] = {}
    full = set()
    for kappa, iota, size in cells:
        at = min(int(kappa).bit_length(), COLUMNS - 1), int(iota).bit_length() - rows[0]
        pairs[at] = pairs.get(at, 0) + size
        if size > kappa and iota > 0:
            full.add(at)
    for at, size in pairs.items():
        marks: dict[str, Any] = {"fc": "#cfe3f0", "ec": COLORS[0]}
        if at in full:
            marks = {"fc": "white", "ec": COLORS[1], "hatch": "/////"}
        axes.add_patch(Rectangle(at, 1, 1, lw=1, **marks))
        box = {"fc": "white", "ec": "none", "pad": 0.8} if at in full else None
        axes.text(
            at[0] + 0.5, at[1] + 0.45, str(size), ha="center", va="center", fontsize=8, bbox=box
        )
    names = ["0", *(str(2**k) for k in range(COLUMNS - 1))]
    axes.set_xticks(np.arange(COLUMNS) + 0.5, [*names[:-1], names[-1] + "+"], fontsize=8)
    axes.set_yticks(
        [k - rows[0] + 0.5 for k in rows[::2]], [str(1 << k >> 1) for k in rows[::2]], fontsize=8
    )
    axes.set(xlim=(0, COLUMNS), ylim=(0, len(rows)))
    axes.tick_params(length=0)


def _phases(axes: Any, run: Any) -> None:
    """Draw loss and estimation error of every phase, and shade the unbalanced ones."""
    phases = pd.DataFrame(run.phases)
    first = max(float(phases["first_episode"].iloc[min(1, len(phases) - 1)]), 1.0)
    edges = [first / 10, *phases["first_episode"].iloc[1:], 10 * max(run.episodes, first)]
    values = phases[["gap", "mismatch"]].to_numpy(float)
    lowest = 10.0 ** np.floor(np.log10(values[values > 1e-12].min()) - 0.5)
    top = 3 * max(values.max(), run.epsilon)
    axes.set(xscale="log", yscale="log", xlim=(edges[0], edges[-1]), ylim=(lowest / 2, top))
    axes.fill_between(
        np.repeat(edges, 2)[1:-1], lowest / 2, top, step=None,
        where=np.repeat(~phases["balanced"].to_numpy(bool), 2), fc="#fbe6d9", ec=COLORS[1],
        hatch="///", lw=0, alpha=0.5, label="unbalanced phases",
    )  # fmt: skip
    for column, color, width, label in (
        ("mismatch", COLORS[2], 3, "$|\\tilde V - V|$: error of the estimate"),
        ("gap", "black", 1.2, "$V^* - V$: loss of the policy"),
    ):
        heights = phases[column].clip(lower=lowest)
        axes.stairs(heights, edges, baseline=None, color=color, lw=width, label=label)
    axes.axhline(run.epsilon, color=GREY, ls=":", lw=1.5, label=f"$\\epsilon$ = {run.epsilon:g}")
    at = [max(float(moment["episode"]), edges[0]) for moment in run.moments]
    near = (edges[-1] / edges[0]) ** 0.03
    for k, x in enumerate(at):
        axes.axvline(x, color=GREY, lw=0.7, zorder=1)
        side = "left" if k and x < near * at[k - 1] else "center"
        side = "right" if k + 1 < len(at) and at[k + 1] < near * x else side
        axes.text(x, 1.03, ascii_lowercase[k], transform=axes.get_xaxis_transform(), ha=side)
    axes.set(xlabel="episodes", ylabel="reward per episode")
