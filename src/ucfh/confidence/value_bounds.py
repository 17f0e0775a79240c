"""All bounds on values from what is known of each row: the machine behind `values` and `open`.

What they rest on, and why they hold, is in `ucfh.confidence.known_states`. Here it is only
computed: from evidence (balls around each row, and what may come besides), which a class for
problems that were told and one for an open world gather, each with its own prices.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from ucfh._kernels import blame as kernels
from ucfh._kernels import certificates, earnings
from ucfh._kernels.atomic import APART
from ucfh._kernels.earnings import TOLD
from ucfh._kernels.evidence import (
    AHEAD,
    ANYTHING,
    LEAST,
    REWARDS,
    STATES,
    UP,
    Evidence,
    Pay,
    Rows,
)
from ucfh._kernels.mixtures import lower_mean
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.threads import cores, in_threads
from ucfh.exceptions import unknown

WORTH_SHARING = 100_000
"""With fewer entries times steps, threads take longer to begin than they save."""
BLOCKS = 8
"""The states of a step are divided into this many blocks per thread."""

IDEAS = ("sparse", "fixed", "scores", "difference", "overlap", "directed")
"""What can be switched off, to measure its effect: 1 to 5 and 7 of
`ucfh.confidence.known_states`."""


@dataclass(frozen=True)
class BoundContradiction:
    """A contradiction: what is earned from a state is at most ``above``, and at least ``below``.

    Attributes:
        step: from 0; state: -1 for the start.
        above, below: of the two bounds, with below > above.

    """

    step: int
    state: int
    above: float
    below: float


@dataclass(eq=False)
class Bounds:
    """What holds for all values at once.

    Attributes:
        U, L: (H+1, S) bounds of V*.
        W, D: (H+1, S) of V^pi from below and of V* - V^pi from above, pi the greedy policy of
            the empirical model.
        E, M: (H+1, S) mean and second moment of pi's reward in that model.
        up, low, greedy: (H, S) the rows that U and L take, and pi.
        rival, branch: (H, S) the row that decided D, and how.
        x_up, x_low, x_pi, x_ahead: where the bounds were found; see the kernel.
        upper, lower, difference, estimate, second: the above at the start.
        crossing: where two of them contradict each other; None if they do not.
        from_above: whether only U was bounded: L is from before, W is what ended episodes
            are paid, else 0, D is U - W, and ``difference`` is infinite.

    """

    U: Floats
    L: Floats
    W: Floats
    D: Floats
    E: Floats
    M: Floats
    up: Ints
    low: Ints
    greedy: Ints
    rival: Ints
    branch: Ints
    x_up: Floats
    x_low: Floats
    x_pi: Floats
    x_ahead: Floats
    upper: float = 0.0
    lower: float = 0.0
    difference: float = 0.0
    estimate: float = 0.0
    second: float = 0.0
    crossing: BoundContradiction | None = None
    from_above: bool = False

    @property
    def arrays(self) -> certificates.Certified:
        """The bounds as the kernels take them."""
        return certificates.Certified(
            U=self.U, L=self.L, W=self.W, D=self.D, E=self.E, M=self.M,
            up=self.up, low=self.low, greedy=self.greedy, rival=self.rival, branch=self.branch,
            x_up=self.x_up, x_low=self.x_low, x_pi=self.x_pi, x_ahead=self.x_ahead,
        )  # fmt: skip


class ValueBounds(ABC):
    """Bounds from data that grow: what held before still does, and is used.

    Args:
        horizon: H.
        without: ideas that are switched off; see `IDEAS`.

    Attributes:
        on: which ideas are not.
        prices: ln(1/share of delta), by part; those of rows are on top.
        rows, evidence, pay: what is known, as the kernels take it; see `take`.
        U, L: (H+1, S) the best bounds of V* so far.
        found: x of the bounds so far; see the kernel.
        ended: (H+1, S) what an episode is paid that is over, in states without actions; else 0.
        told_start: (S,) the start, if it is told.
        rounding: how far a value at the start may be off. Each of H steps rounds a handful of
            numbers of size H, and so does the mean over the start, once for each of its states.

    """

    rows: Rows
    evidence: Evidence
    pay: Pay
    U: Floats
    L: Floats
    found: list[Floats]
    ended: Floats
    told_start: Floats | None
    rounding: float
    watched = False
    """Whether somebody looks at all bounds after each planning, as at those of live tasks."""

    def __init__(self, horizon: int, without: tuple[str, ...]) -> None:
        for idea in without:
            if idea not in IDEAS:
                raise unknown("idea", idea, IDEAS)
        self.horizon = horizon
        self.on = {idea: idea not in without for idea in IDEAS}
        self.prices: dict[str, float] = {}

    def share_out(self, delta: float, shares: dict[str, float]) -> None:
        """Divide delta among the parts that are used, in proportion to their shares."""
        total = sum(shares.values())
        self.prices = {part: log(total / (delta * share)) for part, share in shares.items()}

    @abstractmethod
    def take(self, data: Any) -> None:
        """Gather what data say of each row."""

    @abstractmethod
    def possible(self) -> Bools:
        """(H, S) the states in which an episode may be at each step, as far as is known."""

    def bounds(self, data: Any, difference: bool = True) -> Bounds:
        """All bounds that follow from data; without ``difference``, only those from above."""
        self.take(data)
        difference &= self.on["difference"]
        H, S = self.horizon, len(self.rows.first) - 1
        W, D, E, M = self.ended.copy(), np.zeros((H + 1, S)), self.ended.copy(), self.ended**2
        up, low, greedy, rival, branch = np.zeros((5, H, S), np.int64)
        x_up, x_low, x_pi, x_ahead = self.found
        b = Bounds(
            U=self.U.copy(), L=self.L.copy(), W=W, D=D, E=E, M=M,
            up=up, low=low, greedy=greedy, rival=rival, branch=branch,
            x_up=x_up, x_low=x_low, x_pi=x_pi, x_ahead=x_ahead, from_above=not difference,
        )  # fmt: skip
        threads = 1
        if H * len(self.rows.indices) >= WORTH_SHARING:
            threads = cores()
        size = max(self._longest, int(np.diff(self.rows.first).max(initial=0)))
        team = certificates.Team(
            blocks=min(S, BLOCKS * threads) if threads > 1 else 1,
            claims=np.zeros(2 * APART * H + 1, np.int64),
            values=np.empty((threads, 6, size)),
            states=np.zeros((threads, 8, S), np.int64),
        )
        team.states[:, 0] = -1
        in_threads(
            threads,
            certificates.certify,
            self.rows,
            self.evidence,
            self.pay,
            difference,
            self.on["overlap"],
            self._any_state,
            b.arrays,
            team,
        )
        self.U, self.L = b.U, b.L
        b.upper = self.at_start(b.U, 1.0, fixed=True)
        b.estimate, b.second = self.mean_at_start(b.E), self.mean_at_start(b.M)
        b.difference = np.inf
        if not difference:
            b.D[:] = b.U - b.W
        else:
            b.lower = self.at_start(b.W, -1.0)
            b.difference = min(self.at_start(b.D, 1.0), b.upper - b.lower)
        b.crossing = self._find_crossing(b)
        return b

    @property
    def _any_state(self) -> bool:
        """Whether any state may follow some row."""
        return bool((self.evidence.known["rest"] == STATES).any())

    @property
    def _longest(self) -> int:
        """The number of entries of the longest row."""
        return int(np.diff(self.rows.indptr).max())

    def _states(self, lines: int) -> Ints:
        """Room (lines, S) for the kernels: states that are marked, and in an order."""
        out = np.zeros((lines, len(self.rows.first) - 1), np.int64)
        out[0] = -1
        return out

    def _find_crossing(self, b: Bounds) -> BoundContradiction | None:
        """Where an episode may be and bounds contradict each other by more than rounding."""
        crossed = np.minimum(b.U - b.L, b.D) + self.rounding < 0
        if not crossed.any():
            return None
        # the last of them: what is before it in time rests on bounds that are contradicted already
        for t, s in np.argwhere(crossed[:-1] & self.possible())[-1:]:
            below = max(b.L[t, s], b.U[t, s] - b.D[t, s])
            return BoundContradiction(int(t), int(s), float(b.U[t, s]), float(below))
        return None

    def start(self) -> Floats:
        """(S,) the start: as told, or as seen."""
        if self.told_start is not None:
            return self.told_start
        rows, row = self.rows, len(self.rows.indptr) - 2
        at = slice(rows.indptr[row], rows.indptr[row + 1])
        out = np.zeros(len(rows.first) - 1)
        out[rows.indices[at]] = self.evidence.one[at] / max(1.0, self.evidence.known["n"][row])
        return out

    def mean_at_start(self, V: Floats) -> float:
        """The mean of V[0] over the start, as told or as seen; V (H+1, S)."""
        return float(self.start() @ V[0])

    def at_start(self, V: Floats, sign: float, fixed: bool = False) -> float:
        """The mean of V[0] over the start: a bound from above (1) or below (-1); V (H+1, S).

        ``fixed``: V bounds a function that does not depend on the data.
        """
        if self.told_start is not None:
            x = float(self.told_start @ V[0])
        else:
            kind = LEAST if sign < 0.0 else UP if fixed else AHEAD
            nothing = np.empty((0, V.shape[1]), np.int64)
            x = self._earn(True, nothing, sign, kind, V[:1])
        return min(max(x + sign * self.rounding, 0.0), float(self.pay.cap[0]))

    def blame(self, b: Bounds, by_difference: bool) -> Floats:
        """(rows,) how much of the gap each row accounts for; see the kernel."""
        known = self.evidence.known
        out, weights = np.zeros(len(known)), np.zeros((10, len(self.rows.first) - 1))
        weights[kernels.IN_D if by_difference else kernels.IN_U] = self.start()
        kernels.blame(
            self.rows,
            self.evidence,
            self.pay,
            b.arrays,
            by_difference,
            self._any_state,
            weights,
            self._states(6),
            np.empty(self._longest),
            out,
        )
        if not out.any() and b.upper >= self.pay.cap[0] and b.lower < b.upper:
            out[:] = 1.0 / (1.0 + known["tries"])  # nothing is known yet: what was taken least
        return out

    def blame_untried(self, b: Bounds, taken: Ints, worst: Floats) -> Floats:
        """(rows,) how much of the gap rests on each row without data.

        The empirical model is followed from the start, by the rows that attain U and by those of
        the policy, ``taken`` (H, S). In a state that is reached, the rows without data that may be
        worth U share the suboptimality bound of the state, ``worst`` (H+1, S), by the probability
        of reaching it. `blame` follows derivatives, which vanish where U is at its largest.
        """
        rows, known, out = self.rows, self.evidence.known, np.zeros(len(self.evidence.known))
        pairs, S = np.arange(len(rows.action)), len(rows.first) - 1
        state = np.repeat(np.arange(S), np.diff(rows.first))
        if (known["tries"][:-1] > 0).all():
            return out
        reach = np.maximum(self._reach(b.up), self._reach(taken))
        for t in range(self.horizon):
            row = pairs * rows.step + rows.offset[t]
            new = (known["tries"][row] == 0) & (reach[t, state] > 0.0)
            k, row, s = pairs[new], row[new], state[new]
            close = self._best_case(t, k, row, b.U[t + 1]) >= b.U[t, s] - 1e-6 * self.pay.cap[0]
            row, s = row[close], s[close]
            rivals = np.bincount(s, minlength=S)[s]
            np.add.at(out, row, reach[t, s] * np.maximum(worst[t, s], 0.0) / rivals)
        return out

    def _reach(self, taken: Ints) -> Floats:
        """(H, S) how likely each state is in the empirical model if rows (H, S) are taken."""
        rows, n, c = self.rows, self.evidence.known["n"], self.evidence.one
        S = len(rows.first) - 1
        out = np.zeros((self.horizon, S))
        out[0] = self.start()
        for t in range(self.horizon - 1):
            s = np.flatnonzero((out[t] > 0.0) & (np.diff(rows.first) > 0))
            row = taken[t, s]
            e, which = entries_of(rows, row)
            p = c[e] * (out[t, s] / np.maximum(n[row], 1.0))[which]
            out[t + 1] = np.bincount(rows.indices[e], p, S)
        return out

    def _best_case(self, t: int, pairs: Ints, row: Ints, U: Floats) -> Floats:
        """(k,) the most that pairs (k,) without data may earn from step t on; U (S,) after it."""
        rows, rest, pay = self.rows, self.evidence.known["rest"][row], self.pay
        e, which = entries_of(rows, row)
        values = U[rows.indices[e]] + pay.extra * (rest == REWARDS)[which]
        if pay.bonus.size:
            values += pay.bonus[min(t, len(pay.bonus) - 1), e]
        best = np.where(rest == STATES, pay.extra + U.max(initial=0.0), -np.inf)
        np.maximum.at(best, which, values)
        best[rest == ANYTHING] = np.inf
        best += pay.r[min(t, len(pay.r) - 1), pairs]
        return np.asarray(np.minimum(best, pay.cap[t]), float)

    def explore(self, blame: Floats) -> Ints:
        """The rows (H, S) of the policy that reduces blame (rows,) most."""
        rows = self.first_rows()
        gain = blame / np.maximum(self.evidence.known["tries"], 1)
        kernels.explore(self.rows, self.evidence, gain, np.zeros((2, rows.shape[1])), rows)
        return rows

    def loss_by_leaving(self, taken: Ints, kept: Ints, worth: Floats, counted: Floats) -> float:
        """What is lost by leaving a policy; see the kernel."""
        here = np.zeros_like(worth)
        here[0] = self.start()
        return float(
            kernels.loss_by_leaving(self.rows, self.evidence, taken, kept, worth, counted, here)
        )

    def widen(self, taken: Ints) -> Ints:
        """(H, S) the rows of a policy from when fewer states were known, which takes (H, k).

        In a state found since, it takes the first action.
        """
        return np.hstack([taken, self.first_rows()[:, taken.shape[1] :]])

    def first_rows(self) -> Ints:
        """(H, S) the row of the first action in each state; of a state without any, a valid one."""
        rows = self.rows
        first = np.minimum(rows.first[:-1], max(0, len(rows.action) - 1))
        return np.asarray(first * rows.step + rows.offset[:, None], np.int64)

    def actions_of(self, taken: Ints) -> Ints:
        """(H, S) the actions of the rows that a policy takes."""
        rows = self.rows
        action = rows.action if len(rows.action) else np.zeros(1, np.int64)
        return np.asarray(action[(taken - rows.offset[:, None]) // rows.step], np.int64)

    def lower_values(self, taken: Ints) -> Floats:
        """(H+1, S) what the policy that takes rows (H, S) earns at least, by 1."""
        return self._evaluate(taken, -1.0)

    def most_of(self, taken: Ints) -> float:
        """What the policy that takes rows (H, S) earns at most, by 1, from the start."""
        return self.at_start(self._evaluate(taken, 1.0), 1.0)

    def _evaluate(self, taken: Ints, sign: float, given: bool = True) -> Floats:
        """(H+1, S) what the policy that takes rows (H, S) earns; see the kernel."""
        V = self.ended.copy()
        self._earn(given, taken, sign, TOLD, V)
        return V

    def _earn(self, given: bool, taken: Ints, sign: float, start: int, V: Floats) -> float:
        """`earnings.evaluate` by what is known."""
        known = self.rows, self.evidence, self.pay
        room = self._states(3), np.empty(self._longest)
        x = earnings.evaluate(*known, given, taken, sign, start, self._any_state, *room, V)
        return float(x)

    def mean_values(self, taken: Ints) -> Floats:
        """(H+1, S) what the policy that takes rows (H, S) earns in the empirical model."""
        V = self.ended.copy()
        earnings.expected(self.rows, self.evidence, self.pay, taken, V)
        return V

    def robust(self) -> tuple[Ints, float]:
        """The policy of the highest guaranteed value, by 1: its rows (H, S), and that value."""
        taken = self.first_rows()
        V = self._evaluate(taken, -1.0, given=False)
        return taken, self.at_start(V, -1.0)

    def price_of_scores(self, j: int) -> float:
        """ln(j(j+1)/delta): what bets on the scores of the j-th frozen policy have to win."""
        return self.prices["scores"] + log(j * (j + 1))

    def by_scores(self, scores: dict[float, int], j: int) -> float:
        """What the j-th frozen policy earns at least, by how often each score was seen."""
        if not scores:
            return 0.0
        x, times = np.array([*scores]), np.array([*scores.values()])
        return max(0.0, float(lower_mean(x, times, self.price_of_scores(j))) - self.rounding)


def entries_of(rows: Rows, row: Ints) -> tuple[Ints, Ints]:
    """The entries of rows (k,), and which of these rows, 0 to k - 1, each entry belongs to."""
    begin = rows.indptr[row]
    length = rows.indptr[row + 1] - begin
    which = np.repeat(np.arange(len(row)), length)
    return np.arange(len(which)) + (begin - np.cumsum(length) + length)[which], which
