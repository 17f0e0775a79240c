"""Tabular environments of Gymnasium as problems, and all that is read from its environments."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Hashable, Mapping
from importlib import import_module
from operator import index
from typing import Any

import numpy as np

from ucfh._support.arrays import Floats
from ucfh.errors import InputError, not_installed, unknown, wrong_type
from ucfh.problem import MDP
from ucfh.problems._building import check_room, check_whole

ENCODE = "pass encode=f, where f(observation) is a number, a text or a tuple of them"
"""The remedy for observations that cannot be states."""
Reader = tuple[Callable[[Any], Hashable], Callable[[Any], Any]]
"""The key of an observation, and what to show of a key."""


def gym(environment: str, /, *, horizon: int = 0, **settings: int | float | bool | str) -> MDP:
    """A tabular environment of Gymnasium, such as ``gym:FrozenLake-v1,horizon=20``.

    States and actions are those of the table ``unwrapped.P``, and one state "end" is added, to
    which every outcome that ends the episode leads and where it stays. The start is
    ``initial_state_distrib`` where the environment has it, else the state after a reset.
    Outcomes of one pair with the same successor are one: probabilities are added, rewards
    averaged with them, so of rewards that vary between such outcomes their mean is kept. The
    problem is the first H steps of an episode.

    Rewards in [0, 1] are kept. Others are rescaled to r' = (r + shift) / span, where
    shift = -min(0, least reward) and span = max(0, largest) + shift. After the end the original
    reward is 0 a step, so there r' = shift / span: "end" pays that. Then in every episode each
    of the H steps t pays (r_t + shift) / span, whether or not the episode has ended, and

        total = sum over t of (r_t + shift) / span = (original return + H shift) / span.

    It is one increasing function of the original return for all episodes, hence policies are
    ordered as before. (If "end" paid nothing, every step before the end would earn shift / span
    more than one after it, and a policy that puts off the end could win.) Values v are worth
    span v - H shift in original units, and an accuracy of e there is epsilon = e / span here;
    ``mdp.note`` says so with the numbers.

    Optimum: 0.199133 of FrozenLake-v1 with horizon=20 (0.74419 with its own 100 steps); with
    rescaled rewards, CliffWalking-v1 with horizon=20 has 19.87, a return of -13.

    Args:
        environment: its id in Gymnasium's registry; ``module:id`` imports the module that
            registers it first.
        horizon: H; the environment's own limit of steps unless given.
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
                f"gym: {environment} has no table of transitions (unwrapped.P): choose one that "
                f"has, such as {', '.join(_tabular())}"
            )
        H = horizon or env.spec.max_episode_steps
        if not H:
            raise InputError(
                f"gym: {environment} has no limit of steps: give a horizon, such as "
                f"gym:{environment},horizon=20"
            )
        initial = getattr(env.unwrapped, "initial_state_distrib", None)
        if initial is None:
            initial = np.arange(len(table)) == env.reset(seed=0)[0]
    finally:
        env.close()
    return _build(table, np.append(initial, 0.0), H)


def _build(table: dict[int, dict[int, Any]], initial: Floats, horizon: int) -> MDP:
    """The problem of table[s][a] = [(probability, successor, reward, done), ...].

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
    # a mean of equal rewards may be off by rounding, and that of rewards of 1 must not exceed 1
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
    """The environment, or an error that says what is wrong with its name or its settings.

    Args:
        environment: its id, as `gym` takes it.
        settings: the arguments that its constructor gets.
        kind: the word before its id in messages, as in "gym:FrozenLake-v1".
        limit: the number of steps after which Gymnasium cuts an episode; the environment's own
            unless given, and -1 for none.

    """
    try:
        import gymnasium
    except ImportError:
        raise not_installed(f"{kind}:{environment}", "gymnasium") from None
    module, colon, name = environment.rpartition(":")
    try:
        if colon:
            import_module(module)
        spec = gymnasium.spec(name)
    except (ImportError, TypeError, ValueError) as error:
        raise InputError(f"{kind}: cannot import {module!r} of {environment!r}: {error}") from None
    except gymnasium.error.Error:
        fault = unknown("environment of gym", name, _tabular() if kind == "gym" else _small())
        hint = "" if colon else "; of another package, write MODULE:ID"
        raise InputError(f"{fault}{hint}") from None
    try:
        known = _settings_of(spec)
        for setting in settings:
            if known and setting not in known:
                raise unknown(f"parameter of {kind}:{environment}", setting, known)
        return gymnasium.make(spec, limit, disable_env_checker=True, **settings)
    except InputError:
        raise
    except Exception as error:  # constructors raise what they like, and may lack dependencies
        given = ",".join(f"{key}={value}" for key, value in settings.items())
        reason = " ".join(str(error).split())
        raise InputError(
            f"{kind}: Gymnasium cannot make {environment} with settings {given or '(none)'}: "
            f"{type(error).__name__}: {reason}"
        ) from None


def _settings_of(spec: Any) -> list[str]:
    """The names that an environment's constructor and `gym` take; none if it takes any."""
    from gymnasium.envs.registration import load_env_creator

    creator: Any = spec.entry_point
    if isinstance(creator, str):
        creator = load_env_creator(creator)
    parameters = inspect.signature(creator).parameters.values()
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return []
    return ["horizon", *(p.name for p in parameters if p.name != "render_mode")]


def _tabular() -> list[str]:
    """The ids of Gymnasium's own environments that have a table."""
    return [name for name in _small() if "Blackjack" not in name]


def _small() -> list[str]:
    """The ids of Gymnasium's own environments that have few states."""
    import gymnasium

    return [n for n, spec in gymnasium.registry.items() if "toy_text" in str(spec.entry_point)]


