"""Plans: policies and their values."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Floats
from ucfh._utils.memory import check_memory
from ucfh._utils.notebook import block, policy_table


class Plan(NamedTuple):
    """A policy and its values.

    Attributes:
        policy: (H, S) the action at each step in each state, in the smallest integer type.
        values: (H+1, S) the value from each step on; values[H] is zero.
        transitions: p~, the optimistic or robust model, if requested: (H, S, A, S), or
            (H, entries) over the rows of a compressed input.

    """

    policy: NDArray[Any]
    values: Floats
    transitions: Floats | None = None

    def __repr__(self) -> str:
        steps, states = self.policy.shape
        low, high = self.values[0].min(), self.values[0].max()
        values = f"values {low:.4g} to {high:.4g} by first state"
        model = ", with its model" if self.transitions is not None else ""
        return f"Plan({states} states, {steps} steps, {values}{model})"

    def _repr_html_(self) -> str:
        return block(repr(self), policy_table(self.policy, self.values))


def blank(states: int, actions: int, horizon: int) -> tuple[Floats, NDArray[Any]]:
    """Allocate zero values (H+1, S) and a zero policy (H, S)."""
    kind = np.uint8 if actions <= 256 else np.min_scalar_type(actions - 1)
    check_memory("a plan", (8 * (horizon + 1) + np.dtype(kind).itemsize * horizon) * states)
    return np.zeros((horizon + 1, states)), np.zeros((horizon, states), kind)
