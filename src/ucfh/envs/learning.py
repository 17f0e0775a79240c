"""Learning from an environment that is only stepped, until the policy is certified.

    loop
        run 2 % more episodes of the policy that the agent wants to follow next
        count; plan from what was seen
        stop if the policy is within epsilon of optimal, or what is assumed is refuted: by bounds
        that contradict each other, or by an audit (`ucfh.auditing`)

Nothing is told but the number of steps and the range of rewards. What was learned is kept whatever
ends the loop: Ctrl-C, a limit, or a fault of the environment.
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
from ucfh.auditing.report import AuditReport, report_of
from ucfh.auditing.steps import passages_of
from ucfh.certificate import Certificate
from ucfh.envs.certificates import certificate_of_agent
from ucfh.envs.environment import RunOutput, SteppedEnvironment
from ucfh.envs.log_writer import LogWriter
from ucfh.envs.policy import LearnedPolicy
from ucfh.envs.preparation import by_name, check_log, check_world_segments, open_world
from ucfh.envs.simulated import SteppedMDP
from ucfh.envs.state_file import ENDINGS, load, save
from ucfh.exceptions import (
    ContradictionError,
    InputError,
    check_count,
    check_type,
    check_unit,
)
from ucfh.mdp import MDP
from ucfh.rewards import RewardRange
from ucfh.sparse_counts import END, Steps

T = TypeVar("T")
OnPlan = Callable[["LearningResult"], None]
BROKEN_OFF = (
    "no episode was broken off because of what would have followed (there are {}, before learning "
    "was continued)"
)


class LearningError(InputError):
    """Something is wrong with the environment; ``result`` is what was learned until then."""

    def __init__(self, fault: InputError, result: LearningResult) -> None:
        super().__init__(str(fault))
        self.result, self.__cause__ = result, fault.__cause__


@dataclass(eq=False)
class LearningResult:
    """What was learned from an environment so far.

    Attributes:
        interrupted, fault: whether Ctrl-C, or a fault of the environment, ended it.
        broken_off: how many episodes were broken off before it was continued.
        unfinished: whether the last one was.
        truncated: how many episodes were cut at the horizon, before the environment ended them:
            later rewards do not count.
        steps: how many were taken.
        seconds: how long it took; planning_seconds: of these, for planning and counting.
        audit: tests what is assumed; None of an MDP, which is simulated as assumed.
        contradiction: how the data contradict a declaration: no bound holds then. None if they do
            not.
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
        """How many began."""
        return self.agent.experience.episodes

    @property
    def has_data(self) -> bool:
        """Whether the outcome of any step was seen."""
        return bool(self.agent.experience.visits.any())

    @property
    def states(self) -> list[Hashable]:
        """The states that were found, in this order, as the environment shows them."""
        return self.world.labels[1:]

    @property
    def policy(self) -> LearnedPolicy:
        """The policy that the certificate is about."""
        return LearnedPolicy(self.world, self.agent.policy)

    @property
    def upper(self) -> float:
        """What no policy earns more than."""
        _, most = self.units.return_range(self.horizon, self.max_return)
        return min(self.units.value(self.agent.beliefs.upper, self.horizon), most)

    @property
    def lower(self) -> float:
        """What the policy earns at least."""
        return self.units.value(max(0.0, self.agent.beliefs.lower), self.horizon)

    @property
    def gap(self) -> float:
        """How far the policy is from optimal, at most."""
        least, most = self.units.return_range(self.horizon, self.max_return)
        return min(self.agent.beliefs.gap * self.units.span, most - least)

    @property
    def refuted(self) -> bool:
        """Whether the data refute an assumption, or a declaration."""
        found = self.audit is not None and self.audit.found(ALPHA)
        return found or self.contradiction is not None

    @property
    def audited(self) -> AuditReport | None:
        """What was tested of all that is assumed, and found; None if nothing has to be."""
        if self.audit is None:
            return None
        states = range(self.agent.experience.states)
        self.audit.state_names = [self.world.name_of(s) for s in states]
        self.audit.action_names = self.world.action_names
        return report_of(self.audit)

    @property
    def certificate(self) -> Certificate:
        """What is known of the policy, in the environment's own units."""
        audited, data = self.audited, self.agent.experience
        known = certificate_of_agent(
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
            return replace(known, contradiction=self.contradiction)
        return known

    def save(self, path: AnyPath, force: bool = False) -> None:
        """Save all that was learned to one file (.npz); ``learn(..., store=path)`` continues."""
        broken_off = self.broken_off + self.unfinished
        save(
            path, self.agent, self.world, self.about(), broken_off, self.truncated, self.audit,
            force,
        )  # fmt: skip

    def about(self) -> dict[str, Any]:
        """What a continued run has to agree with."""
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
        return f"Learned({len(self.states)} states, {self.certificate!r})"


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

    The policy is then within epsilon of optimal, with probability 1 - delta. Nothing is listed in
    advance: states, successors, rewards and the start are found on the way.

    Args:
        env: a Gymnasium environment, or its id, such as "FrozenLake-v1"; or an `MDP` or the name
            of one, such as "chain:n=5", which is then stepped like an environment.
        epsilon: the largest acceptable loss per episode, in the units of the rewards.
        delta: the probability that the certificate may be wrong, in (0, 1].
        horizon: H, the number of steps of an episode; None: the environment's own limit.
        rewards: the least and the largest reward of a step that are possible.
        max_return: the largest sum of the rewards of an episode, if somebody knows it. It decides
            how many episodes are needed: what was never seen may pay that much.
        episodes: the most episodes to run; None: until the policy is certified.
        seed: random seed of the environment's first reset (and of an MDP's simulation).
        encode: a function that makes a state of an observation, for what cannot be hashed.
        masks: whether ``info["action_mask"]`` says which actions a state has.
        segments: the steps, counted from 0, from which on rewards or transitions may be others (an
            exam at the end); True: they may be others at every step.
        settings: other arguments that ``gymnasium.make`` takes, if env is an id.
        store: a .npz file to keep what is learned in; if it exists, learning continues from it.
        resume: a .npz file to continue from, which is left as it is.
        log: a .csv file to which every step is written, as `ucfh.read_log` reads it.
        force: whether to overwrite ``log``.
        progress: called with the `LearningResult` so far after each planning.

    If it is interrupted (Ctrl-C), it returns what was learned, marked ``interrupted``. A fault of
    the environment raises `LearningError`, whose ``result`` is what was learned until then.

    >>> import ucfh
    >>> result = ucfh.learn("FrozenLake-v1", epsilon=0.5, horizon=5, max_return=1, seed=0)
    >>> result.certificate.certified, result.policy.act(0, 0) in range(4)
    (True, True)

    """
    check_type("progress", progress, Callable | None, "a function, or None")
    units = RewardRange.check(rewards)
    env = by_name(env)
    if store is not None:
        check_ending(store, ENDINGS)
        refuse_existing(store, force=True)
    world = open_world(env, horizon, settings, units, seed, encode, masks)
    try:
        H = world.horizon
        check_memory(f"episodes of {H} steps", 200 * H)
        check_log(log, env)
        agent = UnknownStatesUCFH(
            H,
            world.actions,
            units.scaled_accuracy(epsilon, H, max_return),
            check_unit("delta", delta),
            segments=check_world_segments(segments, env, H),
            max_return=units.scaled_return(max_return, H),
            after_end=units.after_end,
        )
        out = LearningResult(world, agent, units, float(epsilon), max_return)
        if not isinstance(env, MDP):
            begins = 1 + np.flatnonzero(np.diff(agent.experience.segment))
            out.audit = Audit(True if len(begins) == H - 1 else begins.tolist(), losses=False)
        most = None if episodes is None else check_count("episodes", episodes)
        kept = store if store is not None and Path(store).exists() else None
        old = kept if resume is None else resume
        if old is not None:
            out.broken_off, out.truncated = load(old, agent, world, out.about(), out.audit)
        with LogWriter(log, world, units, force, old is not None) as written:
            fault = _run(out, most, written, progress)
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
    out: LearningResult, most: int | None, written: LogWriter, progress: OnPlan | None
) -> InputError | None:
    """Run episodes until the agent is done or something ends it; the fault, if there is one.

    KeyboardInterrupt reaches the main thread alone. Another one simulates, counts and plans, so
    that Ctrl-C leaves no batch of episodes half-counted. An environment is stepped here: it may
    wait for something, and Ctrl-C ends that.
    """
    with ThreadPoolExecutor(1) as thread:
        try:
            return _run_batches(out, most, written, progress, thread)
        except KeyboardInterrupt:  # between two batches, or before one was counted
            out.interrupted = out.unfinished = True
            thread.submit(_plan, out).result()
            return None


def _run_batches(
    out: LearningResult,
    most: int | None,
    written: LogWriter,
    progress: OnPlan | None,
    thread: ThreadPoolExecutor,
) -> InputError | None:
    world, agent = out.world, out.agent
    started = perf_counter()
    while not (agent.done or out.refuted) and (most is None or out.episodes < most):
        room = agent.room if most is None else min(agent.room, most - out.episodes)
        batch = agent.experience, agent.actions.tolist(), room
        if isinstance(world, SteppedMDP):
            ran, interrupted = _complete(thread.submit(world.run, *batch))
            ran.interrupted = interrupted
        else:
            ran = world.run(*batch)
        planned, interrupted = _complete(thread.submit(_count, out, ran, written))
        ran.interrupted |= interrupted
        out.seconds = perf_counter() - started
        try:
            if planned and progress is not None and ran.fault is None and not ran.interrupted:
                progress(out)
        except KeyboardInterrupt:
            ran.interrupted = True
        if isinstance(ran.fault, ContradictionError):
            out.contradiction = str(ran.fault)
        if ran.fault is not None or ran.interrupted:
            if not planned:
                _complete(thread.submit(_plan, out))
            out.seconds = perf_counter() - started
            out.interrupted, out.fault = ran.interrupted, ran.fault is not None
            return ran.fault
    if out.episodes and (not out.history or out.history[-1][0] != out.episodes):
        _complete(thread.submit(_plan, out))
    return None


def _complete(work: Future[T]) -> tuple[T, bool]:
    """Return the result of work in another thread, and whether Ctrl-C was pressed meanwhile."""
    try:
        return work.result(), False
    except KeyboardInterrupt:
        return work.result(), True


def _count(out: LearningResult, ran: RunOutput, written: LogWriter) -> bool:
    """Count and log a batch of episodes; plan if that is due, and return whether it was."""
    begun, agent = perf_counter(), out.agent
    out.steps += len(ran.steps)
    ran.fault = ran.fault or _contradiction(out, ran.steps)
    final = ran.steps.following[ran.steps.t == out.horizon - 1]
    out.truncated += int((final != END).sum())
    out.unfinished = ran.fault is not None or ran.episodes < len(ran.steps.starts)
    try:
        written.write(ran.steps, out.episodes)
    except InputError as error:  # a full disk costs no more than the log
        ran.fault = ran.fault or error
    planned = agent.observe(ran.steps)
    if out.audit is not None:
        out.audit.add(passages_of(ran.steps))
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
    """The error if an episode of these steps pays more than the declared largest return."""
    begins = np.flatnonzero(steps.t == 0)
    if out.max_return is None or not len(begins):
        return None
    returns = np.add.reduceat(out.units.unscaled(steps.reward), begins)
    last = np.append(begins[1:], len(steps)) - 1
    over = (steps.following[last] == END) | (steps.t[last] + 1 == out.horizon)
    settled = over if out.units.low < 0 else np.ones(len(begins), bool)
    most = float(returns[settled].max(initial=-np.inf))
    if most <= out.max_return + 1e-9 * max(1.0, abs(out.max_return)):
        return None
    return ContradictionError(
        f"max_return = {out.max_return:g} contradicts {out.world.name}: an episode paid {most:g}. "
        "Fix: declare the largest return that is possible"
    )
