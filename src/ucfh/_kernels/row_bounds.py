"""Evidence on each row, in the form that bounds on values use, and the bounds of one row.

A row lists outcomes: a next state and the reward on the way to it. Entries with a count of 0 are
outcomes that are possible but not observed. The kind of a row names its unlisted outcomes:

    NOTHING    none
    REWARDS    a listed next state with another reward
    STATES     any of the states that are not listed
    ANYTHING   an unknown state

Bounds from above use the largest value of an unlisted outcome, bounds from below the smallest. Each
bounds one of these means, over a row of step t and values of step t + 1:

    UP, LOW        of V*, from above and below
    MOST, LEAST    of a policy's value, from above and below
    AHEAD          of the difference D, from above
"""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.intrinsics import borrow
from ucfh._kernels.kl_ball import extreme, fill

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

NOTHING, REWARDS, STATES, ANYTHING = range(4)
KINDS: Any = np.arange(5)  # a number that a function is given as int is compiled into it
UP, LOW, MOST, LEAST, AHEAD = KINDS

KNOWN = np.dtype(
    [
        ("n", np.float64),
        ("tries", np.float64),
        ("n_one", np.float64),
        ("eta_up", np.float64),
        ("ladder", np.float64),
        ("lost", np.float64),
        ("lost_known", np.float64),
        ("lost_paid", np.float64),
        ("lost_least", np.float64),
        ("lost_most", np.float64),
        ("eta_low", np.float64),
        ("n_outcomes", np.float64),
        ("eta_outcomes", np.float64),
        ("n_successors", np.float64),
        ("eta_successors", np.float64),
        ("missing", np.float64),
        ("r_low", np.float64),
        ("r_up", np.float64),
        ("rest", np.int8),
        ("noisy", np.bool_),
        ("certain", np.bool_),
    ],
    align=True,
)
"""Evidence on one row; one array of these compiles faster than one array of each field.

n: observed outcomes. tries: visits, also those with a pending outcome. rest: the kind of the
unlisted outcomes.

The balls around its weights (see `Evidence`) have the total n_* and the budget eta_*. up, low: for
the mean of V*, both with n_one; outcomes: of any function of the outcome; successors: of any
function of the next state. ladder: the budget of `ucfh._kernels.kl_ball.climb` for the mean of V*
from above, -1 for none.

lost: the number of missing outcomes, included in n_one; their next states may be any. The rewards
of lost_known of them are known: their sum is lost_paid, the smallest lost_least and the largest
lost_most (see `lost_above`, `lost_below`). The others count as the best, or worst, possible
outcome.

missing: upper bound of the probability of all outcomes that have a count of 0 or are not listed.
noisy: whether the same next state had different rewards; then ``outcomes`` is not used, and the
mean reward is between r_low and r_up. certain: whether the only entry has probability 1.
"""


class Rows(NamedTuple):
    """Layout of the rows; the last one is the start.

    Pair k of step t has row k*step + offset[t], offset (H,); the pairs of state s are first[s] to
    first[s+1], first (S+1,), with actions action (R,). A state without pairs keeps its
    given values. indptr (rows+1,), indices (entries,): the next state of each entry, ascending
    within a row.
    """

    first: Ints
    action: Ints
    step: int
    offset: Ints
    indptr: Ints
    indices: Index


class Evidence(NamedTuple):
    """Evidence on each row: known (rows,) of `KNOWN`, and weights (entries,), the centers of balls.

    one: of the ball for one function fixed in advance; outcomes and successors: of the balls for
    all functions.
    """

    known: Any
    one: Floats
    outcomes: Floats
    successors: Floats


class Pay(NamedTuple):
    """Rewards: r (1 or H, R), the known part of pairs; cap (H+1,), the largest return from t on.

    bonus (1 or H, entries): rewards of entries; (1, 0) if there are none. extra: the largest
    additional reward of an unobserved outcome; 0 if rewards are known.
    """

    r: Floats
    bonus: Floats
    cap: Floats
    extra: float


