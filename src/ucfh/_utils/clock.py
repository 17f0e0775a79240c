"""Time that is spent on work, and time that is spent on the compiler.

A process compiles each compiled function on its first call or, if an earlier one has done so,
loads it from Numba's cache. Both happen under Numba's compiler lock, which reports when it is held.
"""

from __future__ import annotations

from time import perf_counter

from numba.core import event

_under_lock = event.TimingListener()  # type: ignore[no-untyped-call]
event.register("numba:compiler_lock", _under_lock)  # type: ignore[no-untyped-call]


def compile_seconds() -> float:
    """Seconds that this process has spent on compiling, or on loading what was compiled."""
    return float(_under_lock.duration) if _under_lock.done else 0.0


def work_seconds() -> float:
    """A clock that stands still while code is compiled or loaded; its zero is arbitrary."""
    return perf_counter() - compile_seconds()
