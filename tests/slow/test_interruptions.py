"""Every command, interrupted at random moments: one line, an exit code, and nothing left behind."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from helpers.interruptions import interrupt
from ucfh.simulation.result import Run

COMMANDS = {
    "learn": "learn chain:n=8 --epsilon 0.05",
    "save": "learn chain:n=6 --epsilon 0.03 --save run.npz --policy policy.csv --plot run.svg",
    "compare": "compare chain:n=4 --agents ucfh,psrl,uniform --episodes 3000 --seeds 6 --workers 2",
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
