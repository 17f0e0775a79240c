"""FixedHorizonEVI: dynamic programming over transition probabilities between bounds.

A model is a tuple of

    first (S+1,), indptr (rows+1,)   the table (`ucfh.table`)
    action (R,)              the action of each row; empty if every state has all of them
    indices (entries,)       successors; empty if every row lists all states in order
    stride                   the row of (t, s, i) is t*stride + first[s] + i
    lo, hi (entries,)        bounds of the probabilities, 0 <= lo <= hi; if hi is empty, lo are they
    r (1 or H, R)            rewards of pairs; the last line serves on
    bonus (1 or H, entries)  rewards on the next state; (1, 0) if there are none
    sign                     1 for the best model between the bounds, -1 for the worst

and is planned for in V (H+1, S), values, V[H] = 0 on entry, and policy (H, S), actions.

The inner problem, over one row with values z_j = sign (V_{t+1}(s'_j) + bonus_j), is

    max { sum_j p_j z_j :  lo <= p <= hi,  sum_j p_j = 1 }

For a value x let M(x) be the mass if successors of value above x get hi and the others lo. The
solution has a pivot: the lowest of the row's values x with M(x) <= 1, which takes what is left:

    x + sum_j p_j (z_j - x),   p_j = hi_j if z_j > x else lo_j.

Given the pivot, one pass without branches solves the row: no sorting. The pivot of the last time
step is nearly always right again. The pass proves it: x is the pivot if M(x) <= 1 and M > 1 just
below x, with the successors of value x at hi too; where not, it tells in which direction to look.
M is a sum of doubles in one fixed order, and rounding is monotone, so M never falls as x does, and
the pivot is a function of the row's data alone. Whatever pivot a search starts from, the result is
the same to the bit.

Most rows need no pass at all. If V_{t+1} <= V_{t+2} + g in every state, then the value of an
action grew by at most g since the last step; an action that was worse than the best by more than
all that has grown since it was last weighed is still worse.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic
from numpy.typing import NDArray

from ucfh._kernels.compiling import njit

Ints = NDArray[np.int64]
Index = NDArray[np.int32]
Floats = NDArray[np.float64]
# first, indptr, action, indices, stride, lo, hi, r, bonus, sign
Model = tuple[Ints, Ints, Ints, Index, int, Floats, Floats, Floats, Floats, float]
# likely, upper, rival, Z, growth, claims: see `sweep`
Shared = tuple[Index, Floats, Floats, Floats, Floats, Ints]

EDGE = 1e-15  # times the length of a row: more than rounding makes of a sum of probabilities
TIE = 1e-13  # times H, the size of values: a difference that rounding may make
FAR = 1e-9  # times H: a difference that rounding cannot make, in rows of a million successors
WALK = 8  # a lost pivot is looked for so many values up or down, or 2 in rows longer than
SHORT = 64  # this; then by halving the range of values
MANY = 6  # where more than one state in so many is due, all are planned again
APART = 8  # numbers so far from each other lie in different lines of a cache
PATIENCE = 50  # times the entries of a block: how often to look before giving up on others
AHEAD = 8  # so many states ahead, rows are asked for from memory
REORDER = {"reassoc", "contract", "nsz"}  # sums in the order that the processor likes

# without numba's reference counts, which would cost more than a short row does
apart: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False, "forceinline": False}
inline: dict[str, Any] = {**apart, "forceinline": True}


class Step(NamedTuple):
    """The model as one time step sees it.

    ended: whether nothing can be earned after it. r (R,); offset = t*stride; bonus (entries,);
    z (S,) = sign V[t+1].
    """

    ended: bool
    first: Ints
    action: Ints
    r: Floats
    offset: int
    indptr: Ints
    indices: Index
    lo: Floats
    hi: Floats
    bonus: Floats
    sign: float
    z: Floats


class Memory(NamedTuple):
    """What was found before, to look there first.

    pivot (R,): where in its row each pivot is, as `_search` says. likely (S,): which of its
    actions each state took. upper (R,) + grown bounds the values of actions, rival (S,) + grown
    those of all but the likely one. q (A,) is scratch.
    """

    pivot: Index
    likely: Index
    upper: Floats
    rival: Floats
    q: Floats


def _address(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
    """Where array[at] is, for the first two of a function's arguments."""
    array = context.make_array(signature.args[0])(context, builder, arguments[0])
    return builder.gep(array.data, [arguments[1]])


