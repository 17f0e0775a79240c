"""What an agent is to the rest of the package.

The world follows ``policy`` until the limits that the agent names are reached, hands over what
was seen, and asks again. So a policy that is fixed for a while can be simulated in bulk, and the
same agent runs on a simulator, a live environment or a log.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from math import nan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Ints
from ucfh.certificate import Certificate
from ucfh.confidence.intervals import Box
from ucfh.counts import Counts, Limits
from ucfh.mdp import Problem

if TYPE_CHECKING:
    from ucfh._kernels.groups import Nature, Record


class LoopResult(NamedTuple):
    """What an agent's own loop did.

    Attributes:
        episodes: how many it ran before its policy was final.
        record: the policies that it followed.
        policy: (H, S) the last of them.

    """

    episodes: int
    record: Record
    policy: NDArray[Any]


class _NameOfClass:
    """The name of an agent whose class does not state one: that of the class, in small letters."""

    def __get__(self, agent: Agent | None, cls: type[Agent]) -> str:
        return cls.__name__.lower()


class Agent(ABC):
    """An agent whose policy is fixed until its limits are reached.

    Attributes:
        problem: what it was told.
        policy: (H, S) what it would do in the next episode.
        optimistic: its optimistic value from the start; NaN if it has none.
        randomised: whether its actions are random: a run records the mean value of its policies.
        updated: the row that was updated last, or -1.
        box: its confidence bounds, or None.
        epsilon, delta: what it was asked for.
        episode_bound: at most this many episodes are worse than epsilon, with probability
            1 - delta; None where no such theorem holds.
        update_bound: how many updates to expect at most, to show progress; None if unknown.
        lower: what its best policy earns at least, if it keeps track of that; else NaN.
        gap_bound: how far that policy is from optimal at most; else NaN.
        certificate: what it has proved about its policy so far, if it keeps track of that.
        done: whether it has stopped: the certificate says what it asked for.
        stops: whether it stops by itself, with a policy within epsilon of optimal; of agents with
            a loop of their own, `ucfh.simulate` runs others for a given number of episodes only.
        scale: what its bonuses, radii or numbers of samples are multiplied by; 1: as they are.
        wants: (rows,) how many successors of each row it asks of a generative model before it
            continues; None if it asks for none, or has what it asked for.
        samples: how often it has asked a generative model for a successor.
        follow: a loop of its own, for an agent whose policy may change in every episode: given a
            generator, nature and a number of episodes, it runs that many (see `LoopResult`). None:
            it has no such loop, and is asked for `limits`.
        has_run: whether `ucfh.simulate` has run it; it refuses to do so twice.
        planning_seconds: spent on planning, as far as it keeps track of that, without compiling.
            Compiled loops of agents that plan after every episode include acting.
        name: what `ucfh.algorithms.registry` calls it; by default the name of its class, in small
            letters. reference: the paper. setting: what it was made for, and how it was adapted to
            fixed horizons. guarantee: what its theorem says.
        constants: of the class: where its constants come from, by the words of
            `ucfh.algorithms.registry.ORIGINS` ("published: c1; derived: c2"), or "none". An
            instance of UCFH has the constants themselves under this name.

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
    lower: float = nan
    gap_bound: float = nan
    certificate: Certificate | None = None
    done: bool = False
    stops: bool = False
    randomised: bool = False
    scale: float = 1.0
    wants: Ints | None = None
    samples: int = 0
    follow: Callable[[np.random.Generator, Nature, int], LoopResult] | None = None
    has_run: bool = False
    planning_seconds: float = 0.0
    name: str = _NameOfClass()  # type: ignore[assignment]
    reference: str = "not stated"
    setting: str = "not stated"
    guarantee: str = "not stated"
    constants: str = "not stated"

    def limits(self) -> Limits | None:
        """What may be seen before the policy can change; None if it may after any episode."""
        return None

    @abstractmethod
    def observe(self, seen: Counts) -> bool:
        """Take what was seen since the last call; True if a new phase begins."""

    def study(self, seen: Counts) -> None:
        """Take the successors that it asked a generative model for, and clear ``wants``."""
        raise NotImplementedError(
            f"{type(self).__name__} asks for samples, but has no method study"
        )

    def settings(self) -> dict[str, Any]:
        """What it was made with, by name: numbers, texts and None."""
        return {
            "agent": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "scale": self.scale,
        }

    @abstractmethod
    def visits_of(self, row: int) -> int:
        """n of a row, as the agent's model has it."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.settings().items() if k != "agent")
        guarantee = "no guarantee" if self.episode_bound is None else f"{self.episode_bound:.3g}"
        return f"{type(self).__name__}({settings}; mistakes at most: {guarantee})"

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """All that it has learned, as arrays by name."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Continue from what `state` returned."""
