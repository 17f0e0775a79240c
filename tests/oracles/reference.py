"""Slow, obvious oracles for the fast implementation, written from the paper and docs/theory/.

Dann and Brunskill, "Sample Complexity of Episodic Fixed-Horizon Reinforcement Learning", NIPS
2015; errata are those of docs/theory/errata.md. All arrays are dense: p is (S,A,S) or (H,S,A,S),
rewards are (H,S,A) or (H,S,A,S'), policies are (H,S) integers, and the segment t counts from 0.
A pair has index s*A+a, or (t*S+s)*A+a where transitions depend on the segment.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.optimize import linprog

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]
Path = tuple[float, float, tuple[int, ...], tuple[float, ...]]


def floor_log2(x: Fraction) -> int:
    """The largest integer k with 2^k <= x, exactly; x >= 1."""
    return math.floor(x).bit_length() - 1


def ceil_log2(x: Fraction) -> int:
    """The smallest integer k with 2^k >= x, exactly; x >= 1."""
    return (math.ceil(x) - 1).bit_length()


def constants(
    S: int, SA: int, H: int, C: int, B: int, eps: float, delta: float, variant: str
) -> dict[str, float]:
    """w_min, u_max, delta_1, m, cutoff and episode_bound, all scalars.

    "paper": the first lines of Algorithm 1, and the number that ends the proof of Theorem 1;
    max(1, log2 log2 H) by E2 of docs/theory/errata.md. "corrected": the constants listed there,
    with B = min(A,H), or B = 1 for the segment-augmented problem. eps and delta are read as the
    decimals they print as; logarithms are taken to 50 digits.
    """
    e, d = Fraction(str(eps)), Fraction(str(delta))
    with localcontext() as context:
        context.prec = 50

        def real(x: Fraction) -> Decimal:
            return Decimal(x.numerator) / Decimal(x.denominator)

        def log2(x: Decimal) -> Decimal:
            return x.ln() / Decimal(2).ln()

        loglog = max(Decimal(1), log2(log2(Decimal(H)))) if H > 2 else Decimal(1)
        scale = 512 * loglog**2 * real(C * H**2 / e**2)
        if variant == "paper":
            w_min = e / (4 * H * S)
            u_max = SA * log2(real(S * H / w_min))
            delta_1 = real(d) / (2 * u_max * C)
            in_log = 6 * SA * C * log2(real(4 * S**2 * H**2 / e)) ** 2 / real(d)
            m = scale * log2(real(8 * H**2 * S**2 / e)) ** 2 * in_log.ln()
            cutoff = S * m * H
            bound = 6 * SA * m * log2(real(4 * H**2 * S / e)) ** 2
        elif variant == "corrected":
            w_min = e / (4 * H * S * B)
            y = max(S, 4) * H / w_min
            u_max = Decimal(SA * (ceil_log2(y) + 1))
            delta_1 = real(d) / (2 * u_max * C)
            importances = floor_log2(H / w_min) + 1
            m = scale * ceil_log2(2 * y) * importances * (6 / delta_1).ln()
            cutoff = max(S, 4) * m * H
            enough = max(m, real(H * ceil_log2(2 * y) / (2 * w_min)))  # E17
            bound = 16 * SA * enough * importances * (1 + ceil_log2(Fraction(S * B)))
        else:
            raise ValueError(f"variant must be 'paper' or 'corrected', not {variant!r}")
        names = ("w_min", "u_max", "delta_1", "m", "cutoff", "episode_bound")
        values = (real(w_min), u_max, delta_1, m, cutoff, bound)
        return {name: float(x) for name, x in zip(names, values, strict=True)}


def in_confidence_set(
    q: ArrayLike, p_hat: ArrayLike, n: ArrayLike, delta_1: float, without: str | None = None
) -> Bools:
    """Whether q is in ConfidenceSet(p_hat, n) as Algorithm 1 prints it; the arguments broadcast.

    Conditions (i), (ii), (iii) of Algorithm 1: at n = 1 only (i), at n = 0 all of [0,1].
    without: a condition that is not asked for, "hoeffding", "bernstein" or "deviation".
    """
    q, p_hat, n = (np.asarray(x, dtype=np.float64) for x in (q, p_hat, n))
    log = math.log(6 / delta_1)
    with np.errstate(divide="ignore", invalid="ignore"):
        away = abs(q - p_hat)
        first = (away <= np.sqrt(log / (2 * n))) | (without == "hoeffding")
        second = away <= np.sqrt(2 * p_hat * (1 - p_hat) * log / n) + 7 * log / (3 * (n - 1))
        deviations = abs(np.sqrt(q * (1 - q)) - np.sqrt(p_hat * (1 - p_hat)))
        third = deviations <= np.sqrt(2 * log / (n - 1))
    second, third = second | (without == "bernstein"), third | (without == "deviation")
    inside = np.where(n > 1, first & second & third, first) | (n == 0)
    return np.asarray(inside & (q >= 0) & (q <= 1), dtype=np.bool_)


def grid(p_hat: float, points: int) -> Floats:
    """Equidistant points of [0,1], p_hat, and points that crowd towards p_hat; ascending, (G,)."""
    crowd = 2.0 ** -np.arange(0, 53, 0.125)
    near = np.concatenate([p_hat - crowd, [p_hat], p_hat + crowd])
    both = np.union1d(np.linspace(0, 1, points), near)
    return np.asarray(both[(both >= 0) & (both <= 1)], dtype=np.float64)


def last_member(member: Callable[[float], bool], inside: float, outside: float) -> float:
    """Bisection between a member and a non-member, down to neighbouring doubles; a member."""
    while (middle := (inside + outside) / 2) not in (inside, outside):
        if member(middle):
            inside = middle
        else:
            outside = middle
    return inside


def hull_by_grid(
    p_hat: float, n: int, delta_1: float, points: int = 1001, without: str | None = None
) -> tuple[float, float]:
    """Smallest and largest member of ConfidenceSet(p_hat, n), found by trying (two scalars).

    The outermost members of a fine grid (appendix A's min and max of the set), then bisection on
    membership against their outer neighbours. Both answers are members.
    """

    def member(q: float) -> bool:
        return bool(in_confidence_set(q, p_hat, n, delta_1, without))

    tried = grid(p_hat, points)
    found = np.flatnonzero(in_confidence_set(tried, p_hat, n, delta_1, without))
    first, last = int(found[0]), int(found[-1])
    lo, hi = float(tried[first]), float(tried[last])
    if first > 0:
        lo = last_member(member, lo, float(tried[first - 1]))
    if last + 1 < len(tried):
        hi = last_member(member, hi, float(tried[last + 1]))
    return lo, hi


def kl(p: ArrayLike, q: ArrayLike) -> Floats:
    """Bernoulli relative entropy; p and q broadcast.

    With d = q - p it is p g(d/p) + (1-p) g(-d/(1-p)), g(x) = x - ln(1+x): no cancellation is left
    but the one inside g, where a series replaces it.
    """
    p, q = (np.asarray(x, dtype=np.float64) for x in (p, q))

    def g(x: Floats) -> Floats:
        near = np.where(abs(x) < 1e-2, x, 0.0)
        series = sum((-near) ** k / k for k in range(2, 12))
        return np.where(abs(x) < 1e-2, series, x - np.log1p(x))

    with np.errstate(divide="ignore", invalid="ignore"):
        inner = p * g((q - p) / p) + (1 - p) * g((p - q) / (1 - p))
        entropy = np.where(p == 0, -np.log1p(-q), np.where(p == 1, -np.log(q), inner))
    return np.asarray(entropy, dtype=np.float64)


def in_kl_set(q: ArrayLike, p_hat: ArrayLike, n: ArrayLike, delta_1: float) -> Bools:
    """Whether n kl(p_hat, q) <= ln(2/delta_1); n = 0 gives [0,1]; broadcasts."""
    q, n = np.asarray(q, dtype=np.float64), np.asarray(n, dtype=np.float64)
    with np.errstate(invalid="ignore"):
        close = n * kl(p_hat, q) <= math.log(2 / delta_1)
    return np.asarray((close | (n == 0)) & (q >= 0) & (q <= 1), dtype=np.bool_)


def hull_by_bisection(
    in_set: Callable[[float, float, int, float], Bools], p_hat: float, n: int, delta_1: float
) -> tuple[float, float]:
    """Ends of an interval around p_hat that in_set describes (two scalars); both are members."""

    def member(q: float) -> bool:
        return bool(in_set(q, p_hat, n, delta_1))

    lo = 0.0 if member(0.0) else last_member(member, p_hat, 0.0)
    hi = 1.0 if member(1.0) else last_member(member, p_hat, 1.0)
    return lo, hi


def printed_hull_by_bisection(p_hat: float, n: int, delta_1: float) -> tuple[float, float]:
    """Ends of ConfidenceSet(p_hat, n), which is never two intervals; scalars."""
    return hull_by_bisection(in_confidence_set, p_hat, n, delta_1)


def kl_hull_by_bisection(p_hat: float, n: int, delta_1: float) -> tuple[float, float]:
    """Ends of the KL interval (E10); kl(p_hat, .) is convex; scalars."""
    return hull_by_bisection(in_kl_set, p_hat, n, delta_1)


def best_expectation(lo: Floats, hi: Floats, v: Floats, optimistic: bool = True) -> float:
    """Largest (or smallest) p.v over lo <= p <= hi, sum p = 1, by HiGHS; lo, hi, v are (S,).

    The inner maximum of appendix A, over its feasible set P_{s,a}.
    """
    box = list(zip(lo.tolist(), hi.tolist(), strict=True))
    cost, ones = (-v if optimistic else v), np.ones((1, len(v)))
    result = linprog(
        cost, A_eq=ones, b_eq=[1.0], bounds=box, options={"primal_feasibility_tolerance": 1e-10}
    )
    if result.x is None:
        raise ValueError(f"linear program not solved: {result.message}")
    return float(np.dot(result.x, v))


def greedy_expectation(lo: Floats, hi: Floats, v: Floats, optimistic: bool = True) -> float:
    """The same by the while-loop of FixedHorizonEVI (appendix A); lo, hi, v are (S,).

    Start at lo and pour the rest into the successors, best first; rounding goes to the best one.
    """
    order = sorted(np.flatnonzero(hi > 0), key=lambda i: float(v[i]), reverse=optimistic)
    p, mass = lo.copy(), 1.0 - float(lo.sum())
    for i in order:
        poured = min(max(mass, 0.0), float(hi[i] - lo[i]))
        p[i] += poured
        mass -= poured
    p[order[0]] += mass
    return float(np.dot(p, v))


def at(x: Floats, t: int) -> Floats:
    """x (S,A,S) itself, or the t-th segment of x (H,S,A,S)."""
    return np.asarray(x[t] if x.ndim == 4 else x, dtype=np.float64)


def evi(
    lo: Floats,
    hi: Floats,
    rewards: Floats,
    horizon: int,
    optimistic: bool = True,
    expectation: Callable[[Floats, Floats, Floats, bool], float] = best_expectation,
) -> tuple[Floats, Floats]:
    """FixedHorizonEVI (appendix A) with the reward it forgets (erratum 1): Q (H,S,A), V (H+1,S).

    lo, hi (S,A,S) or (H,S,A,S); rewards (H,S,A) or (H,S,A,S). optimistic=False takes the worst
    transitions instead, still with the best action.
    """
    H, S, A = rewards.shape[:3]
    assert horizon == H
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for t in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                v = rewards[t, s, a] + V[t + 1]
                Q[t, s, a] = expectation(at(lo, t)[s, a], at(hi, t)[s, a], v, optimistic)
            V[t, s] = max(Q[t, s])
    return Q, V


def plan(p: Floats, rewards: Floats, horizon: int) -> tuple[Floats, Floats]:
    """Exact backward induction for V* (the paper's section 2): Q (H,S,A), V (H+1,S).

    p (S,A,S) or (H,S,A,S); rewards (H,S,A) or (H,S,A,S).
    """
    H, S, A = rewards.shape[:3]
    assert horizon == H
    Q, V = np.zeros((H, S, A)), np.zeros((H + 1, S))
    for t in reversed(range(H)):
        for s in range(S):
            for a in range(A):
                r = np.broadcast_to(rewards[t, s, a], (S,))
                for s_next in range(S):
                    Q[t, s, a] += at(p, t)[s, a, s_next] * (r[s_next] + V[t + 1, s_next])
            V[t, s] = max(Q[t, s])
    return Q, V


def paths(p: Floats, rewards: Floats, p0: Floats, policy: Ints) -> list[Path]:
    """All paths of positive probability: (probability, return, states (H+1,), rewards (H,)).

    s_1 ~ p_0 (S,), a_t = pi_t(s_t), s_{t+1} ~ p(.|s_t,a_t) (the paper's section 2). p (S,A,S) or
    (H,S,A,S), rewards (H,S,A) or (H,S,A,S), policy (H,S).
    """
    H, S = policy.shape
    found: list[Path] = [(float(p0[s]), 0.0, (s,), ()) for s in range(S) if p0[s] > 0]
    for t in range(H):
        shorter, found = found, []
        for probability, total, states, collected in shorter:
            s, a = states[-1], int(policy[t, states[-1]])
            for s_next in range(S):
                chance = probability * float(at(p, t)[s, a, s_next])
                r = float(np.broadcast_to(rewards[t, s, a], (S,))[s_next])
                if chance > 0:
                    found.append((chance, total + r, (*states, s_next), (*collected, r)))
    return found


def value(p: Floats, rewards: Floats, p0: Floats, policy: Ints) -> float:
    """R^pi, the total expected reward (the paper's section 2), by enumeration; shapes as paths."""
    return math.fsum(chance * total for chance, total, _, _ in paths(p, rewards, p0, policy))


def return_variance(
    p: Floats, rewards: Floats, p0: Floats, policy: Ints, bernoulli: bool = False
) -> float:
    """Variance of the return (lemma "varV_bellman"), by enumeration; as paths.

    It includes the randomness of the start. bernoulli=True: each reward is 0 or 1 with the given
    mean r, independent given the path, which adds r(1-r).
    """
    mean, variance = value(p, rewards, p0, policy), 0.0
    for chance, total, _, collected in paths(p, rewards, p0, policy):
        noise = sum(r * (1 - r) for r in collected) if bernoulli else 0.0
        variance += chance * ((total - mean) ** 2 + noise)
    return variance


def segment_occupancy(p: Floats, p0: Floats, policy: Ints) -> Floats:
    """d (H,S): the probability of being in s at segment t, by enumeration."""
    H, S = policy.shape
    d = np.zeros((H, S))
    for chance, _, states, _ in paths(p, np.zeros((H, *p.shape[-3:-1])), p0, policy):
        for t in range(H):
            d[t, states[t]] += chance
    return d


def occupancy(p: Floats, p0: Floats, policy: Ints) -> Floats:
    """w (S,A): expected visits of a pair in an episode (the paper's w_k), by enumeration."""
    w = np.zeros(p.shape[-3:-1])
    for t, d in enumerate(segment_occupancy(p, p0, policy)):
        for s, chance in enumerate(d):
            w[s, policy[t, s]] += chance
    return w


@dataclass(frozen=True)
class Phase:
    """One phase of Algorithm 1; n (S,A), n_next (S,A,S) after the update; policy (H,S).

    With time-dependent transitions n and n_next have a leading segment axis. A phase that did not
    end in an update has pair = n_pair = -1; one that never could has episodes = 0 as well.
    """

    episodes: int
    pair: int
    n_pair: int
    n: Ints
    n_next: Ints
    optimistic_value: float
    policy: Ints


def pick(successors: Ints, cumulative: Floats, u: float) -> int:
    """The first successor whose cumulative probability exceeds u, else the last; both (C,)."""
    for s, total in zip(successors, cumulative, strict=True):
        if total > u:
            return int(s)
    return int(successors[-1])


def walk_ucfh(
    p: Floats,
    rewards: Floats,
    horizon: int,
    p0: Floats,
    eps: float,
    delta: float,
    m: float | None,
    variant: str,
    seed: int,
    phases: int,
    confidence: str = "paper",
    choose: Callable[[int], Ints] | None = None,
    max_episodes: int | None = None,
) -> list[Phase]:
    """Algorithm 1, one episode at a time (as corrected in docs/theory/errata.md for "corrected").

    p (S,A,S) or (H,S,A,S), rewards (H,S,A) or (H,S,A,S), p0 (S,). The agent is told all but p,
    of which it knows where it is positive. If p depends on the segment, pairs are (t,s,a) and the
    constants those of S*H states with B = 1. m=None is the formula's m; any other m changes
    m w_min (the product of doubles) and the cut-off only. confidence: "paper" or "kl".
    An episode takes 1 + H uniforms. The triggered pair of lowest index is updated. "corrected"
    counts at most ceil(max(m w_min, n)) observations of a pair (erratum 11).
    choose(k) gives the policy (H,S) of the k-th phase, from 0: its actions must be within 1e-9 of
    the best optimistic value; without it, the best action of lowest index.
    """
    H, S, A = rewards.shape[:3]
    assert horizon == H
    segmented = p.ndim == 4
    S_told, B = (S * H, 1) if segmented else (S, min(A, H))
    table = p.reshape(-1, S)
    successors = [np.flatnonzero(row > 0) for row in table]
    cumulative = [np.cumsum(row[row > 0]) for row in table]
    start, start_cumulative = np.flatnonzero(p0 > 0), np.cumsum(p0[p0 > 0])
    C = max(len(following) for following in successors)
    c = constants(S_told, len(table), H, C, B, eps, delta, variant)
    m = c["m"] if m is None else float(m)
    cutoff = (S_told if variant == "paper" else max(S_told, 4)) * m * H
    m_w_min = m * c["w_min"]
    hull = {"paper": printed_hull_by_bisection, "kl": kl_hull_by_bisection}[confidence]

    n, v = np.zeros((2, len(table)), dtype=np.int64)
    n_next, v_next = np.zeros((2, *table.shape), dtype=np.int64)
    lo, hi = np.zeros(table.shape), (table > 0).astype(np.float64)
    rng = np.random.default_rng(seed)

    def pair_of(t: int, s: int, policy: Ints) -> int:
        return int(((t if segmented else 0) * S + s) * A + policy[t, s])

    def triggered() -> list[int]:
        return [int(i) for i in np.flatnonzero((v >= np.maximum(m_w_min, n)) & (n < cutoff))]

    def can_trigger(policy: Ints) -> bool:
        reached = set(start.tolist())
        for t in range(H):
            pairs = [pair_of(t, s, policy) for s in reached]
            if any(n[i] < cutoff for i in pairs):
                return True
            reached = {s for i in pairs for s in successors[i].tolist()}
        return bool(triggered())

    def sample_episode(policy: Ints) -> None:
        s = pick(start, start_cumulative, rng.random())
        for t in range(H):
            i = pair_of(t, s, policy)
            s = pick(successors[i], cumulative[i], rng.random())
            if variant == "paper" or v[i] < math.ceil(max(m_w_min, n[i])):
                v[i] += 1
                v_next[i, s] += 1

    done: list[Phase] = []
    left = math.inf if max_episodes is None else max_episodes
    pair = 0
    while len(done) < phases and left > 0 and pair >= 0:
        boxes = lo.reshape(p.shape), hi.reshape(p.shape)
        Q, V = evi(*boxes, rewards, H, expectation=greedy_expectation)
        policy = np.argmax(Q, axis=2) if choose is None else np.array(choose(len(done)))
        chosen = np.take_along_axis(Q, policy[:, :, None], axis=2)[:, :, 0]
        assert (chosen >= V[:H] - 1e-9).all(), f"phase {len(done)}: an action is not optimistic"

        episodes, pair = 0, -1
        if can_trigger(policy):
            while pair < 0 and left > 0:
                sample_episode(policy)
                episodes, left = episodes + 1, left - 1
                pair = min(triggered(), default=-1)
        if pair >= 0:
            n[pair] += v[pair]
            n_next[pair] += v_next[pair]
            v[pair], v_next[pair] = 0, 0
            for s in successors[pair].tolist():
                p_hat = float(n_next[pair, s] / n[pair])
                lo[pair, s], hi[pair, s] = hull(p_hat, int(n[pair]), c["delta_1"])
        n_pair = int(n[pair]) if pair >= 0 else -1
        counts = n.reshape(p.shape[:-1]).copy(), n_next.reshape(p.shape).copy()
        done.append(Phase(episodes, pair, n_pair, *counts, float(np.dot(p0, V[0])), policy))
    return done


def hard_mdp(
    n: int, actions: int, horizon: int, gap: float, hypothesis: Sequence[int], bias: bool = True
) -> tuple[Floats, Floats, Floats, float]:
    """Figure 1: p (S,A,S), rewards (H,S,A), p0 (S,) and R*, with S = n + 3.

    State 0 starts, 1..n are bandits, n+1 is +, n+2 is -. hypothesis (n,) holds I_i in 0..A-1, 0
    for "no action is better than action 0". bias=False leaves out action 0's gap/2.
    """
    S, plus, minus = n + 3, n + 1, n + 2
    edge, p = np.zeros((n, actions)), np.zeros((S, actions, S))
    for a in range(actions):
        for i in range(1, n + 1):
            if a == 0 and bias:
                edge[i - 1, a] = gap / 2
            if a >= 1 and a == hypothesis[i - 1]:
                edge[i - 1, a] = gap
            p[0, a, i] = 1 / n
            p[i, a, plus] = 1 / 2 + edge[i - 1, a]
            p[i, a, minus] = 1 / 2 - edge[i - 1, a]
        p[plus, a, plus] = p[minus, a, minus] = 1.0
    rewards = np.zeros((horizon, S, actions))
    rewards[:, plus, :] = 1.0
    best = max(horizon - 2, 0) * (0.5 + float(edge.max(axis=1).mean()))
    return p, rewards, np.eye(S)[0], best
