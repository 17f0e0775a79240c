"""The package's bounds against oracles that were written from the theorems alone.

A bound from above must not be below its oracle by more than rounding, and must be close to it
where a theorem defines the number. D is an exception: by Proposition 35 each nu gives a bound of
its own, and the search of the package ends at another nu than that of the oracle.
"""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

import ucfh
from oracles import from_theorems as oracle
from oracles.theorem_cases import (
    World,
    known_case,
    log_differs,
    log_of,
    tables_differ,
    task_differs,
    units_of,
    visit_all,
)
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.union_bound import count_events

ROUNDING = 1e-7
CLOSE = 2e-4  # searches of the package end at a relative 1e-5 or so
OTHER_NU = 5e-3


def check(found: dict[str, tuple[float, float]], wide: tuple[str, ...] = ()) -> None:
    """Check differences; bounds named in ``wide`` may be wider than their oracle."""
    for name, (too_tight, too_wide) in found.items():
        by_nu = name in ("D", "difference", "gap", "W of pi")
        assert too_tight <= (OTHER_NU if by_nu else ROUNDING), (name, too_tight)
        if name not in wide and not by_nu:
            assert too_wide <= CLOSE, (name, too_wide)


# ---------------------------------------------------------------- one state-action pair


def test_the_dual_is_the_largest_mean_over_all_distributions() -> None:
    rng = np.random.default_rng(1)
    for _ in range(15):
        values = [float(x) for x in rng.random(3)]
        weights = [float(x) for x in rng.integers(1, 20, size=3)]
        top = float(rng.choice([0.5, 1.5]))
        eta = float(rng.choice([0.01, 0.2, 1.0]))
        exact = oracle.largest_mean(values, weights, top, eta).value
        assert abs(oracle.largest_mean_by_solver(values, weights, top, eta) - exact) < 1e-5


def test_no_rewards_of_missing_outcomes_reach_beyond_their_two_values() -> None:
    """Proposition 67: no rewards in [a, 1] of the same sum give a smaller sum of logarithms."""
    rng = np.random.default_rng(2)
    for _ in range(200):
        k = int(rng.integers(1, 6))
        paid = [float(x) for x in rng.choice([0.0, 0.2, 0.5, 0.9, 1.0], size=k)]
        cap = float(rng.uniform(0.3, 3))
        rest = float(rng.uniform(0, cap))
        nu = min(1 + rest, cap) + float(rng.uniform(0.01, 1))
        two = sum(w * math.log(nu - v) for v, w in oracle.missing_from_above(paid, rest, cap))
        true = sum(math.log(nu - min(r + rest, cap)) for r in paid)
        assert two <= true + 1e-9


def test_the_mixture_over_patterns_bounds_every_completion_of_lost_draws() -> None:
    """Proposition 66: its inequality at a true p follows from any E_n below 1/delta, all n <= 5."""
    p = [0.5, 0.3, 0.2]
    values = [0.0, 0.4, 1.0]
    nu, top = 1.2, 1.0
    mean = sum(a * b for a, b in zip(p, values, strict=True))
    for delta in (0.5, 0.1):
        failures = 0.0
        for draws in np.ndindex(3, 3, 3, 3, 3):
            for lost in [(), (1,), (0, 3), (2, 3, 4)]:
                seen = [x for i, x in enumerate(draws) if i not in lost]
                counts = [seen.count(x) for x in sorted(set(seen))]
                radius = oracle.pattern_radius(counts, len(lost), delta)
                if math.isinf(radius):
                    continue
                size = len(draws) - len(counts)
                total = sum(
                    (seen.count(x) - 1) * math.log(nu - values[x]) for x in sorted(set(seen))
                )
                total += len(lost) * math.log(nu - top)
                if size * math.log(nu - mean) < total - size * radius:
                    failures += math.prod(p[x] for x in draws) / 4
        assert failures <= delta


def test_published_and_kl_sets() -> None:
    rng = np.random.default_rng(3)
    for _ in range(60):
        n = int(rng.choice([0, 1, 2, 5, 30, 1000]))
        p = float(rng.integers(0, n + 1) / max(n, 1))
        delta_1 = float(rng.choice([0.5, 0.01, 1e-6]))
        ends = np.array(ucfh.confidence_set(p, n, delta_1))
        exact = np.array(oracle.published_set(p, n, delta_1))
        assert np.abs(ends - exact).max() <= 1e-5
        assert ends[0] <= exact[0] + 1e-12
        assert ends[1] >= exact[1] - 1e-12
        if n:
            ends = np.array(ucfh.kl_set(p, n, delta_1))
            exact = np.array(oracle.kl_ends(p, math.log(2 / delta_1) / n))
            assert np.abs(ends - exact).max() <= 1e-9
            assert ends[0] <= exact[0] + 1e-12
            assert ends[1] >= exact[1] - 1e-12


