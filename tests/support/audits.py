"""Logs as audit input: clean, with a planted violation, or recorded from environments."""

from __future__ import annotations

import csv
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import gymnasium
import numpy as np
from numpy.typing import NDArray

from ucfh import MDP, make, write_log
from ucfh.auditing.e_process import Audit
from ucfh.auditing.steps import AuditSteps
from ucfh.problems import tasks

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

POLICIES = ("uniform", "skewed", "repeats", "win-stay", "greedy")
GREED = 0.9


@dataclass
class Moment:
    """State of L logs before a draw, (L,) each; before_... is -1 in the first step.

    Attributes:
        time: the share of the log that has passed.

    """

    t: Ints
    s: Ints
    a: Ints
    before_s: Ints
    before_a: Ints
    before_r: Floats
    detail: Ints
    time: float


Plant = Callable[[Moment], Floats]
"""(L,) by how much a probability is larger than it should be."""


@dataclass
class Worlds:
    """L worlds of S states and A actions, alike in all other respects.

    Attributes:
        p: (L, S, A, S) of next states. start: (L, S). mean: (L, S, A, S) of rewards.
        horizon: H. ends: in how many states, the last ones, episodes end.
        noise: "coin": rewards are 1 or 0; "none": they are their means; "real": all differ.
        lost: the probability with which an outcome is lost.
        policy: one of `POLICIES`.
        plants: by "follows", "pays", "starts" and "loses", what is added to the probability of the
            first next state in the row (taken from the last), of reward 1, of the first state and
            of a loss.

    """

    p: Floats
    start: Floats
    mean: Floats
    horizon: int = 5
    ends: int = 0
    noise: str = "coin"
    lost: float = 0.0
    policy: str = "uniform"
    plants: dict[str, Plant] | None = None

    def logs(self, steps: int, rng: np.random.Generator) -> list[AuditSteps]:
        """One log of so many steps from each world."""
        L, S, A, _ = self.p.shape
        every = np.arange(L)
        edges = self.p.cumsum(-1)[..., :-1]
        begins = self.start.cumsum(-1)[..., :-1]
        plants = self.plants or {}
        none = np.full(L, -1)
        now = Moment(none, none, none, none, none, none * 1.0, none, 0.0)
        new = np.ones(L, bool)
        tried, earned = np.ones((L, S, A)), np.ones((L, S, A))
        rows = []
        for i in range(steps):
            detail = np.asarray(rng.integers(0, 3, L), np.int64)
            now = replace(now, t=np.where(new, 0, now.t + 1), detail=detail, time=i / steps)
            first = _draw(begins, _planted(plants, "starts", now), rng)
            s = np.where(new, first, now.s)
            now = replace(
                now,
                s=s,
                before_s=np.where(new, -1, now.before_s),
                before_a=np.where(new, -1, now.before_a),
                before_r=np.where(new, -1.0, now.before_r),
            )
            now = replace(now, a=self._act(now, earned / tried, rng))
            a = now.a
            after = _draw(edges[every, s, a], _planted(plants, "follows", now), rng)
            r = self._pay(self.mean[every, s, a, after] + _planted(plants, "pays", now), rng)
            lost = rng.random(L) < self.lost + _planted(plants, "loses", now)
            rows.append((new, now.t, s, a, np.where(lost, -1, after), r, lost, detail))
            tried[every, s, a] += 1
            earned[every, s, a] += r
            new = lost | (now.t + 1 == self.horizon) | (after >= S - self.ends)
            now = replace(now, s=after, before_s=s, before_a=a, before_r=r)
        columns = [np.stack(column, 1) for column in zip(*rows, strict=True)]
        return [AuditSteps(*(column[i].copy() for column in columns)) for i in range(L)]

    def _act(self, now: Moment, value: Floats, rng: np.random.Generator) -> Ints:
        """(L,) actions, of which the value so far is (L, S, A)."""
        L, A = len(now.s), self.p.shape[2]
        other = rng.integers(0, A, L)
        if self.policy == "skewed":
            return np.where(rng.random(L) < 0.9, now.s % A, other)
        if self.policy == "repeats":
            return np.where((now.before_a >= 0) & (rng.random(L) < 0.8), now.before_a, other)
        if self.policy == "win-stay":
            return np.where(now.before_r > 0.5, np.maximum(now.before_a, 0), (now.before_a + 1) % A)
        if self.policy == "greedy":
            best = value[np.arange(L), now.s].argmax(-1)
            return np.where(rng.random(L) < GREED, best, other)
        return other

    def _pay(self, mean: Floats, rng: np.random.Generator) -> Floats:
        if self.noise == "none":
            return mean
        if self.noise == "real":
            return mean + rng.normal(0, 0.1, len(mean))
        return (rng.random(len(mean)) < mean).astype(float)


