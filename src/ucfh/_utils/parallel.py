"""Do many independent jobs, in processes on this machine or on a Dask cluster."""

from __future__ import annotations

import signal
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, wait
from concurrent.futures.process import BrokenProcessPool
from itertools import islice
from typing import Any, TypeVar
from warnings import catch_warnings, simplefilter

from ucfh.exceptions import InputError, check_count, not_installed

Item = TypeVar("Item")
Output = TypeVar("Output")

DIED = "a worker process died while it was run: out of memory? Fix: use fewer workers"
"""The message for a job that was under way when a worker died."""

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
    """Yield each job with its result as it completes; None if it was under way as a worker died.

    Args:
        work: a function that other processes can import; if it raises, everything ends.
        jobs: its arguments, taken as workers need them.
        workers: processes here; None: one per core.
        cluster: the address of a Dask scheduler, whose workers are used instead.

    """
    if cluster is not None:
        yield from _on_cluster(work, iter(jobs), cluster)
        return
    from joblib import cpu_count

    count, most = workers or cpu_count(), max(LEAST, 2 * cpu_count())
    if count > most:
        raise InputError(
            f"workers = {count} is too many for {cpu_count()} cores: pass at most {most}, or leave "
            "it out for one per core"
        )
    waiting = enumerate(jobs)
    broken = True
    while broken:
        under_way: dict[int, Item] = {}
        broken = False
        try:
            for k, result in _in_processes(work, _recorded(waiting, under_way), count):
                yield under_way.pop(k), result
        except BrokenProcessPool:  # the next pool is a new one
            broken = True
            yield from ((job, None) for job in under_way.values())


def _recorded(
    jobs: Iterator[tuple[int, Item]], record: dict[int, Item]
) -> Iterator[tuple[int, Item]]:
    for k, job in jobs:
        record[k] = job
        yield k, job


def _in_processes(
    work: Callable[[Item], Output], jobs: Iterator[tuple[int, Item]], count: int
) -> Iterator[tuple[int, Output]]:
    from joblib import Parallel, delayed

    # One worker is a process (n_jobs=1 is this process), in case it dies. Kernels would have to be
    # compiled again for arrays that are memory-mapped (max_nbytes).
    pool = Parallel(
        n_jobs=max(2, count),
        pre_dispatch=count,
        batch_size=1,
        max_nbytes=None,
        return_as="generator_unordered",
        initializer=_ignore_interrupts,
    )
    results = pool(delayed(_numbered)(work, k, job) for k, job in jobs)
    try:
        for result in results:  # noqa: UP028 - "yield from" would close them without the filter
            yield result
    finally:
        with catch_warnings():
            simplefilter("ignore", UserWarning)  # that some jobs are given up
            results.close()


def _ignore_interrupts() -> None:
    """Leave Ctrl-C, which reaches all processes of a terminal, to the parent of this worker."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _numbered(work: Callable[[Item], Output], k: int, job: Item) -> tuple[int, Output]:
    return k, work(job)


def _on_cluster(
    work: Callable[[Item], Output], jobs: Iterator[Item], address: str
) -> Iterator[tuple[Item, Output | None]]:
    try:
        from distributed import CancelledError, Client, KilledWorker
    except ImportError:
        raise not_installed("a cluster", "distributed") from None
    _check_scheduler(address)
    client: Any = Client(address, timeout=TIMEOUT, set_as_default=False)
    with client, client.get_executor(pure=False) as executor:
        try:
            client.wait_for_workers(1, timeout=TIMEOUT)
        except TimeoutError:
            raise InputError(
                f"the Dask scheduler at {address} has no workers: start some"
            ) from None
        room = 2 * sum(client.ncores().values())  # so that no worker waits for its next job
        running: dict[Any, Item] = {}
        while True:
            running |= {executor.submit(work, job): job for job in islice(jobs, room)}
            if not running:
                return
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            room = len(done)
            for future in done:
                job = running.pop(future)
                try:
                    yield job, future.result()
                except KilledWorker:
                    yield job, None
                except CancelledError:
                    raise InputError(
                        f"the Dask scheduler at {address} is gone: start it and its workers, and "
                        "run again"
                    ) from None
                except (ImportError, RuntimeError) as error:
                    reason = " ".join(str(error).split())
                    raise InputError(
                        f"the cluster at {address} cannot do the work ({reason}): install the "
                        "packages of this machine on its scheduler and workers, and restart them"
                    ) from None


def _check_scheduler(address: str) -> None:
    """Raise unless a scheduler answers: a client waits forever for a server that is silent."""
    from asyncio import run, wait_for

    from distributed import Security, rpc

    async def identify() -> dict[str, Any]:
        secrets = Security().get_connection_args("client")
        async with rpc(address, timeout=TIMEOUT, connection_args=secrets) as server:
            found: dict[str, Any] = await wait_for(server.identity(), TIMEOUT)
        return found

    try:
        found = run(identify())
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