def test_scores_of_a_frozen_policy() -> None:
    rng = np.random.default_rng(4)
    best = KnownStateBounds(ucfh.make("chain:n=3").problem, 0.1)
    for _ in range(20):
        scores = [float(x) for x in rng.choice([0, 0.5, 1, 2.5], size=rng.integers(1, 300))]
        j = int(rng.integers(1, 5))
        counted = {x: scores.count(x) for x in set(scores)}
        exact = oracle.lower_mean(scores, math.log(j * (j + 1) / (0.1 * 0.15)))
        assert exact - 1e-6 <= best.score_bound(counted, j) <= exact + 1e-12


# ---------------------------------------------------------------- unknown state space


@pytest.mark.parametrize("lost", [0.0, 0.3])
def test_all_bounds_where_states_are_unknown(lost: float) -> None:
    """Propositions 56 to 67: U, L, W and D at all steps and states."""
    for seed in (1, 2, 3, 4, 5, 7, 11):  # 11: a chord to 1 would be too small by 0.026
        check(tables_differ(World(seed), [1, 3, 20, 100][seed % 4], lost), wide=("upper",))


def test_nothing_is_known_without_data() -> None:
    for seed in range(30):
        world = World(seed)
        found = oracle.UnknownStates(
            oracle.Data(world.task, [], []), 0.1, {"above": 1, "ladder": 1}
        )
        assert found.upper() >= world.task.cap(1)


def test_certificates_of_logs(tmp_path: Path) -> None:
    for seed in range(8):
        found = log_differs(World(seed), [3, 20, 100][seed % 3], 0.2, tmp_path / "log.csv")
        check(found, wide=("upper", "lower"))


def test_certificates_of_live_tasks(tmp_path: Path) -> None:
    for seed in (2, 3, 6, 16):
        check(task_differs(World(seed), 15, tmp_path / f"{seed}.db"), wide=("upper", "lower"))


# ---------------------------------------------------------------- known state space


def test_all_bounds_where_states_are_known() -> None:
    """Propositions 30 to 36: the number of events, and U, L, W and D at all possible (t, s)."""
    for seed in range(12):
        case = known_case(seed)
        exact = oracle.KnownStates(
            case.model, case.outcomes, case.starts, 0.1, case.shares, case.pays
        )
        events = count_events(case.problem)
        numbers = {"above": exact.N1, "below": exact.N2, "all": exact.R}
        assert all(events[part] == max(1, number) for part, number in numbers.items())
        best = KnownStateBounds(case.problem, 0.1, without=("scores",))
        b = best.bounds(case.counts)
        rows, low = best.robust()
        robust = best.lower_values(rows)
        actions = best.actions_of(b.greedy)
        possible = case.model.possible()
        policy = {(t + 1, s): int(actions[t, s]) for t, s in np.ndindex(*actions.shape)}
        D, _ = exact.difference(policy, overlap=True)
        for t, s in possible:
            assert -ROUNDING <= b.U[t - 1, s] - exact.U[t, s] <= CLOSE
            assert -ROUNDING <= exact.L[t, s] - b.L[t - 1, s] <= CLOSE
            assert -ROUNDING <= exact.W[t, s] - robust[t - 1, s] <= CLOSE
            if exact.told:
                assert -OTHER_NU <= b.D[t - 1, s] - D[t, s] <= OTHER_NU
        assert -ROUNDING <= exact.lower() - low <= CLOSE
        certificate = ucfh.certify(case.counts, case.problem, delta=0.1)
        assert -ROUNDING <= certificate.upper - exact.upper() <= CLOSE


@pytest.mark.parametrize("kind", ["kt", "kt-ball", "kl-ball"])
def test_planning_over_sets(kind: str) -> None:
    """Propositions 18, 20, 21, 28 and 29, by counts of any number."""
    for seed in range(4):
        case = known_case(seed, number=30, known_rewards=True)
        exact = oracle.PlanOverSets(case.model, case.outcomes, case.starts, 0.1, kind)
        agent = ucfh.CertifiedUCFH(case.problem, 0.5, 0.1, confidence=kind)
        agent.observe(case.counts)
        assert -ROUNDING <= agent.certificate.upper - exact.value(1) <= CLOSE
        assert -ROUNDING <= exact.value(-1) - agent.certificate.lower <= CLOSE


