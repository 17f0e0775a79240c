"""What is known of agents that were compared: their runs, and their places."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Literal, NamedTuple

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh._utils.files import AnyPath
from ucfh._utils.notebook import block, picture, table
from ucfh._utils.statistics import Interval, Place, median_interval, ranking, verdicts
from ucfh.algorithms.base import Agent
from ucfh.comparison.frames import curves_of, frame_of, totals_of
from ucfh.comparison.plots import plot_comparison
from ucfh.comparison.table import KEPT, cells_of, notes_on

POINTS = 200
"""Points of a curve over the episodes, evenly spaced in their logarithm."""


def grid_of(episodes: int) -> Floats:
    """(points,) whole numbers from 1 to ``episodes``, about evenly spaced in their logarithm."""
    grid: Floats = np.unique(np.geomspace(1, episodes, POINTS).round())
    return grid


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one agent with one seed.

    Attributes:
        agent, seed: the name of the agent, and the random seed.
        mistakes: episodes whose policy was worse than epsilon.
        last_mistake: the last of them, counted from 1; 0 if there was none. If it is the last
            episode of all, there may be more to come.
        regret: the reward lost over all episodes, compared with the optimum, in expectation given
            the policies followed.
        gap: V* - V of the last policy.
        scale: the factor of the agent's bonuses.
        samples: how many samples it asked a generative model for.
        planning_seconds, seconds: time for planning, and in total; without compiling.
        regret_curve, mistakes_curve: (points,) both after the numbers of episodes in `grid_of`.
        constants: where the agent's constants come from (`Agent.constants`).
        changed: whether it followed policies of different values; if not, it learned nothing that
            can be seen.

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


MOST_NAMED = 4
"""How many agents a short text names."""


class Failure(NamedTuple):
    """A run that failed, and why."""

    agent: str
    seed: int
    reason: str


@dataclass(frozen=True, eq=False)
class AgentSummary:
    """An agent's runs, over its seeds.

    Attributes:
        place: its rank, and how certain that is.
        outcomes: one per seed, in their order.

    """

    place: Place
    outcomes: list[Outcome]

    def of(self, name: str) -> Interval:
        """The median of an attribute of the outcomes, and its interval."""
        return median_interval([getattr(outcome, name) for outcome in self.outcomes])

    def curve(self, name: str) -> Floats:
        """(3, points) quartiles of a curve of the outcomes."""
        curves = np.array([getattr(outcome, name) for outcome in self.outcomes])
        quartiles: Floats = np.quantile(curves, [0.25, 0.5, 0.75], axis=0)
        return quartiles

    @property
    def changed(self) -> bool:
        """Whether the agent ever left its first policy for one of another value."""
        return any(outcome.changed for outcome in self.outcomes)

    @property
    def label(self) -> str:
        """The agent's name, marked if it never left its first policy."""
        return self.place.agent + f" {KEPT}" * (not self.changed)

    def __repr__(self) -> str:
        ranks = f"{self.place.first}" + f"-{self.place.last}" * (self.place.last > self.place.first)
        seeds = _count(len(self.outcomes), "seed")
        return f"Standing({self.place.agent}, rank {ranks}, {seeds})"


@dataclass(eq=False)
class Comparison:
    """Agents on one problem.

    Attributes:
        agents: their names, in the order given.
        episodes, seeds: how many; seeds are numbered from 0, and agents that differ from all
            others early may have run with fewer.
        epsilon: a policy that is worse by more than this is a mistake.
        optimal: V*.
        outcomes, failures: of the runs, by agent and seed.
        interrupted: whether the user stopped it early.
        looks: after how many seeds it was to be looked which differences are significant.
        problem: the name of the problem; "" if it was not given by its name.

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
        """(points,) numbers of episodes after which the curves are known."""
        return grid_of(self.episodes)

    @property
    def complete(self) -> int:
        """The number of seeds with which all agents ran, and none failed."""
        done = {(x.agent, x.seed) for x in self.outcomes}
        return sum(all((a, k) in done for a in self.agents) for k in range(self.seeds))

    @property
    def seeds_run(self) -> str:
        """With how many seeds the agents ran, in words: "13 to 50 of at most 100 seeds"."""
        ran = Counter([x.agent for x in self.outcomes] + [x.agent for x in self.failures])
        least, most = min(ran[a] for a in self.agents), max(ran[a] for a in self.agents)
        if least == self.seeds:
            return _count(self.seeds, "seed")
        some = f"{least}" + f" to {most}" * (most > least)
        return f"{some} of {'at most ' * (len(self.looks) > 1)}{_count(self.seeds, 'seed')}"

    def standings(self) -> list[AgentSummary]:
        """Agents that did not fail with every seed, smallest median regret first."""
        by_agent: dict[str, list[Outcome]] = {}
        for outcome in sorted(self.outcomes, key=lambda x: x.seed):
            by_agent.setdefault(outcome.agent, []).append(outcome)
        places = ranking(self._regrets(), self.looks)
        return [AgentSummary(place, by_agent[place.agent]) for place in places]

    def undecided(self) -> list[str]:
        """Agents that do not differ significantly from all others so far."""
        found = verdicts(self._regrets(), self.looks)
        waiting = {*chain(*(pair for pair, x in found.items() if not x.significant))}
        return [name for name in self.agents if name in waiting]

    def _regrets(self) -> dict[str, dict[int, float]]:
        """By agent and seed."""
        found: dict[str, dict[int, float]] = {}
        for x in self.outcomes:
            found.setdefault(x.agent, {})[x.seed] = x.regret
        return found

    def to_frame(self, curves: bool = False) -> Any:
        """The runs as a frame of pandas: one row for each agent and seed.

        With ``curves``, one row for each point of each run's curves: regret and mistakes after so
        many episodes.
        """
        return frame_of(curves_of(self) if curves else totals_of(self))

    def plot(
        self,
        path: AnyPath | None = None,
        title: str = "",
        force: bool = False,
        ax: Any = None,
        curve: Literal["regret", "mistakes"] = "regret",
    ) -> Any:
        """Draw regret and mistakes over the episodes, and return the figure of matplotlib.

        Args:
            path: a .png, .svg or .pdf file to save it to, if any.
            title: what to write above it; default: the problem, and the factor of the bonuses if
                it is not 1; above a new figure also the number of seeds, and epsilon.
            force: whether to overwrite an existing file.
            ax: axes of your own to draw on, in place of a new figure: one curve, with a legend.
                An agent's colour follows from its place in ``agents``, not from its rank.
            curve: which of the two.

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
        said = f"best: {', '.join(best)}" if best else "every run failed"
        if len(best) > MOST_NAMED:
            said = f"best: {best[0]}, not significantly better than {len(best) - 1} others"
        failed = f"; {_count(len(self.failures), 'run')} failed"
        said += failed * (bool(self.failures) and bool(best)) + "; interrupted" * self.interrupted
        agents, episodes = _count(len(self.agents), "agent"), _count(self.episodes, "episode")
        return f"Comparison({agents}, {self.seeds_run}, {episodes}; {said})"


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'s' * (n != 1)}"
