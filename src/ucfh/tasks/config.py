"""The declaration of a task: fixed when the task is created."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from math import isfinite
from numbers import Real
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools
from ucfh._utils.defaults import DELTA
from ucfh._utils.memory import LITTLE, free_memory
from ucfh.envs.spaces import short
from ucfh.exceptions import InputError, check_count, check_type, check_unit, wrong_type
from ucfh.rewards import ROUNDING, RewardRange, check_segments
from ucfh.tasks.errors import Conflict, InvalidReport
from ucfh.tasks.labels import END_NAME, canonical, check_names, label_of, name_in_log
from ucfh.tasks.records import StateRecord

NEEDED = ("actions", "horizon", "epsilon")
LOST_ON_TIMEOUT = "lost"
LONGEST, MOST_ACTIONS = 10_000, 1000
"""Steps and actions of a task."""
PER_STATE, PER_PAIR, PER_ROW = 320, 48, 700
"""Bytes that planning needs at most: for each step and state, for each step, state and action, and
for each state, action and time segment."""
SHARE = 0.5
"""The part of the free memory that one task may need."""
LONGEST_NAME = 500
"""Characters of the name of a task or of an episode."""
StateActions = tuple[str, tuple[int, ...] | None]
"""A declared state in canonical form, and the numbers of its actions; None: all."""


@dataclass(frozen=True)
class Declaration:
    """The declaration of a task, with labels in canonical form (`ucfh.tasks.labels.canonical`).

    Attributes:
        name: of the task.
        actions: (A,) their labels.
        horizon: H.
        epsilon, delta: the accuracy (largest acceptable loss per episode, in reward units) and the
            failure probability of the certificate.
        rewards: the smallest and the largest possible reward of a step.
        max_return: an upper bound on the return of an episode, if one was declared.
        states: all states with their actions; None: the state space is unknown.
        segments: the first step of each segment after the first.
        timeout: the seconds after which an open decision expires; None: never.
        on_timeout: "lost", or the terminal state that an expired decision leads to and the reward
            of that step.

    """

    name: str
    actions: tuple[str, ...]
    horizon: int
    epsilon: float
    delta: float
    rewards: tuple[float, float]
    max_return: float | None
    states: tuple[StateActions, ...] | None
    segments: tuple[int, ...]
    timeout: float | None
    on_timeout: str | tuple[str, float]

    @classmethod
    def make(
        cls,
        name: str,
        actions: Any,
        horizon: Any,
        epsilon: Any,
        delta: Any = None,
        rewards: Any = None,
        max_return: Any = None,
        states: Any = None,
        segments: Any = None,
        timeout: Any = None,
        on_timeout: Any = None,
    ) -> Declaration:
        """Return the declaration of a user's arguments; see `ucfh.open_task`.

        Raises:
            InputError: an argument is invalid.

        """
        H, units = (
            check_count("horizon", horizon),
            RewardRange.check((0.0, 1.0) if rewards is None else rewards),
        )
        texts = read_actions(actions)
        for what, count, most in (("horizon", H, LONGEST), ("actions", len(texts), MOST_ACTIONS)):
            if count > most:
                raise InputError(
                    f"{what} = {count:,} is more than can be planned for: {most:,} at most"
                )
        units.scaled_accuracy(epsilon, H, max_return)
        check_unit("delta", DELTA if delta is None else delta)
        expiry = read_timeout_outcome(on_timeout, units)
        if isinstance(expiry, tuple) and timeout is None:
            raise InputError(
                "on_timeout needs a timeout. Fix: give timeout, in seconds (--timeout)"
            )
        largest = np.inf if max_return is None else max_return + ROUNDING * units.span
        # negative rewards of earlier steps may make up for it
        alone = units.low >= 0 or H == 1
        if isinstance(expiry, tuple) and alone and expiry[1] > largest:
            raise InputError(
                f"on_timeout has the reward {expiry[1]:g}, more than max_return {max_return:g}. "
                "Fix: declare a larger max_return"
            )
        listed = None if states is None else read_states(states, texts, expiry)
        first = check_segments(() if segments is None else segments, H)
        check_size(H, len(listed or ()), len(texts), len(first) + 1)
        return cls(
            name=check_name(name),
            actions=texts,
            horizon=H,
            epsilon=float(epsilon),
            delta=float(DELTA if delta is None else delta),
            rewards=(units.low, units.high),
            max_return=None if max_return is None else float(max_return),
            states=listed,
            segments=first,
            timeout=None if timeout is None else check_seconds(timeout),
            on_timeout=expiry,
        )

    @property
    def units(self) -> RewardRange:
        """The range of rewards."""
        return RewardRange(*self.rewards)

    @property
    def action_names(self) -> list[str]:
        """(A,) the names of the actions in a log."""
        return [name_in_log(text) for text in self.actions]

    @property
    def action_labels(self) -> list[Any]:
        """(A,) the actions as users gave them."""
        return [label_of(text) for text in self.actions]

    @property
    def first_states(self) -> list[StateRecord]:
        """The declared states; an additional timeout state is the last."""
        known = list(self.states or ())
        if isinstance(self.on_timeout, tuple) and self.on_timeout[0] not in dict(known):
            known.append((self.on_timeout[0], ()))
        return [StateRecord(i + 1, *state) for i, state in enumerate(known)]

    def available(self, actions: Sequence[int] | None) -> Bools | None:
        """(A,) mask of the actions of a state, from their numbers; None: all."""
        if actions is None:
            return None
        mask = np.zeros(len(self.actions), bool)
        mask[list(actions)] = True
        return mask

    def check_size(self, states: int) -> None:
        """Raise `InvalidReport` if planning with that many states would need too much memory."""
        check_size(self.horizon, states, len(self.actions), len(self.segments) + 1)

    def to_json(self) -> str:
        """Return the stored form."""
        return json.dumps(
            {field.name: getattr(self, field.name) for field in fields(self)}, ensure_ascii=False
        )

    @classmethod
    def of_json(cls, text: str) -> Declaration:
        """Return the declaration of a stored form."""
        found = json.loads(text)
        states, expiry = found["states"], found["on_timeout"]
        if states is not None:
            states = tuple(
                (s, None if available is None else tuple(available)) for s, available in states
            )
        found |= {
            "actions": tuple(found["actions"]),
            "rewards": tuple(found["rewards"]),
            "segments": tuple(found["segments"]),
            "states": states,
            "on_timeout": tuple(expiry) if isinstance(expiry, list) else expiry,
        }
        return cls(**found)

    def check_same(self, given: Mapping[str, Any], where: str) -> None:
        """Raise `Conflict` if an argument that is not None differs from the declaration."""
        now = {name: value for name, value in given.items() if value is not None}
        if not now:
            return
        H = check_count("horizon", now["horizon"]) if "horizon" in now else self.horizon
        if self.horizon != H:  # what else is given may not suit the one that is stored
            raise self._differs("horizon", H, where)
        texts = read_actions(now["actions"]) if "actions" in now else self.actions
        if texts != self.actions:
            raise self._differs("actions", _shown(texts), where)
        own = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "rewards": self.rewards,
            "max_return": self.max_return,
            "segments": self.segments,
            "timeout": self.timeout,
        }
        expiry = self.on_timeout
        if isinstance(expiry, tuple):
            expiry = (label_of(expiry[0]), expiry[1])
        other = Declaration.make(
            self.name,
            self.action_labels,
            H,
            **{
                **own,
                "on_timeout": expiry,
                **{x: now[x] for x in now if x not in NEEDED[:2]},
            },
        )
        for name in now:
            if getattr(other, name) != getattr(self, name):
                raise self._differs(name, _shown(getattr(other, name)), where)

    def _differs(self, name: str, value: Any, where: str) -> Conflict:
        return Conflict(
            f"task {self.name!r} in {where} has {name} {_shown(getattr(self, name))}, not {value}: "
            f"leave {name} out, or create another task"
        )


def check_size(horizon: int, states: int, actions: int, segments: int) -> None:
    """Raise `InvalidReport` if planning would need more than a share of the free memory."""
    steps, pairs = horizon * (states + 1), (states + 1) * actions
    needed = PER_STATE * steps + PER_PAIR * horizon * pairs + PER_ROW * pairs * segments
    free = free_memory() if needed > LITTLE else None
    if free is not None and needed > SHARE * free:
        raise InvalidReport(
            f"horizon {horizon:,}, {states:,} states and {actions:,} actions need about "
            f"{needed / 1e9:.3g} GB of memory, and one task may use {SHARE * free / 1e9:.3g} GB "
            "here. Fix: create a task with fewer states or a shorter horizon"
        )


def _shown(value: Any) -> str:
    """Format a part of a declaration for a message."""
    if isinstance(value, tuple) and value and isinstance(value[0], tuple):
        value = [text for text, _ in value]
    if isinstance(value, tuple | list) and any(isinstance(x, str) for x in value):
        return short(f"[{', '.join(map(str, value))}]")
    return short(value)


def check_name(name: Any) -> str:
    """Return a valid name of a task; "." and ".." would be lost from a URL."""
    if not isinstance(name, str) or name.strip() in ("", ".", "..") or not name.isprintable():
        raise wrong_type("name", name, "a text that can be read, such as 'calls'")
    return check_length("name", name)


def check_length(what: str, name: str) -> str:
    """Return a name that is not too long."""
    if len(name) > LONGEST_NAME:
        raise InputError(f"{what} {short(name)} has more than {LONGEST_NAME} letters: shorten it")
    return name


def check_seconds(timeout: Any) -> float:
    """Return a positive number of seconds."""
    number = isinstance(timeout, Real) and not isinstance(timeout, bool)
    if not number or not isfinite(timeout) or timeout <= 0:
        raise wrong_type("timeout", timeout, "a positive number of seconds, such as 86400")
    return float(timeout)


def read_actions(actions: Any) -> tuple[str, ...]:
    """Return the labels of actions in canonical form."""
    texts = tuple(canonical(label, "action") for label in _listed("actions", actions))
    if not texts:
        raise InputError("actions is empty. Fix: list at least one")
    check_names(texts, "action")
    return texts


def _listed(name: str, given: Any) -> list[Any]:
    if isinstance(given, str | Mapping) or not hasattr(given, "__iter__"):
        raise wrong_type(name, given, "a list of labels, such as ['call', 'mail']")
    return list(given)


def read_states(
    states: Any, actions: tuple[str, ...], expiry: str | tuple[str, float]
) -> tuple[StateActions, ...]:
    """Return declared states with the numbers of their actions; None: all."""
    check_type("states", states, Mapping | list | tuple | set | range, "a list, or a dictionary")
    if isinstance(states, Mapping):
        subsets = list(states.items())
    else:  # not as keys of a dictionary: True and 1 are equal there
        subsets = [(label, None) for label in states]
    out = []
    for label, available in subsets:
        text = canonical(label)
        if name_in_log(text) == END_NAME:
            raise InvalidReport(
                f"state {text} is the name of the end in a log: give it another name"
            )
        numbers = read_subset(available, actions, text)
        if isinstance(expiry, tuple) and text == expiry[0]:
            if isinstance(states, Mapping) and numbers != ():
                raise InvalidReport(
                    f"state {text} is the state of on_timeout, which is terminal: give no actions"
                )
            numbers = ()
        out.append((text, numbers))
    if not out:
        raise InputError("states is empty. Fix: list all states, or leave states out")
    if not any(numbers != () for _, numbers in out):
        raise InputError("states has no state with actions. Fix: list at least one")
    check_names([text for text, _ in out], "state")
    return tuple(out)


def read_subset(available: Any, actions: tuple[str, ...], state: str) -> tuple[int, ...] | None:
    """Return the numbers of the actions of a state, ascending, from their labels; None: all."""
    if available is None:
        return None
    numbers = set()
    for label in _listed(f"actions of state {state}", available):
        if (text := canonical(label, "action")) not in actions:
            listed = ", ".join(actions)
            raise InvalidReport(
                f"state {state} has an unknown action {text}: the actions are {listed}"
            )
        numbers.add(actions.index(text))
    return None if len(numbers) == len(actions) else tuple(sorted(numbers))


def read_timeout_outcome(given: Any, units: RewardRange) -> str | tuple[str, float]:
    """Return the outcome of an expired decision: "lost", or a state and a reward."""
    if given is None or given == LOST_ON_TIMEOUT:
        return LOST_ON_TIMEOUT
    if not isinstance(given, tuple | list) or len(given) != 2:
        what = "'lost', or a terminal state and the reward of the step, such as ('left', 0)"
        raise wrong_type("on_timeout", given, what)
    text = canonical(given[0])
    if name_in_log(text) == END_NAME:
        raise InvalidReport(f"state {text} is the name of the end in a log: give it another name")
    return text, check_reward(given[1], units)


def check_reward(reward: Any, units: RewardRange) -> float:
    """Return a reward in the user's units, clipped if it is outside its range by rounding only."""
    number = type(reward) is float
    if not number and isinstance(reward, Real | np.number) and not isinstance(reward, bool):
        with suppress(OverflowError):
            reward, number = float(reward), True
    if not number or not isfinite(reward):
        raise InvalidReport(f"reward = {reward!r:.80} is not a number: give the reward of the step")
    slack = ROUNDING * units.span
    if not units.low - slack <= reward <= units.high + slack:
        raise InvalidReport(
            f"reward {reward:g} is outside the declared range {units}: report "
            "rewards in these units; nothing was counted"
        )
    return min(max(float(reward), units.low), units.high)