def _planted(plants: dict[str, Plant], kind: str, now: Moment) -> Floats:
    return plants[kind](now) if kind in plants else np.zeros(len(now.t))


def _draw(edges: Floats, shift: Floats, rng: np.random.Generator) -> Ints:
    """(L,) labels, from sums of probabilities (L, S - 1); the first one has shift (L,) more."""
    inside = (edges > 1e-12) & (edges < 1 - 1e-12)
    u = rng.random((len(edges), 1))
    return np.asarray((u >= edges + inside * shift[:, None]).sum(-1), np.int64)


def pieces(log: AuditSteps, growth: float = 1.3) -> Iterator[AuditSteps]:
    """A log as it grows, so that an audit looks often."""
    at, n = 0, len(log.t)
    while at < n:
        to = min(n, max(at + 10, int(growth * at)))
        yield AuditSteps(*(x[at:to] for x in vars(log).values()))
        at = to


def audited(
    log: AuditSteps,
    segments: Sequence[int] | bool = (),
    rewards: bool = True,
    details: bool = False,
    losses: bool = True,
) -> Audit:
    """The audit of a log, with looks on the way."""
    audit = Audit(segments, rewards, details, losses)
    for piece in pieces(log):
        audit.add(piece)
    audit.update_evidence()
    return audit


# ---------------------------------------------------------------------------------- clean worlds


def _random(rng: np.random.Generator, L: int, S: int, A: int, alpha: float) -> Worlds:
    p = rng.dirichlet(np.full(S, alpha), (L, S, A))
    return Worlds(p, rng.dirichlet(np.full(S, 1.0), L), rng.random((L, S, A, S)))


def clean_worlds(kind: str, L: int, rng: np.random.Generator) -> Worlds:
    """Worlds in which all that is assumed is true; the kinds are `CLEAN`."""
    if kind == "coins":
        return replace(_random(rng, L, 2, 1, 1.0), lost=0.1)
    if kind == "bandit":
        return replace(_random(rng, L, 1, 3, 1.0), policy="greedy", horizon=1)
    if kind == "small, an agent":
        return replace(_random(rng, L, 4, 2, 1.0), policy="greedy", lost=0.02)
    if kind == "small, win-stay":
        return replace(_random(rng, L, 4, 2, 0.5), policy="win-stay")
    if kind == "large":
        return replace(_random(rng, L, 60, 3, 0.1), policy="skewed", horizon=10, lost=0.01)
    if kind == "deterministic":
        worlds = _random(rng, L, 6, 2, 1.0)
        p = np.eye(6)[rng.integers(0, 6, (L, 6, 2))]
        return replace(worlds, p=p, noise="none", lost=0.05, policy="repeats")
    if kind == "skewed":
        rare = rng.choice([0.001, 0.01, 0.05], (L, 5, 2, 1))
        p = rare / 5 + (1 - rare) * np.eye(5)[rng.integers(0, 5, (L, 5, 2))]
        worlds = replace(_random(rng, L, 5, 2, 1.0), p=p, lost=0.003, policy="repeats")
        return replace(worlds, mean=rng.choice([0.01, 0.99, 1.0], (L, 5, 2, 5)))
    if kind == "noisy rewards":
        return replace(_random(rng, L, 3, 2, 1.0), noise="real", policy="win-stay")
    assert kind == "early ends"
    return replace(_random(rng, L, 7, 3, 0.7), ends=2, horizon=20, lost=0.03, policy="greedy")


CLEAN = ("coins", "bandit", "small, an agent", "small, win-stay", "large", "deterministic",
         "skewed", "noisy rewards", "early ends")  # fmt: skip


