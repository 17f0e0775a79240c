"""Confidence sets against their definition, tried point by point, and against exact arithmetic."""

import math
from collections.abc import Callable
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import binom

from oracles import reference as ref
from support.settings import many
from ucfh import make
from ucfh._kernels.kl import kl_reach
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.ucfh import UCFH
from ucfh.confidence.intervals import CONDITIONS, SETS, choose_set, confidence_set, kl_set
from ucfh.confidence.sets import ModelSet
from ucfh.exceptions import InputError
from ucfh.simulation.runner import simulate

Floats = NDArray[np.float64]
Set = Callable[[Any, Any, float], tuple[Floats, Floats]]
EVERY = pytest.mark.parametrize("interval", SETS.values(), ids=SETS)
WITHOUT = pytest.mark.parametrize("without", [None, *CONDITIONS])
DELTAS = (1.0, 0.1, 1e-3, 1e-6, 1e-15)
SIZES = (*range(1, 9), 10, 17, 100, 1001, 10**4, 10**6, 10**9, 10**12, 10**15, 10**17, 10**18)


def successes(n: int, rng: np.random.Generator, extra: int = 4) -> list[int]:
    """Edges, the middle, and counts near both ends on a logarithmic scale."""
    near = np.floor((n + 1) ** rng.random(extra)).astype(np.int64)
    k = {0, 1, 2, n // 3, n // 2, n - 2, n - 1, n}
    k |= {*near.tolist(), *(n - near).tolist(), *rng.integers(0, n + 1, extra).tolist()}
    return sorted(k & set(range(n + 1)) if n < 50 else {i for i in k if 0 <= i <= n})


def cases(seed: int, extra: int) -> tuple[Floats, Floats]:
    """p^ and n, flat, of all sizes."""
    rng = np.random.default_rng(seed)
    sizes = [*SIZES, *np.floor(10 ** rng.uniform(0.3, 18, 4 * extra)).astype(np.int64).tolist()]
    pairs = [(k / n if n else 0.0, n) for n in sizes for k in successes(n, rng, extra)]
    p, n = np.array(pairs, dtype=np.float64).T
    return p, n


def tolerance(lo: Floats, hi: Floats) -> Floats:
    """Rounding at an end: a few ulps of it, and a part of the width for the square roots."""
    return np.asarray(2.0**-50 * hi + 1e-9 * (hi - lo))


@pytest.mark.slow
@WITHOUT
@pytest.mark.parametrize("delta_1", DELTAS)
def test_printed_hull_is_tight_and_complete(delta_1: float, without: str | None) -> None:
    """Both ends are members, and nothing beyond them is: over 5,000 cases of each set."""

    def is_member(q: Any) -> Any:
        return ref.in_confidence_set(q, p, n, delta_1, without)

    p, n = cases(seed=int(1 / delta_1) % 1000, extra=12)
    assert len(p) >= 1200
    lo, hi = confidence_set(p, n, delta_1, without=without)
    slack = tolerance(lo, hi)
    assert is_member(np.minimum(lo + slack, p)).all()
    assert is_member(np.maximum(hi - slack, p)).all()
    beyond = np.concatenate([2.0 ** -np.arange(0, 60, 0.5), np.linspace(0, 1, 201)])[:, None]
    for end, far in ((lo - slack, 0.0), (hi + slack, 1.0)):
        outside = end + (far - end) * beyond
        tried = np.concatenate([end[None], outside])
        past = tried < lo if far == 0 else tried > hi
        member = is_member(tried) & past & (tried != far)
        at_edge = is_member(far) & (lo > slack if far == 0 else hi < 1)
        assert not (member & (abs(tried - far) > slack)).any()
        assert not (at_edge & (abs(far - end) > slack)).any()


@pytest.mark.slow
@WITHOUT
@pytest.mark.parametrize("delta_1", [1.0, 0.05, 1e-9])
def test_printed_hull_by_grid(delta_1: float, without: str | None) -> None:
    """The same by searching, without the help of the formula."""
    p, n = cases(seed=5, extra=1)
    chosen = np.random.default_rng(6).permutation(len(p))[:70]
    for i in chosen.tolist():
        lo, hi = confidence_set(p[i], n[i], delta_1, without=without)
        want_lo, want_hi = ref.hull_by_grid(float(p[i]), int(n[i]), delta_1, 301, without)
        slack = float(tolerance(np.asarray(want_lo), np.asarray(want_hi)))
        assert abs(lo - want_lo) <= slack, (p[i], n[i])
        assert abs(hi - want_hi) <= slack, (p[i], n[i])


def test_printed_set_by_hand() -> None:
    """p^ = 1/2, n = 101, L = 2: Hoeffding .0995037, Bernstein .0995037 + 7/150, rho .2."""
    delta_1 = 6 * math.exp(-2)
    half = math.sqrt(2 / 202)
    lo, hi = confidence_set(0.5, 101, delta_1)
    assert float(lo) == pytest.approx(0.5 - half, rel=1e-14)
    assert float(hi) == pytest.approx(0.5 + half, rel=1e-14)
    # p^ = 0: only the linear term of (ii), 7 L/(3 (n-1)) = .046667, against X(.2) = .0417424
    lo, hi = confidence_set(0.0, 101, delta_1)
    assert float(lo) == 0
    assert float(hi) == pytest.approx((1 - math.sqrt(1 - 4 * 0.04)) / 2, rel=1e-14)
    # p^ = .05, sd .217945 > rho: X(.017945) = .00032213 is above .05 - b
    lo, hi = confidence_set(0.05, 101, delta_1)
    sd = math.sqrt(0.05 * 0.95)
    assert float(lo) == pytest.approx((1 - math.sqrt(1 - 4 * (sd - 0.2) ** 2)) / 2, rel=1e-12)
    assert float(hi) == pytest.approx(0.05 + sd * math.sqrt(4 / 101) + 7 * 2 / 300, rel=1e-14)


@pytest.mark.parametrize("without", CONDITIONS)
def test_without_a_condition_it_is_still_one_interval(without: str) -> None:
    """All members on a grid, for all counts up to 40 and some up to 400, against the two ends.

    No member lies beyond the ends; they, but for rounding, and every point between them are.
    """
    tried = np.linspace(0, 1, 1001)
    for n in (*range(1, 41), 57, 80, 120, 200, 400):
        p_hat = np.arange(n + 1)[:, None] / n
        for delta_1 in (1.0, 0.3, 1e-2, 1e-6):
            member = ref.in_confidence_set(tried, p_hat, n, delta_1, without)
            lo, hi = confidence_set(p_hat, n, delta_1, without=without)
            assert (member <= ((lo - 1e-12 <= tried) & (tried <= hi + 1e-12))).all(), n
            assert (((lo + 1e-12 < tried) & (tried < hi - 1e-12)) <= member).all(), n
            ends = np.concatenate([lo, hi], 1)
            ends += 1e-9 * (p_hat - ends)
            assert ref.in_confidence_set(ends, p_hat, n, delta_1, without).all(), n
            full_lo, full_hi = confidence_set(p_hat, n, delta_1)
            assert ((lo <= full_lo) & (full_hi <= hi)).all(), n


def test_without_a_condition_by_hand() -> None:
    """As above: n = 101, L = 2, Hoeffding .0995037, rho .2, linear term of Bernstein 7/150."""
    delta_1 = 6 * math.exp(-2)

    def ends(p: float, n: int, without: str) -> list[float]:
        return [float(end) for end in confidence_set(p, n, delta_1, without=without)]

    half, linear = math.sqrt(2 / 202), 7 / 150
    wide = half + linear
    assert ends(0.5, 101, "hoeffding") == pytest.approx([0.5 - wide, 0.5 + wide], rel=1e-14)
    assert ends(0.05, 101, "bernstein")[1] == pytest.approx(0.05 + half, rel=1e-14)
    assert ends(0.0, 101, "deviation") == pytest.approx([0, linear], rel=1e-14)
    # rho = sqrt(4/17) = .485071 < 1/2: (iii) ends at 1/2 +- sqrt(rho - rho^2), .4998 away, and
    # (ii) at rho/2 + 7 rho^2/6 = .510, but for n against n - 1
    rho = math.sqrt(4 / 17)
    far = math.sqrt(rho - rho**2)
    assert far < 0.5 * math.sqrt(4 / 18) + 7 / 6 * rho**2 < 0.511
    assert ends(0.5, 18, "hoeffding") == pytest.approx([0.5 - far, 0.5 + far], rel=1e-12)
    # one visit: only Hoeffding bounds
    assert ends(0.0, 1, "hoeffding") == ends(1.0, 1, "hoeffding") == [0, 1]
    for without in ("bernstein", "deviation"):
        assert ends(0.0, 1, without) == [float(end) for end in confidence_set(0.0, 1, delta_1)]


@pytest.mark.slow
@pytest.mark.parametrize("delta_1", [1.0, 0.1, 1e-4, 1e-12])
def test_kl_set_reference(delta_1: float) -> None:
    p, n = cases(seed=8, extra=1)
    for i in np.random.default_rng(9).permutation(len(p))[: many(50, 150)].tolist():
        lo, hi = kl_set(p[i], n[i], delta_1)
        want_lo, want_hi = ref.kl_hull_by_bisection(float(p[i]), int(n[i]), delta_1)
        slack = 4 * 2.0**-52 + 1e-11 * (want_hi - want_lo)
        assert abs(lo - want_lo) <= slack, (p[i], n[i])
        assert abs(hi - want_hi) <= slack, (p[i], n[i])


@pytest.mark.parametrize("delta_1", DELTAS)
def test_kl_inside_printed(delta_1: float) -> None:
    """Erratum 10: n kl(p^, q) <= ln(2/delta_1) implies all three printed conditions."""
    p, n = cases(seed=11, extra=12)
    lo, hi = confidence_set(p, n, delta_1)
    kl_lo, kl_hi = kl_set(p, n, delta_1)
    slack = 2.0**-50 * np.maximum(p, hi)
    assert (kl_lo >= lo - slack).all()
    assert (kl_hi <= hi + slack).all()
    assert ((kl_hi - kl_lo)[n > 0] < (hi - lo)[n > 0] + 1e-15).all()


def exact_kl(p: float, q: Decimal) -> Decimal:
    """kl(p, q) to 60 digits; call within a context of that precision."""
    x, total = Decimal(p), Decimal(0)
    for part, other in ((x, q), (1 - x, 1 - q)):
        if part > 0:
            total += part * (part / other).ln() if other > 0 else Decimal("Infinity")
    return total


def relative_excess(p: float, n: int, end: Decimal, delta_1: float) -> float:
    """n kl(p, end) / L - 1: at least 0 if the end lies on or outside of the exact interval."""
    with localcontext() as context:
        context.prec = 60
        return float(n * exact_kl(p, end) / Decimal(math.log(2 / delta_1)) - 1)


@pytest.mark.parametrize("n", [2, 10, 1000, 10**6, 10**12, 10**15, 10**18])
def test_kl_reach_is_exact(n: int) -> None:
    """n kl = L at either end, however near it is: distances are not differences of ends."""
    for delta_1 in (0.5, 1e-5, 1e-12):
        c = math.log(2 / delta_1) / n
        for k in successes(n, np.random.default_rng(12)):
            p = k / n
            up, down = float(kl_reach(p, 1 - p, c)), float(kl_reach(1 - p, p, c))
            x = Decimal(p)
            for sign, reach, rest in ((1, up, 1 - x), (-1, down, x)):
                # at 0 and 1 kl is infinite or steep: there the ends themselves are tested
                if 0.0 < reach < float(rest) * (1 - 1e-6):
                    excess = relative_excess(p, n, x + sign * Decimal(reach), delta_1)
                    assert abs(excess) <= 1e-9, (k, delta_1, sign)


@pytest.mark.parametrize("n", [10, 1000, 10**6, 10**12, 10**15, 10**18])
def test_kl_ends_are_rounded_outward(n: int) -> None:
    """No double strictly inside of the exact interval is an end: n kl(p^, end) >= L."""
    for delta_1 in (0.1, 1e-5, 1e-12):
        for k in successes(n, np.random.default_rng(13)):
            p = k / n
            for end, edge in zip(kl_set(p, n, delta_1), (0.0, 1.0), strict=True):
                if end != edge:
                    assert relative_excess(p, n, Decimal(float(end)), delta_1) >= -1e-9, (k, end)


@EVERY
@pytest.mark.parametrize("n", [1, 2, 3, 7, 40, 200])
def test_coverage(interval: Set, n: int) -> None:
    """P(p in the set) >= 1 - delta_1 for every p, summed exactly over the binomial law."""
    k = np.arange(n + 1)
    p = np.concatenate([np.linspace(0, 1, 201), 10.0 ** -np.arange(3, 9)])[:, None]
    for delta_1 in (0.5, 0.1, 0.01):
        lo, hi = interval(k / n, n, delta_1)
        inside = (lo - 1e-15 <= p) & (p <= hi + 1e-15)
        covered = (binom.pmf(k, n, p) * inside).sum(1)
        assert (covered >= 1 - delta_1 - 1e-12).all()


@pytest.mark.slow
@EVERY
@given(
    n=st.integers(0, 10**18),
    part=st.just(0.0) | st.floats(1e-18, 1),  # a relative frequency
    delta_1=st.floats(1e-300, 1),
    more=st.integers(1, 10**18),
)
@settings(max_examples=many(100, 300), deadline=None, derandomize=True)
def test_properties(interval: Set, n: int, part: float, delta_1: float, more: int) -> None:
    """Ordered, within [0,1], around p^; mirror symmetric; narrower with n, wider with 1/delta."""
    lo, hi = interval(part, n, delta_1)
    assert 0 <= lo <= hi <= 1
    if n == 0:
        assert (float(lo), float(hi)) == (0, 1)
        return
    ulp = 2.0**-52
    assert lo <= part <= hi
    coarse = round(part * 2**20) / 2**20  # its complement is a double too
    here, there = interval(coarse, n, delta_1), interval(1 - coarse, n, delta_1)
    assert abs(here[0] + there[1] - 1) <= 4 * ulp
    assert abs(here[1] + there[0] - 1) <= 4 * ulp
    for narrow in (interval(part, n + more, delta_1), interval(part, n, min(1, 2 * delta_1))):
        assert narrow[0] >= lo - 2 * ulp
        assert narrow[1] <= hi + 2 * ulp


@EVERY
def test_no_nan_and_no_warning(interval: Set) -> None:
    """Warnings are errors here; n = 0 knows no p^, so even a NaN there does not matter."""
    p = np.array([0, 1e-18, 1e-9, 0.5, 1 - 2.0**-53, 1.0])
    n = np.array([0, 1, 2, 3, 10**6, 10**12, 10**18])[:, None]
    for delta_1 in (1.0, 0.1, 1e-300):
        lo, hi = interval(p, n, delta_1)
        assert ((lo >= 0) & (lo <= p) & (p <= hi) & (hi <= 1)).all()
    lo, hi = interval([math.nan, 0.5], [0, 5], 0.1)
    assert (lo[0], hi[0]) == (0, 1)
    for scalar in (0, 0.3, 1):
        assert tuple(map(float, interval(scalar, 0, 0.1))) == (0, 1)


@EVERY
def test_few_visits(interval: Set) -> None:
    """At n = 1 only Hoeffding; its half-width is above 1 for L >= 2."""
    lo, hi = confidence_set([0.0, 1.0], 1, 1.0)
    half = math.sqrt(math.log(6) / 2)
    assert lo.tolist() == [0, pytest.approx(1 - half, abs=1e-15)]
    assert hi.tolist() == [pytest.approx(half, abs=1e-15), 1]
    lo, hi = interval([0.0, 0.5, 1.0], 2, 1e-3)
    assert (hi - lo > 0.9).all()


@EVERY
def test_a_distribution_fits(interval: Set) -> None:
    """p^ itself lies in the box, so sum lo <= 1 <= sum hi, whatever was counted."""
    rng = np.random.default_rng(14)
    for n in (1, 2, 5, 100, 10**6, 10**12, 10**18):
        for C in (1, 2, 7, 50):
            shares = rng.dirichlet(np.full(C, 0.3))
            counts = np.floor(shares * n).astype(np.int64)
            counts[0] += n - counts.sum()
            lo, hi = interval(counts / n, n, 0.01)
            assert (lo <= counts / n).all()
            assert (counts / n <= hi).all()
            assert math.fsum(lo) <= 1 + C * 2.0**-53 <= math.fsum(hi) + C * 2.0**-52


@EVERY
def test_broadcasting(interval: Set) -> None:
    p, n = np.linspace(0, 1, 5), np.array([[0], [1], [9]])
    lo, hi = interval(p, n, 0.1)
    assert lo.shape == hi.shape == (3, 5)
    for i in range(3):
        for j in range(5):
            one = interval(float(p[j]), int(n[i, 0]), 0.1)
            assert np.shape(one[0]) == ()
            assert (float(one[0]), float(one[1])) == (lo[i, j], hi[i, j])
    assert interval([], 3, 0.1)[0].shape == (0,)
    assert interval([1, 0], 3, 0.1)[0].tolist() == interval([1.0, 0.0], 3.0, 0.1)[0].tolist()


@EVERY
@pytest.mark.parametrize(
    ("p", "n", "delta_1", "names"),
    [
        (0.5, -1, 0.1, "n = -1"),
        (0.5, [3, math.nan], 0.1, "n = nan"),
        ([0.5, 1.5], 3, 0.1, r"p_hat = 1.5"),
        (-1e-9, 3, 0.1, "p_hat"),
        (math.nan, 3, 0.1, "p_hat = nan"),
        (0.5, 3, 0, "delta_1"),
        (0.5, 3, 1.5, "delta_1"),
        (0.5, 3, math.nan, "delta_1"),
    ],
)
def test_bad_input(interval: Set, p: Any, n: Any, delta_1: float, names: str) -> None:
    with pytest.raises(InputError, match=names) as caught:
        interval(p, n, delta_1)
    assert "\n" not in str(caught.value)


@EVERY
def test_shapes_must_agree(interval: Set) -> None:
    with pytest.raises(ValueError, match=r"shape|broadcast"):
        interval([0.1, 0.2], [1, 2, 3], 0.1)


def test_names() -> None:
    assert choose_set("paper") is SETS["paper"] is confidence_set
    assert choose_set("kl") is kl_set
    with pytest.raises(InputError, match="unknown confidence set 'kll': did you mean 'kl'"):
        choose_set("kll")
    with pytest.raises(InputError, match="unknown condition 'bernstien': did you mean 'bernst"):
        confidence_set(0.5, 3, 0.1, without="bernstien")


@pytest.mark.parametrize("without", CONDITIONS)
def test_learning_without_a_condition(without: str) -> None:
    """UCFH as printed but for its sets, which are wider: here it hopes for more."""
    mdp, kind = make("chain:n=3,horizon=3"), f"without-{without}"
    agent = UCFH(mdp.problem, 0.5, 0.1, confidence=kind, m=1000)
    assert type(agent) is UCFH
    assert agent.settings()["confidence"] == kind
    simulate(mdp, agent, episodes=500, seed=1)
    n = np.repeat(agent.n.visits, mdp.table.lengths)
    seen = (n > 0) & (np.arange(len(n)) < mdp.table.indptr[mdp.table.start])
    assert seen.any()
    p_hat = agent.n.successors[seen] / n[seen]
    lo, hi = confidence_set(p_hat, n[seen], agent.constants.delta_1, without=without)
    assert agent.box.lo[seen].tolist() == lo.tolist()
    assert agent.box.hi[seen].tolist() == hi.tolist()
    printed = UCFH(mdp.problem, 0.5, 0.1, m=1000)
    printed.restore(agent.state())
    assert (agent.box.lo <= printed.box.lo).all()
    assert (printed.box.hi <= agent.box.hi).all()
    assert agent.optimistic >= printed.optimistic


@pytest.mark.parametrize("without", CONDITIONS)
def test_certificates_use_whole_sets(without: str) -> None:
    problem, kind = make("chain:n=3").problem, f"without-{without}"
    with pytest.raises(InputError, match="unknown confidence set"):
        ModelSet(problem, 0.1, kind)
    for stop, schedule in (("certificate", None), (None, "doubling")):
        with pytest.raises(InputError, match="unknown confidence set"):
            CertifiedUCFH(problem, 0.5, 0.1, confidence=kind, stop=stop, schedule=schedule)
