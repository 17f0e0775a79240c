"""Worlds of which a learner is told nothing, and somebody who knows the truth looks on."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from oracles.lost import lossy_entropy
from ucfh import MDP, make
from ucfh.agents.open import OpenUCFH
from ucfh.live.simulated import SimulatedWorld

Floats = NDArray[np.float64]
ROUNDING = 1e-9


class Jittered(SimulatedWorld):
    """Rewards that are uniform around their mean, as far as [0, 1] allows."""

    def pay(self, mean: Floats) -> Floats:
        """(n,) rewards with these means (n,)."""
        width = np.minimum(mean, 1 - mean)
        return np.asarray(mean + width * self.rng.uniform(-1, 1, len(mean)), float)


@dataclass(frozen=True)
class OpenCase:
    """A world, and what the learner is told of it."""

    mdp: MDP
    epsilon: float
    stages: Sequence[int] = ()
    max_return: float | None = None
    world: Callable[[MDP, int], SimulatedWorld] = SimulatedWorld


def jackpot(share: float = 0.05, sure: float = 0.05) -> MDP:
    """One action pays a little for sure, the other leads to a jackpot now and then."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 0] = 1.0
    p[0, 1, [0, 1]] = 1 - share, share
    p[1, :, 1] = p[2, :, 2] = 1.0
    return MDP(p, [[sure, 0.0], [1.0, 1.0], [0.0, 0.0]], 4)


def rare(seed: int = 3) -> MDP:
    """Few likely successors, and one of probability 1e-3 with much reward."""
    rng = np.random.default_rng(seed)
    p = np.zeros((6, 2, 6))
    for s in range(5):
        for a in range(2):
            p[s, a, rng.choice(5, 2, replace=False)] = rng.dirichlet([2, 2]) * 0.999
            p[s, a, 5] = 0.001
    p[5, :, 5] = 1.0
    return MDP(p, np.array([0.1, 0.3, 0.0, 0.5, 0.2, 1.0])[:, None], 4)


def dense(seed: int, noise: Any = None, states: int = 3, **options: Any) -> MDP:
    rng, S = np.random.default_rng(seed), states
    return MDP(rng.dirichlet(np.ones(S), (S, 2)), rng.random((S, 2)), 3, noise=noise, **options)


def staged(seed: int = 5) -> MDP:
    rng = np.random.default_rng(seed)
    return MDP(rng.dirichlet(np.ones(2), (3, 2, 2)), rng.random((3, 2, 2)), 3)


def fewer(seed: int = 6) -> MDP:
    """States with different actions, one of which ends the episode."""
    rng = np.random.default_rng(seed)
    have = np.array([[True, False, True], [True, True, True], [False, True, False], [True] * 3])
    p, r = rng.dirichlet(np.ones(4), (4, 3)), rng.random((1, 4, 3, 4))
    return MDP(p, r, 3, available=have, terminal=[3])


def exam() -> MDP:
    """Two levels of knowledge; only the last step pays."""
    p = np.array([[[0.5, 0.5], [0.9, 0.1]], [[0.4, 0.6], [0.05, 0.95]]])
    r = np.zeros((4, 2, 2))
    r[3, 1] = 0.9
    return MDP(p, r, 4)


CASES: dict[str, OpenCase] = {
    "jackpot": OpenCase(jackpot(), 0.8),
    "chain": OpenCase(make("chain:n=3,horizon=3"), 0.6),
    "riverswim": OpenCase(make("riverswim:n=3,horizon=4"), 0.8),
    "rare successors": OpenCase(rare(), 1.5),
    "exam at the end": OpenCase(exam(), 0.3, stages=(3,), max_return=1.0),
    "FrozenLake": OpenCase(make("gym:FrozenLake-v1,horizon=8"), 0.3, max_return=1.0),
    "Bernoulli rewards": OpenCase(dense(1, "bernoulli"), 0.8),
    "continuous rewards": OpenCase(dense(2), 0.8, world=Jittered),
    "unknown start": OpenCase(dense(3, initial=[0.2, 0.3, 0.5]), 0.8),
    "stage-dependent": OpenCase(staged(), 0.8, stages=(1, 2)),
    "different actions": OpenCase(fewer(), 0.7),
    "one state": OpenCase(MDP([[[1.0], [1.0]]], [[0.3, 0.6]], 1, noise="bernoulli"), 0.1),
}


