"""Comparison of agents: statistics, outcomes of runs, and failing processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import fields
from itertools import chain, combinations, product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support import agents
from support.settings import LONG, many
from ucfh import MDP, InputError, make
from ucfh._utils.parallel import DIED
from ucfh._utils.statistics import LEVEL, holm, median_interval, ranking, signed_rank
from ucfh.comparison.result import Comparison, Outcome, grid_of
from ucfh.comparison.runner import SeedRun, _reduce, compare
from ucfh.simulation.result import Phase, Run

# -- statistics


@pytest.mark.parametrize("n", [6, 7, 8, 9, 10, 20, 21, 100, 2000])
def test_interval_of_a_median_is_that_of_scipy(n: int) -> None:
    values = np.random.default_rng(n).exponential(size=n)
    found = median_interval(values)
    expected: Any = stats.quantile_test(values, p=0.5).confidence_interval(LEVEL)
    assert (found.low, found.high) == (expected.low, expected.high)
    assert found.median == np.median(values)
    k = int(np.searchsorted(np.sort(values), found.low))
    assert found.coverage == pytest.approx(1 - 2 * stats.binom.cdf(k, n, 0.5), rel=1e-9)
    # one order statistic further in would not do
    assert 1 - 2 * stats.binom.cdf(k + 1, n, 0.5) < LEVEL <= found.coverage


@pytest.mark.parametrize("n", [1, 2, 5])
def test_interval_of_few_values_is_their_range(n: int) -> None:
    values = [float(x) for x in range(n)]
    assert median_interval(values) == ((n - 1) / 2, 0, n - 1, 1 - 2 * 0.5**n)


@pytest.mark.parametrize("n", [1, 2, 5, 12, 20, 40])
def test_signed_rank_is_that_of_scipy(n: int) -> None:
    for seed, shift in product(range(5), (0.0, 0.5, 3.0)):
        d = np.random.default_rng(seed).normal(shift, size=n)
        found = signed_rank(d)
        assert found.p == pytest.approx(stats.wilcoxon(d, method="exact").pvalue, rel=1e-9)


@given(st.lists(st.integers(-4, 4), max_size=9))
def test_signed_rank_with_ties_and_zeros_counts_all_signs(differences: list[int]) -> None:
    d = np.array([x for x in differences if x], float)
    ranks = stats.rankdata(np.abs(d))
    away = np.abs([ranks @ np.array(signs, float) for signs in product((-1, 1), repeat=len(d))])
    seen = float(ranks @ np.sign(d))
    found = signed_rank(np.array(differences, float))
    assert found.p == pytest.approx(np.mean(away >= abs(seen) - 1e-9), rel=1e-12)
    assert found.side == np.sign(round(seen, 9))


@given(st.lists(st.floats(0, 1), min_size=1, max_size=7))
def test_holm_is_bonferroni_over_all_families(p: list[float]) -> None:
    """By closed testing: a claim stands if all families that hold it reject."""
    everyone = range(len(p))
    families = list(chain.from_iterable(combinations(everyone, k + 1) for k in everyone))
    for i, corrected in enumerate(holm(p)):
        claims = [len(f) * min(p[j] for j in f) for f in families if i in f]
        assert corrected == pytest.approx(min(1.0, max(claims)), abs=1e-15)


@pytest.mark.slow
def test_equal_agents_rarely_differ_significantly() -> None:
    """Though the best was chosen by the same data: tests with the best alone claim 41 times."""
    rng, trials, false = np.random.default_rng(2), many(100, 300), 0
    for _ in range(trials):
        world = rng.normal(size=16)
        runs = {str(i): dict(enumerate(world + rng.normal(size=16))) for i in range(12)}
        false += any((place.first, place.last) != (1, 12) for place in ranking(runs))
    # 5 in 100 expected at most; this is exceeded in 1 of 500 such tests
    assert false <= stats.binom.isf(0.002, trials, 1 - LEVEL)


def test_ranking_pairs_seeds() -> None:
    world = np.random.default_rng(1).normal(scale=100, size=20)  # far larger than the differences
    near, far = 1e-13 * np.arange(20), 5.0 + np.arange(20)
    runs = {"far": world + far, "twin": world + near, "good": world}
    good, twin, worst = ranking({k: dict(enumerate(v)) for k, v in runs.items()})
    assert {good.agent, twin.agent} == {"twin", "good"}
    assert (good.first, good.last, twin.first, twin.last) == (1, 2, 1, 2)
    assert (good.p, twin.p) == (None, 1.0)
    assert (worst.agent, worst.first, worst.last) == ("far", 3, 3)
    assert worst.p == pytest.approx(3 * 2 / 2**20)
    # too few seeds in common say nothing
    assert ranking({"a": {0: 1.0, 1: 1.0}, "b": {2: 9.0}})[1].p == 1.0


# -- outcomes of runs


@pytest.mark.slow
@given(
    st.lists(
        st.tuples(st.integers(0, 60), st.sampled_from([-1e-16, 0.0, 0.1, 0.1 + 1e-12, 0.2, 3.0])),
        min_size=1,
        max_size=8,
    ),
    st.integers(0, 40),
)
def test_a_run_is_reduced_exactly(phases: list[tuple[int, float]], endless: int) -> None:
    rows, first = [], 0
    for episodes, gap in phases:
        rows.append(Phase(first, episodes, 1 - gap, 1.0, gap, 1.0))
        first += episodes
    total = first + endless
    if total == 0:
        return
    mdp = make("chain:n=3")
    run = Run({}, 1.0, None, None, np.zeros((1, 1)), final=bool(endless), rows=rows)
    found = _reduce(SeedRun("a", agents.good, 5, mdp, total, 0.1), agents.good(mdp, 0), run)
    gaps = np.array([gap for n, gap in phases for _ in range(n)] + [phases[-1][1]] * endless)
    wrong = gaps > 0.1 + 1e-9
    at = grid_of(total).astype(int) - 1
    assert (found.agent, found.seed, found.gap) == ("a", 5, max(0.0, phases[-1][1]))
    assert found.mistakes == wrong.sum()
    assert found.last_mistake == (np.flatnonzero(wrong)[-1] + 1 if wrong.any() else 0)
    # sums of at most 520 terms of at most 3
    np.testing.assert_allclose(found.regret_curve, np.cumsum(gaps)[at], atol=1e-11)
    np.testing.assert_array_equal(found.mistakes_curve, np.cumsum(wrong)[at])
    assert found.regret == found.regret_curve[-1]


@pytest.mark.parametrize("episodes", [1, 2, 10, 12345, 10**15])
def test_grid(episodes: int) -> None:
    grid = grid_of(episodes)
    assert (grid[0], grid[-1]) == (1, episodes)
    assert len(grid) <= 200
    assert (np.diff(grid) >= 1).all()
    assert (grid == grid.round()).all()


# -- runs in processes


@pytest.fixture(scope="module")
def mdp() -> MDP:
    return make("chain:n=4")


def same(one: Outcome, other: Outcome) -> bool:
    timing = ("seconds", "planning_seconds")
    return all(
        np.array_equal(getattr(one, x.name), getattr(other, x.name))
        for x in fields(Outcome)
        if x.name not in timing
    )


def keys(result: Comparison) -> list[tuple[str, int]]:
    return [(x.agent, x.seed) for x in result.outcomes]


@pytest.mark.verify
@pytest.mark.slow
def test_any_number_of_workers_gives_the_same_result(mdp: MDP) -> None:
    makers = {"good": agents.good, "late": agents.late}
    results = [compare(mdp, makers, 3000, seeds=4, workers=n) for n in (1, 2, 3)]
    for result in results:
        assert keys(result) == [(name, seed) for name in makers for seed in range(4)]
        assert (result.failures, result.interrupted, result.complete) == ([], False, 4)
        assert all(map(same, results[0].outcomes, result.outcomes))
    regrets = {x.regret for x in results[0].outcomes}
    assert len(regrets) > 4  # seeds differ, and agents


@pytest.mark.slow
def test_named_agents_are_those_of_the_registry(mdp: MDP) -> None:
    from ucfh import simulate
    from ucfh.algorithms.registry import make_agent

    result = compare(mdp, ["ucbvi-ch", "ucbvi-bf"], 200, seeds=2, scale=0.5, workers=1)
    assert [x.scale for x in result.outcomes] == [0.5] * 4
    run = simulate(mdp, make_agent("ucbvi-bf", mdp, 0.1, 0.1, 200, scale=0.5), 200, seed=1)
    found = result.outcomes[-1]
    assert (found.agent, found.seed) == ("ucbvi-bf", 1)
    assert found.regret == pytest.approx(run.regret, rel=1e-12)
    assert found.mistakes == run.mistakes(0.1)


@pytest.mark.verify
@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2] if LONG else [2])
def test_a_process_that_dies_costs_the_runs_under_way(mdp: MDP, workers: int) -> None:
    makers: dict[str, Any] = {name: getattr(agents, name) for name in ("good", "killed", "faulty")}
    seen: list[tuple[int, int]] = []
    result = compare(
        mdp, makers, 1000, seeds=3, workers=workers, progress=lambda *x: seen.append(x)
    )
    faults = {(x.agent, x.seed): x.reason for x in result.failures}
    assert faults.pop(("killed", 1)) == DIED
    lost = {key for key, reason in faults.items() if reason == DIED}
    if ("faulty", 2) not in lost:
        assert faults["faulty", 2] == "RuntimeError: no way"
    everything = {(name, seed) for name in makers for seed in range(3)}
    assert set(keys(result)) == everything - {("killed", 1), ("faulty", 2)} - lost
    assert seen == [(k + 1, 9) for k in range(9)]
    # the other runs are not affected
    alone = compare(mdp, {"good": agents.good}, 1000, seeds=3)
    regret = {x.seed: (x.regret, x.mistakes) for x in alone.outcomes}
    for one in result.outcomes:
        assert (one.regret, one.mistakes) == regret[one.seed]


@pytest.mark.slow
def test_ctrl_c_keeps_finished_runs(tmp_path: Path) -> None:
    code = """