def _atomic_add(_: Any, array: Any, at: Any, value: Any) -> Any:
    """array[at] += value as one act among threads; returns array[at] as it was before."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, at, value), generate


def _atomic_read(_: Any, array: Any, at: Any) -> Any:
    """array[at], after all that other threads did before they last added to it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        return builder.load_atomic(place, "acquire", 8)

    return types.int64(array, at), generate


def _fetch(_: Any, array: Any, at: Any) -> Any:
    """Have array[at] on its way from memory, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        place, number = builder.bitcast(place, cgutils.voidptr_t), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [place, number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.none(array, at), generate


_add: Any = intrinsic(_atomic_add)
_read: Any = intrinsic(_atomic_read)
_prefetch: Any = intrinsic(_fetch)


@njit(**inline)
def _value(step: Step, begin: int, e: int) -> float:
    """z of an entry of the row that begins there."""
    at = np.uint64(e)  # numba would ask whether a signed index counts from the end
    j = np.uint64(step.indices[at]) if step.indices.size else at - np.uint64(begin)
    x = step.z[j] + step.sign * step.bonus[at] if step.bonus.size else step.z[j]
    return float(x)


@njit(**apart, fastmath=REORDER)
def _weigh_all(low: Floats, high: Floats, z: Floats, x: float) -> tuple[float, float, float]:
    """`_weigh` of a row that lists all states in order: low, high, z (S,)."""
    mass, reach, total = 0.0, 0.0, 0.0
    for j in range(low.size):
        y, least, most = z[j] - x, low[j], high[j]
        p = most if y > 0.0 else least
        mass += p
        reach += most if y >= 0.0 else least
        total += p * y
    return mass, reach, total


@njit(inline="always")
def _weigh(step: Step, begin: int, end: int, x: float) -> tuple[float, float, float]:
    """(M(x), M just below x, sum_j p_j (z_j - x)) of one row."""
    mass, reach, total = 0.0, 0.0, 0.0
    if step.indices.size or step.bonus.size:
        for e in range(np.uint64(begin), np.uint64(end)):
            y, low, high = _value(step, begin, e) - x, step.lo[e], step.hi[e]
            # high or low, in a form that is not compiled to a jump: nobody can predict which
            above, least = high if y > 0.0 else 0.0, high if y >= 0.0 else 0.0
            p = above if above > low else low
            mass += p
            reach += least if least > low else low
            total += p * y
    else:
        mass, reach, total = _weigh_all(step.lo[begin:end], step.hi[begin:end], step.z, x)
    return mass, reach, total


@njit(inline="always")
def _weigh_listed(step: Step, begin: int, end: int, x: float) -> tuple[float, float]:
    """M(x) and the sum, as `_weigh`, of a row that lists its successors, without bonus."""
    mass, total = 0.0, 0.0
    for e in range(np.uint64(begin), np.uint64(end)):
        y, low, high = step.z[np.uint64(step.indices[e])] - x, step.lo[e], step.hi[e]
        above = high if y > 0.0 else 0.0
        p = above if above > low else low
        mass += p
        total += p * y
    return mass, total


@njit(**apart, fastmath=REORDER)
def _average_all(p: Floats, z: Floats) -> float:
    """`_average` of a row that lists all states in order: p, z (S,)."""
    total = 0.0
    for j in range(p.size):
        total += p[j] * z[j]
    return total


@njit(inline="always")
def _average(step: Step, begin: int, end: int) -> float:
    """The mean of z over one row whose probabilities are known to be lo."""
    total = 0.0
    if step.bonus.size or step.indices.size:
        for e in range(np.uint64(begin), np.uint64(end)):
            total += step.lo[e] * _value(step, begin, e)
    else:
        total = _average_all(step.lo[begin:end], step.z)
    return total


@njit(inline="always")
def _look(step: Step, begin: int, end: int, x: float) -> tuple[float, float, float]:
    """(hi - lo of a row's entries of value x, the next lower value, the next higher one)."""
    room, below, above = 0.0, -np.inf, np.inf
    for e in range(np.uint64(begin), np.uint64(end)):
        y = _value(step, begin, e)
        room += step.hi[e] - step.lo[e] if y == x else 0.0
        below = max(below, y if y < x else -np.inf)
        above = min(above, y if y > x else np.inf)
    return room, below, above


@njit(**apart)
def _halve(step: Step, begin: int, end: int, low: float, high: float) -> float:
    """A value of a row about halfway between two, or infinity if none lies between them."""
    bottom, top = np.inf, -np.inf
    for e in range(begin, end):
        y = _value(step, begin, e)
        bottom, top = min(bottom, y if y > low else np.inf), max(top, y if y < high else -np.inf)
    middle, nearest = bottom + (top - bottom) / 2.0, bottom
    for e in range(begin, end):
        y = _value(step, begin, e)
        nearest = max(nearest, y if y <= middle and y < high else bottom)
    return nearest if nearest < high else np.inf


@njit(**apart)
def _search(
    step: Step, begin: int, end: int, pivot: int, mass: float, total: float
) -> tuple[float, int]:
    """(the maximum over one row, where in it its pivot is), looking first at entry ``pivot``.

    M and the sum of that entry's value may be known; if not, mass is 0. Where it is not the
    pivot: a few values up or down, as room suggests, and then by halving the range of values. The
    place is negative, ~place, if the room of that entry alone does not prove it, as with ties.
    """
    x, reach = _value(step, begin, pivot), np.inf
    low, high, left = -np.inf, np.inf, WALK if end - begin <= SHORT else 2
    known = mass > 1.0
    while True:
        if not known:
            mass, reach, total = _weigh(step, begin, end, x)
        known = False
        if mass <= 1.0 < reach:
            break
        # the pivot is above low and below high; M just below a value is M at the next one
        up, y = mass > 1.0, x
        low, high, m = (x, high, mass) if up else (low, x, reach)
        while left > 0:
            room, below, above = _look(step, begin, end, y)
            if y != x:
                m += -room if up else room
                if up == (m <= 1.0):
                    break
            following = above if up else below
            if not low < following < high:
                break
            y, left = following, left - 1
        if left == 0 and y == x:
            y = _halve(step, begin, end, low, high)
        if y == x or y == np.inf:
            break
        x = y
    total += x
    if reach <= 1.0:
        # all at hi fall short of one by rounding: what is missing goes to the best successor
        best = x
        for e in range(begin, end):
            best = max(best, _value(step, begin, e) if step.hi[e] > 0.0 else x)
        total += (1.0 - reach) * (best - x)
    if _value(step, begin, pivot) != x:
        pivot = begin
        while _value(step, begin, pivot) != x:
            pivot += 1
    alone = 0.0 <= 1.0 - mass <= step.hi[pivot] - step.lo[pivot] - EDGE * (end - begin)
    return total, pivot - begin if alone else begin - pivot - 1


@njit(inline="always")
def _mean(step: Step, k: int, memory: Memory) -> float:
    """The best or worst mean of V[t+1] over the box of the step's k-th row."""
    begin, end = step.indptr[step.offset + k], step.indptr[step.offset + k + 1]
    if step.hi.size:
        place, settled, mass, total = memory.pivot[k], False, 0.0, 0.0
        at = begin + min(max(place, -1 - place), end - begin - 1)
        x = _value(step, begin, at)
        if place < 0 or step.bonus.size:
            pass
        elif step.indices.size:
            mass, total = _weigh_listed(step, begin, end, x)
            # with the pivot itself at hi, and so for any lower x, M(x) is above one for sure
            room = step.hi[np.uint64(at)] - step.lo[np.uint64(at)]
            settled = 0.0 <= 1.0 - mass <= room - EDGE * (end - begin)
        else:
            mass, reach, total = _weigh_all(step.lo[begin:end], step.hi[begin:end], step.z, x)
            settled = mass <= 1.0 < reach
        if settled:
            total += x
        else:
            total, memory.pivot[k] = _search(step, begin, end, at, mass, total)
    else:
        total = _average(step, begin, end)
    return step.sign * total


@njit(**apart)
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
            _prefetch(step.lo, e)
            _prefetch(step.lo, e + 8)
            _prefetch(step.hi, e)
            _prefetch(step.hi, e + 8)
            _prefetch(step.indices, e)
            _prefetch(step.indices, e + 9)
        likely = memory.likely[s]
        best = r[first[s] + likely]
        if not step.ended:
            best += _mean(step, first[s] + likely, memory)
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
                        q[i] += _mean(step, k, memory)
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


@njit(**apart)
def _reward_growth(t: int, r: Floats) -> float:
    """How far r_{t-1} is above r_t at most; r (1 or H, R)."""
    if not 0 < t < len(r):
        return 0.0
    growth = -np.inf
    for k in range(r.shape[1]):
        growth = max(growth, r[t - 1, k] - r[t, k])
    return growth


@njit(**apart)
def _signed(v: Floats, sign: float, out: Floats) -> None:
    """sign v into out; both (S,). (NumPy's own expressions take seconds to compile.)"""
    for s in range(v.size):
        out[s] = sign * v[s]


@njit(cache=True, nogil=True)
def _infinite(size: int) -> Floats:
    out = np.empty(size)
    for i in range(size):
        out[i] = np.inf
    return out


@njit(cache=True, nogil=True)
def _a_line(first: Ints) -> Floats:
    """(A,) for scratch."""
    most = 0
    for s in range(first.size - 1):
        most = max(most, first[s + 1] - first[s])
    return np.empty(most)


@njit(inline="always")
def _see(t: int, horizon: int, model: Model, z: Floats) -> Step:
    """The model as step t sees it; z (S,) = sign V[t+1]."""
    first, indptr, action, indices, stride, lo, hi, r, bonus, sign = model
    ended, r_t = t == horizon - 1 and not bonus.size, r[min(t, len(r) - 1)]
    extra = bonus[min(t, len(bonus) - 1)]
    return Step(ended, first, action, r_t, t * stride, indptr, indices, lo, hi, extra, sign, z)


@njit(cache=True, nogil=True)
def sweep(
    t: int,
    helps: bool,
    model: Model,
    V: Floats,
    policy: NDArray[Any],
    pivot: Index,
    shared: Shared,
) -> None:
    """Fill V[: t+1] and policy[: t+1], given V[t+1]; by all threads that call with these arrays.

    The states of a step are shared out in blocks: two of the claims (2*APART*H + 1,) count for
    each step those that some thread has taken, and those that are done. Nobody waits for a thread
    that has taken none, so it does not matter how many threads there are, nor when they come. The
    one that does not help but leads sets the last claim if it has to wait too long, as on a
    machine with other things to do; it goes on alone.

    On entry likely (S,) and claims hold zero, upper (R,) and rival (S,) infinity, and Z[(t+1) % 2]
    of Z (2, S) sign V[t+1]; growth (H, blocks) may hold anything, as may pivot (R,). A thread that
    is alone may leave all but pivot empty.
    """
    first, _, _, _, stride, lo, _, r, bonus, sign = model
    likely, upper, rival, Z, growth, claims = shared
    H, S = policy.shape
    if not claims.size:
        likely, upper, rival = np.zeros(S, np.int32), _infinite(len(pivot)), _infinite(S)
        Z, growth = np.empty((2, S)), np.empty((H, 1))
        claims = np.zeros(2 * APART * H + 1, np.int64)
        _signed(V[t + 1], sign, Z[(t + 1) % 2])
    blocks, memory = growth.shape[1], Memory(pivot, likely, upper, rival, _a_line(first))
    # what a row held at one step bounds the next step only if it does not change in between
    steady = stride == 0 and len(bonus) == 1
    far, grown = FAR * H if steady else np.inf, 0.0
    for i in range(t, -1, -1):
        step = _see(i, H, model, Z[(i + 1) % 2])
        while True:
            if helps and _read(claims, 2 * APART * H):
                return
            b = _add(claims, 2 * APART * i, 1)
            if b >= blocks:
                break
            growth[i, b] = _plan_states(
                b * S // blocks, (b + 1) * S // blocks, TIE * H, far, grown, step, memory, V[i],
                policy[i], Z[i % 2],
            )  # fmt: skip
            _add(claims, 2 * APART * i + APART, 1)
        patience = PATIENCE * (S + lo.size // (H if stride else 1)) // blocks + 1
        while _read(claims, 2 * APART * i + APART) < blocks:
            patience -= 1
            if patience == 0 and not helps:
                _add(claims, 2 * APART * H, 1)
        most = growth[i, 0]
        for b in range(1, blocks):
            most = max(most, growth[i, b])
        # the last term is more than rounding
        grown += most + _reward_growth(i, r) + 1e-15 * H


@njit(cache=True, nogil=True)
def resweep(
    row: int,
    preceding: Ints,
    before: Index,
    model: Model,
    V: Floats,
    policy: NDArray[Any],
    pivot: Index,
    alone: Shared,
) -> None:
    """Bring V and policy up to date after the bounds or the reward of one row changed.

    before[preceding[s] : preceding[s + 1]] are the states that s may follow. A state is planned
    again if it has the row, or if V[t+1] changed in a state that may follow it; from the step on
    in which those are many, all are, by a `sweep` that shares nothing.
    """
    first, stride, sign = model[0], model[4], model[9]
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
            for j in range(preceding[changed[i]], preceding[changed[i] + 1]):
                s = before[j]
                if marked[s] != H - t:
                    due[many], marked[s] = s, H - t
                    many += 1
        if many * MANY > S:
            sweep(t, False, model, V, policy, pivot, alone)
            return
        z = V[t + 1]
        if sign < 0.0:
            _signed(z, sign, worst)
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
def expectation(
    begin: int, end: int, indices: Index, lo: Floats, hi: Floats, v: Floats, sign: float
) -> float:
    """The best (sign = 1) or worst (sign = -1) mean of v (S,) over the box of one row."""
    z = np.empty(v.size)
    _signed(v, sign, z)
    none, zero = np.empty(0, np.int64), np.empty(0)
    step = Step(False, none, none, zero, 0, none, indices, lo, hi, zero, sign, z)
    total, _ = _search(step, begin, end, begin, 0.0, 0.0)
    return float(sign * total)


@njit(cache=True, nogil=True)
def write_model(model: Model, V: Floats, out: Floats) -> None:
    """The probabilities that attain V, into out (H, entries), or (1, entries) with stages."""
    first, indptr, stride, lo, hi, sign = (
        model[0], model[1], model[4], model[5], model[6], model[9],
    )  # fmt: skip
    z = np.empty(V.shape[1])
    for t in range(len(V) - 1):
        _signed(V[t + 1], sign, z)
        p, step = out[min(t, len(out) - 1)], _see(t, len(V) - 1, model, z)
        for row in range(t * stride, t * stride + first[-1]):
            begin, end = indptr[row], indptr[row + 1]
            _, place = _search(step, begin, end, begin, 0.0, 0.0)
            x = _value(step, begin, begin + max(place, -1 - place))
            rest, best = 1.0, -1
            for e in range(begin, end):
                y = _value(step, begin, e)
                p[e] = hi[e] if y > x else lo[e]
                rest -= p[e]
                if hi[e] > 0.0 and (best < 0 or y > _value(step, begin, best)):
                    best = e
            for e in range(begin, end):
                if _value(step, begin, e) == x:
                    share = max(0.0, min(rest, hi[e] - lo[e]))
                    p[e] += share
                    rest -= share
            p[best] += rest
