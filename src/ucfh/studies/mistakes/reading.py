"""Mistakes, compared with Theorems 1 and 2, problem by problem."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, floor, inf, isinf, log10
from statistics import median
from typing import Any

from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh.experiments.store import Result
from ucfh.report.section import Figure, Reading, TextTable
from ucfh.report.words import listed, number, plural, short, span, times, unseeded

VARIANTS = {"paper": "printed", "corrected": "corrected"}
"""The names of the constants."""

LEGEND = (
    "mistakes, printed", "mistakes, corrected", "Theorem 2", "Theorem 1, printed",
    "Theorem 1, corrected",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Setting:
    """Runs that differ only in their random seed and in that of the problem.

    Attributes:
        label: the label of the grid.
        arguments: with the problem's name without its seed.
        values: the values of each run.

    """

    label: str
    arguments: dict[str, Any]
    values: list[dict[str, Any]]

    @cached_property
    def mistakes(self) -> list[float]:
        """The mistakes of each run."""
        return [inf if run["mistakes"] is None else run["mistakes"] for run in self.values]

    def median(self, key: str) -> float | None:
        """The median of a value; None if some run has none."""
        found = [run[key] for run in self.values]
        return None if None in found else float(median(found))

    @cached_property
    def typical(self) -> float:
        """The median of mistakes."""
        return float(median(self.mistakes))

    @property
    def variant(self) -> str:
        """The constants, in words."""
        return VARIANTS[self.arguments["variant"]]

    @property
    def wait(self) -> float:
        """The visits of a pair before its first update."""
        return float(self.values[0]["m"] * self.values[0]["w_min"])

    @property
    def key(self) -> str:
        """The same text for this setting and for the one with the other constants."""
        return str({**self.arguments, "variant": ""}) + self.label

    def name(self, among: Sequence[Setting]) -> str:
        """Its problem, and where it differs from others on that problem, except the variant."""
        problem = self.arguments["problem"]
        alike = [other for other in among if other.arguments["problem"] == problem]
        words = [short(problem)]
        for key, value in self.arguments.items():
            differ = len({str(other.arguments[key]) for other in alike}) > 1
            if differ and key not in ("problem", "variant"):
                words.append(f"{'eps' if key == 'epsilon' else key} {value}")
        return ", ".join(words)


def read(results: Sequence[Result]) -> Reading:
    """Mistakes, how far the theorems are from them, and whether waiting explains them."""
    settings = _settings(results)
    if not settings:
        return Reading(["No result contains the mistakes of a lifetime."], [], [])
    seen = [
        f"{_finding(settings)} {_captured(settings)}",
        f"{_none(settings)} {_waiting(settings)}",
        _theorem_2(settings),
        _after(settings),
    ]
    tables: dict[tuple[str, str], list[Setting]] = defaultdict(list)
    for setting in settings:
        tables[setting.label, setting.variant].append(setting)
    return Reading(
        [text.strip() for text in seen if text.strip()],
        [_figure(settings)],
        [_table(*named, group) for named, group in tables.items()],
    )


def _settings(results: Sequence[Result]) -> list[Setting]:
    found: dict[str, Setting] = {}
    for result in results:
        if "bound" in result.values:
            arguments = {**result.arguments, "problem": unseeded(result.arguments["problem"])}
            setting = Setting(result.label, arguments, [])
            found.setdefault(result.label + str(arguments), setting).values.append(result.values)
    return list(found.values())


def _finding(settings: list[Setting]) -> str:
    runs = [
        (bound, mistakes, setting.arguments["delta"])
        for setting in settings
        for mistakes, run in zip(setting.mistakes, setting.values, strict=True)
        if (bound := run["bound"]) is not None
    ]
    if not runs:
        return "Theorem 1 holds for none of the settings."
    over = sum(mistakes > bound for bound, mistakes, _ in runs)
    within = [bound / mistakes for bound, mistakes, _ in runs if 0 < mistakes <= bound]
    larger = (
        f"where there are mistakes, it allows {span(within, 2)} times as many" if within else ""
    )
    if not over:
        text = f"None of {plural(len(runs), 'run')} made more mistakes than Theorem 1 allows"
        return f"{text}; {larger}." if larger else f"{text}, because none made any."
    text = f"{over} of {plural(len(runs), 'run')} made more mistakes than Theorem 1 allows"
    allowed = sum(delta for *_, delta in runs)
    text += f", and delta allows {number(allowed)} on average"
    return f"{text}; in the others, {larger}." if larger else f"{text}."


def _captured(settings: list[Setting]) -> str:
    runs = [run["captured"] for setting in settings for run in setting.values]
    lost = runs.count(False)
    if not lost:
        return "The true MDP was in the confidence sets at every update of every run."
    return (
        f"The true MDP was outside the confidence sets at some update in {lost} of "
        f"{plural(len(runs), 'run')}."
    )


def _none(settings: list[Setting]) -> str:
    """Where there is no mistake at all."""
    without = [setting for setting in settings if not any(setting.mistakes)]
    if not without:
        return ""
    names = []
    for setting in without:
        alike = [s for s in settings if s.arguments["problem"] == setting.arguments["problem"]]
        same = [s for s in settings if s.key == setting.key]
        if all(s in without for s in alike):
            names.append(short(setting.arguments["problem"]))
        else:
            both = all(s in without for s in same)
            names.append(setting.name(settings) + ("" if both else f" ({setting.variant})"))
    return (
        f"No run makes a mistake on {listed(list(dict.fromkeys(names)))}: the learner is told "
        "rewards and possible successors, and its plan without data is already within epsilon."
    )


def _waiting(settings: list[Setting]) -> str:
    """Whether mistakes are made while waiting for first updates."""
    made = [setting for setting in settings if 0 < setting.typical < inf]
    if not made:
        return ""
    ratios = [setting.typical / setting.wait for setting in made]
    pairs = [setting.values[0]["states"] * setting.values[0]["actions"] for setting in made]
    more = sum(ratio > count for ratio, count in zip(ratios, pairs, strict=True))
    text = [
        f"Where there are mistakes, their median is {span(ratios)} times m w_min, the visits of a "
        "pair before its first update; "
        + (
            "in no setting is it more than that for all S A pairs."
            if not more
            else f"in {more} of {len(made)} settings it is more than that for all S A pairs."
        )
    ]
    twins: dict[str, list[Setting]] = defaultdict(list)
    for setting in made:
        twins[setting.key].append(setting)
    both = [pair for pair in twins.values() if len(pair) == 2]
    if both:
        waits = [one.wait / other.wait for one, other in both]
        apart = [
            abs(one.typical / other.typical / wait - 1)
            for (one, other), wait in zip(both, waits, strict=True)
        ]
        one, other = both[0][0].variant, both[0][1].variant
        text.append(
            f"With the {one} constants m w_min is {span(waits, 2)} times that of the {other} "
            f"ones, and mistakes differ by the same factor within {number(100 * max(apart), 2)} % "
            f"in {plural(len(both), 'setting')} run with both: "
            + (
                "as if all were made while waiting for the first updates."
                if max(apart) < 0.1 and not more
                else "waiting for the first updates does not explain all."
            )
        )
    return " ".join(text)


def _theorem_2(settings: list[Setting]) -> str:
    ranged = [setting for setting in settings if setting.median("lower_bound") is not None]
    if not ranged:
        return "No setting is in the range of Theorem 2, which needs far smaller epsilon and delta."
    runs = [
        (run["lower_bound"], mistakes)
        for setting in ranged
        for mistakes, run in zip(setting.mistakes, setting.values, strict=True)
    ]
    fewer = sum(mistakes < bound for bound, mistakes in runs)
    text = [
        f"Theorem 2 holds for {plural(len(ranged), 'setting')}. It says that on the worst "
        f"problem of that size any learner needs {span([bound for bound, _ in runs])} episodes on "
        f"average; UCFH makes {span([mistakes for _, mistakes in runs])} mistakes."
    ]
    if fewer:
        text.append(
            f"{fewer} of {plural(len(runs), 'run')} made fewer than it says, which it rules out "
            "only on average."
        )
    else:
        least = min(mistakes / bound for bound, mistakes in runs)
        text.append(f"Every run made at least {times(least)} as many as it says.")
    return " ".join(text)


def _after(settings: list[Setting]) -> str:
    """How long it takes, and what that leaves open."""
    runs = [run for setting in settings for run in setting.values]
    text = []
    lasts = [run["last_mistake"] for run in runs if run["last_mistake"] and run["mistakes"]]
    if lasts:
        ends = [
            run["episodes"] / run["last_mistake"]
            for run in runs
            if run["last_mistake"] and run["mistakes"]
        ]
        text.append(
            f"The last mistake comes in episode {number(max(lasts))} or earlier; it takes "
            f"{span(ends, 2)} times as many episodes until the policy can never change again."
        )
    endless = sum(run["mistakes"] is None for run in runs)
    if endless:
        text.append(f"{plural(endless, 'run')} ended with a policy that is worse than epsilon.")
    counts = [len(setting.values) for setting in settings]
    ranges = [max(s.mistakes) / min(s.mistakes) for s in settings if 0 < min(s.mistakes) < inf]
    text.append(f"Each setting has {span(counts)} {'run' if max(counts) == 1 else 'runs'}")
    if ranges and max(counts) > 1 and not isinf(max(ranges)):
        text[-1] += f", whose mistakes differ by a factor of up to {number(max(ranges))}"
    text[-1] += "; the problems are small, and it is not known how typical they are."
    return " ".join(text)


def _table(label: str, variant: str, settings: list[Setting]) -> TextTable:
    lower = any(setting.median("lower_bound") is not None for setting in settings)
    rows = []
    for setting in settings:
        bound, low = setting.median("bound"), setting.median("lower_bound")
        some = 0 < setting.typical < inf
        ends = span(setting.mistakes)
        lasts = [run["last_mistake"] for run in setting.values]
        rows.append(
            [
                setting.arguments["problem"],
                number(setting.arguments["epsilon"]),
                number(setting.typical) + (f" ({ends})" if " to " in ends else ""),
                "-" if bound is None else number(bound),
                number(bound / setting.typical, 2) if bound is not None and some else "-",
                *([("-" if low is None else number(low))] if lower else []),
                "inf" if inf in setting.mistakes else number(max(lasts)),
                number(setting.median("episodes") or 0),
            ]
        )
    deltas = sorted({setting.arguments["delta"] for setting in settings})
    caption = (
        f"{label[:1].upper()}{label[1:]}{', ' if label else ''}{variant} constants, delta "
        f"{listed([number(delta) for delta in deltas])}: median mistakes (with their range where "
        "three digits show it), the number that Theorem 1 allows, that number over the median"
        f"{', Theorem 2' if lower else ''}, the last mistake of any run, and the number of "
        "episodes after which the policy is final (median)."
    )
    columns = ["problem", "eps", "mistakes", "Theorem 1", "times", "last mistake", "final after"]
    return TextTable(caption, columns[:5] + ["Theorem 2"] * lower + columns[5:], rows)


def _figure(settings: list[Setting]) -> Figure:
    """A row for each setting, both variants in it."""
    rows: dict[str, list[Setting]] = defaultdict(list)
    for setting in settings:
        rows[setting.key].append(setting)
    every = [value for setting in settings for value in _shown(setting) if 0 < value < inf]
    low, high = (floor(log10(min(every))), ceil(log10(max(every)))) if every else (0, 1)

    def place(value: float) -> float:
        """Powers of 10, with places for 0 and for no end beside them."""
        return low - 3.0 if value == 0 else high + 3.0 if isinf(value) else log10(value)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        label = settings[0].label
        for k, group in enumerate(rows.values()):
            if group[0].label != label:
                label = group[0].label
                axes.axhline(k - 0.5, color=GREY, lw=0.8)
            for setting in group:
                mark = list(VARIANTS.values()).index(setting.variant)
                look: Any = {"marker": MARKS[mark], "color": COLOURS[mark], "ls": ""}
                y = k + (0.0 if len(group) == 1 else 0.3 * mark - 0.15)
                ends = [place(f(setting.mistakes)) for f in (min, max)]
                axes.plot(ends, [y, y], lw=1.5, color=COLOURS[mark])
                said = f", {setting.variant}"
                axes.plot(place(setting.typical), y, ms=6, label="mistakes" + said, **look)
                if (bound := setting.median("bound")) is not None:
                    axes.plot(place(bound), y, ms=6, mfc="none", label="Theorem 1" + said, **look)
                if (bound := setting.median("lower_bound")) is not None:
                    axes.plot(place(bound), y, "v", ms=6, color=COLOURS[4], label="Theorem 2")
        step = max(1, ceil((high - low) / 6))
        ticks = {float(k): f"$10^{{{k}}}$" for k in range(low, high + 1, step)}
        if any(0 in setting.mistakes for setting in settings):
            ticks[place(0)] = "0"
            axes.axvline(low - 1.5, color=GREY, lw=0.8)
        if any(inf in setting.mistakes for setting in settings):
            ticks[place(inf)] = "no end"
            axes.axvline(high + 1.5, color=GREY, lw=0.8)
        axes.set_xticks(list(ticks), list(ticks.values()))
        names = [group[0].name(settings) for group in rows.values()]
        axes.set_yticks(range(len(rows)), names, parse_math=False)
        axes.set_ylim(len(rows) - 0.4, -0.6)
        axes.grid(alpha=0.25)
        axes.set_xlabel("episodes")
        handles = dict(zip(*axes.get_legend_handles_labels()[::-1], strict=True))
        ordered = [handles[name] for name in LEGEND if name in handles]
        figure.legend(handles=ordered, loc="outside lower center", ncols=2, frameon=False)

    return Figure(
        "mistakes",
        "Median mistakes of each setting, with a line from the fewest to the most, and the number "
        "that Theorem 1 allows (open marks), with printed and corrected constants"
        + (
            "; triangles: Theorem 2, where it holds."
            if any(setting.median("lower_bound") is not None for setting in settings)
            else "."
        ),
        "A row for each problem, and each epsilon where it has several; from left to right, on a "
        "logarithmic axis of episodes, mistakes and the numbers of the theorems. The tables have "
        "the numbers.",
        draw,
        height=1.4 + 0.24 * len(rows),
    )


def _shown(setting: Setting) -> list[float]:
    """All values of a setting that are drawn."""
    bounds = [setting.median("bound"), setting.median("lower_bound")]
    return [*setting.mistakes, setting.typical, *(bound for bound in bounds if bound is not None)]
