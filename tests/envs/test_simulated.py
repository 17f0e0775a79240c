"""Stepped MDPs: every step has positive probability and follows the policy."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from oracles.open_world import Step
from ucfh import MDP
from ucfh.envs.simulated import SteppedMDP
from ucfh.sparse_counts import END, SparseCounts


def random_mdp(rng: np.random.Generator) -> tuple[MDP, Any, Any]:
    """A random MDP with all options, its transitions (H, S, A, S) and rewards (H, S, A, S)."""
    S, A, H = (int(x) for x in rng.integers([2, 1, 1], [5, 4, 5]))
    P = rng.dirichlet(np.full(S, 0.5), size=(H if rng.random() < 0.5 else 1, S, A))
    P[P < 0.05] = 0
    P /= P.sum(-1, keepdims=True)
    R = rng.random((H if rng.random() < 0.5 else 1, S, A, S if rng.random() < 0.5 else 1))
    available = rng.random((S, A)) < 0.7
    available[:, 0] = True
    terminal = [S - 1] if rng.random() < 0.5 else []
    if terminal:
        P[:, -1], R[:, -1], available[-1, 1:] = np.eye(S)[-1], 0.0, False
    rewards = R if R.shape[-1] > 1 else R[..., 0]
    start = rng.dirichlet(np.full(S, 0.5))
    mdp = MDP(P if len(P) > 1 else P[0], rewards, H, start, available=available, terminal=terminal)
    return mdp, np.broadcast_to(P, (H, S, A, S)), np.broadcast_to(R, (H, S, A, S))


@pytest.mark.parametrize("seed", range(40))
def test_steps_are_those_of_the_mdp(seed: int) -> None:
    rng = np.random.default_rng(seed)
    mdp, P, R = random_mdp(rng)
    H, ends = mdp.horizon, list(mdp.problem.terminal)
    world, data = SteppedMDP(mdp, seed), SparseCounts(H, mdp.actions)
    for episodes in (1, 20, 20):
        policy = [
            [
                0,
                *(
                    int(rng.choice(np.flatnonzero(data.available(s))))
                    for s in range(1, data.states)
                ),
            ]
            for _ in range(H)
        ]
        ran = world.run(data, policy, episodes)
        columns = (ran.steps.t, ran.steps.state, ran.steps.action, ran.steps.reward)
        rows: list[Step] = list(
            zip(*(x.tolist() for x in (*columns, ran.steps.following)), strict=True)
        )
        assert (ran.episodes, len(ran.steps.starts), ran.fault) == (episodes, episodes, None)
        before = END
        starts = [s for s in ran.steps.starts.tolist() if s != END]
        for t, number, a, paid, after in rows:
            s = int(str(world.labels[number]))
            assert number == (starts.pop(0) if t == 0 else before)
            have = np.flatnonzero(mdp.table.available[s])
            assert a == (policy[t][number] if number < len(policy[t]) else have[0])
            follows = ends if after == END else [int(str(world.labels[after]))]
            likely = [s1 for s1 in follows if P[t, s, a, s1] > 0]
            assert likely
            assert any(abs(R[t, s, a, s1] - paid) < 1e-12 for s1 in likely)
            assert before != END or t == 0
            before = after
        assert starts == []
        data.add(ran.steps)
    assert data.episodes == 41
    for n in range(1, data.states):
        s = int(str(world.labels[n]))
        assert data.available(n).tolist() == mdp.table.available[s].tolist()
        assert world.number_of(s) == n
        assert world.name_of(n) == str(s)


def test_draws_have_the_probabilities_of_the_mdp() -> None:
    P = np.zeros((3, 1, 3))
    P[0, 0], P[1, 0, 1], P[2, 0, 0] = [0.0, 0.3, 0.7], 1.0, 1.0
    mdp = MDP(P, np.array([[0.0], [1.0], [0.5]]), 2, [0.5, 0.0, 0.5])
    world, data = SteppedMDP(mdp, 0), SparseCounts(2, 1)
    data.add(world.run(data, [[0], [0]], 20_000).steps)
    by_name = {int(str(world.labels[n])): data.started[n] / 20_000 for n in range(1, data.states)}
    assert by_name[0] == pytest.approx(0.5, abs=0.02)
    row = data.rows_of(np.array([0]), np.array([world.number_of(0)]), np.array([0]))[0]
    to_one = data.c[data.key == (int(row) << 32 | world.number_of(1))].sum() / data.visits[row]
    assert to_one == pytest.approx(0.3, abs=0.02)


def test_an_episode_that_begins_at_the_end() -> None:
    mdp = MDP(np.eye(2)[:, None], np.array([[1.0], [0.0]]), 3, [0.5, 0.5], terminal=[1])
    world, data = SteppedMDP(mdp, 0), SparseCounts(3, 1)
    ran = world.run(data, [[0]] * 3, 100)
    assert 30 < (ran.steps.starts == END).sum() < 70
    assert len(ran.steps) == 3 * (ran.steps.starts != END).sum()
    assert world.name_of(END) == "end"
    assert (world.number_of(1), world.number_of(0)) == (END, 1)
