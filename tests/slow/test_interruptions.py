"""Studies that are killed ten times, and on a cluster, against studies that nobody disturbs.

And every command, interrupted at random moments: one line, an exit code, and nothing left behind.
"""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.dask_cluster import cluster
from helpers.interruptions import finish, interrupt, kill_often, results, start
from ucfh.simulation.run import Run

REAL = ("-m", "ucfh")
KILLS = 10
SMALL = """
title = "A study"
predicted = "Something."
reading = "stationarity"

[[grid]]
measure = "lifetime"
replicates = 300
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


COMMANDS = {
    "learn": "learn chain:n=8 --epsilon 0.05",
    "save": "learn chain:n=6 --epsilon 0.03 --save run.npz --policy policy.csv --plot run.svg",
    "compare": "compare chain:n=4 --agents ucfh,psrl,uniform --episodes 3000 --seeds 6 --workers 2",
    "study": "study {files}/small.toml --workers 2 --out results",
    "report": "report {files}/results --html report.html",
    "verify": "verify chain:n=3,horizon=3 --epsilon 0.5 --runs 3",
    "certify": "certify {files}/log.csv --epsilon 1 --policy policy.csv",
    "plan": "plan {files}/model.json --policy policy.csv",
    "evaluate": "evaluate {files}/policy.csv chain:n=8",
    "problems": "problems chain:n=8 --write model.json",
    "agents": "agents",
    "bounds": "bounds --states 9 --actions 2 --horizon 9 --epsilon 0.1 --delta 0.1",
}
WARM, COLD = 16, 4


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the commands read, and compiled code."""
    folder = tmp_path_factory.mktemp("files")
    (folder / "small.toml").write_text(SMALL.replace("replicates = 30", "replicates = 5"))
    draw, rows = random.Random(0), ["episode,t,state,action,reward,next_state"]
    for k in range(3000):
        states = [draw.randrange(3) for _ in range(4)]
        for t in range(3):
            a = draw.randrange(2)
            rows.append(f"{k},{t},{states[t]},{a},{int(a == states[t + 1])},{states[t + 1]}")
    (folder / "log.csv").write_text("\n".join([*rows, ""]))
    for arguments in (
        "problems chain:n=8 --write model.json",
        "learn chain:n=8 --policy policy.csv",
        "study small.toml --out results",
    ):
        command = [sys.executable, "-m", "ucfh", *arguments.split()]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


@pytest.mark.parametrize("name", COMMANDS)
def test_a_signal_at_any_moment(name: str, files: Path, tmp_path: Path) -> None:
    draw = random.Random(name)
    arguments = COMMANDS[name].format(files=files).split()
    warm, never = tmp_path / "compiled", 1e6
    for k in range(2):  # once to compile
        began = time.perf_counter()
        assert interrupt(arguments, tmp_path / f"whole{k}", warm, never, signal.SIGINT).code == 0
        whole = time.perf_counter() - began
    done = {"interrupted": 0, "finished": 0}
    slowest = 0.0
    for k in range(WARM + COLD):
        number = (signal.SIGINT, signal.SIGTERM)[k % 2]
        cold = k >= WARM
        cache = tmp_path / f"empty{k}" if cold else warm
        cache.mkdir(exist_ok=True)
        after = draw.uniform(0.0, 4 * whole if cold else whole)
        folder = tmp_path / f"part{k}"
        found = interrupt(arguments, folder, cache, after, number)
        assert found.is_clean(number) or found.is_finished(), (after, found)
        done["interrupted" if found.is_clean(number) else "finished"] += 1
        slowest = max(slowest, found.seconds)
        if "--resume" in found.err:
            assert Run.load(folder / "run.npz").interrupted
    print(f"{name}: {done}; all processes gone within {slowest:.1f} s of the signal")
