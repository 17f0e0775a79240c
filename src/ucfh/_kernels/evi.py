"""FixedHorizonEVI: dynamic programming over transition probabilities between bounds.

The mean over one row is that of `ucfh._kernels.boxes`.

Most rows need no pass at all. If V_{t+1} <= V_{t+2} + g in every state, then the value of an
action grew by at most g since the last step; an action that was worse than the best by more than
all that has grown since it was last weighed is still worse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels.boxes import Step, mean_of, search, signed, value_at
from ucfh._kernels.compiling import inner, njit, uncounted
from ucfh._kernels.intrinsics import add_at, prefetch, read_at

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]

TIE = 1e-13  # times H, the size of values: a difference that rounding may make
FAR = 1e-9  # times H: a difference that rounding cannot make, in rows of a million successors
MANY = 6  # where more than one state in so many is due, all are planned again
APART = 8  # numbers so far from each other lie in different lines of a cache
PATIENCE = 50  # times the entries of a block: how often to look before giving up on others
AHEAD = 8  # so many states ahead, rows are asked for from memory


class Model(NamedTuple):
    """What is planned for.

    The table, as a `Layout`; but action is empty if every state has all of them, and indices if
    every row lists all states in order. lo, hi (entries,): bounds of the probabilities, 0 <= lo
    <= hi; if hi is empty, lo are they. r (1 or H, R): rewards of pairs; the last line serves on.
    bonus (1 or H, entries): rewards on the next state; (1, 0) if there are none. sign: 1 for the
    best model between the bounds, -1 for the worst.
    """

    first: Ints
    action: Ints
    indptr: Ints
    indices: Index
    stride: int
    lo: Floats
    hi: Floats
    r: Floats
    bonus: Floats
    sign: float


class Shared(NamedTuple):
    """What threads share that sweep together.

    likely (S,), upper (R,), rival (S,): as in `Memory`; on entry 0, infinity, infinity. Z (2, S):
    Z[t % 2] is sign V[t]. growth (H, blocks): how far V[t] is above V[t+1], in each block of
    states; it may hold anything. claims (2*APART*H + 1,): two of them count for each step the
    blocks that some thread has taken, and those that are done; all 0 on entry.
    """

    likely: Index
    upper: Floats
    rival: Floats
    Z: Floats
    growth: Floats
    claims: Ints


class Swept(NamedTuple):
    """What planning fills: V (H+1, S), values, V[H] = 0 on entry, and policy (H, S), actions.

    pivot (R,): where in its row each pivot was found last, to look there first; it may hold
    anything.
    """

    V: Floats
    policy: NDArray[Any]
    pivot: Index


class Memory(NamedTuple):
    """What was found before, to look there first.

    pivot (R,): where in its row each pivot is, as `search` says. likely (S,): which of its
    actions each state took. upper (R,) + grown bounds the values of actions, rival (S,) + grown
    those of all but the likely one. q (A,) is scratch.
    """

    pivot: Index
    likely: Index
    upper: Floats
    rival: Floats
    q: Floats


@njit(**uncounted, **inner)
def _plan_states(
    begin: int,
    end: int,
    tie: float,
    far: float,
    grown: float,
    step: Step,
    memory: Memory,
    v: Floats,
    policy: NDArray[Any],
    z: Floats,
) -> float:
    """One time step for some states: V[t] into v (S,), its actions into policy (S,).

    Bounds are believed where they decide by more than ``far``. Actions whose values differ by no
    more than ``tie`` are equal, and the lowest is taken. sign V[t] goes into z (S,). Returns how
    far V[t] is above V[t+1] at most.
    """
    growth, q, first, r = -np.inf, memory.q, step.first, step.r
    for s in range(begin, end):
        if s + AHEAD < end:
            e = step.indptr[step.offset + first[s + AHEAD] + memory.likely[s + AHEAD]]
            prefetch(step.lo, e)
            prefetch(step.lo, e + 8)
            prefetch(step.hi, e)
            prefetch(step.hi, e + 8)
            prefetch(step.indices, e)
            prefetch(step.indices, e + 9)
        likely = memory.likely[s]
        best = r[first[s] + likely]
        if not step.ended:
            best += mean_of(step, first[s] + likely, memory.pivot)
        if not memory.rival[s] + grown < best - far:
            actions, rival = first[s + 1] - first[s], -np.inf
            q[likely] = best
            for i in range(actions):
                k = first[s] + i
                if i != likely:
                    if memory.upper[k] + grown < best - far:
                        q[i] = -np.inf
                        continue
                    q[i] = r[k]
                    if not step.ended:
                        q[i] += mean_of(step, k, memory.pivot)
                memory.upper[k] = q[i] - grown
                best = max(best, q[i])
            likely = 0
            while q[likely] < best - tie:
                likely += 1
            for i in range(actions):
                if i != likely:
                    rival = max(rival, memory.upper[first[s] + i])
            memory.likely[s], memory.rival[s] = likely, rival
        v[s], z[s] = best, step.sign * best
        policy[s] = step.action[first[s] + likely] if step.action.size else likely
        growth = max(growth, best - step.sign * step.z[s])
    return growth


@njit(**uncounted, **inner)
def _reward_growth(t: int, r: Floats) -> float:
    """How far r_{t-1} is above r_t at most; r (1 or H, R)."""
    if not 0 < t < len(r):
        return 0.0
    growth = -np.inf
    for k in range(r.shape[1]):
        growth = max(growth, r[t - 1, k] - r[t, k])
    return growth


@njit(cache=True, nogil=True, **inner)
def _infinite(size: int) -> Floats:
    out = np.empty(size)
    for i in range(size):
        out[i] = np.inf
    return out


@njit(cache=True, nogil=True, **inner)
def _a_line(first: Ints) -> Floats:
    """(A,) for scratch."""
    most = 0
    for s in range(first.size - 1):
        most = max(most, first[s + 1] - first[s])
    return np.empty(most)


@njit(inline="always")
def _see(t: int, horizon: int, model: Model, z: Floats) -> Step:
    """The model as step t sees it; z (S,) = sign V[t+1]."""
    r, bonus = model.r, model.bonus
    return Step(
        ended=t == horizon - 1 and not bonus.size,
        first=model.first,
        action=model.action,
        r=r[min(t, len(r) - 1)],
        offset=t * model.stride,
        indptr=model.indptr,
        indices=model.indices,
        lo=model.lo,
        hi=model.hi,
        bonus=bonus[min(t, len(bonus) - 1)],
        sign=model.sign,
        z=z,
    )


@njit(cache=True, nogil=True, **inner)
def _alone(t: int, model: Model, out: Swept) -> Shared:
    """What a thread needs that sweeps alone from step t on."""
    H, S = out.policy.shape
    shared = Shared(
        likely=np.zeros(S, np.int32),
        upper=_infinite(len(out.pivot)),
        rival=_infinite(S),
        Z=np.empty((2, S)),
        growth=np.empty((H, 1)),
        claims=np.zeros(2 * APART * H + 1, np.int64),
    )
    signed(out.V[t + 1], model.sign, shared.Z[(t + 1) % 2])
    return shared


@njit(cache=True, nogil=True, **inner)
def _sweep(t: int, helps: bool, model: Model, out: Swept, shared: Shared) -> None:
    """`sweep_together` from step t on: fill V[: t+1] and policy[: t+1], given V[t+1]."""
    stride, lo, r = model.stride, model.lo, model.r
    Z, growth, claims = shared.Z, shared.growth, shared.claims
    V, policy = out.V, out.policy
    H, S = policy.shape
    memory = Memory(out.pivot, shared.likely, shared.upper, shared.rival, _a_line(model.first))
    blocks = growth.shape[1]
    # what a row held at one step bounds the next step only if it does not change in between
    steady = stride == 0 and len(model.bonus) == 1
    far, grown = FAR * H if steady else np.inf, 0.0
    for i in range(t, -1, -1):
        step = _see(i, H, model, Z[(i + 1) % 2])
        while True:
            if helps and read_at(claims, 2 * APART * H):
                return
            b = add_at(claims, 2 * APART * i, 1)
            if b >= blocks:
                break
            growth[i, b] = _plan_states(
                b * S // blocks, (b + 1) * S // blocks, TIE * H, far, grown, step, memory, V[i],
                policy[i], Z[i % 2],
            )  # fmt: skip
            add_at(claims, 2 * APART * i + APART, 1)
        patience = PATIENCE * (S + lo.size // (H if stride else 1)) // blocks + 1
        while read_at(claims, 2 * APART * i + APART) < blocks:
            patience -= 1
            if patience == 0 and not helps:
                add_at(claims, 2 * APART * H, 1)
        most = growth[i, 0]
        for b in range(1, blocks):
            most = max(most, growth[i, b])
        # the last term is more than rounding
        grown += most + _reward_growth(i, r) + 1e-15 * H


@njit(cache=True, nogil=True)
def sweep(model: Model, out: Swept) -> None:
    """Fill V and policy."""
    t = len(out.policy) - 1
    _sweep(t, False, model, out, _alone(t, model, out))


@njit(cache=True, nogil=True)
def sweep_together(helps: bool, model: Model, out: Swept, shared: Shared) -> None:
    """Fill V and policy, by all threads that call with these arrays.

    The states of a step are shared out in blocks. Nobody waits for a thread that has taken none,
    so it does not matter how many threads there are, nor when they come. The one that does not
    help but leads sets the last claim if it has to wait too long, as on a machine with other
    things to do; it goes on alone.
    """
    _sweep(len(out.policy) - 1, helps, model, out, shared)


@njit(cache=True, nogil=True)
def resweep(row: int, begin: Ints, before: Index, model: Model, out: Swept) -> None:
    """Bring V and policy up to date after the bounds or the reward of one row changed.

    before[begin[s] : begin[s + 1]] are the states that s may follow. A state is planned again if
    it has the row, or if V[t+1] changed in a state that may follow it; from the step on in which
    those are many, all are, by a sweep.
    """
    first, stride, sign = model.first, model.stride, model.sign
    V, policy, pivot = out.V, out.policy, out.pivot
    H, S = policy.shape
    pairs, owner = len(pivot), 0
    while first[owner + 1] <= row % pairs:
        owner += 1
    unknown, likely = _infinite(pairs), np.zeros(S, np.int32)
    memory = Memory(pivot, likely, unknown, _infinite(S), _a_line(first))
    due, changed, marked = np.empty(S, np.int32), np.empty(S, np.int32), np.zeros(S, np.int64)
    worst, ignored, altered = np.empty(S), np.empty(S), 0
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
            _sweep(t, False, model, out, _alone(t, model, out))
            return
        z = V[t + 1]
        if sign < 0.0:
            signed(z, sign, worst)
            z = worst
        step, altered = _see(t, H, model, z), 0
        for i in range(many):
            s = due[i]
            old = V[t, s]
            _plan_states(s, s + 1, TIE * H, np.inf, 0.0, step, memory, V[t], policy[t], ignored)
            if V[t, s] != old:
                changed[altered] = s
                altered += 1


@njit(cache=True, nogil=True)
def write_model(model: Model, V: Floats, out: Floats) -> None:
    """The probabilities that attain V, into out (H, entries), or (1, entries) with stages."""
    indptr, stride, lo, hi = model.indptr, model.stride, model.lo, model.hi
    z = np.empty(V.shape[1])
    for t in range(len(V) - 1):
        signed(V[t + 1], model.sign, z)
        p, step = out[min(t, len(out) - 1)], _see(t, len(V) - 1, model, z)
        for row in range(t * stride, t * stride + model.first[-1]):
            begin, end = indptr[row], indptr[row + 1]
            _, place = search(step, begin, end, begin, 0.0, 0.0)
            x = value_at(step, begin, begin + max(place, -1 - place))
            rest, best = 1.0, -1
            for e in range(begin, end):
                y = value_at(step, begin, e)
                p[e] = hi[e] if y > x else lo[e]
                rest -= p[e]
                if hi[e] > 0.0 and (best < 0 or y > value_at(step, begin, best)):
                    best = e
            for e in range(begin, end):
                if value_at(step, begin, e) == x:
                    share = max(0.0, min(rest, hi[e] - lo[e]))
                    p[e] += share
                    rest -= share
            p[best] += rest
