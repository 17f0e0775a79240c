"""The planning kernels against each other, at the sizes of the benchmarks and on awkward rows."""

import subprocess
import sys
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numba import njit
from numpy.typing import NDArray

from oracles.vectorised import instance, learned_instance, sorted_fill
from support.settings import many
from ucfh._kernels import evi
from ucfh._kernels.interval import guess_in_order, guess_in_short, sort_again, weigh
from ucfh._kernels.row_values import Model
from ucfh.mdp import MDP
from ucfh.planning import backward_induction, extended_value_iteration, fixed_horizon_evi
from ucfh.planning.optimistic import run
from ucfh.problems import make

Floats = NDArray[np.float64]

# values are at most H = 100, and sums have at most 1000 terms: 1e-12 of that is 1000 roundings
TIGHT = 1e-12


def rows(lo: Floats, hi: Floats, indices: NDArray[np.int32]) -> dict[str, Any]:
    """As compressed rows."""
    indptr = np.arange(0, lo.size + 1, lo.shape[-1])
    return {
        "lo": lo.ravel(), "hi": hi.ravel(), "indptr": indptr, "indices": indices.ravel(),
    }  # fmt: skip


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("optimistic", [True, False], ids=["optimistic", "robust"])
@pytest.mark.parametrize("make_bounds", [instance, learned_instance])
@pytest.mark.parametrize(
    ("S", "A", "C", "H"),
    [(20, 4, 20, 20), (1000, 4, 10, 100), (100_000, 4, 10, 3), (500, 4, 500, 6), (300, 2, 100, 9)],
)
def test_benchmark_sizes(
    S: int, A: int, C: int, H: int, make_bounds: Any, optimistic: bool
) -> None:
    lo, hi, indices, r = make_bounds(S, A, C)
    policy, V = sorted_fill(lo, hi, indices, r, H, 1.0 if optimistic else -1.0)
    plan = fixed_horizon_evi(rewards=r, horizon=H, optimistic=optimistic, **rows(lo, hi, indices))
    assert np.abs(plan.values - V).max() <= TIGHT * H
    alike = make_bounds is learned_instance  # of actions never tried much, many are worth the same
    assert alike or (plan.policy == policy).all()  # no two actions are within rounding here
    if C == S:
        dense = fixed_horizon_evi(lo, hi, r, H, optimistic)
        assert np.abs(dense.values - V).max() <= TIGHT * H
        np.testing.assert_array_equal(dense.policy, plan.policy)
    if S * A * C < 50_000:
        # rewards on the next state, all equal, are rewards of the pair
        bonus = np.broadcast_to(r[:, :, None], (S, A, S))[None]
        later = fixed_horizon_evi(
            rewards=bonus, horizon=H, optimistic=optimistic, **rows(lo, hi, indices)
        )
        assert np.abs(later.values - V).max() <= TIGHT * H


@pytest.mark.parametrize("seed", range(30))
def test_rows_of_segments_are_rows(seed: int) -> None:
    """The same rows at every segment, given once (actions far behind are passed over) or H times
    (every action is weighed): the same to the bit.
    """
    rng = np.random.default_rng(seed)
    S, A, H = int(rng.integers(1, 30)), int(rng.integers(2, 5)), int(rng.integers(1, 15))
    C = int(rng.integers(1, S + 1))
    lo, hi, indices, r = instance(S, A, C, seed)
    kinds = [rng.random((H, S, A)), r, np.round(2 * r) / 2, np.zeros((S, A)), np.round(r)]
    rewards = kinds[seed % 5]
    if seed % 3 == 0:
        lo, hi = np.zeros_like(lo), np.ones_like(hi)
    optimistic = bool(seed % 2)
    once = rows(lo, hi, indices)
    often = rows(*(np.concatenate([array] * H) for array in (lo, hi, indices)))
    one = fixed_horizon_evi(rewards=rewards, horizon=H, optimistic=optimistic, **once)
    many = fixed_horizon_evi(rewards=rewards, horizon=H, optimistic=optimistic, **often)
    np.testing.assert_array_equal(one.values, many.values)
    np.testing.assert_array_equal(one.policy, many.policy)


EIGHTHS = st.integers(0, 8)


@pytest.mark.slow
@given(
    st.lists(st.tuples(EIGHTHS, EIGHTHS, st.integers(0, 3)), min_size=1, max_size=40),
    st.booleans(),
    st.floats(-1e-15, 1e-15),
)
@settings(max_examples=many(200, 500), deadline=None, derandomize=True)
def test_where_a_search_begins_does_not_matter(
    cells: list[tuple[int, int, int]], dense: bool, off: float
) -> None:
    """Ties, no width, full width, one successor, sums off by rounding: one result to the bit."""
    lo = np.array([min(a, b) for a, b, _ in cells]) / 8
    hi = np.array([max(a, b) for a, b, _ in cells]) / 8
    if not lo.sum() <= 1 <= hi.sum():
        lo, hi = lo / max(1.0, np.ceil(lo.sum())) / 2, np.ones_like(hi)
    lo, hi = np.clip(lo + off * (lo > 0), 0, 1), np.clip(hi + off, lo, 1)
    z = np.array([x for _, _, x in cells]) / 3
    assert len({one_step(lo, hi, z, pivot, dense) for pivot in range(len(cells))}) == 1


