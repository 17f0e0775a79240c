"""The first plan of a process, compiled or not; the smallest plans; a plan with 4e7 transitions."""

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
from ucfh.planning import extended_value_iteration

FIRST_PLAN = """
import numpy as np, ucfh
ucfh.fixed_horizon_evi(np.zeros((5, 2, 5)), np.ones((5, 2, 5)), np.ones((5, 2)), 5)
"""


def first_plan(folder: str) -> float:
    """Seconds of a process that imports, plans and ends, its compiled code kept in a folder."""
    started = perf_counter()
    environment = {**os.environ, "NUMBA_CACHE_DIR": folder}
    subprocess.run([sys.executable, "-c", FIRST_PLAN], check=True, env=environment)
    return perf_counter() - started


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


def main(report: Report) -> None:
    with TemporaryDirectory() as folder:
        cold = first_plan(folder)
        warm = min(first_plan(folder) for _ in range(5))
    mdp = make("random:states=5,actions=2,successors=3,horizon=5")
    lo, hi = np.maximum(0, mdp.p - 0.1), np.minimum(1, mdp.p + 0.1)
    small = best(lambda: extended_value_iteration(mdp.table, lo, hi, mdp.rewards, 5), 2000)
    report.say(
        "## Start, and the two ends of the scale",
        "",
        f"- The first plan ever compiles: {cold:.1f} s from the start of Python. "
        f"Later processes: {warm:.2f} s.",
        f"- S=5 A=2 C=3 H=5, from Python: {1e6 * small:.1f} us a call.",
    )
    done = subprocess.run(
        [sys.executable, Path(__file__), "large"], check=True, capture_output=True, text=True
    )
    report.say(f"- {done.stdout.strip()}", "")


if __name__ == "__main__":
    if "large" in sys.argv:
        print(large())
    else:
        main(Report())
