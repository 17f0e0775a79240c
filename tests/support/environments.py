"""Gymnasium environments for tests, recordings of their steps, and interruptions."""

from __future__ import annotations

import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import FrameType
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from ucfh.envs import gymnasium_adapter
from ucfh.envs.environment import RunOutput
from ucfh.envs.gymnasium_adapter import Environment
from ucfh.exceptions import InputError
from ucfh.sparse_counts import END, SHIFT, SparseCounts, Steps

Row = tuple[int, int, int, float, int]
Shown = tuple[Any, float, bool, bool, dict[str, Any]]


def step(observation: Any, reward: Any = 0.0, *, end: bool = False, cut: bool = False) -> Shown:
    """Return the result of a step of `Scripted`."""
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


def run(env: Environment, episodes: int = 1, states: int = 1) -> tuple[RunOutput, SparseCounts]:
    """Some episodes from the beginning, with action 0 in all states and at all steps."""
    seen = SparseCounts(env.horizon, env.actions)
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


def assert_faulty(ran: RunOutput, message: str) -> None:
    """The fault is an InputError in one line, which begins so; ".*" stands for anything."""
    assert isinstance(ran.fault, InputError)
    assert len(str(ran.fault).splitlines()) == 1
    first, *others = message.split(".*")
    assert str(ran.fault).startswith(first)
    for part in others:
        assert part in str(ran.fault)


def interrupt_at(line: int, action: Callable[[], RunOutput]) -> RunOutput | None:
    """Do it, with Ctrl-C before that line of the module is run; None if there are fewer.

    In a thread: what is raised at the last line of an except clause stays the context of all that
    is raised there later.
    """
    left = line

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        nonlocal left
        if frame.f_code.co_filename != gymnasium_adapter.__file__:
            return None
        if event == "line" and frame.f_code.co_name != "steps":
            left -= 1
            if left == 0:
                raise KeyboardInterrupt
        return trace

    def traced() -> RunOutput:
        sys.settrace(trace)
        try:
            return action()
        finally:
            sys.settrace(None)

    with ThreadPoolExecutor(1) as pool:
        ran = pool.submit(traced).result()
    return ran if left <= 0 else None


Reward = float | tuple[float, float]
"""What is paid, or between which two numbers, uniformly."""
Outcome = tuple[float, Reward, Any]
"""Its probability, what is paid, and the state that follows; None: the end."""


class Listed(gymnasium.Env[Any, Any]):
    """A world whose outcomes are listed by state and action, so that its values can be computed.

    A state is an int or, with another space, anything. States without an action say so in their
    mask. ``start``: a state, or states with their probabilities.
    """

    def __init__(
        self, table: dict[Any, dict[int, list[Outcome]]], start: Any = 0, space: Any = None
    ) -> None:
        self.table = table
        self.starts: dict[Any, float] = start if isinstance(start, dict) else {start: 1.0}
        A = 1 + max(a for actions in table.values() for a in actions)
        self.observation_space = space or spaces.Discrete(len(table))
        self.action_space = spaces.Discrete(A)
        self.masks = {s: np.array([int(a in have) for a in range(A)]) for s, have in table.items()}
        self.s: Any = None
        self.closed = False

    def reset(self, *, seed: int | None = None, options: Any = None) -> tuple[Any, Any]:
        super().reset(seed=seed, options=options)
        self.s = self._draw([(p, s) for s, p in self.starts.items()])[1]
        return self.s, {"action_mask": self.masks[self.s]}

    def step(self, action: Any) -> Any:
        _, paid, after = self._draw(self.table[self.s][int(action)])
        if isinstance(paid, tuple):
            paid = paid[0] + (paid[1] - paid[0]) * self.np_random.random()
        if after is None:
            return self.s, paid, True, False, {}
        self.s = after
        return after, paid, False, False, {"action_mask": self.masks[after]}

    def close(self) -> None:
        self.closed = True

    def _draw(self, listed: list[Any]) -> Any:
        x = self.np_random.random()
        for one in listed:
            x -= one[0]
            if x < 0:
                return one
        return listed[-1]

    def value(self, horizon: int, act: Callable[[int, Any], int] | None = None) -> float:
        """Return the value of the policy, by default of the optimal one."""
        after = dict.fromkeys([*self.table, None], 0.0)
        for t in reversed(range(horizon)):
            now = {None: 0.0}
            for s, actions in self.table.items():
                worth = {a: sum(p * (_mean(r) + after[s1]) for p, r, s1 in outcomes)
                         for a, outcomes in actions.items()}  # fmt: skip
                now[s] = max(worth.values()) if act is None else worth[act(t, s)]
            after = now
        return sum(p * after[s] for s, p in self.starts.items())


def _mean(paid: Reward) -> float:
    return (paid[0] + paid[1]) / 2 if isinstance(paid, tuple) else paid


def named_counts(data: SparseCounts, name_of: Callable[[int], str]) -> dict[str, Any]:
    """All that an `SparseCounts` holds, by the names of states; sums to twelve digits."""
    names = [name_of(s) for s in range(data.states)]

    def row(number: int) -> tuple[int, str, int]:
        segment, s, a = data.pair_of(number)
        return segment, names[s + 1], a

    entries = zip(*(x.tolist() for x in (data.key, data.c, data.paid, data.least, data.most)),
                  strict=True)  # fmt: skip
    places = data.place.reshape(-1, data.P)
    return {
        "counts": {
            (*row(key >> SHIFT), names[key & (2**SHIFT - 1)]): (c, round(paid, 9), least, most)
            for key, c, paid, least, most in entries
        },
        "visits": {row(i): int(n) for i, n in enumerate(data.visits) if n},
        "last_new": {row(i): int(n) for i, n in enumerate(data.last_new) if n},
        "place": {(names[s], p): int(places[s, p]) for s, p in np.argwhere(places).tolist()},
        "reached": {(names[s], t) for s, t in np.argwhere(data.reached).tolist()},
        "started": {names[s]: int(n) for s, n in enumerate(data.started) if n},
        "new": (data.started_new, data.found, data.episodes),
    }
