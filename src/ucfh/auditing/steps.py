"""Steps as the audit takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.sparse_counts import LOST, Steps


@dataclass(eq=False)
class AuditSteps:
    """Steps in the order in which they were taken, (n,) each, as a rule episode after episode.

    Attributes:
        new: whether it is the first step of its episode.
        t: the step within it, from 0.
        state, action, following: their codes, from 0; following is -1 if it is not known.
        reward: what was paid.
        lost: 1 if what followed is lost, and that is assumed to have nothing to do with what it
            was; 0 if it is not; -1 if it could not be lost.
        detail: which part of its bins the state lies in, as a code; 0 where there are none.

    """

    new: Bools
    t: Ints
    state: Ints
    action: Ints
    following: Ints
    reward: Floats
    lost: Ints | Bools
    detail: Ints


def passages_of(steps: Steps) -> AuditSteps:
    """Steps of states that are no bins; those that are lost may be anything."""
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
    """Of each step, the action, the state and the reward before it in its episode, (n,) each.

    They are not used where an episode is new.
    """

    action: Ints
    state: Ints
    reward: Floats
