"""What numba has no function for: numbers that threads share, memory asked for early, the bits of
a number, and a pass over one row of probabilities that takes several entries at once, in the same
order everywhere.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

APART = 8  # numbers this far apart lie in different lines of a cache


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
    """Have array[at] on its way from memory, without waiting for it.

    Into the cache's second level: the first has few reads pending, and values need them.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        place = _address(context, builder, signature, arguments)
        place, number = builder.bitcast(place, cgutils.voidptr_t), ir.IntType(32)
        kind = ir.FunctionType(ir.VoidType(), [place.type, number, number, number])
        fetch = cgutils.get_or_insert_function(builder.module, kind, "llvm.prefetch.p0")
        builder.call(fetch, [place, number(0), number(2), number(1)])
        return context.get_dummy_value()

    return types.none(array, at), generate


def _bits(_: Any, x: Any) -> Any:
    """The bits of a float64, as an int64."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.IntType(64))

    return types.int64(x), generate


def _double(_: Any, bits: Any) -> Any:
    """The float64 that has these bits, an int64."""

    def generate(_: Any, builder: Any, __: Any, arguments: Any) -> Any:
        return builder.bitcast(arguments[0], ir.DoubleType())

    return types.float64(bits), generate


LANES = 4
DOUBLE, LONG, NUMBER = ir.DoubleType(), ir.IntType(64), ir.IntType(32)
VECTOR = ir.VectorType(DOUBLE, LANES)


def _fill(builder: Any, value: Any, lanes: int = LANES) -> Any:
    """A vector of one value; the value itself if there is one lane."""
    if lanes == 1:
        return value
    some = ir.Constant(ir.VectorType(value.type, lanes), ir.Undefined)
    some = builder.insert_element(some, value, NUMBER(0))
    return builder.shuffle_vector(some, some, ir.Constant(ir.VectorType(NUMBER, lanes), None))


def _halve(builder: Any, vector: Any, half: int) -> Any:
    """The upper half of a vector added to its lower half; a number if that has one lane."""
    if half == 1:
        return builder.fadd(*(builder.extract_element(vector, NUMBER(x)) for x in (0, 1)))
    return builder.fadd(*(
        builder.shuffle_vector(
            vector, vector, ir.Constant(ir.VectorType(NUMBER, half), list(range(x, x + half)))
        )
        for x in (0, half)
    ))  # fmt: skip


def _weigh(_: Any, lo: Any, hi: Any, begin: Any, end: Any, y: Any, indices: Any, x: Any) -> Any:
    """(mass, reach, total) of the row of entries begin <= e < end, as `boxes` has them.

    lo, hi (entries,). Values are y[indices[e]], or y[e - begin] if indices is None. As many lanes
    as there are take entries as long as there are enough of them, then half as many lanes, to which
    the sums of the others are added, and so on.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def array(i: int) -> Any:
            return context.make_array(signature.args[i])(context, builder, arguments[i]).data

        begin, end, x = arguments[2], arguments[3], arguments[6]
        lo, hi, y = builder.gep(array(0), [begin]), builder.gep(array(1), [begin]), array(4)
        listed = not isinstance(signature.args[5], types.NoneType)
        following = builder.gep(array(5), [begin]) if listed else None
        size = builder.sub(end, begin)

        def load(place: Any, at: Any, lanes: int) -> Any:
            place = builder.gep(place, [at])
            if lanes == 1:
                return builder.load(place)
            kind = ir.VectorType(DOUBLE, lanes).as_pointer()
            return builder.load(builder.bitcast(place, kind), align=8)

        def look_up(at: Any, lanes: int) -> Any:
            found = []
            for lane in range(lanes):
                j = builder.load(builder.gep(following, [builder.add(at, LONG(lane))]))
                found.append(builder.load(builder.gep(y, [builder.sext(j, LONG)])))
            if lanes == 1:
                return found[0]
            values = ir.Constant(ir.VectorType(DOUBLE, lanes), ir.Undefined)
            for lane, value in enumerate(found):
                values = builder.insert_element(values, value, NUMBER(lane))
            return values

        def add(at: Any, lanes: int) -> None:
            least, most, pivot = load(lo, at, lanes), load(hi, at, lanes), _fill(builder, x, lanes)
            values = look_up(at, lanes) if listed else load(y, at, lanes)
            p, q = (
                builder.select(builder.fcmp_ordered(relation, values, pivot), most, least)
                for relation in (">", ">=")
            )
            terms = p, q, builder.fmul(p, builder.fsub(values, pivot))
            for sum_, term in zip(sums, terms, strict=True):
                builder.store(builder.fadd(builder.load(sum_), term), sum_)

        none, lanes = ir.Constant(VECTOR, [0.0] * LANES), LANES
        sums = [cgutils.alloca_once_value(builder, none) for _ in range(3)]
        whole = builder.and_(size, LONG(-LANES))
        with cgutils.for_range_slice(builder, LONG(0), whole, LONG(LANES)) as (at, _):
            add(at, lanes)
        while lanes > 1:
            done, lanes = builder.and_(size, LONG(-lanes)), lanes // 2
            halves = [_halve(builder, builder.load(sum_), lanes) for sum_ in sums]
            sums = [cgutils.alloca_once_value(builder, half) for half in halves]
            left = builder.and_(size, LONG(lanes))
            with builder.if_then(builder.icmp_signed(">", left, LONG(0))):
                add(done, lanes)
        found = [builder.load(sum_) for sum_ in sums]
        return context.make_tuple(builder, signature.return_type, found)

    if not isinstance(begin, types.Integer) or not isinstance(end, types.Integer):
        return None
    return types.UniTuple(x, 3)(lo, hi, types.int64, types.int64, y, indices, x), generate


