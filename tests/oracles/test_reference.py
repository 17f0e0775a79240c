"""The oracles of reference.py agree with each other and with numbers worked out apart."""

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from oracles import reference as ref
from oracles.published import published_evi
from oracles.reference import Floats, Ints
from support.settings import many
from ucfh import fixed_horizon_evi

TASKS = {
    "T1": (2, 2, 3, 2, 0.5, 0.1),
    "T2": (5, 2, 5, 5, 0.5, 0.1),
    "T3": (10, 2, 10, 10, 0.1, 0.05),
}
NAMES = ("w_min", "u_max", "delta_1", "m", "m_w_min", "cutoff", "episode_bound")
T1, T2, T3 = "T1", "T2", "T3"
GOLDEN = {
    ("paper", T1): "1/48 32.6797000058 7.65000902566e-4 32159538.2832 669990.380900 "
    "192957229.699 39678045621.8",
    ("paper", T2): "1/200 122.877123795 8.13821132129e-5 869468796.844 4347343.98422 "
    "21736719921.1 5.18117445886e12",
    ("paper", T3): "1/4000 372.192809489 6.71694867892e-6 941060630530 235265157.633 "
    "9.4106063053e13 2.63927022209e16",
    ("corrected", T1): "1/96 48 5.20833333333e-4 37232592.5523 387839.505753 "
    "446791110.628 64337919930.4",
    ("corrected", T2): "1/400 150 6.66666666667e-5 711705799.885 1779264.49971 "
    "17792644997.1 6.26301103899e12",
    ("corrected", T3): "1/8000 420 5.95238095238e-6 757986995930 94748374.4912 "
    "7.5798699593e13 2.47406955472e16",
}


@pytest.mark.parametrize(("variant", "task"), GOLDEN)
def test_golden_constants(variant: str, task: str) -> None:
    """Golden values, of both variants."""
    S, A, H, C, eps, delta = TASKS[task]
    got = ref.constants(S, S * A, H, C, min(A, H), eps, delta, variant)
    got["m_w_min"] = got["m"] * got["w_min"]
    for name, printed in zip(NAMES, GOLDEN[variant, task].split(), strict=True):
        assert got[name] == pytest.approx(float(Fraction(printed)), rel=1e-11), name


def test_golden_theorem_2() -> None:
    """Theorem 2 with E13 and E14."""
    S, A, H, eps, delta, eta = 100, 4, 50, 6.86836458328e-4, 1e-4, 1 / 10
    gap = 16 * eps * math.e**4 / ((H - 2) * eta)
    c_1 = 1 / 400 * (eps / (H - 2) / gap) ** 2
    log = math.log(1 / 4 / (delta + math.e**-4 / 80))
    assert c_1 == pytest.approx(3.27600222561e-11, rel=1e-11)
    got = c_1 * (H - 2) ** 2 * (A - 1) * (S - 3) / eps**2 * log
    assert got == pytest.approx(308.847572681, rel=1e-11)
    assert delta < math.e**-4 / 80
    assert eps < (H - 2) / (640 * math.e**4)


def four_states(n: int, **repairs: bool) -> float:
    """Q~ of the first of two steps by the published FixedHorizonEVI, in a state that pays nothing.

    Two successors pay 1/2 each and were seen equally often; a third state, no successor, pays 1.
    """
    S = 4
    successors = np.zeros((S, 1, S), bool)
    successors[0, 0, [1, 2]] = successors[[1, 2, 3], 0, [1, 2, 3]] = True
    p_hat = successors / successors.sum(-1, keepdims=True)
    rewards = np.tile([0.0, 0.5, 0.5, 1.0], (2, 1))
    Q = published_evi(
        p_hat,
        np.full((S, 1), n),
        successors,
        rewards,
        2,
        lambda p, n: ref.printed_hull_by_bisection(p, n, 1e-3),
        **repairs,
    )
    return float(Q[0, 0, 0])


def test_published_planning_loses_mass_outside_the_successors() -> None:
    """E19: V* is 1/2 and p is in the sets, but the published while-loop returns less."""
    assert four_states(2000, pay=True) == pytest.approx(0.4956, abs=5e-5)
    assert four_states(0, pay=True) == 0
    assert four_states(2000, pay=True, pour_on_successors=True) == pytest.approx(0.5, abs=1e-12)
    lo, hi = np.zeros((4, 1, 4)), np.zeros((4, 1, 4))
    lo[0, 0, [1, 2]], hi[0, 0, [1, 2]] = ref.printed_hull_by_bisection(0.5, 2000, 1e-3)
    lo[[1, 2, 3], 0, [1, 2, 3]] = hi[[1, 2, 3], 0, [1, 2, 3]] = 1.0
    plan = fixed_horizon_evi(lo, hi, [[0.0], [0.5], [0.5], [1.0]], 2)
    assert plan.values[0, 0] == pytest.approx(0.5, abs=1e-12)


