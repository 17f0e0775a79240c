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
import json, resource, sys
from time import perf_counter, process_time
from ucfh.logs.reading import read_log
path, options = sys.argv[1], json.loads(sys.argv[2])
started = perf_counter()
log = read_log(path, **options)
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


def as_dated_csv(rows: Any) -> str:
    """Without next states, and with dates in place of t."""
    days = [f"2024-02-{t + 10}" for t in range(HORIZON)]
    return "".join(f"{e};{days[t]};{s};{a};{r}\n" for e, t, s, a, r, *_ in rows)


def as_parts_csv(rows: Any) -> str:
    """States of two columns, of which one is a number of its own in each row."""
    return "".join(
        f"{e},{t},{s},{i % 9973 / 100},{a},{r},{then},{(i + 1) % 9973 / 100}\n"
        for i, (e, t, s, a, r, then, _) in enumerate(rows)
    )


def as_wide_csv(rows: Any) -> str:
    """A line for each episode."""
    cells = (f"{s},{a},{r}" for _, _, s, a, r, *_ in rows)
    return "".join(",".join(line) + "\n" for line in zip(*[cells] * HORIZON, strict=True))


def as_quoted_csv(rows: Any) -> str:
    return "".join('"%s",%s,"%s, too","%s",%s,"%s, too",%s\n' % row for row in rows)  # noqa: UP031


def as_jsonl(rows: Any) -> str:
    return "".join(f"{json.dumps(dict(zip(COLUMNS, row, strict=True)))}\n" for row in rows)


HEADS: dict[Any, str] = {
    as_dated_csv: "episode;t;state;action;reward\n",
    as_parts_csv: "episode,t,topic,score,action,reward,topic2,score2\n",
    as_wide_csv: ",".join(f"s{t},a{t},r{t}" for t in range(HORIZON)) + "\n",
}
OPTIONS: dict[Any, dict[str, Any]] = {
    as_parts_csv: {
        "columns": {"state": ["topic", "score"], "next_state": ["topic2", "score2"]},
        "bins": {"score": [25, 50, 75]},
        "accept_losses": True,
    },
    as_wide_csv: {"columns": {"state": "s{t}", "action": "a{t}", "reward": "r{t}"}},
}


def write_text(path: Path, names: bool, form: Callable[[Any], str], episodes: int) -> None:
    zipped = path.suffix == ".gz"
    with gzip.open(path, "wt", 1) if zipped else open(path, "w") as file:
        file.write(HEADS.get(form, "" if form is as_jsonl else ",".join(COLUMNS) + "\n"))
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
    cases: dict[str, tuple[str, bool, Any]] = {
        "numbers": ("log.csv", False, as_csv),
        "names": ("log.csv", True, as_csv),
        "names in quotes, with commas": ("log.csv", True, as_quoted_csv),
        "names, zipped": ("log.csv.gz", True, as_csv),
        "names, JSON lines": ("log.jsonl", True, as_jsonl),
        "names, Parquet": ("log.parquet", True, None),
        "dates, no next states, semicolons": ("log.csv", True, as_dated_csv),
        "states of two columns, one in bins": ("log.csv", True, as_parts_csv),
        "a line an episode": ("log.csv", True, as_wide_csv),
    }
    for title, (name, names, form) in cases.items():
        with tempfile.TemporaryDirectory() as directory:
            path = Path(directory) / name
            if form is None:
                write_parquet(path, names, episodes)
            else:
                write_text(path, names, form, episodes)
            options = json.dumps(OPTIONS.get(form, {}))
            command = [sys.executable, "-c", READ, str(path), options]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(
                f"{title}, {path.stat().st_size / 2**20:.0f} MiB: {done.stdout}", end="", flush=True
            )


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
