"""A policy for states that were found on the way, under the environment's own names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh._utils.files import AnyPath
from ucfh.exceptions import InputError, check_count
from ucfh.io.policies import write_named


class StateNames(Protocol):
    """What states and actions are called; `ucfh.envs.environment.SteppedEnvironment` says more."""

    action_names: Sequence[str]

    def number_of(self, state: Any) -> int:
        """The number of a state as it is shown, -1 if it was never seen."""

    def name_of(self, s: int) -> str:
        """What a state is called in files."""

    def action_of(self, a: int) -> Any:
        """An action as the world takes it, by its number."""


class LearnedPolicy:
    """What to do at each step, in each state that was found, and in any other.

    Attributes:
        actions: (H, S) the number of the action at each step in each state found, in this order.

    """

    def __init__(self, world: StateNames, actions: Ints) -> None:
        self._world, self._numbers = world, actions

    @property
    def actions(self) -> Ints:
        """(H, S) by the number of the state, without the end."""
        return self._numbers[:, 1:]

    def act(self, t: int, state: Any, available: Any = None) -> Any:
        """The action at step t, counted from 0, in a state as the environment shows it.

        In a state that was never seen, it is the first action, as the certificate assumes: the
        first of those that are available (A,), where states have different actions.
        """
        H = len(self._numbers)
        if check_count("t", t, least=0) >= H:
            raise InputError(f"t = {t} is after the last step: steps are 0 to {H - 1}")
        s = self._world.number_of(state)
        known = 0 < s < self._numbers.shape[1]
        first = 0 if available is None else int(np.argmax(np.asarray(available, bool)))
        return self._world.action_of(int(self._numbers[t, s]) if known else first)

    def named(self) -> list[list[tuple[str, str]]]:
        """For each step, the name of each state and of the action there."""
        world, states = self._world, range(1, self._numbers.shape[1])
        names = [world.name_of(s) for s in states]
        return [
            [(name, world.action_names[a]) for name, a in zip(names, line, strict=True)]
            for line in self.actions.tolist()
        ]

    def write(self, path: AnyPath, force: bool = False) -> None:
        """Write it to a file, by its ending .csv or .json, with the environment's names."""
        write_named(self.named(), path, force)

    def __repr__(self) -> str:
        H, S = self.actions.shape
        return f"LearnedPolicy({H} steps, {S} states)"
