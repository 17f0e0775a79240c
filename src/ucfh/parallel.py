"""Do many independent pieces of work, in processes here or on a cluster.

A process that dies (killed, out of memory) takes the pool with it, and nobody can say which of
the jobs under way was at fault. Those are done again, one at a time in a process of their own:
the second death is that job's, and is reported. The others go on in a new pool.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from threading import current_thread, main_thread
from typing import Any, TypeVar

from ucfh.errors import InputError

Job = TypeVar("Job")
Result = TypeVar("Result")

DIED = "its process died twice: out of memory?"
"""What is said of a job that came to nothing."""


def do_all(
    work: Callable[[Job], Result],
    jobs: Iterable[Job],
    workers: int | None = None,
    cluster: str | None = None,
) -> Iterator[tuple[Job, Result | None]]:
    """Each job with what ``work`` makes of it, in whatever order they end; None if it died.

    Args:
        work: a function that other processes can import; what it raises ends all.
        jobs: what it is called with.
        workers: processes here; None: one a core.
        cluster: the address of a Dask scheduler, whose workers do it in place of processes here.

    """
    waiting = enumerate(jobs)
    while True:
        under_way: dict[int, Job] = {}
        try:
            for k, result in _in_pool(work, _noting(waiting, under_way), workers, cluster):
                yield under_way.pop(k), result
            return
        except BrokenProcessPool:
            for k, job in under_way.items():
                try:
                    yield from ((job, result) for _, result in _in_pool(work, [(k, job)], 1, None))
                except BrokenProcessPool:
                    yield job, None


def _noting(jobs: Iterator[tuple[int, Job]], noted: dict[int, Job]) -> Iterator[tuple[int, Job]]:
    for k, job in jobs:
        noted[k] = job
        yield k, job


def _in_pool(
    work: Callable[[Job], Result],
    jobs: Iterable[tuple[int, Job]],
    workers: int | None,
    cluster: str | None,
) -> Iterator[tuple[int, Result]]:
    """Number and result of each job as it ends."""
    from joblib import Parallel, cpu_count, delayed

    count = workers or cpu_count()
    # one worker too has a process of its own: joblib makes none for n_jobs=1. Large arrays stay
    # arrays (max_nbytes): mapped from a file they would be compiled for anew.
    settings: dict[str, Any] = {"n_jobs": max(2, count), "pre_dispatch": count}
    if cluster is not None:
        settings = {"pre_dispatch": "2 * n_jobs"}
    with nullcontext() if cluster is None else _on_cluster(cluster):
        pool = Parallel(**settings, batch_size=1, max_nbytes=None, return_as="generator_unordered")
        with _deaf():
            results = pool(delayed(_numbered)(work, k, job) for k, job in jobs)
        yield from results


def _numbered(work: Callable[[Job], Result], k: int, job: Job) -> tuple[int, Result]:
    return k, work(job)


@contextmanager
def _on_cluster(address: str) -> Iterator[None]:
    """Let joblib use the workers of a Dask scheduler."""
    try:
        from distributed import Client, KilledWorker
    except ImportError:
        raise InputError('a cluster needs Dask: pip install "ucfh[cluster]"') from None
    from joblib import parallel_config

    try:
        client = Client(address, timeout=10, set_as_default=False)
    except (OSError, TimeoutError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InputError(f"no Dask scheduler answers at {address}: {reason}") from None
    with client:
        if not client.scheduler_info()["workers"]:
            raise InputError(f"the Dask scheduler at {address} has no workers: start some")
        try:
            with parallel_config(backend="dask", client=client):
                yield
        except KilledWorker as error:
            raise InputError(f"a job killed its workers again and again: {error}") from None


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that do not hear Ctrl-C, which reaches all of a terminal's.

    The one that started them hears it and ends them.
    """
    if current_thread() is not main_thread():
        yield  # which has no say in signals
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
