"""Steps as the audit takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from ucfh._support.arrays import Bools, Floats, Ints


@dataclass(eq=False)
class Passages:
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


class Before(NamedTuple):
    """Of each step, the action, the state and the reward before it in its episode, (n,) each.

    They are not used where an episode is new.
    """

    action: Ints
    state: Ints
    reward: Floats
