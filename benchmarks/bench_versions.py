"""Is anything slower than it was? CPU seconds of many jobs, in turns with another version's.

    python benchmarks/bench_versions.py PYTHON [JOB ...]

PYTHON is that of another checkout's environment. Jobs call what both versions have; with names, or
their beginnings, only those are timed. The least of many times is compared, as others disturb.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from time import process_time
from typing import Any

import numpy as np

from ucfh import Counts, certify, fixed_horizon_evi, make, make_agent, simulate
from ucfh._kernels import sampling
from ucfh.algorithms.registry import AGENTS
from ucfh.planning import extended_value_iteration

REPEATS, LEAST = 9, 0.02
"""Times that each version is asked, and the CPU seconds of a job that is repeated until then."""
ALLOWED = 1.05

Job = Callable[[], object]


def planning() -> Iterator[tuple[str, Job]]:
    for states, horizon, more in (
        (5, 5, ""),
        (20, 20, ""),
        (1000, 20, ""),
        (50, 10, ",segments=1"),
    ):
        name = f"random:states={states},actions=4,successors=5,horizon={horizon}{more}"
        mdp = make(name)
        lo, hi = np.maximum(0.0, mdp.p - 0.1), np.minimum(1.0, mdp.p + 0.1)
        of = f"S={states}{more}"
        yield f"plan exact {of}", mdp.optimal
        yield (
            f"plan intervals {of}",
            partial(extended_value_iteration, mdp.table, lo, hi, mdp.rewards, horizon, threads=1),
        )
        policy = mdp.optimal().policy
        yield f"evaluate {of}", partial(mdp.value, policy)
    rng = np.random.default_rng(0)
    p = rng.dirichlet(np.ones(50), (50, 4))
    lo, hi = np.maximum(0.0, p - 0.01), np.minimum(1.0, p + 0.01)
    yield "plan dense S=50", partial(fixed_horizon_evi, lo, hi, rng.random((50, 4)), 20, threads=1)


def _run(name: str, problem: str, episodes: int) -> None:
    mdp = make(problem)
    agent = make_agent(name, mdp, 0.1, 0.1, episodes, seed=0)
    simulate(mdp, agent, episodes, seed=0)


def agents() -> Iterator[tuple[str, Job]]:
    for name in AGENTS:
        if name in ("certified-ucfh", "optimal", "uniform", "reveliotis", "eprl"):
            continue
        yield f"learn {name}", partial(_run, name, "chain:n=10,horizon=10", 3_000)
    yield "learn ucfh 1e13", partial(_run, "ucfh", "chain:n=3,horizon=3", 10**13)
    for sets in ("tight", "kl", "kt-ball", "kl-ball"):
        for problem in ("chain:n=5", "random:states=50,actions=3,successors=5,horizon=8"):
            of = f"{sets} {problem.partition(':')[0]}"
            yield (
                f"learn certified {of}",
                partial(_run, f"certified-ucfh:confidence={sets}", problem, 150),
            )


def certificates() -> Iterator[tuple[str, Job]]:
    rng = np.random.default_rng(0)
    for states in (10, 300):
        mdp = make(f"random:states={states},actions=3,successors=5,horizon=8")
        n = rng.integers(1, 1000, mdp.table.rows)
        counts = Counts.zero(mdp.problem)
        for row in range(mdp.table.rows):
            entries = mdp.table.entries_of(row)
            counts.successors[entries] = rng.multinomial(n[row], mdp.p[entries])
        counts.visits[:] = n
        counts.visits[-1] = n[:-1].sum() // mdp.horizon
        counts.successors[mdp.table.entries_of(mdp.table.start)] = 0
        entries = mdp.table.entries_of(mdp.table.start)
        counts.successors[entries] = rng.multinomial(counts.visits[-1], mdp.p[entries])
        yield f"certify S={states}", partial(certify, counts, mdp.problem, 0.1)


def draws() -> Iterator[tuple[str, Job]]:
    rng = np.random.default_rng(0)
    p, out = np.full(10, 0.1), np.empty(10, np.int64)
    times, share, drawn = np.full(1000, 10**6), np.full(1000, 0.3), np.empty(1000, np.int64)
    for n in (10, 10**6, 10**15):
        yield f"multinomial {n:g}", partial(sampling.multinomial, rng, n, p, out)
        yield f"hypergeometric {n:g}", partial(sampling.hypergeometric, rng, n, n, n // 2)
    yield "binomials", partial(sampling.binomials, rng, times, share, drawn)


def all_jobs() -> dict[str, Job]:
    return {
        name: job for part in (planning(), agents(), certificates(), draws()) for name, job in part
    }


def serve() -> None:
    """Time jobs whose names come in, again and again; the first time, nothing but compile."""
    jobs, often = all_jobs(), {}
    print("ready", flush=True)
    for line in sys.stdin:
        name = line.strip()
        if name not in jobs:
            print("missing", flush=True)
            continue
        job = jobs[name]
        if name not in often:
            job()
            started, count = process_time(), 0
            while process_time() - started < LEAST:
                job()
                count += 1
            often[name] = count
        started = process_time()
        for _ in range(often[name]):
            job()
        print((process_time() - started) / often[name], flush=True)


def main(other: str, chosen: list[str]) -> None:
    """Ask both versions in turns."""
    children: list[Any] = [
        subprocess.Popen([python, __file__, "--serve"], stdin=-1, stdout=-1, text=True)
        for python in (other, sys.executable)
    ]

    def ask(child: Any, name: str) -> str:
        print(name, file=child.stdin, flush=True)
        return str(child.stdout.readline().strip())

    for child in children:
        child.stdout.readline()
    slower = []
    names = [x for x in all_jobs() if not chosen or any(x.startswith(y) for y in chosen)]
    print(f"{'job':44} {'other':>10} {'this':>10}  ratio")
    for name in names:
        times: list[list[str]] = [[], []]
        for _ in range(REPEATS):
            for i, child in enumerate(children):
                times[i].append(ask(child, name))
        if "missing" in times[0]:
            continue
        before, now = (min(map(float, x)) for x in times)
        mark = " <" if now > ALLOWED * before else ""
        slower += [name] * bool(mark)
        print(f"{name:44} {1e6 * before:8.1f}us {1e6 * now:8.1f}us  {now / before:.2f}{mark}")
    print(f"more than {ALLOWED - 1:.0%} slower: {', '.join(slower) or 'nothing'}")
    for child in children:
        child.stdin.close()


if __name__ == "__main__":
    if sys.argv[1:] == ["--serve"]:
        serve()
    elif len(sys.argv) > 1:
        main(sys.argv[1], sys.argv[2:])
    else:
        raise SystemExit("pass the Python of another checkout's environment")
