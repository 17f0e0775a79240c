"""What is checked, and opened, before the first episode is run."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any, SupportsIndex

from ucfh._utils.files import AnyPath
from ucfh.envs.environment import SteppedEnvironment
from ucfh.envs.gymnasium_adapter import Environment
from ucfh.envs.simulated import SteppedMDP
from ucfh.exceptions import InputError, check_seed
from ucfh.io import ENDINGS
from ucfh.logs.labels import text_of
from ucfh.mdp import MDP
from ucfh.problems import catalogue, make
from ucfh.rewards import DEFAULT, RewardRange, check_segments


def check_log(log: AnyPath | None, env: Any) -> None:
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


def by_name(env: Any) -> Any:
    """An environment, or the MDP whose name is given; ids of Gymnasium stay what they are."""
    if isinstance(env, str) and (env.endswith(ENDINGS) or env.partition(":")[0] in catalogue()):
        return make(env)
    return env


def open_world(
    env: Any,
    horizon: int | None,
    settings: Mapping[str, Any] | None,
    units: RewardRange,
    seed: SupportsIndex | None,
    encode: Callable[[Any], Hashable] | None,
    masks: bool,
) -> SteppedEnvironment:
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
    return SteppedMDP(env, None if seed is None else check_seed(seed))


def check_world_segments(segments: Sequence[int] | bool, env: Any, horizon: int) -> tuple[int, ...]:
    """The first steps of segments; those at which an MDP changes have to be among them."""
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
