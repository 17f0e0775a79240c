"""Several threads for one compiled function that shares out its work itself."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from multiprocessing import current_process
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor


def cores() -> int:
    """How many threads have a core each: of a process that was started for parallel work, one."""
    if current_process().name != "MainProcess":
        return 1
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that are kept: starting one takes longer than planning for a thousand states."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, "ucfh-planner")


def in_threads(threads: int, kernel: Callable[..., None], *arguments: Any) -> None:
    """Call kernel(thread, *arguments) for thread = 0 here, and for 1, 2, ... in other threads.

    It has to come to an end with thread 0 alone, as others may come late, or never.
    """
    helpers = [_pool(threads - 1).submit(kernel, k, *arguments) for k in range(1, threads)]
    kernel(0, *arguments)
    for helper in helpers:
        if not helper.cancel():  # one that never began is not waited for
            helper.result()