def one_step(lo: Floats, hi: Floats, z: Floats, pivot: int, dense: bool) -> float:
    """max p z between lo and hi, all (n,), looking first at one entry: n states have the row."""
    n = len(z)
    V, policy = np.zeros((3, n)), np.zeros((2, n), np.uint8)
    indices = np.zeros(0) if dense else np.tile(np.arange(n), n)
    model = Model(
        first=np.arange(n + 1),
        indptr=np.arange(0, n * n + 1, n),
        action=np.zeros(0, np.int64),
        indices=indices.astype(np.int32),
        stride=0,
        lo=np.tile(lo, n),
        r=np.array([np.zeros(n), z]),  # the last step pays z, and looks at no successor
        bonus=np.zeros((1, 0)),
        sign=1.0,
    )
    run(model, np.tile(hi, n), evi.SweepArrays(V, policy, np.full(n, pivot, np.int32)), actions=1)
    assert (V[1] == z).all()
    assert (V[0] == V[0, 0]).all()
    return float(V[0, 0])


@pytest.mark.parametrize("size", [*range(1, 14), 64, 65])
def test_one_row_is_weighed(size: int) -> None:
    """The sums are those of NumPy, and the same whether values are listed or not."""
    rng = np.random.default_rng(size)
    begin, end = 3, 3 + size
    lo, hi = rng.random(end), 1 + rng.random(end)
    y, indices = rng.integers(0, 3, size) / 2, rng.permutation(end).astype(np.int32)
    z = np.full(end, np.nan)
    z[indices[begin:end]] = y
    for x in (0.0, 0.5, 0.7, 1.0):
        p, q = (np.where(above, hi[begin:], lo[begin:]) for above in (y > x, y >= x))
        found = weigh(lo, hi, begin, end, y, None, x)
        assert found == pytest.approx((p.sum(), q.sum(), (p * (y - x)).sum()), abs=TIGHT)
        assert found == weigh(lo, hi, begin, end, z, indices, x)


def test_exact_planning_is_planning_between_equal_bounds() -> None:
    for name in ("random:states=60,actions=3,successors=7,horizon=20", "grid", "chain:n=9"):
        mdp = make(name)
        exact = backward_induction(mdp.table, mdp.p, mdp.mean_rewards, mdp.horizon)
        box = extended_value_iteration(mdp.table, mdp.p, mdp.p, mdp.rewards, mdp.horizon)
        assert np.abs(exact.values - box.values).max() <= TIGHT * mdp.horizon
        np.testing.assert_array_equal(exact.policy, box.policy)


def test_states_with_fewer_actions() -> None:
    """A policy names actions, not the rows that a state happens to have."""
    p = np.zeros((3, 3, 3))
    p[:, :, 0] = 1
    available = np.array([[False, True, True], [True, False, False], [False, False, True]])
    mdp = MDP(p, np.array([[0, 0.2, 0.5], [0.1, 0, 0], [0, 0, 0.3]]), 2, available=available)
    assert (mdp.optimal().policy == [2, 0, 2]).all()
    plan = extended_value_iteration(mdp.table, mdp.p, mdp.p, mdp.rewards, 2)
    assert (plan.policy == [2, 0, 2]).all()
    assert plan.values[0] == pytest.approx([1.0, 0.6, 0.8], abs=1e-15)


@pytest.mark.slow
def test_a_forked_process_does_not_wait_for_threads_it_does_not_have() -> None:
    """Threads of the planner are kept, and do not survive a fork."""
    code = """
import os, sys
import numpy as np
from ucfh import fixed_horizon_evi
lo, hi = np.zeros((60, 3, 60)), np.ones((60, 3, 60))
def plan():
    return fixed_horizon_evi(lo, hi, np.ones((60, 3)), 300, threads=2).values[0, 0]
plan()
child = os.fork()
if child == 0:
    os._exit(0 if plan() == 300 else 1)
sys.exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5, 7, 8, 13])
def test_the_lowest_value_with_mass_to_spare_is_found(size: int) -> None:
    """Masses are multiples of 1/64, so that no sum of them is rounded."""
    rng = np.random.default_rng(size)
    for _ in range(50):
        begin = int(rng.integers(0, 3))
        lo = rng.integers(0, 128 // size, begin + size) / 64
        hi = lo + rng.integers(0, 32, begin + size) / 64
        y = rng.integers(0, 5, size + 2).astype(float)  # ties, and more values than the row has
        row = list(zip(y[:size], lo[begin:], hi[begin:], strict=True))
        enough = [x for x in y[:size] if sum(b if v > x else a for v, a, b in row) <= 1]
        found = guess_in_short(lo, hi, begin, begin + size, y, -1.0)
        assert found == min(enough, default=-1.0)


@njit
def guess(lo: Floats, hi: Floats, begin: int, order: Any, z: Floats) -> int:
    sort_again(order, z)
    return guess_in_order(lo, hi, begin, order)


@pytest.mark.parametrize("size", [1, 2, 3, 5, 8, 30])
def test_in_the_order_of_values_the_same_one_is_found(size: int) -> None:
    """The order that it begins with does not matter; masses are not rounded here, either."""
    rng = np.random.default_rng(size)
    for _ in range(50):
        begin = int(rng.integers(0, 3))
        lo = rng.integers(0, 64 // size + 1, begin + size) / 64
        hi = lo + rng.integers(0, 32, begin + size) / 64
        z, order = rng.integers(0, 5, size).astype(float), rng.permutation(size)
        found = guess(lo, hi, begin, order, z)
        assert (np.diff(z[order]) <= 0).all()
        assert sorted(order) == list(range(size))
        row = list(zip(z, lo[begin:], hi[begin:], strict=True))
        enough = [x for x in z if sum(b if v > x else a for v, a, b in row) <= 1]
        if sum(lo[begin:]) <= 1:
            assert z[found] == min(enough)