class Ball(NamedTuple):
    """Ball of one row: weights c (entries,) that sum to n there, or less; eta."""

    c: Floats
    n: float
    eta: float


class Rest(NamedTuple):
    """Best value of an unlisted outcome, -inf if there is none, and its state, or -1."""

    value: float
    state: int


class Bound(NamedTuple):
    """The bound of one row, times the sign: x, B and slack as in `ucfh._kernels.kl_ball.Extreme`.

    beyond: the part due to the probability of unobserved outcomes. rest, state: the value and the
    state of unlisted outcomes, as far as they count. lost, worth: the number of missing outcomes
    that count with the value ``worth``; all other missing ones count as the best.
    """

    value: float
    x: float
    B: float
    slack: float
    beyond: float
    rest: float
    state: int
    lost: float
    worth: float


class Scratch(NamedTuple):
    """Scratch arrays: mark (S,), -1 between calls; order (S,): states, the best first.

    The order is needed where any state may follow.
    """

    mark: Ints
    order: Ints


@njit(inline="always")
def sign_of(kind: int) -> float:
    """Return 1 for a bound from above, else -1."""
    return -1.0 if kind in (LOW, LEAST) else 1.0


@njit(inline="always")
def ball_of(kind: int, row: int, alone: bool, evidence: Evidence) -> Ball:
    """Return the ball of a row; ``alone``: of next states without rewards."""
    known = evidence.known[row]
    if kind == UP:
        return Ball(evidence.one, known.n_one, known.eta_up)
    if kind == LOW:
        return Ball(evidence.one, known.n_one, known.eta_low)
    if alone:
        return Ball(evidence.successors, known.n_successors, known.eta_successors)
    return Ball(evidence.outcomes, known.n_outcomes, known.eta_outcomes)


@njit()
def put_in_order(V: Floats, sign: float, order: Ints, other: Ints) -> None:
    """Sort states by sign V (S,) into order (S,), the largest first and equal ones in their order.

    other (S,): scratch. By merging runs of 1, 2, 4, ...
    """
    V, order, other = borrow((V, order, other))
    S = len(V)
    for s in range(S):
        order[s] = s
    run = 1
    while run < S:
        for begin in range(0, S, 2 * run):
            middle, end = min(begin + run, S), min(begin + 2 * run, S)
            i, j = begin, middle
            for k in range(begin, end):
                if j >= end or (i < middle and sign * V[order[i]] >= sign * V[order[j]]):
                    other[k] = order[i]
                    i += 1
                else:
                    other[k] = order[j]
                    j += 1
        for s in range(S):
            order[s] = other[s]
        run *= 2


@njit()
def rest_of(
    row: int,
    rows: Rows,
    kind: int,
    V: Floats,
    sign: float,
    anew: bool,
    extra: float,
    anything: float,
    scratch: Scratch,
) -> Rest:
    """Return the best value, times the sign, of outcomes that are not listed.

    ``kind``: of these outcomes. ``anew``: a listed state with another reward is one of them.
    ``extra``: their additional reward; ``anything``: the value of an unknown state.
    """
    rows, V, scratch = borrow((rows, V, scratch))
    indices, mark, order = rows.indices, scratch.mark, scratch.order
    if kind == NOTHING:
        return Rest(-inf, -1)
    if kind == ANYTHING:
        return Rest(anything, -1)
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    best = -1
    if kind == REWARDS:
        for e in range(begin, end):
            if best < 0 or sign * V[indices[e]] > sign * V[best]:
                best = int(indices[e])
    elif anew:
        best = order[0]
    else:
        for e in range(begin, end):
            mark[indices[e]] = row
        for i in range(len(order)):
            if mark[order[i]] != row:
                best = order[i]
                break
        for e in range(begin, end):
            mark[indices[e]] = -1
    return Rest(-inf if best < 0 else extra + sign * V[best], best)


