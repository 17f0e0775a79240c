"""Rates at which confidence sets ever exclude the truth, under optional stopping.

Two thousand rows with the same law are drawn from side by side, and each is looked at after every
draw (at first; then after every 2% more). A set that holds at all times excludes the truth in at
most a share delta of the rows, ever; one that holds at doublings, at its doublings. The same
for the martingales that the best certificate rests on, each on its own. Sets that are known to be
wrong are tried too, and have to be found out.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

import ucfh.confidence.known_states
import ucfh.confidence.sets
from ucfh import Counts, Problem
from ucfh._kernels.mixtures import lower_mean, portfolio_regret
from ucfh.confidence.known_states import REWARD_SHARES, SHARES, KnownStateBounds
from ucfh.confidence.sets import ALWAYS, AT_DOUBLINGS, ModelSet

Floats = NDArray[np.float64]

ROWS = 2000
SURE = 1e-6
"""A share is refuted if what was seen is less likely than this under it."""

LAWS: dict[str, tuple[float, ...]] = {
    "coin": (0.5, 0.5),
    "rare": (0.02, 0.98),
    "even": (0.25, 0.25, 0.25, 0.25),
    "skewed": (0.9, 0.05, 0.03, 0.02),
}
LEVELS = (0.5, 0.1, 0.02)


def refuted(missed: int, share: float) -> bool:
    """Return whether so many misses are too many."""
    return bool(stats.binom.sf(missed - 1, ROWS, share) < SURE)


def many_rows(successors: int) -> Problem:
    """About as many rows as wanted, each of which leads to any state."""
    return Problem(successors, ROWS // successors, 1, rewards=np.zeros((successors, 1)), initial=0)


def times(last: int = 5000) -> list[int]:
    """1, 2, 3, ... and then 2 % more each time."""
    found = [1]
    while found[-1] < last:
        found.append(found[-1] + max(1, found[-1] // 50))
    return found


def draw(
    problem: Problem, p: Sequence[float], at: Sequence[int], seed: int = 0
) -> Iterator[Counts]:
    """Counts of all rows after each of some numbers of draws."""
    rng, counts, table = np.random.default_rng(seed), Counts.zero(problem), problem.table
    before = 0
    for n in at:
        new = rng.multinomial(n - before, p, size=table.start)
        counts.successors[: new.size] += new.ravel()
        counts.visits[:-1], before = n, n
        yield counts


def entropy(counts: Counts, p: Sequence[float]) -> Floats:
    """(rows,) KL(p^, p) of each row but the start."""
    p_hat = counts.successors[:-1].reshape(-1, len(p)) / counts.visits[0]
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where(p_hat > 0, p_hat * np.log(p_hat / np.array(p)), 0.0)
    return np.asarray(terms.sum(1))


def ever_missed(
    kind: str, p: Sequence[float], level: float, at: Sequence[int], doublings: bool = False
) -> int:
    """In how many rows the truth is ever excluded, by an event that may fail with chance level."""
    problem, C = many_rows(len(p)), len(p)
    sets = ModelSet(problem, 1.0, kind)
    box = kind in ("paper", "kl", "kt")
    # every row has one event, or one for each probability that is bounded on its own
    sets.delta = level * problem.table.start * ({2: 1}.get(C, C) if box else 1)
    missed = np.zeros(problem.table.start, bool)
    updates = np.zeros(problem.table.rows, np.int64)
    for j, counts in enumerate(draw(problem, p, at)):
        updates[:] = j + 1 if doublings else 1
        sets.learn(counts, updates)
        if sets.box is not None:
            first = slice(0, problem.table.start * C, C)  # of each row, the first probability
            lo, hi = sets.box.lo[first], sets.box.hi[first]
            missed |= (p[0] < lo - 1e-12) | (p[0] > hi + 1e-12)
            continue
        away = entropy(counts, p)
        if kind == "l1":
            p_hat = counts.successors[:-1].reshape(-1, C) / counts.visits[0]
            away = abs(p_hat - np.array(p)).sum(1)
        missed |= away > sets._eta[:-1] + 1e-12
    return int(missed.sum())


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", ALWAYS)
def test_sets_that_hold_always(kind: str, law: str) -> None:
    rates = []
    for level in LEVELS:
        missed = ever_missed(kind, LAWS[law], level, times())
        rates.append(f"{missed / ROWS:.4f} of {level}")
        assert not refuted(missed, level)
        if kind != "kl-ball":  # a martingale, not a bound of one: most of delta is made use of
            assert missed / ROWS > level / 8
    print(f"{kind}, {law}: excluded the truth in {', '.join(rates)}")


@pytest.mark.parametrize("law", LAWS)
@pytest.mark.parametrize("kind", AT_DOUBLINGS)
def test_sets_that_hold_at_doublings(kind: str, law: str) -> None:
    rates = []
    for level in LEVELS:
        at = [2**j for j in range(20)]
        missed = ever_missed(kind, LAWS[law], level, at, doublings=True)
        rates.append(f"{missed / ROWS:.4f} of {level}")
        assert not refuted(missed, level)
    print(f"{kind}, {law}: excluded the truth in {', '.join(rates)}")


def test_a_set_for_one_n_does_not_hold_always() -> None:
    """The KL set, right at any one n, fails under optional stopping."""
    missed = ever_missed("kl", LAWS["coin"], 0.1, times())
    at_one = ever_missed("kl", LAWS["coin"], 0.1, [1000])
    print(f"kl without doublings: {missed / ROWS:.3f}, at n = 1000 {at_one / ROWS:.3f}, of 0.1")
    assert refuted(missed, 0.1)
    assert not refuted(at_one, 0.1)


def test_a_mixture_without_its_excess_is_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ucfh.confidence.sets, "binary_excess", lambda k, n: 0.0 * n)  # noqa: ARG005
    monkeypatch.setattr(ucfh.confidence.sets, "excess", lambda *given: given[-1].fill(0.0))
    for kind, law in (("kt", "coin"), ("kt-ball", "even")):
        missed = ever_missed(kind, LAWS[law], 0.1, times())
        print(f"{kind} without excess: {missed / ROWS:.3f} of 0.1")
        assert refuted(missed, 0.1)


# -- the martingales of the best certificate -------------------------------------------------------


def best_of(problem: Problem, part: str, level: float) -> KnownStateBounds:
    """Bounds of which one part fails with chance ``level`` a row."""
    shares = SHARES | (REWARD_SHARES if problem.rewards is None else {})
    return KnownStateBounds(
        problem, level * problem.table.start / (shares[part] / sum(shares.values()))
    )


@pytest.mark.parametrize("law", LAWS)
def test_the_sparse_mixture(law: str) -> None:
    p, rates = LAWS[law], []
    for level in LEVELS:
        problem = many_rows(len(p))
        best, missed = best_of(problem, "all", level), np.zeros(problem.table.start, bool)
        for counts in draw(problem, p, times()):
            best.budget(counts)
            missed |= entropy(counts, p) > best.eta_all[:-1] + 1e-12
        rates.append(f"{missed.mean():.4f} of {level}")
        assert not refuted(int(missed.sum()), level)
        assert missed.mean() > level / 8
    print(f"all functions, {law}: excluded the truth in {', '.join(rates)}")


def pattern_missed(law: str, level: float) -> int:
    """Rows in which the true law of outcomes is ever outside of the ball around repetitions."""
    p = LAWS[law]
    problem = many_rows(len(p)).hiding("rewards")
    best, missed = best_of(problem, "outcomes", level), np.zeros(problem.table.start, bool)
    for counts in draw(problem, p, times()):
        best.budget(counts)
        again = np.maximum(counts.successors[:-1].reshape(-1, len(p)) - 1, 0)
        share = again / np.maximum(again.sum(1), 1)[:, None]
        with np.errstate(divide="ignore", invalid="ignore"):
            away = np.where(share > 0, share * np.log(share / np.array(p)), 0.0).sum(1)
        missed |= away > best.eta_outcomes[:-1] + 1e-12
    return int(missed.sum())


@pytest.mark.parametrize("law", LAWS)
def test_the_mixture_over_patterns(law: str) -> None:
    """Labels that nobody named, in the order in which they come up."""
    rates = []
    for level in LEVELS:
        missed = pattern_missed(law, level)
        rates.append(f"{missed / ROWS:.4f} of {level}")
        assert not refuted(missed, level)
        assert missed / ROWS > level / 8
    print(f"outcomes, {law}: excluded the truth in {', '.join(rates)}")


def test_patterns_without_their_excess_are_found_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        ucfh.confidence.known_states, "pattern_excess", lambda *given: given[-1].fill(0.0)
    )
    missed = pattern_missed("even", 0.1)
    print(f"outcomes without excess: {missed / ROWS:.3f} of 0.1")
    assert refuted(missed, 0.1)


def least_entropy(p_hat: Floats, f: Floats, mu: float) -> Floats:
    """(rows,) min { KL(p^, q) : q f >= mu }: the best bet against a mean of mu, by bisection."""
    gain = mu - f
    low, high = np.zeros(len(p_hat)), np.full(len(p_hat), 1 / (f.max() - mu))
    for _ in range(45):
        bet = (low + high) / 2
        slope = (p_hat * gain / (1 + bet[:, None] * gain)).sum(1)
        low, high = np.where(slope > 0, bet, low), np.where(slope > 0, high, bet)
    return np.asarray((p_hat * np.log1p(low[:, None] * gain)).sum(1))


# name: a law, and a function whose mean is bounded from above
FUNCTIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "coin": ((0.5, 0.5), (0.0, 1.0)),
    "rare gain": ((0.02, 0.98), (1.0, 0.0)),
    "rare loss": ((0.02, 0.98), (0.0, 1.0)),
    "even": ((0.25, 0.25, 0.25, 0.25), (0.0, 0.3, 0.7, 1.0)),
    "skewed": ((0.9, 0.05, 0.03, 0.02), (0.5, 0.0, 3.0, 1.0)),
}


def function_missed(name: str, level: float, regret: bool = True) -> int:
    """Rows in which the mean of a fixed function is ever said to be smaller than it is."""
    p, f = FUNCTIONS[name][0], np.array(FUNCTIONS[name][1])
    problem, mu = many_rows(len(p)), float(np.dot(p, f))
    missed = np.zeros(problem.table.start, bool)
    for counts in draw(problem, p, times(3000)):
        n = int(counts.visits[0])
        p_hat = counts.successors[:-1].reshape(-1, len(p)) / n
        budget = -np.log(level) + regret * float(portfolio_regret(float(n)))
        missed |= n * least_entropy(p_hat, f, mu) > budget
    return int(missed.sum())


@pytest.mark.parametrize("name", FUNCTIONS)
def test_the_mean_of_one_function(name: str) -> None:
    """V* from above; from below it is the same with another sign, as in "rare loss"."""
    rates = []
    for level in LEVELS:
        missed = function_missed(name, level)
        rates.append(f"{missed / ROWS:.4f} of {level}")
        assert not refuted(missed, level)
    print(f"one function, {name}: bounded too low in {', '.join(rates)}")


def test_a_portfolio_without_its_regret_is_found_out() -> None:
    missed = function_missed("coin", 0.1, regret=False)
    print(f"one function without regret: {missed / ROWS:.3f} of 0.1")
    assert refuted(missed, 0.1)


@pytest.mark.parametrize("law", ["bernoulli", "rare", "uniform", "constant"])
def test_unknown_rewards(law: str) -> None:
    """Means of any variables in [0, 1], from both sides at once."""
    rng, problem = np.random.default_rng(1), Problem(1, ROWS, 1, initial=0)
    mean = {"bernoulli": 0.5, "rare": 0.03, "uniform": 0.5, "constant": 0.7}[law]
    rates = []
    for level in LEVELS:
        best, counts = best_of(problem, "rewards", level), Counts.zero(problem)
        missed, before = np.zeros(ROWS, bool), 0
        for n in times():
            more = n - before
            if law in ("bernoulli", "rare"):
                new = rng.binomial(more, mean, ROWS).astype(float)
            elif law == "uniform":
                new = rng.random((ROWS, more)).sum(1)
            else:
                new = np.full(ROWS, mean * more)
            counts.rewards[:-1] += new
            counts.visits[:-1] = counts.successors[:-1] = before = n
            best.budget(counts)
            low, high = best.r_low[:-1], best.r_up[:-1]
            missed |= (low > mean + 1e-9) | (high < mean - 1e-9)
        rates.append(f"{missed.mean():.4f} of {level}")
        assert not refuted(int(missed.sum()), level)
    print(f"rewards, {law}: excluded the truth in {', '.join(rates)}")


SCORES: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "coin": ((0.0, 1.0), (0.5, 0.5)),
    "rare": ((0.0, 4.0), (0.97, 0.03)),
    "returns": ((0.5, 1.5, 2.0, 3.0), (0.1, 0.2, 0.3, 0.4)),
}


def scores_missed(name: str, level: float) -> int:
    """Policies that are ever said to earn more than they do."""
    x, p = (np.array(part) for part in SCORES[name])
    rng, missed = np.random.default_rng(2), np.zeros(ROWS, bool)
    goal, seen, before = -float(np.log(level)), np.zeros((ROWS, len(x)), np.int64), 0
    for n in times(1000):
        seen += rng.multinomial(n - before, p, size=ROWS)
        before = n
        for row in np.flatnonzero(~missed & (seen @ x > n * (p @ x))):
            missed[row] = lower_mean(x, seen[row], goal) > p @ x + 1e-12
    return int(missed.sum())


@pytest.mark.parametrize("name", SCORES)
def test_bounds_by_scores(name: str) -> None:
    rates = []
    for level in (0.5, 0.1):
        missed = scores_missed(name, level)
        rates.append(f"{missed / ROWS:.4f} of {level}")
        assert not refuted(missed, level)
        assert missed / ROWS > level / 20
    print(f"scores, {name}: said to earn too much in {', '.join(rates)}")


def test_the_same_row_is_bounded_however_many_there_are() -> None:
    """The price of many rows is the logarithm of their number, and nothing else."""
    for kind in (*ALWAYS, *AT_DOUBLINGS):
        widths: list[Any] = []
        for actions in (1, 50):
            problem = Problem(2, actions, 1, rewards=np.zeros((2, 1)), initial=0)
            sets = ModelSet(problem, 0.01 * actions, kind)
            counts = next(draw(problem, (0.5, 0.5), [100]))
            counts.successors[:-1] = 50
            sets.learn(counts, np.ones(problem.table.rows, np.int64))
            widths.append(sets.box.hi[0] if sets.box is not None else sets._eta[0])
        assert widths[0] == pytest.approx(widths[1], rel=1e-12), kind
