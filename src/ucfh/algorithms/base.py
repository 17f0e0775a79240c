"""The agent protocol: the base class `Agent`.

The runner follows ``policy`` until `Agent.limits` is reached, passes the counts to `Agent.observe`,
and repeats. A policy that is fixed for a while can therefore be simulated in bulk, and the same
agent runs on a simulator, an environment or a log. Agents that replan after every episode also have
a compiled loop, `Agent.follow`: the same episodes as by `observe`, without leaving compiled code.
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
    from ucfh._kernels.types import EnvironmentArrays, Record


class LoopResult(NamedTuple):
    """The result of an agent's compiled loop.

    Attributes:
        episodes: number of episodes run before the policy was final.
        record: the policies followed.
        policy: (H, S) the last policy.

    """

    episodes: int
    record: Record
    policy: NDArray[Any]


class _NameOfClass:
    """The default name of an agent: the name of its class in lower case."""

    def __get__(self, agent: Agent | None, cls: type[Agent]) -> str:
        return cls.__name__.lower()


class Agent(ABC):
    """An agent whose policy is fixed until its limits are reached.

    Attributes:
        problem: the known part of the MDP.
        policy: (H, S) actions of the next episode.
        optimistic: optimistic value at the start; NaN if there is none.
        randomized: whether actions are random: a run records the mean value of its policies.
        updated: the state-action pair updated last, or -1.
        box: confidence bounds, or None.
        epsilon, delta: accuracy and failure probability.
        episode_bound: at most this many episodes are epsilon-suboptimal, with probability
            1 - delta; None where no such theorem holds.
        update_bound: largest expected number of updates, to show progress; None if unknown.
        lower: lower bound of the value of the best known policy; NaN if not computed.
        gap_bound: upper bound of the optimality gap of that policy; NaN if not computed.
        certificate: the certificate of that policy; None if the agent computes none.
        done: whether the agent has stopped, with the accuracy asked for.
        stops: whether the agent stops by itself with an epsilon-optimal policy. `ucfh.simulate`
            runs an agent with a compiled loop that does not for a given number of episodes only.
        scale: factor of bonuses, radii or numbers of samples; 1: unchanged.
        wants: (rows,) successors of each pair requested from a generative model before the agent
            continues; None if no samples are requested.
        samples: number of successors drawn from a generative model.
        follow: compiled loop of an agent whose policy may change in every episode: takes a
            generator, an environment model and a number of episodes (see `LoopResult`). None: there
            is no such loop, and the runner asks for `limits`.
        has_run: whether `ucfh.simulate` has run this agent; it runs an agent once.
        planning_seconds: planning time without compilation, where it is measured; the time of
            compiled loops includes acting.
        name: the name in `ucfh.algorithms.registry`; by default the class name in lower case.
        reference: the paper.
        setting: the setting of the paper, and the adaptation to fixed horizons.
        guarantee: the statement of the theorem.
        constants: of the class: the provenance of its constants in terms of
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
    randomized: bool = False
    scale: float = 1.0
    wants: Ints | None = None
    samples: int = 0
    follow: Callable[[np.random.Generator, EnvironmentArrays, int], LoopResult] | None = None
    has_run: bool = False
    planning_seconds: float = 0.0
    name: str = _NameOfClass()  # type: ignore[assignment]
    reference: str = "not stated"
    setting: str = "not stated"
    guarantee: str = "not stated"
    constants: str = "not stated"

    def limits(self) -> Limits | None:
        """Return the visits after which the policy may change; None: after any episode."""
        return None

    @abstractmethod
    def observe(self, seen: Counts) -> bool:
        """Learn from the episodes since the last call.

        Args:
            seen: their counts.

        Returns:
            True if a new phase begins: the policy or its bounds may have changed.

        """

    def study(self, seen: Counts) -> None:
        """Learn from the requested samples of a generative model, and clear ``wants``.

        Args:
            seen: ``wants`` successors of each pair.

        """
        raise NotImplementedError(
            f"{type(self).__name__} asks for samples, but has no method study"
        )

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name: numbers, strings and None."""
        return {
            "agent": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "scale": self.scale,
        }

    @abstractmethod
    def visits_of(self, row: int) -> int:
        """Return n of a state-action pair in the agent's model."""

    def __repr__(self) -> str:
        settings = ", ".join(f"{k}={v!r}" for k, v in self.settings().items() if k != "agent")
        guarantee = "no guarantee" if self.episode_bound is None else f"{self.episode_bound:.3g}"
        return f"{type(self).__name__}({settings}; mistakes at most: {guarantee})"

    @abstractmethod
    def state(self) -> dict[str, Any]:
        """Return the learned state as arrays by name."""

    @abstractmethod
    def restore(self, state: dict[str, Any]) -> None:
        """Continue from a saved state.

        Args:
            state: the result of `state` of an agent with the same `settings`.

        """
