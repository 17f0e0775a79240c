"""Steps as the input of the audit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.sparse_counts import LOST, Steps


@dataclass(eq=False)
class AuditSteps:
    """Steps in temporal order, (n,) each, usually episode after episode.

    Attributes:
        new: True for the first step of an episode.
        t: the step within the episode, from 0.
        state, action, following: codes, from 0, of state, action and next state; following is -1 if
            it is unknown.
        reward: the reward.
        lost: 1 if the outcome is missing, and assumed to be missing at random; 0 if it is known; -1
            if it cannot be missing.
        detail: the code of the part of the bins that the state lies in; 0 without bins.

    """

    new: Bools
    t: Ints
    state: Ints
    action: Ints
    following: Ints
    reward: Floats
    lost: Ints | Bools
    detail: Ints


def to_audit_steps(steps: Steps) -> AuditSteps:
    """Convert steps to audit input, for states without bins."""
    return AuditSteps(
        new=steps.t == 0,
        t=steps.t,
        state=steps.state,
        action=steps.action,
        following=steps.following,
        reward=steps.reward,
        lost=steps.following == LOST,
        detail=np.zeros(len(steps), np.int64),
    )


class PreviousStep(NamedTuple):
    """The previous action, state and reward of each step in its episode, (n,) each.

    The values at the first step of an episode are not used.
    """

    action: Ints
    state: Ints
    reward: Floats
