"""Bounds on values: what follows from what, and the share of delta of each part."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from oracles import certified as oracle
from oracles import mixtures
from oracles import reference as ref
from oracles.certified_cases import NOISE, Case, cases, draw_case, needed_budgets
from support.settings import many
from ucfh._kernels import kl_ball
from ucfh.confidence.known_states import REWARD_SHARES, SHARES, KnownStateBounds
from ucfh.confidence.value_bounds import COMPONENTS
from ucfh.counts import Counts
from ucfh.exceptions import InputError
from ucfh.mdp import Problem

ROUNDED = 1e-12  # times H: values are sums of H doubles of size one


# -- if the inequalities hold that a bound rests on, so does the bound ----------------------------


def claims(case: Case, best: KnownStateBounds) -> dict[str, float]:
    """By how much each bound holds, at the state and step where it is tightest."""
    mdp, b = case.mdp, best.bounds(case.counts)
    V, pi = mdp.optimal().values, case.problem.table.policy_of(b.greedy)
    V_pi = mdp.values(pi)
    start, start_pi = mdp.at_start(V), mdp.at_start(V_pi)
    return {
        "U": (b.U - V).min(),
        "L": (V - b.L).min(),
        "W": (V_pi - b.W).min(),
        "D": (b.D - (V - V_pi)).min(),
        "upper": b.upper - start,
        "lower": start_pi - b.lower,
        "difference": b.difference - (start - start_pi),
    }


@pytest.mark.slow
@settings(max_examples=200, deadline=None)
@given(cases(), st.booleans(), st.integers(0, 99))
def test_bounds_hold_whenever_their_inequalities_do(case: Case, overlap: bool, seed: int) -> None:
    """Counts of any kind, with the least budgets that a proof asks for; see `needed_budgets`."""
    best = needed_budgets(case, seed, () if overlap else ("overlap",))
    found = claims(case, best)
    assert min(found.values()) >= -ROUNDED * case.problem.horizon, found


@pytest.mark.slow
def test_bounds_hold_where_they_are_tight() -> None:
    """Rewards paid in any way, means with the truth at one end, and few visits: much overlaps."""
    for seed in range(many(100, 300)):
        S, A, H = 2 + seed % 2, 2 + seed // 2 % 2, 2 + seed // 4 % 2
        hide = ("rewards", "successors") if seed % 7 == 0 else ("rewards",)
        kind: dict[str, Any] = {"noise": NOISE[seed % 3], "sparse": seed % 4 == 0}
        kind |= {"rewards": ("s, a", "s, a, s'")[seed // 8 % 2], "ties": seed % 5 == 0}
        case = draw_case(seed, S, A, H, visits=(3, 10, 40), hide=hide, **kind)
        found = claims(case, needed_budgets(case, seed))
        assert min(found.values()) >= -ROUNDED * H, (seed, found)


def broken_by(seeds: int, factors: dict[str, float], **kind: Any) -> set[str]:
    """Return the claims that fail if their events are scaled; few visits, from any start."""
    broken: set[str] = set()
    for seed in range(seeds):
        hide = (*kind.get("hide", ()), *(("initial",) * (seed % 2)))
        given: dict[str, Any] = {"visits": (5, 30), "spread": True, **kind, "hide": hide}
        case = draw_case(seed, **given)
        best = needed_budgets(case, seed)
        for name, factor in factors.items():
            setattr(best.given, name, factor * getattr(best.given, name))
        broken |= {name for name, by in claims(case, best).items() if by < -1e-6}
    return broken


ALL = {"U", "L", "W", "D", "upper", "lower", "difference"}
HALF = dict.fromkeys(("up", "low", "every", "outcomes"), 0.5)
UNKNOWN: Any = {"hide": ("rewards",)}


@pytest.mark.slow
@pytest.mark.parametrize("kind", [{}, *(UNKNOWN | {"noise": x} for x in NOISE)], ids=str)
def test_smaller_budgets_are_seen(kind: dict[str, Any]) -> None:
    """The test above has power: with half of the budgets, every one of the bounds fails."""
    assert broken_by(many(80, 200), HALF, **kind) == ALL


@pytest.mark.slow
@pytest.mark.parametrize(
    ("factors", "noise", "breaks"),
    [
        ({}, "three", set()),
        ({"up": 0.5}, "none", {"U", "upper"}),
        ({"up": 0.5}, "three", {"U", "upper"}),
        ({"low": 0.5}, "bernoulli", {"L"}),
        ({"every": 0.5}, "bernoulli", {"W", "D"}),
        ({"outcomes": 0.5}, "none", {"W"}),
        ({"r_low": 1.5}, "bernoulli", {"W"}),
    ],
)
def test_each_inequality_is_needed(factors: dict[str, float], noise: str, breaks: set[str]) -> None:
    """And of what an unknown reward takes, no part can be left out."""
    found = broken_by(many(50, 100), factors, noise=noise, **UNKNOWN)
    assert found >= breaks
    assert found == breaks or factors


@settings(max_examples=50, deadline=None)
@given(cases(honest=True, visits=(400, 3000)))
def test_generous_data_bounds_the_truth(case: Case) -> None:
    """With delta = 1e-9 a failure would be a fault."""
    found = claims(case, KnownStateBounds(case.problem, 1e-9))
    assert min(found.values()) >= -ROUNDED * case.problem.horizon, found


CHOICES = [(), *((idea,) for idea in COMPONENTS), COMPONENTS]


@pytest.mark.parametrize("idea", CHOICES)
def test_every_choice_of_ideas_bounds_the_truth(idea: tuple[str, ...]) -> None:
    for seed in range(20):
        hide: Any = ("rewards",) * (seed % 2)
        kind: dict[str, Any] = {"hide": hide, "noise": NOISE[seed % 3]}
        case = draw_case(seed, honest=True, visits=(0, 20, 300), **kind)
        best = KnownStateBounds(case.problem, 1e-6, idea)
        b = best.bounds(case.counts)
        V = case.mdp.optimal().values
        assert (b.U >= V - ROUNDED).all()
        if best.enabled["difference"]:
            assert (
                min(claims(case, KnownStateBounds(case.problem, 1e-6, idea)).values()) >= -ROUNDED
            )
        else:
            assert b.difference == math.inf
            assert b.lower == 0


def test_what_held_before_is_kept() -> None:
    """Bounds of V* never get worse, whatever comes."""
    case = draw_case(3, visits=(0,))
    best, rng = KnownStateBounds(case.problem, 0.1), np.random.default_rng(0)
    table, p = case.problem.table, case.p
    before = best.bounds(case.counts)
    for _ in range(30):
        for row in range(table.start):
            at = table.entries_of(row)
            case.counts.successors[at] += rng.multinomial(3, p[at])
            case.counts.visits[row] += 3
        after = best.bounds(case.counts)
        assert (after.U <= before.U).all()
        assert (after.L >= before.L).all()
        before = after
    fresh = KnownStateBounds(case.problem, 0.1).bounds(case.counts)
    # both stop short of the minimum over x, by what goes with the square of CLOSE
    assert (fresh.U + kl_ball.CLOSE**2 * case.problem.horizon >= before.U).all()
    assert (before.U < fresh.U - 1e-9).any()  # some bound of the past was better


# -- delta, and how it is shared out -------------------------------------------------------------


def count_by_walking(problem: Problem) -> dict[str, int]:
    """Events for V* from above (t, s), below (t, s, a), and rows; by following all successors."""
    told, table = problem.rewards, problem.table
    paid = told is None or told.successor is not None

    def learned(s: int) -> bool:
        return told is None and s not in problem.terminal

    here = {int(s) for s in table.indices[table.entries_of(table.start)]}
    above = below = start = int(problem.initial is None)
    for t in range(problem.horizon):
        uncertain = {
            s: sum(len(row.states) > 1 or learned(s) for row in oracle.rows_at(problem, t, s))
            for s in here
        }
        if t < problem.horizon - 1 or paid:
            above += sum(x > 0 for x in uncertain.values())
            below += sum(uncertain.values())
        here = {j for s in here for row in oracle.rows_at(problem, t, s) for j in row.states}
    rows = int((table.lengths[:-1] > 1).sum()) + start
    pay = sum(learned(int(s)) for s in table.state) * table.segments
    events = {"above": above, "below": below, "all": rows, "outcomes": pay, "rewards": pay}
    return {part: max(1, n) for part, n in events.items()}


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(cases(visits=(1, 7, 1000)), st.sampled_from([1.0, 0.1, 1e-6]), st.data())
def test_all_parts_together_fail_with_probability_delta(
    case: Case, delta: float, data: st.DataObject
) -> None:
    """Each part's price of one event, times its events, adds up to delta; and no more is spent."""
    without = tuple(sorted(data.draw(st.sets(st.sampled_from(COMPONENTS)))))
    best, problem, counts = (
        KnownStateBounds(case.problem, delta, without),
        case.problem,
        case.counts,
    )
    events = count_by_walking(problem)
    price = {part: best.costs[part] for part in best.costs if part != "scores"}
    spent = sum(events[part] * math.exp(-x) for part, x in price.items())
    if "scores" not in without:
        spent += sum(math.exp(-best.cost_of_scores(j)) for j in range(1, 1000)) * 1000 / 999
    assert spent == pytest.approx(delta, rel=1e-9)
    unknown = problem.rewards is None
    wanted = {"all"} | ({"above", "below"} if unknown or "fixed" not in without else set())
    wanted -= {"below"} if "difference" in without else set()
    assert set(price) == wanted | ({"outcomes", "rewards"} if unknown else set())

    best.budget(counts)
    for row in np.flatnonzero(counts.visits):
        n = int(counts.visits[row])
        c = [int(x) for x in counts.successors[problem.table.entries_of(int(row))]]
        beyond = mixtures.dirichlet_excess(c) if "sparse" in without else mixtures.sparse_excess(c)
        any_function = (price["all"] + float(beyond)) / n
        assert best.eta_all[row] == pytest.approx(any_function, rel=1e-5)
        assert best.eta_all[row] >= any_function
        if unknown and n > np.count_nonzero(c):
            pattern = mixtures.pattern_excess([x for x in c if x], 2000)
            found = best.eta_outcomes[row] * (n - np.count_nonzero(c)) - price["outcomes"]
            assert float(pattern.low) <= found <= float(pattern.high) + 0.04
        for part, eta in (("above", best.eta_up), ("below", best.eta_low)):
            if part not in price:
                continue  # it is not used
            least = (price[part] + float(mixtures.portfolio_regret(n))) / n
            if not unknown:
                # V* is a function like any other: the better of the two holds
                least = min(least, any_function)
            assert eta[row] == pytest.approx(least, rel=1e-5)
            assert eta[row] >= least
        if "fixed" in without and not unknown:
            assert best.eta_up[row] == best.eta_low[row] == best.eta_all[row]


