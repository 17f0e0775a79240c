"""What each confidence condition buys: mistakes with other sets, compared with the full set."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf, isfinite, log, nan, sqrt
from typing import Any

import numpy as np

from ucfh._support.statistics import LEVEL
from ucfh.experiments.store import Result
from ucfh.report.ratios import Dot, draw_dots, legend, typeset, with_interval
from ucfh.report.section import Figure, Reading, TextTable
from ucfh.report.words import labels, listed, number, plural, span
from ucfh.studies.conditions.ablation import (
    FULL,
    Point,
    RunsBySet,
    RunValues,
    SetComparison,
    all_runs,
    compare,
    grouped,
    mistakes_of,
    tightness,
)
from ucfh.theory.constants import constants

WORDS = {
    "without-hoeffding": "leaving out Hoeffding's condition (i)",
    "without-bernstein": "leaving out Bernstein's condition (ii)",
    "without-deviation": "leaving out the condition on the deviation (iii)",
    "kl": "taking the KL set instead",
}
LABELS = {
    "without-hoeffding": "without (i)",
    "without-bernstein": "without (ii)",
    "without-deviation": "without (iii)",
    "kl": "KL set",
    FULL: "corrected constants",
}
HARDLY = 0.05
"""A change of the mean by at most this share is called small."""

PointLabels = dict[float, dict[Point, str]]


def read(results: Sequence[Result]) -> Reading:
    """Compare sets, for each m on its own."""
    groups = grouped(results)
    if not groups:
        return Reading(["These results contain no lifetime."], [], [])
    compared = {factor: compare(points) for factor, points in groups.items()}
    runs = [run for points in groups.values() for sets in points.values() for run in all_runs(sets)]
    text = "; ".join(_finding(factor, _of_sets(compared[factor])) for factor in groups)
    seen = [
        f"{text[0].upper()}{text[1:]}. There are {plural(len(runs), 'lifetime')}. A set is "
        "significantly different from the full one if a signed-rank test says so at 5 %, corrected "
        "for the number of comparisons with the same m. Ratios are ratios of means."
    ]
    for factor, points in groups.items():
        lines = _by_set(factor, _of_sets(compared[factor]))
        lines += (_why if factor == 1 else _why_hoeffding)(points, compared[factor])
        lines += _at_the_end(points)
        if lines:
            seen.append(" ".join(lines))
    seen.append(" ".join(_doubts(runs, compared)))
    names = _names(groups)
    tables = [_table(factor, groups[factor], compared[factor], names[factor]) for factor in groups]
    figure = _figure(compared, names)
    return Reading(seen, [figure] if figure else [], tables)


def _of_sets(compared: Iterable[SetComparison]) -> list[SetComparison]:
    return [c for c in compared if c.confidence != FULL]


def _with(factor: float) -> str:
    """The m that was used, in words.

    >>> _with(1.0), _with(1e-6), _with(10.0)
    ('with the true m', 'with m/1e+06', 'with 10 m')
    """
    if factor == 1:
        return "with the true m"
    return f"with m/{number(1 / factor)}" if factor < 1 else f"with {number(factor)} m"


def _shift(compared: list[SetComparison]) -> float:
    """The largest change of a mean, as a share of it; infinite where one has no ratio."""
    return max(abs(c.ratio - 1) if isfinite(c.ratio) else inf for c in compared)


def _hardly(compared: list[SetComparison]) -> bool:
    """Whether all changes are small."""
    return bool(compared) and _shift(compared) <= HARDLY


def _hopeless(compared: list[SetComparison]) -> bool:
    """Whether there are too few runs for any p to be small enough."""
    return len(compared) * 2.0 ** (1 - max(c.pairs for c in compared)) > 1 - LEVEL


def _finding(factor: float, compared: list[SetComparison]) -> str:
    """A clause that says what matters most."""
    m = _with(factor)
    if not compared:
        return f"{m}, there is nothing to compare yet"
    ratios = span(c.ratio for c in compared)
    if _hardly(compared):
        most = number(100 * _shift(compared), 2)
        return f"{m}, no choice of conditions changed mean mistakes by more than {most} %"
    if _hopeless(compared):
        runs = plural(max(c.pairs for c in compared), "run")
        return (
            f"{m}, no difference can be significant with {runs} of each set "
            f"({ratios} times the mistakes)"
        )
    clauses = []
    for side, verb in ((1, "cost"), (-1, "saved")):
        told = [c for c in compared if c.told and c.side == side]
        weights: dict[str, float] = {}
        for c in told:
            size = abs(log(c.ratio)) if c.ratio > 0 else inf
            weights[c.confidence] = weights.get(c.confidence, 0.0) + size
        if weights:
            name = max(weights, key=lambda name: weights[name])
            ratios_told = [c.ratio for c in told if c.confidence == name]
            cases = plural(sum(c.confidence == name for c in compared), "case")
            clauses.append(
                f"{WORDS.get(name, name)} {verb} the most ({span(ratios_told)} times the mistakes, "
                f"in {len(ratios_told)} of {cases})"
            )
    if not clauses:
        return (
            f"{m}, no set is significantly different from the full one ({ratios} times its "
            "mistakes)"
        )
    return f"{m}, {listed(clauses)}"


def _by_set(factor: float, compared: list[SetComparison]) -> list[str]:
    """Which sets differ, where and by how much, and which do not."""
    if not compared or _hopeless(compared):
        return []
    digits, lines, same = 5 if _hardly(compared) else 3, [], []
    for name in dict.fromkeys(c.confidence for c in compared):
        of_it = [c for c in compared if c.confidence == name]
        parts = []
        for side, word in ((1, "more"), (-1, "fewer")):
            ratios = [c.ratio for c in of_it if c.told and c.side == side]
            if ratios:
                cases = f"{len(ratios)} of {plural(len(of_it), 'case')}"
                parts.append(f"{word} mistakes in {cases} ({span(ratios, digits)} times)")
        if parts:
            lines.append(f"{WORDS.get(name, name)}: {listed(parts)}")
        else:
            ratios = [c.ratio for c in of_it]
            same.append(f"{WORDS.get(name, name)} ({span(ratios, digits)} times the mistakes)")
    if same:
        lines.append(f"no significant effect of {listed(same, 'or of')}")
    return [f"{_with(factor).capitalize()}, {'; '.join(lines)}."]


def _why(points: Mapping[Point, RunsBySet], compared: list[SetComparison]) -> list[str]:
    """With the true m: when the first update comes, and how the constants affect it."""
    waits = [_wait(run) for sets in points.values() for run in all_runs(sets)]
    lines = [
        f"A policy is kept until some pair has been visited m w_min times, here {span(waits)}. "
        "An interval from n visits is about 1/sqrt(n) wide, by then "
        f"{number(1 / sqrt(min(waits)), 2)} or less."
    ]
    sets = _of_sets(compared)
    if _hardly(sets):
        lines.append("All sets are tiny when they are first used, so the choice hardly matters.")
    full = [c for c in compared if c.confidence == FULL and c.ratio > 0]
    if full:
        both = [[points[c.point][v, FULL] for v in (c.variant, "paper")] for c in full]
        waited = [
            _wait(next(iter(new.values()))) / _wait(next(iter(old.values()))) for new, old in both
        ]
        off = max(abs(c.ratio / w - 1) for c, w in zip(full, waited, strict=True))
        lines += ["The constants matter more."] * (bool(sets) and _shift(full) > _shift(sets))
        lines.append(
            "With the corrected constants the full set made "
            f"{span(c.ratio for c in full)} times the mistakes that it made with the printed "
            f"ones; m w_min is {span(waited)} times as large, "
            + (
                f"the same within {number(100 * off, 2)} %: most mistakes are made while the "
                "learner waits for the first updates."
                if off <= HARDLY
                else "which does not explain it."
            )
        )
    return lines


def _at_the_end(points: Mapping[Point, RunsBySet]) -> list[str]:
    """How tight the sets are when the policy is final."""
    found = tightness(points)
    if not found:
        return []
    each = [f"{LABELS.get(name, name)} {span(ratios)}" for name, ratios in found.items()]
    return [
        "At the end, when the policy is final, the distance between V~ and V relative to that with "
        f"the full set is (medians): {listed(each)}."
    ]


def _why_hoeffding(points: Mapping[Point, RunsBySet], compared: list[SetComparison]) -> list[str]:
    """If it matters: after few visits, Bernstein's condition is the wider one for any p."""
    if not any(c.confidence == "without-hoeffding" and c.told and c.side > 0 for c in compared):
        return []
    waits, from_here = [], []
    for (_, epsilon, delta), sets in points.items():
        for run in all_runs(sets):
            S, A, C, H = (run[name] for name in ("states", "actions", "successors", "horizon"))
            waits.append(_wait(run))
            # at p = 0: 7 L/(3 n) < sqrt(L/(2 n)) with L = ln(6/delta_1)
            from_here.append(98 / 9 * log(6 / constants(S, A, H, epsilon, delta, C).delta_1))
    return [
        f"The first update comes after {span(waits)} visits of a pair. Bernstein's condition is "
        "narrower than Hoeffding's only after about 98/9 ln(6/delta_1) visits, here "
        f"{span(from_here)}, and only where a probability is near 0 or 1: until then (i) is the "
        "one that matters."
    ]


