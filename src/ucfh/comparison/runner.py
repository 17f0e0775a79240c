"""Parallel runs of agents on one problem with the same seeds.

Seeds are run in order, each with all agents, so that an interrupted comparison is still paired. A
run depends only on its agent and seed, not on the process or the schedule. The process that runs
it reduces it to an `Outcome`: totals and two curves.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ucfh._utils.defaults import DELTA, EPSILON
from ucfh._utils.parallel import DIED, check_places, do_all
from ucfh._utils.plugins import add_to_path, folder_of, is_plugin
from ucfh._utils.statistics import looks_of
from ucfh.algorithms.base import Agent
from ucfh.algorithms.registry import AnyAgent, agent_class, label_of, make_agent
from ucfh.comparison.result import Comparison, Failure, Outcome, grid_of
from ucfh.exceptions import InputError, check_count, check_type, check_unit, wrong_type
from ucfh.mdp import MDP
from ucfh.problems import AnyMDP, as_mdp, name_of
from ucfh.simulation.checker import check_runnable
from ucfh.simulation.result import TOLERANCE, Run
from ucfh.simulation.runner import simulate

Maker = Callable[[MDP, int], Agent]
"""A function that makes an agent for a problem and a seed."""


def compare(
    mdp: AnyMDP,
    agents: Iterable[AnyAgent] | Mapping[str, AnyAgent | Maker],
    episodes: int,
    seeds: int = 20,
    epsilon: float = EPSILON,
    delta: float = DELTA,
    scale: float = 1.0,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
    until_significant: bool = False,
    cluster: str | None = None,
) -> Comparison:
    """Run agents on a problem with the same seeds, and evaluate them exactly.

    Args:
        mdp: the MDP, or its name.
        agents: names (see ``ucfh agents``), with parameters after a colon where they differ from
            their defaults, or ``module:Class`` for an agent of your own; or classes; or a dict
            from names to these or to functions of an MDP and a seed that make agents. Worker
            processes must be able to import classes and functions.
        episodes: the number of episodes of every run.
        seeds: the number of random seeds, from 0. A seed fixes all randomness of MDP and agent.
        epsilon, delta: accuracy and failure probability of agents by name or class; epsilon also
            defines mistakes.
        scale: the factor of the bonuses of agents by name or class.
        workers: the number of processes; None: one per core. It does not change the result.
        progress: called with the number of runs done and the largest possible number.
        until_significant: True begins with fewer seeds, and adds more, at most ``seeds``, only for
            agents that do not yet differ significantly from all others.
        cluster: the address of a Dask scheduler whose workers do the runs.

    Returns:
        The outcomes; on Ctrl-C, those of the finished runs, marked ``interrupted``.

    >>> compare("chain:n=3", ["psrl", "uniform"], episodes=100, seeds=6)
    Comparison(2 agents, 6 seeds, 100 episodes; best: psrl)

    """
    title, mdp = name_of(mdp), as_mdp(mdp)
    if isinstance(agents, str) or not isinstance(agents, Iterable):
        names = "a list of names, such as ['psrl']"
        raise wrong_type(
            "agents", agents, f"{names}, or a dict of functions that make agents, by name"
        )
    check_type("progress", progress, Callable | None, "a function, or None")
    check_unit("epsilon", epsilon)
    check_unit("delta", delta)
    episodes, seeds = check_count("episodes", episodes), check_count("seeds", seeds)
    check_places(workers, cluster)
    factories = makers(mdp, agents, epsilon, delta, episodes, scale)
    if not factories:
        raise InputError("no agents are given: name at least one")
    optimal = mdp.at_start(mdp.optimal().values)
    result = Comparison(list(factories), episodes, seeds, epsilon, optimal, problem=title)
    if until_significant:
        result.looks = looks_of(seeds, len(factories))
    try:
        first, active = 0, result.agents
        for most in result.looks:
            jobs = [
                SeedRun(name, factories[name], seed, mdp, episodes, epsilon)
                for seed in range(first, most)
                for name in active
            ]
            all_runs = len(result.outcomes) + len(result.failures) + (seeds - first) * len(active)
            for done in _add(result, jobs, workers, cluster):
                if progress is not None:
                    progress(done, all_runs)
            if most < seeds:
                first, active = most, result.undecided()
            if not active:
                break
    except KeyboardInterrupt:
        result.interrupted = True
    order = {name: k for k, name in enumerate(factories)}
    result.outcomes.sort(key=lambda x: (order[x.agent], x.seed))
    result.failures.sort(key=lambda x: (order[x.agent], x.seed))
    return result


def _add(
    result: Comparison, jobs: list[SeedRun], workers: int | None, cluster: str | None
) -> Iterator[int]:
    """Do runs and add them to the result; yield the number of runs after each."""
    for job, one in do_all(run_job, jobs, workers, cluster):
        if isinstance(one, Outcome):
            result.outcomes.append(one)
        else:
            result.failures.append(one or Failure(job.agent, job.seed, DIED))
        yield len(result.outcomes) + len(result.failures)


def makers(
    mdp: MDP,
    agents: Iterable[AnyAgent] | Mapping[str, AnyAgent | Maker],
    epsilon: float,
    delta: float,
    episodes: int,
    scale: float,
) -> dict[str, Maker]:
    """Return a factory for each agent, by its name in results; raise if one cannot be made."""
    from ucfh.algorithms.bonus import check_scale

    check_scale(scale)  # not every agent checks it
    factories: dict[str, Maker] = {}
    named: Iterable[tuple[str | None, Any]] = (
        agents.items() if isinstance(agents, Mapping) else ((None, x) for x in agents)
    )
    for name, agent in named:
        if name is not None and callable(agent) and not isinstance(agent, type):
            factories[name] = agent
            continue
        built_in = agent_class(agent).__module__.startswith("ucfh.")
        folder = folder_of(agent) if isinstance(agent, str) and is_plugin(agent) else None
        make = partial(_make, (agent, epsilon, delta, episodes, scale), folder)
        make(mdp, 0)  # fail now, not after an hour
        if not built_in:
            check_runnable(agent)
        label = label_of(agent) if name is None else name
        if label in factories:
            raise InputError(f"the agent {label} is given twice: remove one")
        factories[label] = make
    return factories


def _make(
    settings: tuple[AnyAgent, float, float, int, float], folder: str | None, mdp: MDP, seed: int
) -> Agent:
    """Make an agent, whose module may be in a folder outside this process's search path."""
    agent, epsilon, delta, episodes, scale = settings
    if folder is not None:
        add_to_path(folder)
    return make_agent(agent, mdp, epsilon, delta, episodes, seed, scale)


class SeedRun(NamedTuple):
    """One run to do: an agent and a seed."""

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
            warnings.filterwarnings("ignore", "the agent does not say when its policy changes")
            run = simulate(job.mdp, agent, job.episodes, job.seed)
    except Exception as error:  # any error of an agent: the other runs are kept
        text = " ".join(str(error).split())
        kind = "" if isinstance(error, InputError) else type(error).__name__ + ": "
        return Failure(job.agent, job.seed, (kind + text).removesuffix(": "))
    if run.interrupted:
        raise KeyboardInterrupt
    return _reduce(job, agent, run)


def _reduce(job: SeedRun, agent: Agent, run: Run) -> Outcome:
    """Reduce a run to its outcome."""
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
    followed = [row.value for row, count in zip(run.rows, counts, strict=True) if count]
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
        changed=max(followed) - min(followed) > TOLERANCE,
    )