@pytest.mark.parametrize("idea", CHOICES)
@pytest.mark.parametrize("states", [1, 3])
def test_a_reward_costs_more_the_longer_one_looks(states: int, idea: tuple[str, ...]) -> None:
    """A bound that holds at all n at once grows like (ln n)/2, whatever is switched off.

    n kl(mean, bound) that stays the same would be passed sooner or later, with certainty.
    """
    problem = Problem(states, 1, 1, initial=0)
    nats = []
    for n in (30, 3 * 10**12):
        counts, best = Counts.zero(problem), KnownStateBounds(problem, 0.1, idea)
        counts.visits[0] = n
        counts.successors[:states] = n // states
        counts.rewards[:states] = n // states * 0.3
        counts.least[:states], counts.most[:states] = 0.0, 1.0
        b = best.bounds(counts)
        found = [b.U] if "difference" in idea else [b.U, b.L, b.W]
        nats.append([n * float(ref.kl(0.3, float(V[0, 0]))) for V in found])
    for few, more in zip(*nats, strict=True):
        assert more > few + 0.4 * math.log(10**11)


def test_unknown_ideas_are_refused() -> None:
    with pytest.raises(InputError, match="unknown component 'sparce': did you mean 'sparse'"):
        KnownStateBounds(draw_case(0).problem, 0.1, ("sparce",))


