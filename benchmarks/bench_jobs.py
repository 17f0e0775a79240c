"""Where the time goes: each main job at three sizes, its parts, and a floor beside it.

A floor is the least that any program of this kind takes here: the model read from memory once a
step, one logarithm for each entry and step of a planning, one random number for each step walked,
the cells of a file read. It is measured in the same run, on one core.

Run from the repository's root: ``PYTHONPATH=tests python benchmarks/bench_jobs.py``; with
``--large``, 10,000 states are learned as well, for some minutes.
"""

from __future__ import annotations

import csv
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial, wraps
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from bench_logs import as_csv, write_text
from bench_planning import read
from numba import njit
from report import Report, best

from ucfh import UCFH, fixed_horizon_evi, make, simulate, write_model
from ucfh.algorithms import exploration
from ucfh.algorithms.certified import CertifiedUCFH
from ucfh.algorithms.registry import make_agent
from ucfh.certification import certificate_from_log
from ucfh.confidence.intervals import confidence_set
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.value_bounds import ValueBounds
from ucfh.logs.reading import read_log
from ucfh.planning.optimistic import PhasePlanner
from ucfh.simulation import bulk

RANDOM = "random:states={},actions=4,successors=10,horizon={}"
DELTA_1 = 1e-6

Part = tuple[str, Any, str]
"""What it is called, and a function: its owner and its name there."""


