"""Bounds computed directly from the propositions of docs/theory, without the package.

Every function cites the proposition that defines its number. The code is slow and plain on
purpose: data are lists of single steps, sums run over single terms, and optima are found by
search. Nothing is imported from `ucfh`, and nothing here was derived from its kernels. The only
numbers taken from the package are the shares of delta of each part, which no theorem fixes
(`SHARES` in `ucfh.confidence.unknown_states` and `ucfh.confidence.known_states`); callers pass them
in.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import numpy as np
from scipy.optimize import linprog, minimize
from scipy.special import gammaln

LOST = "(lost)"  # the next state of a step whose outcome is missing
END = "(end)"  # the next state of a step after which the episode is over
OPEN = "(open)"  # the next state of a step whose outcome is delayed


# ---------------------------------------------------------------- one state-action pair


def kl(x: float, y: float) -> float:
    """Return kl(x, y) of two Bernoulli distributions."""
    total = 0.0
    for a, b in ((x, y), (1 - x, 1 - y)):
        if a > 0:
            total += math.inf if b <= 0 else a * math.log(a / b)
    return total


def kl_ends(x: float, radius: float) -> tuple[float, float]:
    """Return the ends of {q : kl(x, q) <= radius}, by bisection (Propositions 15, 20 and 24)."""

    def end(inside: float, outside: float) -> float:
        for _ in range(200):
            middle = (inside + outside) / 2
            if kl(x, middle) <= radius:
                inside = middle
            else:
                outside = middle
        return inside

    return (
        0.0 if kl(x, 0.0) <= radius else end(x, 0.0),
        1.0 if kl(x, 1.0) <= radius else end(x, 1.0),
    )


def published_set(p_hat: float, n: int, delta_1: float, grid: int = 200_001) -> tuple[float, float]:
    """Return the smallest and the largest p' of a grid in the published set (Algorithm 1).

    Proposition 1 says that the set is one interval, so the ends of the hull lie within one cell of
    these.
    """
    if n == 0:
        return 0.0, 1.0
    p = np.linspace(0, 1, grid)
    log = math.log(6 / delta_1)
    distance = np.abs(p - p_hat)
    inside = distance <= math.sqrt(log / (2 * n))
    if n > 1:
        variance = p_hat * (1 - p_hat)
        inside &= distance <= math.sqrt(2 * variance * log / n) + 7 * log / (3 * (n - 1))
        deviation = np.abs(np.sqrt(p * (1 - p)) - math.sqrt(variance))
        inside &= deviation <= math.sqrt(2 * log / (n - 1))
    if not inside.any():
        return p_hat, p_hat
    return float(p[inside].min()), float(p[inside].max())


def regret(n: float) -> float:
    """Return reg(n) of Proposition 20."""
    return 0.5 * math.log(math.pi) + math.lgamma(n + 1) - math.lgamma(n + 0.5)


def x_log_x(x: float) -> float:
    """Return x ln x, 0 at 0."""
    return x * math.log(x) if x > 0 else 0.0


def binary_excess(k: int, n: int) -> float:
    """Return the last term of Proposition 20."""
    if n == 0:
        return 0.0
    likelihood = x_log_x(k) + x_log_x(n - k) - x_log_x(n)
    mixture = (
        math.lgamma(k + 0.5) + math.lgamma(n - k + 0.5) - math.lgamma(n + 1) - math.log(math.pi)
    )
    return likelihood - mixture


def dirichlet_excess(counts: list[int]) -> float:
    """Return ln ML - ln Q of Proposition 18."""
    n, c = sum(counts), len(counts)
    log_ml = sum(map(x_log_x, counts)) - x_log_x(n)
    log_q = math.lgamma(c / 2) - math.lgamma(n + c / 2)
    log_q += sum(math.lgamma(k + 0.5) - math.lgamma(0.5) for k in counts)
    return log_ml - log_q


def sparse_excess(counts: list[int]) -> float:
    """Return ln ML - ln Q of Proposition 19, the whole sum over sizes of the support."""
    n, c = sum(counts), len(counts)
    seen = [k for k in counts if k > 0]
    d = len(seen)
    terms = []
    for k in range(max(d, 1), c + 1):
        weight = math.log(math.comb(c - d, k - d)) - math.log(math.comb(c, k)) - math.log(c)
        terms.append(weight + math.lgamma(k / 2) - math.lgamma(n + k / 2))
    log_q = np.logaddexp.reduce(terms) + sum(math.lgamma(k + 0.5) - math.lgamma(0.5) for k in seen)
    return sum(map(x_log_x, seen)) - x_log_x(n) - float(log_q)


@cache
def _log_sum_of_sizes(d: int, least: int, n: int) -> float:
    """Return ln S of Proposition 66: the sum over kappa >= least, its tail by an integral."""
    sizes = np.arange(least, least + 20_000, dtype=float)
    terms = (
        -np.log(sizes * (sizes + 1))
        + gammaln(sizes + 1)
        - gammaln(sizes - d + 1)
        + gammaln(sizes / 2)
        - gammaln(n + sizes / 2)
    )
    total = float(np.logaddexp.reduce(terms))
    power = 2 + n - d  # terms fall like kappa^-power
    if power < 50:
        tail = terms[-1] + math.log((sizes[-1] + 0.5) / (power - 1))
        total = float(np.logaddexp(total, tail))
    return total


def pattern_radius(counts: list[int], lost: int, delta: float) -> float:
    """Return the radius of the ball of Proposition 66 around repetitions and lost draws.

    Without lost draws it is that of Proposition 59. Infinite if nothing was repeated or lost.
    """
    d, n = len(counts), sum(counts) + lost
    size = n - d
    if d == 0 or size <= 0:
        return math.inf
    excess = size - x_log_x(size) - _log_sum_of_sizes(d, d + (lost > 0), n)
    for c in counts:
        excess += x_log_x(c - 1) - (c - 1) - (math.lgamma(c + 0.5) - math.lgamma(0.5))
    return (math.log(1 / delta) + excess) / size


def missing_mass(events: int, quiet: int, delta: float) -> float:
    """Return the bound of Propositions 60 and 67: events so far, and quiet draws since the last."""
    if quiet <= 0 or events <= 0:
        return 1.0
    return -math.expm1(-math.log(events * (events + 1) / delta) / quiet)


def dual_value(
    values: Sequence[float], weights: Sequence[float], nu: float, eta: float
) -> tuple[float, float]:
    """Return nu - e^-eta prod (nu - v)^p of Propositions 27 and 56, and the slack."""
    total = sum(weights)
    log = 0.0
    for v, w in zip(values, weights, strict=True):
        if w > 0:
            if nu - v <= 0:
                return nu, 0.0
            log += w / total * math.log(nu - v)
    slack = math.exp(log - eta)
    return nu - slack, slack


@dataclass(frozen=True)
class Reach:
    """A bound at a fixed nu, with its slack; see Proposition 35."""

    value: float
    nu: float
    slack: float


def largest_mean(
    values: Sequence[float], weights: Sequence[float], top: float, eta: float
) -> Reach:
    """Return the largest mean over a relative-entropy ball (Proposition 27).

    ``top`` is the largest value that an unseen label may have. Weights are counts. The dual is
    minimized by a search over nu = F + x: by Proposition 27 it is exact.
    """
    pairs = [(v, w) for v, w in zip(values, weights, strict=True) if w > 0]
    largest = max([top] + [v for v, _ in pairs])
    if not pairs or math.isinf(eta):
        return Reach(largest, largest, 0.0)
    values = [v for v, _ in pairs]
    weights = [w for _, w in pairs]

    def at(z: float) -> float:
        return dual_value(values, weights, largest + math.exp(z), eta)[0]

    grid = np.linspace(-45, 25, 281)
    best = int(np.argmin([at(z) for z in grid]))
    low, high = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    ratio = (math.sqrt(5) - 1) / 2
    for _ in range(90):
        a, b = high - ratio * (high - low), low + ratio * (high - low)
        if at(a) <= at(b):
            high = b
        else:
            low = a
    x = math.exp((low + high) / 2)
    value, slack = dual_value(values, weights, largest + x, eta)
    value_0, slack_0 = dual_value(values, weights, largest, eta)
    if value_0 <= value:
        value, slack, x = value_0, slack_0, 0.0
    if value >= largest:
        return Reach(largest, largest, 0.0)
    return Reach(value, largest + x, slack)


def largest_mean_by_solver(
    values: Sequence[float], weights: Sequence[float], top: float | None, eta: float
) -> float:
    """Return the same by a general solver over all distributions: the primal of Proposition 27."""
    v = np.array(list(values) + ([] if top is None else [top]))
    p = np.array(list(weights) + ([] if top is None else [0.0])) / sum(weights)
    seen = p > 0

    def divergence(q: np.ndarray) -> float:
        return float(np.sum(p[seen] * np.log(p[seen] / np.maximum(q[seen], 1e-300))))

    best = -math.inf
    for mix in (0.05, 0.3):
        start = (1 - mix) * p + mix / len(p)
        found = minimize(  # type: ignore[call-overload]
            lambda q: -float(q @ v),
            start,
            jac=lambda _: -v,
            bounds=[(1e-12, 1)] * len(p),
            constraints=[
                {"type": "eq", "fun": lambda q: q.sum() - 1},
                {"type": "ineq", "fun": lambda q: eta - divergence(q)},
            ],
            method="SLSQP",
            options={"maxiter": 500, "ftol": 1e-13},
        )
        if divergence(found.x) <= eta + 1e-7:
            best = max(best, float(found.x @ v))
    return best


def one_function(
    values: Sequence[float], weights: Sequence[float], top: float, delta: float
) -> Reach:
    """Return the bound of Propositions 23 and 56 on the mean of a fixed function, from above."""
    n = sum(weights)
    if n == 0:
        return Reach(top, top, 0.0)
    return largest_mean(values, weights, top, (math.log(1 / delta) + regret(n)) / n)


def ladder(values: Sequence[float], weights: Sequence[float], cap: float, delta: float) -> Reach:
    """Return the least bound of Proposition 57 over k = 0, ..., 200; values are at most cap."""
    n = sum(weights)
    best = Reach(cap, cap, 0.0)
    if n == 0 or cap <= 0:
        return best
    for k in range(200):
        nu = 2.0**k * cap
        value, slack = dual_value(values, weights, nu, math.log((k + 1) * (k + 2) / delta) / n)
        if value < best.value:
            best = Reach(value, nu, slack)
    return best


def mean_reward(total: float, n: float, delta: float) -> tuple[float, float]:
    """Return the bounds of Proposition 24 on a mean reward."""
    if n == 0:
        return 0.0, 1.0
    return kl_ends(min(max(total / n, 0.0), 1.0), (math.log(1 / delta) + regret(n)) / n)


def lower_mean(scores: list[float], goal: float) -> float:
    """Return the largest v with W_n(v) >= e^goal of Proposition 25, by bisection.

    All k up to 2 + floor(log2(n + 1)) are used, as the proposition's note says.
    """
    n = len(scores)
    if n == 0 or sum(scores) <= 0:
        return 0.0
    x = np.array(scores, dtype=float)
    sizes = range(2 + math.floor(math.log2(n + 1)))

    def log_wealth(v: float) -> float:
        parts = []
        for k in sizes:
            factors = 1 + 2.0**-k * (x / v - 1)
            if (factors > 0).all():
                parts.append(float(np.log(factors).sum()) - math.log((k + 1) * (k + 2)))
        return float(np.logaddexp.reduce(parts)) if parts else -math.inf

    low, high = 0.0, float(x.mean())
    for _ in range(200):
        middle = (low + high) / 2
        if middle > 0 and log_wealth(middle) >= goal:
            low = middle
        else:
            high = middle
    return low


def l1_radius(c: int, n: int, delta: float) -> float:
    """Return the radius of Proposition 16."""
    return math.inf if n == 0 else math.sqrt(2 * math.log((2**c - 2) / delta) / n)


def largest_mean_in_l1(values: list[float], p_hat: list[float], radius: float) -> float:
    """Return the largest mean over an L1 ball by linear programming (Proposition 28)."""
    c = len(values)
    if math.isinf(radius):
        return max(values)
    # q = p_hat + up - down
    Anyive = -np.concatenate([values, -np.array(values)])
    total = linprog(
        Anyive,
        A_ub=np.vstack(
            [np.ones(2 * c), np.hstack([-np.eye(c), np.eye(c)])],
        ),
        b_ub=np.concatenate([[radius], p_hat]),
        A_eq=[np.concatenate([np.ones(c), -np.ones(c)])],
        b_eq=[0],
        bounds=(0, None),
        method="highs",
    )
    return float(np.dot(values, p_hat) - total.fun)


def closed_ball_radius(c: int, n: int, delta: float) -> float:
    """Return the radius of Proposition 21."""
    if n == 0:
        return math.inf
    return (math.log(1 / delta) + (c - 1) * (1 + math.log1p(n / (c - 1)))) / n


# ---------------------------------------------------------------- unknown state space


@dataclass
class Task:
    """What is declared about a task, in units where rewards lie in [0, 1] (Proposition 63).

    Attributes:
        horizon: H. actions: the actions of every state.
        segments: first steps (from 1) of the segments after the first.
        largest: the largest return G, or None. after_end: the reward of a step after the end.
        states: all states there are, or None if others may exist.
    """

    horizon: int
    actions: tuple[Any, ...]
    segments: tuple[Any, ...] = ()
    largest: float | None = None
    after_end: float = 0.0
    states: tuple[Any, ...] | None = None

    def segment(self, t: int) -> int:
        return sum(t >= first for first in self.segments)

    def length(self, g: int) -> int:
        return sum(self.segment(t) == g for t in range(1, self.horizon + 1))

    def cap(self, t: int) -> float:
        """Return B_t of Proposition 62."""
        rest = float(self.horizon + 1 - t)
        return rest if self.largest is None else min(rest, self.largest)

    def after(self, t: int) -> float:
        """Return the value of an episode that is over, from step t on (Proposition 63)."""
        return (self.horizon + 1 - t) * self.after_end


@dataclass
class Pair:
    """All visits of one (segment, state, action), in the order of decisions.

    Each outcome is (next state, reward); the next state may be `LOST` or `OPEN`, the reward None.
    """

    outcomes: list[Any] = field(default_factory=list)

    def prefix(self) -> list[Any]:
        """Return the outcomes before the first that is open (Proposition 74)."""
        return list(itertools.takewhile(lambda x: x[0] != OPEN, self.outcomes))


@dataclass
class Step:
    """One decision: step t from 1, state, action, reward (None: unknown) and next state."""

    t: int
    state: Any
    action: Any
    reward: float | None
    following: Any


class Data:
    """Steps in the order of decisions, and the first states of episodes."""

    def __init__(self, task: Task, steps: list[Step], starts: list[Any]) -> None:
        self.task = task
        self.pairs: dict[Any, Any] = defaultdict(Pair)
        self.place: dict[Any, Any] = {}
        self.starts = starts
        states: dict[Any, Any] = {}
        for s in task.states or ():
            states[s] = None
        for s in starts:
            states[s] = None
        self.visited: set[Any] = set()
        for step in steps:
            g = task.segment(step.t)
            states[step.state] = None
            self.visited.add((step.t, step.state))
            if (g, step.state) not in self.place:  # Proposition 58
                self.place[g, step.state] = len(self.place) + 1
            self.pairs[g, step.state, step.action].outcomes.append((step.following, step.reward))
            if step.following not in (LOST, END, OPEN):
                states[step.following] = None
        self.states = list(states)


def events_since(labels: list[Any]) -> tuple[int, int]:
    """Return how many labels were new or lost, and how many draws came since the last of these."""
    seen: set[Any] = set()
    events, quiet = 0, 0
    for x in labels:
        if x == LOST or x not in seen:
            events, quiet = events + 1, 0
            seen.add(x)
        else:
            quiet += 1
    return events, quiet


class UnknownStates:
    """All bounds of Propositions 65 and 67, with 74 where outcomes are open.

    Attributes:
        U, L: (t, s) -> bounds of V*; also at END. The tables run to t = H + 1.
        W: (t, s) -> what the policy of largest guaranteed value earns at least.
        robust: (t, s) -> its actions.
    """

    def __init__(self, data: Data, delta: float, shares: dict[str, float]) -> None:
        self.data, self.task = data, data.task
        total = sum(shares.values())
        self.delta = {part: delta * share / total for part, share in shares.items()}
        self.A = len(self.task.actions)
        self.known = [*data.states, END]
        self.closed = self.task.states is not None
        self._find_upper()
        self._find_lower()
        self._find_robust()

    # prices

    def _share(self, part: str, g: int, s: Any, number: int) -> float:
        """Return the delta of one of ``number`` events of a part (Propositions 58 and 65)."""
        j = self.data.place[g, s]
        return float(self.delta[part] / ((j + 1) * (j + 2)) / number)

    # what is seen

    @staticmethod
    def _by_state(outcomes: list[Any]) -> dict[Any, Any]:
        found: dict[Any, Any] = defaultdict(list)
        for following, reward in outcomes:
            if following not in (LOST, OPEN):
                found[following].append(reward)
        return found

    @staticmethod
    def _lost(outcomes: list[Any]) -> tuple[int, list[float]]:
        """Return how many missing outcomes have an unknown reward, and the known rewards."""
        unknown, paid = 0, []
        for following, reward in outcomes:
            if following == OPEN or (following == LOST and reward is None):
                unknown += 1
            elif following == LOST:
                paid.append(reward)
        return unknown, paid

    def _noisy(self, outcomes: list[Any]) -> bool:
        return any(max(r) > min(r) for r in self._by_state(outcomes).values())

    # upper bounds of V*

    def upper_of(self, t: int, s: Any, a: Any, which: str = "best") -> Reach:
        """Return the bound on Q*_t(s, a) from above: the smaller of above and ladder.

        ``which``: "above" or "ladder" for one of them. Where some outcomes are open, the smaller
        of the bounds by the first n_0 and by all n_1 decisions (Proposition 74).
        """
        task, g = self.task, self.task.segment(t)
        cap = task.cap(t)
        rest = max(self.U[t + 1, x] for x in self.known) if self.closed else task.cap(t + 1)
        top = min(1 + rest, cap)
        pair = self.data.pairs.get((g, s, a))
        choices = [Reach(top, top, 0.0)]
        for outcomes in [] if pair is None else [pair.prefix(), pair.outcomes]:
            if not outcomes:
                continue
            values, weights = self.upper_values(t, outcomes, rest, top)
            h = task.length(g)
            if which in ("best", "above"):
                choices.append(one_function(values, weights, top, self._share("above", g, s, h)))
            if which in ("best", "ladder"):
                choices.append(ladder(values, weights, cap, self._share("ladder", g, s, h)))
        return min(choices, key=lambda x: x.value)

    def upper_values(
        self, t: int, outcomes: list[Any], rest: float, top: float
    ) -> tuple[list[float], list[float]]:
        """Return values and weights of outcomes from above (Propositions 56, 62 and 67)."""
        cap = self.task.cap(t)
        values, weights = [], []
        for following, rewards in self._by_state(outcomes).items():
            for r, w in two_for_many(rewards):
                values.append(min(r + self.U[t + 1, following], cap))
                weights.append(w)
        unknown, paid = self._lost(outcomes)
        values.append(top)
        weights.append(float(unknown))
        for value, w in missing_from_above(paid, rest, cap):
            values.append(value)
            weights.append(w)
        return values, weights

    def _find_upper(self) -> None:
        H = self.task.horizon
        self.U = {(H + 1, s): 0.0 for s in self.known}
        self.Q: dict[Any, Any] = {}
        for t in range(H, 0, -1):
            self.U[t, END] = self.task.after(t)
            for s in self.data.states:
                for a in self.task.actions:
                    self.Q[t, s, a] = self.upper_of(t, s, a)
                self.U[t, s] = max(self.Q[t, s, a].value for a in self.task.actions)

    def upper(self) -> float:
        """Return the bound on the optimum at the start: one row with one function, place 0."""
        counts = Counter(self.data.starts)
        cap = self.task.cap(1)
        top = self._unseen_start(self.U, cap, max)
        values = [min(self.U[1, s], cap) for s in counts]
        weights = [float(c) for c in counts.values()]
        above = one_function(values, weights, top, self.delta["above"] / 2)
        steps = ladder(values, weights, cap, self.delta["ladder"] / 2)
        return float(min(above.value, steps.value, max([top, *values])))

    def _unseen_start(self, V: dict[Any, Any], anything: float, best: Any) -> Any:
        """Return the value of first states that were never seen (Proposition 61)."""
        if not self.closed:
            return anything
        others = [V[1, s] for s in self.known if s not in set(self.data.starts)]
        return best(others) if others else best(V[1, s] for s in self.data.starts)

    # lower bounds of V*

    def lower_of(self, t: int, s: Any, a: Any) -> Reach:
        """Return minus the bound on Q*_t(s, a) from below (part below)."""
        g = self.task.segment(t)
        rest = min(self.L[t + 1, x] for x in self.known) if self.closed else 0.0
        pair = self.data.pairs.get((g, s, a))
        choices = [Reach(-rest, -rest, 0.0)]
        for outcomes in [] if pair is None else [pair.prefix(), pair.outcomes]:
            if not outcomes:
                continue
            values, weights = [], []
            for following, rewards in self._by_state(outcomes).items():
                for r, w in two_for_many(rewards):
                    values.append(-(r + self.L[t + 1, following]))
                    weights.append(w)
            unknown, paid = self._lost(outcomes)
            values.append(-rest)
            weights.append(float(unknown))
            for value, w in missing_from_below(paid, rest):
                values.append(-value)
                weights.append(w)
            delta = self._share("below", g, s, self.task.length(g) * self.A)
            choices.append(one_function(values, weights, -rest, delta))
        return min(choices, key=lambda x: x.value)

    def _find_lower(self) -> None:
        H = self.task.horizon
        self.L = {(H + 1, s): 0.0 for s in self.known}
        self.low: dict[Any, Any] = {}
        for t in range(H, 0, -1):
            self.L[t, END] = self.task.after(t)
            for s in self.data.states:
                for a in self.task.actions:
                    self.low[t, s, a] = self.lower_of(t, s, a)
                self.L[t, s] = max(-self.low[t, s, a].value for a in self.task.actions)

    # all functions at once

    def any_function(
        self,
        part: str,
        g: int,
        s: Any,
        a: Any,
        value: Callable[[Any], float],
        unseen: float,
    ) -> tuple[float, str, Reach, float]:
        """Return the largest mean of any function of a pair's labels (Propositions 59, 60 and 66).

        ``part``: "all" (labels are next states) or "outcomes" (labels are outcomes). ``value`` maps
        a label to its value, ``unseen`` is the largest value of what was never seen. The result is
        the smaller of the bound by the ball alone and of that by the ball and the missing mass;
        then which of them, its nu and slack, and the number added to it.
        """
        pair = self.data.pairs.get((g, s, a))
        outcomes = [] if pair is None else pair.prefix()
        labels = [LOST if x[0] == LOST else (x[0] if part == "all" else x) for x in outcomes]
        counts = Counter(x for x in labels if x != LOST)
        lost = sum(x == LOST for x in labels)
        if not counts:
            return unseen, "nothing", Reach(unseen, unseen, 0.0), 0.0
        radius = pattern_radius(list(counts.values()), lost, self._share(part, g, s, self.A))
        return self._ball(
            {x: value(x) for x in counts},
            counts,
            lost,
            unseen,
            radius,
            missing_mass(*events_since(labels), self._share("missing", g, s, 2 * self.A)),
        )

    @staticmethod
    def _ball(
        values: dict[Any, Any],
        counts: Counter[Any],
        lost: int,
        unseen: float,
        radius: float,
        mass: float,
    ) -> tuple[float, str, Reach, float]:
        seen = max(values.values())
        repeated = [float(counts[x] - 1) for x in values]
        top = max(unseen, seen)
        plain = largest_mean([*values.values(), top], [*repeated, float(lost)], top, radius)
        best = (plain.value, "ball", plain, 0.0)
        if unseen > seen:
            cut = largest_mean([*values.values(), seen], [*repeated, float(lost)], seen, radius)
            extra = mass * (unseen - seen)
            if cut.value + extra < plain.value:
                best = (cut.value + extra, "missing", cut, extra)
        return best

    def policy_lower(self, t: int, s: Any, a: Any, W: dict[Any, Any]) -> tuple[float, str, Reach]:
        """Return the bound W' of Propositions 32 and 65 for one action, from below."""
        g = self.task.segment(t)
        pair = self.data.pairs.get((g, s, a))
        outcomes = [] if pair is None else pair.prefix()
        ways = []
        if not self._noisy(outcomes):
            rest = min(W[t + 1, x] for x in self.known) if self.closed else 0.0
            x, how, reach, _ = self.any_function(
                "outcomes", g, s, a, lambda x: -(x[1] + W[t + 1, x[0]]), -rest
            )
            ways.append((-x, how, reach))
        if pair is not None and self._noisy(pair.outcomes):
            listed = self._by_state(outcomes)
            others = [W[t + 1, x] for x in self.known if x not in listed]
            rest = (min(others) if others else math.inf) if self.closed else 0.0
            unseen = -min([rest, *(W[t + 1, x] for x in listed)])
            x, how, reach, _ = self.any_function("all", g, s, a, lambda x: -W[t + 1, x], unseen)
            ways.append((self.reward_bounds(g, s, a)[0] - x, how, reach))
        return max(ways, key=lambda way: way[0])  # each is right, whatever decides between them

    def reward_bounds(self, g: int, s: Any, a: Any) -> tuple[float, float]:
        """Return the bounds of the mean reward (Propositions 24, 67 and 74)."""
        pair = self.data.pairs.get((g, s, a))
        low, high = 0.0, 1.0
        for outcomes in [] if pair is None else [pair.prefix(), pair.outcomes]:
            if outcomes:
                known = sum(r for _, r in outcomes if r is not None)
                unknown = sum(r is None for _, r in outcomes)
                delta = self._share("rewards", g, s, self.A)
                low = max(low, mean_reward(known, len(outcomes), delta)[0])
                high = min(high, mean_reward(known + unknown, len(outcomes), delta)[1])
        return low, high

    def _find_robust(self) -> None:
        H = self.task.horizon
        self.W = {(H + 1, s): 0.0 for s in self.known}
        self.robust: dict[Any, Any] = {}
        for t in range(H, 0, -1):
            self.W[t, END] = self.task.after(t)
            for s in self.data.states:
                best = {a: self.policy_lower(t, s, a, self.W)[0] for a in self.task.actions}
                self.robust[t, s] = max(best, key=lambda x: best[x])
                self.W[t, s] = best[self.robust[t, s]]

    def at_start(self, V: dict[Any, Any], sign: int, unseen: float) -> float:
        """Return a bound on the mean of V at the start, from above (1) or below (-1), by all."""
        counts = Counter(self.data.starts)
        if not counts:
            return unseen
        radius = pattern_radius(list(counts.values()), 0, self.delta["all"] / 2)
        mass = missing_mass(*events_since(self.data.starts), self.delta["missing"] / 2 / 2)
        values = {s: sign * V[1, s] for s in counts}
        if self.closed:
            others = [sign * V[1, s] for s in self.known if s not in counts]
            top = max([*others, max(values.values())])
        else:
            top = sign * unseen
        return float(sign * self._ball(values, counts, 0, top, radius, mass)[0])

    def lower(self) -> float:
        """Return what the robust policy earns at least."""
        return self.at_start(self.W, -1, 0.0)

    # the difference

    def difference(
        self, policy: dict[Any, Any], overlap: bool = True
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return D and W of Propositions 34, 35 and 65 for a policy (t, s) -> action."""
        task, H = self.task, self.task.horizon
        D = {(H + 1, s): 0.0 for s in self.known}
        W = dict(D)
        for t in range(H, 0, -1):
            D[t, END], W[t, END] = 0.0, task.after(t)
            g = task.segment(t)
            for s in self.data.states:
                a = policy[t, s]
                lower, how, reach = self.policy_lower(t, s, a, W)
                pair = self.data.pairs.get((g, s, a))
                listed = self._by_state([] if pair is None else pair.prefix())
                if self.closed:
                    unseen = max([D[t + 1, x] for x in self.known if x not in listed] or [0.0])
                else:
                    unseen = task.cap(t + 1)
                ahead = {x: D[t + 1, x] for x in self.known}
                alpha = self.any_function("all", g, s, a, ahead.__getitem__, unseen)[0]
                most = alpha
                for b in task.actions:
                    if b == a:
                        continue
                    q = self.Q[t, s, b]
                    by_optimum = q.value + self.low[t, s, a].value
                    by_policy = q.value - lower
                    if overlap:
                        by_optimum -= self._overlap(
                            t, s, a, b, self.L, self.low[t, s, a], None, "below"
                        )
                        by_policy -= self._overlap(t, s, a, b, W, reach, D, how)
                    most = max(most, min(max(by_optimum, 0.0) + alpha, by_policy))
                D[t, s] = min(self.U[t, s] - lower, most)
                W[t, s] = max(lower, self.L[t, s] - D[t, s])
        return D, W

    def difference_at_start(self, D: dict[Any, Any], W: dict[Any, Any]) -> float:
        """Return the bound on the difference at the start (Proposition 34)."""
        by_policy = self.upper() - self.at_start(W, -1, 0.0)
        return min(self.at_start(D, 1, self.task.cap(1)), by_policy)

    def _overlap(
        self, t: int, s: Any, a: Any, b: Any, low: Any, reach: Reach, D: Any, how: str
    ) -> float:
        """Return the sum of Proposition 35 at the nu and slack of two bounds."""
        g = self.task.segment(t)
        rows = [self.data.pairs.get((g, s, x)) for x in (b, a)]
        q = self.Q[t, s, b]
        if rows[0] is None or rows[1] is None or q.slack == 0 or reach.slack == 0:
            return 0.0
        cap = self.task.cap(t)
        of_b, of_a = rows[0].outcomes, rows[1].prefix()
        n_b = len(of_b)
        noisy = self._noisy(rows[1].outcomes)
        total = 0.0
        seen_b, seen_a = self._by_state(of_b), self._by_state(of_a)
        for j in seen_b:
            if j not in seen_a:
                continue
            u = min(self.U[t + 1, j], cap - max(seen_b[j]))
            w = max(0.0, u - low[t + 1, j] - (0.0 if D is None else D[t + 1, j]))
            up = 0.0
            for r, c in two_for_many(seen_b[j]):
                f = min(r + self.U[t + 1, j], cap)
                up += growth(q.slack, c / n_b, q.nu - f, w)
            down = 0.0
            if how == "below":
                for r, c in two_for_many(seen_a[j]):
                    down += growth(
                        reach.slack, c / len(rows[1].outcomes), reach.nu + r + low[t + 1, j], w
                    )
            else:
                size = len(of_a) - len(set(of_a if not noisy else (x[0] for x in of_a)))
                share = (len(seen_a[j]) - 1) / size if size else 0.0
                r = 0.0 if noisy else seen_a[j][0]
                down = growth(reach.slack, share, reach.nu + r + low[t + 1, j], w)
            total += min(up, down)
        return total


def growth(slack: float, p: float, distance: float, w: float) -> float:
    """Return omega of Proposition 35."""
    return slack * p * w / (distance + 0.5 * (1 - p) * w) if w > 0 else 0.0


def two_for_many(rewards: list[float]) -> list[tuple[float, float]]:
    """Return the two rewards, with weights, that stand for many (Proposition 56)."""
    a, b, c, total = min(rewards), max(rewards), len(rewards), math.fsum(rewards)
    if a == b:
        return [(a, float(c))]
    return [(a, (c * b - total) / (b - a)), (b, (total - c * a) / (b - a))]


def missing_from_above(paid: list[float], rest: float, cap: float) -> list[tuple[float, float]]:
    """Return values, with weights, of missing outcomes whose rewards are known, from above.

    Each is at most min(r + rest, cap). ln(nu - that) is concave in r up to the kink at cap - rest
    and constant beyond it. So the least sum of logarithms, over all rewards in [a, 1] of a given
    sum, is that of the lower convex envelope: the chord from a to min(1, cap - rest), and constant
    beyond (Proposition 67).
    """
    if not paid:
        return []
    k, total, a = len(paid), math.fsum(paid), min(paid)
    end = min(1.0, cap - rest)
    if end <= a:
        return [(min(a + rest, cap), float(k))]
    at_least = max(0.0, (k * end - total) / (end - a))
    if max(paid) == a:
        at_least = float(k)  # exactly: a weight of 1e-16 at the largest value would matter
    return [(a + rest, at_least), (end + rest, k - at_least)]


def missing_from_below(paid: list[float], rest: float) -> list[tuple[float, float]]:
    """Return values, with weights, of missing outcomes whose rewards are known, from below."""
    if not paid:
        return []
    k, total, b = len(paid), math.fsum(paid), max(paid)
    if b <= 0:
        return [(rest, float(k))]
    return [(b + rest, total / b), (rest, k - total / b)]


# ---------------------------------------------------------------- known state space


@dataclass
class Model:
    """What is known of a task whose states are listed.

    Attributes:
        successors: (segment, s, a) -> list of possible next states; segment 0 for all steps unless
            ``by_step``. rewards: (t, s, a, s') -> known reward, or None if rewards are unknown.
        start: distribution of the first state, or None if it is unknown.
        terminal: states in which the task is over.
    """

    horizon: int
    states: list[Any]
    actions: dict[Any, Any]
    successors: dict[Any, Any]
    rewards: Any
    start: dict[Any, Any] | None
    terminal: tuple[Any, ...] = ()
    by_step: bool = False

    def row(self, t: int, s: Any, a: Any) -> tuple[Any, ...]:
        return (t if self.by_step else 0, s, a)

    def possible(self) -> set[Any]:
        """Return all (t, s) in which an episode may be."""
        now = (
            set(self.states) if self.start is None else {s for s, p in self.start.items() if p > 0}
        )
        found = set()
        for t in range(1, self.horizon + 1):
            found |= {(t, s) for s in now}
            now = {
                x for s in now for a in self.actions[s] for x in self.successors[self.row(t, s, a)]
            }
        return found

    def pays_next_state(self, t: int, s: Any, a: Any) -> bool:
        """Return whether the known reward depends on the next state."""
        paid = {self.rewards[t, s, a, x] for x in self.successors[self.row(t, s, a)]}
        return len(paid) > 1


class KnownStates:
    """All bounds of Propositions 30 to 36 from counts of next states and rewards.

    ``outcomes``: row -> list of (next state, reward), in order; ``starts``: list of first states.
    ``shares`` of delta: above, below, all and, where rewards are unknown, outcomes and rewards.
    ``pays``: whether the last step counts in N_1 and N_2 (some known reward depends on the next
    state).
    """

    def __init__(
        self,
        model: Model,
        outcomes: dict[Any, Any],
        starts: list[Any],
        delta: float,
        shares: dict[Any, Any],
        pays: bool = False,
    ) -> None:
        self.model, self.outcomes, self.starts = model, outcomes, starts
        total = sum(shares.values())
        self.delta = {part: delta * share / total for part, share in shares.items()}
        self.told = model.rewards is not None
        self.pays = pays
        self._count()
        self.U = self._recursion(self.upper_of, 1)
        self.L = self._recursion(self.lower_of, -1)
        self._find_robust()

    def _certain(self, row: tuple[Any, ...]) -> bool:
        return self.told and len(self.model.successors[row]) == 1

    def _count(self) -> None:
        """Count the events (Proposition 36)."""
        m = self.model
        rows = [r for r in m.successors if r[1] not in m.terminal]
        self.R = sum(len(m.successors[r]) > 1 for r in m.successors) + (
            m.start is None and len(m.states) > 1
        )
        self.N1 = self.N2 = int(m.start is None and len(m.states) > 1)
        self.N_rows = len(rows)
        for t, s in m.possible():
            if s in m.terminal or (t == m.horizon and self.told and not self.pays):
                continue
            uncertain = [a for a in m.actions[s] if not self._certain(m.row(t, s, a))]
            self.N1 += bool(uncertain)
            self.N2 += len(uncertain)

    def eta_all(self, counts: list[int]) -> float:
        n = sum(counts)
        if n == 0:
            return math.inf
        return (math.log(self.R / self.delta["all"]) + sparse_excess(counts)) / n

    def eta_one(self, part: str, number: int, n: float) -> float:
        return (
            math.inf
            if n == 0 or number == 0
            else (math.log(number / self.delta[part]) + regret(n)) / n
        )

    def _counts(self, row: tuple[Any, ...]) -> list[int]:
        seen = Counter(x for x, _ in self.outcomes.get(row, ()))
        return [seen[x] for x in self.model.successors[row]]

    def _one(self, t: int, s: Any, a: Any, V: Any, sign: int, part: str, number: int) -> Reach:
        """Return the bound on sign times the mean of r + V, from above."""
        row = self.model.row(t, s, a)
        following = self.model.successors[row]
        if self.told:
            values = [sign * (self.model.rewards[t, s, a, x] + V[t + 1, x]) for x in following]
            if len(following) == 1:
                return Reach(values[0], values[0], math.inf)
            counts = self._counts(row)
            eta = min(self.eta_one(part, number, sum(counts)), self.eta_all(counts))
            return largest_mean(values, counts, max(values), eta)
        values, weights = [], []
        for x in following:
            rewards = [r for y, r in self.outcomes.get(row, ()) if y == x]
            for r, w in two_for_many(rewards) if rewards else []:
                values.append(sign * (r + V[t + 1, x]))
                weights.append(w)
        top = max(sign * (max(sign, 0) * sign + V[t + 1, x]) for x in following)
        return largest_mean(values, weights, top, self.eta_one(part, number, sum(weights)))

    def upper_of(self, t: int, s: Any, a: Any, V: Any) -> Reach:
        """Return the bound on Q*_t(s, a) of Proposition 30."""
        return self._one(t, s, a, V, 1, "above", self.N1)

    def lower_of(self, t: int, s: Any, a: Any, V: Any) -> Reach:
        """Return minus the bound on Q*_t(s, a) of Proposition 31."""
        return self._one(t, s, a, V, -1, "below", self.N2)

    def _recursion(self, bound: Callable[..., Reach], sign: int) -> dict[Any, Any]:
        m = self.model
        V = {(m.horizon + 1, s): 0.0 for s in m.states}
        for t in range(m.horizon, 0, -1):
            for s in m.states:
                if s in m.terminal:
                    V[t, s] = 0.0
                    continue
                V[t, s] = max(sign * bound(t, s, a, V).value for a in m.actions[s])
        return V

    def policy_lower(self, t: int, s: Any, a: Any, W: Any) -> tuple[float, str, Reach]:
        """Return W' of Propositions 32 and 34."""
        row = self.model.row(t, s, a)
        following = self.model.successors[row]
        counts = self._counts(row)
        if self.told:
            values = [-(self.model.rewards[t, s, a, x] + W[t + 1, x]) for x in following]
            if len(following) == 1:
                return -values[0], "certain", Reach(values[0], values[0], math.inf)
            reach = largest_mean(values, counts, max(values), self.eta_all(counts))
            return -reach.value, "all", reach
        seen = self.outcomes.get(row, [])
        paid = defaultdict(set)
        for x, r in seen:
            paid[x].add(r)
        if all(len(r) == 1 for r in paid.values()):
            patterns = Counter(seen)
            top = max(-W[t + 1, x] for x in following)
            if not patterns:
                return -top, "nothing", Reach(top, top, 0.0)
            radius = pattern_radius(
                list(patterns.values()), 0, self.delta["outcomes"] / self.N_rows
            )
            values = [-(r + W[t + 1, x]) for x, r in patterns]
            repeated = [float(c - 1) for c in patterns.values()]
            reach = largest_mean(values, repeated, max([top, *values]), radius)
            return -reach.value, "outcomes", reach
        values = [-W[t + 1, x] for x in following]
        eta = self.eta_all(counts) if len(following) > 1 else 0.0
        reach = largest_mean(values, counts, max(values), eta)
        low = mean_reward(sum(r for _, r in seen), len(seen), self.delta["rewards"] / self.N_rows)[
            0
        ]
        return low - reach.value, "all", reach

    def _find_robust(self) -> None:
        m = self.model
        self.W = {(m.horizon + 1, s): 0.0 for s in m.states}
        self.robust: dict[Any, Any] = {}
        for t in range(m.horizon, 0, -1):
            for s in m.states:
                if s in m.terminal:
                    self.W[t, s] = 0.0
                    continue
                best = {a: self.policy_lower(t, s, a, self.W)[0] for a in m.actions[s]}
                self.robust[t, s] = max(best, key=lambda x: best[x])
                self.W[t, s] = best[self.robust[t, s]]

    def at_start(self, V: dict[Any, Any], sign: int, fixed: bool) -> float:
        """Return a bound on the mean of V at the start."""
        m = self.model
        if m.start is not None:
            return math.fsum(p * V[1, s] for s, p in m.start.items() if p > 0)
        seen = Counter(self.starts)
        counts = [seen[s] for s in m.states]
        if len(m.states) == 1:
            return float(V[1, m.states[0]])
        eta = self.eta_all(counts)
        if fixed:
            part, number = ("above", self.N1) if sign > 0 else ("below", self.N2)
            eta = min(eta, self.eta_one(part, number, sum(counts)))
        values = [sign * V[1, s] for s in m.states]
        return sign * largest_mean(values, counts, max(values), eta).value

    def upper(self) -> float:
        """Return the bound on the optimum at the start (Proposition 30)."""
        return self.at_start(self.U, 1, True)

    def lower(self) -> float:
        """Return what the robust policy earns at least (Proposition 32)."""
        return self.at_start(self.W, -1, False)

    def difference(
        self, policy: dict[Any, Any], overlap: bool = False
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Return D and W of Proposition 34, with Proposition 35 where rewards are known."""
        m = self.model
        D = {(m.horizon + 1, s): 0.0 for s in m.states}
        W = dict(D)
        for t in range(m.horizon, 0, -1):
            for s in m.states:
                if s in m.terminal:
                    D[t, s] = W[t, s] = 0.0
                    continue
                a = policy[t, s]
                row = m.row(t, s, a)
                lower, _, reach = self.policy_lower(t, s, a, W)
                counts = self._counts(row)
                values = [D[t + 1, x] for x in m.successors[row]]
                eta = self.eta_all(counts) if len(values) > 1 else 0.0
                alpha = (
                    values[0]
                    if len(values) == 1
                    else largest_mean(values, counts, max(values), eta).value
                )
                low = self.lower_of(t, s, a, self.L)
                most = alpha
                for b in m.actions[s]:
                    if b == a:
                        continue
                    q = self.upper_of(t, s, b, self.U)
                    by_optimum, by_policy = q.value + low.value, q.value - lower
                    if overlap and self.told:
                        by_optimum -= self._overlap(t, s, a, b, q, low, self.L, None)
                        by_policy -= self._overlap(t, s, a, b, q, reach, W, D)
                    most = max(most, min(max(by_optimum, 0.0) + alpha, by_policy))
                D[t, s] = min(self.U[t, s] - lower, most)
                W[t, s] = max(lower, self.L[t, s] - D[t, s])
        return D, W

    def _overlap(
        self, t: int, s: Any, a: Any, b: Any, q: Reach, reach: Reach, low: Any, D: Any
    ) -> float:
        """Return the sum of Proposition 35 at the nu and slack of two bounds, rewards known."""
        m = self.model
        of_b, of_a = m.row(t, s, b), m.row(t, s, a)
        shares_b = dict(zip(m.successors[of_b], self._counts(of_b), strict=True))
        shares_a = dict(zip(m.successors[of_a], self._counts(of_a), strict=True))
        total = 0.0
        for j in set(shares_b) & set(shares_a):
            w = max(0.0, self.U[t + 1, j] - low[t + 1, j] - (0.0 if D is None else D[t + 1, j]))
            sides = []
            for x, shares, action, values, sign in (
                (q, shares_b, b, self.U, 1),
                (reach, shares_a, a, low, -1),
            ):
                if math.isinf(x.slack):
                    sides.append(w)
                elif x.slack == 0 or not shares[j]:
                    sides.append(0.0)
                else:
                    f = m.rewards[t, s, action, j] + values[t + 1, j]
                    sides.append(
                        growth(x.slack, shares[j] / sum(shares.values()), x.nu - sign * f, w)
                    )
            total += min(sides)
        return total


class PlanOverSets:
    """Upper and lower bounds at the start by planning over sets (Propositions 16 to 21, 28 and 29).

    ``kind``: "kt", "kt-ball", "kl-ball", "l1", "kl" or "paper". Rewards are known. For the last
    three, which hold at doublings, ``updates``: row -> j, the number of the update (Proposition
    17); the start is the row "start".
    """

    def __init__(
        self,
        model: Model,
        outcomes: dict[Any, Any],
        starts: list[Any],
        delta: float,
        kind: str,
        updates: dict[Any, int] | None = None,
    ):
        self.model, self.kind, self.delta, self.updates = model, kind, delta, updates or {}
        self.following = dict(model.successors)
        self.counts = {}
        for row, following in model.successors.items():
            seen = Counter(x for x, _ in outcomes.get(row, ()))
            self.counts[row] = [seen[x] for x in following]
        if model.start is None:
            seen = Counter(starts)
            self.following["start"] = list(model.states)
            self.counts["start"] = [seen[s] for s in model.states]
        sizes = [len(x) for x in self.following.values()]
        single = sum(c if c > 2 else int(c == 2) for c in sizes)
        rows = sum(c > 1 for c in sizes)
        self.events = single if kind in ("kt", "kl", "paper") else rows

    def extreme(self, row: Any, values: list[float], sign: int) -> float:
        """Return the largest (1) or least (-1) mean of values over the set of a row."""
        counts = self.counts[row]
        n, c = sum(counts), len(counts)
        if c == 1:
            return values[0]
        v = [sign * x for x in values]
        if n == 0:
            return sign * max(v)
        one = self.delta / self.events
        j = self.updates.get(row, 0)
        at_update = one / (j * (j + 1)) if j else one
        p = [k / n for k in counts]
        if self.kind in ("kt", "kl", "paper"):
            ends = []
            for k in counts:
                if self.kind == "kt":
                    ends.append(kl_ends(k / n, (math.log(1 / one) + binary_excess(k, n)) / n))
                elif self.kind == "kl":
                    ends.append(kl_ends(k / n, math.log(2 / at_update) / n))
                else:
                    ends.append(published_set(k / n, n, at_update, 20_001))
            return sign * largest_mean_in_box(v, ends)
        if self.kind == "l1":
            return sign * largest_mean_in_l1(v, p, l1_radius(c, n, at_update))
        if self.kind == "kl-ball":
            radius = closed_ball_radius(c, n, one)
        else:
            radius = (math.log(1 / one) + dirichlet_excess(counts)) / n
        return sign * largest_mean(v, [float(k) for k in counts], max(v), radius).value

    def value(self, sign: int) -> float:
        """Return the optimistic (1) or the robust (-1) value at the start."""
        m = self.model
        V = {(m.horizon + 1, s): 0.0 for s in m.states}
        for t in range(m.horizon, 0, -1):
            for s in m.states:
                options = []
                for a in m.actions[s]:
                    row = m.row(t, s, a)
                    values = [m.rewards[t, s, a, x] + V[t + 1, x] for x in self.following[row]]
                    options.append(self.extreme(row, values, sign))
                V[t, s] = 0.0 if s in m.terminal else max(options)
        if m.start is not None:
            return math.fsum(p * V[1, s] for s, p in m.start.items() if p > 0)
        return self.extreme("start", [V[1, s] for s in m.states], sign)


def largest_mean_in_box(values: list[float], ends: list[tuple[float, float]]) -> float:
    """Return the largest mean between two ends, by linear programming (Proposition 2)."""
    found = linprog(
        -np.array(values),
        A_eq=[np.ones(len(values))],
        b_eq=[1],
        bounds=[(lo, hi) for lo, hi in ends],
        method="highs",
    )
    if found.status != 0:
        raise ValueError("the box holds no distribution")
    return -float(found.fun or 0.0)


# ---------------------------------------------------------------- the logged policy


def behavior(
    paid: list[float], complete: list[bool], least: float, most: float, delta: float
) -> tuple[float, float]:
    """Return the bounds of Proposition 72 on the mean value of the logged policies.

    ``least`` <= 0 and ``most`` bound every return. An episode that was not logged to its end was
    paid at least ``paid + least`` and at most ``most``.
    """
    span = most - least
    below = [(x if c else max(x + least, least)) for x, c in zip(paid, complete, strict=True)]
    above = [(x if c else most) for x, c in zip(paid, complete, strict=True)]

    def at_least(y: list[float]) -> float:
        n, variation, before = len(y), 0.0, 0.5
        for i, x in enumerate(y):
            variation += (x - before / (i + 1)) ** 2
            before += x
        best = 0.0
        for k in range(200):
            size = 2.0 ** -(k + 1)
            psi = -math.log1p(-size) - size
            cost = (math.log(2 * (k + 1) * (k + 2) / delta) + psi * variation) / size
            best = max(best, (math.fsum(y) - cost) / n)
        return best

    low = at_least([(x - least) / span for x in below])
    high = at_least([(most - x) / span for x in above])
    return least + low * span, most - high * span


# ---------------------------------------------------------------- sample-complexity lower bounds


def hard_class_floor(
    n: int, actions: int, horizon: int, epsilon: float, delta: float, gap: float, bias: float
) -> float:
    """Return the number of Proposition 80, the minimum by a fine grid."""
    loss = (horizon - 2) * min(bias, gap - bias)
    wrong = math.floor(n * epsilon / loss)
    rho = (1 - delta) * wrong / n + delta
    information = -0.5 * math.log(1 - 4 * gap**2)
    if rho >= 0.5:
        return 0.0
    grid = np.linspace(0, 2 * rho, 200_001)
    least = min(kl(1 - a, 2 * rho - a) for a in grid)
    return n * (actions - 1) / information * least


# ---------------------------------------------------------------- constants of UCFH


def corrected_constants(
    states: int, actions: int, horizon: int, successors: int, epsilon: float, delta: float
) -> dict[str, float]:
    """Return the constants of the corrected variant, and the bound of Proposition 11."""
    B = min(actions, horizon)
    pairs = states * actions
    w_min = epsilon / (4 * horizon * states * B)
    y = max(states, 4) * horizon / w_min
    updates = pairs * math.ceil(math.log2(2 * y))
    delta_1 = delta / (2 * updates * successors)
    levels = math.floor(math.log2(horizon / w_min)) + 1
    K = math.ceil(math.log2(2 * y)) * levels
    loglog = math.log2(math.log2(horizon)) if horizon > 2 else 1.0
    m = 512 * max(1.0, loglog) ** 2 * successors * horizon**2 / epsilon**2 * K
    m *= math.log(6 / delta_1)
    m_visits = max(m, horizon * math.ceil(math.log2(2 * y)) / (2 * w_min))  # m' of E17
    e_max = levels * (1 + math.ceil(math.log2(states * B)))
    return {
        "w_min": w_min,
        "u_max": updates,
        "delta_1": delta_1,
        "m": m,
        "cutoff": max(states, 4) * m * horizon,
        "e_max": e_max,
        "episode_bound": 16 * pairs * m_visits * e_max,
    }


def published_constants(
    states: int, actions: int, horizon: int, successors: int, epsilon: float, delta: float
) -> dict[str, float]:
    """Return the constants as published, with max(1, log log H) in the place of log log H."""
    S, A, H, C = states, actions, horizon, successors
    w_min = epsilon / (4 * H * S)
    loglog = math.log2(math.log2(H)) if H > 2 else 1.0
    m = (
        512
        * max(1.0, loglog) ** 2
        * C
        * H**2
        / epsilon**2
        * math.log2(8 * H**2 * S**2 / epsilon) ** 2
        * math.log(6 * S * A * C * math.log2(4 * S**2 * H**2 / epsilon) ** 2 / delta)
    )
    u_max = S * A * math.log2(S * H / w_min)
    return {
        "w_min": w_min,
        "u_max": u_max,
        "delta_1": delta / (2 * u_max * C),
        "m": m,
        "cutoff": S * m * H,
        "episode_bound": 6 * S * A * m * math.log2(4 * H**2 * S / epsilon) ** 2,
    }


def theorem_2(states: int, actions: int, horizon: int, epsilon: float, delta: float) -> float:
    """Return the number of Proposition 12."""
    gap = 160 * epsilon * math.exp(4) / (horizon - 2)
    if not 0 < epsilon <= (horizon - 2) / (640 * math.exp(4)):
        raise ValueError("epsilon is too large for the proposition")
    log = math.log(1 / (4 * (delta + math.exp(-4) / 80)))
    return 3 / 16 * (actions - 1) * (states - 3) / gap**2 * log
