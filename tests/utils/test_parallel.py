"""Work in processes here, and on a Dask cluster: all of it, once, whatever happens to some."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from threading import Thread

import numpy as np
import pytest

from support import jobs as works
from support.dask_cluster import cluster
from ucfh._utils import parallel
from ucfh._utils.parallel import do_all
from ucfh.exceptions import InputError

SQUARES = [(k, k * k) for k in range(12)]


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with cluster(2) as found:
        yield found


def both(work: Callable[[int], int], address: str) -> Iterator[list[tuple[int, int | None]]]:
    """What came of twelve jobs, by processes here and by a cluster."""
    for workers, where in [(1, None), (2, None), (None, address)]:
        yield sorted(do_all(work, range(12), workers, where), key=lambda pair: pair[0])


@pytest.mark.slow
def test_all_is_done(address: str) -> None:
    for found in both(works.square, address):
        assert found == SQUARES
    for where in (None, address):
        assert list(do_all(works.square, [], 1, where)) == []
        assert list(do_all(works.square, iter([5]), 3, where)) == [(5, 25)]


@pytest.mark.slow
def test_jobs_need_not_be_told_apart(address: str) -> None:
    """Equal ones are done as often as they are asked for; they need no hash."""
    for where in (None, address):
        assert list(do_all(len, [[1], [1], [1]], 2, where)) == [([1], 1)] * 3


@pytest.mark.slow
def test_jobs_under_way_when_a_worker_dies_have_no_result(address: str) -> None:
    for found in both(works.kill, address):
        assert [k for k, _ in found] == list(range(12))
        assert (3, None) in found
        assert all(result in (None, k * k) for k, result in found)


@pytest.mark.slow
def test_after_an_accident_the_other_jobs_are_done(tmp_path: Path) -> None:
    found = dict(do_all(works.Stumble(tmp_path), range(12), 2))
    assert found[0] is None
    assert all(result in (None, k * k) for k, result in found.items())


def test_what_is_raised_ends_all(address: str) -> None:
    for where in (None, address):
        with pytest.raises(ZeroDivisionError, match="two"):
            list(do_all(works.fail, range(1000), None if where else 2, where))


@pytest.mark.slow
def test_whoever_looks_no_further_is_not_bothered(address: str) -> None:
    """No warning, and processes that are of use again."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for where in (None, address):
            results = do_all(works.square, range(1000), None, where)
            assert next(results)[0] < 1000
            results.close()
            assert sorted(do_all(works.square, range(12), None, where)) == SQUARES


# joblib's thread may miss a result of a process that was just ended, which harms nobody
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_jobs_are_taken_as_they_are_needed(tmp_path: Path) -> None:
    """Each process has one and the next one waits, besides those that ended: here, five may."""
    gate = tmp_path / "gate"
    os.mkfifo(gate)
    opened = os.open(gate, os.O_RDWR)
    os.write(opened, bytes(5))
    taken: list[int] = []

    def many() -> Iterator[str]:
        for k in range(1000):
            taken.append(k)
            yield str(gate)

    results = do_all(works.pass_gate, many(), 2)
    assert [next(results) for _ in range(5)] == [(str(gate), 1)] * 5
    results.close()
    os.close(opened)
    assert len(taken) <= 5 + 2 + 2


def test_jobs_are_taken_as_a_cluster_needs_them(address: str) -> None:
    """Two for each of its two cores, and at most one more for each result."""
    jobs = iter(range(1000))
    results = do_all(works.square, jobs, cluster=address)
    for _ in range(5):
        next(results)
    assert next(jobs) <= 2 * 2 + 5
    results.close()


def test_large_arrays_are_not_memory_mapped() -> None:
    """Kernels would have to be compiled again for them."""
    jobs = [np.zeros(1_000_000) for _ in range(2)]
    assert [kind for _, kind in do_all(works.kind_of, jobs, 2)] == ["ndarray writeable"] * 2


RUN_BY_RUNPY = """
import runpy, sys
sys.argv = ["ucfh", "compare", "chain:n=3", "--agents", "psrl,uniform", "--episodes", "20",
            "--seeds", "2", "--workers", "2", "--json"]
runpy.run_module("ucfh", run_name="__main__")
"""


@pytest.mark.slow
def test_compare_works_in_a_process_that_runs_a_module() -> None:
    done = subprocess.run(
        [sys.executable, "-c", RUN_BY_RUNPY], capture_output=True, text=True, check=True
    )
    assert json.loads(done.stdout)["failures"] == []


def test_a_thread_may_do_it() -> None:
    found: list[tuple[int, int | None]] = []
    thread = Thread(target=lambda: found.extend(do_all(works.square, range(12), 2)))
    thread.start()
    thread.join()
    assert sorted(found) == SQUARES


def refused(where: str) -> str:
    began = time.perf_counter()
    with pytest.raises(InputError) as caught:
        list(do_all(works.square, range(3), cluster=where))
    assert time.perf_counter() - began < 15
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize(
    "where",
    [
        "foo",
        "",
        "tcp://127.0.0.1",
        "tcp://127.0.0.1:abc",
        "http://127.0.0.1:1",
        "tls://127.0.0.1:1",
    ],
)
def test_no_address(where: str) -> None:
    message = refused(where)
    assert message.startswith(f"no Dask scheduler answers at {where} (")
    assert "pass the address" in message


@pytest.mark.slow
@pytest.mark.parametrize("mute", [False, True])
def test_nobody_answers(mute: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a port that nobody listens at, nor somebody who says nothing."""
    monkeypatch.setattr(parallel, "TIMEOUT", 1)
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        if mute:
            server.listen()
        where = f"tcp://127.0.0.1:{server.getsockname()[1]}"
        assert refused(where).startswith(f"no Dask scheduler answers at {where} (")


def test_a_worker_is_no_scheduler(address: str) -> None:
    from distributed import Client

    with Client(address, set_as_default=False) as client:  # type: ignore[no-untyped-call]
        (worker, *_) = client.scheduler_info()["workers"]
    assert refused(worker) == f"{worker} is a Dask worker: pass the address of the scheduler"


@pytest.mark.verify
@pytest.mark.slow
def test_a_scheduler_alone_does_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parallel, "TIMEOUT", 2)
    with cluster(0) as alone:
        assert refused(alone) == f"the Dask scheduler at {alone} has no workers: start some"


def test_a_cluster_that_lacks_the_code(address: str, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def work(job): return job\n")
    sys.path.insert(0, str(tmp_path))
    try:
        work = import_module("only_here").work
        with pytest.raises(
            InputError, match=f"the cluster at {address} cannot do the work .*install"
        ):
            list(do_all(work, range(3), cluster=address))
    finally:
        sys.path.remove(str(tmp_path))


@pytest.mark.slow
def test_a_scheduler_that_goes() -> None:
    with cluster(1) as leaving:
        results = do_all(works.square, range(10**6), cluster=leaving)
        next(results)
    with pytest.raises(InputError, match=f"the Dask scheduler at {leaving} is gone: start"):
        list(results)


def test_without_dask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "distributed", None)
    message = "a cluster needs distributed, which is not installed: pip install distributed"
    assert refused("tcp://127.0.0.1:1") == message


def test_more_processes_than_the_cores_can_serve_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("joblib.cpu_count", lambda: 6)
    with pytest.raises(InputError) as caught:
        list(do_all(works.square, range(3), 500))
    assert str(caught.value) == (
        "workers = 500 is too many for 6 cores: pass at most 12, or leave it out for one per core"
    )
