"""Outcomes that are lost, slowly: what may have been drawn, one by one, and bounds in plain Python.

Written from docs/theory/open.md. Balls are those of `oracles.certified`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import product

import numpy as np
from scipy.special import gammaln, logsumexp

from oracles.certified import Values, reach
from oracles.mixtures import pattern_probability
from oracles.open_world import SlowExperience

# -- patterns of which some draws are lost ---------------------------------------------------------


def latent_cells(draws: Sequence[int], seen: Sequence[bool]) -> Iterator[list[int]]:
    """All ways in which cells may have been drawn, as how often each was.

    A draw of a label that was seen before is one of its cell. Any other is one of a cell that has
    no label: of one that only lost draws were of, or of a new one. If it is seen, the cell gets its
    label.
    """

    def go_on(i: int, labelled: dict[int, int], others: list[int]) -> Iterator[list[int]]:
        if i == len(draws):
            yield [*labelled.values(), *others]
            return
        x = draws[i]
        if x in labelled:
            yield from go_on(i + 1, {**labelled, x: labelled[x] + 1}, others)
            return
        for at in range(len(others) + 1):
            now = [*others, 0]
            now[at] += 1
            if seen[i]:
                yield from go_on(i + 1, {**labelled, x: now.pop(at)}, [y for y in now if y])
            else:
                yield from go_on(i + 1, labelled, [y for y in now if y])

    return go_on(0, {}, [])


def lossy_mixture(draws: Sequence[int], seen: Sequence[bool], most: int) -> Fraction:
    """The probability of a pattern some of whose draws are lost, with up to ``most`` cells."""
    return sum(
        (
            pattern_probability(cells, k) / (k * (k + 1))
            for cells in latent_cells(draws, seen)
            for k in range(max(1, len(cells)), most + 1)
        ),
        Fraction(0),
    )


def lossy_excess(counts: Sequence[int], lost: int, most: int = 100_000, further: int = 1) -> float:
    """The budget of Proposition 66 without ln(1/delta), with up to ``most`` labels.

    If something is lost, at least ``further`` more than were seen.
    """
    D, n = len(counts), sum(counts) + lost
    k = np.arange(max(1, D + further * (lost > 0)), most + 1.0)
    ways = gammaln(k + 1) - gammaln(k - D + 1) - np.log(k * (k + 1))
    ln_S = float(logsumexp(ways + gammaln(k / 2) - gammaln(n + k / 2)))
    own = math.fsum(
        xlogx(c - 1) - (c - 1) + math.lgamma(0.5) - math.lgamma(c + 0.5) for c in counts
    )
    return own + (n - D) - xlogx(n - D) - ln_S


def xlogx(x: float) -> float:
    """X ln x."""
    return x * math.log(x) if x > 0 else 0.0


def lossy_entropy(c: Sequence[float], n: float, p: Sequence[float]) -> float:
    """The least KL((c, n - sum c)/n, q) over q from which p may come if one part is lost.

    q_j <= p_j, and the lost part is what is left. By Lagrange q_j = min(p_j, c_j/(n x)) with one x,
    at which the lost part has q = (n - sum c)/(n x) as well, or all that c leaves over.
    """
    lost = max(0.0, n - sum(c))
    if lost < 1e-9 * n:
        return math.fsum(k / n * math.log(k / n / x) for k, x in zip(c, p, strict=True) if k)
    low, high = 0.0, 1e9
    for _ in range(90):
        x = (low + high) / 2
        kept = math.fsum(min(y, k / (n * x)) for k, y in zip(c, p, strict=True))
        if kept + lost / (n * x) > 1:
            low = x
        else:
            high = x
    q = [min(y, k / (n * high)) for k, y in zip(c, p, strict=True)]
    own = math.fsum(k / n * math.log(k / n / y) for k, y in zip(c, q, strict=True) if k)
    return own + lost / n * math.log(lost / n / (1 - math.fsum(q)))


# -- bounds ----------------------------------------------------------------------------------------

Cell = tuple[int, int, int]
"""Segment, state and action."""


@dataclass
class SlowOpen:
    """What is told of an open world, and what was seen of it.

    have: the actions of each state, the end first. cap: (H+1,) what can be earned at most from a
    step on. price: ln(1/share of delta) by part. excess: of counts, and of how many are lost.
    ahead: what was decided in all, with what is yet to come as lost; by_all: the rows of which
    bounds of one function use that.
    """

    slow: SlowExperience
    have: list[list[int]]
    cap: list[float]
    after_end: float
    price: dict[str, float]
    closed: bool
    excess: Callable[[list[int], int], float]
    ahead: SlowExperience | None = None
    by_all: Collection[Cell] = ()

    @property
    def horizon(self) -> int:
        return len(self.cap) - 1

    def used(self, row: Cell) -> SlowOpen:
        """What bounds of one function use of a row."""
        if self.ahead is None or row not in self.by_all:
            return self
        return replace(self, slow=self.ahead, ahead=None)

    def seen(self, row: Cell) -> dict[int, list[float]]:
        """What was paid, by next state."""
        return {e[-1]: paid for e, paid in sorted(self.slow.paid.items()) if e[:-1] == row}

    def lost(self, row: Cell) -> list[float]:
        return self.slow.lost.get(row, [])

    def visits(self, row: Cell) -> int:
        return self.slow.visits[row] + len(self.lost(row))

    def cost(self, part: str, row: Cell, events: int) -> float:
        """ln of how often such an event may fail, with how many of them a pair has."""
        j = self.slow.place.get((row[1], row[0]), 0)
        return self.price[part] + math.log(events) + math.log((j + 1) * (j + 2))

    def steps(self, row: Cell) -> int:
        return sum(self.slow.segment(t) == row[0] for t in range(self.horizon))

    def best_next(self, t: int, V: Sequence[float], sign: int) -> float:
        """What the best next state is worth, any of the known ones or what nobody has seen."""
        if self.closed:
            return sign * max(sign * v for v in V)
        return self.cap[t + 1] if sign > 0 else 0.0

    def fixed(self, t: int, row: Cell, V: Sequence[float], sign: int) -> float:
        """Bound the mean of r + V(s') for a V that is fixed in advance.

        Of missing outcomes with a known reward only the number, the sum and the smallest (from
        below: the largest) of these rewards are used: the bound is the widest over all rewards in
        [smallest, 1] (from below: [0, largest]) that have this sum, each with the best next state.
        """
        n, anything = self.visits(row), self.best_next(t, V, sign)
        pays = 1.0 if sign > 0 else 0.0
        atoms = [(0.0, pays + anything)]
        for j, paid in self.seen(row).items():
            atoms += [(c, r + V[j]) for c, r in chord(paid, min(paid), max(paid))]
        known = [r for r in self.lost(row) if not math.isnan(r)]
        atoms.append((len(self.lost(row)) - len(known), pays + anything))
        functions = self.steps(row) * (1 if sign > 0 else len(self.have[row[1]]))
        cost = self.cost("above" if sign > 0 else "below", row, functions) + regret(max(n, 1))
        room = self.cap[t] if sign > 0 else math.inf
        ends = (min([1.0, *known]), 1.0) if sign > 0 else (0.0, max([0.0, *known]))
        found = []
        for placed in placements(known, *ends, room - anything):
            c, v = zip(*atoms, *((c, r + anything) for c, r in placed), strict=True)
            found.append(reach(c, [min(x, room) for x in v], cost / max(n, 1), sign))
        return max(found) if sign > 0 else min(found)

    def missing(self, row: Cell) -> float:
        """P(what was never seen) is at most that."""
        k, D = len(self.lost(row)), len(self.seen(row))
        last = max(self.slow.last_new.get(row, 0), self.slow.last_lost.get(row, 0))
        since = self.slow.visits[row] - last
        if since <= 0:
            return 1.0
        cost = self.cost("missing", row, 2 * len(self.have[row[1]]))
        return -math.expm1(-(cost + math.log((D + k) * (D + k + 1))) / since)

    def any(self, part: str, row: Cell, v: list[float], best: float, seen: float) -> float:
        """The best mean of whatever is worth v by next state, from above.

        best: of all that may follow; so of what was not seen, and of what is lost. seen: of all
        that was ever seen.
        """
        counts, k = [len(paid) for paid in self.seen(row).values()], len(self.lost(row))
        n = self.visits(row) - len(counts)
        if n == 0 or not counts:
            return best
        cost = self.cost(part, row, len(self.have[row[1]])) + self.excess(counts, k)
        again, B = [c - 1 for c in counts], seen
        plain = reach([*again, k], [*v, best], cost / n, 1)
        cut = reach([*again, k], [*v, B], cost / n, 1)
        return min(plain, cut + self.missing(row) * (best - B))

    def of_any(self, t: int, row: Cell, V: Sequence[float]) -> float:
        """Reward and V of what follows, from below, for any V."""
        used, worst = self.used(row), self.best_next(t, V, -1)
        if all(min(paid) == max(paid) for paid in used.seen(row).values()):
            v = {j: -(paid[0] + V[j]) for j, paid in used.seen(row).items()}
            mine = [v[j] for j in self.seen(row)]
            return -self.any("outcomes", row, mine, -worst, max(v.values(), default=0.0))
        return used.mean_reward(row) - self.next(row, [-x for x in V], -worst)

    def next(self, row: Cell, V: Sequence[float], best: float) -> float:
        """V of the next state, from above, for any V."""
        seen = max((V[j] for j in self.used(row).seen(row)), default=0.0)
        return self.any("all", row, [V[j] for j in self.seen(row)], best, seen)

    def mean_reward(self, row: Cell) -> float:
        """From below: what is not known counts as nothing."""
        paid = [r for x in self.seen(row).values() for r in x]
        n = self.visits(row)
        mean = math.fsum(paid + [r for r in self.lost(row) if not math.isnan(r)]) / n
        eta = (self.cost("rewards", row, len(self.have[row[1]])) + regret(n)) / n
        return reach([1 - mean, mean], [0.0, 1.0], eta, -1)

    def recursion(self, greedy: Sequence[Sequence[int]]) -> Values:
        """U, L, W and D without the overlap; greedy[t][s]: the action that is taken."""
        H, S = self.horizon, len(self.have)
        U, L, W, D = ([[0.0] * S for _ in range(H + 1)] for _ in range(4))
        for t in range(H + 1):
            for s in range(S):
                if not self.have[s]:
                    U[t][s] = L[t][s] = W[t][s] = (H - t) * self.after_end
        for t in reversed(range(H)):
            for s in range(S):
                if not self.have[s]:
                    continue
                row = {a: (self.slow.segment(t), s, a) for a in self.have[s]}
                over = {a: self.used(row[a]).fixed(t, row[a], U[t + 1], 1) for a in row}
                under = {a: self.used(row[a]).fixed(t, row[a], L[t + 1], -1) for a in row}
                U[t][s], L[t][s] = min(self.cap[t], max(over.values())), max(under.values())
                mine = greedy[t][s]
                W[t][s] = max(0.0, self.of_any(t, row[mine], W[t + 1]))
                ahead = self.next(row[mine], D[t + 1], self.best_next(t, D[t + 1], 1))
                D[t][s] = ahead
                for a in row:
                    if a != mine:
                        through_best = max(over[a] - under[mine], 0.0) + ahead
                        D[t][s] = max(D[t][s], min(through_best, over[a] - W[t][s]))
                D[t][s] = min(D[t][s], U[t][s] - W[t][s])
                W[t][s] = max(W[t][s], L[t][s] - D[t][s])
        return Values(U, L, W, D)


def chord(paid: Sequence[float], low: float, high: float) -> list[tuple[float, float]]:
    """Rewards in [low, high] as if each were one of these two, with the same sum."""
    if low == high:
        return [(len(paid), low)]
    up = math.fsum(r - low for r in paid) / (high - low)
    return [(len(paid) - up, low), (up, high)]


def placements(
    known: Sequence[float], low: float, high: float, cut: float
) -> Iterator[list[tuple[float, float]]]:
    """Ways to place len(known) rewards in [low, high] with the sum of those known, on a grid.

    As how many have which reward. The extreme points of all distributions on the grid with this
    mean: two of its points each. ``cut``: where values begin to be cut off, a point of the grid.
    """
    k = len(known)
    if not k:
        yield []
        return
    mean = min(max(math.fsum(known) / k, low), high)
    inside = [cut] if low < cut < high else []
    grid = sorted({*np.linspace(low, high, 6).tolist(), *inside})
    yield [(k, mean)]
    for x, y in product(grid, grid):
        if x < mean < y:
            yield [(k * (y - mean) / (y - x), x), (k * (mean - x) / (y - x), y)]


def regret(n: int) -> float:
    """reg(n)."""
    return math.lgamma(0.5) + math.lgamma(n + 1) - math.lgamma(n + 0.5)
