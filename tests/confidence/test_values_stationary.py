"""The best policy that does not look at t, against trying all of them one at a time."""

from __future__ import annotations

from itertools import product
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ucfh import MDP, InputError, make
from ucfh.theory import quantities
from ucfh.theory.quantities import best_stationary


def by_enumeration(mdp: MDP) -> tuple[float, int]:
    """Every policy (S,), with the exact value of each."""
    actions = [np.flatnonzero(row) for row in mdp.table.available]
    values = [mdp.value(np.array(policy)) for policy in product(*actions)]
    return max(values), len(values)


@st.composite
def worlds(draw: st.DrawFn) -> MDP:
    """MDPs of odd shapes: missing actions, certain rows, terminal states, rewards by t and s'."""
    S, A, H = (draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 4)))
    rng = np.random.default_rng(draw(st.integers(0, 9999)))
    p = rng.dirichlet(np.full(S, 0.5), (S, A))
    p[rng.random((S, A)) < 0.3] = np.eye(S)[rng.integers(S)]
    shapes: list[tuple[int, ...]] = [(S, 1), (S, A), (H, S, A), (1, S, A, S), (H, S, A, S)]
    available = rng.random((S, A)) < 0.7
    available[np.arange(S), rng.integers(A, size=S)] = True
    return MDP(
        p,
        rng.random(draw(st.sampled_from(shapes))),
        H,
        draw(st.sampled_from([0, S - 1, rng.dirichlet(np.ones(S))])),
        available=draw(st.sampled_from([None, available])),
        terminal=[s for s in range(S) if draw(st.booleans())] if draw(st.booleans()) else (),
    )


@settings(max_examples=150)
@given(worlds())
def test_against_enumeration(mdp: MDP) -> None:
    value, policies = best_stationary(mdp)
    slow, tried = by_enumeration(mdp)
    # at most 4 steps of sums over at most 4 states, all of numbers in [0, 4]
    assert value == pytest.approx(slow, abs=1e-13)
    assert policies == tried
    assert value <= mdp.at_start(mdp.optimal().values) + 1e-13


@settings(max_examples=40)
@given(worlds(), st.integers(1, 7))
def test_batches_do_not_matter(mdp: MDP, batch: int) -> None:
    """The best is found in whichever batch it is, the short last one included."""
    whole = best_stationary(mdp)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(quantities, "BATCH", batch)
        value, policies = best_stationary(mdp)
    assert policies == whole[1]
    assert value == pytest.approx(whole[0], abs=1e-13)


@pytest.mark.parametrize("batch", [1, 2, 3, 5, 8])
def test_the_best_is_found_wherever_it_is(batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each policy in turn is the only one that earns: its rewards say so."""
    monkeypatch.setattr(quantities, "BATCH", batch)
    p = np.roll(np.eye(3), 1, 1)[:, None].repeat(2, 1)  # three states in turn, whatever one does
    for policy in product(range(2), repeat=3):
        rewards = np.zeros((3, 2))
        rewards[np.arange(3), policy] = 1.0
        assert best_stationary(MDP(p, rewards, 3)) == (3.0, 8)


@pytest.mark.parametrize(
    "name",
    ["chain:n=5,horizon=6", "riverswim:n=6,horizon=8", "calls:horizon=4", "hard:n=2"],
)
def test_named_problems(name: str) -> None:
    mdp = make(name)
    value, policies = best_stationary(mdp)
    slow, tried = by_enumeration(mdp)
    assert policies == tried
    assert value == pytest.approx(slow, rel=1e-12)


def test_a_clock_is_worth_something() -> None:
    """Known by hand: 0.6 for staying, or 1 at the end for going, which takes the last step.

    With three steps: stay, stay, go earns 0.6 + 0.6 + 1; a policy without a clock goes at once
    (1) or never (1.8).
    """
    p: Any = [[[1, 0], [0, 1]], [[0, 1], [0, 1]]]
    mdp = MDP(p, [[0.6, 1.0], [0.0, 0.0]], 3)
    assert mdp.at_start(mdp.optimal().values) == pytest.approx(2.2)
    value, policies = best_stationary(mdp)
    assert value == pytest.approx(1.8)
    assert policies == 4


def test_one_step_needs_no_clock() -> None:
    mdp = make("random:states=4,actions=3,successors=2,horizon=1")
    assert best_stationary(mdp)[0] == pytest.approx(mdp.at_start(mdp.optimal().values), abs=1e-14)


def test_terminal_states_have_one_choice() -> None:
    p = np.full((3, 4, 3), 1 / 3)
    mdp = MDP(p, np.ones((3, 4)), 2, terminal=[2])
    value, policies = best_stationary(mdp)
    assert value == pytest.approx(1 + 2 / 3)
    assert policies == 16


def test_as_many_as_are_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = make("chain:n=5,horizon=6")
    wanted = best_stationary(mdp)
    assert wanted[1] == prod([2] * 5)
    monkeypatch.setattr(quantities, "MANY", 32)
    assert best_stationary(mdp) == wanted
    monkeypatch.setattr(quantities, "MANY", 31)
    with pytest.raises(InputError, match="too many to try: pass an MDP with 31 or fewer"):
        best_stationary(mdp)


@pytest.mark.parametrize("n", [30, 1100])
def test_too_many_policies(n: int) -> None:
    """2^1100 is more than any float."""
    with pytest.raises(InputError, match="too many to try: pass an MDP with 2000000 or fewer"):
        best_stationary(make(f"riverswim:n={n},horizon=3"))


def test_transitions_by_segment_are_refused() -> None:
    with pytest.raises(InputError, match="depend on t"):
        best_stationary(make("chain:n=3,horizon=4").by_segment())
