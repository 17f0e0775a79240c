"""The soundness sweep: random models, entry points and options, held against exact truth.

    PYTHONPATH=tests python -m sweep                          20,000 runs, and a table
    PYTHONPATH=tests python -m sweep --entry log --seed 123   one run again, with all that it found

Every declaration is true of the model, and all data respect the assumptions that a certificate
prints. So a claim is false with probability delta at most, and no number contradicts another one.

**Pass criterion.** A cell is an entry point, or a value of one of its options, at one delta. If all
rates are at most their limits (delta; for refuted assumptions delta + 0.01, the level of the
assumption checks), then the sweep fails with probability at most 1e-4, half of which is spent on
each of two tests. Cells: a count exceeds its binomial quantile, at a level divided by the number of
tests. Cases: every run that shows a false claim is repeated with other data, up to 40 times; the
rate of its own model and declarations is held against the limit in the same way. So a rare
combination that is always wrong does not hide behind others. Errors have no threshold: any fails.

**Suspicious cells.** Bounds are conservative, and most rates are near 0. Cells whose rate is
significantly (5% in total) above a tenth of the limit are listed for people to look at.
"""

from __future__ import annotations

import os
import sys
import tempfile
import traceback
import warnings
from collections import defaultdict
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy import stats

from sweep.agents import LearnEntry, SimulateEntry
from sweep.checks import Result
from sweep.logs import LogEntry
from sweep.tasks import HttpEntry, TaskEntry, end_server

ENTRIES: dict[str, Any] = {
    entry.name: entry for entry in (SimulateEntry, LearnEntry, LogEntry, TaskEntry, HttpEntry)
}
RUNS = {"simulate": 4000, "learn": 3000, "log": 9000, "task": 3000, "http": 1000}
"""Runs of each entry point in `make verify`."""
FALSE_ALARM = 1e-4
SUSPICION = 0.05
ALPHA = 0.01
"""Level of the assumption checks."""
FEWEST_REPEATS, MOST_REPEATS = 6, 40
"""How often a run with a false claim is repeated."""
LEAST_CASES = 300
"""More false claims than a sweep shows by chance; for thresholds that do not depend on luck."""
BLOCK = 50
"""Runs that a process takes at a time."""


def run_one(entry: str, seed: int, repeat: int = 0) -> Result:
    """One run of the sweep; all that goes wrong is in the result.

    ``repeat``: other data of the same model with the same declarations.
    """
    kind, result = ENTRIES[entry], Result(entry, seed)
    rng = np.random.default_rng([seed, sum(map(ord, entry))])
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            made = kind(rng, Path(folder), result)
            if repeat:
                other = np.random.default_rng([seed, sum(map(ord, entry)), repeat])
                rng.bit_generator.state = other.bit_generator.state
            made.run()
        except Exception as error:
            place = traceback.extract_tb(error.__traceback__)[-1]
            said = str(error).replace(folder, "FOLDER")
            where = f"{Path(place.filename).name}:{place.lineno}"
            result.errors.append(f"{type(error).__name__}: {said} ({where})")
    return result


def run_block(entry: str, first: int, last: int) -> list[Result]:
    """Runs with the seeds from ``first`` up to ``last``."""
    try:
        return [run_one(entry, seed) for seed in range(first, last)]
    finally:
        end_server()


def run_all(runs: dict[str, int], workers: int) -> tuple[list[Result], list[Case]]:
    """The runs of each entry point, in several processes; and those repeated that look wrong."""
    blocks = [
        (entry, first, min(first + BLOCK, count))
        for entry, count in runs.items()
        for first in range(0, count, BLOCK)
    ]
    with ProcessPoolExecutor(workers) as pool:
        jobs, results = [pool.submit(run_block, *block) for block in blocks], list[Result]()
        for job in jobs:
            results += job.result()
            print(f"\r{len(results):,} runs", end="", file=sys.stderr, flush=True)
        wrong = [x for x in results if x.violations or x.behavior or x.refuted]
        cases = [case for found in pool.map(repeat_case, wrong) for case in found]
    return results, cases


class Cell(NamedTuple):
    """Number of failures in one cell.

    Attributes:
        entry, option, value, delta: the cell; option and value are "" for the whole entry point.
        runs: how many there are.
        violations, behavior, refuted: how many of them had some.
        errors: how many had an error.

    """

    entry: str
    option: str
    value: str
    delta: float
    runs: int
    violations: int
    behavior: int
    refuted: int
    errors: int

    def rates(self) -> Iterator[tuple[str, int, float]]:
        """Return the counted event, its share, and its limit."""
        yield "violations", self.violations, self.delta
        yield "behavior", self.behavior, self.delta
        yield "refuted", self.refuted, min(1.0, self.delta + ALPHA)

    def __str__(self) -> str:
        return f"{self.entry} {self.option} {self.value} delta {self.delta}".replace("  ", " ")


