"""What was seen of each row, as the bounds on values take it, and the bound for all functions.

A row lists outcomes: a next state and what was paid on the way to it. Entries with a count of 0 are
outcomes that may still come. What may come besides those that are listed is told by its kind:

    NOTHING    the listed ones are all
    REWARDS    a listed next state, paid differently
    STATES     any of the states that are not listed
    ANYTHING   a state that nobody has seen yet

It is worth what the best of them can be worth from above, and the least from below.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.balls import extreme
from ucfh._kernels.compiling import inner, njit, uncounted

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

NOTHING, REWARDS, STATES, ANYTHING = range(4)


class Rows(NamedTuple):
    """Which rows there are; the last one is the start.

    Pair k of step t has row k*step + offset[t], offset (H,); the pairs of state s are first[s] to
    first[s+1], first (S+1,), with actions action (R,). A state without pairs keeps the values that
    it is given. indptr (rows+1,), indices (entries,): the next state of each entry, ascending
    within a row. rest (rows,): what may come besides.
    """

    first: Ints
    action: Ints
    step: int
    offset: Ints
    indptr: Ints
    indices: Index
    rest: Ints


class Ball(NamedTuple):
    """A ball around each row: its centre, as weights c (entries,) of n (rows,), and eta (rows,).

    Where c sums to less than n, the others are lost.
    """

    c: Floats
    n: Floats
    eta: Floats


class Lost(NamedTuple):
    """Outcomes of each row that were lost, (rows,) each: how many, n.

    In bounds of V* from above, ``up`` of them pay up_pays, and in those from below ``low`` of them
    pay low_pays; the next state may be any. The others count as the best, or worst, that may come.
    """

    n: Floats
    up: Floats
    up_pays: Floats
    low: Floats
    low_pays: Floats


class Evidence(NamedTuple):
    """What is known of each row.

    n (rows,): outcomes that were seen; lost: those that were not. tries (rows,): how often it was
    taken, also where the outcome is yet to come. ladder (rows,): the budget of
    `ucfh._kernels.balls.climb` for the mean of V* from above, -1 for none. Balls: above, below for
    the mean of V*; outcomes for that of any function of the outcome, successors of any function of
    the next state. missing (rows,): the probability of all that has a count of 0 or is not listed
    is at most that. noisy (rows,): whether the same next state was paid differently; then
    ``outcomes`` says nothing, and the mean reward is between r_low and r_up (rows,). certain
    (rows,): whether the one entry must follow.
    """

    n: Floats
    tries: Floats
    ladder: Floats
    above: Ball
    below: Ball
    outcomes: Ball
    successors: Ball
    missing: Floats
    r_low: Floats
    r_up: Floats
    noisy: Bools
    certain: Bools
    lost: Lost


class Pay(NamedTuple):
    """What is paid: r (1 or H, R) for a pair, told; cap (H+1,): from t on, at most.

    extra: what an outcome that was not seen pays at most, besides; 0 if rewards are told. What
    entries pay is apart from this, as it may be missing: bonus (1 or H, entries).
    """

    r: Floats
    cap: Floats
    extra: float


class Rest(NamedTuple):
    """The best value of what is not listed, -inf if there is nothing, and its state, or -1."""

    value: float
    state: int


class Wide(NamedTuple):
    """The bound of one row for all functions: as `ucfh._kernels.balls.Extreme`.

    ``beyond`` is the part of the bound that the probability of what was never seen accounts for.
    """

    bound: float
    x: float
    B: float
    slack: float
    beyond: float


@njit(**uncounted, **inner)
def rest_of(
    row: int,
    rows: Rows,
    V: Floats,
    sign: float,
    anew: bool,
    extra: float,
    anything: float,
    order: Ints,
    mark: Ints,
) -> Rest:
    """What may come besides the listed entries is worth at most that, times the sign.

    ``anew``: a listed state may come, too, if it is paid otherwise than before. ``extra`` is paid
    on top; ``anything``: what a state that nobody has seen is worth. order (S,): states, best
    first. mark (S,): scratch; it is changed.
    """
    kind, indices = rows.rest[row], rows.indices
    if kind == NOTHING:
        return Rest(-inf, -1)
    if kind == ANYTHING:
        return Rest(anything, -1)
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    best = -1
    if kind == REWARDS:
        for e in range(begin, end):
            if best < 0 or sign * V[indices[e]] > sign * V[best]:
                best = indices[e]
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


@njit(**uncounted, **inner)
def widest(
    row: int,
    rows: Rows,
    evidence: Evidence,
    ball: Ball,
    v: Floats,
    rest: float,
    guess: float,
) -> Wide:
    """The best mean of v over a ball, or over what was seen plus what the rest can add.

    With M >= P(not seen), top the best value and B the best that was seen, a mean of v is at most
    M (top - B) + that of v cut off at B. The better of the two; v (end-begin,) may be cut off on
    return, where nothing was seen.
    """
    begin, end = rows.indptr[row], rows.indptr[row + 1]
    n, budget, c = ball.n[row], ball.eta[row], evidence.above.c
    plain = extreme(begin, end, ball.c, n, budget, v, rest, guess)
    missing = evidence.missing[row]
    if missing >= 1.0:
        return Wide(plain.bound, plain.x, plain.B, plain.slack, 0.0)
    B = -inf
    for e in range(begin, end):
        if c[e] > 0:
            B = max(B, v[e - begin])
    beyond = missing * (plain.B - B)
    if 0.0 < beyond < inf:
        for e in range(begin, end):
            v[e - begin] = min(v[e - begin], B)
        cut = extreme(begin, end, ball.c, n, budget, v, -inf, guess)
        if cut.bound + beyond < plain.bound:
            return Wide(cut.bound + beyond, cut.x, cut.B, cut.slack, beyond)
    return Wide(plain.bound, plain.x, plain.B, plain.slack, 0.0)
