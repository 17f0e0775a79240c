"""Gymnasium environments: their construction, and conversion of tabular ones to MDPs."""

from __future__ import annotations

import inspect
import os
from importlib import import_module
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh._utils.plugins import add_to_path
from ucfh.exceptions import InputError, not_installed, unknown
from ucfh.mdp import MDP
from ucfh.problems._building import check_room, check_whole


def gym(environment: str, /, *, horizon: int = 0, **settings: int | float | bool | str) -> MDP:
    """A tabular Gymnasium environment, such as ``gym:FrozenLake-v1,horizon=20``.

    States and actions are those of the table ``unwrapped.P``, plus an absorbing state "end" for
    every outcome that ends the episode. The start is ``initial_state_distrib`` if the environment
    has it, else the state after a reset. Outcomes of one pair with the same successor are merged:
    probabilities are added, and rewards averaged. The problem is the first H steps of an episode.

    Rewards in [0, 1] are kept. Others are rescaled to r' = (r + shift) / span, where
    shift = -min(0, least reward) and span = max(0, largest) + shift. After the end the original
    reward is 0 a step, so the reward of "end" is r' = shift / span. Then each of the H steps t of
    every episode has reward (r_t + shift) / span, whether or not the episode has ended, and

        total = sum over t of (r_t + shift) / span = (original return + H shift) / span.

    This is one increasing function of the original return for all episodes, hence it preserves
    the order of policies. (With reward 0 in "end", policies that delay the end would gain
    shift / span per step.) A value v is span v - H shift in original units, and an accuracy of e
    there is epsilon = e / span here; ``mdp.note`` gives the numbers.

    Optimum: 0.199133 of FrozenLake-v1 with horizon=20 (0.74419 with its own 100 steps); with
    rescaled rewards, CliffWalking-v1 with horizon=20 has 19.87, a return of -13.

    Args:
        environment: its id in Gymnasium's registry; ``module:id`` imports the module that
            registers it first.
        horizon: H; 0: the environment's step limit.
        settings: other arguments that ``gymnasium.make`` takes for it, such as
            ``is_slippery=false`` or ``map_name=8x8``.

    >>> from ucfh.problems import make
    >>> mdp = make("gym:CliffWalking-v1,horizon=20")
    >>> round(mdp.value(mdp.optimal().policy), 6)
    19.87
    >>> print(mdp.note)
    rewards are rescaled to (r + 100) / 100: epsilon = e / 100 asks for accuracy e in the
    original units, and a value v is 100 v - 2000 there

    """
    check_whole("horizon", horizon, 0)
    env = make_environment(environment, settings)
    try:
        table = getattr(env.unwrapped, "P", None)
        if not isinstance(table, dict):
            raise InputError(
                f"gym: {environment} has no transition table (unwrapped.P): choose a tabular "
                f"environment, such as {', '.join(_tabular())}"
            )
        H = horizon or env.spec.max_episode_steps
        if not H:
            raise InputError(
                f"gym: {environment} has no step limit: give a horizon, such as "
                f"gym:{environment},horizon=20"
            )
        initial = getattr(env.unwrapped, "initial_state_distrib", None)
        if initial is None:
            initial = np.arange(len(table)) == env.reset(seed=0)[0]
    finally:
        env.close()
    return _build(table, np.append(initial, 0.0), H)


