"""Bounds on values: what follows from what, and the share of delta of each part."""

from __future__ import annotations

import math
from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from oracles import certified as oracle
from oracles import reference as ref
from oracles.certified_cases import Case, cases, draw_case, needed_budgets, random_budgets
from ucfh._kernels import balls
from ucfh._kernels import blame as kernels
from ucfh.confidence.values import IDEAS, SHARES, Best
from ucfh.counts import Counts
from ucfh.errors import InputError
from ucfh.problem import MDP, Problem

ROUNDED = 1e-12  # times H: values are sums of H doubles of size one


# -- if the inequalities hold that a bound rests on, so does the bound ----------------------------


def claims(case: Case, best: Best) -> dict[str, float]:
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
    """Rewards known up to an interval with the truth at one end, and few visits: much overlaps."""
    for seed in range(200):
        S, A, H = 2 + seed % 2, 2 + seed // 2 % 2, 2 + seed // 4 % 2
        case = draw_case(seed, S, A, H, visits=(3, 10, 40), hide=("rewards",), ties=seed % 5 == 0)
        found = claims(case, needed_budgets(case, seed))
        assert min(found.values()) >= -ROUNDED * H, (seed, found)


@pytest.mark.slow
def test_smaller_budgets_are_seen() -> None:
    """The test above has power: with half of the budgets, every one of the bounds fails."""
    broken = set()
    for seed in range(200):
        case = draw_case(seed, visits=(5, 30), spread=True, hide=("initial",) * (seed % 2))
        best = needed_budgets(case, seed)
        up, low, every, *rewards = best.given
        best.give(0.5 * up, 0.5 * low, 0.5 * every, *rewards)
        broken |= {name for name, by in claims(case, best).items() if by < -1e-6}
    assert broken == {"U", "L", "W", "D", "upper", "lower", "difference"}


@settings(max_examples=50, deadline=None)
@given(cases(honest=True, visits=(400, 3000)))
def test_generous_data_bounds_the_truth(case: Case) -> None:
    """With delta = 1e-9 a failure would be a fault."""
    if case.problem.rewards is None:
        table = case.problem.table
        r = np.broadcast_to(case.mean_rewards, (table.stages, table.pairs)).ravel()
        case.counts.rewards[:-1] = r * case.counts.visits[:-1]
    found = claims(case, Best(case.problem, 1e-9))
    assert min(found.values()) >= -ROUNDED * case.problem.horizon, found


@pytest.mark.parametrize("idea", [(), *((idea,) for idea in IDEAS), IDEAS])
def test_every_choice_of_ideas_bounds_the_truth(idea: tuple[str, ...]) -> None:
    for seed in range(10):
        case = draw_case(seed, honest=True, visits=(0, 20, 300))
        best = Best(case.problem, 1e-6, idea)
        b = best.bounds(case.counts)
        V = case.mdp.optimal().values
        assert (b.U >= V - ROUNDED).all()
        if best.on["difference"]:
            assert min(claims(case, Best(case.problem, 1e-6, idea)).values()) >= -ROUNDED
        else:
            assert b.difference == math.inf
            assert b.lower == 0


def test_what_held_before_is_kept() -> None:
    """Bounds of V* never get worse, whatever comes."""
    case = draw_case(3, visits=(0,))
    best, rng = Best(case.problem, 0.1), np.random.default_rng(0)
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
    fresh = Best(case.problem, 0.1).bounds(case.counts)
    # both stop short of the minimum over x, by what goes with the square of CLOSE
    assert (fresh.U + balls.CLOSE**2 * case.problem.horizon >= before.U).all()
    assert (before.U < fresh.U - 1e-9).any()  # some bound of the past was better


# -- delta, and how it is shared out -------------------------------------------------------------


def count_by_walking(problem: Problem) -> tuple[int, int, int]:
    """Events for V* from above (t, s), below (t, s, a), and rows; by following all successors."""
    told, table = problem.rewards, problem.table
    paid = told is not None and told.successor is not None
    here = {int(s) for s in table.indices[table.entries_of(table.start)]}
    above = below = int(problem.initial is None)
    for t in range(problem.horizon):
        uncertain = {
            s: sum(len(row.states) > 1 for row in oracle.rows_at(problem, t, s)) for s in here
        }
        if t < problem.horizon - 1 or paid:
            above += sum(x > 0 for x in uncertain.values())
            below += sum(uncertain.values())
        here = {j for s in here for row in oracle.rows_at(problem, t, s) for j in row.states}
    rows = int((table.lengths[:-1] > 1).sum()) + int(problem.initial is None)
    return max(1, above), max(1, below), max(1, rows)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(cases(visits=(1, 7, 1000)), st.sampled_from([1.0, 0.1, 1e-6]), st.data())