# -------------------------------------------------------------------------------- planted worlds

STRENGTHS = (0.05, 0.1, 0.2)
"""By how much a probability of one half is larger in some contexts, and smaller in the others."""


def _sign(x: NDArray[np.bool_]) -> Floats:
    return np.where(x, 1.0, -1.0)


CONTEXTS: dict[str, Plant] = {
    "previous action": lambda now: _sign(now.before_a == 1),
    "previous state": lambda now: _sign(now.before_s % 2 == 1),
    "previous reward": lambda now: _sign(now.before_r == 1),
    "step": lambda now: _sign(now.t >= 3),
    "last step only": lambda now: _sign(now.t == 4),
    "half of the bin": lambda now: _sign(now.detail == 0),
    "a change in the middle": lambda now: _sign(np.full(len(now.t), now.time >= 0.5)),
    "a slow drift": lambda now: np.full(len(now.t), 2 * now.time - 1),
    "state and action": lambda now: _sign((now.s == 0) & (now.a == 0)),
}
"""Contexts, as 1 or -1; of the slow drift, all that is between."""
PLANTED: dict[str, tuple[str, str, str, bool]] = {
    "next state by previous action": ("memory", "follows", "previous action", True),
    "next state by previous action, in one row": ("memory", "follows", "previous action", False),
    "next state by previous state": ("memory", "follows", "previous state", True),
    "next state by previous reward": ("memory", "follows", "previous reward", True),
    "reward by previous action": ("memory", "pays", "previous action", True),
    "next state by step": ("step", "follows", "step", True),
    "next state by step, in one row": ("step", "follows", "step", False),
    "reward by step, in the last only": ("step", "pays", "last step only", True),
    "next state by half of the bin": ("bins", "follows", "half of the bin", True),
    "next state by half of the bin, in one row": ("bins", "follows", "half of the bin", False),
    "next state, a change in the middle": ("drift", "follows", "a change in the middle", True),
    "next state, a change in one row": ("drift", "follows", "a change in the middle", False),
    "next state, a slow drift": ("drift", "follows", "a slow drift", True),
    "reward, a change in the middle": ("drift", "pays", "a change in the middle", True),
    "start, a change in the middle": ("start", "starts", "a change in the middle", True),
    "start, a slow drift": ("start", "starts", "a slow drift", True),
    "losses by state and action": ("losses", "loses", "state and action", True),
    "losses by step": ("losses", "loses", "step", True),
    "losses, a change in the middle": ("losses", "loses", "a change in the middle", True),
}
"""What is planted: the assumption it refutes, the kind of draw, its context, and in every row?"""


def planted_worlds(name: str, strength: float, L: int, policy: str = "uniform") -> Worlds:
    """Worlds of 4 states, 2 actions and 5 steps; two states follow, with one half each.

    Rewards are 1 or 0 with one half each. Losses have probability 1/5, of which a half of the
    strength is added or taken away.
    """
    _, kind, context, in_every_row = PLANTED[name]
    S, A = 4, 2
    p = np.zeros((L, S, A, S))
    for s in range(S):
        p[:, s, :, s] += 0.5
        p[:, s, :, (s + 1) % S] += 0.5
    start = np.tile([0.5, 0.0, 0.0, 0.5], (L, 1))
    size = strength / 2 if kind == "loses" else strength

    def plant(now: Moment) -> Floats:
        here = in_every_row | ((now.s == 0) & (now.a == 0))
        return np.where(here, size * CONTEXTS[context](now), 0.0)

    worlds = Worlds(p, start, np.full((L, S, A, S), 0.5), policy=policy, plants={kind: plant})
    return replace(worlds, lost=0.2) if kind == "loses" else worlds


Step = tuple[bool, int, Hashable, Hashable, Hashable, float]
"""Whether an episode begins, t, s, a, s', r."""


