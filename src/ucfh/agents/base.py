"""What a learner is to the rest of the package.

The world follows ``policy`` until the limits that the learner names are reached, hands over what
was seen, and asks again. A policy that is fixed for a while can so be simulated in bulk, and the
same learner runs on a simulator, a live environment or a log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh.counts import Counts
from ucfh.problem import Problem
from ucfh.table import Floats, Ints

NEVER = np.iinfo(np.int64).max
"""More visits than can be counted: the row changes nothing any more."""


@dataclass(frozen=True, eq=False)
class Limits:
    """How much may be seen before a learner wants to know.

    Attributes:
        visits: (rows,) the world stops at the end of the first episode in which some row has
            been visited this often since the last `Agent.observe`, at most 2^62; `NEVER` for
            rows that change nothing, whose visits need not be counted. 0 stops after one
            episode: at least one runs between two calls.
        episodes: stop after so many episodes; None: no limit.
        drop_surplus: whether visits beyond a row's limit are not to be counted.

    """

    visits: Ints
    episodes: int | None = None
    drop_surplus: bool = False


@dataclass(frozen=True, eq=False)
class Box:
    """Bounds that a learner believes.

    Attributes:
        lo, hi: (entries,) of transition probabilities.
        reward_lo, reward_hi: (rows,) of mean rewards; 0 and 1 where those are told.

    """

    lo: Floats
    hi: Floats
    reward_lo: Floats
    reward_hi: Floats

    def holds(self, p: Floats, mean_rewards: Floats | None) -> bool:
        """Whether the truth lies within: p (entries,), and mean rewards (rows - 1,) if given."""
        slack = 1e-12  # the bounds are computed in double precision
        inside = bool(((self.lo - slack <= p) & (p <= self.hi + slack)).all())
        if mean_rewards is None:
            return inside
        r_lo, r_hi = self.reward_lo[:-1] - slack, self.reward_hi[:-1] + slack
        return inside and bool(((r_lo <= mean_rewards) & (mean_rewards <= r_hi)).all())


class Agent(ABC):
    """A learner whose policy is fixed until its limits are reached.

    Attributes:
        problem: what it was told.
        policy: (H, S) what it would have done in the next episode.
        optimistic: the value that it promises itself from the start.
        updated: the row that was updated last, or -1.
        box: the bounds that it believes, or None.
        epsilon, delta: what it was asked for.
        episode_bound: at most so many episodes are worse than epsilon, with probability
            1 - delta; None where no such theorem holds.
        update_bound: how many updates to expect at most, to show progress; None if unknown.

    """

    problem: Problem
    policy: NDArray[Any]
    optimistic: float
    updated: int = -1
    box: Box | None = None
    epsilon: float
    delta: float
    episode_bound: float | None = None
    update_bound: float | None = None

    def limits(self) -> Limits | None:
        """What may be seen before the policy can change; None if it may after any episode."""
        return None

    @abstractmethod
    def observe(self, seen: Counts) -> bool:
        """Take what was seen since the last call; True if a new phase begins."""

    @abstractmethod
    def settings(self) -> dict[str, Any]:
        """What it was made with, by name: numbers, texts and None."""

    @abstractmethod
    def visits_of(self, row: int) -> int:
        """n of a row, as the learner's model has it."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.settings().items() if k != "agent")
        guarantee = "no guarantee" if self.episode_bound is None else f"{self.episode_bound:.3g}"
        return f"{type(self).__name__}({settings}; mistakes at most: {guarantee})"

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that it has learned, as arrays by name."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Go on from what `state` gave."""
