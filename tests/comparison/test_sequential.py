"""Sequential comparison: seeds are added until differences are significant."""

from __future__ import annotations

from itertools import combinations, pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support import agents
from ucfh import compare, make
from ucfh._utils.statistics import (
    LEVEL,
    Verdict,
    looks_of,
    ranking,
    signed_rank,
    verdicts,
)
from ucfh.comparison import runner
from ucfh.comparison.result import Comparison, Outcome


@given(st.integers(1, 400), st.integers(2, 20))
def test_looks_are_halves_that_can_show_something(seeds: int, count: int) -> None:
    looks = looks_of(seeds, count)
    assert looks[-1] == seeds
    assert all(a == -(-b // 2) for a, b in pairwise(looks))
    pairs = count * (count - 1) / 2
    if len(looks) > 1:
        assert pairs * 2.0 ** (1 - looks[0]) * len(looks) <= 1 - LEVEL
    before = -(-looks[0] // 2)
    if before < looks[0]:  # one more look would show nothing
        assert pairs * 2.0 ** (1 - before) * (len(looks) + 1) > 1 - LEVEL


def test_one_agent_alone_runs_with_all_seeds() -> None:
    assert looks_of(40, 1) == [40]


def slow_claims(regrets: dict[str, list[float]], looks: list[int]) -> dict[Any, float]:
    """The pairs that differ, with the corrected p-value, by sorting p-values by hand."""
    open_pairs, claimed = list(combinations(regrets, 2)), {}
    for n in looks:
        p = {}
        for a, b in open_pairs:
            d = [x - y for x, y in zip(regrets[a][:n], regrets[b][:n], strict=True)]
            p[a, b] = signed_rank(d).p
        worst = 0.0
        for rank, pair in enumerate(sorted(open_pairs, key=lambda x: p[x])):
            worst = max(worst, (len(p) - rank) * len(looks) * p[pair])
            if worst > 1 - LEVEL:
                break
            claimed[pair] = worst
        open_pairs = [pair for pair in open_pairs if pair not in claimed]
    return claimed


@pytest.mark.parametrize("seed", range(6))
def test_claims_are_those_of_the_slow_way(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shifts = {"a": 0.0, "b": 0.0, "c": 0.7, "d": 3.0}
    runs = {name: (rng.normal(size=50) + shift).tolist() for name, shift in shifts.items()}
    looks = looks_of(50, 4)
    found = verdicts({name: dict(enumerate(x)) for name, x in runs.items()}, looks)
    expected = slow_claims(runs, looks)
    assert {pair for pair, x in found.items() if x.significant} == set(expected)
    for pair, p in expected.items():
        assert found[pair].p == pytest.approx(p, rel=1e-12)
    assert ("a", "d") in expected


def test_a_single_look_is_the_usual_ranking() -> None:
    rng = np.random.default_rng(1)
    runs = {name: dict(enumerate(rng.normal(size=20) + k)) for k, name in enumerate("abc")}
    assert ranking(runs) == ranking(runs, [20])


def test_looks_without_new_seeds_are_left_out() -> None:
    """Or the same data would be looked at again, among fewer pairs."""
    runs = {"a": dict.fromkeys(range(7), 0.0), "b": {k: 1.0 + k for k in range(7)}}
    p = 2.0 ** (1 - 7)
    assert verdicts(runs, [7, 14, 28])["a", "b"] == Verdict(3 * p, -1)
    # the part of a look that an interruption left counts as that look
    assert verdicts(runs, [4, 14])["a", "b"] == Verdict(2 * p, -1)


def outcome(agent: str, seed: int, regret: float) -> Outcome:
    curve = np.ones(1)
    return Outcome(agent, seed, 0, 0, regret, 0.0, 1.0, 0, 0.0, 0.0, curve, curve)


def test_only_undecided_agents_get_more_seeds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two equal agents run with all seeds; the others with those of the first look."""
    level = {"low": 0.0, "same": 50.0, "alike": 50.0, "high": 99.0}

    def fake(jobs: Any, *_: Any) -> Any:
        for job in jobs:
            noise = np.random.default_rng([job.seed, len(job.agent)]).normal()
            yield job, outcome(job.agent, job.seed, level[job.agent] + noise)

    monkeypatch.setattr(runner, "do_all", lambda _, jobs, *rest: fake(jobs, *rest))
    seen: list[tuple[int, int]] = []
    result = compare(
        make("chain:n=3"), dict.fromkeys(level, agents.good), 1, seeds=40,
        until_significant=True, progress=lambda *x: seen.append(x),
    )  # fmt: skip
    assert result.looks == looks_of(40, 4) == [10, 20, 40]
    ran = {name: sorted(x.seed for x in result.outcomes if x.agent == name) for name in level}
    assert ran == {
        "low": [*range(10)], "same": [*range(40)], "alike": [*range(40)], "high": [*range(10)]
    }  # fmt: skip
    assert result.undecided() == ["same", "alike"]
    ranks = {x.place.agent: (x.place.first, x.place.last) for x in result.standings()}
    assert ranks == {"low": (1, 1), "same": (2, 3), "alike": (2, 3), "high": (4, 4)}
    assert seen == [(k, 160 if k <= 40 else 100) for k in range(1, 101)]
    assert result.complete == 10
    assert result.seeds_run == "10 to 40 of at most 40 seeds"


def test_the_runs_are_those_of_a_comparison_with_all_seeds() -> None:
    makers: dict[str, Any] = {"good": agents.good, "late": agents.late}
    few = compare("chain:n=4", makers, 300, seeds=28, until_significant=True, workers=1)
    assert few.looks == [7, 14, 28]
    assert {x.seed for x in few.outcomes} == set(range(7))
    assert few.undecided() == []
    assert few.seeds_run == "7 of at most 28 seeds"
    full = compare("chain:n=4", makers, 300, seeds=7, workers=1)
    assert [x.regret for x in few.outcomes] == [x.regret for x in full.outcomes]


def test_an_early_end_keeps_claims() -> None:
    """Also if the user stops it before the second look."""
    outcomes = [outcome(a, k, r + k) for a, r in (("a", 0.0), ("b", 1.0)) for k in range(9)]
    result = Comparison(["a", "b"], 1, 28, 0.1, 1.0, outcomes, interrupted=True, looks=[7, 14, 28])
    assert result.standings()[1].place.p == 3 * 2.0 ** (1 - 7)
    assert result.seeds_run == "9 of at most 28 seeds"
    result.looks = [28]
    assert result.seeds_run == "9 of 28 seeds"
