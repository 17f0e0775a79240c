"""An agent on an MDP, phase after phase."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import nan
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh._utils.clock import work_seconds
from ucfh._utils.defaults import DELTA, EPSILON
from ucfh.algorithms.base import Agent
from ucfh.algorithms.registry import AnyLearner, make_agent
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_count, check_seed, check_type, unknown
from ucfh.problems import AnyMDP, as_mdp, name_of
from ucfh.simulation.bulk import BulkPhase
from ucfh.simulation.environment import EpisodeBatch, Simulator
from ucfh.simulation.result import Checkpoint, Phase, Run
from ucfh.simulation.result_file import check_same, describe

CHUNK_STEPS = 2_000_000
"""Steps walked between two reports of progress: about a twentieth of a second."""

COPY_SECONDS = 0.5
"""Seconds between two copies of the counts of a phase: Ctrl-C loses at most these."""

FIRST_STEPS = 1_000
"""Steps that are walked at the beginning of a phase, if it may end within them."""

OnRun = Callable[[Run], None]


def simulate(
    mdp: AnyMDP,
    agent: Agent | AnyLearner,
    episodes: int | None = None,
    seed: int = 0,
    method: Literal["bulk", "step"] = "bulk",
    progress: OnRun | None = None,
    resume: Run | None = None,
    on_phase: OnRun | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Run:
    """Run an agent on an MDP, and keep a record of every policy it follows.

    Args:
        mdp: the world, or its name. The agent sees counts from it, never its probabilities.
        agent: the agent, a new one for every run; or its name or class, and `make_agent` makes
            it. To continue with what another has learned, call ``agent.restore(other.state())``;
            to begin with counts, ``agent.observe`` them.
        episodes: the most episodes to run; None: until the policy can never change again, or the
            agent has the certificate that was asked for.
        seed: random seed of the simulation (NumPy's default generator). The same seed and
            method give the same run.
        method: "bulk" runs any number of episodes at once, exactly (see
            `ucfh.simulation.bulk`); "step" walks every one of them. The two agree in law.
        progress: called with the run so far, a few times a second or once a phase.
        resume: a run of the same MDP, agent, seed and method, which is left as it is. The
            result is the same as if it had not stopped (only in law if a cap cut a jump of more
            than 1e17 episodes short); of a finished run, a copy (and the agent stays new).
        on_phase: called with the run so far whenever its last row is that of a new policy, which
            the agent is about to follow: look at the agent, and change nothing. An agent
            with its own loop (`Agent.follow`) is already further by then.
        epsilon, delta: asked of an agent by its name or class; None: 0.1.

    If it is interrupted (Ctrl-C), it returns what was run, marked ``interrupted``.

    >>> run = simulate("chain:n=5", "ucfh", epsilon=0.5, delta=0.1)
    >>> run.final, run.episodes > 1e10, run.gap <= 0.5
    (True, True, True)

    """
    started = work_seconds()
    title, mdp = name_of(mdp), as_mdp(mdp)
    if isinstance(agent, Agent):
        if epsilon is not None or delta is not None:
            raise InputError("the agent has its own epsilon and delta: leave them out here")
    else:
        asked = EPSILON if epsilon is None else epsilon, DELTA if delta is None else delta
        agent = make_agent(agent, mdp, *asked, episodes, check_seed(seed))
    check_type("progress", progress, Callable | None, "a function, or None")
    check_type("resume", resume, Run | None, "a Run, or None")
    check_type("on_phase", on_phase, Callable | None, "a function, or None")
    look = on_phase or _do_nothing
    most = None if episodes is None else check_count("episodes", episodes)
    seed = check_seed(seed)
    if method not in ("bulk", "step"):
        raise unknown("method", method, ("bulk", "step"))
    rng = np.random.default_rng(seed)
    if agent.problem.table.segments > 1:
        mdp = mdp.by_segment()
    world = Simulator(mdp, agent.problem)
    if method == "bulk" and agent.limits() is None:
        warnings.warn(
            "the agent does not say when its policy changes: walking episodes", stacklevel=2
        )
        method = "step"
    if agent.has_run:
        raise InputError(
            f"the agent ({agent.name}) has been run before: pass a new one, made in the same way"
        )
    endless = agent.follow is not None and not agent.stops
    if endless and most is None and (resume is None or not resume.final):
        raise InputError(f"{agent.name} never stops by itself: pass episodes=N (--episodes N)")
    about = describe(mdp, agent, seed, method)
    if resume is None:
        optimal = mdp.at_start(mdp.optimal().values)
        run = Run(about, optimal, agent.episode_bound, agent.update_bound, agent.policy)
        run.problem = title
    else:
        run = _continue(resume, about, agent, rng, most)
        if run.final:
            return run
    agent.has_run = True
    spent = run.seconds
    while not run.final and not run.interrupted and (most is None or run.episodes < most):
        try:
            if agent.wants is not None:
                _ask(run, world, agent, rng)
            elif not agent.done and method == "bulk" and agent.follow is not None:
                _run_loop(run, world, agent, rng, most, progress, look)
            elif not agent.done:
                _run_phase(run, world, agent, rng, most, method, progress, look)
            if agent.done:
                _begin_phase(run, world, agent, mdp.table.rows_of(agent.policy, mdp.horizon), look)
                run.final, run.checkpoint = True, None
        except KeyboardInterrupt:  # while it plans: its counts may be half-updated
            if run.checkpoint is None or not run.rows:
                raise
            agent.restore(deepcopy(run.checkpoint.agent))
            run.interrupted = True
    run.certificate = agent.certificate
    if run.certificate is not None:
        run.policy = run.certificate.policy
    run.seconds = spent + work_seconds() - started
    return run


def _do_nothing(_: Run) -> None:
    """The default of ``on_phase``."""


def _continue(
    old: Run, about: dict[str, Any], agent: Agent, rng: np.random.Generator, most: int | None
) -> Run:
    """A copy of a run up to its last finished phase, with agent and generator as they were then.

    Of a finished run, the copy is complete.
    """
    check_same(old.about, about)
    if most is not None and most < old.episodes:
        raise InputError(
            f"the saved run already has {old.episodes} episodes, more than {most}: pass at least "
            f"{old.episodes}, or no limit"
        )
    rows = [replace(row) for row in old.rows]
    run = deepcopy(replace(old, rows=[]))
    if run.final:
        run.rows = rows
        return run
    agent.has_run = True  # even if it cannot be restored
    try:
        if run.checkpoint is None:
            raise KeyError("checkpoint")
        agent.restore(deepcopy(run.checkpoint.agent))
        rng.bit_generator.state = run.checkpoint.generator
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"the saved run is damaged ({error}): start a new run") from None
    run.rows, run.interrupted = rows[: run.checkpoint.rows], False
    return run


def _ask(run: Run, world: Simulator, agent: Agent, rng: np.random.Generator) -> None:
    """Give an agent the successors that it asks a generative model for."""
    wants = agent.wants
    assert wants is not None
    checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows))
    try:
        agent.study(world.sample(rng, wants))
    except KeyboardInterrupt:
        agent.restore(checkpoint.agent)
        run.interrupted, run.checkpoint = True, checkpoint
        return
    agent.samples += sum(wants.tolist())


def _run_loop(
    run: Run,
    world: Simulator,
    agent: Agent,
    rng: np.random.Generator,
    most: int | None,
    progress: OnRun | None,
    look: OnRun,
) -> None:
    """Let an agent run some episodes in its own loop, and add its policies to the record."""
    assert agent.follow is not None
    before = run.episodes
    checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows))
    try:
        asked = max(1, CHUNK_STEPS // (64 * world.mdp.horizon))
        asked = asked if most is None else min(asked, most - before)
        walked, record, run.policy = agent.follow(rng, world.as_nature(), asked)
    except KeyboardInterrupt:
        agent.restore(checkpoint.agent)
        run.interrupted, run.checkpoint = True, checkpoint
        return
    begins = [*record.first_episode.tolist(), walked]
    if run.rows:
        run.rows[-1].episodes += begins[0]
    for i, (value, promised) in enumerate(zip(record.value, record.promised, strict=True)):
        phase = Phase(
            before + begins[i],
            begins[i + 1] - begins[i],
            float(value),
            float(promised),
            run.optimal - float(value),
            nan,
        )
        run.rows.append(phase)
        look(run)
    run.checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows))
    if walked < asked:
        run.final, run.checkpoint = True, None
    try:
        if progress is not None:
            progress(run)
    except KeyboardInterrupt:
        run.interrupted = True


def _run_phase(
    run: Run,
    world: Simulator,
    agent: Agent,
    rng: np.random.Generator,
    most: int | None,
    method: str,
    progress: OnRun | None,
    look: OnRun,
) -> None:
    """Follow one policy until the agent changes it, and add its row to the record."""
    rows = world.mdp.table.rows_of(agent.policy, world.mdp.horizon)
    phase = _begin_phase(run, world, agent, rows, look)
    run.checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows) - 1)
    while not run.interrupted and run.episodes != most:
        limits = agent.limits() or Limits(np.full(world.mdp.table.rows, NEVER), episodes=1)
        if world.is_final(rows, limits):
            run.final, run.checkpoint = True, None
            return
        before = phase.episodes
        stretch = _run_stretch(run, phase, world, agent, rng, rows, limits, most, method, progress)
        phase.episodes = before + stretch.episodes
        if agent.observe(stretch.seen):
            if agent.updated >= 0:
                phase.segment, phase.state, phase.action = agent.problem.table.pair_of(
                    agent.updated
                )
                phase.n = agent.visits_of(agent.updated)
            return


def _run_stretch(
    run: Run,
    phase: Phase,
    world: Simulator,
    agent: Agent,
    rng: np.random.Generator,
    rows: Ints,
    limits: Limits,
    most: int | None,
    method: str,
    progress: OnRun | None,
) -> EpisodeBatch:
    """Follow the policy of a phase until a limit is reached, or Ctrl-C is pressed.

    Counts and number of episodes agree while progress is reported, but not in between. So that
    Ctrl-C in between keeps what was run, a copy is taken now and then.
    """
    stretch = EpisodeBatch(Counts.zero(agent.problem))
    saved: EpisodeBatch | None = None
    before, copied, reporting = phase.episodes, perf_counter(), False

    def tick() -> None:
        nonlocal saved, copied, reporting
        reporting = True
        phase.episodes = before + stretch.episodes
        if progress is not None:
            progress(run)
        if perf_counter() - copied > COPY_SECONDS:
            saved, copied = replace(stretch, seen=stretch.seen.copy()), perf_counter()
        reporting = False

    few = max(1, FIRST_STEPS // world.mdp.horizon)
    room = [x for x in (limits.episodes, most and most - run.episodes) if x is not None]
    one_by_one = method == "step" or limits.watch is not None or limits.steps
    one_by_one |= bool((limits.visits <= 0).any())
    if not one_by_one and phase.episodes < few and _may_end(limits, room, few):
        room.append(few - phase.episodes)
        one_by_one = True
    try:
        if one_by_one:
            _walk_phase(world, rng, rows, limits, min(room, default=None), stretch, tick)
        else:
            BulkPhase(world, rng, rows, limits, min(room, default=None), stretch).run(tick)
    except KeyboardInterrupt:
        run.interrupted = True
        if not reporting:
            stretch = saved or EpisodeBatch(Counts.zero(agent.problem))
    if not one_by_one:
        world.draw_rewards(rng, stretch.seen)
    return stretch


def _may_end(limits: Limits, room: list[int], few: int) -> bool:
    """Whether so few episodes may reach a limit, or what is left of the episodes asked for."""
    return bool((limits.visits <= FIRST_STEPS).any()) or any(x <= few for x in room)


def _walk_phase(
    world: Simulator,
    rng: np.random.Generator,
    rows: Ints,
    limits: Limits,
    most: int | None,
    stretch: EpisodeBatch,
    tick: Callable[[], None],
) -> None:
    """Walk the episodes of a phase one by one."""
    chunk = max(1, CHUNK_STEPS // world.mdp.horizon)
    while not stretch.ended and (most is None or stretch.episodes < most):
        room = chunk if most is None else min(chunk, most - stretch.episodes)
        world.walk(rng, rows, limits, room, stretch)
        tick()


def _begin_phase(run: Run, world: Simulator, agent: Agent, rows: Ints, look: OnRun) -> Phase:
    """A row for the policy that is about to be followed, which takes rows (H, S)."""
    value = world.value(rows)
    captured = nan
    if agent.box is not None:
        captured = float(agent.box.holds(world.p, world.mean_rewards))
    run.policy = agent.policy
    phase = Phase(
        run.episodes,
        0,
        value,
        agent.optimistic,
        run.optimal - value,
        captured,
        lower=agent.lower,
        gap_bound=agent.gap_bound,
    )
    run.rows.append(phase)
    look(run)
    return phase
