"""Sample-complexity lower bounds: alternative models, exact cases, and agents above them."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import slow_floor as slow
from support.settings import many
from ucfh import (
    MDP,
    CertifiedUCFH,
    InputError,
    episode_lower_bound,
    hard_class_lower_bound,
    make,
    simulate,
)
from ucfh.algorithms.eprl import EPRL
from ucfh.mdp import Problem
from ucfh.theory.alternative_models import AlternativeSearch, outcome_distributions
from ucfh.theory.lower_bounds import binary_kl, demand


def coins(*win: float) -> MDP:
    """A choice between coins, of which a head pays 1."""
    A = len(win)
    p = [[[0, x, 1 - x] for x in win], [[0, 1, 0]] * A, [[0, 0, 1]] * A]
    return MDP(p, [[0], [1], [0]], 2)


@pytest.mark.parametrize(
    ("better", "worse", "epsilon", "delta"),
    [(0.5, 0.4, 0.05, 0.05), (0.7, 0.4, 0.1, 0.1), (0.3, 0.2, 0.02, 0.05)],
)
@pytest.mark.parametrize("factor", [1.0, 0.9, 1.1])
def test_two_coins(
    better: float, worse: float, epsilon: float, delta: float, factor: float
) -> None:
    """Below what is needed, by 6% at most; and not if it is off by a tenth.

    Changes of one coin alone give the bound of Kaufmann, Cappe and Garivier (2016, Theorem 4):
    less.
    """
    bound = episode_lower_bound(coins(better, worse), epsilon, delta).episodes * factor
    needed = demand(delta) * slow.two_coins(better, worse, epsilon)
    assert (0.94 * needed <= bound <= needed) == (factor == 1)
    alone = 1 / binary_kl(better, worse - epsilon) + 1 / binary_kl(worse, better + epsilon)
    assert bound > demand(delta) * alone


@pytest.mark.parametrize(
    ("delta", "known"), [(0.1, 1.757780), (0.05, 2.649995), (0.01, 4.503218), (0.5, 0), (0.9, 0)]
)
def test_demand(delta: float, known: float) -> None:
    """(1 - 2 delta) ln((1 - delta)/delta): 0.8 ln 9, 0.9 ln 19, 0.98 ln 99."""
    assert demand(delta) == pytest.approx(known, abs=1e-6)


@st.composite
def tiny(draw: st.DrawFn) -> tuple[MDP, Problem]:
    """Few policies; transitions or rewards by step or not, and rewards known or 0 and 1."""
    H, S, A = draw(st.sampled_from([(2, 2, 2), (3, 2, 2), (1, 2, 3), (2, 2, 3)]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    p = rng.dirichlet([0.7] * S, size=(H, S, A) if draw(st.booleans()) else (S, A))
    mdp = MDP(p, rng.random((S, A)), H, rng.dirichlet([1] * S), noise="bernoulli")
    return mdp, mdp.problem.hiding("rewards") if draw(st.booleans()) else mdp.problem


@settings(max_examples=many(5, 40), deadline=None)
@given(given_=tiny(), epsilon=st.sampled_from([0.03, 0.1, 0.3]))
def test_alternatives(given_: tuple[MDP, Problem], epsilon: float) -> None:
    """All policies listed: none is eps-optimal in both models; and the best weights are found."""
    mdp, known = given_
    model = outcome_distributions(mdp, known)
    found = list(AlternativeSearch(model, epsilon).alternatives())
    for x in found[:4]:
        assert slow.good_in_both(model, x.q, epsilon) == 0
        for row, (a, b) in enumerate(zip(model.begin, model.begin[1:], strict=False)):
            p, q = model.p[a:b], x.q[a:b]
            assert q.sum() == pytest.approx(1, abs=1e-12)
            kl = sum(y * np.log(y / z) for y, z in zip(p, q, strict=True) if y > 0)
            assert x.information[row] == pytest.approx(kl, abs=1e-12)
    bound = episode_lower_bound(mdp, epsilon, 0.1, known).episodes
    if not found:
        assert bound == 0
        return
    exact = demand(0.1) * slow.fewest(model, np.array([x.information for x in found]))
    assert exact * (1 - 2e-3) <= bound <= exact * (1 + 1e-7)


def test_values_of_a_model() -> None:
    """Equal to those of planning, for any prior knowledge."""
    mdp = make("riverswim:n=3,horizon=4").noisy()
    for known in (mdp.problem, mdp.problem.hiding("rewards", "successors")):
        model = outcome_distributions(mdp, known)
        Q = model.plan(model.p)
        best = mdp.at_start(mdp.optimal().values)
        assert model.optimum(Q) == pytest.approx(best, abs=1e-12)
        assert model.value(model.p, Q) == pytest.approx(best, abs=1e-12)


@pytest.mark.parametrize(
    ("mdp", "epsilon"),
    [
        (coins(0.5, 0.4), 0.05),
        (make("hard:n=2,actions=2,horizon=4"), 0.2),
        (make("chain:n=3,horizon=3"), 0.1),
    ],
)
def test_an_agent_needs_more(mdp: MDP, epsilon: float) -> None:
    """In every run, and so in expectation."""
    bound = episode_lower_bound(mdp, epsilon, 0.1).episodes
    assert bound > 1
    for seed in range(2):
        run = simulate(mdp, CertifiedUCFH(mdp.problem, epsilon, 0.1), seed=seed)
        assert run.final
        assert run.episodes > 2 * bound


def test_unknown_rewards() -> None:
    """Deterministic transitions and known rewards need no data; unknown rewards do."""
    mdp = make("chain:n=3,horizon=3,slip=0").noisy()
    assert episode_lower_bound(mdp, 0.1, 0.1).episodes == 0
    known = mdp.by_segment().problem.hiding("rewards")
    bound = episode_lower_bound(mdp, 0.1, 0.1, known).episodes
    run = simulate(mdp, EPRL(mdp.problem, 0.1, 0.1), seed=1)
    assert 1 < bound < run.episodes


def test_terminal_states_have_no_reward() -> None:
    """A state that ends an episode pays nothing in any alternative."""
    p = [[[0.5, 0.3, 0.2], [0.2, 0.3, 0.5]], [[0.6, 0.2, 0.2], [0.3, 0.3, 0.4]], [[0, 0, 1]] * 2]
    r = [[0.3, 0.6], [0.8, 0.1], [0, 0]]
    mdp = MDP(p, r, 3, terminal=[2], noise="bernoulli")
    bound = episode_lower_bound(mdp, 0.1, 0.1, mdp.problem.hiding("rewards"))
    assert bound.alternatives
    for x in bound.alternatives:
        assert x.information[:4].sum() > 0
        assert x.information[4] == 0


def test_nothing_to_learn() -> None:
    """On riverswim, to swim is within 0.1 of optimal whatever the current is."""
    assert episode_lower_bound(make("riverswim:n=4,horizon=8"), 0.1, 0.1).episodes == 0


# n, A, H, eps, delta: k = bound(n eps/l), rho, and the minimum over a, found by trying all
HARD = [
    ((10, 4, 10, 0.1, 0.1), 1.0, 0.19),
    ((10, 4, 10, 0.05, 0.01), 1.0, 0.01),
    ((3, 3, 5, 0.3, 0.1), 0.375, 0.7),
    ((8, 2, 6, 0.25, 0.05), 0.5, 0.525),
]


@pytest.mark.parametrize(("point", "loss", "rho"), HARD)
def test_hard_class(point: tuple[int, int, int, float, float], loss: float, rho: float) -> None:
    n, A, H, epsilon, delta = point
    assert loss == (H - 2) * 0.125
    assert rho == pytest.approx((1 - delta) * (n * epsilon // loss) / n + delta)
    D = binary_kl(0.5, 0.75)
    least = 0.0
    if rho < 0.5:
        least = min(binary_kl(1 - a, 2 * rho - a) for a in np.linspace(0, 2 * rho * 0.9999, 4001))
    bound = hard_class_lower_bound(*point)
    assert bound == pytest.approx(n * (A - 1) * least / D, rel=1e-4)
    assert bound <= n * (A - 1) * least / D


def test_hard_class_at_the_border() -> None:
    """9 eps/l = 3 bandits may be wrong, though 9*0.05/(3*0.05) is 2.9999999999999996."""
    exact = hard_class_lower_bound(9, 4, 5, 0.05, 0.05, gap=0.1)
    assert exact == pytest.approx(hard_class_lower_bound(9, 4, 5, 0.0500001, 0.05, gap=0.1))


def test_known_rewards_of_impossible_successors() -> None:
    """All alternatives have them: here the second action is always best."""
    p, r = np.zeros((3, 2, 3)), np.zeros((1, 3, 2, 3))
    p[0, :, 1] = p[1, :, 1] = p[2, :, 2] = 1
    r[0, 0] = [[0.4] * 3, [0.5] * 3]
    known = Problem(3, 2, 1, rewards=r, initial=0)
    assert episode_lower_bound(MDP(p, r, 1), 0.05, 0.05, known).episodes == 0


@pytest.mark.parametrize("epsilon", [1e-3, 1e-5, 1e-6, 1e-7])
def test_small_differences(epsilon: float) -> None:
    """Close models need many episodes, but no more than all alternatives together ask for."""
    found = episode_lower_bound(coins(0.5, 0.5 - 2 * epsilon), epsilon, 0.05).episodes
    needed = demand(0.05) * 2 / (3 * epsilon) ** 2
    assert 0 < found <= needed * (1 + 10 * epsilon)


def test_prior_knowledge_must_be_true() -> None:
    mdp = coins(0.5, 0.4)
    for rewards, horizon in (([[0], [0.01], [0]], 2), ([[0], [1], [0]], 5)):
        with pytest.raises(InputError):
            episode_lower_bound(mdp, 0.05, 0.05, Problem(3, 2, horizon, rewards, initial=0))
    by_step = MDP(np.ones((1, 2, 1)), [[[0.5, 0.4]], [[0.4, 0.5]]], 2, noise="bernoulli")
    with pytest.raises(InputError, match="depend on t"):
        episode_lower_bound(by_step, 0.05, 0.05, Problem(1, 2, 2, initial=0))


def test_refusals() -> None:
    mdp = make("chain:n=3,horizon=3")
    with pytest.raises(InputError, match="epsilon"):
        episode_lower_bound(mdp, 0, 0.1)
    with pytest.raises(InputError, match="an MDP"):
        episode_lower_bound(mdp.problem, 0.1, 0.1)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="bias"):
        hard_class_lower_bound(3, 3, 5, 0.1, 0.1, gap=0.2, bias=0.3)


def test_progress_rises_to_at_most_all() -> None:
    shares: list[float] = []
    episode_lower_bound(coins(0.5, 0.4), 0.05, 0.05, progress=shares.append)
    assert shares[0] == 0
    assert len(shares) > 10
    assert shares == sorted(shares)
    assert 0.5 < shares[-1] < 1
