"""Functions that numba lacks: atomic addition, and arrays without reference counts.

Numba counts references to each array of each named tuple wherever a kernel reads it. Each count is
an atomic operation, and together they take longer than a short row of transition probabilities.
Kernels need no counts of their own: their callers hold the arrays until they return. So kernels
begin with

    model, V = borrow((model, V))

For arrays that a kernel makes itself, `hold` marks the end of their use.
"""

from __future__ import annotations

from typing import Any, cast

from numba import TypingError, types
from numba.extending import intrinsic

APART = 8
"""Distance of counters, in elements, that puts them in different cache lines."""


def _add_at(_: Any, array: Any, at: Any, value: Any) -> Any:
    """Return the signature of `add_at`, and the function that generates its code."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [arguments[1]])
        return builder.atomic_rmw("add", place, arguments[2], "seq_cst")

    return types.int64(array, at, value), generate


def _borrow(_: Any, group: Any) -> Any:
    """Return the signature of `borrow`, and the function that generates its code."""

    def without_owner(context: Any, builder: Any, kind: Any, value: Any) -> Any:
        if isinstance(kind, types.Array):
            array = context.make_array(kind)(context, builder, value)
            array.meminfo = array.meminfo.type(None)
            return array._getvalue()
        if isinstance(kind, types.BaseTuple):
            for i, member in enumerate(cast(Any, kind).types):
                part = builder.extract_value(value, i)
                part = without_owner(context, builder, member, part)
                value = builder.insert_value(value, part, i)
        elif not isinstance(kind, types.Number | types.Boolean | types.NoneType):
            raise TypingError(f"cannot borrow {kind}")
        return value

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return without_owner(context, builder, signature.args[0], arguments[0])

    return group(group), generate


def _hold(_: Any, group: Any) -> Any:
    """Return the signature of `hold`, and the function that generates its code."""

    def generate(context: Any, *_: Any) -> Any:
        return context.get_dummy_value()

    return types.none(group), generate


add_at: Any = intrinsic(_add_at)
"""add_at(array, at, value): add ``value`` to ``array[at]`` atomically; return the old element.

Numba has no such function for threads of the CPU. With value 0 it is an atomic read.
"""

borrow: Any = intrinsic(_borrow)
"""borrow(x): return an array, or a tuple of arrays and numbers, whose references are not counted.

A borrowed array must not outlive its owner: a kernel must not return it, and must `hold` the owner
if it made the array itself.
"""

hold: Any = intrinsic(_hold)
"""hold(x): do nothing, so that numba frees the arrays of ``x`` no earlier than here."""