def _wait(run: RunValues) -> float:
    """The smallest number of visits of a pair that an update waits for."""
    return float(run["m"] * run["w_min"])


def _doubts(runs: list[RunValues], compared: Mapping[float, list[SetComparison]]) -> list[str]:
    """What else the reader should know."""
    lines = []
    endless = sum(run["mistakes"] is None for run in runs)
    if endless:
        lines.append(
            f"{plural(endless, 'run')} of {len(runs)} ended with a policy worse than epsilon: "
            "their mistakes never end, and have no mean."
        )
    sets = [c for some in compared.values() for c in _of_sets(some)]
    larger = [c for c in sets if c.confidence.startswith("without-") and c.told and c.side < 0]
    if larger:
        lines.append(
            "Leaving a condition out makes a set larger, but it made fewer mistakes in "
            f"{plural(len(larger), 'case')}: a smaller set does not guarantee fewer mistakes."
        )
    missed = sum(not run["captured"] for run in runs)
    lines.append(
        f"The true probabilities were outside a set at some time in {missed} of "
        f"{plural(len(runs), 'run')}."
    )
    lines.append(
        "Where no effect is significant there may still be one, within the intervals of the table; "
        "other problems, with rarer successors, may show larger differences between sets."
    )
    return lines


def _names(groups: Mapping[float, Mapping[Point, RunsBySet]]) -> PointLabels:
    """Names that no two problems share, within a group and between groups."""
    names = labels(problem for points in groups.values() for problem, _, _ in points)
    found: PointLabels = {}
    for factor, points in groups.items():
        more = len({problem for problem, _, _ in points}) < len(points)
        found[factor] = {
            point: names[point[0]] + (f", eps {number(point[1])}" if more else "")
            for point in points
        }
    return found