# -- rewards and scores ---------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**9), st.integers(0, 1000).map(lambda k: k / 1000))
def test_bounds_of_an_unknown_reward(n: int, mean: float) -> None:
    problem = Problem(2, 1, 1, initial=0)
    counts = Counts.zero(problem)
    counts.visits[0] = n
    counts.successors[:2] = n - n // 3, n // 3
    counts.rewards[:2] = mean * counts.successors[:2]
    best = KnownStateBounds(problem, 0.1)
    best.budget(counts)
    total = sum(SHARES.values()) + sum(REWARD_SHARES.values())
    budget = math.log(2 * total / (0.1 * REWARD_SHARES["rewards"]))  # of two rows
    budget += float(mixtures.portfolio_regret(n))

    def inside(q: float, p: float, visits: int, level: float) -> Any:
        del level
        return np.bool_(visits * ref.kl(p, q) <= budget)

    low, high = ref.hull_by_bisection(inside, min(1.0, float(counts.rewards.sum()) / n), n, 0.0)
    assert best.r_low[0] <= low + 1e-15
    assert best.r_low[0] == pytest.approx(low, abs=1e-9)
    assert best.r_up[0] >= high - 1e-15
    assert best.r_up[0] == pytest.approx(high, abs=1e-9)
    assert (best.r_low[1], best.r_up[1]) == (0, 1)  # never seen
    assert (best.r_low[2], best.r_up[2]) == (0, 0)  # the start


