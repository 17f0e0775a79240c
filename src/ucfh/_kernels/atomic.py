"""Atomic addition to an element of an array that threads share."""

from __future__ import annotations

from typing import Any

from numba import types
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


add_at: Any = intrinsic(_add_at)
"""add_at(array, at, value): add ``value`` to ``array[at]`` atomically; return the old element.

Numba has no such function for threads of the CPU. With value 0 it is an atomic read.
"""
