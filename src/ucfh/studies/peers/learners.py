"""Learners side by side: their runs, and the figures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucfh._support.arrays import Floats
from ucfh._support.palette import COLOURS, GREY, MARKS
from ucfh._support.statistics import NOISE, Interval, median_interval
from ucfh.agents.registry import RENAMED
from ucfh.experiments.store import Result
from ucfh.report.section import Figure
from ucfh.report.words import bars, labels, listed, number, plural, unseeded

PRINTED, CERTIFIED, FLOOR = "ucfh", "certified ucfh", "uniform"
CALLED = dict.fromkeys(["certified-ucfh", *RENAMED], CERTIFIED)

TELLING = (PRINTED, CERTIFIED, "psrl", "ucrl2", "ucbvi-bf", "eqo", "ucb-h", FLOOR)
"""Learners whose curves stand out, if they ran: some of each kind."""

RunsByReplicate = dict[int, Result]
"""Runs of one learner on one problem, by replicate."""


@dataclass(frozen=True)
class Field:
    """All runs of a study.

    Attributes:
        runs: runs of learners from episodes, by problem (without its seed) and learner.
        sampling: the same for learners that asked a generative model for samples.
        names: short labels of the problems.

    """

    runs: dict[str, dict[str, RunsByReplicate]]
    sampling: dict[str, dict[str, RunsByReplicate]]
    names: dict[str, str]

    def of(self, name: str) -> dict[str, RunsByReplicate]:
        """Runs of a learner by problem."""
        return {problem: found[name] for problem, found in self.runs.items() if name in found}

    @property
    def learners(self) -> list[str]:
        """Those from episodes, by mean relative rank, because not all ran on all problems."""
        ranks: dict[str, list[float]] = {}
        for by_name in self.runs.values():
            medians = {name: median_of("regret", runs) for name, runs in by_name.items()}
            order = np.array(list(medians.values()))
            for name, x in medians.items():
                same = NOISE * max(1.0, x)
                rank = (np.sum(order < x - same) + np.sum(order <= x + same)) / 2
                ranks.setdefault(name, []).append(rank / len(order))
        return sorted(ranks, key=lambda name: float(np.mean(ranks[name])))

    @property
    def against_floor(self) -> bool:
        """Whether random actions were run on every problem, to compare losses with."""
        return all(FLOOR in by_name for by_name in self.runs.values())

    @property
    def whole(self) -> str:
        """What losses are shares of, in words."""
        return "what random actions lose" if self.against_floor else "what the optimum earns"

    def share(self, problem: str, name: str) -> Interval | None:
        """What a learner loses on a problem as a share of `whole`, by median; None if unknown."""
        by_name = self.runs.get(problem, {})
        found = []
        for replicate, run in by_name.get(name, {}).items():
            whole = run.arguments["episodes"] * run.values["optimal"]
            if self.against_floor:
                floor = by_name[FLOOR].get(replicate)
                whole = floor.values["regret"] if floor else 0.0
            if whole > 0:
                found.append(run.values["regret"] / whole)
        return median_interval(found) if found else None


def field_of(results: Sequence[Result]) -> Field:
    """Runs by problem and learner."""
    runs: dict[str, dict[str, RunsByReplicate]] = {}
    sampling: dict[str, dict[str, RunsByReplicate]] = {}
    for result in results:
        kind = sampling if result.values["samples"] else runs
        by_name = kind.setdefault(unseeded(result.arguments["problem"]), {})
        name = _name(result.arguments, results[0].arguments)
        by_name.setdefault(name, {})[result.replicate] = result
    return Field(runs, sampling, labels(unseeded(x.arguments["problem"]) for x in results))


def _name(arguments: dict[str, Any], usual: dict[str, Any]) -> str:
    """The name of a learner, with the arguments that are not the usual ones."""
    agent = arguments["agent"]
    own = [
        f"{key} {arguments[key]:g}"
        for key in ("episodes", "epsilon", "delta", "scale")
        if arguments[key] != usual[key]
    ]
    return ", ".join([CALLED.get(agent, agent), *own])


def median_of(key: str, runs: RunsByReplicate) -> float:
    """The median of a value over the replicates."""
    return float(np.median([run.values[key] for run in runs.values()]))


def curves(field: Field) -> Figure | None:
    """Regret over the episodes, a panel for each problem; None if nobody lost anything.

    Problems that only a few learners ran on are left out.
    """
    most = max(map(len, field.runs.values()))
    panels = {
        problem: {name: _quartiles(by_name[name]) for name in field.learners if name in by_name}
        for problem, by_name in field.runs.items()
        if 2 * len(by_name) > most
    }
    panels = {problem: lines for problem, lines in panels.items() if max(_ends(lines)) > NOISE}
    if not panels:
        return None
    telling = [name for name in field.learners if name in TELLING]
    chosen = telling if len(telling) > 1 else field.learners[:: -(-most // len(TELLING))]
    looks = {name: _look(k, name) for k, name in enumerate(chosen)}
    rows = -(-len(panels) // 2)

    def draw(figure: Any) -> None:
        grid = figure.subplots(rows, min(2, len(panels)), squeeze=False).ravel()
        for axes, (problem, lines) in zip(grid, panels.items(), strict=False):
            _draw_panel(axes, lines, looks)
            axes.set_title(field.names[problem], parse_math=False)
        for axes in grid[::2]:
            axes.set_ylabel("regret")
        for axes in grid[max(0, len(panels) - 2) : len(panels)]:
            axes.set_xlabel("episodes")
        for axes in grid[len(panels) :]:
            axes.remove()
        handles = {line.get_label(): line for axes in figure.axes for line in axes.get_lines()}
        ordered = [handles[name] for name in (*looks, OTHERS) if name in handles]
        figure.legend(handles=ordered, loc="outside lower center", ncols=3, frameon=False)

    runs = plural(max(len(x) for found in field.runs.values() for x in found.values()), "run")
    caption = (
        f"Reward lost so far by {plural(most, 'learner')}, medians of {runs}, with the middle half "
        "of them where a line is coloured; both axes are logarithmic. A line becomes flat when its "
        "learner has learned."
    )
    told = []
    for problem, lines in panels.items():
        least = min(lines, key=lambda name: float(lines[name][1][1][-1]))
        ends = listed([number(f(_ends(lines))) for f in (min, max)])
        told.append(f"on {field.names[problem]} between {ends} (least: {least})")
    alt = (
        "Regret over episodes, a panel for each problem, both axes logarithmic. At the end: "
        f"{'; '.join(told)}."
    )
    return Figure("peers", caption, alt, draw, 1.2 + 2.1 * rows)


Lines = dict[str, tuple[Floats, Floats]]
"""Numbers of episodes (n,) and quartiles (3, n) of the regret until then, by learner."""

OTHERS = "others"
PALE = "#b8b8b8"
"""The lines of learners that are not singled out."""


def _ends(lines: Lines) -> list[float]:
    """The median regret of each learner at the end."""
    return [float(values[1][-1]) for _, values in lines.values()]


def _draw_panel(axes: Any, lines: Lines, looks: dict[str, dict[str, Any]]) -> None:
    """The regret of all learners on one problem, those with a look in front."""
    ends = _ends(lines)
    last = max(float(after[-1]) for after, _ in lines.values())
    first, zero = last / SHOWN, min(ends) <= NOISE
    seen = [float(np.interp(first, after, values[1])) for after, values in lines.values()]
    floor = _floor(ends) if zero else max(min(seen), _floor(ends) / 10)
    axes.set(xscale="log", yscale="log", xlim=(first, last))
    axes.set_ylim(floor / 1.5, 2 * max(float(values[2][-1]) for _, values in lines.values()))
    for k, (name, (after, values)) in enumerate(lines.items()):
        low, middle, high = np.maximum(values, floor)
        if name not in looks:
            axes.plot(after, middle, lw=0.6, color=PALE, zorder=1, label=OTHERS)
            continue
        axes.fill_between(after, low, high, alpha=0.15, lw=0, color=looks[name]["color"])
        axes.plot(after, middle, lw=1.2, markevery=(2 * k % 8, 8), label=name, **looks[name])
    _ticks(axes.yaxis, floor if zero else None)
    axes.grid(alpha=0.25)


SHOWN = 1000
"""The first 1/SHOWN of the episodes is not drawn: all learn little in it."""


def _look(k: int, name: str) -> dict[str, Any]:
    """The look of the k-th line."""
    if name == FLOOR:
        return {"color": GREY, "ls": "--"}
    mark = MARKS[(k + k // len(COLOURS)) % len(MARKS)]
    return {"color": COLOURS[k % len(COLOURS)], "marker": mark, "ms": 4}


def _quartiles(runs: RunsByReplicate) -> tuple[Floats, Floats]:
    """Numbers of episodes (n,), and quartiles (3, n) of the regret until then."""
    some = next(iter(runs.values()))
    episodes = some.arguments["episodes"]
    after = [x for x in some.values["after"] if x < episodes] + [episodes]
    lost = [[*run.values["regrets"], run.values["regret"]] for run in runs.values()]
    kept = [[*x[: len(after) - 1], x[-1]] for x in lost]
    return np.array(after, float), np.quantile(np.array(kept), [0.25, 0.5, 0.75], axis=0)


def _floor(values: Iterable[float]) -> float:
    """The place of 0 on a logarithmic axis: below all positive values."""
    positive = [x for x in values if x > NOISE]
    return float(10.0 ** (np.ceil(np.log10(min(positive))) - 1)) if positive else 0.1


def _ticks(axis: Any, zero: float | None) -> None:
    """Ticks at powers of ten, and one at the place of 0."""
    low, high = axis.get_view_interval()
    least = low if zero is None else 2 * zero
    ticks = {10.0**k: f"$10^{{{k}}}$" for k in range(-30, 31) if least <= 10.0**k <= high}
    if 1.0 in ticks:
        ticks[1.0] = "1"
    if zero is not None:
        ticks[zero] = "0"
    axis.set_ticks(list(ticks), list(ticks.values()))
    axis.axes.minorticks_off()


def dots(field: Field) -> Figure | None:
    """What every learner loses on every problem; None if no share is known."""
    learners = field.learners
    shares = {
        problem: {
            name: share for name in learners if (share := field.share(problem, name)) is not None
        }
        for problem in field.runs
    }
    every = [share for by_name in shares.values() for share in by_name.values()]
    if not every:
        return None
    medians = [share.median for share in every]
    floor = min(_floor(medians), 0.1)

    def draw(figure: Any) -> None:
        axes = figure.subplots()
        axes.set_xscale("log")
        axes.axvline(1, color=GREY, lw=1, ls="--")
        for k, (problem, by_name) in enumerate(shares.items()):
            x = [max(share.median, floor) for share in by_name.values()]
            low = [a - max(share.low, floor) for a, share in zip(x, by_name.values(), strict=True)]
            high = [max(share.high - a, 0) for a, share in zip(x, by_name.values(), strict=True)]
            axes.errorbar(
                x, [learners.index(name) for name in by_name], xerr=[low, high],
                fmt=MARKS[k % len(MARKS)], color=COLOURS[k % len(COLOURS)], ms=5.5, lw=0.8,
                mfc="none", mew=1.3, label=field.names[problem],
            )  # fmt: skip
        axes.set_yticks(range(len(learners)), learners)
        axes.set_ylim(len(learners) - 0.5, -0.5)
        axes.set_xlim(floor / 1.6, 2.5 * max(1.0, *medians))
        _ticks(axes.xaxis, floor if min(medians) <= NOISE else None)
        axes.set_xlabel(f"regret as a share of {field.whole}")
        axes.grid(alpha=0.25)
        figure.legend(loc="outside upper center", ncols=3, frameon=False, columnspacing=1.2)

    caption = (
        f"Regret of each learner as a share of {field.whole} (dashed: all of it): median and "
        f"{bars(every)}. The learner that ranks best, on average over the problems, is on top."
    )
    alt = (
        f"One mark for each of {plural(len(learners), 'learner')} and "
        f"{plural(len(shares), 'problem')}, over the share on a logarithmic axis from "
        f"{number(min(medians), 2)} to {number(max(medians), 2)}. From the top: {learners[0]}; at "
        f"the bottom: {learners[-1]}."
    )
    return Figure("peers-all", caption, alt, draw, 1.4 + 0.2 * len(learners))
