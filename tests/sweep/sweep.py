"""The soundness sweep: random models, entry points and options, held against exact truth."""

from __future__ import annotations

import os
import tempfile
import traceback
import warnings
from pathlib import Path
from typing import Any

import numpy as np

from sweep.checks import Result
from sweep.learners import LearnEntry, SimulateEntry
from sweep.logs import LogEntry
from sweep.tasks import HttpEntry, TaskEntry

ENTRIES: dict[str, Any] = {
    entry.name: entry for entry in (SimulateEntry, LearnEntry, LogEntry, TaskEntry, HttpEntry)
}


def run_one(entry: str, seed: int) -> Result:
    """One run of the sweep; what goes wrong is in the result."""
    kind, result = ENTRIES[entry], Result(entry, seed)
    rng = np.random.default_rng([seed, sum(map(ord, entry))])
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory) as folder, warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            kind(rng, Path(folder), result).run()
        except Exception as error:
            trace = traceback.extract_tb(error.__traceback__)
            last = next((x for x in reversed(trace) if "sweep" not in x.filename), trace[-1])
            place = f"{Path(last.filename).name}:{last.lineno}"
            result.errors.append(f"{type(error).__name__}: {error} ({place})")
    return result