@pytest.mark.parametrize("kind", ["kl", "paper", "l1"])
def test_planning_over_sets_at_doublings(kind: str) -> None:
    """Propositions 15 to 17, 28 and 29: all pairs are visited 1, 2, 4 and 8 times."""
    for seed in (0, 2):
        case = known_case(seed, number=0, known_rewards=True)
        rng = np.random.default_rng(seed)
        agent = ucfh.CertifiedUCFH(case.problem, 0.5, 0.1, confidence=kind, schedule="doubling")
        for j, more in enumerate((1, 1, 2, 4), start=1):
            agent.observe(visit_all(case, more, rng))
            updates = dict.fromkeys([*case.model.successors, "start"], j)
            exact = oracle.PlanOverSets(case.model, case.outcomes, case.starts, 0.1, kind, updates)
            assert -ROUNDING <= agent.certificate.upper - exact.value(1) <= CLOSE
            assert -ROUNDING <= exact.value(-1) - agent.certificate.lower <= CLOSE


# ---------------------------------------------------------------- the logged policy


def test_the_logged_policy(tmp_path: Path) -> None:
    """Proposition 72, with missing outcomes and rewards of any range."""
    for seed in range(10):
        world = World(seed)
        log, steps, starts = log_of(world, [3, 30, 100][seed % 3], 0.2, tmp_path / "log.csv")
        low, _, shift, span = units_of(world.task)
        paid, complete = [0.0] * len(starts), [True] * len(starts)
        episode = -1
        for x in steps:
            episode += x.t == 1
            paid[episode] += 0.0 if x.reward is None else x.reward * span - shift
            missing = x.reward is None or x.t < world.H
            complete[episode] &= x.following != oracle.LOST or not missing
        most = world.H * (span - shift)
        if world.task.largest is not None:
            most = world.task.largest * span - world.H * shift
        least = world.H * min(low, 0.0)
        if most <= least:
            continue
        ends = oracle.behavior(paid, complete, least, most, 0.1)
        found = ucfh.certify(log, delta=0.1).behavior
        assert found is not None
        assert ends[0] - 1e-6 <= found.lower <= ends[0] + 1e-8
        assert ends[1] - 1e-8 <= found.upper <= ends[1] + 1e-6


# ---------------------------------------------------------------- sample complexity


@pytest.mark.parametrize("n", [4, 20])
@pytest.mark.parametrize("epsilon", [0.05, 1.0])
def test_hard_class(n: int, epsilon: float) -> None:
    """Proposition 80."""
    exact = oracle.hard_class_floor(n, 3, 22, epsilon, 0.1, 0.25, 0.125)
    found = ucfh.hard_class_lower_bound(n, 3, 22, epsilon, 0.1, gap=0.25, bias=0.125)
    assert exact * (1 - 1e-6) <= found <= exact * (1 + 1e-9)


@pytest.mark.parametrize("sizes", [(5, 2, 5, 5), (3, 4, 2, 2), (20, 3, 50, 4)])
def test_constants(sizes: tuple[int, int, int, int]) -> None:
    """Algorithm 1 as published, and Proposition 11."""
    states, actions, horizon, successors = sizes
    for exact, variant in [
        (oracle.published_constants(*sizes, 0.5, 0.1), "paper"),
        (oracle.corrected_constants(*sizes, 0.5, 0.1), "corrected"),
    ]:
        found = ucfh.constants(states, actions, horizon, 0.5, 0.1, successors, variant=variant)  # type: ignore[arg-type]
        for name, number in exact.items():
            assert getattr(found, name) == pytest.approx(number, rel=1e-12), (name, variant)


def test_theorem_2() -> None:
    """Proposition 12."""
    for states, actions, horizon, delta in [(5, 2, 5, 1e-4), (20, 4, 100, 1e-6)]:
        epsilon = 0.5 * (horizon - 2) / (640 * math.exp(4))
        exact = oracle.theorem_2(states, actions, horizon, epsilon, delta)
        rows = ucfh.bounds(states, actions, horizon, epsilon, delta)
        [found] = [x for x in rows if x.name == "Theorem 2, proved"]
        assert found.episodes == pytest.approx(exact, rel=1e-12)