def _lowest(_: Any, lo: Any, hi: Any, begin: Any, size: Any, y: Any) -> Any:
    """The lowest of a row's values y[:size] at which its mass is at most one; inf if there is none.

    The mass is that of `boxes`, but for rounding: it is added up in the order of the entries, at
    several values at once. lo, hi (entries,), of which the row has those from begin on; y (size,)
    or longer.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        lo, hi, y = (
            context.make_array(signature.args[i])(context, builder, arguments[i]).data
            for i in (0, 1, 4)
        )
        begin, size = arguments[2:4]
        lo, hi = builder.gep(lo, [begin]), builder.gep(hi, [begin])
        last, one = builder.sub(size, LONG(1)), ir.Constant(VECTOR, [1.0] * LANES)
        nowhere = ir.Constant(VECTOR, [float("inf")] * LANES)
        lowest = cgutils.alloca_once_value(builder, nowhere)
        with cgutils.for_range_slice(builder, LONG(0), size, LONG(LANES)) as (first, _):
            at = ir.Constant(VECTOR, ir.Undefined)
            for lane in range(LANES):  # beyond the last value, it serves again
                j = builder.add(first, LONG(lane))
                j = builder.select(builder.icmp_signed("<", j, last), j, last)
                at = builder.insert_element(at, builder.load(builder.gep(y, [j])), NUMBER(lane))
            mass = cgutils.alloca_once(builder, VECTOR)
            builder.store(ir.Constant(VECTOR, [0.0] * LANES), mass)
            with cgutils.for_range(builder, size) as loop:
                value, least, most = (
                    _fill(builder, builder.load(builder.gep(x, [loop.index]))) for x in (y, lo, hi)
                )
                p = builder.select(builder.fcmp_ordered(">", value, at), most, least)
                builder.store(builder.fadd(builder.load(mass), p), mass)
            found = builder.fcmp_ordered("<=", builder.load(mass), one)
            found = builder.select(found, at, nowhere)
            low = builder.load(lowest)
            low = builder.select(builder.fcmp_ordered("<", found, low), found, low)
            builder.store(low, lowest)
        values = [builder.extract_element(builder.load(lowest), NUMBER(x)) for x in range(LANES)]
        least = values[0]
        for value in values[1:]:
            least = builder.select(builder.fcmp_ordered("<", value, least), value, least)
        return least

    if not isinstance(begin, types.Integer) or not isinstance(size, types.Integer):
        return None
    return types.float64(lo, hi, types.int64, types.int64, y), generate


add_at: Any = intrinsic(_atomic_add)
read_at: Any = intrinsic(_atomic_read)
prefetch: Any = intrinsic(_fetch)
bits_of: Any = intrinsic(_bits)
double_of: Any = intrinsic(_double)
weigh: Any = intrinsic(_weigh)
lowest_enough: Any = intrinsic(_lowest)
