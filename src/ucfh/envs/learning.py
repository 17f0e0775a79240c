"""Learning from an environment that is only stepped, until the policy is certified.

    loop
        run 2% more episodes of the agent's exploration policy
        update the counts; plan
        stop if the policy is within epsilon of optimal, or an assumption is refuted: by
        contradictory bounds, or by an assumption check (`ucfh.auditing`)

Only the number of steps and the range of rewards are known. The result is kept if the loop ends by
Ctrl-C, a limit, or an error of the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import Any, SupportsIndex, TypeVar

import numpy as np

from ucfh._utils.defaults import ALPHA, DELTA
from ucfh._utils.files import AnyPath, check_ending, refuse_existing
from ucfh._utils.memory import check_memory
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.auditing.e_process import Audit
from ucfh.auditing.report import AuditReport, Finding, report_of
from ucfh.auditing.steps import to_audit_steps
from ucfh.certificate import (
    Certificate,
    assumptions_for_unknown_states,
    in_units,
    uncertainty_sources,
)
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.envs.environment import RunOutput, SteppedEnvironment
from ucfh.envs.gymnasium_adapter import Environment
from ucfh.envs.log_writer import LogWriter
from ucfh.envs.policy import LearnedPolicy
from ucfh.envs.simulated import SteppedMDP
from ucfh.envs.state_file import ENDINGS, load, save
from ucfh.exceptions import (
    ContradictionError,
    InputError,
    check_count,
    check_seed,
    check_type,
    check_unit,
)
from ucfh.io import ENDINGS as MODEL_ENDINGS
from ucfh.logs.labels import text_of
from ucfh.mdp import MDP
from ucfh.problems import catalogue, make
from ucfh.rewards import DEFAULT, RewardRange, check_segments
from ucfh.sparse_counts import END, Steps

T = TypeVar("T")
OnPlan = Callable[["LearningResult"], None]
BROKEN_OFF = (
    "early termination of episodes does not depend on their later outcomes ({} ended early, before "
    "learning was continued)"
)


class LearningError(InputError):
    """An error of the environment; ``result`` is the `LearningResult` until then."""

    def __init__(self, error: InputError, result: LearningResult) -> None:
        super().__init__(str(error))
        self.result, self.__cause__ = result, error.__cause__

    def __reduce__(self) -> Any:
        return LearningError, (InputError(str(self)), self.result)


@dataclass(eq=False)
class LearningResult:
    """The result of learning from an environment so far.

    Attributes:
        world: the environment.
        agent: the agent, with its counts and bounds.
        units: the range of the rewards.
        epsilon, max_return: accuracy and declared largest return, in the units of the rewards.
        interrupted, fault: True if Ctrl-C, or an error of the environment, ended it.
        steps: the number of steps taken.
        seconds, planning_seconds: the duration, and the part for planning and counting.
        broken_off: the number of unfinished episodes before learning was continued.
        unfinished: True if the last episode is unfinished.
        truncated: the number of episodes cut at the horizon, before the environment ended them:
            later rewards do not count.
        audit: the assumption checks; None for an MDP, whose simulation satisfies them.
        contradiction: the contradiction of data and a declaration, or None: with one, no bound
            holds.
        history: (episodes, upper, lower, gap) after each planning, in the user's units.

    """

    world: SteppedEnvironment
    agent: UnknownStatesUCFH
    units: RewardRange
    epsilon: float
    max_return: float | None
    interrupted: bool = False
    fault: bool = False
    steps: int = 0
    seconds: float = 0.0
    planning_seconds: float = 0.0
    broken_off: int = 0
    unfinished: bool = False
    truncated: int = 0
    audit: Audit | None = None
    contradiction: str | None = None

    def __post_init__(self) -> None:
        self.history: list[tuple[int, float, float, float]] = []

    @property
    def horizon(self) -> int:
        """H."""
        return self.agent.experience.horizon

    @property
    def episodes(self) -> int:
        """The number of episodes begun."""
        return self.agent.experience.episodes

    @property
    def has_data(self) -> bool:
        """True if the outcome of any step was observed."""
        return bool(self.agent.experience.visits.any())

    @property
    def states(self) -> list[Hashable]:
        """The observed states, in the order of discovery, as the environment shows them."""
        return self.world.labels[1:]

    @property
    def policy(self) -> LearnedPolicy:
        """The certified policy."""
        return LearnedPolicy(self.world, self.agent.policy)

    @property
    def upper(self) -> float:
        """The upper bound on the value of every policy."""
        _, most = self.units.return_range(self.horizon, self.max_return)
        return min(self.units.value(self.agent.exploration.upper, self.horizon), most)

    @property
    def lower(self) -> float:
        """The lower bound on the value of the policy."""
        return self.units.value(max(0.0, self.agent.exploration.lower), self.horizon)

    @property
    def gap(self) -> float:
        """The upper bound on the optimality gap of the policy."""
        least, most = self.units.return_range(self.horizon, self.max_return)
        return min(self.agent.exploration.gap * self.units.span, most - least)

    @property
    def refuted(self) -> bool:
        """Return whether the data refute an assumption, or a declaration."""
        found = self.audit is not None and self.audit.refutes(ALPHA)
        return found or self.contradiction is not None

    @property
    def audited(self) -> AuditReport | None:
        """The report of the assumption checks; None if none are needed."""
        if self.audit is None:
            return None
        states = range(self.agent.experience.states)
        self.audit.state_names = [self.world.name_of(s) for s in states]
        self.audit.action_names = self.world.action_names
        return report_of(self.audit)

    @property
    def certificate(self) -> Certificate:
        """The certificate of the policy, in the environment's own units."""
        audited, data = self.audited, self.agent.experience
        certificate = certificate_of_agent(
            self.agent,
            self.units,
            self.epsilon,
            self.max_return,
            [self.world.name_of(s) for s in range(1, data.states)],
            (
                *self.world.assumptions,
                *[BROKEN_OFF.format(self.broken_off)] * (self.broken_off > 0),
            ),
            () if audited is None else audited.findings,
        )
        if self.contradiction is not None:
            return replace(certificate, contradiction=self.contradiction)
        return certificate

    def save(self, path: AnyPath, force: bool = False) -> None:
        """Save the state to one .npz file, from which ``learn(..., store=path)`` continues."""
        broken_off = self.broken_off + self.unfinished
        save(
            path, self.agent, self.world, self.about(), broken_off, self.truncated, self.audit,
            force,
        )  # fmt: skip

    def about(self) -> dict[str, Any]:
        """Return the settings that a continued run must share."""
        data = self.agent.experience
        return {
            "environment": self.world.name,
            "settings": self.world.identity,
            "horizon": data.horizon,
            "actions": data.actions,
            "segments": (1 + np.flatnonzero(np.diff(data.segment))).tolist(),
            "rewards": [self.units.low, self.units.high],
            "max_return": self.max_return,
            "delta": self.agent.delta,
        }

    def __repr__(self) -> str:
        return f"LearningResult({len(self.states)} states, {self.certificate!r})"


