"""Jobs: what to measure, identified by content and not by their place in a grid.

A job is a measure, its arguments, a replicate (0, 1, ...) and the seed of the whole experiment. Its
id is a digest of these, so that it is done once, however often it is requested. Its own seed is
spawned from them: replicates, and points of a grid, are independent of each other, and stay the
same when a grid gets more points.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from hashlib import sha256
from importlib.metadata import version
from inspect import signature
from pathlib import Path
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ucfh import __version__
from ucfh._support.files import open_bytes
from ucfh.experiments.measures import MEASURES, Values


@dataclass(frozen=True, eq=False)
class Job:
    """One measurement.

    Attributes:
        measure: a name of `MEASURES`.
        arguments: all of them, defaults included.
        replicate: which of several jobs that differ only in the seed.
        root: the seed of the whole experiment.
        label: what the study calls the grid of the job; no part of its identity.

    """

    measure: str
    arguments: Mapping[str, Any]
    replicate: int
    root: int
    label: str = ""

    @cached_property
    def _digest(self) -> str:
        """Digest of measure and arguments; the content of a model's file is one of them."""
        files = {}
        for value in self.arguments.values():
            if isinstance(value, str) and value.endswith((".json", ".npz")):
                with open_bytes(value) as file:
                    files[value] = sha256(file.read()).hexdigest()
        what = [self.measure, dict(self.arguments), files]
        return sha256(json.dumps(what, sort_keys=True).encode()).hexdigest()

    @cached_property
    def id(self) -> str:
        """Sixteen characters."""
        text = f"{self._digest} {self.root} {self.replicate}"
        return sha256(text.encode()).hexdigest()[:16]

    @property
    def seed(self) -> int | None:
        """Random seed of the measure; None if it is not random. Below 2^63."""
        if "seed" not in signature(MEASURES[self.measure]).parameters:
            return None
        spawned = np.random.SeedSequence(
            [self.root, int(self._digest, 16)], spawn_key=(self.replicate,)
        )
        return int(spawned.generate_state(1, np.uint64)[0] >> 1)


class Measurement(NamedTuple):
    """The outcome of a job: values, what they were made with, and how long it took.

    ``values`` is None if the job failed; then ``reason`` says why.
    """

    values: Values | None
    made_with: dict[str, str]
    seconds: float
    reason: str = ""


def do(job: Job) -> Measurement:
    """Do a job, in this process."""
    started = perf_counter()
    seed = job.seed
    own = {} if seed is None else {"seed": seed}
    values, reason = None, ""
    try:
        found = MEASURES[job.measure](**job.arguments, **own)
        json.dumps(found, allow_nan=False)  # values that cannot be stored are a failure of this job
        values = found
    except Exception as error:  # any error: the results of other jobs are kept
        reason = f"{type(error).__name__}: {' '.join(str(error).split())}"
    return Measurement(values, made_with(), perf_counter() - started, reason)


@lru_cache(maxsize=1)
def made_with() -> dict[str, str]:
    """The versions that results depend on, and the commit of the source if it is under git."""
    return {
        "ucfh": __version__,
        "source": _digest_of_source(),
        "python": ".".join(map(str, sys.version_info[:3])),
        "numpy": version("numpy"),
        "numba": version("numba"),
        "commit": _commit(),
    }


def _digest_of_source() -> str:
    """Twelve characters, of the code that a result can depend on; code that shows it is no part."""
    root = Path(__file__).parents[1]
    digest = sha256()
    for path in sorted(root.rglob("*.py")):
        if path.relative_to(root).parts[0] not in ("report", "studies", "commands", "cli.py"):
            digest.update(path.read_bytes())
    return digest.hexdigest()[:12]


def _commit() -> str:
    """The commit of this source, with a + if files were changed since; empty if there is none."""
    here = Path(__file__).parents[1]

    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=here, capture_output=True, text=True, check=True)
        return done.stdout.strip()

    try:
        # a package installed somewhere inside a repository is no part of it
        git("ls-files", "--error-unmatch", "__init__.py")
        changed = git("--no-optional-locks", "status", "--porcelain", "--untracked-files=no", ".")
        return git("rev-parse", "HEAD") + ("+" if changed else "")
    except (OSError, subprocess.CalledProcessError):
        return ""