class Clock:
    """Seconds in parts of a job: what a part spends in others is theirs."""

    def __init__(self) -> None:
        self.spent: dict[str, float] = {}
        self.calls: dict[str, int] = {}
        self._inside: list[float] = []

    def timed(self, label: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The function, its seconds added to those of the label."""

        @wraps(function)
        def call(*args: Any, **named: Any) -> Any:
            started = perf_counter()
            self._inside.append(0.0)
            try:
                return function(*args, **named)
            finally:
                seconds, inside = perf_counter() - started, self._inside.pop()
                self.spent[label] = self.spent.get(label, 0.0) + seconds - inside
                self.calls[label] = self.calls.get(label, 0) + 1
                if self._inside:
                    self._inside[-1] += seconds

        return call


@contextmanager
def patched(owner: Any, name: str, function: Any) -> Iterator[None]:
    """Have another function stand there for a while."""
    plain = getattr(owner, name)
    setattr(owner, name, function)
    try:
        yield
    finally:
        setattr(owner, name, plain)


@contextmanager
def watching(parts: Sequence[Part]) -> Iterator[Clock]:
    """Have functions timed."""
    clock = Clock()
    with ExitStack() as stack:
        for label, owner, name in parts:
            timed = clock.timed(label, getattr(owner, name))
            stack.enter_context(patched(owner, name, timed))
        yield clock


def shares(clock: Clock, total: float, rest: str) -> str:
    """The parts in percent, the largest first."""
    parts = {**clock.spent, rest: total - sum(clock.spent.values())}
    order = sorted(parts.items(), key=lambda x: -x[1])
    return ", ".join(f"{name} {100 * x / total:.0f} %" for name, x in order if x >= 0.005 * total)


def short(seconds: float) -> str:
    """Seconds with their unit."""
    for unit, size in (("s", 1.0), ("ms", 1e-3)):
        if seconds >= size:
            return f"{seconds / size:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"


@njit(cache=True)
def logarithms(x: float, times: int) -> float:
    """The sum of that many."""
    total = 0.0
    for i in range(times):
        total += np.log1p(x * i)
    return total


def seconds_of_logarithm() -> float:
    """Of one of many."""
    logarithms(1e-3, 1)
    return best(partial(logarithms, 1e-3, 1_000_000), 5) / 1e6


def starting(report: Report) -> None:
    """Commands that have next to nothing to do, their code compiled before."""
    lines = []
    with TemporaryDirectory() as folder:
        model = str(Path(folder) / "chain.json")
        write_model(make("chain:n=5"), model)
        for title, arguments in (
            ("Python", ["-c", ""]),
            ("with NumPy", ["-c", "import numpy"]),
            ("with numba", ["-c", "import numba"]),
            ("`ucfh --help`", ["-m", "ucfh", "--help"]),
            ("`ucfh plan chain.json`", ["-m", "ucfh", "plan", model]),
            ("`ucfh learn chain:n=5`", ["-m", "ucfh", "learn", "chain:n=5"]),
            ("`ucfh compare chain:n=5`", ["-m", "ucfh", "compare", "chain:n=5", "--episodes=100"]),
        ):
            command = [sys.executable, *arguments]
            run: Any = partial(subprocess.run, command, check=True, capture_output=True)
            run()
            lines.append([title, short(best(run, 5))])
    report.say("## Starting", "", "A process of its own, its code compiled before.")
    report.table(["", "takes"], lines)


def planning(report: Report) -> None:
    """Exact and optimistic plans, against reading the model once a step."""
    lines = []
    for S, H in ((10, 10), (1000, 20), (100_000, 20)):
        mdp = make(RANDOM.format(S, H))
        rng = np.random.default_rng(0)
        table, size = mdp.table, int(mdp.table.indptr[-2])
        n = np.exp(rng.uniform(0, np.log(1e6), table.rows)).astype(int)[table.row_of_entry]
        lo, hi = confidence_set(mdp.p, n, DELTA_1)
        rows: dict[str, Any] = {
            "indptr": table.indptr[:-1], "indices": table.indices[:size],
            "lo": lo[:size], "hi": hi[:size], "rewards": mdp.rewards.pair.reshape(S, 4),
        }  # fmt: skip
        plan = partial(fixed_horizon_evi, horizon=H, **rows)
        reading = partial(read, lo[:size], hi[:size], table.indices[:size], H)
        for f in (mdp.optimal, plan, reading):
            f()  # compiled or loaded
        repeats = max(10, min(1000, int(2e7 / (size * H))))
        exact, one, all_cores, floor = (
            best(f, repeats)
            for f in (mdp.optimal, partial(plan, threads=1), plan, reading)
        )  # fmt: skip
        times = [short(x) for x in (exact, one, all_cores, floor)]
        lines.append([f"S={S} A=4 C=10 H={H}", *times, f"{one / floor:.1f}"])
    report.say("## Planning")
    report.table(
        ["", "exact", "optimistic, one thread", "all cores", "floor: the model read once a step",
         "one thread / floor"], lines,
    )  # fmt: skip


LEARNING: list[Part] = [
    ("gathering what was seen", KnownStateBounds, "take"),
    ("bounds", ValueBounds, "bounds"),
    ("what to explore", ValueBounds, "blame"),
    ("what to explore", ValueBounds, "explore"),
    ("scores", exploration.GapExploration, "_set_scoring_rule"),
]


def learning(report: Report, large: bool = False) -> None:
    """Until a certificate; the large one for some episodes."""
    lines, log = [], seconds_of_logarithm()
    jobs: list[tuple[str, float, int | None]] = [
        ("chain:n=5", 0.1, None),
        (RANDOM.format(100, 10), 0.5, None),
        (RANDOM.format(1000, 10), 0.5, None),
    ]
    if large:
        jobs.append((RANDOM.format(10_000, 20), 0.5, 200_000))
    for name, epsilon, episodes in jobs:
        mdp = make(name)
        simulate(mdp, CertifiedUCFH(mdp.problem, epsilon, 0.1), 3)
        with watching(LEARNING) as clock:
            started = perf_counter()
            run = simulate(mdp, CertifiedUCFH(mdp.problem, epsilon, 0.1), episodes)
            total = perf_counter() - started
        plans = clock.calls["bounds"]
        floor = plans * int(mdp.table.indptr[-2]) * mdp.horizon * log
        lines.append([
            name, f"{run.episodes:,}", str(plans), short(total), short(total / plans),
            shares(clock, total, "walking"), short(floor),
        ])  # fmt: skip
    report.say(
        "## Learning until certified", "",
        "Probability of error 0.1, loss at most 0.1, and 0.5 in random ones.",
    )  # fmt: skip
    report.table(
        ["", "episodes", "plans", "takes", "a plan", "of it",
         "floor: a logarithm for each entry, step and plan"], lines,
    )  # fmt: skip


PRINTED: list[Part] = [
    ("planning", PhasePlanner, "plan"),
    ("confidence sets", UCFH, "_bound"),
    ("which rows are met", bulk, "make_graph"),
    ("drawing", bulk.Graph, "send"),
    ("drawing", bulk.Graph, "split"),
]


def printed(report: Report) -> None:
    """Algorithm 1 to the end of its life, against a draw for each edge once an update."""
    draw = best(partial(np.random.default_rng(0).binomial, 10**9, 0.3, 100_000), 5) / 1e5
    edges: list[int] = []

    def counting(world: Any, rows: Any, live: Any, make_graph: Any = bulk.make_graph) -> Any:
        graph = make_graph(world, rows, live)
        edges.append(len(graph.paths.to))
        return graph

    lines = []
    for name, epsilon in (
        ("tutoring", 0.1), ("grid:rows=4,cols=4", 0.2), (RANDOM.format(100, 10), 0.2)
    ):  # fmt: skip
        mdp = make(name)
        simulate(mdp, UCFH(mdp.problem, epsilon, 0.1), 3)
        edges.clear()
        with patched(bulk, "make_graph", counting), watching(PRINTED) as clock:
            started = perf_counter()
            run = simulate(mdp, UCFH(mdp.problem, epsilon, 0.1))
            total = perf_counter() - started
        lines.append([
            f"{name}, loss {epsilon}", f"{run.episodes:.2g}", str(run.updates), short(total),
            short(total / run.updates), shares(clock, total, "the rest"), short(draw * sum(edges)),
        ])  # fmt: skip
    report.say("## UCFH as printed", "", "To the last update of its policy, in bulk.")
    report.table(
        ["", "episodes", "updates", "takes", "an update", "of it",
         "floor: one draw for each edge and update"], lines,
    )  # fmt: skip


def walking(report: Report) -> None:
    """Agents that may change their policy every episode, against drawing numbers."""
    draw = best(partial(np.random.default_rng(0).random, 1_000_000), 5) / 1e6
    lines = []
    for name, episodes in (
        ("chain:n=5", 100_000), (RANDOM.format(100, 10), 20_000), (RANDOM.format(1000, 10), 2_000)
    ):  # fmt: skip
        mdp = make(name)
        cells = []
        for agent in ("ucb-h", "psrl", "ubev"):
            for most in (3, episodes):  # compiled or loaded by the first
                run = simulate(mdp, make_agent(agent, mdp, 0.1, 0.1, episodes), most)
            cells.append(short(run.seconds / episodes))
        lines.append([name, *cells, short(draw * mdp.horizon)])
    report.say("## Agents that are compared", "", "An episode, its exact value included.")
    report.table(["", "ucb-h", "psrl", "ubev", "floor: a random number for each step"], lines)


def reading(report: Report) -> None:
    """A log of names, read and certified, against reading its cells."""
    lines = []
    for episodes in (2_000, 20_000, 200_000):
        with TemporaryDirectory() as folder:
            path = Path(folder) / "log.csv"
            write_text(path, True, as_csv, episodes)
            found = read_log(path)
            read_it = best(partial(read_log, path), 3)
            certificate_from_log(found, 0.1, None)
            certify = best(partial(certificate_from_log, found, 0.1, None), 3)

            def cells(path: Path = path) -> None:
                with path.open(newline="") as file:
                    for _ in csv.reader(file):
                        pass

            lines.append([
                f"{found.rows:,} rows", short(read_it), short(certify), short(best(cells, 3))
            ])  # fmt: skip
    report.say("## A log", "", "12 states, 3 actions, 5 steps, names in every cell.")
    report.table(["", "reading and checking it", "certifying it", "floor: its cells read"], lines)


def main(report: Report) -> None:
    for part in (starting, planning, printed, walking, reading):
        part(report)
    learning(report, "--large" in sys.argv)


if __name__ == "__main__":
    main(Report())