def certificate_of_agent(
    agent: UnknownStatesUCFH,
    units: RewardRange,
    epsilon: float,
    max_return: float | None,
    names: Sequence[str],
    assumed: Sequence[str] = (),
    findings: tuple[Finding, ...] = (),
    times: range | None = None,
) -> Certificate:
    """Return the certificate of an agent for an unknown state space, in the user's units.

    Args:
        agent: the agent.
        units: the range of the rewards.
        epsilon, max_return: in the user's units.
        names: the names of the observed states, without the end.
        assumed: assumptions in addition to those about every environment.
        findings: the findings of the assumption checks.
        times: the t of each step; None: 1, 2, ...

    """
    beliefs, data, H = agent.exploration, agent.experience, agent.experience.horizon
    most = units.scaled_return(max_return, H)
    best = UnknownStateBounds(H, agent.delta, most, units.after_end)
    attribution = best.attribute_gap(best.bounds(data), beliefs.by_difference)
    certificate = Certificate(
        beliefs.upper,
        max(0.0, beliefs.lower),
        beliefs.gap,
        agent.policy,
        epsilon,
        agent.delta,
        data.episodes,
        "unknown states, growth schedule",
        (*assumptions_for_unknown_states(H, data.P, units, max_return), *assumed),
        uncertainty_sources(data.pair_of, best.evidence.known["n"], attribution),
        findings=findings,
    )
    return in_units(certificate, units, H, max_return, beliefs.contradiction, names, times)


