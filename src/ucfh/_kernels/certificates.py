"""Bounds of V*, of a policy's value and of their difference, over relative-entropy balls.

The proofs are in `ucfh.confidence.known_states`; the evidence on a row, and the bounds of one row,
are in `ucfh._kernels.row_bounds`.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.intrinsics import APART, add_at, borrow
from ucfh._kernels.kl_ball import TIE, climb, fill
from ucfh._kernels.row_bounds import (
    AHEAD,
    LEAST,
    LOW,
    UP,
    Evidence,
    Pay,
    Rows,
    Scratch,
    ball_of,
    bound_row,
    put_in_order,
)

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

PATIENCE = 2000  # looks at what others have done, for each state of a block, before going on alone


class Certified(NamedTuple):
    """Bounds of values, and the rows that attain them: input and output of `certify`.

    (H+1, S), 0 at H: U >= V* >= L, which hold such bounds on entry, and tighter ones after. And
    W <= V^pi and D >= V* - V^pi for pi the greedy policy of the empirical model; E and M, the mean
    and second moment of its return in that model. A state without pairs keeps all its values.

    (H, S): the rows taken for U (up), L (low) and by pi (greedy), the rival row that decided D,
    and the branch (0: no rival, 1: through V*, 2: through V^pi).

    x of the bounds, where it was when there were less data, or 0: x_up, x_low (H+1, R) of the
    rows, x_pi, x_ahead (H+1, S) of W and of p D.
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


class Side(NamedTuple):
    """One row's bound as a function of its values, at fixed nu = x + B: see `_growth`.

    n: the weight of all entries; weight: the slack; sure: the bound is the value of the one entry.
    """

    begin: int
    n: float
    nu: float
    weight: float
    sure: bool


class ThreadArrays(NamedTuple):
    """Arrays that threads share to certify together, and scratch arrays of each thread.

    The states of a step are shared out in blocks. claims (2*APART*H + 1,): two of them count for
    each step the blocks that some thread has taken, and those that are done, and the last is set
    when the one that leads goes on alone; all 0 on entry. values (threads, 6, k), k the most
    entries of a row or actions of a state, and states (threads, 8, S): scratch arrays by thread.
    Lines of states: marks, -1 on entry; the first and last entry of pi's row for each next state, 0
    on entry; states in the order of U, L, W and D; scratch.
    """

    blocks: int
    claims: Ints
    values: Floats
    states: Ints


@njit()
def _mean(row: int, rows: Rows, c: Floats, n: float, V: Floats, bonus: Floats) -> float:
    """Return the mean of V (S,) plus bonus over the observed outcomes of a row, weights c of n.

    Without visits it is the value of the only entry.
    """
    rows, c, V, bonus = borrow((rows, c, V, bonus))
    total = 0.0
    for e in range(rows.indptr[row], rows.indptr[row + 1]):
        x = V[rows.indices[e]]
        if bonus.size > 0:
            x += bonus[e]
        total += (c[e] if n > 0.0 else 1.0) * x
    return total / n if n > 0.0 else total


@njit(inline="always")
def _growth(weight: float, p: float, distance: float, w: float) -> float:
    """Return a lower bound of a row bound's change when one of its values changes by w >= 0.

    At fixed x + B the bound is B + x - slack prod_j (1 + z_j)^p_j with z_j = w_j / (x + d_j), and
    (1 + z)^p - 1 >= p z / (1 + (1-p) z/2). ``weight`` is the slack, ``distance`` x + d_j.
    """
    return weight * p * w / (distance + 0.5 * (1.0 - p) * w)


@njit()
def _growths(side: Side, first: int, last: int, c: Floats, v: Floats, w: float) -> float:
    """Return the sum of `_growth` over entries ``first`` to ``last``, all of one next state."""
    c, v = borrow((c, v))
    if side.sure:
        return w
    total = 0.0
    for e in range(first, last):
        distance = side.nu - v[e - side.begin]
        if c[e] > 0 and distance > 0.0:
            total += _growth(side.weight, c[e] / side.n, distance, w)
    return total