def _table(
    factor: float,
    points: Mapping[Point, RunsBySet],
    compared: list[SetComparison],
    names: Mapping[Point, str],
) -> TextTable:
    """Means with the full set, and the ratios of the others."""
    by = {(c.point, c.variant, c.confidence): c for c in compared}
    others = list(dict.fromkeys(c.confidence for c in _of_sets(compared)))
    small = _hardly(_of_sets(compared))
    variants = {variant for sets in points.values() for variant, _ in sets}
    rows = []
    for point, sets in points.items():
        for variant in dict.fromkeys(variant for variant, _ in sets):
            full = sets.get((variant, FULL), {})
            mean = number(float(np.mean([mistakes_of(run) for run in full.values()] or nan)))
            suffix = ", printed" if variant == "paper" else f", {variant}"
            cells = [_cell(by.get((point, variant, name)), small) for name in others]
            rows.append([names[point] + suffix * (len(variants) > 1), mean, *cells])
    runs = span(c.pairs for c in compared)
    what = "the change with others, in per cent" if small else "the ratio of others to it"
    return TextTable(
        f"{_with(factor).capitalize()}: mean mistakes with the full set, and {what}. 95 % "
        f"bootstrap intervals, each on its own. Runs of each: {runs}. A star: significantly "
        "different from the full set, corrected for the number of comparisons.",
        ["problem", "full set", *(LABELS.get(name, name) for name in others)],
        rows,
    )


def _cell(c: SetComparison | None, small: bool) -> str:
    """A ratio with its interval, or the changes in per cent if all are small."""
    if c is None:
        return "-"
    star = "*" * c.told
    if not small:
        return with_interval(c.ratio, c.low, c.high) + star
    change, low, high = (f"{100 * (x - 1):+z.2f}" for x in (c.ratio, c.low, c.high))
    return change + (f" ({low} to {high})" if isfinite(c.low) else "") + star


def _figure(compared: Mapping[float, list[SetComparison]], names: PointLabels) -> Figure | None:
    """Ratios by problem and set, a panel for each m; None if there is none to draw."""
    panels = {}
    for factor, some in compared.items():
        # sets with printed constants, and corrected ones with the full set
        shown = [c for c in some if c.confidence == FULL or c.variant == "paper"]
        label = {c: LABELS.get(c.confidence, c.confidence) for c in shown}
        dots = [Dot(names[factor][c.point], label[c], c.ratio, c.low, c.high) for c in shown]
        if any(dot.drawable for dot in dots):
            panels[factor] = dots
    if not panels:
        return None
    found = {dot.kind for dots in panels.values() for dot in dots}
    kinds = [kind for kind in LABELS.values() if kind in found]
    kinds += sorted(found - set(kinds))
    heights = [0.6 + 0.55 * len({dot.row for dot in dots}) for dots in panels.values()]

    def draw(figure: Any) -> None:
        all_axes = figure.subplots(len(panels), 1, squeeze=False, height_ratios=heights)[:, 0]
        for axes, (factor, dots) in zip(all_axes, panels.items(), strict=True):
            draw_dots(axes, dots, kinds)
            axes.set_title(typeset(_with(factor).capitalize()), loc="left")
        all_axes[-1].set_xlabel("mistakes relative to the full printed set")
        legend(figure, kinds, 3)

    where = listed([_with(factor) for factor in panels])
    values = {
        kind: [dot.value for dots in panels.values() for dot in dots if dot.kind == kind]
        for kind in kinds
    }
    return Figure(
        "conditions",
        f"Mean mistakes of each confidence set, relative to the full printed set, {where}. (i) is "
        "Hoeffding's condition, (ii) Bernstein's, (iii) that on the deviation. Lines are 95 % "
        "bootstrap intervals.",
        f"Ratios of mistakes on a logarithmic axis, by problem, {where}: "
        + "; ".join(f"{kind} {span(some)}" for kind, some in values.items())
        + ".",
        draw,
        sum(heights) + 1.0,
    )