def learn(
    env: Any,
    epsilon: float,
    delta: float = DELTA,
    *,
    horizon: int | None = None,
    rewards: tuple[float, float] = (0.0, 1.0),
    max_return: float | None = None,
    episodes: int | None = None,
    seed: SupportsIndex | None = None,
    encode: Callable[[Any], Hashable] | None = None,
    masks: bool = False,
    segments: Sequence[int] | bool = (),
    settings: Mapping[str, Any] | None = None,
    store: AnyPath | None = None,
    resume: AnyPath | None = None,
    log: AnyPath | None = None,
    force: bool = False,
    progress: OnPlan | None = None,
) -> LearningResult:
    """Learn from an environment that is only stepped, until the policy is certified.

    The policy is then within epsilon of optimal, with probability 1 - delta. States, successors,
    rewards and the start are unknown in advance and discovered from steps.

    Args:
        env: a Gymnasium environment, or its id, such as "FrozenLake-v1"; or an `MDP` or the name
            of one, such as "chain:n=5", which is then stepped like an environment.
        epsilon: the largest acceptable loss per episode, in the units of the rewards.
        delta: the probability that the certificate may be wrong, in (0, 1].
        horizon: H, the number of steps of an episode; None: the environment's own limit.
        rewards: the least and the largest reward of a step that are possible.
        max_return: the largest possible return of an episode, if known. The number of episodes
            needed depends on it: unobserved states may have this value.
        episodes: the most episodes to run; None: until the policy is certified.
        seed: random seed of the environment's first reset (and of an MDP's simulation).
        encode: a function that makes a state of an observation that cannot be hashed.
        masks: True if ``info["action_mask"]`` has the available actions of a state.
        segments: the steps, counted from 0, at which rewards or transitions may change (an exam
            at the end); True: they may change at every step.
        settings: other arguments that ``gymnasium.make`` takes, if env is an id.
        store: a .npz file for the state; if it exists, learning continues from it.
        resume: a .npz file to continue from, which is not modified.
        log: a .csv file to which every step is written, as `ucfh.read_log` reads it.
        force: True overwrites ``log``.
        progress: called with the `LearningResult` so far after each planning.

    Returns:
        The result; on Ctrl-C, the result so far, marked ``interrupted``.

    Raises:
        LearningError: for an error of the environment; its ``result`` is the result so far.

    >>> import ucfh
    >>> result = ucfh.learn("FrozenLake-v1", epsilon=0.5, horizon=5, max_return=1, seed=0)
    >>> result.certificate.certified, result.policy.act(0, 0) in range(4)
    (True, True)

    """
    check_type("progress", progress, Callable | None, "a function, or None")
    units = RewardRange.check(rewards)
    env = _resolve(env)
    if store is not None:
        check_ending(store, ENDINGS)
        refuse_existing(store, force=True)
    world = _open(env, horizon, settings, units, seed, encode, masks)
    try:
        H = world.horizon
        check_memory(f"episodes of {H} steps", 200 * H)
        _check_log(log, env)
        agent = UnknownStatesUCFH(
            H,
            world.actions,
            units.scaled_accuracy(epsilon, H, max_return),
            check_unit("delta", delta),
            segments=_check_segments(segments, env, H),
            max_return=units.scaled_return(max_return, H),
            after_end=units.after_end,
        )
        out = LearningResult(world, agent, units, float(epsilon), max_return)
        if not isinstance(env, MDP):
            begins = 1 + np.flatnonzero(np.diff(agent.experience.segment))
            out.audit = Audit(True if len(begins) == H - 1 else begins.tolist(), losses=False)
        max_episodes = None if episodes is None else check_count("episodes", episodes)
        existing = store if store is not None and Path(store).exists() else None
        old = existing if resume is None else resume
        if old is not None:
            out.broken_off, out.truncated = load(old, agent, world, out.about(), out.audit)
        with LogWriter(log, world, units, force, old is not None) as writer:
            fault = _run(out, max_episodes, writer, progress)
        if store is not None and out.contradiction is None and (out.has_data or fault is None):
            try:
                out.save(store, force=True)
            except InputError as error:
                fault = fault or error
    finally:
        world.close()
    if fault is not None:
        raise LearningError(fault, out)
    return out


