"""Bounds on values from the evidence about each row, shared by `known_states` and `unknown_states`.

The events, and the proof that they suffice, are in `ucfh.confidence.known_states`. This module
computes the bounds from evidence: a ball around each row and the unobserved outcomes it allows. A
subclass for known and one for unknown states gathers it, each with its own union-bound costs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np

from ucfh._kernels import certificates, policy_value_bounds
from ucfh._kernels import gap_gradient as kernels
from ucfh._kernels.intrinsics import APART
from ucfh._kernels.mixtures import lower_mean
from ucfh._kernels.policy_value_bounds import TOLD
from ucfh._kernels.row_bounds import (
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
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.threads import cores, in_threads
from ucfh.exceptions import unknown

MIN_PARALLEL = 100_000
"""With fewer entries times steps, starting threads costs more time than they save."""
BLOCKS = 8
"""The states of a step are divided into this many blocks per thread."""

COMPONENTS = ("sparse", "fixed", "scores", "difference", "overlap", "directed")
"""Components that can be disabled, for ablations: 1 to 5 and 7 of
`ucfh.confidence.known_states`."""


@dataclass(frozen=True)
class BoundContradiction:
    """Two bounds of one value that contradict each other.

    Attributes:
        step: the step, from 0. state: the state, -1 for the start.
        above, below: the upper and the lower bound of the value, with below > above.

    """

    step: int
    state: int
    above: float
    below: float


@dataclass(eq=False)
class Bounds:
    """Bounds on all values, simultaneously valid.

    Attributes:
        U, L: (H+1, S) bounds of V*.
        W, D: (H+1, S) of V^pi from below and of V* - V^pi from above, pi the greedy policy of
            the empirical model.
        E, M: (H+1, S) mean and second moment of pi's reward in that model.
        up, low, greedy: (H, S) the rows that attain U and L, and those of pi.
        rival, branch: (H, S) the row that attains D, and its branch; see the kernel.
        x_up, x_low, x_pi, x_ahead: roots of the dual problems; see the kernel.
        upper, lower, difference, estimate, second: means of U, W, D, E and M over the start.
        contradiction: the last contradiction between two of the bounds, if any.
        from_above: True if only U was bounded: L is of an earlier call, W is 0 except in states
            without actions, D is U - W, and ``difference`` is infinite.

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
    contradiction: BoundContradiction | None = None
    from_above: bool = False

    @property
    def arrays(self) -> certificates.Certified:
        """The arrays of the bounds, for the kernels."""
        return certificates.Certified(
            U=self.U, L=self.L, W=self.W, D=self.D, E=self.E, M=self.M,
            up=self.up, low=self.low, greedy=self.greedy, rival=self.rival, branch=self.branch,
            x_up=self.x_up, x_low=self.x_low, x_pi=self.x_pi, x_ahead=self.x_ahead,
        )  # fmt: skip


