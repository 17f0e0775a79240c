"""Outcomes that are lost, for what they were: the mixture over patterns, and all bounds."""

from __future__ import annotations

import math
from collections import Counter
from fractions import Fraction
from itertools import product
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import ucfh
import ucfh.confidence.unknown_states as open_bounds
from oracles.lost import SlowOpen, latent_cells, lossy_entropy, lossy_excess, lossy_mixture
from oracles.open_world import SlowExperience, Step, steps_of
from support.settings import many
from ucfh._kernels import kl_ball, row_bounds
from ucfh._kernels.mixtures import pattern_excess
from ucfh._kernels.row_bounds import KNOWN
from ucfh.algorithms.unknown_states import UnknownStatesUCFH
from ucfh.confidence.unknown_states import UnknownStateBounds
from ucfh.confidence.value_bounds import Bounds
from ucfh.counts import ScoringRule
from ucfh.sparse_counts import END, LOST, SparseCounts

SEARCHED = kl_ball.CLOSE**2 / 4 + 10 * kl_ball.NEAR_ZERO  # as in test_kl_ball.py
FLAGS = (True, False)

# -- patterns --------------------------------------------------------------------------------------


def fast_excess(counts: list[int], lost: int | None) -> float:
    out = np.zeros(1)
    given = () if lost is None else (np.array([lost]),)
    pattern_excess(np.array([0, len(counts)]), np.array(counts, np.int64), out, *given)
    return float(out[0])


def symbols(seen: tuple[bool, ...]) -> list[tuple[int, ...]]:
    """All that draws may show, as draws that show it: one of the labels seen before, or another."""
    out: list[tuple[int, ...]] = [()]
    for i in range(len(seen)):
        out = [
            (*draws, x)
            for draws in out
            for x in sorted({y for y, kept in zip(draws, seen, strict=False) if kept} | {i})
        ]
    return out


@pytest.mark.parametrize("n", range(1, 6))
def test_the_mixture_sums_to_one_whatever_is_lost(n: int) -> None:
    for seen in product(FLAGS, repeat=n):
        total = sum(lossy_mixture(draws, seen, 7) for draws in symbols(seen))
        assert total == 1 - Fraction(1, 8)


def test_what_is_lost_later_does_not_matter() -> None:
    """The mixture of the first draws is the sum over all that the next may be."""
    for seen in product(FLAGS, repeat=4):
        for draws in symbols(seen[:3]):
            known = {x for x, kept in zip(draws, seen, strict=False) if kept}
            heirs = [lossy_mixture((*draws, x), seen, 6) for x in [*known, 9]]
            assert sum(heirs) == lossy_mixture(draws, seen[:3], 6)


def test_cells_by_hand() -> None:
    """A lost draw, then one that is seen: they may be the same, or not."""
    assert sorted(latent_cells([0, 1], [False, True])) == [[1, 1], [2]]
    assert sorted(latent_cells([0, 1], [True, False])) == [[1, 1]]
    assert sorted(latent_cells([0, 1, 0], [True, False, False])) == [[2, 1]]


def least_margin(further: int) -> float:
    """Return the slack of the budget over all draws of three labels, some missing, of any law.

    That is Proposition 66 without chance: ln(mixture/truth) is at least the ln of what bets on any
    function would have won, less the excess. Both are computed with as many labels.
    ``further``: by how many labels more than were seen the sum begins if something is lost.
    """
    rng, most, least = np.random.default_rng(0), 12, math.inf
    for n in range(2, many(4, 5)):
        for draws, seen in product(product(range(3), repeat=n), product(FLAGS, repeat=n)):
            counts = Counter(x for x, kept in zip(draws, seen, strict=True) if kept)
            lost = n - sum(seen)
            excess = lossy_excess([*counts.values()], lost, most, further)
            mixture = math.log(lossy_mixture(draws, seen, most))
            for p in rng.dirichlet(np.full(3, rng.choice([0.2, 1, 5])), 3).clip(1e-12):
                truth, known = 0.0, set[int]()
                for x, kept in zip(draws, seen, strict=True):
                    truth += math.log(p[x] if x in known else p.sum() - p[[*known]].sum())
                    known |= {x} if kept else set()
                f = rng.random(3) * rng.integers(2, size=3)
                top = f.max() + rng.choice([0, 0.3])
                nu, mu = top + 10 ** rng.uniform(-9, 2), p @ f / p.sum()
                won = lost * math.log((nu - top) / (nu - mu))
                won += sum((c - 1) * math.log((nu - f[x]) / (nu - mu)) for x, c in counts.items())
                if lost:
                    least = min(least, mixture - truth - (won - excess))
    return least


