"""A Dask cluster on this machine, in processes of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from support.settings import REPOSITORY, TESTS


@contextmanager
def cluster(workers: int) -> Iterator[str]:
    """The address of its scheduler."""
    paths = [str(REPOSITORY), str(TESTS), os.environ.get("PYTHONPATH", "")]
    with subprocess.Popen(
        [sys.executable, "-W", "ignore", __file__, str(workers)],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths)},
        start_new_session=True,
    ) as process:  # fmt: skip
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            os.killpg(process.pid, signal.SIGKILL)


def serve(workers: int) -> None:
    """Serve a cluster until the process is killed."""
    import dask
    from distributed import LocalCluster

    dask.config.set({"distributed.scheduler.allowed-failures": 0})  # a job that kills does it once
    with LocalCluster(  # type: ignore[no-untyped-call]
        n_workers=workers,
        threads_per_worker=1,
        processes=True,
        dashboard_address=None,
    ) as found:
        print(found.scheduler_address, flush=True)
        time.sleep(600)


if __name__ == "__main__":
    serve(int(sys.argv[1]))
