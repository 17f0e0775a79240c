"""Checks of the memory needed, before allocation."""

from __future__ import annotations

import os
from contextlib import suppress

from ucfh.exceptions import InputError

LITTLE = 2**26


def free_memory() -> int | None:
    """Return the bytes that this process can still allocate, or None if unknown."""
    limits = []
    with suppress(OSError), open("/proc/meminfo") as file:
        lines = (line.split() for line in file)
        limits += [1024 * int(line[1]) for line in lines if line[0] == "MemAvailable:"]
    if not limits:
        with suppress(OSError, ValueError, AttributeError):
            limits.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    # a container may have less than its machine; ValueError for "max"
    with suppress(OSError, ValueError), open("/sys/fs/cgroup/memory.max") as file:
        limits.append(int(file.read()))
    return min(limits, default=None)


def check_memory(
    what: str, needed: int, remedy: str = "make the model or the horizon smaller"
) -> None:
    """Raise if more bytes are needed than are free; small amounts are not checked."""
    free = free_memory() if needed > LITTLE else None
    if free is not None and needed > free:
        raise InputError(
            f"{what} needs about {needed} bytes of memory ({_size(needed)}), but only "
            f"{_size(free)} are free: {remedy}, or use a larger machine"
        )


def _size(count: int) -> str:
    return f"{count / 1e9:.3g} GB"