@njit(inline="always")
def _certify_above(
    t: int,
    s: int,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    out: Certified,
    scratch: Scratch,
    values: Floats,
) -> None:
    """Compute U, E, M and pi of one state at step t. values: see `ThreadArrays`."""
    q_up, nu_up, slack, v = values[0], values[1], values[2], values[3]
    U1, E1, x_up, E = out.U[t + 1], out.E[t + 1], out.x_up, out.E
    r, bonus = pay.r[min(t, len(pay.r) - 1)], pay.bonus[min(t, len(pay.bonus) - 1)]
    best_up, tried = -inf, inf
    E[t, s] = -inf
    for k in range(rows.first[s], rows.first[s + 1]):
        row, i = k * rows.step + rows.offset[t], k - rows.first[s]
        known, paid = evidence.known[row], r[k]
        guess = x_up[t if x_up[t, k] > 0.0 else t + 1, k]  # where x was last
        x = bound_row(UP, row, t, paid, rows, evidence, pay, U1, guess, scratch, v)
        x_up[t, k], nu_up[i], slack[i], q_up[i] = x.x, x.x + x.B, x.slack, paid + x.value
        if known.ladder >= 0.0 and known.n > 0.0:
            step = climb(
                rows.indptr[row], rows.indptr[row + 1], evidence.one, known.n_one, known.ladder, v,
                pay.cap[t], nu_up[i], x.lost, x.worth, known.lost - x.lost, x.rest,
            )  # fmt: skip
            if step.bound < x.value:
                nu_up[i], slack[i], q_up[i] = step.x + step.B, step.slack, paid + step.bound
        if q_up[i] > best_up or (q_up[i] == best_up and known.tries < tried):
            best_up, out.up[t, s], tried = q_up[i], row, known.tries
        mean = paid
        if known.n > 0.0 or known.certain:
            mean += _mean(row, rows, evidence.one, known.n, E1, bonus)
        if mean > E[t, s] + TIE * len(out.up):
            E[t, s], out.greedy[t, s] = mean, row
    out.U[t, s] = min(out.U[t, s], best_up)
    mine, square = out.greedy[t, s], 0.0
    n, paid = evidence.known[mine].n, r[(mine - rows.offset[t]) // rows.step]
    if n > 0.0 or evidence.known[mine].certain:
        for e in range(rows.indptr[mine], rows.indptr[mine + 1]):
            j, gets = rows.indices[e], paid
            if bonus.size > 0:
                gets += bonus[e]
            c = evidence.one[e] / n if n > 0.0 else 1.0
            square += c * (gets * gets + 2.0 * gets * E1[j] + out.M[t + 1, j])
    else:
        square = paid * paid
    out.M[t, s] = square


@njit(inline="always")
def _certify_difference(
    t: int,
    s: int,
    overlap: bool,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    out: Certified,
    states: Ints,
    values: Floats,
) -> None:
    """Compute L, W and D of one state at step t, after `_certify_above`; see `ThreadArrays`."""
    q_up, nu_up, slack, v, in_L, in_W = (
        values[0], values[1], values[2], values[3], values[4], values[5],
    )  # fmt: skip
    mark, head, tail = states[0], states[1], states[2]
    first, indptr, indices, step, offset = (
        rows.first,
        rows.indptr,
        rows.indices,
        rows.step,
        rows.offset[t],
    )
    L, W, D, one = out.L, out.W, out.D, evidence.one
    U1, L1, W1, D1 = out.U[t + 1], L[t + 1], W[t + 1], D[t + 1]
    x_low, x_pi, x_ahead = out.x_low, out.x_pi, out.x_ahead
    r, bonus = pay.r[min(t, len(pay.r) - 1)], pay.bonus[min(t, len(pay.bonus) - 1)]
    mine = out.greedy[t, s]
    k, begin, end = (mine - offset) // step, indptr[mine], indptr[mine + 1]
    known = evidence.known[mine]
    choices, surely, best_low, ahead = first[s + 1] - first[s], -inf, -inf, inf
    side_L = side_W = Side(begin, known.n_one, 0.0, 0.0, known.certain)
    for i in range(-1, choices + 2):  # L of pi's row, then of the others, then W and p_pi D
        kind, V, to, by, o = LOW, L1, v, states[4], k
        if i < 0:
            to = in_L
        elif i < choices:
            o = first[s] + i
        elif i == choices:
            kind, V, to, by = LEAST, W1, in_W, states[5]
        else:
            kind, V, by = AHEAD, D1, states[6]
        row = o * step + offset
        if 0 <= i < choices:
            other = evidence.known[row]
            # no bound from below is above the mean that was seen, unless missing outcomes paid
            if row == mine or (
                other.n > 0.0
                and other.lost_paid <= 0.0
                and r[o] + _mean(row, rows, one, other.n, L1, bonus) <= best_low
            ):
                continue
        found, at = x_low, o
        if i >= choices:
            found, at = x_pi if i == choices else x_ahead, s
        guess = found[t if found[t, at] > 0.0 else t + 1, at]
        x = bound_row(kind, row, t, r[o], rows, evidence, pay, V, guess, Scratch(mark, by), to)
        found[t, at] = x.x
        side, low = Side(begin, known.n_one, x.x + x.B, x.slack, known.certain), r[o] - x.value
        if i < choices:
            if i < 0:
                side_L, surely = side, low
            if low > best_low:
                best_low, out.low[t, s] = low, row
        elif i == choices:
            side_W, W[t, s] = side, max(0.0, low)
        else:
            ahead = x.value
    L[t, s] = max(L[t, s], best_low)
    c_W, n_W, _ = ball_of(LEAST, mine, known.noisy, evidence)
    side_W = Side(begin, n_W, side_W.nu, side_W.weight, known.certain)
    worst, rival, branch = ahead, mine, 0
    if overlap:
        for e in range(end - 1, begin - 1, -1):
            j = indices[e]
            tail[j] = e + 1 if head[j] == 0 else tail[j]
            head[j] = e + 1  # the first, and one more: 0 says that there is none
    for o in range(first[s], first[s + 1]):
        row, i = o * step + offset, o - first[s]
        through_V, through_pi = q_up[i] - surely, q_up[i] - W[t, s]
        # overlap only makes them smaller
        if row == mine or min(max(through_V, 0.0) + ahead, through_pi) <= worst:
            continue
        other = evidence.known[row]
        if overlap and through_pi > 0.0 and (other.n > 0.0 or other.certain):
            lo, hi, room = indptr[row], indptr[row + 1], pay.cap[t] - r[o]
            fill(lo, hi, indices, U1, bonus, 1.0, room, v)
            side_U = Side(lo, other.n_one, nu_up[i], slack[i], other.certain)
            e = lo
            while e < hi:
                j, here, most = indices[e], e, U1[indices[e]]
                while e < hi and indices[e] == j:
                    if bonus.size > 0:
                        most = min(most, room - bonus[e])
                    e += 1
                if head[j] == 0:
                    continue
                gap_V, gap_pi = most - L1[j], most - W1[j] - D1[j]
                if gap_V > 0.0:
                    through_V -= min(
                        _growths(side_U, here, e, one, v, gap_V),
                        _growths(side_L, head[j] - 1, tail[j], one, in_L, gap_V),
                    )
                if gap_pi > 0.0:
                    through_pi -= min(
                        _growths(side_U, here, e, one, v, gap_pi),
                        _growths(side_W, head[j] - 1, tail[j], c_W, in_W, gap_pi),
                    )
        through_V = max(through_V, 0.0) + ahead
        if min(through_V, through_pi) > worst:
            worst, rival = min(through_V, through_pi), row
            branch = 1 if through_V < through_pi else 2
    for e in range(begin, end):
        head[indices[e]] = 0
    out.rival[t, s], out.branch[t, s] = rival, branch
    D[t, s] = min(worst, out.U[t, s] - W[t, s])
    # what is known of V* and of the difference bounds V^pi as well
    W[t, s] = max(W[t, s], L[t, s] - D[t, s])


@njit()
def certify(
    thread: int,
    rows: Rows,
    evidence: Evidence,
    pay: Pay,
    difference: bool,
    overlap: bool,
    any_state: bool,
    out: Certified,
    team: ThreadArrays,
) -> None:
    """Compute all bounds of `ucfh.confidence.known_states` in one backward sweep.

    L, W and D are not changed unless ``difference``. any_state: whether any state may follow some
    row. All threads of a team call this function, each with its number; thread 0 leads. No thread
    waits for one that has taken no block, so the number of threads and their times of arrival
    affect neither progress nor the bounds.
    """
    rows, evidence, pay, out, team = borrow((rows, evidence, pay, out, team))
    values, states, claims, blocks = (
        team.values[thread],
        team.states[thread],
        team.claims,
        team.blocks,
    )
    H, S = out.greedy.shape
    scratch = Scratch(states[0], states[3])
    for t in range(H - 1, -1, -1):
        if any_state:
            put_in_order(out.U[t + 1], 1.0, states[3], states[7])
            if difference:
                put_in_order(out.L[t + 1], -1.0, states[4], states[7])
                put_in_order(out.W[t + 1], -1.0, states[5], states[7])
                put_in_order(out.D[t + 1], 1.0, states[6], states[7])
        while True:
            if thread > 0 and add_at(claims, 2 * APART * H, 0) > 0:
                return
            b = add_at(claims, 2 * APART * t, 1)
            if b >= blocks:
                break
            for s in range(b * S // blocks, (b + 1) * S // blocks):
                if rows.first[s] == rows.first[s + 1]:
                    continue
                _certify_above(t, s, rows, evidence, pay, out, scratch, values)
                if difference:
                    _certify_difference(t, s, overlap, rows, evidence, pay, out, states, values)
            add_at(claims, 2 * APART * t + APART, 1)
        patience = PATIENCE * (S // blocks + 1)
        while add_at(claims, 2 * APART * t + APART, 0) < blocks:
            patience -= 1
            if patience == 0 and thread == 0:
                add_at(claims, 2 * APART * H, 1)
