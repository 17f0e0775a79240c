"""Bounds on values where nothing is listed in advance: neither states, nor successors, nor rewards.

The bounds are those of `ucfh.confidence.known_states`; what differs is what they cost, and what may
come.

1. Prices by discovery. Let the j-th pair (segment, s) in the order of finding have the price
   w_j = 1/((j+1)(j+2)), and the start w_0. Which pair is the j-th is settled when it is found,
   before anything is drawn in its rows. So, given what happened until then, an event about its
   rows fails with probability delta w_j, by Ville's inequality; the w_j sum to 1. A row is paid for
   by the first discovery of its pair, never by a later one: earlier draws would count.

2. Functions. V* is fixed, also at states that nobody has seen. In the rows of (segment, s) there
are
   as many functions r + V*_{t+1} as the segment has steps, for V* from above; for V* from below as
   many for each action. Balls for all functions are one for each action.

3. What was never seen, in a row, is worth from above as much as the steps that are left can pay,
   and from below nothing; so are states that nobody has seen. The policy takes the first action
   there. `max_return`, the largest that an episode can pay in all, caps both.

4. Patterns. As labels are not known, the ball for all functions is that of the pattern of
   repetitions (`ucfh._kernels.mixtures.pattern_excess`), around another centre.

5. Missing mass. If the D-th next state of a row was new at its visit n_D, and none has been since,
   then, for a fixed D, P(unseen) > M has had the probability (1 - M)^(n - n_D) of staying unseen.
   So with probability 1 - delta, for all D and n at once,

       P(unseen)  <=  1 - exp(-ln(D(D+1)/delta)/(n - n_D)),

   and the smallest of these so far: what is unseen later was so before. Labels are the next states
   or, in another event, the outcomes; as long as no next state was paid differently these are the
   same. A mean of any function is then at most M (top - B) + that of the function cut off at B, the
   best that was seen.

6. Missing outcomes. Which ones are missing may depend on what they were. Each counts in n as the
   best, or worst, that may come, with its reward if that is known (Proposition 67): the bounds of
   one function only become wider by that. In balls for all functions the mixture over patterns
   begins at one label more, and does not depend on how many are missing (Proposition 66). For the
   missing mass, every missing outcome counts as something new: D + lost in the place of D, and n
   since the last one.
"""

from __future__ import annotations

from math import log
from typing import Any, NamedTuple

import numpy as np

from ucfh._kernels.evidence import ANYTHING, KNOWN, STATES, Evidence, Pay, Rows
from ucfh._kernels.mixtures import pattern_excess, portfolio_regret
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
"""How delta is split; what is not needed is divided among the others."""