def test_the_budget_covers_whatever_was_lost() -> None:
    assert 0 < least_margin(1) < 1
    assert least_margin(0) < 0  # one label more is needed


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.one_of(st.integers(1, 3), st.integers(1, 3000)), min_size=1, max_size=6),
    st.one_of(st.integers(0, 3), st.integers(0, 3000)),
)
def test_excess_with_lost_draws(counts: list[int], lost: int) -> None:
    """Never smaller; hardly larger, as in test_patterns.py."""
    found = fast_excess(counts, lost)
    if lost == 0:
        assert found == fast_excess(counts, None)
    if sum(counts) + lost > len(counts):
        exact = lossy_excess(counts, lost)
        assert exact - 1e-8 <= found <= exact + 0.04
        assert fast_excess(counts, lost + 1) > found  # one more loss never costs less


def test_many_losses_cost_hardly_more_than_one() -> None:
    none, one, many = (fast_excess([250] * 4, k) for k in (0, 1, 50))
    assert none + 1 < one < none + 3
    assert many < one + 1
    assert fast_excess([250] * 4 + [1] * 50, 0) > one + 300  # what fifty new labels would cost


def test_the_least_entropy_is_that_of_a_grid() -> None:
    rng = np.random.default_rng(1)
    for _ in range(20):
        p, c = rng.dirichlet([1, 1]), rng.integers(0, 6, 2)
        n = float(c.sum() + rng.integers(1, 5))
        q = np.stack(np.meshgrid(*(x * (np.arange(400) + 0.5) / 400 for x in p)), -1)
        with np.errstate(divide="ignore", invalid="ignore"):
            parts = np.where(c > 0, c / n * np.log(c / n / q), 0).sum(-1)
        gone = (n - c.sum()) / n
        grid = (parts + gone * np.log(gone / (1 - q.sum(-1)))).min()
        assert lossy_entropy(c.tolist(), n, p.tolist()) == pytest.approx(grid, abs=1e-2)
        assert lossy_entropy(c.tolist(), n, p.tolist()) <= grid + 1e-12


# -- bounds ----------------------------------------------------------------------------------------