class Onlooker:
    """A learner in a world, every bound of which is held against the truth at every planning.

    Attributes:
        broken: the claims that did not hold at some planning.
        returned: how much worse than the best the policy is that it returned, None if it did not.

    """

    def __init__(self, case: OpenCase, delta: float, seed: int, **options: Any) -> None:
        mdp = case.mdp
        self.mdp, self.case, self.world = mdp, case, case.world(mdp, seed)
        self.learner = OpenUCFH(
            mdp.horizon,
            mdp.actions,
            case.epsilon,
            delta,
            stages=case.stages,
            max_return=case.max_return,
            **options,
        )
        self.V = mdp.optimal().values
        self.optimum = mdp.at_start(self.V)
        self.broken: set[str] = set()
        self.returned: float | None = None

    def run(self, episodes: int) -> Onlooker:
        """Learn, for that many episodes at most, past a certificate too."""
        learner, data = self.learner, self.learner.experience
        while data.episodes < episodes and learner.beliefs.crossing is None:
            ran = self.world.run(data, learner.actions.tolist(), learner.room)
            if learner.observe(ran.steps):
                self._look()
        if learner.beliefs.crossing is not None:
            self.broken.add("crossing")
        return self

    def _claim(self, name: str, margin: Any) -> None:
        if np.size(margin) and np.min(margin) < -ROUNDING:
            self.broken.add(name)

    def earned(self, rows: Any) -> Any:
        """(H+1, S) by the learner's numbers, what the policy that takes its rows earns."""
        actions = self.learner.best.actions_of(rows)
        policy = self.mdp.table.policy_of(self.world.rows(actions))
        return self.mdp.values(policy)

    def _look(self) -> None:
        learner, beliefs, best = self.learner, self.learner.beliefs, self.learner.best
        b, found = beliefs.bounds, [int(str(s)) for s in self.world.labels[1:]]
        reached = learner.experience.reached[1:].T
        V = self.V[:-1, found][reached]

        def of(bound: Any) -> Any:
            return bound[:-1, 1:][reached]

        earned = self.earned(b.greedy)
        V_pi = earned[:-1, found][reached]
        self._claim("above", of(b.U) - V)
        self._claim("below", V - of(b.L))
        self._claim("W", V_pi - of(b.W))
        self._claim("D", of(b.D) - (V - V_pi))
        certified = self.mdp.at_start(self.earned(beliefs.certified))
        self._claim("upper", beliefs.upper - self.optimum)
        self._claim("lower", certified - beliefs.lower)
        self._claim("gap", beliefs.gap - (self.optimum - certified))
        if beliefs.frozen is not None:
            worth = self.mdp.at_start(self.earned(beliefs.frozen))
            self._claim("scores", worth - best.by_scores(beliefs.scores, beliefs.number))
        self._look_at_rows(found)
        if self.returned is None and learner.done and beliefs.crossing is None:
            self.returned = self.optimum - certified

    def _look_at_rows(self, found: list[int]) -> None:
        """What was never seen of each row, and its ball, where rows are the same at all t.

        States of the world are numbered as its labels are; all that end an episode are one.
        """
        data, evidence, table = self.learner.experience, self.learner.best.evidence, self.mdp.table
        if table.stages > 1:
            return
        number = np.zeros(self.mdp.states, np.int64)
        number[found] = 1 + np.arange(len(found))
        met = np.isin(np.arange(self.mdp.states), [*found, *self.mdp.problem.terminal])
        rows, pairs = self.learner.best.rows, data.pairs
        for row in np.flatnonzero(evidence.n[:-1] > 0).tolist():
            k = row // data.P
            s = found[int(np.searchsorted(pairs.first, k, "right")) - 2]
            have = table.action[table.first[s] : table.first[s + 1]].tolist()
            mine = int(table.first[s]) + have.index(int(pairs.action[k]))
            at = table.entries_of(mine)
            to = table.indices[at]
            p = np.bincount(number[to[met[to]]], self.mdp.p[at][met[to]], data.states)
            mine_at = slice(rows.indptr[row], rows.indptr[row + 1])
            seen = np.bincount(rows.indices[mine_at], evidence.above.c[mine_at], data.states)
            self._claim("missing", evidence.missing[row] - (1 - p[seen > 0].sum()))
            ball = evidence.successors
            if ball.n[row] > 0:
                c = np.bincount(rows.indices[mine_at], ball.c[mine_at], data.states)
                entropy = lossy_entropy(c[c > 0].tolist(), ball.n[row], p[c > 0].tolist())
                self._claim("pattern", ball.eta[row] - entropy)
