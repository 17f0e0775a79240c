"""Opening of Gymnasium environments, and conversion of observations to states."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from operator import index
from typing import Any, NamedTuple

import numpy as np

from ucfh.exceptions import InputError, not_installed, wrong_type
from ucfh.problems.gym import make_environment

ENCODE = (
    "pass encode=f, where f(observation) is a number, a string or a tuple of them, to ucfh.learn"
)
"""The remedy for observations that cannot be states."""
Reader = tuple[Callable[[Any], Hashable], Callable[[Any], Any]]
"""Functions from an observation to its key, and from a key to its display."""


def short(value: object) -> str:
    """Format a value for messages: one line of at most 80 characters."""
    text = " ".join((value if isinstance(value, str) else repr(value)).split())
    return text if len(text) <= 80 else f"{text[:77]}..."


class EnvironmentInterface(NamedTuple):
    """An environment and its properties.

    Attributes:
        env, name: the environment, and its id or class.
        horizon, actions, least: H, A and the number of the first action.
        key, text: functions from an observation to its key, and from a key to a line of text.

    """

    env: Any
    name: str
    horizon: int
    actions: int
    least: int
    key: Callable[[Any], Hashable]
    text: Callable[[Any], str]


def open_environment(
    env: Any,
    settings: Mapping[str, Any] | None = None,
    horizon: int | None = None,
    encode: Callable[[Any], Hashable] | None = None,
) -> EnvironmentInterface:
    """Open an environment, or make one by its id without a step limit.

    Args:
        env: the environment, or its id.
        settings: the arguments of its constructor, if env is an id.
        horizon: H; None: the environment's step limit.
        encode: a function that makes a key of an observation. Without it, keys consist of
            integers, strings and tuples, and observations of the observation space have the same
            key only if they are equal; for others, the key function may raise anything.

    """
    if isinstance(env, str):
        made = make_environment(env, dict(settings or {}), kind="env", limit=-1)
        import gymnasium

        listed = gymnasium.spec(env.rpartition(":")[2])
        name, own = listed.id, listed.max_episode_steps
    else:
        _check_environment(env, settings)
        made, spec = env, getattr(env, "spec", None)
        name = getattr(spec, "id", None) or type(getattr(env, "unwrapped", env)).__name__
        own = getattr(spec, "max_episode_steps", None)
    try:
        H = horizon or own
        if not H:
            raise InputError(f"{name} has no step limit: pass horizon=H, such as 20")
        actions, least = _read_actions(name, made)
        if encode is not None:
            return EnvironmentInterface(made, name, H, actions, least, encode, _text)
        key, shown = _read(name, getattr(made, "observation_space", None))
        return EnvironmentInterface(made, name, H, actions, least, key, lambda of: _text(shown(of)))
    except InputError:
        if made is not env:
            made.close()
        raise


def _check_environment(env: Any, settings: Mapping[str, Any] | None) -> None:
    """Raise unless ``env`` is one environment."""
    try:
        from gymnasium.vector import VectorEnv
    except ImportError:
        raise not_installed("an environment", "gymnasium") from None
    if settings:
        raise InputError("settings are for the id of an environment: make this one with them")
    if isinstance(env, VectorEnv):
        raise InputError(f"env = {short(env)} is several environments at once: pass one of them")
    has_methods = all(callable(getattr(env, method, None)) for method in ("reset", "step"))
    if isinstance(env, type) or not has_methods:
        raise wrong_type("env", env, "an environment of Gymnasium, or its id: 'FrozenLake-v1'")


def _read_actions(name: str, env: Any) -> tuple[int, int]:
    """Return A and the number of the first action of the environment ``name``."""
    from gymnasium.spaces import Discrete

    space = getattr(env, "action_space", None)
    if not isinstance(space, Discrete):
        raise InputError(
            f"{name}: its action space is {short(space)}, but actions must be Discrete: wrap the "
            "environment, a Box in gymnasium.wrappers.DiscretizeAction, others in TransformAction"
        )
    return int(space.n), int(space.start)


def plain(key: Any) -> Any:
    """Convert NumPy scalars in a key to equal Python values."""
    if type(key) is tuple:
        return tuple(map(plain, key))
    return key.item() if isinstance(key, np.number | np.bool_ | np.str_) else key


def _text(shown: object) -> str:
    """Display a key: a string as it is unless parts of it are invisible."""
    if isinstance(shown, str):
        return shown if shown.isprintable() and shown.strip() == shown != "" else repr(shown)
    return " ".join(str(shown).split())


def _read(name: str, space: Any, *, part: bool = False) -> Reader:
    """Return the reader of observations in a space, or in a part of one."""
    from gymnasium import spaces

    kind = getattr(getattr(space, "dtype", None), "kind", "")
    if isinstance(space, spaces.Discrete):
        return index, _same
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary) and kind in "biu":
        return _read_arrays(space.shape)
    if kind == "U":  # Text, and the missions of MiniGrid
        return str.__str__, _same
    if isinstance(space, spaces.Sequence) and not space.stack:
        key, shown = _read(name, space.feature_space, part=True)
        return lambda seen: tuple(map(key, seen)), lambda keys: tuple(map(shown, keys))
    if isinstance(space, spaces.Tuple | spaces.Dict | spaces.OneOf):
        named = space.spaces if isinstance(space, spaces.Dict) else dict(enumerate(space.spaces))
        readers = {entry: _read(name, inner, part=True) for entry, inner in named.items()}
        if isinstance(space, spaces.Dict):
            return _read_dicts(readers)
        return _read_one(readers) if isinstance(space, spaces.OneOf) else _read_tuples(readers)
    remedy = ENCODE
    if isinstance(space, spaces.Box) and space.is_bounded() and not part:
        remedy += ", or wrap the environment in gymnasium.wrappers.DiscretizeObservation"
    why = "holds real numbers" if kind == "f" else "is not supported"
    raise InputError(f"{name}: its observation space {short(space)} {why}: {remedy}")


def _same(key: Any) -> Any:
    return key


def _read_arrays(shape: tuple[int, ...]) -> Reader:
    """Return the reader of integer arrays: their numbers in one tuple."""

    def key(seen: Any) -> Hashable:
        numbers = np.asarray(seen)
        if numbers.shape != shape or numbers.dtype.kind not in "biu":
            raise TypeError(f"not integers of shape {shape}")
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
    """Return the reader of dictionaries: the keys of their values, in the order of the space."""

    def key(seen: Any) -> Hashable:
        if len(seen) != len(readers):
            raise KeyError(f"not the entries {list(readers)}")
        return tuple([of(seen[entry]) for entry, (of, _) in readers.items()])

    def show(key: Any) -> Any:
        parts = zip(readers.items(), key, strict=True)
        return {entry: shown(part) for (entry, (_, shown)), part in parts}

    return key, show


def _read_one(readers: dict[Any, Reader]) -> Reader:
    """Return the reader of pairs: the number of a space, and an observation in it."""

    def key(seen: Any) -> Hashable:
        which, part = seen
        return index(which), readers[index(which)][0](part)

    return key, lambda key: (key[0], readers[key[0]][1](key[1]))