@njit(inline="always")
def lost_above(known: Any, V: float, top: float) -> tuple[float, float]:
    """Return the number of missing outcomes below the best value, and their value, from above.

    All other missing outcomes have the best value. An outcome with reward r has a value of at most
    min(r + V, top), where V is the best value of a next state. ln(nu - that) is concave in r up to
    end = min(1, top - V) and constant beyond, so it is at least the chord from the smallest reward
    to ``end``, which lies below all of it. With the sum kept, (k end - sum)/(end - least) of k
    rewards are the smallest, and the others ``end``: worth min(1 + V, top), the best. Proposition
    67 of `docs/theory/open.md`.
    """
    k, least = known.lost_known, known.lost_least
    end = min(1.0, top - V)
    if k <= 0.0 or end <= least:
        return 0.0, 0.0
    return min(k, max(0.0, (k * end - known.lost_paid) / (end - least))), least + V


@njit(inline="always")
def lost_below(known: Any, V: float) -> tuple[float, float]:
    """Return the number of missing outcomes above the worst value, and their value, from below.

    All other missing outcomes have the worst value. V: the worst value of a next state. By the
    chord from 0 to the largest reward; there is no cut.
    """
    most = known.lost_most
    if most <= 0.0:
        return 0.0, 0.0
    return min(known.lost_known, known.lost_paid / most), most + V


@njit(forceinline=True)
def bound_row(
    kind: int,
    row: int,
    t: int,
    paid: float,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    V: Floats,
    guess: float,
    scratch: Scratch,
    v: Floats,
) -> Bound:
    """Return the bound of one mean over a row at step t; V (S,) are values of the next step.

    D is a function of the next state, V* of the next state and the reward. So is the value of a
    policy, which is bounded over the ball of outcomes or, if the row is noisy, over the ball of
    next states and the mean reward apart. The start has t = -1 and no reward. ``paid``: the known
    part of the reward, for the cap; -inf for the start. ``guess``: the first x of the search, or 0.
    v is filled.

    For all functions there is another bound. With M >= P(not observed), top the best value and B
    the best observed value, a mean of v is at most M (top - B) plus the mean of v cut off at B. The
    better of the two is returned; v may be cut off on return, at entries without observations.
    """
    rows, evidence, pay = borrow((rows, evidence, pay))
    V, scratch, v = borrow((V, scratch, v))
    known, sign = evidence.known[row], sign_of(kind)
    alone = kind == AHEAD or t < 0 or (kind > LOW and known.noisy)
    c, n, eta = ball_of(kind, row, alone, evidence)
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    top = pay.cap[t] - paid if kind == UP else inf
    bonus = pay.bonus[min(max(t, 0), len(pay.bonus) - 1)]
    fill(begin, end, rows.indices, V, bonus[:0] if alone else bonus, sign, top, v)
    extra = pay.extra if sign > 0.0 and not alone else 0.0
    anything = extra + pay.cap[t + 1] if sign > 0.0 else 0.0
    anew = pay.extra > 0.0 and not alone
    rest = rest_of(row, rows, known.rest, V, sign, anew, extra, anything, scratch)
    gone, worth, missing = 0.0, 0.0, 1.0
    if kind == UP:
        gone, worth = lost_above(known, rest.value - extra, top)
    elif kind == LOW:
        gone, worth = lost_below(known, -rest.value)
        worth = -worth
    else:
        missing = known.missing
    apart = 0.0
    if known.noisy and kind in (MOST, LEAST):
        apart = known.r_up if kind == MOST else -known.r_low
    value, state, beyond = min(rest.value, top), rest.state, 0.0
    best = extreme(begin, end, c, n, eta, v, value, guess, gone, worth)
    if missing < 1.0:
        B = -inf
        for e in range(begin, end):
            if evidence.one[e] > 0.0:
                B = max(B, v[e - begin])
        more = missing * (best.B - B)
        if 0.0 < more < inf:
            for e in range(begin, end):
                v[e - begin] = min(v[e - begin], B)
            cut = extreme(begin, end, c, n, eta, v, -inf, guess, 0.0, 0.0)
            if cut.bound + more < best.bound:
                best, beyond, value, state = cut, more, -inf, -1
    found = best.bound + beyond + apart
    return Bound(found, best.x, best.B, best.slack, beyond, value, state, gone, worth)
