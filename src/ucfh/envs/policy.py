"""A policy for discovered states, with the environment's names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh._utils.files import AnyPath
from ucfh.exceptions import InputError, check_count
from ucfh.policies import write_named


class StateNames(Protocol):
    """Names of states and actions; see `ucfh.envs.environment.SteppedEnvironment`."""

    action_names: Sequence[str]

    def number_of(self, state: Any) -> int:
        """Return the number of a state as the environment shows it, -1 if it is unknown."""

    def name_of(self, s: int) -> str:
        """Return the name of a state in files."""

    def action_of(self, a: int) -> Any:
        """Return the environment's action for an action number."""


class LearnedPolicy:
    """A policy with an action for each step and discovered state, and a default for others.

    Attributes:
        actions: (H, S) the number of the action at each step in each state, in discovery order.

    """

    def __init__(self, environment: StateNames, actions: Ints) -> None:
        self._environment, self._numbers = environment, actions

    @property
    def actions(self) -> Ints:
        """(H, S) action numbers by state, without the end."""
        return self._numbers[:, 1:]

    def act(self, t: int, state: Any, available: Any = None) -> Any:
        """Return the action at step t in a state.

        Args:
            t: the step, counted from 0.
            state: the state as the environment shows it. In an unknown state the action is the
                first (available) one, as the certificate assumes.
            available: (A,) the available actions, if states have different ones.

        """
        H = len(self._numbers)
        if check_count("t", t, least=0) >= H:
            raise InputError(f"t = {t} is after the last step: steps are 0 to {H - 1}")
        s = self._environment.number_of(state)
        known = 0 < s < self._numbers.shape[1]
        first = 0 if available is None else int(np.argmax(np.asarray(available, bool)))
        return self._environment.action_of(int(self._numbers[t, s]) if known else first)

    def named(self) -> list[list[tuple[str, str]]]:
        """Return the name of each state and its action, for each step."""
        environment, states = self._environment, range(1, self._numbers.shape[1])
        names = [environment.name_of(s) for s in states]
        return [
            [(name, environment.action_names[a]) for name, a in zip(names, line, strict=True)]
            for line in self.actions.tolist()
        ]

    def write(self, path: AnyPath, force: bool = False) -> None:
        """Write it to a .csv or .json file, with the environment's names."""
        write_named(self.named(), path, force)

    def __repr__(self) -> str:
        H, S = self.actions.shape
        return f"LearnedPolicy({H} steps, {S} states)"
