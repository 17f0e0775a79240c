"""FixedHorizonEVI: dynamic programming over transition probabilities between bounds.

The values of rows are those of `ucfh._kernels.row_values`.

Most rows need no pass at all. If V_{t+1} <= V_{t+2} + g in every state, then the value of an
action grew by at most g since the last step; an action that was worse than the best by more than
all that has grown since it was last weighed is still worse.

States are planned in batches: first the action that each took at the last step, then all the
others that may be as good. So the rows that are due are known in advance, and are on their way
from memory before they are weighed. What is done for some states or rows only is done in a loop
over just those: in a loop over all of them the processor would guess which, often wrongly, and a
wrong guess takes as long as a row.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels._jit import njit
from ucfh._kernels.interval import best_mean
from ucfh._kernels.intrinsics import APART, add_at, borrow, hold
from ucfh._kernels.row_values import BATCH, Model, Scratch, Step, look_up, value_rows

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

TIE = 1e-13  # times H, the size of values: a difference that rounding may make
FAR = 1e-9  # times H: a difference that rounding cannot make, in rows of a million successors
MANY = 6  # if more than one state in this many is due, all are planned again
PATIENCE = 50  # times the entries of a block: how often to look before giving up on others


class Shared(NamedTuple):
    """Arrays that threads share to sweep together.

    likely (S,), upper (R + S,): those of `Memory`, and its rival; likely is 0 on entry. Z (2, S):
    Z[t % 2] is sign V[t]. growth (H, blocks): how far V[t] is above V[t+1], in each block of
    states. upper and growth may hold anything on entry. claims (3*APART*H + 1,), all 0 on
    entry: three of them count for each step the blocks that are taken, those that are done, and
    those that helpers have taken.
    """

    likely: Index
    upper: Floats
    Z: Floats
    growth: Floats
    claims: Ints


class SweepArrays(NamedTuple):
    """Output of planning: V (H+1, S), values, V[H] = 0 on entry, and policy (H, S), actions.

    pivot (R,): the last place of each pivot in its row, at which its search starts.
    """

    V: Floats
    policy: NDArray[Any]
    pivot: Index


class Memory(NamedTuple):
    """Earlier results, at which searches start.

    pivot (R,): the place of each pivot in its row. likely (S,): the last action of each state.
    upper (R,) + grown bounds the values of actions, rival (S,) + grown those of all but the
    likely one.
    """

    pivot: Index
    likely: Index
    upper: Floats
    rival: Floats


@njit()
def _plan_states(
    states: Index,
    tie: float,
    far: float,
    grown: float,
    model: Model,
    hi: Floats | None,
    step: Step,
    memory: Memory,
    scratch: Scratch,
    v: Floats,
    policy: NDArray[Any],
    z: Floats,
) -> float:
    """Plan step t for up to BATCH states (n,): write V[t] into v (S,), actions into policy (S,).

    Bounds are believed where they decide by more than ``far``. Actions whose values differ by no
    more than ``tie`` are equal, and the lowest is taken. sign V[t] goes into z (S,). Returns how
    far V[t] is above V[t+1] at most.
    """
    states, model, step = borrow((states, model, step))
    memory, scratch, v, policy, z = borrow((memory, scratch, v, policy, z))
    first, likely, upper, pivot = model.first, memory.likely, memory.upper, memory.pivot
    row, owner, contested, choice = scratch.row, scratch.owner, scratch.batch[1], scratch.choice
    best, top = scratch.value[:BATCH], scratch.value[BATCH : 2 * BATCH]
    q = scratch.value[2 * BATCH : 2 * BATCH + row.size]
    # unsigned: of a signed index numba would ask whether it counts from the end
    n, many, due = np.uint64(states.size), np.uint64(0), np.uint64(0)
    for i in range(n):
        s = np.uint64(states[i])
        row[i] = first[s] + likely[s]
    value_rows(n, model, hi, step, pivot, scratch, best)
    for i in range(n):
        contested[many] = i
        many += np.uint64(not memory.rival[np.uint64(states[i])] + grown < best[i] - far)
    for c in range(many):
        j = np.uint64(contested[c])
        s = np.uint64(states[j])
        taken, least = np.uint64(first[s] + likely[s]), best[j] - far
        top[j], upper[taken] = best[j], best[j] - grown
        for k in range(np.uint64(first[s]), np.uint64(first[s + np.uint64(1)])):
            row[due], owner[due] = k, j
            due += np.uint64((k != taken) & (not upper[k] + grown < least))
    value_rows(due, model, hi, step, pivot, scratch, q)
    for d in range(due):
        top[owner[d]] = max(top[owner[d]], q[d])
        upper[row[d]] = q[d] - grown
    for c in range(many):
        j = np.uint64(contested[c])
        s = np.uint64(states[j])
        taken, end = np.uint64(first[s] + likely[s]), np.uint64(first[s + np.uint64(1)])
        choice[j] = float(taken) if best[j] >= top[j] - tie else float(end)
    for d in range(due):
        j, lowest = owner[d], float(row[d])
        choice[j] = min(choice[j], lowest if q[d] >= top[j] - tie else np.inf)
    for c in range(many):
        j = np.uint64(contested[c])
        s, taken, rival = np.uint64(states[j]), np.uint64(choice[j]), -np.inf
        begin = np.uint64(first[s])
        for k in range(begin, np.uint64(first[s + np.uint64(1)])):
            bound = upper[k]
            rival = max(rival, bound if k != taken else -np.inf)
        best[j], likely[s], memory.rival[s] = top[j], taken - begin, rival
    growth = -np.inf
    for i in range(n):
        s = np.uint64(states[i])
        growth = max(growth, best[i] - model.sign * step.z[s])
        v[s], z[s] = best[i], model.sign * best[i]
        policy[s] = model.action[first[s] + likely[s]] if model.action.size else likely[s]
    return growth


@njit(inline="always")
def _reward_growth(t: int, r: Floats) -> float:
    """Return max(r_{t-1} - r_t) over all pairs; r (1 or H, R)."""
    if not 0 < t < len(r):
        return 0.0
    growth = -np.inf
    for k in range(r.shape[1]):
        growth = max(growth, r[t - 1, k] - r[t, k])
    return growth


@njit(inline="always")
def _see(t: int, horizon: int, model: Model, z: Floats) -> Step:
    """Return the arrays of step t; z (S,) = sign V[t+1]."""
    r, bonus = model.r, model.bonus
    return Step(
        r=r[min(t, len(r) - 1)],
        bonus=bonus[min(t, len(bonus) - 1)],
        offset=t * model.stride,
        z=z,
        ended=t == horizon - 1 and not bonus.size,
    )


@njit(inline="always")
def _scratch(states: int, actions: int) -> Scratch:
    """Return the arrays that one thread plans with."""
    rows, order = BATCH * actions, np.empty(states, np.int64)
    for s in range(states):
        order[s] = s
    return Scratch(
        batch=np.empty((2, BATCH), np.int32),
        choice=np.empty(BATCH),
        row=np.empty(rows, np.uint64),
        owner=np.empty(rows, np.uint64),
        lost=np.empty(rows, np.uint64),
        value=np.empty(2 * BATCH + rows + states),
        order=order,
    )


@njit()
def sweep(
    t: int,
    helps: bool,
    actions: int,
    first: Ints,
    action: Ints,
    indptr: Ints,
    indices: Index,
    stride: int,
    lo: Floats,
    r: Floats,
    bonus: Floats,
    sign: float,
    hi: Floats | None,
    V: Floats,
    policy: NDArray[Any],
    pivot: Index,
    shared: Shared | None,
) -> None:
    """Fill V[: t+1] and policy[: t+1], given V[t+1], alone or by all threads that share arrays.

    The states of a step are shared out in blocks, to the one that leads from the front and to
    helpers from the back, so that the cache of each holds its data of the last step. No thread
    waits for one that has taken no block, so neither the number of threads nor their times of
    arrival matter. The one that leads sets the last claim if it has to wait too long, as on a
    machine with other things to do; it goes on alone.

    The arguments are those of `Model` and of `SweepArrays`, one by one: in tuples it would take as
    long to pass them as to plan for five states.
    """
    model = borrow(Model(first, action, indptr, indices, stride, lo, r, bonus, sign))
    V, policy, pivot = borrow((V, policy, pivot))
    H, S = policy.shape
    if shared is None:
        Z = np.empty((2, S))
        for s in range(S):
            Z[(t + 1) % 2, s] = sign * V[t + 1, s]
        likely, upper, growth = np.zeros(S, np.int32), np.empty(len(pivot) + S), np.empty((H, 1))
        claims = np.zeros(3 * APART * H + 1, np.int64)
    else:
        likely, upper, Z, growth, claims = shared
    own = likely, upper, Z, growth, claims, _scratch(S, actions)
    likely, upper, Z, growth, claims, scratch = borrow(own)
    blocks, pairs, states = growth.shape[1], len(pivot), scratch.batch[0]
    memory = Memory(pivot, likely, upper[:pairs], upper[pairs:])
    # what a row held at one step bounds the next step only if it does not change in between
    steady, far, grown = stride == 0 and len(model.bonus) == 1, np.inf, 0.0
    for i in range(t, -1, -1):
        step, mine = _see(i, H, model, Z[(i + 1) % 2]), 0
        while add_at(claims, 3 * APART * i, 1) < blocks:
            b = blocks - 1 - add_at(claims, 3 * APART * i + 2 * APART, 1) if helps else mine
            mine += 1
            most, s, end = -np.inf, b * S // blocks, (b + 1) * S // blocks
            while s < end:
                n = min(BATCH, end - s)
                for j in range(n):
                    states[j] = s + j
                most = max(most, _plan_states(
                    states[:n], TIE * H, far, grown, model, hi, step, memory, scratch, V[i],
                    policy[i], Z[i % 2],
                ))  # fmt: skip
                s += n
            growth[i, b] = most
        add_at(claims, 3 * APART * i + APART, mine)
        if helps and add_at(claims, 3 * APART * H, 0):
            break
        patience = PATIENCE * (S + model.lo.size // (H if stride else 1)) // blocks + 1
        while add_at(claims, 3 * APART * i + APART, 0) < blocks:
            patience -= 1
            if patience == 0 and not helps:
                add_at(claims, 3 * APART * H, 1)
        most = growth[i, 0]
        for b in range(1, blocks):
            most = max(most, growth[i, b])
        # the last term is more than rounding
        grown += most + _reward_growth(i, r) + 1e-15 * H
        if steady:
            far = FAR * H
    hold(own)


@njit()
def resweep(
    row: int,
    begin: Ints,
    before: Index,
    actions: int,
    model: Model,
    hi: Floats,
    out: SweepArrays,
) -> int:
    """Bring V and policy up to date after the bounds or the reward of one row changed.

    before[begin[s] : begin[s + 1]] are the states that s may follow. A state is planned again if
    it has the row, or if V[t+1] changed in a state that may follow it. Returns the step from
    which on those are many, so that all are to be planned again, by a sweep; or -1.
    """
    first, stride, sign = model.first, model.stride, model.sign
    V, policy, pivot = out.V, out.policy, out.pivot
    H, S = policy.shape
    pairs, owner, scratch = len(pivot), 0, _scratch(S, actions)
    while first[owner + 1] <= row % pairs:
        owner += 1
    # without bounds to believe in, all actions of a state that is due are weighed
    memory = Memory(pivot, np.zeros(S, np.int32), np.empty(pairs), np.empty(S))
    due, changed, marked = np.empty(S, np.int32), np.empty(S, np.int32), np.zeros(S, np.int64)
    old, worst, ignored, altered = np.empty(BATCH), np.empty(S), np.empty(S), 0
    for t in range(H - 1 if stride == 0 else row // pairs, -1, -1):
        many = 0
        if stride == 0 or t == row // pairs:
            due[0], marked[owner], many = owner, H - t, 1
        for i in range(altered):
            for j in range(begin[changed[i]], begin[changed[i] + 1]):
                s = before[j]
                if marked[s] != H - t:
                    due[many], marked[s] = s, H - t
                    many += 1
        if many * MANY > S:
            return t
        z = V[t + 1]
        if sign < 0.0:
            for s in range(S):
                worst[s] = -z[s]
            z = worst
        step, altered = _see(t, H, model, z), 0
        for b in range(0, many, BATCH):
            states = due[b : min(b + BATCH, many)]
            for i in range(states.size):
                old[i] = V[t, states[i]]
            _plan_states(
                states,
                TIE * H,
                np.inf,
                0.0,
                model,
                hi,
                step,
                memory,
                scratch,
                V[t],
                policy[t],
                ignored,
            )
            for i in range(states.size):
                if V[t, states[i]] != old[i]:
                    changed[altered] = states[i]
                    altered += 1
    return -1


@njit()
def write_model(model: Model, hi: Floats, V: Floats, out: Floats) -> None:
    """Write probabilities that attain V into out (H, entries), or (1, entries) if stride > 0."""
    indptr, stride, lo = model.indptr, model.stride, model.lo
    H, S = len(V) - 1, V.shape[1]
    z, y = np.empty(S), np.empty(S)
    for t in range(H):
        for s in range(S):
            z[s] = model.sign * V[t + 1, s]
        p, step = out[min(t, len(out) - 1)], _see(t, H, model, z)
        for row in range(t * stride, t * stride + model.first[-1]):
            begin, end = indptr[row], indptr[row + 1]
            look_up(begin, end, model, step, y)
            _, place = best_mean(lo, hi, begin, end, y, y[0], 0)
            rest, best = 1.0, -1
            for e in range(begin, end):
                p[e] = hi[e] if y[e - begin] > y[place] else lo[e]
                rest -= p[e]
                if hi[e] > 0.0 and (best < 0 or y[e - begin] > y[best - begin]):
                    best = e
            for e in range(begin, end):
                if y[e - begin] == y[place]:
                    share = max(0.0, min(rest, hi[e] - lo[e]))
                    p[e] += share
                    rest -= share
            p[best] += rest
