"""Studies that are killed ten times, and on a cluster, against studies that nobody disturbs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from dask_cluster import cluster
from interruptions import finish, kill_often, results, start

REAL = ("-m", "ucfh")
KILLS = 10
SMALL = """
title = "A study"
predicted = "Something."
reading = "stationarity"

[[grid]]
measure = "lifetime"
replicates = 30
problem = ["chain:n=3,horizon=3", "chain:n=4,horizon=3"]
epsilon = 0.5
delta = 0.1

[[grid]]
measure = "stationary"
problem = ["chain:n=3,horizon=3", "riverswim:n=4,horizon=6"]
"""


@pytest.fixture(scope="module", params=["small", "mistakes"])
def study(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The arguments of a study."""
    if request.param == "mistakes":
        return ["mistakes", "--quick"]
    path = tmp_path_factory.mktemp("specs") / "small.toml"
    path.write_text(SMALL)
    return [str(path)]


def whole(study: list[str], folder: Path, *more: str) -> int:
    """Do all that is missing of a study; how many jobs it has."""
    code, out, err = finish(start([*study, "--out", str(folder), "--json", *more], REAL))
    assert (code, err) == (0, "")
    told = json.loads(out)
    assert told["done"] == told["jobs"] == len(results(folder))
    return int(told["jobs"])


@pytest.mark.parametrize("seed", [1, 2])
def test_kill_9_ten_times(study: list[str], tmp_path: Path, seed: int) -> None:
    jobs = whole(study, tmp_path / "whole", "--workers", "2")
    kills = kill_often([*study, "--workers", "2"], tmp_path / "killed", KILLS, jobs, seed, REAL)
    assert kills.kept == sorted(kills.kept)
    inside = sum(0 < kept < jobs for kept in kills.kept)
    assert inside >= 3
    whole(study, tmp_path / "killed", "--workers", "2")
    assert results(tmp_path / "killed") == results(tmp_path / "whole")
    print(
        f"{Path(study[0]).stem}: {jobs} jobs, killed after "
        f"{', '.join(f'{x:.1f}' for x in kills.moments)} s "
        f"with {', '.join(map(str, kills.kept))} results kept; {inside} of {KILLS} kills amid "
        f"results; other processes ended within {max(kills.orphans):.1f} s; in the end the same "
        "results"
    )


def test_a_cluster_of_two_gives_the_same_bits(study: list[str], tmp_path: Path) -> None:
    jobs = whole(study, tmp_path / "one", "--workers", "1")
    with cluster(2) as address:
        whole(study, tmp_path / "two", "--cluster", address)
    assert results(tmp_path / "two") == results(tmp_path / "one")
    print(f"{Path(study[0]).stem}: {jobs} results of two Dask workers: those of one process")
