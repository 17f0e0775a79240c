"""Calls on a task and their answers, as they are sent: JSON there, labels and decisions here."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from math import isfinite
from numbers import Real
from typing import Any

from ucfh.envs.spaces import plain
from ucfh.server.client_http import fault_of
from ucfh.tasks.errors import InvalidReport, LateOutcomeWarning
from ucfh.tasks.labels import as_tuples, canonical, label_of, name_in_log
from ucfh.tasks.protocol import Decision, LateAnswer

LABELS = ("state", "action", "taken", "next_state")


class RemoteNames:
    """What the states and actions of a task are called; both as they are stored.

    Attributes:
        action_names: (A,) what actions are called in a log.

    """

    def __init__(self, states: Sequence[str], actions: Sequence[str]) -> None:
        self._states, self._actions = ["", *states], actions
        self._number = {text: s + 1 for s, text in enumerate(states)}
        self.action_names: Sequence[str] = [name_in_log(text) for text in actions]

    def number_of(self, state: Any) -> int:
        """The number of a state as users give it, -1 if it was never seen."""
        return self._number.get(canonical(state), -1)

    def name_of(self, s: int) -> str:
        """What a state is called; no two alike."""
        return name_in_log(self._states[s])

    def action_of(self, a: int) -> Any:
        """An action as users gave it."""
        return label_of(self._actions[a])


def call_of(kind: str, episode: str, given: dict[str, Any]) -> dict[str, Any]:
    """A call as it is sent."""
    sent = {name: SENT[name](value) if name in SENT else value for name, value in given.items()}
    return {"call": kind, "episode": episode, **sent}


def sent_label(label: Any, kind: str = "state") -> Any:
    """A label in types that JSON has."""
    return json.loads(canonical(label, kind))


def sent_action(label: Any) -> Any:
    """That of an action."""
    return sent_label(label, "action")


def sent_actions(actions: Sequence[Any]) -> list[Any]:
    """Those of several."""
    return [sent_action(x) for x in actions]


def sent_reward(reward: Any) -> float:
    """A reward that JSON can carry; whether it is in its range, the service knows."""
    number = plain(reward)
    with suppress(OverflowError):
        if isinstance(number, Real) and not isinstance(number, bool) and isfinite(number):
            return float(number)
    raise InvalidReport(f"reward = {reward!r:.80} is not a number: give what the step paid")


SENT: dict[str, Callable[[Any], Any]] = {
    "state": sent_label,
    "next_state": sent_label,
    "action": sent_action,
    "actions": sent_actions,
    "reward": sent_reward,
}
"""How what is given is sent; the rest is as it is."""


def names_of(labels: Sequence[Any]) -> list[str]:
    """What labels are called in a log."""
    return [name_in_log(canonical(as_tuples(x))) for x in labels]


def answer_of(call: dict[str, Any], found: dict[str, Any]) -> Any:
    """What the service answers to a call, as a task would."""
    if found["status"] == LateOutcomeWarning.status:
        return LateAnswer(found["problem"]["detail"])
    if found["status"] != 200:
        return fault_of(found["problem"])
    answer = found["answer"]
    if call["call"] == "tell":
        answer = answer["next"]
    elif call["call"] != "ask":
        return None
    return None if answer is None else Decision(**with_labels(answer))


def with_labels(entry: dict[str, Any]) -> dict[str, Any]:
    """A decision with its labels: arrays are tuples."""
    return {**entry, **{key: as_tuples(entry[key]) for key in LABELS if key in entry}}
