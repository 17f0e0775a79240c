"""Agents that stop: BPI-UCRL, RF-UCRL and RF-Express by the numbers, and all of them in bulk."""

from __future__ import annotations

from itertools import pairwise
from math import lgamma, log
from typing import Any

import numpy as np
import pytest

from ucfh import InputError, Problem, make, make_agent, simulate
from ucfh.algorithms.bonus import BonusAgent
from ucfh.algorithms.bpi_ucbvi import BPIUCBVI
from ucfh.algorithms.bpi_ucrl import BPIUCRL
from ucfh.algorithms.reward_free import RFUCRL, RewardFree, RFExpress
from ucfh.algorithms.stopping import Stopping, mixture_rate
from ucfh.counts import NEVER
from ucfh.mdp import MDP

A, B, C = (5, 2, 5, 0.5, 0.1), (20, 3, 5, 0.25, 0.05), (6, 2, 12, 0.5, 0.1)
STOPPING = {"fiechter": 1.0, "bpi-ucrl": 1.0, "bpi-ucbvi": 0.02, "rf-ucrl": 1.0, "rf-express": 3e-4}
"""Each with a scale at which it stops soon."""

CHAIN = MDP([[[0.9, 0.1], [0.1, 0.9]], [[0.5, 0.5], [0.1, 0.9]]], [[0.05, 0.0], [1, 1]], 3)

# -- numbers, computed by hand from the formulas as quoted -----------------------------------------

GOLDEN: list[tuple[type[BonusAgent], Any, float, str, float]] = [
    (RFUCRL, A, 1, "flat", 4.85805094338),
    (RFUCRL, A, 100, "flat", 0.691955799615),
    (RFUCRL, B, 1e4, "flat", 0.171744492861),
    (RFUCRL, C, 1e6, "flat", 0.0121651908165),
    (RFExpress, A, 100, "flat", 171.697615049),
    (RFExpress, B, 1e4, "flat", 9.58484119538),
    (RFExpress, C, 1e8, "flat", 0.00296722968023),
    (BPIUCRL, A, 1, "budget", 11.8003294842),
    (BPIUCRL, A, 100, "budget", 0.239401414311),
    (BPIUCRL, B, 1e4, "budget", 0.0147480854141),
    (BPIUCRL, C, 1e6, "budget", 0.0000739959338007),
]


def term(cls: Any, point: Any, n: float, name: str, scale: float = 1.0) -> float:
    """A coefficient after n visits, of an agent that is told nothing but sizes and rewards."""
    S, actions, H, epsilon, delta = point
    problem = Problem(S, actions, H, np.zeros((S, actions)), initial=0)
    agent: BonusAgent = cls(problem, epsilon, delta, 1000, scale)
    return float(agent.coefficients(np.array([float(n)]))[name][0])


@pytest.mark.parametrize(("cls", "point", "n", "name", "expected"), GOLDEN)
def test_golden(cls: Any, point: Any, n: float, name: str, expected: float) -> None:
    """Widths grow with the scale; those of a KL ball are roots of its budget."""
    assert term(cls, point, n, name) == pytest.approx(expected, rel=1e-10)
    larger = 1.1**2 if cls is BPIUCRL else 1.1
    assert term(cls, point, n, name, 1.1) == pytest.approx(larger * expected, rel=1e-9)


def test_golden_spread_and_stop() -> None:
    for point, H in ((A, 5), (B, 5), (C, 12)):
        for scale in (0.1, 1.0):  # which leaves 1 + 1/H as it is
            assert term(RFExpress, point, 10, "spread", scale) == pytest.approx(1 / H, rel=1e-12)
    agent = RFExpress(make("chain:n=3").problem, 0.5, 0.1, 10)
    for W, bound in ((0.0001, 0.163296909708), (0.01, 1.65096909708), (1.0, 18.3096909708)):
        agent.optimistic = W
        assert agent.gap_bound_now() == pytest.approx(bound, rel=1e-10)
    other = RFUCRL(make("chain:n=3").problem, 0.5, 0.1, 10)
    other.optimistic = 0.3
    assert other.gap_bound_now() == 0.6


