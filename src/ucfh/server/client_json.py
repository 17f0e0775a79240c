"""Encoding of calls on a task to JSON, and decoding of their answers."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import isfinite
from numbers import Real
from typing import Any

from ucfh.envs.spaces import plain
from ucfh.server.client_http import exception_of
from ucfh.tasks.errors import InvalidReport, LateOutcomeWarning
from ucfh.tasks.labels import as_tuples, canonical, label_of, name_in_log
from ucfh.tasks.protocol import Decision, LateAnswer

LABELS = ("state", "action", "taken", "next_state")


class RemoteNames:
    """The names of the states and actions of a task, from their canonical labels.

    Attributes:
        action_names: (A,) the names of the actions in a log.

    """

    def __init__(self, states: Sequence[str], actions: Sequence[str]) -> None:
        self._states, self._actions = ["", *states], actions
        self._number = {text: s + 1 for s, text in enumerate(states)}
        self.action_names: Sequence[str] = [name_in_log(text) for text in actions]

    def number_of(self, state: Any) -> int:
        """Return the number of a state's label, -1 if it is unknown."""
        return self._number.get(canonical(state), -1)

    def name_of(self, s: int) -> str:
        """Return the unique name of a state."""
        return name_in_log(self._states[s])

    def action_of(self, a: int) -> Any:
        """Return the label of an action."""
        return label_of(self._actions[a])


def encode_call(kind: str, episode: str, given: dict[str, Any]) -> dict[str, Any]:
    """Return a call as it is sent."""
    sent = {
        name: ENCODERS[name](value) if name in ENCODERS else value for name, value in given.items()
    }
    return {"call": kind, "episode": episode, **sent}


def encode_label(label: Any, kind: str = "state") -> Any:
    """Return a label in JSON types."""
    return json.loads(canonical(label, kind))


def encode_action(label: Any) -> Any:
    """Return the label of an action in JSON types."""
    return encode_label(label, "action")


def encode_actions(actions: Sequence[Any]) -> list[Any]:
    """Return labels of actions in JSON types."""
    return [encode_action(x) for x in actions]


def encode_reward(reward: Any) -> float:
    """Return a reward as a finite number; the service checks its range."""
    number = plain(reward)
    with suppress(OverflowError):
        if isinstance(number, Real) and not isinstance(number, bool) and isfinite(number):
            return float(number)
    raise InvalidReport(f"reward = {reward!r:.80} is not a number: give the reward of the step")


ENCODERS: dict[str, Callable[[Any], Any]] = {
    "state": encode_label,
    "next_state": encode_label,
    "action": encode_action,
    "actions": encode_actions,
    "reward": encode_reward,
}
"""Encoders by the name of the argument; other arguments are sent unchanged."""


def log_names(labels: Sequence[Any]) -> list[str]:
    """Return the names of labels in a log."""
    return [name_in_log(canonical(as_tuples(x))) for x in labels]


def decode_answer(call: dict[str, Any], found: dict[str, Any]) -> Any:
    """Return the answer of the service to a call in the types of a task."""
    if found["status"] == LateOutcomeWarning.status:
        return LateAnswer(found["problem"]["detail"])
    if found["status"] != 200:
        return exception_of(found["problem"])
    answer = found["answer"]
    if call["call"] == "tell":
        answer = answer["next"]
    elif call["call"] != "ask":
        return None
    return None if answer is None else Decision(**decode_labels(answer))


def decode_labels(entry: dict[str, Any]) -> dict[str, Any]:
    """Return a decision with its labels decoded."""
    return {**entry, **{key: as_tuples(entry[key]) for key in LABELS if key in entry}}