def test_published_planning_forgets_the_reward() -> None:
    """E1: one state that pays 1 at each of two steps."""
    one, pays = np.ones((1, 1, 1)), np.ones((2, 1))
    for pay, value in [(False, 1.0), (True, 2.0)]:
        Q = published_evi(one, np.full((1, 1), 5), one > 0, pays, 2, lambda p, _: (p, p), pay=pay)
        assert Q[0, 0, 0] == value


def test_exact_logarithms() -> None:
    for k in range(60):
        two = Fraction(2) ** k
        little = Fraction(1, 10**30)
        assert ref.floor_log2(two) == ref.ceil_log2(two) == k
        assert (ref.floor_log2(two + little), ref.ceil_log2(two + little)) == (k, k + 1)
        if k:
            assert (ref.floor_log2(two - little), ref.ceil_log2(two - little)) == (k - 1, k)


def spec_hull(p_hat: float, n: int, delta_1: float) -> tuple[float, float]:
    """The closed form of `ucfh.confidence.intervals`; two scalars."""
    if n == 0:
        return 0.0, 1.0
    log, u = math.log(6 / delta_1), min(p_hat, 1 - p_hat)
    sd, b, lows, highs = math.sqrt(u * (1 - u)), math.sqrt(log / (2 * n)), [0.0], [1.0]

    def big_x(x: float) -> float:
        return 2 * x**2 / (1 + math.sqrt(1 - 4 * x**2))

    if n > 1:
        rho = math.sqrt(2 * log / (n - 1))
        b = min(b, math.sqrt(2 * u * (1 - u) * log / n) + 7 * log / (3 * (n - 1)))
        lows += [big_x(sd - rho)] if sd > rho else []
        highs += [big_x(sd + rho)] if sd + rho < 1 / 2 else []
    lo, hi = max(*lows, u - b), min(*highs, u + b)
    return (1 - hi, 1 - lo) if p_hat > 1 / 2 else (lo, hi)


