"""Run learners on one problem with the same seeds, in parallel, and keep what matters of each run.

Seeds are run one after the other, each with all learners, so that an interrupted comparison is
still paired. A run depends only on its learner and seed, not on where and when it ran. The process
that ran it reduces it to some numbers and two curves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import NamedTuple

import numpy as np

from ucfh._support.arrays import Floats
from ucfh._support.defaults import DELTA
from ucfh._support.parallel import DIED, do_all
from ucfh._support.statistics import Interval, Place, median_interval, ranking
from ucfh.agents.base import Agent
from ucfh.errors import InputError, check_count, check_type, check_unit, wrong_type
from ucfh.problem import MDP
from ucfh.problems import as_mdp
from ucfh.simulation.run import TOLERANCE, Run
from ucfh.simulation.simulate import simulate

POINTS = 200
"""Points of a curve over the episodes, evenly spaced in their logarithm."""

Maker = Callable[[MDP, int], Agent]
"""Makes a learner for a problem and a seed."""


@dataclass(frozen=True, eq=False)
class Outcome:
    """The result of one learner with one seed.

    Attributes:
        agent, seed: the name of the learner, and the random seed.
        mistakes: episodes whose policy was worse than epsilon.
        last_mistake: the last of them, counted from 1; 0 if there was none. If it is the last
            episode of all, there may be more to come.
        regret: the reward lost over all episodes, compared with the optimum, in expectation given
            the policies followed.
        gap: V* - V of the last policy.
        scale: the factor of the learner's bonuses.
        samples: how many samples it asked a generative model for.
        planning_seconds, seconds: time for planning, and in total; without compiling.
        regret_curve, mistakes_curve: (points,) both after the numbers of episodes in `grid_of`.
        constants: where the learner's constants come from (`Agent.constants`).

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


class Failure(NamedTuple):
    """A run that failed, and why."""

    agent: str
    seed: int
    reason: str


