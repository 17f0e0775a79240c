"""Do the jobs that have no result yet, in parallel, and keep each result as it comes."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from contextlib import closing
from dataclasses import dataclass, field

from ucfh._support.parallel import DIED, do_all
from ucfh.experiments.jobs import Job, do
from ucfh.experiments.store import Store


@dataclass
class Progress:
    """How many jobs are done.

    Attributes:
        total, done: jobs requested, and jobs that have a result.
        failures: jobs that failed, and why.
        interrupted: whether the user stopped it early.

    """

    total: int
    done: int
    failures: list[tuple[Job, str]] = field(default_factory=list)
    interrupted: bool = False


def run_jobs(
    jobs: Iterable[Job],
    store: Store,
    workers: int | None = None,
    cluster: str | None = None,
    report: Callable[[Progress], None] | None = None,
) -> Progress:
    """Do the jobs that have no result yet.

    Args:
        jobs: all jobs that are wanted; those with a result are not done again.
        store: where results go.
        workers: processes; None: one per core. cluster: the address of a Dask scheduler instead.
        report: called after every job.

    If it is interrupted (Ctrl-C), it keeps what was done. Jobs that fail are named, and tried again
    in the next run.

    """
    wanted = {job.id: job for job in jobs}
    have = store.done()
    missing = [job for key, job in wanted.items() if key not in have]
    progress = Progress(len(wanted), len(wanted) - len(missing))
    try:
        with closing(do_all(do, missing, workers, cluster)) as results:
            for job, done in results:
                if done is None or done.values is None:
                    progress.failures.append((job, DIED if done is None else done.reason))
                else:
                    store.add(job, done)
                    progress.done += 1
                if report is not None:
                    report(progress)
    except KeyboardInterrupt:
        progress.interrupted = True
    return progress
