"""The table of a comparison, and the notes below it."""

from __future__ import annotations

from collections.abc import Callable
from math import floor
from typing import TYPE_CHECKING

from ucfh._utils.statistics import LEVEL, seeds_needed
from ucfh.algorithms.registry import ORIGINS, origins, tell_origins

if TYPE_CHECKING:
    from ucfh._utils.statistics import Interval
    from ucfh.comparison.result import AgentSummary, Comparison

UNCHANGED = "="
"""The mark of agents that never left their first policy."""

UNCHANGED_MEANS = "never left its first policy"


def cells_of(
    result: Comparison, standings: list[AgentSummary]
) -> tuple[list[str], list[list[str]]]:
    """Return the names of the columns, and the rows of the table."""
    columns: dict[str, Callable[[AgentSummary], str]] = {
        "rank": lambda x: f"{x.place.first}" + f"-{x.place.last}" * (x.place.last > x.place.first),
        "agent": lambda x: x.label,
        "regret": lambda x: _show(x.of("regret")),
        "mistakes": lambda x: _show(x.of("mistakes")),
        "last mistake": lambda x: _show(x.of("last_mistake"), most=result.episodes),
        "planning": lambda x: f"{x.of('planning_seconds').median:.2f} s",
        "p": lambda x: "best" if x.place.p is None else f"{x.place.p:.1g}",
    }
    if any(outcome.samples for outcome in result.outcomes):
        columns["samples"] = lambda x: _number(x.of("samples").median)
    if len(result.outcomes) < len(result.agents) * result.seeds:
        columns["seeds"] = lambda x: str(len(x.outcomes))
    return list(columns), [[cell(x) for cell in columns.values()] for x in standings]


def notes_on(result: Comparison, standings: list[AgentSummary]) -> list[str]:
    """Return lines on the marks, the findings, and the origin of the agents' constants."""
    return [
        *_marks(result, standings),
        *_findings(result, standings),
        *_constants(standings),
    ]


def _marks(result: Comparison, standings: list[AgentSummary]) -> list[str]:
    coverage = min(x.of("regret").coverage for x in standings)
    few = "" if coverage >= LEVEL else f" (too few seeds for {LEVEL:.0%}: the whole range)"
    seeds = {len(x.outcomes) for x in standings}
    level = f"{coverage:.1%}" if len(seeds) == 1 else f"at least {floor(1000 * coverage) / 10}%"
    over = "all seeds" if seeds == {result.seeds} else "the seeds run"
    lines = [f"[ ]   {level} confidence interval of the median over {over}{few}"]
    if len(result.looks) > 1:
        lines.append("      (as if the number of seeds had been fixed before)")
    if any(x.of("last_mistake").high >= result.episodes for x in standings):
        lines.append("+     the last episode was still a mistake")
    if not all(x.changed for x in standings):
        lines.append(f"{UNCHANGED}     {UNCHANGED_MEANS}, or only for others of the same value")
    if len(standings) > 1:
        looks = " and looks" * (len(result.looks) > 1)
        lines += [
            "p     of the difference in regret, paired by seed: exact signed-rank test, corrected",
            f"      for all pairs (Holm){looks}; rank: by the differences significant at 5%",
        ]
    return lines


def _findings(result: Comparison, standings: list[AgentSummary]) -> list[str]:
    best, *others = (x.place for x in standings)
    if not others:
        return []
    lines = []
    if len(result.looks) > 1:
        most = 1 + max(x.seed for x in result.outcomes)
        done = [str(n) for n in result.looks if n <= most]
        lines.append(
            f"Tested after {', '.join(done) or 'no'} seeds; more were run, at most {result.seeds}, "
            "only where differences were not significant."
        )
    close = [place.agent for place in others if place.p is not None and place.p > 1 - LEVEL]
    needed = seeds_needed(len(standings))
    if max(len(x.outcomes) for x in standings) < needed:
        lines.append(f"No difference can be significant with so few seeds: pass --seeds {needed}.")
    elif close:
        lines.append(f"{best.agent} is not significantly better than: {', '.join(close)}")
    else:
        lines.append(f"{best.agent} is significantly better than all others")
    if not standings[0].changed:
        lines.append(f"{best.agent} has not learned anything yet: its first policy is that good.")
    return lines


def _constants(standings: list[AgentSummary]) -> list[str]:
    """List the agents by the origin of their constants."""
    by_origin: dict[str, list[str]] = {}
    for x in sorted(standings, key=lambda x: _origin_order(x.outcomes[0].constants)):
        origin = tell_origins(x.outcomes[0].constants)
        by_origin.setdefault(origin, []).append(x.place.agent)
    head = "Origin of the agents' constants (details: ucfh agents NAME):"
    return [head, *(f"  {origin}: {', '.join(agents)}" for origin, agents in by_origin.items())]


def _origin_order(constants: str) -> list[int]:
    """Sort key of constants by their origins, published ones first."""
    return [ORIGINS.index(origin) for origin in origins(constants)] or [len(ORIGINS)]


def _show(x: Interval, most: float | None = None) -> str:
    """Format a median with its interval; + marks values at the maximum."""
    median, low, high = (
        _number(value) + "+" * (most is not None and value >= most) for value in x[:3]
    )
    return median if low == high else f"{median} [{low}, {high}]"


def _number(value: float) -> str:
    """Format three digits, or all of an integer part of up to six; no zeros in exponents.

    >>> [_number(x) for x in (0.0, 0.12345, 12.345, 123456.7, 2.5e15)]
    ['0', '0.123', '12.3', '123457', '2.5e15']
    """
    if 100 <= value < 1e6:
        return f"{value:.0f}"
    return f"{value:.3g}".replace("e+", "e").replace("e0", "e").replace("e-0", "e-")