scores = st.dictionaries(st.integers(0, 40).map(lambda k: k / 10), st.integers(1, 50), max_size=6)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(scores, st.integers(1, 9))
def test_a_bound_by_scores(seen: dict[float, int], j: int) -> None:
    best = KnownStateBounds(Problem(2, 2, 4, rewards=np.zeros((2, 1)), initial=0), 0.1)
    found = best.score_bound(seen, j)
    if not any(seen):
        assert found == 0
        return
    goal = math.log(j * (j + 1) * sum(SHARES.values()) / (0.1 * SHARES["scores"]))
    assert best.cost_of_scores(j) == pytest.approx(goal, rel=1e-12)
    least = mixtures.lower_mean(seen, goal)
    assert found <= least * (1 + 1e-9)
    # bets of next to nothing, which hardly win, may be left out
    assert found >= mixtures.lower_mean(seen, goal + 0.05) * (1 - 1e-8)


def test_bets_are_fair() -> None:
    """For v equal to the mean of the scores, wealth is a martingale with mean one."""
    x, p = [0.0, 1.0, 2.5], [0.5, 0.3, 0.2]
    v = sum(a * b for a, b in zip(x, p, strict=True))
    for n in (1, 2, 5):
        total = 0.0
        for draws in product(range(3), repeat=n):
            times = {x[i]: draws.count(i) for i in set(draws)}
            total += math.prod(p[i] for i in draws) * math.exp(mixtures.ln_wealth(times, v))
        assert total == pytest.approx(1 - 1 / 61, abs=1e-9)  # without the bets beyond the 60th


def test_all_shapes_are_drawn() -> None:
    """The cases above are as odd as they claim to be."""
    kinds = product((False, True), repeat=3)
    for segmented, ends, fewer in kinds:
        case = draw_case(1, segmented=segmented, ends=ends, fewer=fewer, visits=(0, 4))
        assert (case.problem.table.segments > 1) == segmented
        assert bool(case.problem.terminal) == ends
        assert (case.counts.visits == 0).any()
