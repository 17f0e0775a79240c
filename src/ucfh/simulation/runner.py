"""The simulation loop: an agent on an MDP, phase by phase."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from copy import deepcopy
from dataclasses import replace
from math import nan
from time import perf_counter
from typing import Any, Literal

import numpy as np

from ucfh import __version__
from ucfh._utils.arrays import Ints
from ucfh._utils.defaults import DELTA, EPSILON
from ucfh.algorithms.base import Agent
from ucfh.algorithms.registry import AnyAgent, make_agent
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_count, check_seed, check_type, unknown
from ucfh.mdp import MDP
from ucfh.problems import AnyMDP, as_mdp, name_of
from ucfh.simulation.bulk import BulkPhase
from ucfh.simulation.environment import EpisodeBatch, Simulator, fingerprint
from ucfh.simulation.result import Checkpoint, Phase, Run

CHUNK_STEPS = 2_000_000
"""Steps walked between two progress reports: about a twentieth of a second."""

COPY_SECONDS = 0.5
"""Seconds between two copies of the counts of a phase: Ctrl-C loses at most these."""

FIRST_STEPS = 1_000
"""Steps walked at the beginning of a phase that may end within them."""

OnRun = Callable[[Run], None]


def simulate(
    mdp: AnyMDP,
    agent: Agent | AnyAgent,
    episodes: int | None = None,
    seed: int = 0,
    method: Literal["bulk", "step"] = "bulk",
    progress: OnRun | None = None,
    resume: Run | None = None,
    on_phase: OnRun | None = None,
    epsilon: float | None = None,
    delta: float | None = None,
) -> Run:
    """Run an agent on an MDP and record every policy that it follows.

    Args:
        mdp: the MDP, or its name. The agent sees counts from it, never its probabilities.
        agent: the agent, a new one for every run; or its name or class for `make_agent`. To
            continue from the state of another agent, call ``agent.restore(other.state())``; to
            begin with counts, ``agent.observe`` them.
        episodes: the most episodes to run; None: until the policy can never change again, or the
            agent has the requested certificate.
        seed: random seed of the simulation (NumPy's default generator). The same seed and
            method give the same run.
        method: "bulk" runs any number of episodes at once, exactly (see
            `ucfh.simulation.bulk`); "step" walks every episode. The two agree in distribution.
        progress: called with the run so far, a few times a second or once a phase.
        resume: a run of the same MDP, agent, seed and method, which is not modified. The result
            equals that of an uninterrupted run (only in distribution if a cap cut a jump of more
            than 1e17 episodes short); a finished run is copied (and the agent stays new).
        on_phase: called with the run so far before the agent follows a new policy, the last row
            of the run; it must not modify the agent. An agent with its own loop (`Agent.follow`)
            is already further by then.
        epsilon, delta: for an agent given by its name or class; None: 0.1.

    Returns:
        The run; on Ctrl-C, the run so far, marked ``interrupted``.

    Raises:
        KeyboardInterrupt: on Ctrl-C before the first policy is recorded.

    >>> run = simulate("chain:n=5", "ucfh", epsilon=0.5, delta=0.1)
    >>> run.final, run.episodes > 1e10, run.gap <= 0.5
    (True, True, True)

    """
    started = perf_counter()
    title, mdp = name_of(mdp), as_mdp(mdp)
    if isinstance(agent, Agent):
        if epsilon is not None or delta is not None:
            raise InputError("the agent has its own epsilon and delta: leave them out here")
    else:
        targets = EPSILON if epsilon is None else epsilon, DELTA if delta is None else delta
        agent = make_agent(agent, mdp, *targets, episodes, check_seed(seed))
    check_type("progress", progress, Callable | None, "a function, or None")
    check_type("resume", resume, Run | None, "a Run, or None")
    check_type("on_phase", on_phase, Callable | None, "a function, or None")
    notify = on_phase or _do_nothing
    max_episodes = None if episodes is None else check_count("episodes", episodes)
    seed = check_seed(seed)
    if method not in ("bulk", "step"):
        raise unknown("method", method, ("bulk", "step"))
    rng = np.random.default_rng(seed)
    if agent.problem.table.segments > 1:
        mdp = mdp.by_segment()
    simulator = Simulator(mdp, agent.problem)
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
    if endless and max_episodes is None and (resume is None or not resume.final):
        raise InputError(f"{agent.name} never stops by itself: pass episodes=N (--episodes N)")
    about = _describe(mdp, agent, seed, method)
    if resume is None:
        optimal = mdp.at_start(mdp.optimal().values)
        run = Run(about, optimal, agent.episode_bound, agent.update_bound, agent.policy)
        run.problem = title
    else:
        run = _continue(resume, about, agent, rng, max_episodes)
        if run.final:
            return run
    agent.has_run = True
    spent = run.seconds
    while (
        not run.final
        and not run.interrupted
        and (max_episodes is None or run.episodes < max_episodes)
    ):
        try:
            if agent.wants is not None:
                _sample(run, simulator, agent, rng)
            elif not agent.done and method == "bulk" and agent.follow is not None:
                _run_agent_loop(run, simulator, agent, rng, max_episodes, progress, notify)
            elif not agent.done:
                _run_phase(run, simulator, agent, rng, max_episodes, method, progress, notify)
            if agent.done:
                _begin_phase(
                    run, simulator, agent, mdp.table.rows_of(agent.policy, mdp.horizon), notify
                )
                run.final, run.checkpoint = True, None
        except KeyboardInterrupt:  # while it plans: its counts may be half-updated
            if run.checkpoint is None or not run.rows:
                raise
            agent.restore(deepcopy(run.checkpoint.agent))
            for row in run.rows[run.checkpoint.rows :]:
                row.episodes = 0  # the restored agent has not seen them
            run.interrupted = True
    run.certificate = agent.certificate
    if run.certificate is not None:
        run.policy = run.certificate.policy
    run.seconds = spent + perf_counter() - started
    return run


def _describe(mdp: MDP, agent: Agent, seed: int, method: str) -> dict[str, Any]:
    """Return the settings that determine a run."""
    return {
        **agent.settings(),
        "seed": seed,
        "method": method,
        "version": __version__,
        "problem": fingerprint(mdp, agent.problem),
    }


def _check_same(saved: dict[str, Any], now: dict[str, Any]) -> None:
    """Raise unless a saved run is of the same version, problem, agent, seed and method."""
    if saved.get("version") != now["version"]:
        raise InputError(
            f"the saved run was made by ucfh {saved.get('version') or 'unknown'}, and this is "
            f"{now['version']}: resume it with that version, or start a new run"
        )
    if saved.get("problem") != now["problem"]:
        raise InputError(
            "the saved run cannot continue: the problem or the agent's prior knowledge of it "
            "differs; pass the same problem, or start a new run"
        )
    if saved.get("agent") == now["agent"] and saved.get("episodes") != now.get("episodes"):
        announced = saved.get("episodes")
        raise InputError(
            f"the saved run was made for {announced} episodes, which {now['agent']} needs to know "
            f"at the start: pass episodes={announced} (--episodes {announced}) again, or start a "
            "new run"
        )
    for name, value in now.items():
        if saved.get(name) != value:
            raise InputError(
                f"the saved run cannot continue: its {name} is {saved.get(name)!r}, and now it is "
                f"{value!r}; pass the same, or start a new run"
            )


def _do_nothing(_: Run) -> None:
    """Ignore a phase: the default of ``on_phase``."""


def _continue(
    old: Run,
    about: dict[str, Any],
    agent: Agent,
    rng: np.random.Generator,
    max_episodes: int | None,
) -> Run:
    """Copy a run up to its checkpoint, and restore agent and generator; a final run is complete."""
    _check_same(old.about, about)
    if max_episodes is not None and max_episodes < old.episodes:
        raise InputError(
            f"the saved run already has {old.episodes} episodes, more than "
            f"{max_episodes}: pass at least {old.episodes}, or no limit"
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


def _sample(run: Run, simulator: Simulator, agent: Agent, rng: np.random.Generator) -> None:
    """Give an agent the samples that it requests from a generative model."""
    wants = agent.wants
    assert wants is not None
    checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows))
    try:
        agent.study(simulator.sample(rng, wants))
    except KeyboardInterrupt:
        agent.restore(checkpoint.agent)
        run.interrupted, run.checkpoint = True, checkpoint
        return
    agent.samples += sum(wants.tolist())


def _run_agent_loop(
    run: Run,
    simulator: Simulator,
    agent: Agent,
    rng: np.random.Generator,
    max_episodes: int | None,
    progress: OnRun | None,
    notify: OnRun,
) -> None:
    """Run some episodes in an agent's own loop, and record its policies."""
    assert agent.follow is not None
    before = run.episodes
    checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows))
    try:
        count = max(1, CHUNK_STEPS // (64 * simulator.mdp.horizon))
        count = count if max_episodes is None else min(count, max_episodes - before)
        walked, record, run.policy = agent.follow(rng, simulator.model, count)
    except KeyboardInterrupt:
        agent.restore(checkpoint.agent)
        run.interrupted, run.checkpoint = True, checkpoint
        return
    begins = [*record.first_episode.tolist(), walked]
    if run.rows:
        run.rows[-1].episodes += begins[0]
    phases = [
        Phase(
            before + begins[i],
            begins[i + 1] - begins[i],
            float(value),
            float(optimistic),
            run.optimal - float(value),
            nan,
        )
        for i, (value, optimistic) in enumerate(zip(record.value, record.promised, strict=True))
    ]
    remaining = iter(phases)
    try:
        for phase in remaining:
            run.rows.append(phase)
            notify(run)
    except KeyboardInterrupt:  # these episodes are run and counted: record all of them
        run.rows.extend(remaining)
        run.interrupted = True
    run.checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows))
    if walked < count:
        run.final, run.checkpoint = True, None
    try:
        if progress is not None:
            progress(run)
    except KeyboardInterrupt:
        run.interrupted = True


