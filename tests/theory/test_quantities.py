"""Quantities of the proof against enumeration of paths and their definitions."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import pairwise, product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh import MDP, InputError, fixed_horizon_evi, make
from ucfh.theory.quantities import (
    category,
    knownness,
    local_variances,
    value_difference,
    weights_by_row,
)


def random_case(
    seed: int, S: int, A: int, H: int, on_next: bool, segments: bool
) -> tuple[MDP, Any]:
    """A random MDP, some of whose rows are certain, and a random policy."""
    rng = np.random.default_rng(seed)
    shape = (H, S, A) if segments else (S, A)
    p = rng.dirichlet(np.full(S, 0.5), shape)
    p[rng.random(shape) < 0.2] = np.eye(S)[0]
    rewards = rng.random((H if segments else 1, S, A, S)) if on_next else rng.random((S, A))
    mdp = MDP(p, rewards, H, rng.dirichlet(np.ones(S)))
    return mdp, rng.integers(0, A, (H, S))


def paths(mdp: MDP, policy: Any) -> Any:
    """Every path: its probability, states, rows and reward; by brute force."""
    table = mdp.table
    p, r = table.dense(mdp.p), mdp.rewards
    for states in product(range(mdp.states), repeat=mdp.horizon + 1):
        chance, total, rows = float(mdp.initial[states[0]]), 0.0, []
        for t, (s, after) in enumerate(pairwise(states)):
            a = int(policy[t, s])
            chance *= float((p[t] if p.ndim == 4 else p)[s, a, after])
            row = t * table.stride + s * mdp.actions + a
            rows.append(row)
            total += float(r.pair[min(t, len(r.pair) - 1), s * mdp.actions + a])
            if r.successor is not None and chance > 0:
                at = table.entries_of(row)
                e = at.start + int(np.flatnonzero(table.indices[at] == after)[0])
                total += float(r.successor[min(t, len(r.successor) - 1), e])
        yield chance, states, rows, total


cases = st.builds(
    random_case, st.integers(0, 999), st.integers(1, 3), st.integers(1, 3), st.integers(1, 3),
    st.booleans(), st.booleans(),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(cases)
def test_weights_and_variances_by_enumeration(case: tuple[MDP, Any]) -> None:
    mdp, policy = case
    visits: Any = Counter()
    first, second = 0.0, 0.0
    for chance, _, rows, total in paths(mdp, policy):
        for row in rows:
            visits[row] += chance
        first += chance * total
        second += chance * total**2
    w = weights_by_row(mdp, policy)
    np.testing.assert_allclose(w, [visits[row] for row in range(len(w))], atol=1e-12)
    assert w.sum() == pytest.approx(mdp.horizon)
    sigma, d = local_variances(mdp, policy)
    V = mdp.values(policy)[0]
    start = mdp.initial @ V**2 - (mdp.initial @ V) ** 2  # the draw of the start varies too
    total = float((d * sigma).sum())
    assert total + start == pytest.approx(second - first**2, abs=1e-10)
    assert total <= mdp.horizon**2


@settings(max_examples=60, deadline=None)
@given(cases, st.integers(0, 99))
def test_value_difference_is_an_identity(case: tuple[MDP, Any], seed: int) -> None:
    mdp, policy = case
    table, rng = mdp.table, np.random.default_rng(seed)
    other = np.zeros((mdp.horizon, table.entries))
    for t, row in np.ndindex(mdp.horizon, table.rows):
        at = table.entries_of(row)
        other[t, at] = rng.dirichlet(np.ones(at.stop - at.start))
    left, right = value_difference(mdp, other, policy)
    assert left == pytest.approx(right, abs=1e-10)


def test_value_difference_of_the_model_of_evi() -> None:
    """p~ of FixedHorizonEVI: the identity gives back its value."""
    mdp = make("random:states=4,actions=2,successors=4,horizon=5")
    p = mdp.table.dense(mdp.p)
    lo, hi = np.maximum(0, p - 0.1), np.minimum(1, p + 0.1)
    r = mdp.rewards.pair.reshape(4, 2)
    plan = fixed_horizon_evi(lo, hi, r, 5, return_model=True)
    assert plan.transitions is not None
    flat = np.zeros((5, mdp.table.entries))
    body = mdp.table.indptr[mdp.table.start]
    flat[:, :body] = plan.transitions.reshape(5, -1)
    left, right = value_difference(mdp, flat, plan.policy)
    assert left == pytest.approx(right, abs=1e-10)
    assert mdp.value(plan.policy) - left == pytest.approx(mdp.at_start(plan.values), abs=1e-10)


@given(st.integers(0, 2**62), st.integers(1, 2**40))
def test_category_by_definition(a: int, b: int) -> None:
    """The largest of 0, 1, 2, 4, ... that is not above, in whole numbers."""
    x = a / b
    z = 0
    while (z or 0.5) * 2 <= Fraction(x):
        z = max(1, 2 * z)
    assert category(x) == z


def test_category_at_its_edges() -> None:
    for k in range(62):
        assert category(2.0**k) == 2**k
        assert category(np.nextafter(2.0**k, 0)) == 2**k // 2
    with pytest.raises(InputError, match="at least 0"):
        category([1.0, np.nan])


@given(st.lists(st.tuples(st.floats(0, 10), st.integers(0, 10**6)), min_size=1, max_size=8))
def test_cells_by_definition(pairs: list[tuple[float, int]]) -> None:
    """X_{kappa, iota}, pair by pair."""
    m, w_min = 37.0, 0.01
    seen = knownness([w for w, _ in pairs], [n for _, n in pairs], m, w_min)
    cells: Counter[tuple[int, int]] = Counter()
    for w, n in pairs:
        if w > 0:
            zs = [0, *(2**k for k in range(63))]
            iota = max(z for z in zs if z <= w / w_min)
            kappa = max(z for z in zs if z <= n / (m * w))
            cells[kappa, iota] += 1
    assert seen.cells == dict(cells)
    assert seen.balanced == all(c <= kappa for (kappa, iota), c in cells.items() if iota > 0)
