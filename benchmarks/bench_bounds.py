"""Bounds of certificates at size: seconds and memory of learning, and how one replan grows.

    python benchmarks/bench_bounds.py                      this version
    python benchmarks/bench_bounds.py PYTHON               another one beside it, by its Python
    python benchmarks/bench_bounds.py [PYTHON] --large     10,000 states as well: some minutes each

Each figure is from a process of its own, which has compiled its code before the clock starts.
"""

from __future__ import annotations

import json
import subprocess
import sys
from math import log

from report import Report

JOB = "random:states={},actions={},successors={},horizon={}"
LEARN, LARGE = (1000, 4, 10, 10), (10_000, 4, 10, 20)
MOST = 200_000
LETTERS = "SACH"

WORK = """
import json, resource, sys
from time import perf_counter
from ucfh import make, simulate
from ucfh.algorithms.certified import CertifiedUCFH

def learn(name, most):
    mdp = make(name)
    agent = CertifiedUCFH(mdp.problem, 0.5, 0.1)
    started = perf_counter()
    run = simulate(mdp, agent, most, seed=0)
    return agent, run, perf_counter() - started

name, most, replan = sys.argv[1], int(sys.argv[2]), sys.argv[3] == "replan"
agent, _, _ = learn("random:states=20,actions=2,successors=3,horizon=3", 3000)
agent.certificate
learn("random:states=500,actions=4,successors=10,horizon=6", 300)
agent, run, seconds = learn(name, most)
if replan:
    seconds = float("inf")
    for _ in range(5):
        started = perf_counter()
        b = agent.exploration.update_bounds(agent.n)
        agent.exploration.best.explore(agent.exploration.best.attribute_gap(b, True))
        seconds = min(seconds, perf_counter() - started)
megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
print(json.dumps([seconds, run.episodes, megabytes, agent.gap_bound]))
"""
"""It uses nothing that an older version lacks."""


def work(python: str, sizes: tuple[int, ...], most: int, what: str) -> list[float]:
    """Seconds, episodes, megabytes and the gap."""
    command = [python, "-c", WORK, JOB.format(*sizes), str(most), what]
    out: list[float] = json.loads(subprocess.run(command, stdout=-1, check=True).stdout)
    return out


def grown(sizes: tuple[int, ...], letter: str, times: float) -> tuple[int, ...]:
    """Sizes of which one is this many times as large."""
    return tuple(
        round(x * times) if k == letter else x for x, k in zip(sizes, LETTERS, strict=True)
    )


def main(report: Report, others: list[str] | None = None, large: bool = False) -> None:
    pythons = [*(others or []), sys.executable]
    report.say(
        "## Bounds of certificates",
        "",
        "`ucfh learn` at epsilon 0.5 with random:states=S,actions=A,successors=C,horizon=H"
        + (", the other version first." if others else "."),
    )
    rows = []
    for sizes in (LEARN, LARGE) if large else (LEARN,):
        for python in pythons:
            seconds, episodes, megabytes, gap = work(python, sizes, MOST, "learn")
            shown = f"{seconds:.1f}", f"{episodes:,.0f}", f"{gap:.3g}", f"{megabytes:.0f}"
            rows.append([", ".join(map(str, sizes)), *shown])
    report.table(["S, A, C, H", "seconds", "episodes", "gap", "MB"], rows)
    report.say(
        f"One replan, of all bounds, for {', '.join(map(str, LEARN))} after 5,000 episodes, in "
        "milliseconds; and the exponents by which it grows between half and twice of each."
    )
    rows = []
    for python in pythons:
        middle = work(python, LEARN, 5000, "replan")[0]
        exponents = []
        for letter in LETTERS:
            few, many = (
                work(python, grown(LEARN, letter, times), 5000, "replan")[0] for times in (0.5, 2)
            )
            exponents.append(f"{log(many / few) / log(4):.2f}")
        rows.append([f"{1000 * middle:.1f}", *exponents])
    report.table(["ms", *LETTERS], rows)


if __name__ == "__main__":
    given = sys.argv[1:]
    main(Report(), [x for x in given if x != "--large"], "--large" in given)
