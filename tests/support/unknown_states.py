"""Unknown environments, agents whose bounds are compared with the truth, and violation tests.

Violations are judged for all bounds at once, and for each part alone with all of delta.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import ucfh.confidence.unknown_states as open_bounds
from oracles.lost import lossy_entropy
from ucfh import MDP, make
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.envs.simulated import SteppedMDP
from ucfh.sparse_counts import SHIFT

Floats = NDArray[np.float64]
ROUNDING = 1e-9
SURE = 1e-6
"""A share is refuted if what was seen is less likely than this under it."""


class Jittered(SteppedMDP):
    """Rewards that are uniform around their mean, as far as [0, 1] allows."""

    def pay(self, mean: Floats) -> Floats:
        """(n,) rewards with these means (n,)."""
        width = np.minimum(mean, 1 - mean)
        return np.asarray(mean + width * self.rng.uniform(-1, 1, len(mean)), float)


@dataclass(frozen=True)
class OpenCase:
    """A world, and what the agent is told of it."""

    mdp: MDP
    epsilon: float
    segments: Sequence[int] = ()
    max_return: float | None = None
    world: Callable[[MDP, int], SteppedMDP] = SteppedMDP


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


def segmented(seed: int = 5) -> MDP:
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
    "exam at the end": OpenCase(exam(), 0.3, segments=(3,), max_return=1.0),
    "FrozenLake": OpenCase(make("gym:FrozenLake-v1,horizon=8"), 0.3, max_return=1.0),
    "Bernoulli rewards": OpenCase(dense(1, "bernoulli"), 0.8),
    "continuous rewards": OpenCase(dense(2), 0.8, world=Jittered),
    "unknown start": OpenCase(dense(3, initial=[0.2, 0.3, 0.5]), 0.8),
    "time-dependent": OpenCase(segmented(), 0.8, segments=(1, 2)),
    "different actions": OpenCase(fewer(), 0.7),
    "one state": OpenCase(MDP([[[1.0], [1.0]]], [[0.3, 0.6]], 1, noise="bernoulli"), 0.1),
}


class Witness:
    """Comparison of every bound of an agent with the truth.

    Attributes:
        broken: the claims that did not hold at some look.
        returned: how much worse than the best the policy is that was certified first, None if none.

    """

    def __init__(self, mdp: MDP, agent: UnknownStatesUCFH) -> None:
        self.mdp, self.agent = mdp, agent
        self.V = mdp.optimal().values
        self.optimum = mdp.at_start(self.V)
        self.broken: set[str] = set()
        self.returned: float | None = None

    def _claim(self, name: str, margin: Any) -> None:
        if np.size(margin) and np.min(margin) < -ROUNDING:
            self.broken.add(name)

    def earned(self, rows: Any, found: list[int]) -> Any:
        """(H+1, S) what the policy that takes the agent's rows earns; else the first action.

        found: the states of the MDP by the agent's numbers, without the end.
        """
        table, actions = self.mdp.table, self.agent.best.actions_of(rows)
        policy = np.tile(table.action[table.first[:-1]], (self.mdp.horizon, 1))
        goes_on = np.isin(found, self.mdp.problem.terminal, invert=True)
        policy[:, np.array(found)[goes_on]] = actions[:, 1:][:, goes_on]
        return self.mdp.values(policy)

    def look(self, found: list[int]) -> None:
        """Hold all that the agent claims by now against the truth."""
        agent, beliefs, best = self.agent, self.agent.exploration, self.agent.best
        b, reached = beliefs.bounds, agent.experience.reached[1:].T
        V = self.V[:-1, found][reached]

        def of(bound: Any) -> Any:
            return bound[:-1, 1:][reached]

        V_pi = self.earned(b.greedy, found)[:-1, found][reached]
        self._claim("above", of(b.U) - V)
        self._claim("below", V - of(b.L))
        self._claim("W", V_pi - of(b.W))
        self._claim("D", of(b.D) - (V - V_pi))
        certified = self.mdp.at_start(self.earned(beliefs.certified, found))
        self._claim("upper", beliefs.upper - self.optimum)
        self._claim("lower", certified - beliefs.lower)
        self._claim("gap", beliefs.gap - (self.optimum - certified))
        if beliefs.frozen is not None:
            worth = self.mdp.at_start(self.earned(beliefs.frozen, found))
            self._claim("scores", worth - best.score_bound(beliefs.scores, beliefs.number))
        self._look_at_rows(found)
        if beliefs.contradiction is not None:
            self.broken.add("crossing")
        elif self.returned is None and agent.done:
            self.returned = self.optimum - certified

    def _look_at_rows(self, found: list[int]) -> None:
        """Check missing mass and ball of each state-action pair, where these are the same at all t.

        All that end an episode are one, but for those that have a number.
        """
        data, table = self.agent.experience, self.mdp.table
        evidence, rows, pairs = self.agent.best.evidence, self.agent.best.rows, data.pairs
        if table.segments > 1:
            return
        number = np.zeros(self.mdp.states, np.int64)
        number[found] = 1 + np.arange(len(found))
        met = np.isin(np.arange(self.mdp.states), [*found, *self.mdp.problem.terminal])
        row_of, next_of = data.key >> SHIFT, data.key & (2**SHIFT - 1)
        for row in np.flatnonzero(data.visits > 0).tolist():
            k = row // data.P
            s = found[int(np.searchsorted(pairs.first, k, "right")) - 2]
            have = table.action[table.first[s] : table.first[s + 1]].tolist()
            mine = int(table.first[s]) + have.index(int(pairs.action[k]))
            at = table.entries_of(mine)
            to = table.indices[at]
            p = np.bincount(number[to[met[to]]], self.mdp.p[at][met[to]], data.states)
            self._claim(
                "missing", evidence.known["missing"][row] - (1 - p[next_of[row_of == row]].sum())
            )
            known, mine_at = evidence.known[row], slice(rows.indptr[row], rows.indptr[row + 1])
            if known["n_successors"] > 0:
                c = np.bincount(rows.indices[mine_at], evidence.successors[mine_at], data.states)
                entropy = lossy_entropy(c[c > 0].tolist(), known["n_successors"], p[c > 0].tolist())
                self._claim("pattern", known["eta_successors"] - entropy)


class Onlooker(Witness):
    """An agent in a world, every bound of which is held against the truth at every planning."""

    def __init__(self, case: OpenCase, delta: float, seed: int, **options: Any) -> None:
        mdp = case.mdp
        self.world = case.world(mdp, seed)
        agent = UnknownStatesUCFH(
            mdp.horizon,
            mdp.actions,
            case.epsilon,
            delta,
            segments=case.segments,
            max_return=case.max_return,
            **options,
        )
        super().__init__(mdp, agent)

    def run(self, episodes: int) -> Onlooker:
        """Learn, for that many episodes at most, past a certificate too."""
        agent, data = self.agent, self.agent.experience
        while data.episodes < episodes and agent.exploration.contradiction is None:
            ran = self.world.run(data, agent.actions.tolist(), agent.episodes_left)
            if agent.observe(ran.steps):
                self.look([int(str(s)) for s in self.world.labels[1:]])
        return self


# -- how violations are judged ---------------------------------------------------------------------

Run = Callable[[int], Witness]
"""A run, by its seed."""
Break = Callable[[pytest.MonkeyPatch], None]

PARTS: dict[str, tuple[tuple[str, ...], set[str]]] = {
    "above": (("above",), {"above"}),
    "ladder": (("ladder",), {"above"}),
    "below": (("below",), {"below"}),
    "rewards": (("rewards", "all"), {"W"}),
    "all": (("all",), {"pattern", "D"}),
    "outcomes": (("outcomes",), {"W"}),
    "missing": (("missing",), {"missing"}),
    "scores": (("scores",), {"scores"}),
}
"""By part: what shares of delta it needs, and the claims that rest on it."""


def refuted(broken: int, runs: int, share: float) -> bool:
    """Return whether a failure probability of share is refuted by this many broken runs."""
    return bool(stats.binom.sf(broken - 1, runs, share) < SURE)


def alone(monkeypatch: pytest.MonkeyPatch, *parts: str) -> None:
    """Give (nearly) all of delta to some parts."""
    shares = {part: 1.0 if part in parts else 1e-9 for part in open_bounds.SHARES}
    monkeypatch.setattr(open_bounds, "SHARES", shares)


def count_broken(run: Run, claims: set[str], runs: int) -> int:
    """In how many runs, by their seeds, one of the claims was broken."""
    return sum(bool(run(seed).broken & claims) for seed in range(runs))


def check_certificates(name: str, delta: float, epsilon: float, seen: Iterable[Witness]) -> None:
    """Assert that at most a share delta of the runs broke a claim, or returned a bad policy."""
    broken: Counter[str] = Counter()
    runs = failed = bad = 0
    for x in seen:
        runs += 1
        broken.update(x.broken)
        failed += bool(x.broken)
        bad += x.returned is not None and x.returned > epsilon + ROUNDING
    most = float(stats.beta.ppf(0.999, failed + 1, runs - failed))
    print(
        f"{name}, delta {delta}, {runs} runs: {failed} broken, by claim {dict(broken)} (at most "
        f"{most:.3f} with confidence 0.999), worse than epsilon {bad}"
    )
    assert most <= delta, (name, delta, broken)
    assert bad <= stats.binom.ppf(0.999, runs, delta), (name, delta, bad)


def check_part(patch: pytest.MonkeyPatch, part: str, run: Run, runs: int) -> None:
    """Assert that a part that has all of delta = 1/2 keeps to it."""
    shares, claims = PARTS[part]
    alone(patch, *shares)
    broken = count_broken(run, claims, runs)
    print(f"{part} alone: {broken} of {runs} broken at delta 0.5")
    assert not refuted(broken, runs, 0.5)


def check_power(
    patch: pytest.MonkeyPatch, break_it: Break, run: Run, claims: set[str], runs: int, delta: float
) -> None:
    """Assert that the right bounds keep to delta, and that broken ones are found out."""
    right = count_broken(run, claims, runs)
    break_it(patch)
    wrong = count_broken(run, claims, runs)
    print(f"{wrong} of {runs} broken at delta {delta}, {right} with the right bounds")
    assert not refuted(right, runs, delta)
    assert refuted(wrong, runs, delta)


def watched(case: OpenCase, delta: float, episodes: int) -> Run:
    """Runs of a case, by their seeds."""
    return lambda seed: Onlooker(case, delta, seed).run(episodes)


def no_price(patch: pytest.MonkeyPatch) -> None:
    """States are found for nothing, and so are actions and steps: right for a single event."""
    right = UnknownStateBounds._log_events

    def prices(self: UnknownStateBounds, data: Any) -> Any:
        return tuple(0.0 * x for x in right(self, data))

    patch.setattr(UnknownStateBounds, "_log_events", prices)