def test_all_parts_together_fail_with_probability_delta(
    case: Case, delta: float, data: st.DataObject
) -> None:
    """Each part's price of one event, times its events, adds up to delta; and no more is spent."""
    without = tuple(sorted(data.draw(st.sets(st.sampled_from(IDEAS)))))
    best, problem, counts = Best(case.problem, delta, without), case.problem, case.counts
    events = dict(zip(("above", "below", "all"), count_by_walking(problem), strict=True))
    ending = np.isin(problem.table.state, problem.terminal).sum() * problem.table.stages
    events["rewards"] = max(1, int(problem.table.start - ending))
    price = {part: best._log[part] for part in best._log if part != "scores"}
    spent = sum(events[part] * math.exp(-x) for part, x in price.items())
    if "scores" not in without:
        spent += sum(math.exp(-best.price_of_scores(j)) for j in range(1, 1000)) * 1000 / 999
    assert spent == pytest.approx(delta, rel=1e-9)

    best.budget(counts)
    for row in np.flatnonzero(counts.visits):
        n = int(counts.visits[row])
        c = [int(x) for x in counts.successors[problem.table.entries_of(int(row))]]
        beyond = oracle.dirichlet_excess(c) if "sparse" in without else oracle.sparse_excess(c)
        any_function = (price["all"] + float(beyond)) / n
        one_function = any_function
        assert best.eta_all[row] == pytest.approx(any_function, rel=1e-5)
        assert best.eta_all[row] >= any_function
        for part, eta in (("above", best.eta_up), ("below", best.eta_low)):
            if part in price:
                one_function = (price[part] + float(oracle.portfolio_regret(n))) / n
            if part in price or "fixed" in without:
                # V* is a function like any other: the better of the two holds
                least = min(one_function, any_function)
                assert eta[row] == pytest.approx(least, rel=1e-5)
                assert eta[row] >= least


def test_unknown_ideas_are_refused() -> None:
    with pytest.raises(InputError, match="unknown idea 'sparce': did you mean 'sparse'"):
        Best(draw_case(0).problem, 0.1, ("sparce",))


# -- rewards and scores ---------------------------------------------------------------------------


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 10**9), st.integers(0, 1000).map(lambda k: k / 1000))
def test_bounds_of_an_unknown_reward(n: int, mean: float) -> None:
    problem = Problem(2, 1, 1, initial=0)
    counts = Counts.zero(problem)
    counts.visits[0], counts.rewards[0] = n, n * mean
    counts.successors[0] = n
    best = Best(problem, 0.1)
    best.budget(counts)
    budget = math.log(2 * sum(SHARES.values()) / (0.1 * SHARES["rewards"]))  # of two rows
    budget += float(oracle.portfolio_regret(n))

    def inside(q: float, p: float, visits: int, level: float) -> Any:
        del level
        return np.bool_(visits * ref.kl(p, q) <= budget)

    low, high = ref.hull_by_bisection(inside, min(1.0, n * mean / n), n, 0.0)
    assert best.r_low[0, 0] <= low + 1e-15
    assert best.r_low[0, 0] == pytest.approx(low, abs=1e-9)
    assert best.r_up[0, 0] >= high - 1e-15
    assert best.r_up[0, 0] == pytest.approx(high, abs=1e-9)
    assert (best.r_low[0, 1], best.r_up[0, 1]) == (0, 1)  # never seen


scores = st.dictionaries(st.integers(0, 40).map(lambda k: k / 10), st.integers(1, 50), max_size=6)


@pytest.mark.slow
@settings(max_examples=80, deadline=None)
@given(scores, st.integers(1, 9))
def test_a_bound_by_scores(seen: dict[float, int], j: int) -> None:
    best = Best(Problem(2, 2, 4, rewards=np.zeros((2, 1)), initial=0), 0.1)
    found = best.by_scores(seen, j)
    if not any(seen):
        assert found == 0
        return
    told = sum(SHARES[part] for part in SHARES if part != "rewards")
    goal = math.log(j * (j + 1) * told / (0.1 * SHARES["scores"]))
    assert best.price_of_scores(j) == pytest.approx(goal, rel=1e-12)
    least = oracle.lower_mean(seen, goal)
    assert found <= least * (1 + 1e-9)
    # bets of next to nothing, which hardly win, may be left out
    assert found >= oracle.lower_mean(seen, goal + 0.05) * (1 - 1e-8)


