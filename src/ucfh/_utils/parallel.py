"""Do many independent pieces of work, in processes here or on a cluster.

A process that dies (killed, out of memory) takes the pool with it, and nobody can say which of
the jobs under way was at fault. Those are done again, one at a time in a process of their own:
the second death is that job's, and is reported. The others continue in a new pool. A Dask cluster
replaces workers that die, and gives up jobs that were on several of them: those are done again in
the same way when the others are done.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from itertools import islice
from logging import CRITICAL, getLogger
from threading import Thread, active_count
from time import sleep
from typing import Any, TypeVar
from warnings import catch_warnings, filterwarnings, simplefilter

from ucfh._utils import first_use
from ucfh._utils.interrupts import SIGNALS, awaited, keep
from ucfh.exceptions import InputError, check_count, not_installed

Item = TypeVar("Item")
Output = TypeVar("Output")

DIED = "its process died twice: out of memory?"
"""The message for a job that failed."""

LEAST = 8
"""This many processes are allowed on any machine; on a large one, two per core."""

TIMEOUT = 10
"""Seconds in which a Dask scheduler has to answer."""


def check_places(workers: int | None, cluster: str | None) -> None:
    """Raise unless it is clear where work is to be done: in processes here, or on a cluster."""
    if workers is not None:
        check_count("workers", workers)
        if cluster is not None:
            raise InputError("--workers are processes here, --cluster has its own: leave one out")


def do_all(
    work: Callable[[Item], Output],
    jobs: Iterable[Item],
    workers: int | None = None,
    cluster: str | None = None,
) -> Generator[tuple[Item, Output | None], None, None]:
    """Each job with the result of ``work``, in the order in which they end; None if it died.

    Args:
        work: a function that other processes can import; if it raises, everything ends.
        jobs: what it is called with.
        workers: processes here; None: one per core.
        cluster: the address of a Dask scheduler, whose workers do it in place of processes here.

    """
    waiting = enumerate(jobs)
    while True:
        under_way: dict[int, Item] = {}
        try:
            for k, result in _start(work, _noting(waiting, under_way), workers, cluster):
                yield under_way.pop(k), result
            return
        except _Died:
            for k, job in under_way.items():
                try:
                    alone = _start(work, iter([(k, job)]), 1, cluster)
                    yield from ((job, result) for _, result in alone)
                except _Died:
                    yield job, None


class _Died(Exception):
    """A process died, with the jobs that it had."""


def _noting(jobs: Iterator[tuple[int, Item]], noted: dict[int, Item]) -> Iterator[tuple[int, Item]]:
    for k, job in jobs:
        noted[k] = job
        yield k, job


def _start(
    work: Callable[[Item], Output],
    jobs: Iterator[tuple[int, Item]],
    workers: int | None,
    cluster: str | None,
) -> Iterator[tuple[int, Output]]:
    """Number and result of each job as it ends."""
    if cluster is None:
        return _in_processes(work, jobs, workers)
    return _on_cluster(work, jobs, cluster)


def _in_processes(
    work: Callable[[Item], Output], jobs: Iterator[tuple[int, Item]], workers: int | None
) -> Iterator[tuple[int, Output]]:
    from joblib import Parallel, cpu_count, delayed

    count, most = workers or cpu_count(), max(LEAST, 2 * cpu_count())
    if count > most:
        raise InputError(
            f"workers = {count} is too many for {cpu_count()} cores: pass at most {most}, or leave "
            "it out for one per core"
        )
    # one worker too has a process of its own: joblib makes none for n_jobs=1. Large arrays stay
    # arrays (max_nbytes): mapped from a file they would need another compilation.
    pool = Parallel(
        n_jobs=max(2, count),
        pre_dispatch=count,
        batch_size=1,
        max_nbytes=None,
        return_as="generator_unordered",
        initializer=_end_with,
        initargs=(os.getpid(),),
    )
    # Forks have what is loaded here: others load NumPy and numba anew, for longer than short jobs
    # take. They are safe where no thread holds a lock that none of theirs will release.
    fork = sys.platform == "linux" and first_use.alone and active_count() == 1
    with suppress(ImportError):  # joblib does not promise that it stays there
        from joblib.externals.loky.backend.context import set_start_method

        set_start_method("fork" if fork else None, force=True)
    filterwarnings("ignore", "`fork` start method should not be used", UserWarning)
    # a worker that has grown large is replaced, which is nothing to worry about
    filterwarnings("ignore", "A worker stopped while some jobs were given", UserWarning)
    keep()
    try:
        with _deaf():
            results = pool(delayed(_numbered)(work, k, job) for k, job in jobs)
        try:
            while True:
                with awaited():
                    result = next(results, None)
                if result is None:
                    return
                yield result
        finally:
            with catch_warnings():
                simplefilter("ignore", UserWarning)  # that some jobs are given up
                results.close()
    except BrokenProcessPool:
        raise _Died from None


def _end_with(parent: int) -> None:
    """End this process when its parent is gone: a parent that was killed cannot end it.

    Signals are for the parent, which ends this process. What is compiled here was said there.
    """
    first_use.before = None
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)

    def watch() -> None:
        while os.getppid() == parent:
            sleep(1)
        os._exit(1)

    if os.name == "posix":  # elsewhere the parent of a process never changes
        Thread(target=watch, daemon=True).start()


def _numbered(work: Callable[[Item], Output], k: int, job: Item) -> tuple[int, Output]:
    return k, work(job)


def _on_cluster(
    work: Callable[[Item], Output], jobs: Iterator[tuple[int, Item]], address: str
) -> Iterator[tuple[int, Output]]:
    # not by way of joblib, which never stops waiting for a job that Dask gave up
    try:
        from distributed import CancelledError, Client, KilledWorker, as_completed
    except ImportError:
        raise not_installed("a cluster", "distributed") from None
    _check_scheduler(address)
    getLogger("distributed.client").setLevel(CRITICAL)  # what matters is said by errors
    with Client(address, timeout=TIMEOUT, set_as_default=False) as client:
        try:
            client.wait_for_workers(1, timeout=TIMEOUT)  # those that died may come back
        except TimeoutError:
            raise InputError(
                f"the Dask scheduler at {address} has no workers: start some"
            ) from None
        keep()
        numbers: dict[str, int] = {}
        running = as_completed(loop=client.loop)

        def submit(count: int) -> None:
            for k, job in islice(jobs, count):
                future = client.submit(work, job, pure=False)
                numbers[future.key] = k
                running.add(future)

        died = False
        submit(2 * sum(client.ncores().values()))  # so that no worker waits for its next one
        while True:
            with awaited():
                future = next(running, None)
            if future is None:
                break
            submit(1)
            try:
                result = future.result()
            except KilledWorker:
                died = True
                continue
            except CancelledError:
                raise InputError(
                    f"the Dask scheduler at {address} is gone: start it and its workers, and run "
                    "again"
                ) from None
            except (ImportError, RuntimeError) as error:
                reason = " ".join(str(error).split())
                raise InputError(
                    f"the cluster at {address} cannot do the work ({reason}): install the packages "
                    "of this machine on its scheduler and all of its workers, and restart them"
                ) from None
            yield numbers.pop(future.key), result
    if died:
        raise _Died


def _check_scheduler(address: str) -> None:
    """Raise unless there is one: a client that finds none is noisy, or never stops waiting."""
    from asyncio import run, wait_for

    from distributed.core import rpc
    from distributed.security import Security

    async def ask() -> dict[str, Any]:
        secrets = Security().get_connection_args("client")
        async with rpc(address, timeout=TIMEOUT, connection_args=secrets) as server:
            found: dict[str, Any] = await wait_for(server.identity(), TIMEOUT)
        return found

    try:
        found = run(ask())
    except Exception as error:  # of many kinds: names, ports, protocols, certificates
        reason = " ".join(str(error).split()) or "what is there is not Dask"
        raise InputError(
            f"no Dask scheduler answers at {address} ({reason}): pass the address that it printed "
            "when it started"
        ) from None
    if found["type"] != "Scheduler":
        raise InputError(
            f"{address} is a Dask {found['type'].lower()}: pass the address of the scheduler"
        )


@contextmanager
def _silent() -> Iterator[None]:
    """Start Python processes that print no warnings."""
    before = os.environ.get("PYTHONWARNINGS")
    os.environ["PYTHONWARNINGS"] = "ignore"
    try:
        yield
    finally:
        del os.environ["PYTHONWARNINGS"]
        if before is not None:
            os.environ["PYTHONWARNINGS"] = before


@contextmanager
def _deaf() -> Iterator[None]:
    """Start processes that ignore SIGTERM, and Ctrl-C, which reaches all processes of a terminal.

    The one that started them handles the signal a moment later, and ends them.
    """
    if os.name != "posix":  # elsewhere they ignore signals as soon as they run
        yield
        return
    from multiprocessing import resource_tracker

    from joblib.externals.loky.backend import resource_tracker as of_loky

    # begun later, they would let signals through again. Where a folder is gone before they look for
    # it, as after an error, they would warn of it on our stderr
    with _silent():
        for tracker in (resource_tracker, of_loky):
            tracker.ensure_running()
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def end_workers() -> None:
    """End the processes that wait for more work, while signals are still handled."""
    from joblib.externals.loky import get_reusable_executor

    get_reusable_executor().shutdown(wait=True)