class UnknownStateBounds(ValueBounds):
    """The bounds for a world of which nothing was listed, from experience.

    Args:
        horizon: H.
        delta: the probability with which any of the bounds may ever fail.
        max_return: the largest sum of the rewards of an episode, each in [0, 1]; at most H.
        after_end: what a step pays after the end of an episode, in [0, 1].
        without: ideas that are switched off; see `ucfh.confidence.value_bounds.IDEAS`.
        closed: whether the data hold all states. `take` then closes them, so that no state can
            be added after a bound was computed without it (see `SparseCounts.closed`).

    Attributes (besides those of `ValueBounds`):
        missing: (rows,) the smallest bounds on what each row has not shown so far, the start last.

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
        if not self.on["scores"]:
            del shares["scores"]
        self.share_out(delta, shares)
        left = np.arange(horizon, -1.0, -1.0)
        self.cap: Floats = left if max_return is None else np.minimum(left, max_return)
        self.after_end = left * after_end
        self.U, self.L, self.ended = (np.zeros((horizon + 1, 0)) for _ in range(3))
        self.found = [np.zeros((horizon + 1, 0)) for _ in range(4)]
        self.missing, self.rounding, self.told_start = np.ones(1), 0.0, None
        self.take(SparseCounts(horizon, 1))

    def possible(self) -> Bools:
        """(H, S) the states in which an episode was, at each step."""
        return self._reached.T

    def take(self, data: SparseCounts) -> None:
        """Gather what experience says of each row."""
        data.make_room()
        data.closed |= self._closed
        P, pairs, price = data.P, data.pairs, self.prices
        R = len(pairs.action)
        start, self._reached = R * P, data.reached
        self._make_room(pairs.first, start + 1)
        functions, actions, discovery = self._prices(data)
        one = price["above"] + functions + discovery  # the price of one function from above
        early, used, tries = _tallies(data, one)

        # next states of each row, the start's last; then their outcomes
        row, following, c = used.row, used.following, used.c
        found = outcomes_of(c, used.paid, used.least, used.most, early.c)
        every = np.arange(start + 2)
        self.rows = Rows(
            first=pairs.first,
            action=pairs.action,
            step=P,
            offset=data.segment,
            indptr=np.searchsorted(row[found.source], every),
            indices=following[found.source].astype(np.int32),
        )
        self.pay = Pay(r=np.zeros((1, R)), bonus=found.reward[None], cap=self.cap, extra=1.0)
        starts = int((data.started > 0).sum())
        self.rounding = 16.0 * self.horizon * (self.horizon + max(1, starts)) * 2.0**-53

        # patterns and what is missing: by what was told in order
        indptr, pattern, noisy = np.searchsorted(row, every), *np.zeros((2, start + 1))
        D = np.bincount(row[early.c > 0], minlength=start + 1)
        repeats, events = (early.n - D).astype(float), D + early.lost.n
        pattern_excess(indptr, early.c, pattern, early.lost.n.astype(np.int64))
        noisy[row[found.noisy]] = True
        last = np.append(np.maximum(data.last_new, data.last_lost), data.started_new)
        since = early.n - early.lost.n - last
        unseen = price["missing"] + log(2) + actions + discovery + log_of(events * (events + 1.0))
        mass = np.where(since > 0, -np.expm1(-unseen / np.maximum(since, 1.0)), 1.0)
        self.missing = np.minimum(self.missing, mass * ROUND_UP)

        # one function, and the mean reward: by all that is used
        n, reward_price = used.n, price["rewards"] + actions + discovery
        lost = used.lost
        sums, unpaid = np.bincount(row, used.paid, start + 1) + lost.paid, lost.n - lost.known
        r_low, r_up = mean_reward(sums, n, reward_price)
        if unpaid.any():  # they may have been 1
            _, r_up = mean_reward(sums + unpaid, n, reward_price)
        regret = portfolio_regret(np.maximum(n, 1.0))

        def eta(part: str, of: Floats, more: Floats) -> Floats:
            """(rows,) a budget by n, or by the number of repetitions."""
            budget = price[part] + discovery + more
            return np.asarray(budget / np.maximum(of, 1.0) * ROUND_UP, float)

        known = np.zeros(start + 1, KNOWN)
        known["n"], known["tries"], known["n_one"] = n - lost.n, tries, n
        known["ladder"] = (price["ladder"] + functions + discovery) * ROUND_UP
        known["eta_up"] = eta("above", n, functions + regret)
        known["eta_low"] = eta("below", n, functions + actions + regret)
        known["n_outcomes"] = known["n_successors"] = repeats
        known["eta_outcomes"] = eta("outcomes", repeats, actions + pattern)
        known["eta_successors"] = eta("all", repeats, actions + pattern)
        rest = STATES if data.closed else ANYTHING
        known["missing"], known["rest"], known["noisy"] = self.missing, rest, noisy
        known["r_low"], known["r_up"] = r_low, r_up
        known["lost"], known["lost_known"], known["lost_paid"] = lost.n, lost.known, lost.paid
        known["lost_least"], known["lost_most"] = lost.least, lost.most
        self.evidence = Evidence(
            known=known, one=found.c, outcomes=found.again, successors=found.again
        )

    def _prices(self, data: SparseCounts) -> tuple[Floats, Floats, Floats]:
        """(rows,) ln of the number of functions, of that of actions, and of 1/w_j; start last."""
        P, have = data.P, np.diff(data.pairs.first)
        state = np.repeat(np.arange(data.states), have)
        steps = np.bincount(data.segment, minlength=P)
        j = np.append(data.place.reshape(-1, P)[state].ravel(), 0)
        functions = np.append(np.tile(steps, len(state)), 1)
        actions = np.append(np.repeat(have[state], P), 1)
        return log_of(functions), log_of(actions), log_of((j + 1.0) * (j + 2.0))

    def _make_room(self, first: Ints, rows: int) -> None:
        """Lengthen what is kept for each state and row: of new ones nothing is known yet.

        first (S+1,): the first pair of each state, and their number.
        """
        H, old = self.horizon, self.U.shape[1]
        states, pairs = len(first) - 1, int(first[-1])
        new = states - old
        if new:
            self.U = np.hstack([self.U, np.repeat(self.cap[:, None], new, axis=1)])
            self.L = np.hstack([self.L, np.zeros((H + 1, new))])
            self.ended = np.hstack([self.ended, np.zeros((H + 1, new))])
            over = old + np.flatnonzero(np.diff(first[old:]) == 0)  # the task ends there
            self.U[:, over] = self.L[:, over] = self.ended[:, over] = self.after_end[:, None]
        sizes = (pairs, pairs, states, states)
        self.found = [
            np.pad(x, ((0, 0), (0, k - x.shape[1]))) for x, k in zip(self.found, sizes, strict=True)
        ]
        more = np.ones(rows - len(self.missing))
        self.missing = np.concatenate([self.missing[:-1], more, self.missing[-1:]])


class MissingOutcomes(NamedTuple):
    """Missing outcomes of each row, (rows,) each, the start last: n of them.

    The rewards of ``known`` of them are known: their sum ``paid``, the smallest ``least`` and the
    largest ``most``; see `ucfh._kernels.evidence`.
    """

    n: Floats
    known: Floats
    paid: Floats
    least: Floats
    most: Floats


class Tally(NamedTuple):
    """What experience holds, the start as its last row.

    row, following, c, paid, least, most (entries,): the row of an entry, its next state, how often
    that was seen, and what was paid then in all, at least and at most. n (rows,): visits, those
    included whose outcome is lost. lost: these.
    """

    row: Ints
    following: Ints
    c: Ints
    paid: Floats
    least: Floats
    most: Floats
    n: Floats
    lost: MissingOutcomes


def _tally(data: SparseCounts) -> Tally:
    began = np.flatnonzero(data.started)
    start, none = len(data.visits), np.zeros(len(began))
    return Tally(
        row=np.append(data.key >> SHIFT, np.full(len(began), start)),
        following=np.append(data.key & (2**SHIFT - 1), began),
        c=np.append(data.c, data.started[began]),
        paid=np.append(data.paid, none),
        least=np.append(data.least, none),
        most=np.append(data.most, none),
        n=np.append(data.visits + data.lost, data.episodes).astype(float),
        lost=_lost_of(data),
    )


def _tallies(data: SparseCounts, one: Floats) -> tuple[Tally, Tally, Floats]:
    """What was told in order; what bounds of one function use; and (rows,) tries of each row.

    one (rows,): the price of one function. Both have the same entries. Of rows in which something
    is yet to come, what was told in order is used, or all with that as lost: whichever promises the
    narrower bound, by a deviation of sqrt(eta/2) and a share that is lost.
    """
    early = _tally(data)
    if data.ahead is None:
        return early, early, early.n
    late = _tally(data.ahead)

    def width(x: Tally) -> Floats:
        n = np.maximum(x.n, 1.0)
        return np.asarray(np.sqrt((one + portfolio_regret(n)) / (2 * n)) + x.lost.n / n, float)

    use_all = (early.n == 0) | (width(late) < width(early))
    of_entry = use_all[late.row]
    listed = late.row << SHIFT | late.following
    at = np.searchsorted(listed, early.row << SHIFT | early.following)

    def listed_as(x: Any) -> Any:
        """(entries,) numbers of the entries that were told in order, 0 for all others."""
        out = np.zeros(len(listed), x.dtype)
        out[at] = x
        return out

    def used(name: str) -> Any:
        return np.where(of_entry, getattr(late, name), listed_as(getattr(early, name)))

    mixed = late._replace(
        **{name: used(name) for name in ("c", "paid", "least", "most")},
        n=np.where(use_all, late.n, early.n),
        lost=MissingOutcomes(
            *(np.where(use_all, x, y) for x, y in zip(late.lost, early.lost, strict=True))
        ),
    )
    same = early._replace(row=late.row, following=late.following, c=listed_as(early.c))
    return same, mixed, late.n


def _lost_of(data: SparseCounts) -> MissingOutcomes:
    """What is known of missing outcomes, the start last."""
    known = data.lost - data.lost_unpaid
    arrays = data.lost, known, data.lost_paid, data.lost_least, data.lost_most
    return MissingOutcomes(*(np.append(x, 0.0) for x in arrays))


def log_of(x: Ints | Floats) -> Floats:
    """ln of what is at least 1."""
    return np.asarray(np.log(np.maximum(x, 1.0)), float)