def test_bets_are_fair() -> None:
    """Where v is the mean of the scores, wealth is a martingale: its mean is one at any time."""
    x, p = [0.0, 1.0, 2.5], [0.5, 0.3, 0.2]
    v = sum(a * b for a, b in zip(x, p, strict=True))
    for n in (1, 2, 5):
        total = 0.0
        for draws in product(range(3), repeat=n):
            times = {x[i]: draws.count(i) for i in set(draws)}
            total += math.prod(p[i] for i in draws) * math.exp(oracle.ln_wealth(times, v))
        assert total == pytest.approx(1 - 1 / 61, abs=1e-9)  # without the bets beyond the 60th


# -- what to sample -------------------------------------------------------------------------------


def gap(best: Any, counts: Counts, etas: list[Any], by_difference: bool) -> tuple[float, Any]:
    """The gap with other budgets, and which rows decided it."""
    fresh = type(best)(best.problem, 0.1, tuple(x for x in IDEAS if not best.on[x]))
    fresh.give(*etas, *best.given[3:])
    b = fresh.bounds(counts)
    value = b.D[0] @ best.start(counts) if by_difference else b.U[0] @ best.start(counts)
    return float(value), (b.up, b.low, b.greedy, b.rival, b.branch)


def numeric_blame(best: Any, counts: Counts, by_difference: bool) -> Any:
    """eta d gap / d eta of every row, by differences; None if another row comes to decide."""
    h, out = 0.02, np.zeros(len(counts.visits))
    _, rows = gap(best, counts, list(best.given[:3]), by_difference)
    for row in np.flatnonzero(counts.visits):
        sides = []
        for factor in (1 + h, 1 - h):
            etas = [x.copy() for x in best.given[:3]]
            for x in etas:
                x[row] *= factor
            value, decided = gap(best, counts, etas, by_difference)
            if not all(np.array_equal(x, y) for x, y in zip(rows, decided, strict=True)):
                return None
            sides.append(value)
        out[row] = (sides[0] - sides[1]) / (2 * h)
    return out


# the bounds themselves are known to about this part of themselves, and differences divide it by h
NUMERIC: dict[str, Any] = {"rtol": 0.02, "atol": 4 * 4 * (balls.CLOSE**2 / 4) / 0.02}


@settings(max_examples=60, deadline=None)
@given(cases(visits=(3, 10, 100), hide=("successors",)), st.integers(0, 99))
def test_blame_is_the_derivative_of_the_upper_bound(case: Case, seed: int) -> None:
    best = random_budgets(case, seed)
    expected = numeric_blame(best, case.counts, False)
    assume(expected is not None)
    b = best.bounds(case.counts)
    np.testing.assert_allclose(best.blame(case.counts, b, False), expected, **NUMERIC)


def two_ways(seed: int, H: int = 3) -> Case:
    """States 0 to 4 with actions that lead to different states: nothing overlaps."""
    rng = np.random.default_rng(seed)
    p = np.zeros((5, 2, 5))
    p[:, 0, [1, 2]] = p[:, 1, [3, 4]] = 0.5
    mdp = MDP(p, rng.random((5, 2)), H)
    counts = Counts.zero(mdp.problem)
    counts.successors[:] = rng.integers(3, 30, len(counts.successors))
    counts.visits[:] = np.add.reduceat(counts.successors, mdp.table.indptr[:-1])
    return Case(mdp, mdp.problem, counts)


@pytest.mark.slow
@pytest.mark.parametrize("overlap", [True, False])
def test_blame_is_the_derivative_of_the_difference(overlap: bool) -> None:
    """Where no two rows lead to the same state, and W is not better known through V*."""
    compared = 0
    ways: set[int] = set()
    for seed in range(150):
        case = two_ways(seed)
        best = random_budgets(case, seed, () if overlap else ("overlap",))
        up, _, every = best.given[:3]
        best.give(3 * up, 5 * every, every, *best.given[3:])
        expected = numeric_blame(best, case.counts, True)
        b = best.bounds(case.counts)
        low = best.lower_values(case.counts, b.greedy)
        if expected is None or (low + 1e-9 < b.W).any():
            continue
        found = best.blame(case.counts, b, True)
        np.testing.assert_allclose(found, expected, err_msg=str(seed), **NUMERIC)
        compared, ways = compared + 1, ways | {int(b.branch[0, 0])}
    assert compared >= 5
    assert ways >= {0, 2}


def test_blame_of_unknown_rewards() -> None:
    """Each step answers for what is not known of its reward, and for nothing else here."""
    problem = Problem(1, 1, 4, initial=0)
    counts = Counts.zero(problem)
    counts.visits[:], counts.successors[:], counts.rewards[0] = 20, 20, 7.0
    best = Best(problem, 0.1)
    b = best.bounds(counts)
    width = float(best.r_up[0, 0] - best.r_low[0, 0])
    assert 0 < width < 1
    found = best.blame(counts, b, False)
    assert width <= found[0] <= 4 * width
    assert found[1] == 0


