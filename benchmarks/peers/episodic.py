"""Tasks of H steps as Gymnasium's learners take them, and the exact worth of what they do.

Used in two environments: here, and in that of Stable-Baselines3, which has no ucfh; so it needs
NumPy and Gymnasium only. An observation is the pair (state, step), as the best action may depend on
the step. The task is over after H steps: the last one terminates the episode, nothing follows.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium.spaces import Discrete, MultiDiscrete
from numpy.typing import NDArray

Floats = NDArray[np.float64]

ROUNDING = 1e-9
"""A loss that exceeds epsilon by at most this is rounding."""


@dataclass(frozen=True, eq=False)
class Task:
    """The true model.

    Attributes:
        p: (S, A, S) transition probabilities; every state has all actions.
        rewards: (H, S, A, S) of each step, by the next state, too.
        initial: (S,) the start distribution.
        ends: (S,) whether an episode is over there.
        env: the id of Gymnasium's own environment of this model; "": there is none.

    """

    p: Floats
    rewards: Floats
    initial: Floats
    ends: NDArray[np.bool_]
    env: str = ""

    @property
    def shape(self) -> tuple[int, int, int]:
        """H, S, A."""
        H, S, A, _ = self.rewards.shape
        return H, S, A

    @cached_property
    def mean(self) -> Floats:
        """(H, S, A) expected rewards."""
        mean: Floats = np.einsum("sax,hsax->hsa", self.p, self.rewards)
        return mean

    @cached_property
    def optimum(self) -> float:
        """V*, by backward induction."""
        v = np.zeros(len(self.p))
        for mean in self.mean[::-1]:
            v = (mean + self.p @ v).max(axis=1)
        return float(self.initial @ v)

    def value(self, policy: Floats) -> float:
        """The expected reward of an episode, given the probabilities (H, S, A) of actions."""
        S, A, _ = self.p.shape
        p, v = self.p.reshape(S * A, S), np.zeros(S)
        for mean, chances in zip(self.mean[::-1], policy[::-1], strict=True):
            v = (chances * (mean + (p @ v).reshape(S, A))).sum(axis=1)
        return float(self.initial @ v)

    def save(self, path: Path) -> None:
        """Write it to a .npz file."""
        np.savez(path, **{name: getattr(self, name) for name in self.__dataclass_fields__})

    @classmethod
    def load(cls, path: Path) -> Task:
        """Read what `save` wrote."""
        with np.load(path) as file:
            return cls(**{**file, "env": str(file["env"])})


def deterministic(actions: Any, number: int) -> Floats:
    """(H, S, A) the probabilities of a policy that takes actions (H, S), of that many."""
    chances: Floats = np.eye(number)[np.asarray(actions)]
    return chances


class ModelEnvironment(gymnasium.Env[Any, Any]):
    """Steps of a task; its observations are states."""

    def __init__(self, task: Task) -> None:
        H, S, A = task.shape
        self.observation_space, self.action_space = Discrete(S), Discrete(A)
        self.task, self.horizon = task, H
        self._start = cumulated(task.initial)
        self._next = cumulated(task.p)
        self._s = self._t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[int, dict[str, Any]]:
        """Begin an episode."""
        super().reset(seed=seed, options=options)
        self._t, self._s = 0, self._draw(self._start)
        return self._s, {}

    def step(self, action: int) -> tuple[int, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        s, t = self._s, self._t
        self._t, self._s = t + 1, self._draw(self._next[s, action])
        reward = float(self.task.rewards[t, s, action, self._s])
        return self._s, reward, bool(self.task.ends[self._s]), False, {}

    def _draw(self, cumulated: Floats) -> int:
        return int(cumulated.searchsorted(self.np_random.random(), side="right"))


def cumulated(p: Floats) -> Floats:
    """Cumulated probabilities (..., S) that end at 1 whatever was rounded."""
    sums: Floats = p.cumsum(axis=-1)
    return sums / sums[..., -1:]


class WithStep(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Observations (state, step), and H steps.

    Stable-Baselines3 makes one-hot codes of both. The last observation has no step of its own:
    nobody acts on it.
    """

    def __init__(self, env: Any, task: Task) -> None:
        super().__init__(env)
        self.horizon, S, _ = task.shape
        self.observation_space = MultiDiscrete([S, self.horizon])
        self._t = 0

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, dict[str, Any]]:
        """Begin an episode."""
        s, info = self.env.reset(seed=seed, options=options)
        self._t = 0
        return np.array([s, 0]), info

    def step(self, action: int) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Take a step."""
        s, reward, terminated, truncated, info = self.env.step(action)
        self._t += 1
        seen = np.array([s, min(self._t, self.horizon - 1)])
        return seen, float(reward), terminated or self._t == self.horizon, truncated, info


def environment(task: Task) -> Any:
    """The environment whose observations are states: Gymnasium's own where it has one."""
    if task.env:
        return gymnasium.make(task.env, max_episode_steps=-1, disable_env_checker=True)
    return ModelEnvironment(task)


class Record:
    """What a learner did in N episodes, exactly.

    `add` is called for each policy before its episodes, `close` after the last one.
    """

    def __init__(self, task: Task, episodes: int, epsilon: float) -> None:
        self.task, self.episodes, self.epsilon = task, episodes, epsilon
        self._losses: list[float] = []  # of the policy that is handed over after k episodes
        self._regret = 0.0

    @property
    def full(self) -> bool:
        """Whether all N episodes were added."""
        return len(self._losses) >= self.episodes

    def add(self, handed: Floats, followed: Floats, episodes: int = 1) -> None:
        """Count episodes that follow a policy, while a user would be handed another one.

        Args:
            handed, followed: (H, S, A) probabilities of actions.
            episodes: how many; those beyond N are left out.

        """
        room = self.episodes - len(self._losses)
        if room > 0:
            self._regret += min(episodes, room) * self.loss(followed)
        if room >= 0:  # what is handed over after N counts, too
            self._losses += [self.loss(handed)] * min(episodes, room + 1)

    def close(self, handed: Floats) -> dict[str, Any]:
        """The measures, given the policy (H, S, A) that is handed over after the last `add`.

        first: the number of episodes after which the policy is within epsilon for the first time;
        for_good: after which it stays so, N included. None: never. regret: what the N episodes
        lost in expectation. loss: that of the policy after N.
        """
        self.add(handed, handed)
        good = np.array(self._losses) <= self.epsilon + ROUNDING
        bad = np.flatnonzero(~good)
        return {
            "first": int(good.argmax()) if good.any() else None,
            "for_good": (int(bad[-1]) + 1 if bad.size else 0) if good[-1] else None,
            "regret": self._regret,
            "loss": self._losses[-1],
        }

    def loss(self, policy: Floats) -> float:
        """How much worse than optimal a policy (H, S, A) is."""
        return self.task.optimum - self.task.value(policy)