def counts(rng: np.random.Generator) -> tuple[int, int, float]:
    """Random k successes in n and delta_1, over many orders of magnitude and at the edges."""
    n = int(rng.integers(1, 40)) if rng.random() < 0.5 else int(10 ** rng.uniform(0, 9))
    k = (0, n, n // 2, int(rng.integers(0, n + 1)), int(n * 10 ** rng.uniform(-9, 0)))
    return k[rng.integers(5)], n, 6 * math.exp(-(10 ** rng.uniform(-1.5, 2.7)))


@pytest.mark.slow
def test_hull_closed_form_is_the_set_and_one_interval() -> None:
    """The closed form, and that there are never two intervals."""
    rng = np.random.default_rng(1)
    for _ in range(many(250, 800)):
        k, n, delta_1 = counts(rng)
        tried = ref.grid(k / n, 1001)
        member = np.flatnonzero(ref.in_confidence_set(tried, k / n, n, delta_1))
        assert len(member) == member[-1] - member[0] + 1, (k, n, delta_1)
        hull = ref.hull_by_grid(k / n, n, delta_1, 1001)
        assert ref.in_confidence_set(hull, k / n, n, delta_1).all()
        assert spec_hull(k / n, n, delta_1) == pytest.approx(hull, abs=1e-9), (k, n, delta_1)
        bisected = ref.printed_hull_by_bisection(k / n, n, delta_1)
        assert bisected == pytest.approx(hull, abs=1e-9), (k, n, delta_1)


def test_confidence_sets_with_little_data() -> None:
    q = np.linspace(0, 1, 11)
    for in_set in (ref.in_confidence_set, ref.in_kl_set):
        assert in_set(q, math.nan, 0, 0.1).all()
        assert in_set(q, 0.5, 0, 0.1).all()
        assert not in_set([-0.1, 1.1], 0.5, 0, 0.1).any()
    assert ref.hull_by_grid(0.5, 0, 0.1) == ref.printed_hull_by_bisection(0.5, 0, 0.1) == (0, 1)
    assert ref.kl_hull_by_bisection(0.5, 0, 0.1) == (0, 1)
    delta_1 = 6 * math.exp(-0.5)
    assert ref.hull_by_grid(0.0, 1, delta_1) == pytest.approx((0, 0.5), abs=1e-12)


@pytest.mark.slow
def test_kl_hull() -> None:
    """Its ends solve n kl = ln(2/delta_1) to 60 digits; with L instead it lies in the printed set
    (E10)."""
    rng = np.random.default_rng(2)
    for _ in range(150):
        k, n, delta_1 = counts(rng)
        p, log = k / n, math.log(6 / delta_1)
        same_log = 2 * math.exp(-log)
        lo, hi = ref.kl_hull_by_bisection(p, n, same_log)
        assert ref.in_kl_set([lo, hi], p, n, same_log).all()
        printed = ref.hull_by_grid(p, n, delta_1, 101)
        assert printed[0] <= lo + 1e-12
        assert printed[1] >= hi - 1e-12
        for q in (lo, hi):
            if 1e-15 < q < 1 - 1e-9 and q != p and 0 < p < 1:
                slope = n * abs(q - p) / (q * (1 - q))
                error = float(n * kl_decimal(p, q)) - log
                assert abs(error) <= 1e-13 * log + 1e-15 * slope, (k, n, q)


def kl_decimal(p: float, q: float) -> Decimal:
    """kl(p, q) for 0 < p, q < 1, to 60 digits; scalars."""
    with localcontext() as context:
        context.prec = 60
        a, b = Decimal(p), Decimal(q)
        return a * (a / b).ln() + (1 - a) * ((1 - a) / (1 - b)).ln()


def test_kl_is_accurate() -> None:
    """Also where the plain formula has lost every digit."""
    rng = np.random.default_rng(3)
    for _ in range(500):
        p = float(rng.choice([rng.random(), 10 ** rng.uniform(-9, 0)]))
        q = p * (1 + float(rng.choice([-1, 1])) * 10 ** rng.uniform(-9, 0))
        if 0 < p < 1 and 0 < q < 1 and p != q:
            assert float(ref.kl(p, q)) == pytest.approx(float(kl_decimal(p, q)), rel=1e-12)


def random_box(rng: np.random.Generator, S: int) -> tuple[Floats, Floats]:
    """lo, hi (S,) around a random distribution, some entries impossible, some exact."""
    possible = rng.random(S) < 0.8
    possible[rng.integers(S)] = True
    p = np.where(possible, rng.exponential(size=S), 0.0)
    p /= p.sum()
    width = possible * rng.random((2, S)) * rng.choice([0, 0.01, 0.3, 1], size=(2, S))
    return np.maximum(p - width[0], 0), np.minimum(p + width[1], 1)


@pytest.mark.slow
@pytest.mark.parametrize("optimistic", [True, False])
def test_greedy_is_the_linear_program(optimistic: bool) -> None:
    rng = np.random.default_rng(4)
    for _ in range(500):
        S = int(rng.integers(1, 8))
        lo, hi = random_box(rng, S)
        v = rng.integers(0, 4, size=S) / 1.0 if rng.random() < 0.5 else rng.random(S) * 10
        best = ref.best_expectation(lo, hi, v, optimistic)
        assert ref.greedy_expectation(lo, hi, v, optimistic) == pytest.approx(best, abs=1e-9)


def random_mdp(seed: int) -> tuple[Floats, Floats, Floats, Ints]:
    """p, rewards, p0, policy: small, sparse; time-dependent and r(s,a,s') by the seed's bits."""
    rng = np.random.default_rng(seed)
    H, S, A = (int(x) for x in rng.integers((1, 2, 1), (5, 5, 4)))
    shape = (H, S, A, S) if seed & 1 else (S, A, S)
    p = rng.exponential(size=shape) * (rng.random(shape) < 0.6) + 1e-3 * np.eye(S)[:, None, :]
    rewards = rng.random((H, S, A, S) if seed & 2 else (H, S, A))
    p0 = rng.exponential(size=S) if seed & 4 else np.eye(S)[rng.integers(S)]
    policy = rng.integers(A, size=(H, S))
    return p / p.sum(axis=-1, keepdims=True), rewards, p0 / p0.sum(), policy


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(many(8, 24)))
def test_plan_paths_and_evi_agree(seed: int) -> None:
    """With lo = hi = p all planners agree, and the path sum has the value of the best policy."""
    p, rewards, p0, policy = random_mdp(seed)
    H = len(rewards)
    Q, V = ref.plan(p, rewards, H)
    best = np.argmax(Q, axis=2)
    assert ref.value(p, rewards, p0, best) == pytest.approx(float(p0 @ V[0]), abs=1e-12)
    assert ref.value(p, rewards, p0, policy) <= float(p0 @ V[0]) + 1e-12
    for optimistic in (True, False):
        Q_lp, V_lp = ref.evi(p, p, rewards, H, optimistic)
        assert pytest.approx(Q_lp, abs=1e-9) == Q
        assert pytest.approx(V_lp, abs=1e-9) == V
    lo, hi = 0.7 * p, np.minimum(1.5 * p, 1.0)
    for optimistic, sign in ((True, 1), (False, -1)):
        V_lp = ref.evi(lo, hi, rewards, H, optimistic)[1]
        V_greedy = ref.evi(lo, hi, rewards, H, optimistic, ref.greedy_expectation)[1]
        assert pytest.approx(V_lp, abs=1e-9) == V_greedy
        assert (sign * (V_greedy - V) >= -1e-9).all()


