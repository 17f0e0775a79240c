"""Small random models with exact truth: values by dynamic programming, written from definitions.

Nothing here uses the package: V*, V^pi and the largest return are what certificates are held
against.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Generator = np.random.Generator
Support = tuple[tuple[float, float], ...]
"""A distribution of rewards: (probability, reward)."""


@dataclass(frozen=True, eq=False)
class Model:
    """A finite-horizon MDP with S states, A actions and time segments.

    Attributes:
        horizon: H.
        segments: first step of each time segment after the first.
        p: (G, S, A, S) transition probabilities of each segment.
        pays: [g][s][a][s'] distribution of the reward.
        available: (S, A) action mask; every nonterminal state has an action.
        terminal: states in which the episode is over. attrition: the one that stands for early
            termination ("left" without a next state), or None.
        start: (S,) distribution of the first state.
        low, high: range of the rewards of a step.

    """

    horizon: int
    segments: tuple[int, ...]
    p: Floats
    pays: list[list[list[list[Support]]]]
    available: NDArray[np.bool_]
    terminal: frozenset[int]
    attrition: int | None
    start: Floats
    low: float
    high: float

    @property
    def states(self) -> int:
        """S."""
        return int(self.p.shape[1])

    @property
    def actions(self) -> int:
        """A."""
        return int(self.p.shape[2])

    @property
    def decision_states(self) -> list[int]:
        """The states that are not terminal."""
        return [s for s in range(self.states) if s not in self.terminal]

    def segment(self, t: int) -> int:
        """The time segment of step t."""
        return sum(t >= x for x in self.segments)

    def choices(self, s: int) -> list[int]:
        """The actions that state s has."""
        return [int(a) for a in np.flatnonzero(self.available[s])]

    @cached_property
    def mean(self) -> Floats:
        """(G, S, A, S) mean rewards."""
        return np.array(
            [
                [[[sum(q * r for q, r in x) for x in row] for row in rows] for rows in state]
                for state in self.pays
            ]
        )

    def q_values(self, t: int, following: Floats) -> Floats:
        """(S, A) expected reward plus value of the next state (S,)."""
        g = self.segment(t)
        q: Floats = np.einsum("ijk,ijk->ij", self.p[g], self.mean[g] + following)
        return q

    def backward(self, choose: Any) -> Floats:
        """(H+1, S) values; ``choose(t, s, q (A,))`` gives the value of a decision state."""
        V = np.zeros((self.horizon + 1, self.states))
        for t in range(self.horizon - 1, -1, -1):
            q = self.q_values(t, V[t + 1])
            for s in self.decision_states:
                V[t, s] = choose(t, s, q[s])
        return V

    @cached_property
    def optimal(self) -> Floats:
        """(H+1, S) V*."""
        return self.backward(lambda _, s, q: max(q[a] for a in self.choices(s)))

    def values(self, policy: Any) -> Floats:
        """(H+1, S) V^pi of a deterministic policy, policy[t][s]."""
        return self.backward(lambda t, s, q: q[policy[t][s]])

    def values_of_mixture(self, weights: Floats) -> Floats:
        """(H+1, S) V^pi of a stochastic policy (H, S, A)."""
        return self.backward(lambda t, s, q: float(weights[t, s] @ q))

    def at_start(self, V: Floats) -> float:
        """The mean of V_0 over the start."""
        return float(self.start @ V[0])

    @cached_property
    def best(self) -> float:
        """V* at the start."""
        return self.at_start(self.optimal)

    @cached_property
    def largest_return(self) -> float:
        """The largest sum of rewards of an episode that has positive probability."""
        M = np.zeros((self.horizon + 1, self.states))
        for t in range(self.horizon - 1, -1, -1):
            g = self.segment(t)
            for s in self.decision_states:
                M[t, s] = max(
                    r + M[t + 1, x]
                    for a in self.choices(s)
                    for x in np.flatnonzero(self.p[g, s, a] > 0)
                    for q, r in self.pays[g][s][a][x]
                    if q > 0
                )
        return float(max(M[0, s] for s in np.flatnonzero(self.start > 0)))

    @cached_property
    def _laws(self) -> dict[tuple[int, int, int], tuple[list[float], list[tuple[float, int]]]]:
        """Cumulative probabilities and outcomes (reward, s') by (segment, s, a)."""
        out = {}
        for g in range(len(self.p)):
            for s in self.decision_states:
                for a in self.choices(s):
                    listed = [
                        (q * self.p[g, s, a, x], (r, int(x)))
                        for x in np.flatnonzero(self.p[g, s, a] > 0)
                        for q, r in self.pays[g][s][a][x]
                        if q > 0
                    ]
                    total = np.cumsum([q for q, _ in listed])
                    out[g, s, a] = ((total / total[-1]).tolist(), [x for _, x in listed])
        return out

    def draw(self, rng: Generator, t: int, s: int, a: int) -> tuple[float, int]:
        """Reward and next state."""
        edges, outcomes = self._laws[self.segment(t), s, a]
        u, k = rng.random(), 0
        while edges[k] <= u and k < len(edges) - 1:
            k += 1
        return outcomes[k]

    def draw_start(self, rng: Generator) -> int:
        """The first state of an episode."""
        return int(rng.choice(self.states, p=self.start))


@dataclass(frozen=True)
class Needs:
    """Features that an entry point can represent.

    Attributes:
        unit: rewards must be in [0, 1]. noise: kinds of reward noise.
        masks: states may have fewer actions. attrition: episodes may end early, as an outcome; the
            reward of such a step is ``silence`` if given.
        segmented: transitions and rewards may depend on the time segment.

    """

    unit: bool = False
    noise: tuple[str, ...] = ("none", "bernoulli", "points")
    masks: bool = False
    attrition: bool = False
    silence: float | None = None
    segmented: bool = True
    terminal: bool = True


RANGES = ((0.0, 1.0), (0.0, 1.0), (-1.0, 1.0), (0.0, 10.0), (-2.0, 0.0), (-5.0, -1.0), (1.0, 3.0))
SKEWED = (0.0, 0.02, 0.1, 0.5, 0.9, 0.98, 1.0)
"""Probabilities and means that make wrong bounds show: rare outcomes, and certain ones."""


def draw_range(rng: Generator, needs: Needs) -> tuple[float, float]:
    """The range of rewards."""
    return (0.0, 1.0) if needs.unit else RANGES[rng.integers(len(RANGES))]


def draw_model(rng: Generator, needs: Needs, span: tuple[float, float] | None = None) -> Model:
    """A random model."""
    low, high = span or draw_range(rng, needs)
    H, A = int(rng.choice([1, 1, 1, 2, 2, 3, 4])), int(rng.choice([1, 2, 2, 3]))
    decisions, ends = (
        int(rng.choice([1, 1, 1, 2, 2, 3, 4])),
        int(rng.integers(0, 2)) * needs.terminal,
    )
    left = needs.attrition
    S = decisions + ends + left
    segments: tuple[int, ...] = ()
    if needs.segmented and H > 1 and rng.random() < 0.4:
        segments = tuple(int(t) for t in range(1, H) if rng.random() < 0.6)
    G = len(segments) + 1
    noise = str(rng.choice(needs.noise))
    by_successor = bool(rng.random() < 0.5)
    dense, skewed = rng.random() < 0.3, rng.random() < 0.6
    p = np.zeros((G, S, A, S))
    terminal = frozenset(range(decisions, S))
    stay = S - left if left else S
    for g in range(G):
        for s in range(S):
            for a in range(A):
                p[g, s, a] = _row(rng, S, stay, left, dense, skewed)
    pays: list[Any] = []
    for _ in range(G):
        rows: list[Any] = []
        for _s in range(S):
            rows.append([])
            for _a in range(A):
                one = _support(rng, noise, skewed, low, high)
                entry = [
                    _support(rng, noise, skewed, low, high) if by_successor else one
                    for _ in range(S)
                ]
                if left and needs.silence is not None:
                    entry[S - 1] = ((1.0, needs.silence),)
                rows[-1].append(entry)
        pays.append(rows)
    available = np.ones((S, A), bool)
    if needs.masks and rng.random() < 0.5:
        available = rng.random((S, A)) < 0.6
        available[np.arange(S), rng.integers(0, A, S)] = True
    start = np.zeros(S)
    if decisions == 1 or rng.random() < 0.6:
        start[rng.integers(decisions)] = 1.0
    else:
        start[:decisions] = rng.dirichlet(np.ones(decisions))
    return Model(
        H, segments, p, pays, available, terminal, S - 1 if left else None, start, low, high
    )  # fmt: skip


def _row(rng: Generator, S: int, others: int, left: bool, dense: bool, skewed: bool) -> Floats:
    """(S,) probabilities of the next state; the last may stand for early termination."""
    row = np.zeros(S)
    if dense:
        row[:others] = rng.dirichlet(np.ones(others))
    else:
        few = rng.choice(others, size=min(others, int(rng.integers(1, 3))), replace=False)
        share = float(rng.choice(SKEWED)) if skewed else float(rng.random())
        row[few] = [1.0] if len(few) == 1 else [share, 1 - share]
    if left:
        gone = float(rng.choice([0.0, 0.1, 0.3]))
        row *= 1 - gone
        row[-1] = gone
    return row


def _support(rng: Generator, noise: str, skewed: bool, low: float, high: float) -> Support:
    """A distribution of rewards in [low, high]; "points": up to three, perhaps in one half."""
    mean = float(rng.choice(SKEWED)) if skewed else float(rng.choice([0, 0.25, 0.5, 0.75, 1]))
    if noise == "none":
        return ((1.0, low + mean * (high - low)),)
    if noise == "bernoulli":
        return ((mean, high), (1 - mean, low))
    ends = ((0.0, 1.0), (0.0, 0.5), (0.5, 1.0))[rng.integers(3)]
    least, most = (low + x * (high - low) for x in ends)
    if rng.random() < 0.5:
        return ((mean, most), (1 - mean, least))
    middle = least + (most - least) * float(rng.random())
    return ((mean / 2, most), (mean / 2, middle), (1 - mean, least))


class Behavior:
    """Chooses actions of episodes: a stochastic policy that may change with the past.

    Kinds: "uniform"; "fixed" (a random stochastic policy); "greedy" (epsilon-greedy on past
    rewards); "burned" (avoids actions after a bad outcome). The policy is fixed within a block of
    episodes, so that its value is exact.
    """

    KINDS = ("uniform", "fixed", "greedy", "burned")

    def __init__(self, model: Model, rng: Generator, kind: str) -> None:
        self.model, self.rng, self.kind = model, rng, kind
        self.sums = np.zeros((model.states, model.actions))
        self.counts = np.zeros((model.states, model.actions))
        self.last = np.full((model.states, model.actions), np.inf)
        self.weights = self._weights()
        self.worth = self._worth()
        self.expected: list[float] = []
        self.next_change = 1

    def _weights(self) -> Floats:
        """(H, S, A)."""
        m = self.model
        base = np.where(m.available, 1.0, 0.0)
        if self.kind == "fixed":
            w = np.where(m.available, self.rng.gamma(0.5, size=(m.horizon, *base.shape)), 0.0)
            w += 1e-3 * base
        else:
            w = np.repeat(base[None], m.horizon, axis=0)
        if self.kind in ("greedy", "burned") and self.counts.any():
            score = self.sums / np.maximum(self.counts, 1)
            score = np.where(self.counts > 0, score, m.high)
            if self.kind == "burned":
                score = np.where(np.isfinite(self.last), self.last, m.high)
            score = np.where(m.available, score, -np.inf)
            w[:, np.arange(m.states), score.argmax(axis=1)] += 9.0
        out: Floats = w / w.sum(axis=2, keepdims=True)
        return out

    def _worth(self) -> float:
        return self.model.at_start(self.model.values_of_mixture(self.weights))

    def begin(self) -> None:
        """Note the value of the episode that begins; change the policy if a block is over."""
        if self.kind in ("greedy", "burned") and len(self.expected) >= self.next_change:
            self.next_change = 2 * len(self.expected)
            self.weights = self._weights()
            self.worth = self._worth()
        self.expected.append(self.worth)

    def act(self, t: int, s: int) -> int:
        """An action."""
        w, u = self.weights[t, s], self.rng.random()
        total = 0.0
        for a in range(len(w)):
            total += w[a]
            if u < total and w[a] > 0:
                return a
        return int(np.flatnonzero(w)[-1])

    def learn(self, s: int, a: int, reward: float) -> None:
        """Take an outcome into account from the next block on."""
        self.sums[s, a] += reward
        self.counts[s, a] += 1
        self.last[s, a] = reward
