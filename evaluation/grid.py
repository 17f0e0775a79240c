"""Run a grid of jobs in parallel, with results that survive an interruption.

A job is a measurement (a function that returns numbers by name), its parameters and a replicate.
Each study has one JSON-lines file; a line is appended as soon as a job completes. A rerun skips the
jobs that have a line, so that an interrupted run continues where it stopped.
"""

from __future__ import annotations

import json
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from inspect import signature
from itertools import product
from math import inf
from multiprocessing import get_context
from pathlib import Path
from time import perf_counter
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.progress import track

import ucfh

SEED_NAMES = {
    "full_run": "lifetime",
    "run_baseline": "learner",
    "run_stopping_rule": "stopping",
    "check_claims": "claims",
    "record_knownness": "knownness",
    "per_step": "stages",
    "max_episodes": "most",
    "known": "told",
    "unknown": "hidden",
    "tight": "best",
    "certified-ucfh:confidence=tight": "certified-ucfh:confidence=best",
}
"""Names from which the seeds of the published report were derived.

A seed depends on the names of the measurement, its parameters and their values. If one of these is
renamed, an entry here keeps the seeds, and with them all numbers of the report.
"""


@dataclass(frozen=True, eq=False)
class Job:
    """One measurement.

    Attributes:
        measure: the function to call.
        parameters: its keyword arguments, defaults included, without the seed.
        replicate: the number of the repetition, from 0.
        group: the part of the study that the job belongs to; not part of its identity.
        root_seed: the seed of the whole evaluation.

    """

    measure: Callable[..., dict[str, Any]]
    parameters: Mapping[str, Any]
    replicate: int = 0
    group: str = ""
    root_seed: int = 0

    @property
    def key(self) -> str:
        """The identity of the job, as JSON text."""
        identity = [self.measure.__name__, self.parameters, self.replicate, self.root_seed]
        return json.dumps(identity, sort_keys=True)

    @property
    def seed(self) -> int | None:
        """The random seed, spawned from the identity; None if the measurement is exact."""
        if "seed" not in signature(self.measure).parameters:
            return None
        published = {_published(key): _published(value) for key, value in self.parameters.items()}
        text = json.dumps([_published(self.measure.__name__), published, {}], sort_keys=True)
        digest = int(sha256(text.encode()).hexdigest(), 16)
        spawned = np.random.SeedSequence([self.root_seed, digest], spawn_key=(self.replicate,))
        return int(spawned.generate_state(1, np.uint64)[0] >> 1)


def _published(value: Any) -> Any:
    return SEED_NAMES.get(value, value) if isinstance(value, str) else value


def grid(
    measure: Callable[..., dict[str, Any]],
    replicates: int = 1,
    cases: Sequence[Mapping[str, Any]] = ({},),
    group: str = "",
    **parameters: Any,
) -> list[Job]:
    """Return a job for every replicate, case and combination of parameter values.

    Args:
        measure: the function to call.
        replicates: repetitions of each combination, with independent seeds.
        cases: parameters that vary together.
        group: the part of the study.
        parameters: values, or lists of values of which every combination is taken. "{replicate}" in
            a string becomes the number of the replicate.

    """
    names = [name for name in signature(measure).parameters if name != "seed"]
    defaults = {name: signature(measure).parameters[name].default for name in names}
    jobs = []
    for replicate, case in product(range(replicates), cases):
        values = {**defaults, **parameters, **case}
        lists = [value if isinstance(value, list) else [value] for value in values.values()]
        for combination in product(*lists):
            given = {
                name: value.format(replicate=replicate) if isinstance(value, str) else value
                for name, value in zip(values, combination, strict=True)
            }
            jobs.append(Job(measure, given, replicate, group))
    return jobs


@contextmanager
def open_executor(workers: int | None = None, cluster: str | None = None) -> Iterator[Executor]:
    """Open worker processes on this machine, or those of the Dask scheduler at an address."""
    if cluster is not None:
        from distributed import Client

        try:
            client: Any = Client(cluster, timeout=10, set_as_default=False)  # type: ignore[no-untyped-call]
        except (OSError, ValueError) as error:
            raise SystemExit(
                f"no Dask scheduler at {cluster} ({error}). Fix: pass the address that it printed"
            ) from None
        with client, client.get_executor() as executor:
            yield executor
        return
    spawn = get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=spawn, initializer=_end_on_interrupt) as executor:
        yield executor


def _end_on_interrupt() -> None:
    """End a worker at Ctrl-C without a traceback."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def execute(job: Job) -> dict[str, Any]:
    """Run a job and return its line of the results file."""
    started = perf_counter()
    seed = job.seed
    values = job.measure(**job.parameters, **({} if seed is None else {"seed": seed}))
    record = {"seed": seed, "values": values, "source": source_digest()}
    return {"key": job.key, **record, "seconds": round(perf_counter() - started, 3)}


@cache
def source_digest() -> str:
    """Return a digest of the package's source: results of different code are not mixed."""
    digest = sha256()
    for path in sorted(Path(ucfh.__file__).parent.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def run(jobs: Iterable[Job], path: Path, executor: Executor) -> list[str]:
    """Run the jobs without a result, append results to a file, and return what failed.

    Completed jobs stay in the file if this is interrupted; failed ones are tried again next time.
    """
    finished = read(path)
    pending = {job.key: job for job in jobs if job.key not in finished}
    path.parent.mkdir(parents=True, exist_ok=True)
    failures = []
    with path.open("a") as file:
        futures = {executor.submit(execute, job): job for job in pending.values()}
        completed = as_completed(futures)
        bar = Console(stderr=True)
        try:
            for future in track(completed, path.stem, len(futures), console=bar, transient=True):
                error = future.exception()
                if isinstance(error, BrokenExecutor):
                    raise error
                if error is not None:
                    failures.append(f"{futures[future].key}: {type(error).__name__}: {error}")
                    continue
                record = future.result()
                if record["source"] != source_digest():
                    raise SystemExit(
                        "a worker has other source code. Fix: install this version of ucfh there"
                    )
                file.write(json.dumps(record, allow_nan=False) + "\n")
                file.flush()
        except BaseException:
            executor.shutdown(wait=False, cancel_futures=True)
            raise
    return failures


def read(path: Path) -> dict[str, dict[str, Any]]:
    """Return the lines of a results file by job key; a line that was cut off is removed."""
    if not path.exists():
        return {}
    text = path.read_bytes()
    complete = text[: text.rfind(b"\n") + 1]
    if len(complete) < len(text):
        path.write_bytes(complete)
    records = [json.loads(line) for line in complete.splitlines()]
    if any(record["source"] != source_digest() for record in records):
        raise SystemExit(
            f"{path} holds results of other source code. Fix: remove it or pass another --out"
        )
    return {record["key"]: record for record in records}


def results(jobs: Iterable[Job], path: Path) -> pd.DataFrame:
    """Return the results of the jobs, one row per job: group, replicate, parameters and values.

    Integers become floats, since some counts exceed 64 bits. Infinitely many epsilon-suboptimal
    episodes, null in the file, become infinity.
    """
    found = read(path)
    rows = []
    for job in jobs:
        if job.key in found:
            values = found[job.key]["values"]
            row = {k: float(v) if isinstance(v, int | float) else v for k, v in values.items()}
            row |= {k: v for k, v in values.items() if isinstance(v, bool)}
            if "mistakes" in row and row["mistakes"] is None:
                row["mistakes"] = inf
            rows.append({"group": job.group, "replicate": job.replicate, **job.parameters, **row})
    return pd.DataFrame(rows)
