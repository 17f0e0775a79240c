"""Threads for compiled functions that distribute their work themselves."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


def cores() -> int:
    """Return the number of cores for threads; 1 in a worker process."""
    if current_process().name != "MainProcess":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Return a persistent pool: starting a thread takes longer than planning for 1,000 states."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, "ucfh-planner")


def in_threads(threads: int, kernel: Callable[..., None], *arguments: Any) -> None:
    """Call kernel(thread, *arguments) for thread = 0 here, and for 1, 2, ... in other threads.

    The kernel must finish with thread 0 alone, as other threads may start late, or never.
    """
    helpers = [_pool(threads - 1).submit(kernel, k, *arguments) for k in range(1, threads)]
    kernel(0, *arguments)
    for helper in helpers:
        if not helper.cancel():  # wait only for threads that started
            helper.result()