# -- what is proved of the rates -------------------------------------------------------------------


def mixture(counts: Any, p: Any) -> float:
    """ln of the mean likelihood ratio under a uniform law, by the Dirichlet integral."""
    k, n = len(counts), sum(counts)
    mean = lgamma(k) + sum(lgamma(c + 1) for c in counts) - lgamma(n + k)
    return float(mean - sum(c * log(q) for c, q in zip(counts, p, strict=True)))


def test_what_the_rate_is_made_of() -> None:
    """A martingale, which is at least exp(n KL) less what the rate allows for."""
    rng = np.random.default_rng(0)
    tightest = np.inf
    for _ in range(500):
        k = int(rng.integers(2, 7))
        p = rng.dirichlet(np.ones(k))
        counts = rng.multinomial(int(10 ** rng.uniform(0, 4)), rng.dirichlet(np.ones(k)))
        now, n = mixture(counts, p), int(counts.sum())
        after = [mixture(counts + np.eye(k, dtype=int)[j], p) for j in range(k)]
        assert p @ np.exp(np.array(after) - now) == pytest.approx(1, rel=1e-6)
        seen = counts > 0
        kl = float((counts[seen] / n * np.log(counts[seen] / n / p[seen])).sum())
        allowed = float(mixture_rate(k, 1.0, np.array([n]))[0])
        assert n * kl - now <= allowed + 1e-6 * (1 + n)
        tightest = min(tightest, allowed - (n * kl - now))
    assert tightest < 1  # and 1 less would be too little
    assert mixture_rate(1, 0.1, np.array([7.0]))[0] == pytest.approx(log(10))


def test_the_rate_grows_with_the_successors() -> None:
    n = np.array([1.0, 10, 1e6])
    for one, more in pairwise(mixture_rate(k, 0.1, n) for k in range(1, 9)):
        assert (one < more).all()


def test_the_rate_of_rf_express_is_larger() -> None:
    for S in (1, 2, 5, 50):
        agent = RFExpress(Problem(S, 2, 3, np.zeros((S, 2)), initial=0), 0.5, 0.1, 10)
        n = np.array([1.0, 10, 1e4, 1e8])
        beta = agent.coefficients(n)["flat"] * n / (15 * 9)
        assert (beta >= mixture_rate(S, 0.1 / (3 * S * 2 * 3), n)).all()


# -- in bulk ---------------------------------------------------------------------------------------


def made(name: str, schedule: str, scale: float | None = None) -> Stopping:
    scale = STOPPING[name] if scale is None else scale
    agent = make_agent(f"{name}:schedule={schedule}", CHAIN, 0.5, 0.1, 10**5, scale=scale)
    assert isinstance(agent, Stopping)
    return agent


@pytest.mark.parametrize("name", STOPPING)
def test_plans_are_those_of_every_episode(name: str) -> None:
    """An agent that plans after every episode would plan the same, with the same counts."""
    for seed, episodes in enumerate((1, 30, 1000)):
        bulk, other = made(name, "growth"), made(name, "episode")
        run = simulate(CHAIN, bulk, episodes, seed)
        other.restore({**other.state(), **bulk.counts.state("n"), "clock": [run.episodes, 0]})
        bulk.clock[1] = 0
        bulk.observe(type(bulk.counts).zero(CHAIN.problem))
        assert np.array_equal(bulk.V, other.V)
        assert np.array_equal(bulk.policy, other.policy)
        assert (bulk.gap_bound, bulk.done) == (other.gap_bound_now(), other.done)


@pytest.mark.parametrize("name", STOPPING)
def test_what_is_not_tested_would_fail(name: str) -> None:
    """It stops when it would if it tested all along."""
    for seed in range(3):
        agent, often = made(name, "episode"), made(name, "episode")
        assert agent.first_stop > 1 or not isinstance(agent, RewardFree | BPIUCBVI)
        often.first_stop, often.clock[1] = 1, 1
        run, other = (simulate(CHAIN, x, 10**5, seed) for x in (agent, often))
        assert run.final
        assert run.episodes == other.episodes >= agent.first_stop
        assert np.array_equal(run.policy, other.policy)
        visits = float(agent.counts.visits.max())
        assert agent.least_gap(visits) <= agent.gap_bound == often.gap_bound