def _run_phase(
    run: Run,
    simulator: Simulator,
    agent: Agent,
    rng: np.random.Generator,
    max_episodes: int | None,
    method: str,
    progress: OnRun | None,
    notify: OnRun,
) -> None:
    """Follow one policy until the agent changes it, and record the phase."""
    rows = simulator.mdp.table.rows_of(agent.policy, simulator.mdp.horizon)
    phase = _begin_phase(run, simulator, agent, rows, notify)
    run.checkpoint = Checkpoint(agent.state(), dict(rng.bit_generator.state), len(run.rows) - 1)
    while not run.interrupted and run.episodes != max_episodes:
        limits = agent.limits() or Limits(np.full(simulator.mdp.table.rows, NEVER), episodes=1)
        if simulator.is_final(rows, limits):
            run.final, run.checkpoint = True, None
            return
        before = phase.episodes
        batch = _run_batch(
            run, phase, simulator, agent, rng, rows, limits, max_episodes, method, progress
        )
        phase.episodes = before + batch.episodes
        if agent.observe(batch.counts):
            if agent.updated >= 0:
                phase.segment, phase.state, phase.action = agent.problem.table.pair_of(
                    agent.updated
                )
                phase.n = agent.visits_of(agent.updated)
            return


def _run_batch(
    run: Run,
    phase: Phase,
    simulator: Simulator,
    agent: Agent,
    rng: np.random.Generator,
    rows: Ints,
    limits: Limits,
    max_episodes: int | None,
    method: str,
    progress: OnRun | None,
) -> EpisodeBatch:
    """Follow the policy of a phase until a limit is reached, or Ctrl-C is pressed.

    Counts and number of episodes agree while progress is reported, but not in between. So that
    Ctrl-C in between keeps what was run, a copy is taken now and then.
    """
    batch = EpisodeBatch(Counts.zero(agent.problem))
    saved: EpisodeBatch | None = None
    before, copied, reporting = phase.episodes, perf_counter(), False

    def tick() -> None:
        nonlocal saved, copied, reporting
        reporting = True
        phase.episodes = before + batch.episodes
        if progress is not None:
            progress(run)
        if perf_counter() - copied > COPY_SECONDS:
            saved, copied = replace(batch, counts=batch.counts.copy()), perf_counter()
        reporting = False

    few = max(1, FIRST_STEPS // simulator.mdp.horizon)
    room = [
        x for x in (limits.episodes, max_episodes and max_episodes - run.episodes) if x is not None
    ]
    walking = method == "step" or limits.watch is not None or limits.steps
    walking |= bool((limits.visits <= 0).any())
    if not walking and phase.episodes < few and _may_end(limits, room, few):
        room.append(few - phase.episodes)
        walking = True
    try:
        if walking:
            _walk_phase(simulator, rng, rows, limits, min(room, default=None), batch, tick)
        else:
            BulkPhase(simulator, rng, rows, limits, min(room, default=None), batch).run(tick)
    except KeyboardInterrupt:
        run.interrupted = True
        if not reporting:
            batch = saved or EpisodeBatch(Counts.zero(agent.problem))
    if not walking:
        simulator.draw_rewards(rng, batch.counts)
    return batch


def _may_end(limits: Limits, room: list[int], few: int) -> bool:
    """Return True if ``few`` episodes may reach a limit, or the end of the run."""
    return bool((limits.visits <= FIRST_STEPS).any()) or any(x <= few for x in room)


def _walk_phase(
    simulator: Simulator,
    rng: np.random.Generator,
    rows: Ints,
    limits: Limits,
    max_episodes: int | None,
    batch: EpisodeBatch,
    tick: Callable[[], None],
) -> None:
    """Walk the episodes of a phase one by one."""
    chunk = max(1, CHUNK_STEPS // simulator.mdp.horizon)
    while not batch.ended and (max_episodes is None or batch.episodes < max_episodes):
        room = chunk if max_episodes is None else min(chunk, max_episodes - batch.episodes)
        simulator.walk(rng, rows, limits, room, batch)
        tick()


def _begin_phase(run: Run, simulator: Simulator, agent: Agent, rows: Ints, notify: OnRun) -> Phase:
    """Append the phase of the next policy, which takes table rows (H, S)."""
    value = simulator.value(rows)
    captured = nan
    if agent.box is not None:
        captured = float(agent.box.holds(simulator.p, simulator.mean_rewards))
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
    notify(run)
    return phase