class Lossy:
    """A random walk of which outcomes are lost, counted by `SparseCounts` and in dictionaries."""

    def __init__(self, seed: int, noise: float | None = None) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.H, self.A, self.S = (int(x) for x in rng.integers([1, 1, 1], [4, 4, 4]))
        self.segments = [int(rng.integers(1, self.H))] if self.H > 1 and rng.random() < 0.5 else []
        self.masks = rng.random((self.S, self.A)) < 0.7
        self.masks[:, 0] = True
        self.have = [[], *(np.flatnonzero(mask).tolist() for mask in self.masks)]
        self.steps, self.starts = list[Step](), list[int]()
        self.p = rng.dirichlet(np.full(self.S + 1, 0.5), (self.S + 1, self.A))
        self.pays = rng.choice([0, 0.5, 1, 0.3], (self.S + 1, self.A, self.S + 1))
        self.noise = rng.choice([0, 0, 0.5]) if noise is None else noise
        self.unpaid, lossy = rng.choice([0.0, 0.3, 1.0]), float(rng.choice([0.02, 0.2, 0.9]))
        self.slow = SlowExperience(self.segments)
        for _ in range(int(rng.choice([1, 8, 60]))):
            self.episode(lossy)
        self.data = self.experience(self.steps, self.starts)

    def experience(self, steps: list[Step], starts: list[int]) -> SparseCounts:
        data = SparseCounts(self.H, self.A, self.segments)
        for mask in self.masks:
            data.find(mask)
        data.add(steps_of(steps, starts))
        return data

    def episode(self, lossy: float) -> None:
        rng, s = self.rng, int(self.rng.integers(1, self.S + 1))
        self.starts.append(s)
        self.slow.begin(s)
        for t in range(self.H):
            a = int(rng.choice(self.have[s]))
            after = int(rng.choice(self.S + 1, p=self.p[s, a]))
            paid = float(np.clip(self.pays[s, a, after] + self.noise * rng.normal(), 0, 1))
            if rng.random() < lossy:
                after, paid = LOST, math.nan if rng.random() < self.unpaid else paid
            self.steps.append((t, s, a, paid, after))
            self.slow.step(*self.steps[-1])
            if after in (END, LOST):
                break
            s = after

    def bounds(self, **options: Any) -> tuple[UnknownStateBounds, Bounds]:
        best = UnknownStateBounds(self.H, 0.2, without=("overlap", "scores"), **options)
        return best, best.bounds(self.data)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from([None, 1.0]),
    st.sampled_from([0.0, 0.25]),
    st.booleans(),
)
def test_bounds_are_the_recursion(
    seed: int, max_return: float | None, after_end: float, closed: bool
) -> None:
    world = Lossy(seed)
    with pytest.MonkeyPatch.context() as patch:  # the ladder is never the better one
        patch.setattr(open_bounds, "SHARES", {**open_bounds.SHARES, "ladder": 1e-300})
        best, b = world.bounds(max_return=max_return, after_end=after_end, closed=closed)
    slow = SlowOpen(
        world.slow, world.have, best.cap.tolist(), after_end, best.costs, closed, fast_excess
    )
    expected = slow.recursion(best.actions_of(b.greedy).tolist())
    near = 2 * SEARCHED * world.H**2 + 1e-9
    for name in "ULWD":
        found = getattr(b, name)
        np.testing.assert_allclose(found, getattr(expected, name), atol=near, rtol=0, err_msg=name)
    for row in range(len(world.data.visits)):
        segment, s, a = world.data.pair_of(row)
        assert best.missing[row] == pytest.approx(slow.missing((segment, s + 1, a)), rel=1e-9)


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.booleans())
def test_one_more_loss_never_narrows(seed: int, closed: bool) -> None:
    """Another visit of which nothing is known, in each row that was visited."""
    world = Lossy(seed)
    _, before = world.bounds(closed=closed)
    for segment, s, a in world.slow.visits:
        t = int(np.flatnonzero(world.data.segment == segment)[0])
        world.data.add(steps_of([(t, s, a, math.nan, LOST)], []))
    _, after = world.bounds(closed=closed)
    near = 2 * SEARCHED * world.H**2 + 1e-9
    np.testing.assert_array_equal(before.greedy, after.greedy)
    assert (before.U - near <= after.U).all()
    assert (before.L + near >= after.L).all()
    assert (before.W + near >= after.W).all()
    assert (before.D - near <= after.D).all()


@settings(max_examples=150, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.booleans())
def test_to_lose_what_was_seen_never_narrows(seed: int, closed: bool, paid: bool) -> None:
    """An outcome that had come before; what was paid may be known all the same."""
    world = Lossy(seed, noise=0.0)
    steps, starts = world.steps, world.starts
    seen = [(world.slow.segment(t), s, a, after) for t, s, a, _, after in steps]
    again = [i for i, x in enumerate(seen) if x[-1] != LOST and x in seen[:i]]
    assume(again)
    at = again[int(world.rng.integers(len(again)))]
    t, s, a, r, _ = steps[at]
    lost = [*steps[:at], (t, s, a, r if paid else math.nan, LOST), *steps[at + 1 :]]
    one, other = (
        UnknownStateBounds(world.H, 0.2, without=("scores",), closed=closed) for _ in range(2)
    )
    before = one.bounds(world.experience(steps, starts))
    found = other.bounds(world.experience(lost, starts))
    near = 2 * SEARCHED * world.H**2 + 1e-9
    assert (before.U - near <= found.U).all()
    assert (before.L + near >= found.L).all()
    taken = before.greedy
    assert (other.lower_values(taken) <= one.lower_values(taken) + near).all()
    assert other.upper_value(taken) >= one.upper_value(taken) - near