from support import agents
from ucfh import make
from ucfh.comparison.runner import compare

makers = {"good": agents.good, "endless": agents.endless}
result = compare(make("chain:n=4"), makers, 1000, seeds=9, workers=2)
print(result.interrupted, result.complete, len(result.outcomes) >= 2)
"""
    path = os.pathsep.join(sys.path)
    environment = {**os.environ, "UCFH_MARKS": str(tmp_path), "PYTHONPATH": path}
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        env=environment, start_new_session=True,
    ) as process:  # fmt: skip
        try:
            while not (tmp_path / "endless").exists():
                assert process.poll() is None
                time.sleep(0.05)
            time.sleep(0.5)  # until seed 0 is reported
            began = time.perf_counter()
            os.killpg(process.pid, signal.SIGINT)  # as a terminal does
            out, err = process.communicate(timeout=50)
        finally:
            process.kill()
    assert time.perf_counter() - began < 20
    assert (out, err) == ("True 1 True\n", "")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"episodes": 0}, "episodes = 0"),
        ({"seeds": 0}, "seeds = 0"),
        ({"workers": 0}, "workers = 0"),
        ({"epsilon": 2.0}, "epsilon = 2.0"),
        ({"delta": 0.0}, "delta = 0.0"),
        ({"agents": []}, "agents"),
        ({"agents": ["ucbvi-ch", "ucbvi-ch"]}, "ucbvi-ch"),
        ({"agents": ["ucbvi-cj"]}, "'ucbvi-ch'"),
        ({"agents": ["psrl:pri=1"]}, "'pri'"),
    ],
)
def test_wrong_input(mdp: MDP, change: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError) as error:
        compare(**{"mdp": mdp, "agents": {"good": agents.good}, "episodes": 10, **change})
    assert words in str(error.value)