def _build(table: dict[int, dict[int, Any]], initial: Floats, horizon: int) -> MDP:
    """Build the problem of table[s][a] = [(probability, successor, reward, done), ...].

    ``initial`` (S,) is the start distribution over the states of the table and "end".
    """
    end = len(table)
    S, A = end + 1, 1 + max(a for actions in table.values() for a in actions)
    check_room(S * A * S, "choose an environment with fewer states", most=2 * 10**7)
    outcomes = [
        (s, a, end if done else following, p, r)
        for s, actions in table.items()
        for a, successors in actions.items()
        for p, following, r, done in successors
        if p != 0
    ]
    outcomes.append((end, 0, end, 1.0, 0.0))
    s, a, following, p, r = map(np.array, zip(*outcomes, strict=True))

    low, high = float(r.min()), float(r.max())
    shift, span = (-low, high - low) if low < 0 or high > 1 else (0.0, 1.0)
    transitions, totals = np.zeros((S, A, S)), np.zeros((S, A, S))
    np.add.at(transitions, (s, a, following), p)
    np.add.at(totals, (s, a, following), p * (r + shift) / span)
    occurs = transitions > 0
    # a mean of equal rewards may be off by rounding, and must not exceed 1
    rewards = np.clip(totals / np.where(occurs, transitions, 1.0), 0, 1)
    of_pair = rewards.max(axis=2)
    if (rewards == of_pair[:, :, None])[occurs].all():
        rewards = of_pair
    note = (
        f"rewards are rescaled to (r + {shift:.12g}) / {span:.12g}: epsilon = e / {span:.12g} asks "
        f"for accuracy e in the original units, and a value v is {span:.12g} v - "
        f"{horizon * shift:.12g} there"
    )
    return MDP(
        transitions,
        rewards if rewards.ndim == 2 else rewards[None],
        horizon,
        initial,
        available=occurs.any(axis=2),
        terminal=[end] if shift == 0 else [],
        state_names=[*map(str, range(end)), "end"],
        note=note if (shift, span) != (0.0, 1.0) else "",
    )


def make_environment(
    environment: str, settings: dict[str, Any], *, kind: str = "gym", limit: int | None = None
) -> Any:
    """Make an environment.

    Args:
        environment: its id, as `gym` takes it.
        settings: the arguments of its constructor.
        kind: the word before its id in messages, as in "gym:FrozenLake-v1".
        limit: the number of steps after which Gymnasium truncates an episode; None: the
            environment's own; -1: no limit.

    Raises:
        InputError: for an unknown id or setting, or if the constructor fails.

    """
    try:
        import gymnasium
    except ImportError:
        raise not_installed(f"{kind}:{environment}", "gymnasium") from None
    module, colon, name = environment.rpartition(":")
    try:
        if colon:
            add_to_path(os.getcwd())  # as for problems and agents, module:name
            import_module(module)
    except Exception as error:  # modules may raise anything
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
        raise InputError(f"{kind}: cannot import {module!r} of {environment!r}: {reason}") from None
    try:
        spec = gymnasium.spec(name)
    except gymnasium.error.Error:
        problem = unknown("environment of gym", name, _tabular() if kind == "gym" else _small())
        hint = "" if colon else "; for another package, write MODULE:ID"
        raise InputError(f"{problem}{hint}") from None
    try:
        known = _settings_of(spec)
        for setting in settings:
            if known and setting not in known:
                raise unknown(f"parameter of {kind}:{environment}", setting, known)
        return gymnasium.make(spec, limit, disable_env_checker=True, **settings)
    except InputError:
        raise
    except Exception as error:  # constructors may raise anything, and may lack dependencies
        given = ",".join(f"{key}={value}" for key, value in settings.items())
        reason = " ".join(str(error).split())
        raise InputError(
            f"{kind}: Gymnasium cannot make {environment} with settings {given or '(none)'}: "
            f"{type(error).__name__}: {reason}"
        ) from None


def _settings_of(spec: Any) -> list[str]:
    """Return the parameters of an environment's constructor and `gym`; none if it takes any."""
    from gymnasium.envs.registration import load_env_creator

    creator: Any = spec.entry_point
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    parameters = inspect.signature(creator).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return []
    return ["horizon", *(p.name for p in parameters if p.name != "render_mode")]


def _tabular() -> list[str]:
    """Return the ids of Gymnasium's environments with a transition table."""
    return [name for name in _small() if "Blackjack" not in name]


def _small() -> list[str]:
    """Return the ids of Gymnasium's environments with few states."""
    import gymnasium

    return [n for n, spec in gymnasium.registry.items() if "toy_text" in str(spec.entry_point)]
