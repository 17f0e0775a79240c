"""Bounds of the behavior's value: against a slow sum, and coverage in many logs."""

from __future__ import annotations

from collections.abc import Callable
from math import exp, inf, log

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from support.settings import many
from ucfh._utils.arrays import Floats
from ucfh.confidence import behavior_policy
from ucfh.confidence.behavior_policy import behavior_of

Law = Callable[[np.random.Generator, int], tuple[Floats, Floats]]
"""Draws the expectations mu (n,) and the returns x (n,) of n episodes."""


def slow_lower(x: list[float], delta: float) -> float:
    """The bound from below, bet by bet: the largest sum of means that no wealth refutes."""
    best = 0.0
    for k in range(20):
        stake = 2.0 ** -(k + 1)
        needed = (k + 1) * (k + 2) / delta
        # the wealth at the sum m of means is exp(stake (sum x - m) - psi spread)
        spread, before = 0.0, [0.5]
        for value in x:
            spread += (value - sum(before) / len(before)) ** 2
            before.append(value)
        psi = -log(1 - stake) - stake
        low, high = 0.0, float(len(x))
        for _ in range(80):
            middle = (low + high) / 2
            power = stake * (sum(x) - middle) - psi * spread
            low, high = (middle, high) if power > log(needed) else (low, middle)
        best = max(best, low)
    return best / len(x)


RETURNS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=60)


@given(RETURNS, st.sampled_from([(0.0, 1.0), (-20.0, 80.0), (0.0, 1e6)]), st.floats(0.01, 0.9))
def test_it_is_the_best_of_all_bets(
    episodes: list[tuple[float, bool]], ends: tuple[float, float], delta: float
) -> None:
    least, most = ends
    x, complete = [x for x, _ in episodes], [ended for _, ended in episodes]
    found = behavior_of(
        least + (most - least) * np.array(x), np.array(complete), least, most, delta
    )
    lost = -least / (most - least)  # what the steps that are not logged cost at worst
    below = [value if ended else max(0.0, value - lost) for value, ended in episodes]
    above = [1 - value if ended else 0.0 for value, ended in episodes]
    low, high = slow_lower(below, delta / 2), 1 - slow_lower(above, delta / 2)
    near = pytest.approx([low, high], abs=1e-8)
    assert [(found.lower - least) / (most - least), (found.upper - least) / (most - least)] == near
    assert least <= found.lower <= found.upper <= most
    assert (found.episodes, found.incomplete) == (len(x), complete.count(False))


def test_no_bet_gains_on_average() -> None:
    """The inequality behind it, at every place where it could fail."""
    for stake in np.linspace(0, 0.999, 50):
        psi = -log(1 - stake) - stake
        for y in np.linspace(-1, 1, 201):
            assert exp(stake * y - psi * y**2) <= 1 + stake * y + 1e-12


def test_nothing_is_known_without_episodes() -> None:
    found = behavior_of(np.zeros(0), np.zeros(0, bool), -3.0, 7.0, 0.1)
    assert (found.lower, found.upper, found.episodes) == (-3, 7, 0)


def test_what_is_not_known_widens_the_bounds() -> None:
    rng = np.random.default_rng(0)
    paid = rng.random(500)
    ended = rng.random(500) < 0.9
    alone = behavior_of(paid, np.ones(500, bool), 0, 1, 0.1)
    found = behavior_of(np.where(ended, paid, paid / 2), ended, 0, 1, 0.1)
    assert found.lower < alone.lower < alone.upper < found.upper
    assert found.upper - alone.upper > 0.03  # a tenth of the episodes, half of the range each


# -- against the truth ----------------------------------------------------------------------------


def coin(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    return np.full(n, 0.5), (rng.random(n) < 0.5).astype(float)


def contrary(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """The behavior changes with what was paid: it is bad whenever it went well before."""
    mu, x, u, total = np.empty(n), np.empty(n), rng.random(n), 0.0
    for i in range(n):
        mu[i] = 0.2 if total > i / 2 else 0.8
        x[i] = u[i] < mu[i]
        total += x[i]
    return mu, x


TIMES = np.unique([int(1.1**k) for k in range(100)])
"""Numbers of episodes at which bounds are computed: up to 12,527."""


def misses(law: Law, delta: float, logs: int) -> int:
    """In how many logs the bound from below is ever too high."""
    rng, out = np.random.default_rng(0), 0
    for _ in range(logs):
        mu, x = law(rng, int(TIMES[-1]))
        truth = np.cumsum(mu)
        bounds = (behavior_policy._lower_bound(x[:n], delta) for n in TIMES)
        out += any(b > truth[n - 1] / n for b, n in zip(bounds, TIMES, strict=True))
    return out


@pytest.mark.slow
@pytest.mark.parametrize("law", [coin, contrary])
def test_it_holds_at_all_times(law: Law) -> None:
    logs, delta = many(100, 400), 0.2
    assert stats.binomtest(misses(law, delta, logs), logs, delta, "less").pvalue < 1e-3


@pytest.mark.slow
def test_bets_that_are_not_paid_for_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    logs, delta = many(600, 1000), 0.2
    monkeypatch.setattr(behavior_policy, "UNION_COST", np.zeros(20))
    assert stats.binomtest(misses(coin, delta, logs), logs, delta, "greater").pvalue < 1e-3
    monkeypatch.undo()
    monkeypatch.setattr(behavior_policy, "PSI", behavior_policy.PSI / 4)
    logs //= 4  # so few show it
    assert stats.binomtest(misses(coin, delta, logs), logs, delta, "greater").pvalue < 1e-3


def stopped_by_outcome(rng: np.random.Generator, n: int) -> tuple[Floats, Floats]:
    """Half of the bad episodes are never finished: (paid, finished)."""
    paid = (rng.random(n) < 0.5).astype(float)
    return paid, (paid == 1) | (rng.random(n) < 0.5)


def test_episodes_that_stop_short_may_not_be_left_out() -> None:
    rng = np.random.default_rng(1)
    wrong, right = 0, 0
    for _ in range(200):
        paid, ended = stopped_by_outcome(rng, 1000)
        kept = paid[ended.astype(bool)]
        without = behavior_of(kept, np.ones(len(kept), bool), 0, 1, 0.1)
        wrong += not without.lower <= 0.5 <= without.upper
        found = behavior_of(paid, ended.astype(bool), 0, 1, 0.1)
        right += found.lower <= 0.5 <= found.upper
    assert (wrong, right) == (200, 200)


def test_returns_may_be_of_any_size() -> None:
    found = behavior_of(np.array([1e300, 2e300]), np.ones(2, bool), 0.0, 3e300, 0.1)
    assert 0 <= found.lower <= found.upper <= 3e300 < inf
