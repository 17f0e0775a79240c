"""Let a learner loose on an MDP."""

from __future__ import annotations

from collections.abc import Callable
from math import nan
from time import perf_counter

import numpy as np

from ucfh.agents.base import Agent
from ucfh.errors import InputError, check_count
from ucfh.problem import MDP
from ucfh.simulation.run import Phase, Run
from ucfh.simulation.world import World

CHUNK_STEPS = 2_000_000
"""Steps walked between two reports of progress: about a twentieth of a second."""

Progress = Callable[[Run], None]


def simulate(
    mdp: MDP,
    agent: Agent,
    episodes: int | None = None,
    seed: int = 0,
    progress: Progress | None = None,
) -> Run:
    """Run a learner on an MDP, step by step, and keep a record of every policy it follows.

    Args:
        mdp: the world. The learner sees counts from it, never its probabilities.
        agent: the learner; it goes on from where it is.
        episodes: how many to run at most; None: until the policy can never change again.
        seed: of NumPy's default generator. The same seed gives the same run.
        progress: called with the run so far, a few times a second.

    Interrupted (Ctrl-C), it returns what was run, marked ``interrupted``.

    >>> from ucfh import UCFH, make
    >>> mdp = make("chain:n=5")
    >>> run = simulate(mdp, UCFH(mdp.problem, epsilon=0.5, delta=0.1, m=20))
    >>> run.final, run.gap <= 0.5
    (True, True)

    """
    started = perf_counter()
    most = None if episodes is None else check_count("episodes", episodes)
    if seed < 0:
        raise InputError(f"seed = {seed} must be at least 0")
    rng = np.random.default_rng(seed)
    world = World(mdp, agent.problem)
    optimal = mdp.at_start(mdp.optimal().values)
    run = Run(optimal, agent.epsilon, agent.delta, agent.episode_bound, agent.policy)
    chunk = max(1, CHUNK_STEPS // mdp.horizon)
    try:
        new_phase = True
        while most is None or run.episodes < most:
            if new_phase:
                limits = agent.limits()
                rows = mdp.table.rows_of(agent.policy, mdp.horizon)
                _begin_phase(run, world, agent)
                if world.is_final(rows, limits):
                    run.final = True
                    break
            room = chunk if most is None else min(chunk, most - run.episodes)
            if limits.episodes is not None:
                room = min(room, limits.episodes)
            walked, seen = world.walk(rng, rows, limits, room)
            run._rows[-1].episodes += walked
            new_phase = agent.observe(seen)
            if new_phase:
                _end_phase(run, agent)
            else:
                limits = agent.limits()
            if progress is not None:
                progress(run)
    except KeyboardInterrupt:
        run.interrupted = True
    run.seconds = perf_counter() - started
    return run


def _begin_phase(run: Run, world: World, agent: Agent) -> None:
    """A row for the policy that is about to be followed."""
    value = world.mdp.value(agent.policy)
    captured = nan
    if agent.box is not None:
        captured = float(agent.box.holds(world.p, world.mdp.mean_rewards.ravel()))
    run.policy = agent.policy
    run._rows.append(Phase(run.episodes, 0, value, agent.optimistic, run.optimal - value, captured))


def _end_phase(run: Run, agent: Agent) -> None:
    """Note the pair whose update ended the phase."""
    _, state, action = agent.problem.table.pair_of(agent.updated)
    row = run._rows[-1]
    row.state, row.action, row.n = state, action, agent.visits_of(agent.updated)