class ValueBounds(ABC):
    """Anytime bounds from growing data: earlier bounds remain valid, and are kept if tighter.

    Args:
        horizon: H.
        without: components to disable; see `COMPONENTS`.

    Attributes:
        enabled: by component, False for those to disable.
        costs: ln(1/share of delta), by part; the costs of rows are added to it.
        rows, evidence, pay: the evidence, for the kernels; see `update`.
        U, L: (H+1, S) the tightest bounds of V* so far.
        roots: roots of the dual problems of the last bounds; see the kernel.
        terminal_values: (H+1, S) values of states without actions, where the episode is over; 0 in
            all other states.
        known_start: (S,) the start distribution, if it is known.
        rounding: error bound of a value at the start. Each of H steps rounds a handful of
            numbers of size H, and so does the mean over the start, once for each of its states.

    """

    rows: Rows
    evidence: Evidence
    pay: Pay
    U: Floats
    L: Floats
    roots: list[Floats]
    terminal_values: Floats
    known_start: Floats | None
    rounding: float
    watched = False
    """True if all bounds are displayed after each planning, as those of live tasks are."""

    def __init__(self, horizon: int, without: tuple[str, ...]) -> None:
        for component in without:
            if component not in COMPONENTS:
                raise unknown("component", component, COMPONENTS)
        self.horizon = horizon
        self.enabled = {component: component not in without for component in COMPONENTS}
        self.costs: dict[str, float] = {}

    def divide_delta(self, delta: float, shares: dict[str, float]) -> None:
        """Divide delta among the parts that are used, in proportion to their shares."""
        total = sum(shares.values())
        self.costs = {part: log(total / (delta * share)) for part, share in shares.items()}

    @abstractmethod
    def update(self, data: Any) -> None:
        """Compute the evidence about each row from data."""

    @abstractmethod
    def possible(self) -> Bools:
        """Return (H, S) True where an episode may be in the state at the step."""

    def bounds(self, data: Any, difference: bool = True) -> Bounds:
        """Return all bounds from data; without ``difference``, upper bounds only."""
        self.update(data)
        difference &= self.enabled["difference"]
        H, S = self.horizon, len(self.rows.first) - 1
        end = self.terminal_values
        W, D, E, M = end.copy(), np.zeros((H + 1, S)), end.copy(), end**2
        up, low, greedy, rival, branch = np.zeros((5, H, S), np.int64)
        x_up, x_low, x_pi, x_ahead = self.roots
        b = Bounds(
            U=self.U.copy(), L=self.L.copy(), W=W, D=D, E=E, M=M,
            up=up, low=low, greedy=greedy, rival=rival, branch=branch,
            x_up=x_up, x_low=x_low, x_pi=x_pi, x_ahead=x_ahead, from_above=not difference,
        )  # fmt: skip
        threads = 1
        if H * len(self.rows.indices) >= MIN_PARALLEL:
            threads = cores()
        size = max(self._longest, int(np.diff(self.rows.first).max(initial=0)))
        team = certificates.ThreadArrays(
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
            self.enabled["overlap"],
            self._any_full_support,
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
        b.contradiction = self._find_contradiction(b)
        return b

    @property
    def _any_full_support(self) -> bool:
        """True if some row has full support."""
        return bool((self.evidence.known["rest"] == STATES).any())

    @property
    def _longest(self) -> int:
        """The number of entries of the longest row."""
        return int(np.diff(self.rows.indptr).max())

    def _states(self, lines: int) -> Ints:
        """Return work space (lines, S) of the kernels: marks of states, and lists of states."""
        out = np.zeros((lines, len(self.rows.first) - 1), np.int64)
        out[0] = -1
        return out

    def _find_contradiction(self, b: Bounds) -> BoundContradiction | None:
        """Return the last contradiction by more than rounding in a possible state, or None."""
        contradicted = np.minimum(b.U - b.L, b.D) + self.rounding < 0
        if not contradicted.any():
            return None
        # the last in time: bounds of earlier steps are computed from the contradicted ones
        for t, s in np.argwhere(contradicted[:-1] & self.possible())[-1:]:
            below = max(b.L[t, s], b.U[t, s] - b.D[t, s])
            return BoundContradiction(int(t), int(s), float(b.U[t, s]), float(below))
        return None

    def start(self) -> Floats:
        """Return (S,) the start distribution if it is known, else its empirical frequencies."""
        if self.known_start is not None:
            return self.known_start
        rows, row = self.rows, len(self.rows.indptr) - 2
        at = slice(rows.indptr[row], rows.indptr[row + 1])
        out = np.zeros(len(rows.first) - 1)
        out[rows.indices[at]] = self.evidence.one[at] / max(1.0, self.evidence.known["n"][row])
        return out

    def mean_at_start(self, V: Floats) -> float:
        """Return the mean of V[0] over `start`; V (H+1, S)."""
        return float(self.start() @ V[0])

    def at_start(self, V: Floats, sign: float, fixed: bool = False) -> float:
        """Return an upper (sign 1) or lower (-1) bound of the mean of V[0] over the start.

        V (H+1, S) bounds a function, which does not depend on the data if it is ``fixed``.
        """
        if self.known_start is not None:
            x = float(self.known_start @ V[0])
        else:
            kind = LEAST if sign < 0.0 else UP if fixed else AHEAD
            empty = np.empty((0, V.shape[1]), np.int64)
            x = self._run_evaluation(True, empty, sign, kind, V[:1])
        return min(max(x + sign * self.rounding, 0.0), float(self.pay.cap[0]))

    def attribute_gap(self, b: Bounds, by_difference: bool) -> Floats:
        """Return (rows,) the share of the gap that is attributed to each row; see the kernel."""
        known = self.evidence.known
        out, weights = np.zeros(len(known)), np.zeros((10, len(self.rows.first) - 1))
        weights[kernels.IN_D if by_difference else kernels.IN_U] = self.start()
        kernels.blame(
            self.rows,
            self.evidence,
            self.pay,
            b.arrays,
            by_difference,
            self._any_full_support,
            weights,
            self._states(6),
            np.empty(self._longest),
            out,
        )
        if not out.any() and b.upper >= self.pay.cap[0] and b.lower < b.upper:
            out[:] = 1.0 / (1.0 + known["tries"])  # no information yet: by the number of visits
        return out

    def attribute_gap_untried(self, b: Bounds, taken: Ints, suboptimality: Floats) -> Floats:
        """Return (rows,) the share of the gap that is attributed to each row without data.

        The empirical model is followed from the start, by the rows that attain U and by those of
        the policy, ``taken`` (H, S). In a state that is reached, the rows without data whose value
        may equal U share the ``suboptimality`` bound (H+1, S) of the state, weighted by the
        probability of reaching it. `attribute_gap` uses derivatives, which vanish where U is at its
        largest.
        """
        rows, known, out = self.rows, self.evidence.known, np.zeros(len(self.evidence.known))
        pairs, S = np.arange(len(rows.action)), len(rows.first) - 1
        state = np.repeat(np.arange(S), np.diff(rows.first))
        if (known["tries"][:-1] > 0).all():
            return out
        reach = np.maximum(self._occupancy(b.up), self._occupancy(taken))
        for t in range(self.horizon):
            row = pairs * rows.step + rows.offset[t]
            new = (known["tries"][row] == 0) & (reach[t, state] > 0.0)
            k, row, s = pairs[new], row[new], state[new]
            close = self._best_case(t, k, row, b.U[t + 1]) >= b.U[t, s] - 1e-6 * self.pay.cap[0]
            row, s = row[close], s[close]
            rivals = np.bincount(s, minlength=S)[s]
            np.add.at(out, row, reach[t, s] * np.maximum(suboptimality[t, s], 0.0) / rivals)
        return out

    def _occupancy(self, taken: Ints) -> Floats:
        """Return (H, S) state probabilities in the empirical model under rows (H, S)."""
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
        """Return (k,) upper bounds of Q_t of pairs (k,) without data; U (S,) of the next step."""
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

    def explore(self, shares: Floats) -> Ints:
        """Return the rows (H, S) of the policy that reduces the gap most, by ``shares`` (rows,)."""
        rows = self.first_rows()
        gain = shares / np.maximum(self.evidence.known["tries"], 1)
        kernels.explore(self.rows, self.evidence, gain, np.zeros((2, rows.shape[1])), rows)
        return rows

    def loss_by_leaving(self, taken: Ints, kept: Ints, values: Floats, leaving: Floats) -> float:
        """Return the expected loss of the scores by leaving a policy; see the kernel."""
        here = np.zeros_like(values)
        here[0] = self.start()
        return float(
            kernels.loss_by_leaving(self.rows, self.evidence, taken, kept, values, leaving, here)
        )

    def widen(self, taken: Ints) -> Ints:
        """Return (H, S) the rows of a policy made when fewer states were known, with rows (H, k).

        In a state that was added later, the policy takes the first action.
        """
        return np.hstack([taken, self.first_rows()[:, taken.shape[1] :]])

    def first_rows(self) -> Ints:
        """Return (H, S) the row of each state's first action; any valid row if it has none."""
        rows = self.rows
        first = np.minimum(rows.first[:-1], max(0, len(rows.action) - 1))
        return np.asarray(first * rows.step + rows.offset[:, None], np.int64)

    def actions_of(self, taken: Ints) -> Ints:
        """Return (H, S) the actions of the rows (H, S) of a policy."""
        rows = self.rows
        action = rows.action if len(rows.action) else np.zeros(1, np.int64)
        return np.asarray(action[(taken - rows.offset[:, None]) // rows.step], np.int64)

    def lower_values(self, taken: Ints) -> Floats:
        """Return (H+1, S) lower bounds, by 1, of the values of the policy with rows (H, S)."""
        return self._evaluate(taken, -1.0)

    def upper_value(self, taken: Ints) -> float:
        """Return an upper bound, by 1, of the value of the policy with rows (H, S)."""
        return self.at_start(self._evaluate(taken, 1.0), 1.0)

    def _evaluate(self, taken: Ints, sign: float, given: bool = True) -> Floats:
        """Return (H+1, S) bounds of the policy with rows (H, S), or optimize it; see the kernel."""
        V = self.terminal_values.copy()
        self._run_evaluation(given, taken, sign, TOLD, V)
        return V

    def _run_evaluation(
        self, given: bool, taken: Ints, sign: float, start: int, V: Floats
    ) -> float:
        """Call `policy_value_bounds.evaluate` with the evidence."""
        known = self.rows, self.evidence, self.pay
        work = self._states(3), np.empty(self._longest)
        x = policy_value_bounds.evaluate(
            *known, given, taken, sign, start, self._any_full_support, *work, V
        )
        return float(x)

    def mean_values(self, taken: Ints) -> Floats:
        """Return (H+1, S) the values of the policy with rows (H, S) in the empirical model."""
        V = self.terminal_values.copy()
        policy_value_bounds.expected(self.rows, self.evidence, self.pay, taken, V)
        return V

    def robust(self) -> tuple[Ints, float]:
        """Return rows (H, S) of the policy with the largest lower bound, by 1, and the bound."""
        taken = self.first_rows()
        V = self._evaluate(taken, -1.0, given=False)
        return taken, self.at_start(V, -1.0)

    def cost_of_scores(self, j: int) -> float:
        """Return ln(j(j+1)/delta), the log-wealth to reject a value of the j-th frozen policy."""
        return self.costs["scores"] + log(j * (j + 1))

    def score_bound(self, scores: dict[float, int], j: int) -> float:
        """Return a lower bound of the j-th frozen policy's value from the counts of its scores."""
        if not scores:
            return 0.0
        x, count = np.array([*scores]), np.array([*scores.values()])
        return max(0.0, float(lower_mean(x, count, self.cost_of_scores(j))) - self.rounding)


def entries_of(rows: Rows, row: Ints) -> tuple[Ints, Ints]:
    """Return the entries of rows (k,), and for each entry the index, 0 to k - 1, of its row."""
    begin = rows.indptr[row]
    length = rows.indptr[row + 1] - begin
    which = np.repeat(np.arange(len(row)), length)
    return np.arange(len(which)) + (begin - np.cumsum(length) + length)[which], which
