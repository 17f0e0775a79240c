"""Logs: how long a process takes to read five million rows, and its memory.

Run from the repository's root: ``python benchmarks/bench_logs.py [episodes]``.
"""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import tempfile
from collections.abc import Callable
from itertools import repeat
from pathlib import Path
from typing import Any

import numpy as np

HORIZON = 5
COLUMNS = ["episode", "t", "state", "action", "reward", "next_state", "done"]
READ = """
import resource, sys
from time import perf_counter, process_time
from ucfh.logs.reading import read_log
started = perf_counter()
log = read_log(sys.argv[1])
seconds = perf_counter() - started
assert log.counted == log.rows, log
memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10
print(f"{log.rows} rows in {seconds:.1f} s (processor {process_time():.1f} s), {memory:.0f} MiB")
"""


def columns_of(names: bool, first: int, n: int) -> list[Any]:
    """The columns of n episodes: numbers, or names and rewards of three digits."""
    rng = np.random.default_rng(first)
    s = rng.integers(0, 12, (n, HORIZON + 1))
    a, r = rng.integers(0, 3, (n, HORIZON)), rng.random((n, HORIZON))
    e, t = np.divmod(np.arange(first * HORIZON, (first + n) * HORIZON), HORIZON)
    before, after = s[:, :-1].ravel().tolist(), s[:, 1:].ravel().tolist()
    if not names:
        rewards = (r.ravel() < 0.3).astype(int).tolist()
        return [e.tolist(), t.tolist(), before, a.ravel().tolist(), rewards, after, repeat("false")]
    topics, actions = [f"topic {i}" for i in range(12)], ["drill", "explain", "rest"]
    return [
        [f"ep-{i:07d}" for i in e.tolist()],
        t.tolist(),
        [topics[i] for i in before],
        [actions[i] for i in a.ravel().tolist()],
        r.ravel().round(3).tolist(),
        [topics[i] for i in after],
        repeat("False"),
    ]


def as_csv(rows: Any) -> str:
    return "".join("%s,%s,%s,%s,%s,%s,%s\n" % row for row in rows)  # noqa: UP031


def as_quoted_csv(rows: Any) -> str:
    return "".join('"%s",%s,"%s, too","%s",%s,"%s, too",%s\n' % row for row in rows)  # noqa: UP031


def as_jsonl(rows: Any) -> str:
    return "".join(f"{json.dumps(dict(zip(COLUMNS, row, strict=True)))}\n" for row in rows)


def write_text(path: Path, names: bool, form: Callable[[Any], str], episodes: int) -> None:
    zipped = path.suffix == ".gz"
    with gzip.open(path, "wt", 1) if zipped else open(path, "w") as file:
        if form is not as_jsonl:
            file.write(",".join(COLUMNS) + "\n")
        for first in range(0, episodes, 10_000):
            columns = columns_of(names, first, min(10_000, episodes - first))
            file.write(form(zip(*columns, strict=False)))


def write_parquet(path: Path, names: bool, episodes: int) -> None:
    import pyarrow
    from pyarrow import parquet

    writer = None
    for first in range(0, episodes, 10_000):
        columns = columns_of(names, first, min(10_000, episodes - first))
        columns[-1] = [False] * len(columns[0])
        table = pyarrow.table(dict(zip(COLUMNS, columns, strict=True)))
        writer = writer or parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    assert writer is not None
    writer.close()


def main(episodes: int = 1_000_000) -> None:
    cases = {
        "numbers": ("log.csv", False, as_csv),
        "names": ("log.csv", True, as_csv),
        "names in quotes, with commas": ("log.csv", True, as_quoted_csv),
        "names, zipped": ("log.csv.gz", True, as_csv),
        "names, JSON lines": ("log.jsonl", True, as_jsonl),
        "names, Parquet": ("log.parquet", True, None),
    }
    for title, (name, names, form) in cases.items():
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / name
            if form is None:
                write_parquet(path, names, episodes)
            else:
                write_text(path, names, form, episodes)
            command = [sys.executable, "-c", READ, str(path)]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(
                f"{title}, {path.stat().st_size / 2**20:.0f} MiB: {done.stdout}", end="", flush=True
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