@pytest.mark.parametrize("name", STOPPING)
def test_in_bulk_until_it_stops(name: str) -> None:
    """As published, scale = 1: it needs no limit, tests in time, and is optimal when it stops."""
    agent = made(name, "growth", 1.0)
    tests: list[int] = []

    def look(_: Any) -> None:
        seen, test = agent.clock.tolist()
        tests.append(seen)
        assert test == NEVER or seen < test <= 1.02 * seen + 1

    run = simulate(CHAIN, agent, seed=1, on_phase=look)
    assert (run.final, agent.done, agent.clock[1]) == (True, True, NEVER)
    assert agent.clock[0] == run.episodes == tests[-1] > 50
    assert agent.gap_bound == agent.gap_bound_now() <= 0.5
    assert int(agent.counts.visits[:-1].sum()) == CHAIN.horizon * run.episodes
    assert run.gap == pytest.approx(0, abs=1e-12)
    again = made(name, "growth", 1.0)
    again.restore(agent.state())
    assert (again.done, again.gap_bound) == (True, agent.gap_bound)
    assert np.array_equal(again.policy, agent.policy)


@pytest.mark.parametrize("name", STOPPING)
def test_a_walk_stops_too(name: str) -> None:
    agent = made(name, "growth")
    run = simulate(CHAIN, agent, seed=1, method="step")
    assert (run.final, agent.done, agent.clock[0]) == (True, True, run.episodes)


@pytest.mark.parametrize("name", STOPPING)
def test_both_schedules_stop_at_the_same_time(name: str) -> None:
    """Nearly: a policy that is followed for 2 % longer changes the counts that little."""
    runs = {}
    for schedule in ("episode", "growth"):
        agents = [made(name, schedule) for _ in range(4)]
        runs[schedule] = [simulate(CHAIN, x, 10**5, k).episodes for k, x in enumerate(agents)]
        assert all(x.done for x in agents)
    assert np.mean(runs["growth"]) == pytest.approx(np.mean(runs["episode"]), rel=0.15)


@pytest.mark.parametrize("schedule", ["episode", "growth"])
@pytest.mark.parametrize("name", STOPPING)
def test_no_limit_is_needed(name: str, schedule: str) -> None:
    run = simulate(CHAIN, made(name, schedule), seed=3)
    assert run.final
    limited = simulate(CHAIN, made(name, schedule), 10**5, seed=3)
    assert (run.episodes, run.value) == (limited.episodes, limited.value)


@pytest.mark.parametrize("name", sorted({*STOPPING} - {"fiechter"}))
def test_transitions_by_step(name: str) -> None:
    """What is seen at one step says nothing of the others: here they are opposites."""
    right, wrong = [[[0.9, 0.1], [0.1, 0.9]]] * 2, [[[0.1, 0.9], [0.9, 0.1]]] * 2
    mdp = MDP([right, wrong, right], [[0, 0], [1, 1]], 3)
    given = f"{name}:schedule=growth"
    agent: Any = make_agent(given, mdp, 0.5, 0.1, 1, scale=STOPPING[name])
    run = simulate(mdp, agent, seed=1)
    assert agent.done
    assert run.gap == pytest.approx(0, abs=1e-9)
    assert (np.add.reduceat(agent.counts.visits[:-1], [0, 4, 8]) == run.episodes).all()


def test_schedules() -> None:
    with pytest.raises(InputError, match="unknown schedule 'grow': did you mean 'growth'"):
        make_agent("rf-ucrl:schedule=grow", CHAIN, 0.5, 0.1, 10)
    assert made("rf-ucrl", "growth").settings()["schedule"] == "growth"


# -- any rewards -----------------------------------------------------------------------------------


def model_of(agent: Any) -> Any:
    """(S, A, S) p^; all successors alike where there is no visit."""
    row = CHAIN.table.row_of_entry
    n, share = agent.counts.visits[row], 1 / CHAIN.table.lengths[row]
    p = np.where(n > 0, agent.counts.successors / np.maximum(n, 1), share)
    return CHAIN.table.dense(p)


