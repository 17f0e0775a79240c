"""Runs with one confidence set against runs with another, of the same problem.

Runs are compared by problem and replicate. Those on a random problem share the problem, others
share nothing; in both cases pairs are independent and identically distributed, and a bootstrap may
draw them as pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from math import inf
from typing import Any, NamedTuple

import numpy as np

from ucfh._support.statistics import LEVEL, holm, ratio_of_means, signed_rank
from ucfh.experiments.store import Result
from ucfh.report.words import unseeded

FULL = "paper"
"""The set with all three conditions."""

RunValues = Mapping[str, Any]
RunsBySet = dict[tuple[str, str], dict[tuple[str, int], RunValues]]
"""Runs by (variant, set) and by (problem, replicate)."""

Point = tuple[str, float, float]
"""A problem without its seed, epsilon and delta."""


class SetComparison(NamedTuple):
    """A set against the full one; the full one with corrected constants against printed ones.

    Attributes:
        point: the problem.
        variant, confidence: constants and set.
        pairs: how many pairs of runs there are.
        ratio, low, high: of the means of mistakes, and its interval; nan where there is none.
        p, side: of a signed-rank test; p is corrected for all comparisons with the same m.

    """

    point: Point
    variant: str
    confidence: str
    pairs: int
    ratio: float
    low: float
    high: float
    p: float
    side: int

    @property
    def told(self) -> bool:
        """Whether the two are significantly different, ranks and means on the same side."""
        return self.p <= 1 - LEVEL and not (self.ratio - 1) * self.side < 0


def grouped(results: Sequence[Result]) -> dict[float, dict[Point, RunsBySet]]:
    """Runs by m, the largest first, and by problem."""
    groups: dict[float, dict[Point, RunsBySet]] = {}
    for result in results:
        a = result.arguments
        if "m_factor" in a and "mistakes" in result.values:
            problem = unseeded(a["problem"]) + " by stage" * a["stages"]
            point = problem, float(a["epsilon"]), float(a["delta"])
            sets = groups.setdefault(float(a["m_factor"]), {}).setdefault(point, {})
            runs = sets.setdefault((a["variant"], a["confidence"]), {})
            runs[a["problem"], result.replicate] = result.values
    return dict(sorted(groups.items(), reverse=True))


def all_runs(sets: RunsBySet) -> Iterable[RunValues]:
    """The runs of one problem."""
    return (run for runs in sets.values() for run in runs.values())


def mistakes_of(run: RunValues) -> float:
    """The mistakes of a run; infinite if they never end."""
    return inf if run["mistakes"] is None else float(run["mistakes"])


def tightness(points: Mapping[Point, RunsBySet]) -> dict[str, list[float]]:
    """By set, how far V~ and V are apart at the end: medians over those of the full set.

    One ratio for each problem and variant; none where V~ = V with the full set.
    """
    found: dict[str, list[float]] = {}
    for sets in points.values():
        off = {
            kind: float(np.median([run["off"] for run in runs.values()]))
            for kind, runs in sets.items()
        }
        for (variant, confidence), value in off.items():
            if confidence != FULL and off.get((variant, FULL)):
                found.setdefault(confidence, []).append(value / off[variant, FULL])
    return found


def compare(points: Mapping[Point, RunsBySet]) -> list[SetComparison]:
    """All sets with the full one of the same constants, and that one with the printed one."""
    found = []
    for point, sets in points.items():
        for (variant, confidence), runs in sets.items():
            base = sets.get((variant if confidence != FULL else "paper", FULL), {})
            shared = sorted(runs.keys() & base.keys())
            if shared and base is not runs:
                one = np.array([mistakes_of(runs[key]) for key in shared])
                other = np.array([mistakes_of(base[key]) for key in shared])
                same = one == other  # inf less inf is no number
                test = signed_rank(np.where(same, 0.0, one - np.where(same, 0.0, other)))
                ratio = ratio_of_means(one, other)
                found.append(SetComparison(point, variant, confidence, len(shared), *ratio, *test))
    corrected = holm([c.p for c in found])
    return [c._replace(p=float(p)) for c, p in zip(found, corrected, strict=True)]