@dataclass(frozen=True, eq=False)
class Standing:
    """A learner's runs, over its seeds.

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


@dataclass(eq=False)
class Comparison:
    """Learners on one problem.

    Attributes:
        agents: their names, in the order given.
        episodes, seeds: how many; seeds are numbered from 0.
        epsilon: a policy that is worse by more than this is a mistake.
        optimal: V*.
        outcomes, failures: of the runs, by learner and seed.
        interrupted: whether the user stopped it early.

    """

    agents: list[str]
    episodes: int
    seeds: int
    epsilon: float
    optimal: float
    outcomes: list[Outcome] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    interrupted: bool = False

    @property
    def grid(self) -> Floats:
        """(points,) numbers of episodes after which the curves are known."""
        return grid_of(self.episodes)

    @property
    def complete(self) -> int:
        """The number of seeds with which no learner failed."""
        done = {(x.agent, x.seed) for x in self.outcomes}
        return sum(all((a, k) in done for a in self.agents) for k in range(self.seeds))

    def standings(self) -> list[Standing]:
        """Learners that did not fail with every seed, smallest median regret first."""
        by_agent: dict[str, list[Outcome]] = {}
        for outcome in self.outcomes:
            by_agent.setdefault(outcome.agent, []).append(outcome)
        places = ranking(
            {name: {x.seed: x.regret for x in found} for name, found in by_agent.items()}
        )
        return [Standing(place, by_agent[place.agent]) for place in places]


def compare(
    mdp: MDP,
    agents: Sequence[str] | Mapping[str, Maker],
    episodes: int,
    seeds: int = 20,
    epsilon: float = 0.1,
    delta: float = DELTA,
    scale: float = 1.0,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Comparison:
    """Run learners on a problem, every one with the same seeds, and evaluate them exactly.

    Args:
        mdp: the world.
        agents: names (see ``ucfh agents``), with parameters after a colon where they differ from
            their defaults; or your own learners: functions of the MDP and a seed, by name, that
            other processes can import.
        episodes: the number of episodes of every run.
        seeds: the number of random seeds, from 0. A seed fixes all randomness of world and learner.
        epsilon, delta: asked of learners by name; a mistake is a policy worse than epsilon.
        scale: the factor of the bonuses of learners by name; 1 leaves them as they are.
        workers: the number of processes; None: one per core. It does not change the result.
        progress: called with the number of runs done and the number of all runs.

    If it is interrupted (Ctrl-C), it returns the runs done, marked ``interrupted``.

    """
    mdp = as_mdp(mdp)
    if isinstance(agents, str) or not isinstance(agents, Iterable):
        names = "a list of names, such as ['psrl']"
        raise wrong_type(
            "agents", agents, f"{names}, or a dict of functions that make learners, by name"
        )
    check_type("progress", progress, Callable | None, "a function, or None")
    check_unit("epsilon", epsilon)
    check_unit("delta", delta)
    episodes, seeds = check_count("episodes", episodes), check_count("seeds", seeds)
    if workers is not None:
        workers = check_count("workers", workers)
    if not isinstance(agents, Mapping):
        agents = makers(mdp, agents, epsilon, delta, episodes, scale)
    if not agents:
        raise InputError("no agents are given: name at least one")
    result = Comparison(list(agents), episodes, seeds, epsilon, mdp.at_start(mdp.optimal().values))
    jobs = [
        SeedRun(name, make, seed, mdp, episodes, epsilon)
        for seed in range(seeds)
        for name, make in agents.items()
    ]
    try:
        for done, (job, one) in enumerate(do_all(run_job, jobs, workers), 1):
            if isinstance(one, Outcome):
                result.outcomes.append(one)
            else:
                result.failures.append(one or Failure(job.agent, job.seed, DIED))
            if progress is not None:
                progress(done, len(jobs))
    except KeyboardInterrupt:
        result.interrupted = True
    order = {name: k for k, name in enumerate(agents)}
    result.outcomes.sort(key=lambda x: (order[x.agent], x.seed))
    result.failures.sort(key=lambda x: (order[x.agent], x.seed))
    return result


def makers(
    mdp: MDP, names: Sequence[str], epsilon: float, delta: float, episodes: int, scale: float
) -> dict[str, Maker]:
    """How to make each learner of a list of names; an error if one cannot be made."""
    from ucfh.agents.online import check_scale

    check_scale(scale)  # not every learner looks at it
    found: dict[str, Maker] = {}
    for name in names:
        make = partial(_make, (name, epsilon, delta, episodes, scale))
        make(mdp, 0)  # fail now, not after an hour
        if name in found:
            raise InputError(f"the agent {name} is given twice: remove one")
        found[name] = make
    return found


def _make(settings: tuple[str, float, float, int, float], mdp: MDP, seed: int) -> Agent:
    from ucfh.agents.registry import make_agent

    name, epsilon, delta, episodes, scale = settings
    return make_agent(name, mdp, epsilon, delta, episodes, seed, scale)


def grid_of(episodes: int) -> Floats:
    """(points,) whole numbers from 1 to ``episodes``, about evenly spaced in their logarithm."""
    grid: Floats = np.unique(np.geomspace(1, episodes, POINTS).round())
    return grid


class SeedRun(NamedTuple):
    """One run to do."""

    agent: str
    make: Maker
    seed: int
    mdp: MDP
    episodes: int
    epsilon: float


def run_job(job: SeedRun) -> Outcome | Failure:
    """Do one run."""
    try:
        agent = job.make(job.mdp, job.seed)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "the learner does not say when its policy changes")
            run = simulate(job.mdp, agent, job.episodes, job.seed)
    except Exception as error:  # any error of a learner: the other runs are kept
        text = " ".join(str(error).split())
        kind = "" if isinstance(error, InputError) else type(error).__name__ + ": "
        return Failure(job.agent, job.seed, (kind + text).removesuffix(": "))
    if run.interrupted:
        raise KeyboardInterrupt
    return _reduce(job, agent, run)


def _reduce(job: SeedRun, agent: Agent, run: Run) -> Outcome:
    """What is kept of a run."""
    counts = [row.episodes for row in run.rows]
    counts[-1] += job.episodes - run.episodes  # a final policy is followed until the end
    gaps = np.maximum([row.gap for row in run.rows], 0.0)
    bad = gaps > job.epsilon + TOLERANCE
    times = np.array(counts, float)
    ends = np.concatenate([[0.0], np.cumsum(times)])
    # both grow linearly within a phase, so interpolation is exact
    regret = np.concatenate([[0.0], np.cumsum(times * gaps)])
    mistakes = np.concatenate([[0.0], np.cumsum(times * bad)])
    grid = grid_of(job.episodes)
    last = max((k + 1 for k in np.flatnonzero(bad) if counts[k]), default=0)
    return Outcome(
        job.agent,
        job.seed,
        mistakes=sum(count for count, worse in zip(counts, bad, strict=True) if worse),
        last_mistake=sum(counts[:last]),
        regret=float(regret[-1]),
        gap=float(gaps[-1]),
        scale=agent.scale,
        samples=agent.samples,
        planning_seconds=agent.planning_seconds,
        seconds=run.seconds,
        regret_curve=np.interp(grid, ends, regret),
        mistakes_curve=np.interp(grid, ends, mistakes),
        constants=type(agent).constants,
    )