def _run(
    out: LearningResult, max_episodes: int | None, writer: LogWriter, progress: OnPlan | None
) -> InputError | None:
    """Run episodes until the agent is done or something ends it; the fault, if there is one.

    KeyboardInterrupt reaches the main thread alone. Another one simulates, counts and plans, so
    that Ctrl-C leaves no batch of episodes half-counted. An environment is stepped here: it may
    wait for something, and Ctrl-C ends that.
    """
    with ThreadPoolExecutor(1) as thread:
        try:
            return _run_batches(out, max_episodes, writer, progress, thread)
        except KeyboardInterrupt:  # between two batches, or before one was counted
            out.interrupted = out.unfinished = True
            thread.submit(_plan, out).result()
            return None


def _run_batches(
    out: LearningResult,
    max_episodes: int | None,
    writer: LogWriter,
    progress: OnPlan | None,
    thread: ThreadPoolExecutor,
) -> InputError | None:
    world, agent = out.world, out.agent
    started = perf_counter()
    while not (agent.done or out.refuted) and (max_episodes is None or out.episodes < max_episodes):
        room = (
            agent.episodes_left
            if max_episodes is None
            else min(agent.episodes_left, max_episodes - out.episodes)
        )
        batch = agent.experience, agent.actions.tolist(), room
        if isinstance(world, SteppedMDP):
            output, interrupted = _complete(thread.submit(world.run, *batch))
            output.interrupted = interrupted
        else:
            output = world.run(*batch)
        planned, interrupted = _complete(thread.submit(_count, out, output, writer))
        output.interrupted |= interrupted
        out.seconds = perf_counter() - started
        try:
            if planned and progress is not None and output.fault is None and not output.interrupted:
                progress(out)
        except KeyboardInterrupt:
            output.interrupted = True
        if isinstance(output.fault, ContradictionError):
            out.contradiction = str(output.fault)
        if output.fault is not None or output.interrupted:
            if not planned:
                _complete(thread.submit(_plan, out))
            out.seconds = perf_counter() - started
            out.interrupted, out.fault = output.interrupted, output.fault is not None
            return output.fault
    if out.episodes and (not out.history or out.history[-1][0] != out.episodes):
        _, out.interrupted = _complete(thread.submit(_plan, out))
    return None


def _complete(work: Future[T]) -> tuple[T, bool]:
    """Return the result of work in another thread, and whether Ctrl-C was pressed meanwhile."""
    try:
        return work.result(), False
    except KeyboardInterrupt:
        return work.result(), True


def _count(out: LearningResult, output: RunOutput, writer: LogWriter) -> bool:
    """Count and log a batch of episodes; plan if that is due, and return whether it was."""
    begun, agent = perf_counter(), out.agent
    out.steps += len(output.steps)
    output.fault = output.fault or _contradiction(out, output.steps)
    final = output.steps.following[output.steps.t == out.horizon - 1]
    out.truncated += int((final != END).sum())
    out.unfinished = output.fault is not None or output.episodes < len(output.steps.starts)
    try:
        writer.write(output.steps, out.episodes)
    except InputError as error:  # a full disk costs no more than the log
        output.fault = output.fault or error
    planned = agent.observe(output.steps)
    if out.audit is not None:
        out.audit.add(to_audit_steps(output.steps))
    out.planning_seconds += perf_counter() - begun
    if planned:
        out.history.append((out.episodes, out.upper, out.lower, out.gap))
    return planned


