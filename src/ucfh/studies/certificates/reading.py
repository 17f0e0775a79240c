"""Episodes until a policy is certified, by kind of set; and whether what is certified is true."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ucfh._support.palette import GREY
from ucfh._support.statistics import LEVEL, ranking, seeds_needed
from ucfh.experiments.store import Result
from ucfh.report.section import Figure, Reading, TextTable
from ucfh.report.words import bars, labels, listed, number, plural, span, times, unseeded
from ucfh.simulation.run import TOLERANCE
from ucfh.studies.certificates import accuracy
from ucfh.studies.certificates.accuracy import (
    Case,
    RunsByCase,
    episodes,
    is_cut,
    marks,
    median,
    runs_of,
)
from ucfh.theory.constants import constants

KindLabels = dict[str, str]

MEANT = {
    "intervals of single probabilities": ("paper", "kl", "kt"),
    "sets of whole rows": ("l1", "kl-ball", "kt-ball"),
    "also bounds on the distance from the optimum": ("best",),
}


def read(results: Sequence[Result]) -> Reading:
    """How long each kind of sets takes, how right it is, and what a smaller epsilon costs."""
    names = labels(unseeded(result.arguments["problem"]) for result in results)
    methods = runs_of([x for x in results if x.label != "accuracy"])
    finer = runs_of([x for x in results if x.label == "accuracy"])
    grown = accuracy.growths(finer)
    paragraphs = [
        _finding(methods or finer, results, names),
        _right(results),
        _printed(results, names),
        accuracy.told(grown, names),
    ]
    tables = [_table(methods, names)] if methods else []
    tables += [accuracy.table(finer, grown, names)] if finer else []
    figures = [_figure(methods, names) if methods else None, accuracy.figure(grown, names)]
    return Reading(
        [text for text in paragraphs if text],
        [figure for figure in figures if figure is not None],
        tables,
    )


def _kinds(runs: RunsByCase) -> list[str]:
    """Kinds of sets, in the order given."""
    return list(dict.fromkeys(kind for by_set in runs.values() for kind in by_set))


def _finding(runs: RunsByCase, results: Sequence[Result], names: KindLabels) -> str:
    """Which sets take fewest episodes, by how much, and whether a test says so."""
    fewest = {
        case: min(by_set, key=lambda kind: (is_cut(by_set[kind]), median(by_set[kind]).median))
        for case, by_set in runs.items()
    }
    lead = max(_kinds(runs), key=list(fewest.values()).count)
    led = [case for case, kind in fewest.items() if kind == lead]
    medians = [median(runs[case][lead]).median for case in led if not is_cut(runs[case][lead])]
    ratios = [ratio for case in led if (ratio := _ahead(runs[case], lead)) is not None]
    noun = "problem" if len({case.problem for case in runs}) == len(runs) else "case"
    text = (
        f'With "{lead}", a certificate takes the fewest episodes on {len(led)} of '
        f"{plural(len(runs), noun)}"
    )
    if medians:
        text += f" (medians of {span(medians)}"
        text += f", {span(ratios, 2)} times fewer than the next best)" if ratios else ")"
    text += f", and {_worse(results)}. "
    lost = [case for case in runs if case not in led and lead in runs[case]]
    if lost:
        others = [
            f'"{fewest[case]}" on {names[case.problem]} ({episodes(runs[case][fewest[case]])} '
            f"against {episodes(runs[case][lead])})"
            for case in lost
        ]
        text += f"Elsewhere other sets take fewer: {listed(others)}. "
    return (text + _tested(runs, lead)).strip()


def _ahead(by_set: dict[str, list[Result]], lead: str) -> float | None:
    """How many times as many episodes the next best sets take; None if that is not known."""
    others = [
        median(runs).median for kind, runs in by_set.items() if kind != lead and not is_cut(runs)
    ]
    return min(others) / median(by_set[lead]).median if others else None


def _worse(results: Sequence[Result]) -> str:
    """How many certified policies are worse than epsilon."""
    certified = [run for run in results if run.values["certified"]]
    worse = sum(_lost(run) > run.arguments["epsilon"] + TOLERANCE for run in certified)
    verb = "were" if worse > 1 else "was"
    policies = f"certified {'policy' if len(certified) == 1 else 'policies'}"
    return f"{worse or 'none'} of {len(certified):,} {policies} {verb} worse than epsilon"


def _lost(run: Result) -> float:
    """What the policy loses, without rounding errors."""
    return max(float(run.values["optimal"] - run.values["value"]), 0.0)


def _tested(runs: RunsByCase, lead: str) -> str:
    """Where the leader is significantly different from all others."""
    several = [by_set for by_set in runs.values() if lead in by_set and len(by_set) > 1]
    enough = [
        by_set for by_set in several if min(map(len, by_set.values())) >= seeds_needed(len(by_set))
    ]
    if not several:
        return ""
    if not enough:
        return "There are too few runs for a test."
    sure = 0
    for by_set in enough:
        found = {
            kind: {run.replicate: float(run.values["episodes"]) for run in of}
            for kind, of in by_set.items()
        }
        sure += next(place.last for place in ranking(found) if place.agent == lead) == 1
    each = [len(of) for by_set in enough for of in by_set.values()]
    return (
        f"It is significantly different from every other kind on {sure} of {len(enough)} (exact "
        f"signed-rank tests, Holm's correction at {100 * (1 - LEVEL):.0f} %, {span(each)} runs "
        "of each kind)."
    )


def _right(results: Sequence[Result]) -> str:
    """Whether bounds were true, and how far policies were from what they were certified for."""
    wrong = sum(
        run.values["upper"] < run.values["optimal"] - TOLERANCE
        or run.values["lower"] > run.values["value"] + TOLERANCE
        for run in results
    )
    certified = [run for run in results if run.values["certified"]]
    text = (
        f"An upper bound on the optimum, or a lower bound on the policy, was wrong in "
        f"{wrong or 'none'} of {plural(len(results), 'run')}; delta allows a share of "
        f"{span(run.arguments['delta'] for run in results)}. "
    )
    if certified:
        share = float(np.median([_lost(run) / run.arguments["epsilon"] for run in certified]))
        text += (
            f"Half of the certified policies lose no more than {number(100 * share, 2)} % of "
            "epsilon: they are far better than the certificate says. "
            if share < 0.1
            else f"Half of the certified policies lose more than {number(100 * share, 2)} % of "
            "epsilon. "
        )
    cut = [run for run in results if not run.values["certified"]]
    if cut:
        text += (
            f"{plural(len(cut), 'run')} reached the limit of "
            f"{span(run.arguments['most'] for run in cut)} episodes without a certificate; a > "
            "marks medians that are known to be larger than the number shown."
        )
    return text.strip()


def _printed(results: Sequence[Result], names: KindLabels) -> str:
    """What the paper's theorem says about the same problems."""
    found = []
    for run in results:
        if run.values["certified"]:
            states, actions, horizon = (run.values[x] for x in ("states", "actions", "horizon"))
            epsilon, delta = run.arguments["epsilon"], run.arguments["delta"]
            known = constants(states, actions, horizon, epsilon, delta, run.values["successors"])
            found.append((known.episode_bound / run.values["episodes"], known.episode_bound, run))
    if not found:
        return ""
    ratio, _, run = min(found, key=lambda x: x[0])
    return (
        "The printed algorithm never says that it is done. If it is told the successors, its "
        f"theorem allows {span(bound for _, bound, _ in found)} episodes worse than epsilon here: "
        f"at least {times(ratio)} as many as any of these runs needed for its "
        f'certificate ({names[unseeded(run.arguments["problem"])]}, "{run.arguments["confidence"]}"'
        f", epsilon {number(run.arguments['epsilon'])})."
    )