def test_blame_of_rows_without_visits() -> None:
    """Such a row has the range of its successors' values to answer for."""
    r = np.array([[0.1, 0.0], [1.0, 1.0], [0.25, 0.25]])
    mdp = MDP(np.full((3, 2, 3), 1 / 3), r, 2)
    counts = Counts.zero(mdp.problem)
    best = Best(mdp.problem, 0.1)
    found = best.blame(counts, best.bounds(counts), False)
    assert found.sum() == pytest.approx(1.0 - 0.1)
    assert found[0] == pytest.approx(1.0 - 0.1)  # row (0, 0), taken first; its values .1, 1, .25


@settings(max_examples=60, deadline=None)
@given(
    cases(states=2, actions=2, visits=(0, 1, 5, 40)),
    st.integers(0, 99),
    st.booleans(),
)
def test_exploring_collects_most(case: Case, seed: int, equal: bool) -> None:
    """Against every policy, and every successor that a row without visits may lead to."""
    problem, table, counts = case.problem, case.problem.table, case.counts
    assume(problem.horizon <= 3)
    rng = np.random.default_rng(seed)
    gain = np.ones(table.rows) if equal else rng.random(table.rows)
    H, S = problem.horizon, problem.states
    taken = np.zeros((H, S), np.int64)
    kernels.explore(table.arrays, counts.arrays, gain, taken)

    def collected(rows: Any) -> Any:
        X = np.zeros(S)
        for t in reversed(range(H)):
            now = np.zeros(S)
            for s in range(S):
                row = oracle.row_of(problem, int(rows[t, s]))
                c = [int(counts.successors[e]) for e in row.entries]
                later = [X[j] for j in row.states]
                ahead = max(later)
                if sum(c):
                    ahead = sum(x * y for x, y in zip(c, later, strict=True)) / sum(c)
                now[s] = gain[row.number] + ahead
            X = now
        return X

    most = np.max([collected(rows) for rows in oracle.every_policy(problem)], axis=0)
    np.testing.assert_allclose(collected(taken), most, rtol=1e-8)
    for s in range(S):  # in the last step a tie is between equal gains
        last = oracle.rows_at(problem, H - 1, s)
        if equal:
            fewest = min(int(counts.visits[row.number]) for row in last)
            assert counts.visits[taken[H - 1, s]] == fewest


def paths_of(case: Case, rows: Any) -> list[tuple[float, list[int]]]:
    """Every path of the empirical model under rows (H, S), with its probability."""
    problem, counts = case.problem, case.counts
    p0 = problem.initial
    assert p0 is not None
    found = [(float(p0[s]), [s]) for s in range(problem.states) if p0[s] > 0]
    for t in range(problem.horizon):
        shorter, found = found, []
        for chance, path in shorter:
            row = oracle.row_of(problem, int(rows[t, path[-1]]))
            n = int(counts.visits[row.number])
            for e, j in zip(row.entries, row.states, strict=True):
                if counts.successors[e]:
                    found.append((chance * int(counts.successors[e]) / n, [*path, j]))
    return found


@settings(max_examples=50, deadline=None)
@given(cases(visits=(2, 9), spread=True, hide=()), st.integers(0, 99))
def test_loss_by_leaving_path_by_path(case: Case, seed: int) -> None:
    problem, table, rng = case.problem, case.problem.table, np.random.default_rng(seed)
    H, S = problem.horizon, problem.states
    assert problem.initial is not None

    def some_rows() -> Any:
        chosen = table.first[:-1] + rng.integers(0, np.tile(np.diff(table.first), (H, 1)))
        return chosen + table.stride * np.arange(H)[:, None]

    taken, kept = some_rows(), some_rows()
    worth, counted = rng.random((2, H + 1, S))
    expected = 0.0
    for chance, path in paths_of(case, taken):
        for t, s in enumerate(path[:-1]):
            if taken[t, s] != kept[t, s]:
                expected += chance * max(0.0, worth[t, s] - counted[t, s])
                break
    loss = kernels.loss_by_leaving(
        table.arrays, case.counts.arrays, taken, kept, worth, counted, problem.initial
    )
    assert loss == pytest.approx(expected, abs=1e-12)


def test_all_shapes_are_drawn() -> None:
    """The cases above are as odd as they claim to be."""
    kinds = product((False, True), repeat=3)
    for staged, ends, fewer in kinds:
        case = draw_case(1, staged=staged, ends=ends, fewer=fewer, visits=(0, 4))
        assert (case.problem.table.stages > 1) == staged
        assert bool(case.problem.terminal) == ends
        assert (case.counts.visits == 0).any()
