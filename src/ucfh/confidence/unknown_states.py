"""Bounds on values for an unknown state space: states, successors and rewards are all unknown.

The bounds are those of `ucfh.confidence.known_states`; their costs in the union bound differ, and
so do the outcomes that a row allows.

1. Costs by order of discovery. Let the j-th discovered pair (segment, s) have the weight
   w_j = 1/((j+1)(j+2)), and the start w_0. The j-th pair is determined when it is discovered,
   before anything is drawn in its rows. So, given the history until then, an event about its
   rows fails with probability delta w_j, by Ville's inequality; the w_j sum to 1. A row uses the
   weight of the first discovery of its pair, never a later one: earlier draws would count.

2. Functions. V* is fixed, also at unobserved states. In the rows of (segment, s) there are
   as many functions r + V*_{t+1} as the segment has steps, for V* from above; for V* from below as
   many for each action. Balls for all functions are one for each action.

3. Unobserved outcomes of a row have at most the value that the remaining steps allow, and at least
   0; so do unobserved states. The policy takes the first action there. `max_return`, the largest
   possible return of an episode, caps both.

4. Patterns. As labels are not known, the ball for all functions is that of the pattern of
   repetitions (`ucfh._kernels.mixtures.pattern_excess`), around another center.

5. Missing mass. If the D-th next state of a row was new at its visit n_D, and none has been since,
   then, for a fixed D, P(unseen) > M has had the probability (1 - M)^(n - n_D) of staying unseen.
   So with probability 1 - delta, for all D and n at once,

       P(unseen)  <=  1 - exp(-ln(D(D+1)/delta)/(n - n_D)),

   and the smallest of these bounds so far holds too: what is unseen later was so before. Labels are
   the next states or, in another event, the outcomes; they are the same as long as the rewards of
   no next state differ. A mean of any function is then at most M (top - B) + that of the function
   cut off at B, the largest value that was observed.

6. Missing outcomes, possibly not at random. Each counts in n as the best, or worst, possible
   outcome, with its reward if that is known (Proposition 67): the bounds of one function only
   become wider by that. In balls for all functions the mixture over patterns begins at one label
   more, and does not depend on the number of missing outcomes (Proposition 66). For the missing
   mass, every missing outcome counts as a new label: D + (missing) in the place of D, and n since
   the last one.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np

from ucfh._kernels.mixtures import pattern_excess, portfolio_regret
from ucfh._kernels.row_bounds import ANYTHING, KNOWN, STATES, Evidence, Pay, Rows
from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh.confidence.outcomes import ROUND_UP, mean_reward, outcomes_of
from ucfh.confidence.value_bounds import ValueBounds
from ucfh.sparse_counts import SHIFT, SparseCounts

SHARES = {
    "above": 0.2,
    "ladder": 0.2,
    "below": 0.05,
    "all": 0.1,
    "outcomes": 0.1,
    "missing": 0.2,
    "rewards": 0.05,
    "scores": 0.1,
}
"""Shares of delta by part; those of unused parts are divided among the others."""


class UnknownStateBounds(ValueBounds):
    """Value bounds for an unknown state space, from sparse counts.

    Args:
        horizon: H.
        delta: the probability with which any of the bounds may ever fail.
        max_return: the largest sum of the rewards of an episode, each in [0, 1]; at most H.
        after_end: the reward of a step after the end of an episode, in [0, 1].
        without: components to disable; see `ucfh.confidence.value_bounds.COMPONENTS`.
        closed: whether the data hold all states. `update` then closes them, so that no state can
            be added after a bound was computed without it (see `SparseCounts.closed`).

    Attributes (besides those of `ValueBounds`):
        missing: (rows,) the smallest bounds on the missing mass of each row so far, the start last.

    """

    watched = True

    def __init__(
        self,
        horizon: int,
        delta: float,
        max_return: float | None = None,
        after_end: float = 0.0,
        without: tuple[str, ...] = (),
        closed: bool = False,
    ) -> None:
        super().__init__(horizon, without)
        self._closed = closed
        shares = dict(SHARES)
        if not self.enabled["scores"]:
            del shares["scores"]
        self.divide_delta(delta, shares)
        remaining = np.arange(horizon, -1.0, -1.0)
        self.cap: Floats = remaining if max_return is None else np.minimum(remaining, max_return)
        self.after_end = remaining * after_end
        self.U, self.L, self.terminal_values = (np.zeros((horizon + 1, 0)) for _ in range(3))
        self.roots = [np.zeros((horizon + 1, 0)) for _ in range(4)]
        self.missing, self.rounding, self.known_start = np.ones(1), 0.0, None
        self.update(SparseCounts(horizon, 1))

    def possible(self) -> Bools:
        """Return (H, S) True where an episode was in the state at the step."""
        return self._reached.T

    def update(self, data: SparseCounts) -> None:
        """Compute the evidence about each row from sparse counts."""
        data.make_room()
        data.closed |= self._closed
        P, pairs, cost = data.P, data.pairs, self.costs
        R = len(pairs.action)
        start, self._reached = R * P, data.reached
        self._grow(pairs.first, start + 1)
        functions, actions, discovery = self._log_events(data)
        one = cost["above"] + functions + discovery  # the cost of one function from above
        early, used, tries = _select_counts(data, one)

        # next states of each row, the start's last; then their outcomes
        row, following, c = used.row, used.following, used.c
        outcomes = outcomes_of(c, used.rewards, used.least, used.most, early.c)
        every = np.arange(start + 2)
        self.rows = Rows(
            first=pairs.first,
            action=pairs.action,
            step=P,
            offset=data.segment,
            indptr=np.searchsorted(row[outcomes.source], every),
            indices=following[outcomes.source].astype(np.int32),
        )
        self.pay = Pay(r=np.zeros((1, R)), bonus=outcomes.reward[None], cap=self.cap, extra=1.0)
        starts = int((data.started > 0).sum())
        self.rounding = 16.0 * self.horizon * (self.horizon + max(1, starts)) * 2.0**-53

        # patterns and the missing mass: from the outcomes in the order of decisions
        indptr, pattern, noisy = np.searchsorted(row, every), *np.zeros((2, start + 1))
        D = np.bincount(row[early.c > 0], minlength=start + 1)
        repeats, events = (early.n - D).astype(float), D + early.missing.n
        pattern_excess(indptr, early.c, pattern, early.missing.n.astype(np.int64))
        noisy[row[outcomes.noisy]] = True
        last = np.append(np.maximum(data.last_new, data.last_lost), data.started_new)
        since = early.n - early.missing.n - last
        unseen = cost["missing"] + log(2) + actions + discovery + log_of(events * (events + 1.0))
        mass = np.where(since > 0, -np.expm1(-unseen / np.maximum(since, 1.0)), 1.0)
        self.missing = np.minimum(self.missing, mass * ROUND_UP)

        # one function, and the mean reward: from all selected counts
        n, reward_cost = used.n, cost["rewards"] + actions + discovery
        missing = used.missing
        sums = np.bincount(row, used.rewards, start + 1) + missing.rewards
        unknown = missing.n - missing.known
        r_low, r_up = mean_reward(sums, n, reward_cost)
        if unknown.any():  # these rewards may have been 1
            _, r_up = mean_reward(sums + unknown, n, reward_cost)
        regret = portfolio_regret(np.maximum(n, 1.0))

        def eta(part: str, of: Floats, more: Floats) -> Floats:
            """Return (rows,) a budget divided by n, or by the number of repetitions."""
            budget = cost[part] + discovery + more
            return np.asarray(budget / np.maximum(of, 1.0) * ROUND_UP, float)

        known = np.zeros(start + 1, KNOWN)
        known["n"], known["tries"], known["n_one"] = n - missing.n, tries, n
        known["ladder"] = (cost["ladder"] + functions + discovery) * ROUND_UP
        known["eta_up"] = eta("above", n, functions + regret)
        known["eta_low"] = eta("below", n, functions + actions + regret)
        known["n_outcomes"] = known["n_successors"] = repeats
        known["eta_outcomes"] = eta("outcomes", repeats, actions + pattern)
        known["eta_successors"] = eta("all", repeats, actions + pattern)
        rest = STATES if data.closed else ANYTHING
        known["missing"], known["rest"], known["noisy"] = self.missing, rest, noisy
        known["r_low"], known["r_up"] = r_low, r_up
        known["lost"], known["lost_known"] = missing.n, missing.known
        known["lost_paid"] = missing.rewards
        known["lost_least"], known["lost_most"] = missing.least, missing.most
        self.evidence = Evidence(
            known=known, one=outcomes.c, outcomes=outcomes.repeats, successors=outcomes.repeats
        )

    def _log_events(self, data: SparseCounts) -> tuple[Floats, Floats, Floats]:
        """Return (rows,) ln of the numbers of functions and actions, and of 1/w_j; start last."""
        P, have = data.P, np.diff(data.pairs.first)
        state = np.repeat(np.arange(data.states), have)
        steps = np.bincount(data.segment, minlength=P)
        j = np.append(data.place.reshape(-1, P)[state].ravel(), 0)
        functions = np.append(np.tile(steps, len(state)), 1)
        actions = np.append(np.repeat(have[state], P), 1)
        return log_of(functions), log_of(actions), log_of((j + 1.0) * (j + 2.0))

    def _grow(self, first: Ints, rows: int) -> None:
        """Extend the arrays to new states and rows, with trivial bounds.

        first (S+1,): the first pair of each state, and their number.
        """
        H, old = self.horizon, self.U.shape[1]
        states, pairs = len(first) - 1, int(first[-1])
        new = states - old
        if new:
            self.U = np.hstack([self.U, np.repeat(self.cap[:, None], new, axis=1)])
            self.L = np.hstack([self.L, np.zeros((H + 1, new))])
            self.terminal_values = np.hstack([self.terminal_values, np.zeros((H + 1, new))])
            over = old + np.flatnonzero(np.diff(first[old:]) == 0)  # the task ends there
            for values in (self.U, self.L, self.terminal_values):
                values[:, over] = self.after_end[:, None]
        sizes = (pairs, pairs, states, states)
        self.roots = [
            np.pad(x, ((0, 0), (0, k - x.shape[1]))) for x, k in zip(self.roots, sizes, strict=True)
        ]
        more = np.ones(rows - len(self.missing))
        self.missing = np.concatenate([self.missing[:-1], more, self.missing[-1:]])


class MissingCounts(NamedTuple):
    """Numbers n of missing outcomes, (rows,) each, the start last.

    The rewards of ``known`` of them are known: their sum ``rewards``, the smallest ``least`` and
    the largest ``most``; see `ucfh._kernels.row_bounds`.
    """

    n: Floats
    known: Floats
    rewards: Floats
    least: Floats
    most: Floats


class EntryCounts(NamedTuple):
    """Sparse counts in coordinate form, with the start as the last row.

    row, following, c, rewards, least, most (entries,): the row of an entry, its next state, its
    count, and the sum, the least and the most of its rewards. n (rows,): visits, including those
    with missing outcomes. missing: the missing outcomes.
    """

    row: Ints
    following: Ints
    c: Ints
    rewards: Floats
    least: Floats
    most: Floats
    n: Floats
    missing: MissingCounts


def _entry_counts(data: SparseCounts) -> EntryCounts:
    """Return the counts with the start as the last row."""
    began = np.flatnonzero(data.started)
    start, none = len(data.visits), np.zeros(len(began))
    return EntryCounts(
        row=np.append(data.key >> SHIFT, np.full(len(began), start)),
        following=np.append(data.key & (2**SHIFT - 1), began),
        c=np.append(data.c, data.started[began]),
        rewards=np.append(data.paid, none),
        least=np.append(data.least, none),
        most=np.append(data.most, none),
        n=np.append(data.visits + data.lost, data.episodes).astype(float),
        missing=_missing_counts(data),
    )


def _select_counts(data: SparseCounts, one: Floats) -> tuple[EntryCounts, EntryCounts, Floats]:
    """Select between the counts in the order of decisions and all counts, for each row.

    In a row with pending outcomes, bounds of one function use the outcomes in the order of
    decisions, or all of them with the pending ones as missing: the option with the smaller
    approximate width, a deviation of sqrt(eta/2) plus the share of missing outcomes. one (rows,):
    the cost of one function. Returned are the counts in the order of decisions, the selected ones,
    both with the same entries, and (rows,) the number of decisions in each row.
    """
    early = _entry_counts(data)
    if data.ahead is None:
        return early, early, early.n
    late = _entry_counts(data.ahead)

    def width(x: EntryCounts) -> Floats:
        n = np.maximum(x.n, 1.0)
        return np.asarray(np.sqrt((one + portfolio_regret(n)) / (2 * n)) + x.missing.n / n, float)

    use_all = (early.n == 0) | (width(late) < width(early))
    of_entry = use_all[late.row]
    listed = late.row << SHIFT | late.following
    at = np.searchsorted(listed, early.row << SHIFT | early.following)

    def scatter(x: Any) -> Any:
        """Return (entries,) the values of the entries of ``early``, 0 for all others."""
        out = np.zeros(len(listed), x.dtype)
        out[at] = x
        return out

    def selected(name: str) -> Any:
        return np.where(of_entry, getattr(late, name), scatter(getattr(early, name)))

    mixed = late._replace(
        **{name: selected(name) for name in ("c", "rewards", "least", "most")},
        n=np.where(use_all, late.n, early.n),
        missing=MissingCounts(
            *(np.where(use_all, x, y) for x, y in zip(late.missing, early.missing, strict=True))
        ),
    )
    same = early._replace(row=late.row, following=late.following, c=scatter(early.c))
    return same, mixed, late.n


def _missing_counts(data: SparseCounts) -> MissingCounts:
    """Return the missing outcomes of each row, the start last."""
    known = data.lost - data.lost_unpaid
    arrays = data.lost, known, data.lost_paid, data.lost_least, data.lost_most
    return MissingCounts(*(np.append(x, 0.0) for x in arrays))


def log_of(x: Ints | Floats) -> Floats:
    """Return ln max(x, 1)."""
    return np.asarray(np.log(np.maximum(x, 1.0)), float)
