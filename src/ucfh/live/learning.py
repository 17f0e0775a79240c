"""Learning from an environment that is only stepped, until the policy is certified.

    loop
        run 2 % more episodes of the policy that the learner wants to follow next
        count; plan from what was seen
        stop if the policy is within epsilon of optimal, or what is assumed is refuted

Nothing is told but the number of steps and the range of rewards. What was learned is kept whatever
ends the loop: Ctrl-C, a limit, or a fault of the environment.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import Any, SupportsIndex

import numpy as np

from ucfh._support.defaults import DELTA
from ucfh._support.files import AnyPath, check_ending, refuse_existing
from ucfh._support.interrupts import check, deferring
from ucfh._support.memory import check_memory
from ucfh.agents.open import OpenUCFH
from ucfh.certificate import (
    Certificate,
    in_units,
    open_assumptions,
    what_is_missing,
)
from ucfh.confidence.open import OpenBest
from ucfh.errors import (
    InputError,
    check_accuracy,
    check_count,
    check_seed,
    check_type,
    check_unit,
)
from ucfh.live.environments import Environment
from ucfh.live.log_file import LogFile
from ucfh.live.policy import LearnedPolicy
from ucfh.live.simulated import SimulatedWorld
from ucfh.live.store import ENDINGS, load, save
from ucfh.live.worlds import SteppedWorld
from ucfh.logs.labels import text_of
from ucfh.problem import MDP
from ucfh.units import DEFAULT, RewardRange, check_stages

OnPlan = Callable[["Learned"], None]
BROKEN_OFF = (
    "no episode was broken off because of what would have followed (there are {}, before learning "
    "was continued)"
)


class LearningFault(InputError):
    """Something is wrong with the environment; ``result`` is what was learned until then."""

    def __init__(self, fault: InputError, result: Learned) -> None:
        super().__init__(str(fault))
        self.result, self.__cause__ = result, fault.__cause__


@dataclass(eq=False)
class Learned:
    """What was learned from an environment so far.

    Attributes:
        interrupted, fault: whether Ctrl-C, or a fault of the environment, ended it.
        broken_off: how many episodes were broken off before it was continued.
        unfinished: whether the last one was.
        steps: how many were taken.
        seconds: how long it took; planning_seconds: of these, for planning and counting.
        history: (episodes, upper, lower, gap) after each planning, in the user's units.

    """

    world: SteppedWorld
    learner: OpenUCFH
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

    def __post_init__(self) -> None:
        self.history: list[tuple[int, float, float, float]] = []

    @property
    def horizon(self) -> int:
        """H."""
        return self.learner.experience.horizon

    @property
    def episodes(self) -> int:
        """How many began."""
        return self.learner.experience.episodes

    @property
    def states(self) -> list[Hashable]:
        """The states that were found, in this order, as the environment shows them."""
        return self.world.labels[1:]

    @property
    def policy(self) -> LearnedPolicy:
        """The policy that the certificate is about."""
        return LearnedPolicy(self.world, self.learner.policy)

    @property
    def upper(self) -> float:
        """What no policy earns more than."""
        return self.units.value(self.learner.beliefs.upper, self.horizon)

    @property
    def lower(self) -> float:
        """What the policy earns at least."""
        return self.units.value(max(0.0, self.learner.beliefs.lower), self.horizon)

    @property
    def gap(self) -> float:
        """How far the policy is from optimal, at most."""
        return self.learner.beliefs.gap * self.units.span

    @property
    def certificate(self) -> Certificate:
        """What is known of the policy, in the environment's own units."""
        learner, beliefs, data = self.learner, self.learner.beliefs, self.learner.experience
        best = OpenBest(
            self.horizon,
            learner.delta,
            self.units.scaled_return(self.max_return, self.horizon),
            self.units.after_end,
        )
        blame = best.blame(best.bounds(data), beliefs.by_difference)
        names = [self.world.name_of(s) for s in range(1, data.states)]
        known = Certificate(
            beliefs.upper,
            max(0.0, beliefs.lower),
            beliefs.gap,
            learner.policy,
            self.epsilon,
            learner.delta,
            data.episodes,
            "open world, growth schedule",
            (
                *open_assumptions(self.horizon, data.P, self.units, self.max_return),
                *self.world.assumptions,
                *[BROKEN_OFF.format(self.broken_off)] * (self.broken_off > 0),
            ),
            what_is_missing(data.pair_of, best.evidence.n, blame),
        )
        return in_units(known, self.units, self.horizon, beliefs.crossing, names)

    def save(self, path: AnyPath, force: bool = False) -> None:
        """Save all that was learned to one file (.npz); ``learn(..., store=path)`` continues."""
        broken_off = self.broken_off + self.unfinished
        save(path, self.learner, self.world, self.about(), broken_off, force)

    def about(self) -> dict[str, Any]:
        """What a continued run has to agree with."""
        data = self.learner.experience
        return {
            "environment": self.world.name,
            "settings": self.world.identity,
            "horizon": data.horizon,
            "actions": data.actions,
            "stages": (1 + np.flatnonzero(np.diff(data.stage))).tolist(),
            "rewards": [self.units.low, self.units.high],
            "max_return": self.max_return,
            "delta": self.learner.delta,
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
    stages: Sequence[int] | bool = (),
    settings: Mapping[str, Any] | None = None,
    store: AnyPath | None = None,
    resume: AnyPath | None = None,
    log: AnyPath | None = None,
    force: bool = False,
    progress: OnPlan | None = None,
) -> Learned:
    """Learn from an environment that is only stepped, until the policy is certified.

    The policy is then within epsilon of optimal, with probability 1 - delta. Nothing is listed in
    advance: states, successors, rewards and the start are found on the way.

    Args:
        env: a Gymnasium environment, or its id, such as "FrozenLake-v1"; or an `MDP`, which is
            then stepped like one.
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
        stages: the steps, counted from 0, from which on rewards or transitions may be others (an
            exam at the end); True: they may be others at every step.
        settings: other arguments that ``gymnasium.make`` takes, if env is an id.
        store: a .npz file to keep what is learned in; if it exists, learning continues from it.
        resume: a .npz file to continue from, which is left as it is.
        log: a .csv file to which every step is written, as `ucfh.read_log` reads it.
        force: whether to overwrite ``log``.
        progress: called with the `Learned` so far after each planning.

    If it is interrupted (Ctrl-C), it returns what was learned, marked ``interrupted``. A fault of
    the environment raises `LearningFault`, whose ``result`` is what was learned until then.

    >>> import ucfh
    >>> result = ucfh.learn("FrozenLake-v1", epsilon=0.5, horizon=5, max_return=1, seed=0)
    >>> result.certificate.certified, result.policy.act(0, 0) in range(4)
    (True, True)

    """
    check_type("progress", progress, Callable | None, "a function, or None")
    units = RewardRange.check(rewards)
    if store is not None:
        check_ending(store, ENDINGS)
        refuse_existing(store, force=True)
    world = _open(env, horizon, settings, units, seed, encode, masks)
    try:
        H = world.horizon
        check_memory(f"episodes of {H} steps", 200 * H)
        _check_log(log, env)
        learner = OpenUCFH(
            H,
            world.actions,
            _scaled_accuracy(epsilon, units, H),
            check_unit("delta", delta),
            stages=_check_stages(stages, env, H),
            max_return=units.scaled_return(max_return, H),
            after_end=units.after_end,
        )
        out = Learned(world, learner, units, float(epsilon), max_return)
        most = None if episodes is None else check_count("episodes", episodes)
        kept = store if store is not None and Path(store).exists() else None
        old = kept if resume is None else resume
        if old is not None:
            out.broken_off = load(old, learner, world, out.about())
        with LogFile(log, world, units, force, old is not None) as written, deferring():
            fault = _run(out, most, written, progress)
        if store is not None:
            try:
                out.save(store, force=True)
            except InputError as error:
                fault = fault or error
    finally:
        world.close()
    if fault is not None:
        raise LearningFault(fault, out)
    return out