def test_all_is_lost() -> None:
    """Nothing is known then, however often it was tried; but for what was paid."""
    data = SparseCounts(3, 2)
    s = data.find()
    for a in range(2):
        data.add(steps_of([(0, s, a, math.nan, LOST)] * 100, [s] * 100))
    best = UnknownStateBounds(3, 0.1, without=("scores",))
    b = best.bounds(data)
    assert b.U[:, s].tolist() == b.D[:, s].tolist() == [3, 2, 1, 0]
    assert not b.L.any()
    assert not b.W.any()
    assert best.missing[:-1].tolist() == [1, 1]
    paid = SparseCounts(3, 2)
    paid.find()
    paid.add(steps_of([(0, s, 1, 0.25, LOST)] * 100, [s] * 100))
    b = UnknownStateBounds(3, 0.1, without=("scores",)).bounds(paid)
    assert 2.25 < b.U[0, s] == 3  # the other action was never tried
    assert 0.05 < b.L[0, s] < 0.25
    assert b.L[2, s] == b.L[0, s]  # what was paid is known, and nothing else


def test_a_lost_state_is_not_the_same_in_two_rows() -> None:
    """Two actions that are alike but for what is lost: the difference stays open by both."""
    data = SparseCounts(2, 2)
    s, x = data.find(), data.find()
    for a in range(2):
        seen, lost = [(0, s, a, 0.0, x)] * 9000, [(0, s, a, 0.0, LOST)] * 1000
        data.add(steps_of([*seen, *lost], [s] * 10000))
        data.add(steps_of([(1, x, a, 0.5, END)] * 9000, []))
    best, none = (
        UnknownStateBounds(2, 0.1, without=("scores",)),
        UnknownStateBounds(2, 0.1, without=("scores",)),
    )
    found, kept = best.bounds(data), none.bounds(data.without_lost())
    assert kept.D[0, s] < 0.01
    # a tenth of the one may have led to all that can be earned, and of the other to nothing
    assert found.D[0, s] > 0.1
    assert found.D[0, s] < 0.1 + 0.03


