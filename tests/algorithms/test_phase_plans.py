"""Agents that plan in phases: their plans against slow ones, and when rows are due."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from oracles import slow_attempts as slow
from support.agents import over, random_mdp, small
from ucfh import MDP, simulate
from ucfh.algorithms.delayed_q import DelayedQ
from ucfh.algorithms.mormax import MoRMax
from ucfh.algorithms.mvp import MVP
from ucfh.algorithms.phased import Phased, best_rows, next_doubling
from ucfh.algorithms.rmax import Kakade, RMax
from ucfh.algorithms.ucrl import UCRL2, AuerOrtner, UCRLGamma
from ucfh.counts import Counts

# Planning and counting, slowly.


def plan_slowly(agent: Phased, most: Callable[[int], float], bonus: Any) -> Any:
    """(H+1, S) from the counts n of a stationary agent with all actions in all states."""
    table, H, S = agent.problem.table, agent.H, agent.problem.states
    c = table.dense(agent.n.successors.astype(float))
    n = agent.n.visits[:-1].reshape(S, -1)
    r = agent.rewards.pair.reshape(-1, *n.shape)[0]
    V = np.zeros((H + 1, S))
    for t in reversed(range(H)):
        for s in range(S):
            q = [most(t)] * n.shape[1]
            for a in range(n.shape[1]):
                if n[s, a] > 0:
                    p = c[s, a] / n[s, a]
                    variance = max(0.0, p @ V[t + 1] ** 2 - (p @ V[t + 1]) ** 2)
                    q[a] = min(q[a], r[s, a] + p @ V[t + 1] + bonus(n[s, a], variance))
            V[t, s] = max(q)
    return V


@pytest.mark.parametrize("seed", range(3))
def test_plans(seed: int) -> None:
    mdp = random_mdp(seed)
    L = np.log(200 * 6 * 9 * 3000.0**2 / 0.1)
    of_rmax: Any = (lambda t: 3.0 - t), (lambda *_: 0.0)
    of_mvp: Any = (
        lambda _: 3.0,
        lambda n, x: 0.05 * (460 / 9 * np.sqrt(x * L / n) + 544 / 9 * 3 * L / n),
    )
    for cls in (RMax, Kakade, MVP):
        for episodes in (20, 100, 1000):
            agent = small(cls, mdp)
            simulate(mdp, agent, episodes, seed)
            slowly = plan_slowly(agent, *(of_mvp if cls is MVP else of_rmax))
            assert np.abs(agent.V - slowly).max() <= 1e-9


def test_plans_over_sets() -> None:
    """Rows with two successors: the best of the two ends of an interval."""

    def ball(agent: Any, p: float, n: int) -> tuple[float, float]:
        half = 0.05 * np.sqrt(14 * 3 * np.log(2 * 2 * agent.t / 0.1) / n) / 2
        return max(0.0, p - half), min(1.0, p + half)

    def box(agent: Any, p: float, n: int) -> tuple[float, float]:
        conf = 0.05 * np.sqrt(np.log(4 * agent.t**5 * 9 * 2) / (2 * n))
        return max(0.0, p - conf), min(1.0, p + conf)

    def interval(agent: Any, p: float, n: int) -> tuple[float, float]:
        lo, hi = agent.bounds(np.array([p]), np.array([float(n)]))
        return float(lo[0]), float(hi[0])

    sets: dict[type[Phased], Any] = {UCRL2: ball, AuerOrtner: box, UCRLGamma: interval}
    for cls, of in sets.items():
        mdp = random_mdp(5)
        table = mdp.table
        for episodes in (3, 30, 1000):
            agent = small(cls, mdp)
            simulate(mdp, agent, episodes)
            V = np.zeros((4, 3))
            for t in (2, 1, 0):
                q = np.zeros(6)
                for row in range(6):
                    at, n = table.entries_of(row), int(agent.n.visits[row])
                    one, other = V[t + 1, table.indices[at]]
                    p = agent.n.successors[at][0] / max(1, n)
                    ends = of(agent, p, n) if n else (0.0, 1.0)
                    q[row] = agent.rewards.pair[0, row]
                    q[row] += max(x * one + (1 - x) * other for x in ends)
                V[t] = q.reshape(3, 2).max(1)
            assert np.abs(agent.V - V).max() <= 1e-9
        assert (agent.n.visits[:-1] > 0).any()


def test_balanced_wandering() -> None:
    """Tries in unknown states differ by a factor of two at most; a state is known after A m."""
    mdp = random_mdp(2, A=3)
    known: list[Any] = []

    class Watched(Kakade):
        def observe(self, seen: Counts) -> bool:
            changed = super().observe(seen)
            n, v = (x.visits[:-1].reshape(3, 3) for x in (self.n, self.v))
            assert np.isin(n, [0, self.m]).all()
            assert ((n > 0).all(1) == (n > 0).any(1)).all()
            waiting = v[(n == 0).all(1)]
            assert (waiting.max(1, initial=0) <= 2 * waiting.min(1, initial=99) + 1).all()
            assert (waiting <= self.m).all()
            known.append(int((n > 0).all(1).sum()))
            for s in np.flatnonzero((n == 0).all(1)):
                # the action whose turn it is has no more tries than the next power of two
                turn = int(self.policy[0, s])
                assert (self.policy[:, s] == turn).all()
                assert next_doubling(v[s, turn : turn + 1])[0] == next_doubling(v[s]).min()
            return changed

    agent = Watched(mdp.problem, 1.0, 0.1, 1)
    agent.m = 100
    agent.plan()
    assert simulate(mdp, agent, method="step").final
    assert set(known) >= {0, 1, 2}
    assert len(known) <= 9 * (1 + 7)  # turns: 1, 2, 4, .., 64, 100 tries


@pytest.mark.parametrize("seed", range(20))
def test_kakade_in_deterministic_problems(seed: int) -> None:
    """m = 1: every episode that is not optimal tries a pair for the first time (Theorem 8.3.5)."""
    rng = np.random.default_rng(seed)
    S, A = 5, 3
    mdp = MDP(np.eye(S)[rng.integers(S, size=(S, A))], rng.random((S, A)), 4)
    agent = Kakade(mdp.problem, 1.0, 0.1, 1, scale=1e-6)
    assert agent.m == 1
    run = simulate(mdp, agent)
    assert run.final
    assert run.gap < 1e-12
    assert 1 <= run.mistakes(0.0) <= S * A


@over(RMax, MVP, UCRL2)
def test_when_rows_are_due(cls: type[Phased]) -> None:
    """K1 samples and no more; powers of two; doublings: by the visits at which each one plans."""
    mdp = random_mdp(4, H=2)
    steps: list[tuple[Any, Any]] = []

    class Watched(cls):  # type: ignore[misc, valid-type]
        def learn(self, due: Any) -> None:
            before = self.n.visits.copy()
            super().learn(due)
            steps.extend((before[i], self.n.visits[i]) for i in due)

    run = simulate(mdp, small(cls, mdp, Watched), 3000, method="step")
    assert len(steps) > 5
    assert (run.rows[0].episodes == 1) == (cls is not RMax)  # one visit is enough at first
    for n, after in steps:
        if cls is RMax:
            assert (n, after) == (0, 13)
        elif cls is MVP:  # one more visit may come in the same episode
            power = 1 << int(n).bit_length()
            assert power <= after <= power + 1
        else:
            assert 2 * n <= after <= 2 * n + 1 or (n == 0 and after <= 2)


def test_rounds_of_auer_and_ortner() -> None:
    """A round ends with the first episode after which a width is below half of what it was."""
    mdp = random_mdp(4, H=2)
    rounds: list[int] = []

    class Watched(AuerOrtner):
        def learn(self, due: Any) -> None:
            n = self.n.visits[:-1].copy()
            before = np.where(n > 0, self.width(np.maximum(n, 1.0)), 1.0)
            super().learn(due)
            n = self.n.visits[:-1]
            after, earlier = (self.width(np.maximum(n - x, 0.01)) for x in (0, 2))
            assert np.array_equal(np.flatnonzero(after < before / 2), due)
            # two visits ago at most, when t was smaller by as much
            assert (earlier >= before / 2 * (1 - 1e-3)).all()
            rounds.append(len(due))

    simulate(mdp, Watched(mdp.problem, 1.0, 0.1, 1), 10**7)
    assert len(rounds) > 5


def test_best_rows() -> None:
    mdp = MDP(
        np.full((3, 3, 3), 1 / 3),
        0.5 * np.ones((3, 3)),
        2,
        available=np.array([[1, 1, 0], [0, 1, 0], [1, 1, 1]]) > 0,
    )
    x = np.array([[1, 2, 5, 3, 4, 4], [2, 2, 0, 1, 0, 1]])
    assert best_rows(mdp.table, x).tolist() == [[1, 2, 4], [0, 2, 3]]
    n = np.array([0, 1, 2, 3, 4, 7, 8, 2**40 - 1, 2**40])
    assert next_doubling(n).tolist() == [1, 2, 4, 4, 8, 8, 16, 2**40, 2**41]


# Delayed Q-learning and MoRMax, step by step from the pseudo-code.


def histories(kind: Any, oracle: Any, seed: int, m: int, **printed: bool) -> tuple[Any, Any]:
    """What was learned when, by the package and by the oracle, on the same random numbers."""
    mdp = random_mdp(seed)
    mine: list[tuple[int, Any]] = []
    episodes = 0

    class Watched(kind):  # type: ignore[misc]
        def observe(self, seen: Counts) -> bool:
            nonlocal episodes
            episodes += int(seen.visits[-1])
            changed: bool = super().observe(seen)
            if changed:
                mine.append((episodes, self.Q.reshape(3, 3, 2).copy()))
            return changed

    agent = Watched(mdp.problem, 1.0, 0.1, 1)
    agent.m = m
    simulate(mdp, agent, 1000, seed, "step")
    slack = agent.eps_1 if kind is DelayedQ else 1 / 3
    p, r = mdp.table.dense(mdp.p), mdp.rewards.pair.reshape(3, 2)
    rng = np.random.default_rng(seed)
    theirs = oracle(p, r, mdp.initial, 3, m, slack, 1000, rng, **printed)
    # several rows may change in one episode: compare after its end
    return mine, list(dict(theirs).items())


@pytest.mark.slow
@pytest.mark.parametrize("m", [1, 2, 7, 40])
@pytest.mark.parametrize(("kind", "oracle"), [(DelayedQ, slow.delayed_q), (MoRMax, slow.mormax)])
def test_attempts_against_single_steps(kind: Any, oracle: Any, m: int) -> None:
    for seed in range(4):
        mine, theirs = histories(kind, oracle, seed, m)
        assert len(mine) > 4
        assert [x[0] for x in mine] == [x[0] for x in theirs]
        for (_, one), (_, other) in zip(mine, theirs, strict=True):
            assert one == pytest.approx(other, abs=1e-9)
        for (_, one), (_, other) in pairwise(mine):
            assert (other <= one + 1e-9).all()  # values only fall


def test_what_differs_from_print() -> None:
    """Time in episodes, samples only when they may be used: little, and the same while it is new.

    MoRMax agrees with the printed rule while every attempt is a row's first.
    """
    same = 0
    for seed in range(5):
        mine, theirs = histories(DelayedQ, slow.delayed_q, seed, 40, by_step=True)
        same += [x[0] for x in mine] == [x[0] for x in theirs]
        mine, theirs = histories(MoRMax, slow.mormax, seed, 40, always=True)
        assert [x[0] for x in mine[:4]] == [x[0] for x in theirs[:4]]
    assert same >= 3
