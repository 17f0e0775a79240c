"""Planning again after one row changed, against planning afresh: the same to the bit."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from support.settings import many
from ucfh import UCFH, simulate
from ucfh.mdp import MDP
from ucfh.planning import PhasePlanner, extended_value_iteration
from ucfh.problems import make
from ucfh.transitions import Rewards, Table

Floats = NDArray[np.float64]


def problem(rng: np.random.Generator, kind: int) -> MDP:
    """Small problems in which changes reach few states, all, or stop at an absorbing one."""
    S, A, H = int(rng.integers(1, 40)), int(rng.integers(1, 4)), int(rng.integers(1, 12))
    near = np.abs(np.subtract.outer(np.arange(S), np.arange(S))) <= 1 + kind % 2
    p = rng.random((H, S, A, S) if kind % 3 == 0 else (S, A, S)) * near[:, None, :]
    if kind % 4 == 1:
        p = rng.random((S, A, S))
    p[..., rng.integers(S), :, :] = np.eye(S)[0]
    p /= p.sum(-1, keepdims=True)
    shapes = [(S, A), (H, S, A), (S, 1), (1, S, A, S), (H, S, A, S)]
    r = rng.random(shapes[kind % 5])
    if kind % 2:
        r = np.round(r)
    return MDP(p, r, H, initial=rng.dirichlet(np.ones(S)))


def change_row(
    rng: np.random.Generator, table: Table, row: int, p: Floats, lo: Floats, hi: Floats
) -> None:
    """New bounds around p (entries,) for one row, into lo and hi (entries,)."""
    at = table.entries_of(row)
    width = rng.choice([0.0, 1e-14, 1e-6, 0.3, 1.0]) * rng.random(at.stop - at.start)
    lo[at], hi[at] = np.maximum(0, p[at] - width), np.minimum(1, p[at] + width)


@pytest.mark.slow
@given(st.integers(0, 10**6), st.integers(0, 59), st.booleans())
@settings(max_examples=many(100, 250), deadline=None, derandomize=True)
def test_one_row_after_another(seed: int, kind: int, optimistic: bool) -> None:
    rng = np.random.default_rng(seed)
    mdp = problem(rng, kind)
    table, rewards = mdp.table, mdp.rewards
    lo, hi = np.zeros(table.entries), np.ones(table.entries)
    planner = PhasePlanner(table, mdp.horizon, optimistic)
    planner.plan(lo, hi, rewards)
    for _ in range(12):
        row = int(rng.integers(table.rows))
        change_row(rng, table, row, mdp.p, lo, hi)
        if row < table.start and rng.random() < 0.3:
            # an unknown reward may be bounded anew, at the row's own time step if it has one
            line = min(row // table.pairs, len(rewards.pair) - 1)
            pair = rewards.pair.copy()
            if table.segments == 1 or len(pair) == table.segments:
                pair[line, row % table.pairs] = rng.random()
            rewards = Rewards(pair, rewards.successor)
        planner.plan(lo, hi, rewards, changed=row)
        afresh = extended_value_iteration(table, lo, hi, rewards, mdp.horizon, optimistic)
        np.testing.assert_array_equal(planner.values, afresh.values)
        np.testing.assert_array_equal(planner.policy, afresh.policy)


@pytest.mark.parametrize("name", ["grid:rows=30,cols=30,horizon=80", "random:states=50,horizon=30"])
def test_larger(name: str) -> None:
    """Changes along the policy, so that they reach many states, and then all of them."""
    rng = np.random.default_rng(1)
    mdp = make(name)
    table = mdp.table
    lo, hi = np.maximum(0, mdp.p - 0.05), np.minimum(1, mdp.p + 0.05)
    planner = PhasePlanner(table, mdp.horizon)
    planner.plan(lo, hi, mdp.rewards)
    for _ in range(15):
        t, s = rng.integers(mdp.horizon), rng.integers(mdp.states)
        row = int(table.rows_of(planner.policy, mdp.horizon)[t, s])
        change_row(rng, table, row, mdp.p, lo, hi)
        planner.plan(lo, hi, mdp.rewards, changed=row)
        afresh = extended_value_iteration(table, lo, hi, mdp.rewards, mdp.horizon)
        np.testing.assert_array_equal(planner.values, afresh.values)
        np.testing.assert_array_equal(planner.policy, afresh.policy)


class Forgetful(UCFH):
    """Plans all afresh in every phase."""

    def _plan(self, updated: int | None = None) -> None:  # noqa: ARG002
        super()._plan()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "unknown"),
    [
        ("chain:n=6", []),
        ("hard:n=4,actions=3,horizon=5,gap=0.25", ["rewards", "initial"]),
        ("grid:rows=4,cols=4", ["rewards"]),
        ("random:states=12,actions=2,successors=4,horizon=6", ["initial"]),
    ],
)
def test_a_lifetime(name: str, unknown: list[Any]) -> None:
    """The agent that plans again what changed has the life of one that plans all afresh."""
    mdp = make(name)
    told = mdp.problem.hiding(*unknown)
    runs = [simulate(mdp, kind(told, 0.5, 0.1, m=1e4), seed=3) for kind in (UCFH, Forgetful)]
    assert runs[0].updates == runs[1].updates > 20
    np.testing.assert_array_equal(runs[0].policy, runs[1].policy)
    for column in runs[0].phases.dtype.names:
        np.testing.assert_array_equal(runs[0].phases[column], runs[1].phases[column])