def _label(case: Case, names: KindLabels) -> str:
    return f"{names[case.problem]}, eps {number(case.epsilon)}"


def _table(runs: RunsByCase, names: KindLabels) -> TextTable:
    kinds = _kinds(runs)
    each = [len(found) for by_set in runs.values() for found in by_set.values()]
    rows = [
        [_label(case, names), *(episodes(by_set.get(kind)) for kind in kinds)]
        for case, by_set in runs.items()
    ]
    meant = [
        f"{listed([kind for kind in kinds if kind in known])}: {what}"
        for what, known in MEANT.items()
        if set(known) & set(kinds)
    ]
    caption = (
        f"Median number of episodes to the certificate, by kind of sets, over {span(each)} "
        f"{'run' if max(each) == 1 else 'runs'} each ({'; '.join(meant)})."
    )
    return TextTable(caption, ["problem", *kinds], rows)


def _figure(runs: RunsByCase, names: KindLabels) -> Figure:
    kinds, cases = _kinds(runs), list(runs)
    step = 0.8 / len(kinds)
    medians = [median(found) for by_set in runs.values() for found in by_set.values()]

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set_xscale("log")
        for k, kind in enumerate(kinds):
            at = [i for i, case in enumerate(cases) if kind in runs[case]]
            y = [i + step * (k - (len(kinds) - 1) / 2) for i in at]
            marks(axes, [median(runs[cases[i]][kind]) for i in at], y, k, kind, x=True)
        for i in range(1, len(cases)):
            axes.axhline(i - 0.5, color=GREY, lw=0.5, alpha=0.5)
        axes.set_yticks(
            range(len(cases)), [_label(case, names).replace(", ", "\n") for case in cases]
        )
        axes.set_ylim(len(cases) - 0.5, -0.5)
        axes.tick_params(axis="y", length=0)
        axes.set_xlabel("episodes to the certificate")
        axes.grid(axis="x", alpha=0.25)
        figure.legend(loc="outside upper center", ncols=4, frameon=False, columnspacing=1.2)

    caption = (
        f"Episodes until a policy is certified, by kind of sets: median and {bars(medians)}, on a "
        "logarithmic axis."
    )
    alt = (
        f"Marks for {listed(kinds)} on {plural(len(cases), 'problem')}, over episodes on a "
        f"logarithmic axis; medians are {span(x.median for x in medians)}."
    )
    return Figure("certificates", caption, alt, draw, 1.3 + 0.62 * len(cases))