def explored(name: str, problem: Problem | None = None) -> RewardFree:
    """An agent that has stopped."""
    given = f"{name}:schedule=growth"
    agent = make_agent(given, CHAIN, 0.5, 0.1, 1, scale=STOPPING[name], problem=problem)
    assert isinstance(agent, RewardFree)
    simulate(CHAIN, agent, seed=1)
    return agent


@pytest.mark.parametrize("name", ["fiechter", "rf-ucrl", "rf-express"])
def test_plans_for_any_rewards(name: str) -> None:
    """The optimum of the model, whose values it gives; its own problem's is its last policy."""
    agent = explored(name)
    p, rng = model_of(agent), np.random.default_rng(0)
    for shape in ((2, 2), (2, 1), (3, 2, 2)):
        rewards = rng.random(shape)
        best = MDP(p, rewards, 3).optimal()
        plan = agent.plan_for(rewards)
        assert np.array_equal(plan.policy, best.policy)
        assert plan.values == pytest.approx(best.values, abs=1e-12)
        truth = MDP(CHAIN.table.dense(CHAIN.p), rewards, 3)
        assert truth.at_start(truth.optimal().values) - truth.value(plan.policy) <= 0.5
    assert np.array_equal(agent.plan_for([[0.05, 0.0], [1, 1]]).policy, agent.policy)


def test_rewards_on_the_next_state() -> None:
    """Widths of RF-UCRL and Fiechter are for what a pair pays, unless rewards are not told."""
    on_next = np.random.default_rng(0).random((1, 2, 2, 2))
    for name in ("fiechter", "rf-ucrl"):
        with pytest.raises(InputError, match=f"{name} .* next state: hide .* rf-express"):
            explored(name).plan_for(on_next)
    hidden = CHAIN.problem.hiding("rewards")
    for name in ("fiechter", "rf-ucrl", "rf-express"):
        agent = explored(name, hidden)
        best = MDP(model_of(agent), on_next, 3).optimal()
        assert np.array_equal(agent.plan_for(on_next).policy, best.policy)
    explored("rf-express").plan_for(on_next)


def test_without_rewards_nothing_is_planned_for() -> None:
    """It explores as if it were told them, and stays with that when it stops."""
    hidden = CHAIN.problem.hiding("rewards")
    told, untold = explored("rf-express"), explored("rf-express", hidden)
    assert np.array_equal(told.counts.successors, untold.counts.successors)
    assert np.array_equal(told.V, untold.V)
    assert untold.done
    assert np.array_equal(untold.plan_for([[0.05, 0.0], [1, 1]]).policy, told.policy)


def test_a_plan_before_the_end_has_to_be_asked_for() -> None:
    agent: Any = make_agent("rf-ucrl", CHAIN, 0.5, 0.1, 10)
    with pytest.raises(InputError, match=r"rf-ucrl still explores, .* 3 from optimal: .* early"):
        agent.plan_for([[0, 1], [1, 0]])
    assert agent.plan_for([[0, 1], [1, 0]], early=True).policy[2].tolist() == [1, 0]


def test_the_gap_of_an_early_plan_is_that_of_all_counts() -> None:
    """The last test was made before the last episodes."""
    agent: Any = make_agent("rf-ucrl", CHAIN, 0.01, 0.1, 10_000, scale=0.05)
    simulate(CHAIN, agent, 5_050)
    before = agent.gap_bound
    agent.plan_for([[0, 1], [1, 0]], early=True)
    assert agent.gap_bound == agent.gap_bound_now() != before


@pytest.mark.parametrize(
    ("rewards", "message"),
    [
        ([[0, 2], [0, 0]], r"the reward at \(t=0, s=0, a=1\) is 2"),
        (np.zeros((3, 3)), "rewards"),
        (np.zeros(2), "rewards"),
        ("none", "rewards"),
    ],
)
def test_rewards_that_are_none(rewards: Any, message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        explored("rf-ucrl").plan_for(rewards)
    assert "\n" not in str(caught.value)
