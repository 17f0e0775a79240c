"""Steps as the audit takes them."""

from __future__ import annotations

from dataclasses import dataclass

from ucfh._support.arrays import Bools, Floats, Ints


@dataclass(eq=False)
class Passages:
    """Steps in the order in which they were taken, (n,) each.

    Attributes:
        new: whether it is the first step of its episode.
        t: the step within it, from 0.
        state, action, following: their codes, from 0; following is -1 if it is not known.
        reward: what was paid.
        lost: 1 if what followed is lost, and that is assumed to have nothing to do with what it
            was; 0 if it is not; -1 if it could not be lost.
        detail: which part of its bins the state lies in, as a code; 0 where there are none.
        before: action, state and reward of the step before in the same episode; they are not used
            where it is new. None: episode comes after episode, so it is the step before.

    """

    new: Bools
    t: Ints
    state: Ints
    action: Ints
    following: Ints
    reward: Floats
    lost: Ints | Bools
    detail: Ints
    before: tuple[Ints, Ints, Floats] | None = None
