"""Environments of Gymnasium for tests, what they showed, and interruptions of them."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

import gymnasium
from gymnasium import spaces

from ucfh.errors import InputError
from ucfh.experience import END, Experience, Steps
from ucfh.live import environments
from ucfh.live.environments import Environment, Ran

Row = tuple[int, int, int, float, int]
Shown = tuple[Any, float, bool, bool, dict[str, Any]]


def step(observation: Any, reward: Any = 0.0, *, end: bool = False, cut: bool = False) -> Shown:
    """What `Scripted` shows after a step."""
    return observation, reward, end, cut, {}


def masked(observation: Any, mask: Any) -> Shown:
    """The same, with a mask of the actions."""
    return observation, 0.0, False, False, {"action_mask": mask}


class Scripted(gymnasium.Env[Any, Any]):
    """Episodes as they are listed, again and again; each begins with what its reset shows.

    What is an exception is raised. `seeds` and `taken` are what it was given.
    """

    def __init__(self, *episodes: list[Any], space: Any = None, actions: Any = None) -> None:
        self.observation_space = space or spaces.Discrete(100)
        self.action_space = actions or spaces.Discrete(2)
        self.episodes = list(episodes)
        self.left: list[Any] = []
        self.seeds: list[int | None] = []
        self.taken: list[Any] = []

    def _next(self) -> Any:
        shown = self.left.pop(0)
        if isinstance(shown, BaseException):
            raise shown
        return shown

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        del options
        self.left = list(self.episodes[len(self.seeds) % len(self.episodes)])
        self.seeds.append(seed)
        observation, _, _, _, info = self._next()
        return observation, info

    def step(self, action: Any) -> Any:
        self.taken.append(action)
        return self._next()


def listed(steps: Steps) -> list[Row]:
    """The steps, one after the other: t, s, a, r, s'."""
    columns = (steps.t, steps.state, steps.action, steps.reward, steps.following)
    assert [column.dtype.kind for column in columns] == list("iiifi")
    return list(zip(*(column.tolist() for column in columns), strict=True))


def run(env: Environment, episodes: int = 1, states: int = 1) -> tuple[Ran, Experience]:
    """Some episodes from the beginning, with action 0 in all states and at all steps."""
    seen = Experience(env.horizon, env.actions)
    return env.run(seen, [[0] * states] * env.horizon, episodes), seen


class Recording:
    """Steps of an environment, recorded slowly and obviously."""

    def __init__(self, name: str, horizon: int, low: float, span: float, seed: int) -> None:
        self.env = gymnasium.make(name, max_episode_steps=-1)
        self.horizon, self.low, self.span = horizon, low, span
        self.seeds = [seed]
        self.keys: list[Any] = ["end"]
        self.starts: list[int] = []
        self.rows: list[Row] = []
        self.last_seen: list[Any] = []

    def number(self, observation: Any) -> int:
        if observation not in self.keys:
            self.keys.append(observation)
        return self.keys.index(observation)

    def run(self, policy: list[list[int]], episodes: int) -> None:
        for _ in range(episodes):
            seed = self.seeds.pop() if self.seeds else None
            s = self.number(self.env.reset(seed=seed)[0])
            self.starts.append(s)
            over = False
            for t in range(self.horizon):
                if not over:
                    a = policy[t][s] if s < len(policy[t]) else 0
                    observation, reward, over, _, _ = self.env.step(a)
                    following = END if over else self.number(observation)
                    self.rows.append((t, s, a, (float(reward) - self.low) / self.span, following))
                    if over:
                        self.last_seen.append(observation)
                    s = following


def assert_faulty(ran: Ran, message: str) -> None:
    """The fault is an InputError in one line, which begins so; ".*" stands for anything."""
    assert isinstance(ran.fault, InputError)
    assert len(str(ran.fault).splitlines()) == 1
    first, *others = message.split(".*")
    assert str(ran.fault).startswith(first)
    for part in others:
        assert part in str(ran.fault)


def interrupt_at(line: int, action: Callable[[], Ran]) -> Ran | None:
    """Do it, with Ctrl-C before that line of the module is run; None if there are fewer."""
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != environments.__file__:
            return None
        if event == "line" and frame.f_code.co_name != "steps":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        ran = action()
    finally:
        sys.settrace(before)
    return ran if left <= 0 else None