def passages(steps: Iterable[Step]) -> AuditSteps:
    """States and actions are numbered as they come."""
    states: dict[Hashable, int] = {}
    actions: dict[Hashable, int] = {}
    rows = [
        (new, t, states.setdefault(s, len(states)), actions.setdefault(a, len(actions)),
         states.setdefault(after, len(states)), float(r))
        for new, t, s, a, after, r in steps
    ]  # fmt: skip
    new, t, s, a, after, r = (np.array(column) for column in zip(*rows, strict=True))
    nothing = np.zeros(len(t), np.int64)
    return AuditSteps(new, t, s, a, after, r, nothing.astype(bool), nothing)


def stepped(
    env: Any,
    episodes: int,
    horizon: int,
    act: Callable[[Any, np.random.Generator], int],
    encode: Callable[[Any], Hashable] = lambda observation: observation,
    seed: int = 0,
) -> AuditSteps:
    """Episodes of an environment of Gymnasium, with ``act(observation, rng)``."""

    def steps() -> Iterable[Step]:
        rng = np.random.default_rng(seed)
        for episode in range(episodes):
            observation, _ = env.reset(seed=seed if episode == 0 else None)
            over = False
            for t in range(horizon):
                if over:
                    break
                s, a = encode(observation), act(observation, rng)
                observation, r, over, _, _ = env.step(a)
                yield t == 0, t, s, a, "end" if over else encode(observation), float(r)

    return passages(steps())


def simulated(mdps: Iterable[MDP], episodes: int, folder: Path) -> AuditSteps:
    """So many episodes of one problem, then of the next, all actions equally often."""

    def steps() -> Iterable[Step]:
        for i, mdp in enumerate(mdps):
            path = folder / f"{i}.csv"
            write_log(mdp, path, episodes, seed=i, force=True)
            with open(path, newline="") as file:
                for x in csv.DictReader(file):
                    t = int(x["t"])
                    yield t == 0, t, x["state"], x["action"], x["next_state"], float(x["reward"])

    return passages(steps())


def drifting_calls(change: float, episodes: int, folder: Path) -> AuditSteps:
    """Calls of which a part that grows to ``change`` has a complex instead of a simple fault."""
    table = {**tasks._CALL}
    weeks = 20

    def week(i: int) -> MDP:
        more = change * i / (weeks - 1)
        law = {"vague": 0.5, "simple": 0.3 - more, "complex": 0.2 + more}
        with patch.dict(tasks._CALL, {**table, ("greeting", "ask"): law}):
            return make("calls")

    return simulated(map(week, range(weeks)), episodes // weeks, folder)


def grid(name: str, episodes: int, *, full: bool = False, steps: int = 30) -> AuditSteps:
    """Walks in a grid of MiniGrid, by its usual view of a part or with all of it in sight."""
    import minigrid  # noqa: F401 - registers its environments
    from minigrid import wrappers

    full_view: Any = wrappers.FullyObsWrapper
    env: Any = gymnasium.make(name, max_episode_steps=-1)
    if full:
        env = full_view(env)
    moves = [0, 1, 2, 2, 2] if "Empty" in name else [0, 1, 2, 2, 2, 3, 5]
    return stepped(
        env,
        episodes,
        steps,
        lambda _, rng: int(rng.choice(moves)),
        lambda seen: (seen["image"].tobytes(), int(seen["direction"])),
    )


def taxi(episodes: int, *, fickle: bool, steps: int = 100) -> AuditSteps:
    """Rides of a taxi that drives the shortest way or, seven times in ten, at random."""
    env = gymnasium.make("Taxi-v4", fickle_passenger=fickle, max_episode_steps=-1).unwrapped
    best = _best_in_taxi(env)
    return stepped(
        env,
        episodes,
        steps,
        lambda s, rng: int(rng.integers(6)) if rng.random() < 0.7 else int(best[s]),
    )


def _best_in_taxi(env: Any) -> NDArray[np.int64]:
    """(500,) the best actions by value iteration, in a world without whims."""
    after = np.array([[row[0][1] for row in env.P[s].values()] for s in env.P])  # (500, 6)
    paid = np.array([[row[0][2] for row in env.P[s].values()] for s in env.P], float)
    over = np.array([[row[0][3] for row in env.P[s].values()] for s in env.P])
    value = np.zeros(len(after))
    for _ in range(200):
        value = (paid + 0.99 * ~over * value[after]).max(1)
    return np.asarray((paid + 0.99 * ~over * value[after]).argmax(1), np.int64)
