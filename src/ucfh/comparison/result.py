"""The result of a comparison: outcomes of runs, ranking, and their export as columns."""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import dataclass, field
from io import StringIO
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh._utils.files import AnyPath, write_text
from ucfh._utils.notebook import block, picture, table
from ucfh._utils.statistics import Interval, Place, median_interval, ranking, verdicts
from ucfh.algorithms.base import Agent
from ucfh.comparison.plots import plot_comparison
from ucfh.comparison.table import UNCHANGED, cells_of, notes_on
from ucfh.exceptions import not_installed

ENDINGS = (".csv",)

TOTALS = (
    "agent", "seed", "regret", "mistakes", "last_mistake", "gap", "changed", "scale", "samples",
    "planning_seconds", "seconds", "constants",
)  # fmt: skip
"""Scalar attributes of an `Outcome`."""

Columns = dict[str, list[Any]]
"""The values of each column, all of one length."""

POINTS = 200
"""Points of a curve over the episodes, evenly spaced on a logarithmic scale."""

MOST_NAMED = 4
"""Most agents named in a `repr`."""


def grid_of(episodes: int) -> Floats:
    """(points,) integers from 1 to ``episodes``, about evenly spaced on a logarithmic scale."""
    grid: Floats = np.unique(np.geomspace(1, episodes, POINTS).round())
    return grid


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one agent with one seed.

    Attributes:
        agent, seed: the name of the agent, and the random seed.
        mistakes: the number of epsilon-suboptimal episodes.
        last_mistake: the last of them, counted from 1; 0 if there was none. If it equals the
            number of episodes, more may follow.
        regret: sum (V* - V) over all episodes, in expectation given the policies.
        gap: V* - V of the last policy.
        scale: the factor of the agent's bonuses.
        samples: the number of samples drawn from a generative model.
        planning_seconds, seconds: time for planning, and in total; without compilation.
        regret_curve, mistakes_curve: (points,) both after the numbers of episodes in `grid_of`.
        constants: the origin of the agent's constants (`Agent.constants`).
        changed: True if it followed policies of different values; else no learning is visible.

    """

    agent: str
    seed: int
    mistakes: int
    last_mistake: int
    regret: float
    gap: float
    scale: float
    samples: int
    planning_seconds: float
    seconds: float
    regret_curve: Floats
    mistakes_curve: Floats
    constants: str = Agent.constants
    changed: bool = True

    def __repr__(self) -> str:
        return f"Outcome({self.agent}, seed {self.seed}: regret {self.regret:.4g})"


class Failure(NamedTuple):
    """A failed run, and the reason."""

    agent: str
    seed: int
    reason: str


@dataclass(frozen=True, eq=False)
class AgentSummary:
    """An agent's runs over its seeds.

    Attributes:
        place: its rank, with the uncertainty.
        outcomes: one per seed, in their order.

    """

    place: Place
    outcomes: list[Outcome]

    def of(self, name: str) -> Interval:
        """The median of an attribute of the outcomes, with a confidence interval."""
        return median_interval([getattr(outcome, name) for outcome in self.outcomes])

    def curve(self, name: str) -> Floats:
        """(3, points) quartiles of a curve of the outcomes."""
        curves = np.array([getattr(outcome, name) for outcome in self.outcomes])
        quartiles: Floats = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        return quartiles

    @property
    def changed(self) -> bool:
        """True if the agent ever left its first policy for one of another value."""
        return any(outcome.changed for outcome in self.outcomes)

    @property
    def label(self) -> str:
        """The agent's name, marked if it never left its first policy."""
        return self.place.agent + f" {UNCHANGED}" * (not self.changed)

    def __repr__(self) -> str:
        ranks = f"{self.place.first}" + f"-{self.place.last}" * (self.place.last > self.place.first)
        seeds = _count(len(self.outcomes), "seed")
        return f"AgentSummary({self.place.agent}, rank {ranks}, {seeds})"