@pytest.mark.parametrize("seed", range(24))
def test_variance_and_occupancy(seed: int) -> None:
    """Var_t = P_t Var_{t+1} + Var(r + V'), plus the noise; and the occupancies."""
    p, rewards, p0, policy = random_mdp(seed)
    H, S = policy.shape
    for bernoulli in (False, True):
        V, var = np.zeros((H + 1, S)), np.zeros((H + 1, S))
        for t in reversed(range(H)):
            for s in range(S):
                row = ref.at(p, t)[s, policy[t, s]]
                r = np.broadcast_to(rewards[t, s, policy[t, s]], (S,))
                V[t, s] = row @ (r + V[t + 1])
                local = row @ (r + V[t + 1]) ** 2 - V[t, s] ** 2
                var[t, s] = row @ var[t + 1] + local + bernoulli * (row @ (r * (1 - r)))
        expected = p0 @ var[0] + p0 @ V[0] ** 2 - (p0 @ V[0]) ** 2
        got = ref.return_variance(p, rewards, p0, policy, bernoulli)
        assert got == pytest.approx(float(expected), abs=1e-12)

    assert math.fsum(x[0] for x in ref.paths(p, rewards, p0, policy)) == pytest.approx(1)
    d, w = ref.segment_occupancy(p, p0, policy), ref.occupancy(p, p0, policy)
    forward = p0
    for t in range(H):
        assert pytest.approx(forward, abs=1e-12) == d[t]
        forward = sum(forward[s] * ref.at(p, t)[s, policy[t, s]] for s in range(S))
    assert w.sum() == pytest.approx(H)
    assert pytest.approx(w.sum(axis=1)) == d.sum(axis=0)
    if rewards.ndim == 3:
        gained = sum(d[t, s] * rewards[t, s, policy[t, s]] for t in range(H) for s in range(S))
        assert ref.value(p, rewards, p0, policy) == pytest.approx(float(gained))


@pytest.mark.parametrize("bias", [True, False])
def test_hard_mdp(bias: bool) -> None:
    """Figure 1: its R* is the optimum, its rows are distributions."""
    p, rewards, p0, best = ref.hard_mdp(3, 4, 6, 0.25, [0, 2, 3], bias)
    assert pytest.approx(1) == p.sum(axis=2)
    assert float(p0 @ ref.plan(p, rewards, 6)[1][0]) == pytest.approx(best, abs=1e-12)
    assert best == pytest.approx(4 * (0.5 + ((0.125 if bias else 0) + 0.5) / 3))


def chain() -> tuple[Floats, Floats, Floats]:
    """Three states in a row, two actions, horizon 3: p (S,A,S), rewards (H,S,A), p0 (S,)."""
    p = np.zeros((3, 2, 3))
    for s in range(3):
        for a, right in enumerate((0.2, 0.8)):
            p[s, a, min(s + 1, 2)] += right
            p[s, a, max(s - 1, 0)] += 1 - right
    rewards = np.zeros((3, 3, 2))
    rewards[:, 2], rewards[:, 0] = 1.0, 0.05
    return p, rewards, np.array([0.75, 0.25, 0.0])