def _check_log(log: AnyPath | None, env: Any) -> None:
    """Refuse a log of episodes that may leave no row in it, or of names that are one to it."""
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


def _open(
    env: Any,
    horizon: int | None,
    settings: Mapping[str, Any] | None,
    units: RewardRange,
    seed: SupportsIndex | None,
    encode: Callable[[Any], Hashable] | None,
    masks: bool,
) -> SteppedWorld:
    """The world to learn from."""
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
    return SimulatedWorld(env, None if seed is None else check_seed(seed))


def _check_stages(stages: Sequence[int] | bool, env: Any, horizon: int) -> tuple[int, ...]:
    """The first steps of stages; those at which an MDP changes have to be among them."""
    given = check_stages(stages, horizon)
    if isinstance(env, MDP):
        changes = set(range(1, horizon)) if env.table.stages > 1 else set()
        for lines in (env.rewards.pair, env.rewards.successor):
            if lines is not None:
                changes |= {t for t in range(1, len(lines)) if (lines[t] != lines[t - 1]).any()}
        if missing := sorted(changes - set(given)):
            raise InputError(
                f"rewards or transitions change at step {missing[0]}, counted from 0: pass "
                f"stages={missing if len(missing) < horizon - 1 else True}"
            )
    return given


def _scaled_accuracy(epsilon: float, units: RewardRange, horizon: int) -> float:
    """Epsilon where rewards are in [0, 1]."""
    check_accuracy(epsilon)
    most = horizon * units.span
    if epsilon > most:
        raise InputError(
            f"epsilon = {epsilon:g} is more than an episode can pay ({most:g}): pass a smaller one"
        )
    return float(epsilon) / units.span


def _run(
    out: Learned, most: int | None, written: LogFile, progress: OnPlan | None
) -> InputError | None:
    """Run episodes until the learner is done or something ends it; the fault, if there is one."""
    world, learner = out.world, out.learner
    started = perf_counter()
    while not learner.done and (most is None or out.episodes < most):
        room = learner.room if most is None else min(learner.room, most - out.episodes)
        ran = world.run(learner.experience, learner.actions.tolist(), room)
        begun = perf_counter()
        out.steps += len(ran.steps)
        out.unfinished = ran.fault is not None or ran.episodes < len(ran.steps.starts)
        try:
            written.write(ran.steps, out.episodes)
        except InputError as error:  # a full disk costs no more than the log
            ran.fault = ran.fault or error
        planned = learner.observe(ran.steps)
        ending = ran.fault is not None or ran.interrupted
        if ending and not planned:
            learner.plan()
        out.planning_seconds += perf_counter() - begun
        out.seconds = perf_counter() - started
        if planned or ending:
            out.history.append((out.episodes, out.upper, out.lower, out.gap))
        try:
            if planned and progress is not None and not ending:
                progress(out)
            check()
        except KeyboardInterrupt:
            ran.interrupted = ending = True
        if ending:
            out.interrupted, out.fault = ran.interrupted, ran.fault is not None
            return ran.fault
    if out.episodes and (not out.history or out.history[-1][0] != out.episodes):
        learner.plan()
        out.history.append((out.episodes, out.upper, out.lower, out.gap))
    return None
