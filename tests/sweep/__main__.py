"""The command line of the sweep."""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from sweep.sweep import ENTRIES, RUNS, report_of, run_all, run_one


def main() -> int:
    """Run the sweep, or one run of it again."""
    parser = argparse.ArgumentParser(prog="sweep", description=__doc__)
    parser.add_argument("--entry", choices=ENTRIES, help="one entry point only")
    parser.add_argument("--seed", type=int, help="one run only")
    parser.add_argument("--runs", type=int, help="number of runs in total")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    if given.seed is not None:
        result = run_one(given.entry or "log", given.seed)
        for name, value in vars(result).items():
            print(f"{name:>10}  {value}")
        return int(bool(result.errors))
    runs = RUNS if given.entry is None else {given.entry: RUNS[given.entry]}
    if given.runs is not None:
        total = sum(runs.values())
        runs = {entry: -(-count * given.runs // total) for entry, count in runs.items()}
    begun = time.perf_counter()
    results, cases = run_all(runs, given.workers)
    report = report_of(results, cases)
    print(report.text)
    found = Counter((x.entry, x.certified) for x in results)
    shares = [f"{entry} {found[entry, True]} of {runs[entry]}" for entry in runs]
    print(f"certified: {', '.join(shares)}")
    print(f"{time.perf_counter() - begun:.0f} seconds; {'passed' if report.passed else 'FAILED'}")
    return int(not report.passed)


if __name__ == "__main__":
    sys.exit(main())
