"""What numba has no function for: numbers that threads share, memory asked for early, bits."""

from __future__ import annotations

from typing import Any

from llvmlite import ir  # type: ignore[import-untyped]
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


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


add_at: Any = intrinsic(_atomic_add)
read_at: Any = intrinsic(_atomic_read)
prefetch: Any = intrinsic(_fetch)
bits_of: Any = intrinsic(_bits)
double_of: Any = intrinsic(_double)