def _plan(out: LearningResult) -> None:
    """Plan from all that was seen, and add the bounds to the history."""
    begun = perf_counter()
    out.agent.plan()
    out.planning_seconds += perf_counter() - begun
    out.history.append((out.episodes, out.upper, out.lower, out.gap))


def _contradiction(out: LearningResult, steps: Steps) -> ContradictionError | None:
    """Return an error if the return of an episode exceeds the declared largest return."""
    begins = np.flatnonzero(steps.t == 0)
    if out.max_return is None or not len(begins):
        return None
    returns = np.add.reduceat(out.units.unscaled(steps.reward), begins)
    last = np.append(begins[1:], len(steps)) - 1
    over = (steps.following[last] == END) | (steps.t[last] + 1 == out.horizon)
    final = over if out.units.low < 0 else np.ones(len(begins), bool)
    most = float(returns[final].max(initial=-np.inf))
    if most <= out.max_return + 1e-9 * max(1.0, abs(out.max_return)):
        return None
    return ContradictionError(
        f"max_return = {out.max_return:g} contradicts {out.world.name}: an episode had return "
        f"{most:g}. Fix: declare the largest possible return"
    )


def _check_log(log: AnyPath | None, env: Any) -> None:
    """Raise if a log could not represent the episodes of an MDP or distinguish its names."""
    if log is not None and isinstance(env, MDP):
        problem = env.problem
        for kind, names in (("state", problem.state_names), ("action", problem.action_names)):
            known: dict[str, str] = {}
            for name in names or ():
                if (other := known.setdefault(text_of(name), name)) != name:
                    raise InputError(
                        f"a log cannot tell the {kind}s {other!r} and {name!r} apart: rename one, "
                        "or leave log out"
                    )
        for s in env.problem.terminal:
            if env.initial[s] > 0:
                raise InputError(
                    f"an episode that begins in terminal state {s} leaves no row in a log: leave "
                    "log out"
                )


def _resolve(env: Any) -> Any:
    """Return the MDP for the name of a problem, and anything else unchanged."""
    if isinstance(env, str) and (
        env.endswith(MODEL_ENDINGS) or env.partition(":")[0] in catalogue()
    ):
        return make(env)
    return env


def _open(
    env: Any,
    horizon: int | None,
    settings: Mapping[str, Any] | None,
    units: RewardRange,
    seed: SupportsIndex | None,
    encode: Callable[[Any], Hashable] | None,
    masks: bool,
) -> SteppedEnvironment:
    """Open the environment to learn from."""
    if not isinstance(env, MDP):
        return Environment(
            env, horizon, settings=settings, units=units, encode=encode, masks=masks, seed=seed
        )
    if horizon not in (None, env.horizon):
        raise InputError(f"the MDP has a horizon of {env.horizon}: leave horizon out")
    if encode is not None or masks or settings or units != DEFAULT:
        raise InputError(
            "an MDP has states, actions and rewards in [0, 1]: leave encode, masks, settings and "
            "rewards out (--masks, --rewards)"
        )
    return SteppedMDP(env, None if seed is None else check_seed(seed))


def _check_segments(segments: Sequence[int] | bool, env: Any, horizon: int) -> tuple[int, ...]:
    """Return the change points; raise if those of an MDP are not among them."""
    given = check_segments(segments, horizon)
    if isinstance(env, MDP):
        changes = set(range(1, horizon)) if env.table.segments > 1 else set()
        for lines in (env.rewards.pair, env.rewards.successor):
            if lines is not None:
                changes |= {t for t in range(1, len(lines)) if (lines[t] != lines[t - 1]).any()}
        if missing := sorted(changes - set(given)):
            raise InputError(
                f"rewards or transitions change at step {missing[0]}, counted from 0: pass "
                f"segments={missing if len(missing) < horizon - 1 else True}"
            )
    return given