@pytest.mark.slow
@pytest.mark.parametrize("confidence", ["paper", "kl"])
@pytest.mark.parametrize("variant", ["paper", "corrected"])
@pytest.mark.parametrize("segmented", [False, True])
def test_walk_keeps_the_rules(variant: str, confidence: str, segmented: bool) -> None:
    """Algorithm 1: what an update may do, and the optimism of every phase."""
    p, rewards, p0 = chain()
    p = np.stack([p] * 3) if segmented else p
    m, eps, delta = 3000.0, 0.5, 0.1
    S, B = (9, 1) if segmented else (3, 2)
    c = ref.constants(S, 2 * S, 3, 2, B, eps, delta, variant)
    args = (p, rewards, 3, p0, eps, delta, m, variant, 7, 12, confidence)
    run = ref.walk_ucfh(*args)
    optimum = float(p0 @ ref.plan(p, rewards, 3)[1][0])
    n_before = np.zeros(p.shape[:-1], dtype=np.int64)
    for phase in run:
        before, grown = int(n_before.flat[phase.pair]), phase.n - n_before
        gained = int(grown.flat[phase.pair])
        assert phase.episodes >= 1
        assert np.count_nonzero(grown) == 1
        assert phase.n_pair == phase.n.flat[phase.pair] == before + gained
        assert gained >= max(m * c["w_min"], before)
        if variant == "corrected":
            assert gained == math.ceil(max(m * c["w_min"], before))
        assert np.array_equal(phase.n_next.sum(axis=-1), phase.n)
        assert not phase.n_next[p == 0].any()
        assert phase.optimistic_value >= optimum - 1e-9
        n_before = phase.n
    assert len(run) == 12

    again = ref.walk_ucfh(*args, choose=lambda k: run[k].policy)
    assert [x.pair for x in again] == [x.pair for x in run]
    assert [x.episodes for x in again] == [x.episodes for x in run]
    first = ref.walk_ucfh(*args, max_episodes=run[0].episodes + 1)
    assert (first[0].episodes, first[0].pair) == (run[0].episodes, run[0].pair)
    assert sum(x.episodes for x in first) == run[0].episodes + 1
    with pytest.raises(AssertionError, match="not optimistic"):
        ref.walk_ucfh(*args, choose=lambda _: np.zeros((3, 3), dtype=np.int64))


def test_walk_counts_episodes_by_hand() -> None:
    """One state, one action: every episode is H visits, so all counts are known beforehand."""
    p, rewards, p0 = np.ones((1, 1, 1)), np.ones((3, 1, 1)), np.ones(1)
    c = ref.constants(1, 1, 3, 1, 1, 0.5, 0.1, "paper")
    m = 10.5 / c["w_min"]
    surplus = ref.walk_ucfh(p, rewards, 3, p0, 0.5, 0.1, m, "paper", 0, 3)
    assert [(x.episodes, x.n_pair) for x in surplus] == [(4, 12), (4, 24), (8, 48)]
    dropped = ref.walk_ucfh(p, rewards, 3, p0, 0.5, 0.1, m, "corrected", 0, 3)
    assert [(x.episodes, x.n_pair) for x in dropped] == [(4, 11), (4, 22), (8, 44)]
    assert surplus[0].optimistic_value == pytest.approx(3)

    for variant, cutoff in (("paper", 1 * 7.5 * 3), ("corrected", 4 * 7.5 * 3)):
        endless = ref.walk_ucfh(p, rewards, 3, p0, 0.5, 0.1, 7.5, variant, 0, 99)
        assert endless[-2].n_pair >= cutoff > endless[-3].n_pair
        assert (endless[-1].episodes, endless[-1].pair, endless[-1].n_pair) == (0, -1, -1)


def test_walk_draws_as_documented() -> None:
    """1 + H uniforms an episode, inverted over ascending successors."""
    p, rewards, p0 = chain()
    policy = np.argmax(
        ref.evi(np.zeros(p.shape), (p > 0).astype(np.float64), rewards, 3)[0], axis=2
    )
    phase = ref.walk_ucfh(p, rewards, 3, p0, 0.5, 0.1, 1e9, "paper", 11, 1, max_episodes=50)[0]
    assert (phase.episodes, phase.pair, phase.n.sum()) == (50, -1, 0)
    m = 1 / ref.constants(3, 6, 3, 2, 2, 0.5, 0.1, "paper")["w_min"]
    phase = ref.walk_ucfh(p, rewards, 3, p0, 0.5, 0.1, m, "paper", 11, 1)[0]
    u = np.random.default_rng(11).random(4)
    s, seen = int(u[0] >= 0.75), []
    for t in range(3):
        a = int(policy[t, s])
        following = np.flatnonzero(p[s, a])
        s_next = int(following[int(u[t + 1] >= p[s, a, following[0]])])
        seen.append((s * 2 + a, s_next))
        s = s_next
    assert phase.pair == min(pair for pair, _ in seen)
    expected = np.bincount([x for pair, x in seen if pair == phase.pair], minlength=3)
    assert phase.n_next.reshape(6, 3)[phase.pair].tolist() == expected.tolist()
