"""Grids: seeds, resuming, failures, interruptions, and a Dask cluster."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from evaluation import grid
from evaluation.__main__ import STUDIES, main
from support.dask_cluster import cluster
from support.settings import REPOSITORY


def draw(number: int = 0, *, seed: int) -> dict[str, Any]:
    return {"number": number, "drawn": seed % 1000}


def fail(number: int = 0) -> dict[str, Any]:
    raise ArithmeticError(f"{number} is too large")


def die(number: int = 0) -> dict[str, Any]:
    if number:
        os._exit(1)
    return {"number": number}


class Counting(ThreadPoolExecutor):
    """An executor that counts the jobs it was given."""

    submitted = 0

    def submit(self, *arguments: Any, **named: Any) -> Future[Any]:
        self.submitted += 1
        return super().submit(*arguments, **named)


@pytest.fixture
def executor() -> Iterator[Counting]:
    with Counting(1) as pool:
        yield pool


def jobs(count: int) -> list[grid.Job]:
    return grid.grid(draw, 2, number=list(range(count)))


def test_a_grid_has_every_combination() -> None:
    found = grid.grid(draw, 2, [{"number": [1, 2]}, {"number": 3}])
    assert [(job.replicate, job.parameters["number"]) for job in found] == [
        (0, 1), (0, 2), (0, 3), (1, 1), (1, 2), (1, 3),
    ]  # fmt: skip
    assert len({job.seed for job in found}) == 6


def test_seeds_are_those_of_the_published_report() -> None:
    from evaluation import baselines, mistakes, stationarity, stopping_rules

    assert mistakes.jobs()[0].seed == 6590821280336985710
    assert baselines.jobs()[0].seed == 7956919493805154322
    assert stopping_rules.jobs()[-1].seed == 6230405120642114908
    renamed = next(x for x in stopping_rules.jobs() if "=tight" in str(x.parameters.get("agent")))
    assert renamed.seed == 2428621126697886635
    assert stationarity.jobs()[0].seed == 5920006043203557039


def test_a_rerun_skips_finished_jobs(tmp_path: Path, executor: Counting) -> None:
    path = tmp_path / "draws.jsonl"
    assert grid.run(jobs(3), path, executor) == []
    before = path.read_text()
    assert grid.run(jobs(5), path, executor) == []
    assert executor.submitted == 10
    assert path.read_text().startswith(before)
    frame = grid.results(jobs(5), path)
    assert sorted(frame["number"]) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]


def test_a_line_that_was_cut_off_is_run_again(tmp_path: Path, executor: Counting) -> None:
    path = tmp_path / "draws.jsonl"
    grid.run(jobs(3), path, executor)
    whole = grid.results(jobs(3), path)
    path.write_bytes(path.read_bytes()[:-20])
    grid.run(jobs(3), path, executor)
    assert executor.submitted == 7
    assert grid.results(jobs(3), path).equals(whole)


def test_failures_are_returned_and_not_stored(tmp_path: Path, executor: Executor) -> None:
    path = tmp_path / "mixed.jsonl"
    failures = grid.run([*jobs(1), *grid.grid(fail, number=7)], path, executor)
    assert len(failures) == 1
    assert "ArithmeticError: 7 is too large" in failures[0]
    assert len(path.read_text().splitlines()) == 2


def test_results_of_other_source_code_are_refused(tmp_path: Path, executor: Executor) -> None:
    path = tmp_path / "draws.jsonl"
    grid.run(jobs(1), path, executor)
    path.write_text(path.read_text().replace(grid.source_digest(), "0" * 12))
    with pytest.raises(SystemExit, match="other source code"):
        grid.run(jobs(1), path, executor)


@pytest.mark.slow
def test_a_worker_that_dies_costs_no_completed_job(tmp_path: Path) -> None:
    path = tmp_path / "deaths.jsonl"
    with grid.open_executor(1) as workers, pytest.raises(BrokenExecutor):
        grid.run(grid.grid(die, number=[0, 1]), path, workers)
    assert len(path.read_text().splitlines()) == 1


@pytest.mark.verify
@pytest.mark.slow
def test_interrupted_runs_keep_completed_jobs(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "evaluation", "stationarity", "--quick", "--workers", "1"]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)], cwd=REPOSITORY, env=environment,
        stderr=subprocess.PIPE, text=True, start_new_session=True,
    )  # fmt: skip
    path = tmp_path / "stationarity.jsonl"
    while process.poll() is None and not (path.exists() and path.read_text().count("\n") > 2):
        time.sleep(0.01)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.strip().endswith("run again to continue")
    lines = path.read_text().splitlines()
    assert len(lines) >= 3
    assert all(json.loads(line)["values"] for line in lines)


@pytest.mark.verify
@pytest.mark.slow
def test_a_dask_cluster_gives_the_same_results(tmp_path: Path, executor: Executor) -> None:
    from evaluation.stationarity import stationary

    exact = grid.grid(stationary, problem=["chain:n=3,horizon=3", "riverswim:n=4,horizon=6"])
    grid.run(exact, tmp_path / "here.jsonl", executor)
    with cluster(1) as address, grid.open_executor(cluster=address) as workers:
        assert grid.run(exact, tmp_path / "there.jsonl", workers) == []
    here, there = (grid.results(exact, tmp_path / f"{x}.jsonl") for x in ("here", "there"))
    assert here.equals(there)


def test_unknown_studies_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        main(["mistaks"])
    assert caught.value.code == 2
    assert "mistakes" in capsys.readouterr().err
    assert len(STUDIES) == 9