def ends_unseen(n: int, share: float, reward: float) -> SparseCounts:
    """A first action that pays ``reward``, or 0 with a small share; its next states are missing.

    The second action earns 0.25 and leads to a state that pays 0.5.
    """
    data = SparseCounts(2, 2)
    s, after = data.find(), data.find()
    zero = round(share * n)
    first = [(0, s, 0, 0.0, LOST)] * zero + [(0, s, 0, reward, LOST)] * (n - zero)
    second = [x for a in (0, 1) for x in ((0, s, 1, 0.25, after), (1, after, a, 0.5, END))]
    data.add(steps_of([*first, *second * (n // 2)], [s] * (2 * n)))
    return data


@pytest.mark.parametrize(("closed", "most", "later"), [(True, 1.0, 0.5), (False, 1.5, 1.0)])
def test_a_largest_return_never_lowers_what_missing_outcomes_may_be(
    closed: bool, most: float, later: float
) -> None:
    """The missing next states may all pay ``later``; no episode pays more than ``most``."""
    best = 0.97 * 0.5 + later
    b = UnknownStateBounds(2, 0.1, most, without=("scores",), closed=closed).bounds(
        ends_unseen(3000, 0.03, 0.5)
    )
    assert b.upper >= best
    assert b.D[0, 1] >= best - 0.75  # the second action is greedy and earns 0.75


def test_a_certificate_of_a_log_allows_for_what_is_out_of_sight(tmp_path: Path) -> None:
    """A pays 0 (97%) or -1, and then, out of sight, 1; B earns 0.5; no episode pays more than 1."""
    rows = ["episode,t,state,action,reward,next_state,done"]
    for k in range(0, 2000, 2):
        rows += [f"{k},0,s,A,{-1 if k % 66 == 0 else 0},,", f"{k + 1},0,s,B,-0.5,h,"]
        rows.append(f"{k + 1},1,h,{'AB'[k // 2 % 2]},1,over,true")
    path = tmp_path / "log.csv"
    path.write_text("\n".join(rows))
    log = ucfh.read_log(path, horizon=2, rewards=(-1, 1), max_return=1, dropouts="lost")
    certificate = ucfh.certify(log, delta=0.1, epsilon=0.2)
    assert certificate.upper >= 0.97
    assert not certificate.certified or certificate.policy[0][0] == 0


def test_known_rewards_of_missing_outcomes_still_narrow_under_a_largest_return() -> None:
    """H = 2, G = 1.5: a missing outcome that paid 0 is worth at most 1, one that paid 0.5 1.5."""
    n = 4000
    data = SparseCounts(2, 1)
    s = data.find()
    data.add(steps_of([(0, s, 0, r, LOST) for r in (0.0, 0.5)] * (n // 2), [s] * n))
    found = UnknownStateBounds(2, 0.1, 1.5, without=("scores",)).bounds(data).U[0, s]
    assert 1.25 <= found < 1.27


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_no_missing_reward_exceeds_its_replacement(seed: int) -> None:
    """Proposition 67 for one nu: single rewards, each cut off, against those in their place."""
    rng = np.random.default_rng(seed)
    V, top = rng.uniform(0, 2), rng.uniform(0, 3)
    rewards = rng.uniform(0, 1, rng.integers(1, 8)) ** rng.choice([0.1, 1, 10])
    end = min(1 + V, top)  # the best value
    nu = end + 10 ** rng.uniform(-6, 1)
    known = np.zeros(1, KNOWN)
    known["lost_known"], known["lost_paid"] = len(rewards), rewards.sum()
    known["lost_least"], known["lost_most"] = rewards.min(), rewards.max()
    lost, worth = row_bounds.lost_above(known[0], V, top)
    assert 0 <= lost <= len(rewards)
    assert worth <= end + 1e-12 or lost == 0
    each = np.log(nu - np.minimum(rewards + V, top)).sum()
    replaced = (len(rewards) - lost) * math.log(nu - end)
    replaced += lost * math.log(nu - worth) if lost else 0.0
    assert replaced <= each + 1e-9
    lost, worth = row_bounds.lost_below(known[0], V)
    from_below = (len(rewards) - lost) * math.log(nu + V) + lost * math.log(nu + worth)
    assert from_below <= np.log(nu + rewards + V).sum() + 1e-9


def test_a_chord_beyond_the_cut_is_seen() -> None:
    """The same comparison with the chord on [0, 1]: rewards 0 and 0.5, cut off at 0.5."""
    nu, rewards = 0.6, np.array([0.0, 0.5])
    each = np.log(nu - rewards).sum()
    up = rewards.sum()  # of two that are 0 or 1
    assert (2 - up) * math.log(nu) + up * math.log(nu - 0.5) > each + 0.5


@numba.njit
def climb(*given: Any) -> Any:
    """As compiled code calls it."""
    return kl_ball.climb(*given)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32))
def test_the_ladder_counts_what_is_lost(seed: int) -> None:
    rng = np.random.default_rng(seed)
    v, c = rng.random(3), rng.integers(1, 50, 3).astype(float)
    lost, others, top, budget = *rng.integers(0, 20, 2).astype(float), 1.5, rng.uniform(1, 20)
    worth, best, n = rng.uniform(0, 1.5), 1.5 - rng.choice([0, 0.2]), c.sum() + lost + others
    nu = top * rng.uniform(0.5, 9)
    found = climb(0, 3, c, n, budget, v, top, nu, lost, worth, others, best)
    weights, values = [*c, lost, others], [*v, worth, best]
    k, bounds = max(0, math.floor(math.log2(max(nu, top) / top))), [top]
    for step in (k, k + 1):
        at = top * 2**step
        if all(x < at for w, x in zip(weights, values, strict=True) if w):
            won = math.fsum(w * math.log(at - x) for w, x in zip(weights, values, strict=True) if w)
            bounds.append(at - math.exp((won - budget - math.log((step + 1) * (step + 2))) / n))
    assert found.bound == pytest.approx(min(bounds), abs=1e-11)


# -- scores ----------------------------------------------------------------------------------------


def test_a_lost_episode_scores_what_it_is_known_to_have_earned() -> None:
    agent = UnknownStatesUCFH(3, 1, 0.1, 0.1, after_end=1.0)
    s = agent.experience.find()
    agent.observe(steps_of([(0, s, 0, 1.0, s)], [s]))
    watch = ScoringRule(agent.best.first_rows(), np.full((4, 2), 9.0))
    rows = [(0, s, 0, 0.5, s), (1, s, 0, 0.25, LOST), (0, s, 0, 0.5, s), (1, s, 0, math.nan, LOST),
            (0, s, 0, 0.5, END)]  # fmt: skip
    steps = steps_of(rows, [s] * 3)
    assert agent.scores(steps, watch).tolist() == [0.75, 0.5, 2.5]
    agent.experience.add(steps)
    assert (agent.experience.lost.tolist(), agent.experience.visits.tolist()) == ([2], [4])
