"""First commands on a machine and later ones; the smallest plans; a plan with 4e7 transitions.

    python benchmarks/bench_start.py [--against PYTHON]

With the Python of another checkout's environment, its commands run in turns with ours.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from report import Report, best

from ucfh import fixed_horizon_evi, make
from ucfh.io import write_model
from ucfh.planning import extended_value_iteration

LOG = "episode,t,state,action,reward,next_state\n" + "".join(
    f"{i},{t},{t * (i % 2)},{i % 3 % 2},{0.5 * (t == 2)},{(t + 1) * (i % 2)}\n"
    for i in range(40)
    for t in range(3)
)
COMMANDS = {
    "learn": ["learn", "chain:n=5"],
    "certify": ["certify", "log.csv", "--epsilon=0.5"],
    "plan": ["plan", "model.json"],
    "compare": ["compare", "chain:n=5", "--episodes=100", "--seeds=2"],
    "verify": ["verify", "chain:n=3", "--epsilon=0.5", "--runs=1"],
}
GOALS = {"learn": 6, "certify": 4, "plan": 3, "compare": 8}
"""CPU seconds of the first run, on the machine of `make bench`."""
WARM = 0.75
"""CPU seconds of a later `learn`."""
REPEATS = 5
UNCERTIFIED = 3
"""How `certify` ends where a log proves too little, as this one does."""


def run(python: str, arguments: list[str], folder: Path, cache: Path) -> tuple[float, float]:
    """CPU seconds of a command and of the processes that it starts, and seconds."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    before, started = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter()
    done = subprocess.run(
        [python, "-m", "ucfh", *arguments], cwd=folder, env=environment, capture_output=True
    )
    if done.returncode not in (0, UNCERTIFIED):
        raise SystemExit(f"{' '.join(arguments)}: {done.stderr.decode().strip()}")
    after, seconds = resource.getrusage(resource.RUSAGE_CHILDREN), perf_counter() - started
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, seconds


def commands(report: Report, pythons: list[str]) -> None:
    """First and later runs of commands, each from an empty folder for compiled code."""
    rows = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        write_model(make("chain:n=3"), folder / "model.json")
        (folder / "log.csv").write_text(LOG)
        for command, arguments in COMMANDS.items():
            caches = [folder / f"{command}-{i}" for i in range(len(pythons))]
            first = [run(*x)[0] for x in _each(pythons, arguments, folder, caches)]
            later = [
                min(times)
                for times in zip(
                    *(
                        [run(*x)[0] for x in _each(pythons, arguments, folder, caches)]
                        for _ in range(REPEATS)
                    ),
                    strict=True,
                )
            ]
            goal = f"{GOALS[command]}" if command in GOALS else ""
            cells = [f"{x:.1f}" for x in first] + [f"{x:.2f}" for x in later]
            rows.append([command, *cells, goal])
    whose = [""] if len(pythons) == 1 else [" here", " there"]
    head = [f"first{x}" for x in whose] + [f"later{x}" for x in whose]
    report.say("CPU seconds of commands, from an empty folder for compiled code:")
    report.table(["command", *head, "first: asked"], rows)
    report.say(f"- A later `learn` should take {WARM} s.")


def _each(
    pythons: list[str], arguments: list[str], folder: Path, caches: list[Path]
) -> list[tuple[str, list[str], Path, Path]]:
    return [(python, arguments, folder, x) for python, x in zip(pythons, caches, strict=True)]


def large() -> str:
    """Plan S=1e6 A=4 C=10 H=10 in this process; says how long it took, and the most memory used."""
    S, A, C, H = 10**6, 4, 10, 10
    lo, hi = np.empty((S * A, C)), np.empty((S * A, C))
    indices = np.empty((S * A, C), np.int32)
    rng = np.random.default_rng(0)
    for part in range(0, S * A, 10_000):
        at = slice(part, part + 10_000)
        p, width = rng.dirichlet(np.ones(C), 10_000), 0.1 * rng.random((10_000, C))
        lo[at], hi[at] = np.maximum(0, p - width), np.minimum(1, p + width)
        indices[at] = rng.integers(0, S // C, (10_000, C)) + np.arange(C) * (S // C)
    indptr, r = np.arange(0, S * A * C + 1, C), rng.random((S, A))
    model: dict[str, Any] = {
        "lo": lo.ravel(),
        "hi": hi.ravel(),
        "indptr": indptr,
        "indices": indices.ravel(),
    }
    size = sum(array.nbytes for array in model.values())
    started = perf_counter()
    plan = fixed_horizon_evi(rewards=r, horizon=H, threads=1, **model)
    seconds = perf_counter() - started
    most = 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    allowed = 2 * size + plan.policy.nbytes
    return (
        f"S=1e6 A=4 C=10 H=10: {seconds:.2f} s on one thread; the process took {most / 1e9:.2f} GB "
        f"at most, the model has {size / 1e9:.2f} GB (twice that and the policy are "
        f"{allowed / 1e9:.2f} GB)."
    )


def main(report: Report, against: str | None = None) -> None:
    report.say("## Start, and the two ends of the scale", "")
    commands(report, [sys.executable] if against is None else [sys.executable, against])
    mdp = make("random:states=5,actions=2,successors=3,horizon=5")
    lo, hi = np.maximum(0, mdp.p - 0.1), np.minimum(1, mdp.p + 0.1)
    small = best(lambda: extended_value_iteration(mdp.table, lo, hi, mdp.rewards, 5), 2000)
    report.say(f"- S=5 A=2 C=3 H=5, from Python: {1e6 * small:.1f} us a call.")
    done = subprocess.run(
        [sys.executable, Path(__file__), "large"], check=True, capture_output=True, text=True
    )
    report.say(f"- {done.stdout.strip()}", "")


if __name__ == "__main__":
    if "large" in sys.argv:
        print(large())
    else:
        main(Report(), sys.argv[2] if sys.argv[1:2] == ["--against"] else None)