def cells_of(results: Iterable[Result]) -> list[Cell]:
    """All cells, the entry points first."""
    groups: dict[tuple[str, str, str, float], list[Result]] = defaultdict(list)
    for x in results:
        for option, value in [("", ""), *x.labels.items()]:
            groups[x.entry, option, value, x.delta].append(x)
    return [
        Cell(
            *key,
            len(group),
            sum(bool(x.violations) for x in group),
            sum(bool(x.behavior) for x in group),
            sum(bool(x.refuted) for x in group),
            sum(bool(x.errors) for x in group),
        )
        for key, group in sorted(groups.items())
    ]


def exceeding(cells: list[Cell], level: float, share: float = 1.0) -> list[tuple[Cell, str, int]]:
    """Cells with a rate significantly above ``share`` of its limit, at a level for all at once."""
    tests = [(cell, *rate) for cell in cells for rate in cell.rates()]
    return [
        (cell, what, count)
        for cell, what, count, limit in tests
        if stats.binom.sf(count - 1, cell.runs, share * limit) < level / len(tests)
    ]


def upper_bound(count: int, runs: int) -> float:
    """The exact (Clopper-Pearson) upper bound of a rate, with 95% confidence."""
    return 1.0 if count == runs else float(stats.beta.ppf(0.95, count + 1, runs - count))


class Case(NamedTuple):
    """A run with a false claim, repeated with other data: how often the claim was false again."""

    entry: str
    seed: int
    delta: float
    what: str
    times: int
    repeats: int
    chance: float

    def __str__(self) -> str:
        return (
            f"--entry {self.entry} --seed {self.seed}: delta {self.delta}: {self.what} in "
            f"{self.times} of {self.repeats} repetitions"
        )


def repeat_case(x: Result) -> list[Case]:
    """Repeat a run that shows false claims; the repetitions stop early if they are rarely false."""
    out = []
    limits = {"violations": x.delta, "behavior": x.delta, "refuted": x.delta + ALPHA}
    shown = {what: limit for what, limit in limits.items() if getattr(x, what)}
    counts, n = dict.fromkeys(shown, 0), 0
    while shown and n < MOST_REPEATS:
        n += 1
        again = run_one(x.entry, x.seed, n)
        for what in shown:
            counts[what] += bool(getattr(again, what))
        if n >= FEWEST_REPEATS and all(counts[w] <= n * limit for w, limit in shown.items()):
            break
    end_server()
    for what, limit in shown.items():
        chance = float(stats.binom.sf(counts[what] - 1, n, limit)) if n == MOST_REPEATS else 1.0
        out.append(Case(x.entry, x.seed, x.delta, what, counts[what], n, chance))
    return out


def failing(cases: list[Case]) -> list[Case]:
    """The cases whose rate is significantly above its limit."""
    return [x for x in cases if x.chance < FALSE_ALARM / 2 / max(len(cases), LEAST_CASES)]


class Report(NamedTuple):
    """The outcome of a sweep: whether it passes, and the text that says why."""

    passed: bool
    text: str


def report_of(results: list[Result], cases: list[Case], options: bool = True) -> Report:
    """The table of a sweep, what fails, and what is suspicious; with seeds to run again."""
    cells = cells_of(results)
    lines = [
        f"Soundness sweep: {len(results):,} runs, {sum(x.looks for x in results):,} certificates",
        f"{'entry point / option value':44} delta   runs  wrong  bound  behav.  refut.  errors",
    ]
    for cell in sorted(cells, key=lambda x: (x.option != "", *x[:3], -x.delta)):
        if cell.option and not options:
            continue
        name = f"  {cell.option} = {cell.value}" if cell.option else ""
        lines.append(
            f"{cell.entry + name:44.44} {cell.delta:5g} {cell.runs:6} {cell.violations:6} "
            f"{upper_bound(cell.violations, cell.runs):6.4f} {cell.behavior:7} {cell.refuted:7} "
            f"{cell.errors:7}"
        )
    failed, always = exceeding(cells, FALSE_ALARM / 2), failing(cases)
    lines.append(f"cells above their limit: {len(failed) or 'none'}")
    lines += [f"  {cell}: {what} {count} of {cell.runs}" for cell, what, count in failed]
    lines.append(f"cases above their limit: {len(always) or 'none'} of {len(cases)} repeated")
    lines += [f"  {x}" for x in always]
    often = [x for x in cases if x.repeats == MOST_REPEATS and x not in always]
    lines += [f"  perhaps: {x}" for x in often]
    suspicious = exceeding(cells, SUSPICION, 0.1)
    lines.append(f"cells above a tenth of their limit: {len(suspicious) or 'none'}")
    lines += [f"  {cell}: {what} {count} of {cell.runs}" for cell, what, count in suspicious]
    wrong = [x for x in results if x.errors]
    lines.append(f"runs with errors: {len(wrong) or 'none'}")
    for x in [*wrong[:20], *(x for x in results if x.violations)][:60]:
        said = (x.errors or x.violations)[0]
        lines.append(f"  --entry {x.entry} --seed {x.seed}: delta {x.delta}: {said}"[:300])
    return Report(not failed and not always and not wrong, "\n".join(lines))
