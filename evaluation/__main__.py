"""Run studies and write the report.

    python -m evaluation                     all studies, then the report (about half an hour)
    python -m evaluation --quick             smaller grids: a minute or two
    python -m evaluation mistakes claims     some studies: tables on the terminal, and figures

Results are kept as they complete: after an interruption, the same command continues.
"""

from __future__ import annotations

import sys
from argparse import ArgumentParser, RawDescriptionHelpFormatter
from concurrent.futures import BrokenExecutor
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from types import ModuleType

from evaluation import grid
from evaluation.plotting import Analysis
from evaluation.report import write_figures, write_report

STUDIES = (
    "mistakes", "scaling", "conditions", "baselines", "certificates", "stopping_rules",
    "stationarity", "claims", "knownness",
)  # fmt: skip

KEPT = "Completed jobs are kept: run again to continue"


def main(arguments: list[str] | None = None) -> int:
    """Run the command line and return its exit code: 1 if a job failed, 130 after Ctrl-C."""
    parser = ArgumentParser(
        "evaluation", description=__doc__, formatter_class=RawDescriptionHelpFormatter
    )
    parser.add_argument("studies", nargs="*", metavar="STUDY", help=", ".join(STUDIES))
    parser.add_argument("--quick", action="store_true", help="run the smaller grids")
    parser.add_argument("--out", type=Path, help="folder of results (results, or results/quick)")
    parser.add_argument("--seed", type=int, default=0, help="root of all random seeds (0)")
    parser.add_argument("--workers", type=int, help="number of processes (one per core)")
    parser.add_argument("--cluster", metavar="ADDRESS", help="Dask scheduler that runs the jobs")
    given = parser.parse_args(arguments)
    unknown = set(given.studies) - set(STUDIES)
    if unknown:
        parser.error(f"unknown study {min(unknown)}. Fix: name one of {', '.join(STUDIES)}")
    out = given.out or Path("results/quick" if given.quick else "results")
    names = given.studies or STUDIES
    studies = {name: import_module(f"evaluation.{name}") for name in names}
    try:
        with grid.open_executor(given.workers, given.cluster) as executor:
            failures = [
                failure
                for name, study in studies.items()
                for failure in grid.run(
                    _jobs(study, given.quick, given.seed), out / f"{name}.jsonl", executor
                )
            ]
    except KeyboardInterrupt:
        print(f"interrupted. {KEPT}", file=sys.stderr)
        return 130
    except BrokenExecutor:
        print(f"a worker process died, perhaps out of memory. {KEPT}", file=sys.stderr)
        return 1
    if failures:
        print(*failures[:5], f"{len(failures)} jobs failed", sep="\n", file=sys.stderr)
        return 1
    analyses: dict[str, Analysis] = {}
    for name, study in studies.items():
        jobs = _jobs(study, given.quick, given.seed)
        analyses[name] = study.analyze(grid.results(jobs, out / f"{name}.jsonl"))
        write_figures(analyses[name], out)
    if given.studies:
        for name, analysis in analyses.items():
            for title, table in analysis.tables.items():
                print(f"\n{name}: {title}\n{table.to_string(index=False)}")
    else:
        records = [x for name in names for x in grid.read(out / f"{name}.jsonl").values()]
        print(write_report(analyses, out, given.quick, given.seed, records))
    return 0


def _jobs(study: ModuleType, quick: bool, seed: int) -> list[grid.Job]:
    return [replace(job, root_seed=seed) for job in study.jobs(quick)]


if __name__ == "__main__":
    sys.exit(main())