@dataclass(eq=False)
class Comparison:
    """The result of running agents on one problem.

    Attributes:
        agents: their names, in the order given.
        episodes, seeds: numbers of episodes and seeds; seeds are numbered from 0, and agents that
            differ significantly from all others early may have fewer.
        epsilon: the accuracy that defines mistakes.
        optimal: V*.
        outcomes, failures: the finished and failed runs, by agent and seed.
        interrupted: True if the user stopped it early.
        looks: numbers of seeds at which the significance of differences is tested.
        problem: the name of the problem; "" for an unnamed MDP.

    """

    agents: list[str]
    episodes: int
    seeds: int
    epsilon: float
    optimal: float
    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False
    looks: list[int] = field(default_factory=list)
    problem: str = ""

    def __post_init__(self) -> None:
        self.looks = self.looks or [self.seeds]

    @property
    def grid(self) -> Floats:
        """(points,) numbers of episodes of the points of the curves."""
        return grid_of(self.episodes)

    @property
    def complete(self) -> int:
        """The number of seeds for which the runs of all agents succeeded."""
        done = {(x.agent, x.seed) for x in self.outcomes}
        return sum(all((a, k) in done for a in self.agents) for k in range(self.seeds))

    @property
    def seeds_run(self) -> str:
        """The numbers of seeds run, in words: "13 to 50 of at most 100 seeds"."""
        runs = Counter([x.agent for x in self.outcomes] + [x.agent for x in self.failures])
        least, most = min(runs[a] for a in self.agents), max(runs[a] for a in self.agents)
        if least == self.seeds:
            return _count(self.seeds, "seed")
        numbers = f"{least}" + f" to {most}" * (most > least)
        return f"{numbers} of {'at most ' * (len(self.looks) > 1)}{_count(self.seeds, 'seed')}"

    def standings(self) -> list[AgentSummary]:
        """Return the agents with at least one outcome, smallest median regret first."""
        by_agent: dict[str, list[Outcome]] = {}
        for outcome in sorted(self.outcomes, key=lambda x: x.seed):
            by_agent.setdefault(outcome.agent, []).append(outcome)
        places = ranking(self._regrets(), self.looks)
        return [AgentSummary(place, by_agent[place.agent]) for place in places]

    def undecided(self) -> list[str]:
        """Return the agents that do not differ significantly from all others so far."""
        tests = verdicts(self._regrets(), self.looks)
        undecided = {*chain(*(pair for pair, x in tests.items() if not x.significant))}
        return [name for name in self.agents if name in undecided]

    def _regrets(self) -> dict[str, dict[int, float]]:
        """Return the regrets by agent and seed."""
        regrets: dict[str, dict[int, float]] = {}
        for x in self.outcomes:
            regrets.setdefault(x.agent, {})[x.seed] = x.regret
        return regrets

    def totals(self) -> Columns:
        """Return the totals as columns, with one row for each agent and seed."""
        runs = self.outcomes
        return {
            "problem": [self.problem] * len(runs),
            **{name: [getattr(run, name) for run in runs] for name in TOTALS},
        }

    def curves(self) -> Columns:
        """Return the curves as columns, with one row for each agent, seed and point."""
        runs, grid = self.outcomes, self.grid.astype(np.int64).tolist()
        return {
            "problem": [self.problem] * (len(runs) * len(grid)),
            "agent": [run.agent for run in runs for _ in grid],
            "seed": [run.seed for run in runs for _ in grid],
            "episode": grid * len(runs),
            "regret": [value for run in runs for value in run.regret_curve.tolist()],
            "mistakes": [value for run in runs for value in run.mistakes_curve.tolist()],
        }

    def to_frame(self, curves: bool = False) -> Any:
        """Return the runs as a pandas DataFrame.

        Args:
            curves: False: one row for each agent and seed. True: one row for each point of the
                curves, regret and mistakes over the number of episodes.

        """
        try:
            from pandas import DataFrame
        except ImportError:
            raise not_installed("a frame", "pandas") from None
        return DataFrame(self.curves() if curves else self.totals())

    def plot(
        self,
        path: AnyPath | None = None,
        title: str = "",
        force: bool = False,
        ax: Any = None,
        curve: Literal["regret", "mistakes"] = "regret",
    ) -> Any:
        """Draw regret and mistakes over the episodes, and return the matplotlib figure.

        Args:
            path: a .png, .svg or .pdf file to save it to, if any.
            title: the title; default: the problem, and the factor of the bonuses if it is not 1;
                for a new figure also the number of seeds, and epsilon.
            force: True overwrites an existing file.
            ax: axes of your own to draw one curve on, with a legend, in place of a new figure.
                An agent's color follows its place in ``agents``, not its rank.
            curve: the curve drawn on ``ax``.

        """
        return plot_comparison(self, title, path, force, ax, curve)

    def _repr_html_(self) -> str:
        standings = self.standings()
        if not standings:
            return block(repr(self))
        figure = plot_comparison(self)
        parts = [table(*cells_of(self, standings)), *notes_on(self, standings)]
        return block(repr(self), *parts, picture(figure, "regret and mistakes over the episodes"))

    def __repr__(self) -> str:
        standings = self.standings()
        best = [x.place.agent for x in standings if x.place.first == 1]
        status = f"best: {', '.join(best)}" if best else "every run failed"
        if len(best) > MOST_NAMED:
            status = f"best: {best[0]}, not significantly better than {len(best) - 1} others"
        failed = f"; {_count(len(self.failures), 'run')} failed"
        status += failed * (bool(self.failures) and bool(best)) + "; interrupted" * self.interrupted
        agents, episodes = _count(len(self.agents), "agent"), _count(self.episodes, "episode")
        return f"Comparison({agents}, {self.seeds_run}, {episodes}; {status})"


def write_csv(columns: Columns, path: AnyPath, force: bool = False) -> None:
    """Write columns to a .csv file, with all digits."""
    text = StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    writer.writerows(zip(*columns.values(), strict=True))
    write_text(path, text.getvalue(), force)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