def short(value: object) -> str:
    """A value in messages: one line of at most 80 characters."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


def as_text(shown: object) -> str:
    """What is shown of a key, in one line; a text is itself unless it has invisible parts."""
    if isinstance(shown, str):
        return shown if shown.isprintable() and shown.strip() == shown != "" else repr(shown)
    return " ".join(str(shown).split())


def open_environment(
    env: Any, settings: Mapping[str, Any] | None = None
) -> tuple[Any, str, int | None]:
    """An environment, its name, and its own limit of steps; if ``env`` is an id, without it."""
    if isinstance(env, str):
        made = make_environment(env, dict(settings or {}), kind="env", limit=-1)
        import gymnasium

        listed = gymnasium.spec(env.rpartition(":")[2])
        return made, listed.id, listed.max_episode_steps
    try:
        from gymnasium.vector import VectorEnv
    except ImportError:
        raise not_installed("an environment", "gymnasium") from None
    if settings:
        raise InputError("settings are for the id of an environment: make this one with them")
    if isinstance(env, VectorEnv):
        raise InputError(f"env = {short(env)} is several environments at once: pass one of them")
    found = [callable(getattr(env, method, None)) for method in ("reset", "step")]
    if isinstance(env, type) or not all(found):
        raise wrong_type("env", env, "an environment of Gymnasium, or its id: 'FrozenLake-v1'")
    spec = getattr(env, "spec", None)
    name = getattr(spec, "id", None) or type(getattr(env, "unwrapped", env)).__name__
    return env, str(name), getattr(spec, "max_episode_steps", None)


def read_actions(name: str, env: Any) -> tuple[int, int]:
    """A, and the number of the first action, of an environment that is called ``name``."""
    from gymnasium.spaces import Discrete

    space = getattr(env, "action_space", None)
    if not isinstance(space, Discrete):
        raise InputError(
            f"{name}: its action space is {short(space)}, but actions must be Discrete: wrap the "
            "environment, a Box in gymnasium.wrappers.DiscretizeAction, others in TransformAction"
        )
    return int(space.n), int(space.start)


def read_observations(name: str, space: Any) -> Reader:
    """Two functions: the key of an observation in a space, and what to show of a key.

    A key consists of ints, texts and tuples; observations have the same key only if they are
    equal. Of an observation that is not in the space, the first function may raise anything.
    ``name`` is that of the environment, for messages.
    """
    from gymnasium import spaces

    kind = getattr(getattr(space, "dtype", None), "kind", "")
    if isinstance(space, spaces.Discrete):
        return index, _same
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary) and kind in "biu":
        return _read_arrays(space.shape)
    if kind == "U":  # Text, and the missions of MiniGrid
        return str.__str__, _same
    if isinstance(space, spaces.Sequence) and not space.stack:
        key, shown = read_observations(name, space.feature_space)
        return lambda seen: tuple(map(key, seen)), lambda keys: tuple(map(shown, keys))
    if isinstance(space, spaces.Tuple | spaces.Dict | spaces.OneOf):
        named = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        readers = {entry: read_observations(name, part) for entry, part in named.items()}
        if isinstance(space, spaces.Dict):
            return _read_dicts(readers)
        return _read_one(readers) if isinstance(space, spaces.OneOf) else _read_tuples(readers)
    remedy = ENCODE
    if isinstance(space, spaces.Box) and space.is_bounded():
        remedy += ", or wrap the environment in gymnasium.wrappers.DiscretizeObservation"
    why = "holds real numbers" if kind == "f" else "is not known here"
    raise InputError(f"{name}: its observation space {short(space)} {why}: {remedy}")


def _same(key: Any) -> Any:
    return key


def _read_arrays(shape: tuple[int, ...]) -> Reader:
    """Of arrays of whole numbers: their numbers in one tuple."""

    def key(seen: Any) -> Hashable:
        numbers = np.asarray(seen)
        if numbers.shape != shape or numbers.dtype.kind not in "biu":
            raise TypeError(f"not whole numbers of shape {shape}")
        if numbers.dtype.kind == "b":
            numbers = numbers.astype(np.int8)
        return tuple(numbers.ravel().tolist())

    return key, lambda numbers: np.reshape(numbers, shape).tolist()


def _read_tuples(readers: dict[Any, Reader]) -> Reader:
    keys, shown = [[reader[i] for reader in readers.values()] for i in range(2)]

    def key(seen: Any) -> Hashable:
        return tuple([of(part) for of, part in zip(keys, seen, strict=True)])

    def show(key: Any) -> Any:
        return tuple(of(part) for of, part in zip(shown, key, strict=True))

    return (lambda seen: tuple(map(index, seen)), _same) if set(keys) == {index} else (key, show)


def _read_dicts(readers: dict[Any, Reader]) -> Reader:
    """Of dictionaries: the keys of their values, in the order of the space."""

    def key(seen: Any) -> Hashable:
        if len(seen) != len(readers):
            raise KeyError(f"not the entries {list(readers)}")
        return tuple([of(seen[entry]) for entry, (of, _) in readers.items()])

    def show(key: Any) -> Any:
        parts = zip(readers.items(), key, strict=True)
        return {entry: shown(part) for (entry, (_, shown)), part in parts}

    return key, show


def _read_one(readers: dict[Any, Reader]) -> Reader:
    """Of pairs: the number of a space, and an observation in it."""

    def key(seen: Any) -> Hashable:
        which, part = seen
        return index(which), readers[index(which)][0](part)

    return key, lambda key: (key[0], readers[key[0]][1](key[1]))
