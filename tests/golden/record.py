"""Record what the package computes today: ``python tests/golden/record.py`` rewrites the data.

    record.py --check     list all differences from the data, without writing
    record.py --robust    list the runs of agents that tiny changes of their problem alter

A refactoring is right if `test_golden` passes; a field that it renames is one line of ``--check``.
No entry may depend on how sums are rounded: to see it, set ``NUMBA_CPU_NAME=generic``, an empty
``NUMBA_CPU_FEATURES`` and another ``NUMBA_CACHE_DIR`` before ``--check``.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import warnings
from functools import partial
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
if __name__ == "__main__":
    sys.path[0] = str(HERE.parent)

from golden.agents import AGENTS, CONSTANT_ENTRIES  # noqa: E402
from golden.data import ENVIRONMENTS, logs  # noqa: E402
from golden.programs import COMMANDS, TASKS  # noqa: E402
from golden.values import differences, dumps, plain  # noqa: E402

ENTRIES: dict[str, Any] = {
    "constants": CONSTANT_ENTRIES,
    "agents": AGENTS,
    "logs": logs(),
    "environments": ENVIRONMENTS,
    "tasks": TASKS,
    "commands": COMMANDS,
}


def compute(kind: str, name: str) -> Any:
    """Return one entry, computed now in an empty folder."""
    before = os.getcwd()
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        try:
            return plain(ENTRIES[kind][name]())
        finally:
            os.chdir(before)


def recorded(kind: str) -> dict[str, Any]:
    """Return the entries of a kind as they were recorded."""
    data: dict[str, Any] = json.loads((HERE / f"{kind}.json").read_text("utf-8"))
    return data


def check() -> list[str]:
    """Return every difference between the data and what is computed now."""
    now = {kind: {name: compute(kind, name) for name in names} for kind, names in ENTRIES.items()}
    return differences({kind: recorded(kind) for kind in ENTRIES}, now)


def fragile() -> list[str]:
    """Return runs of agents that change if all numbers of their problem change by about 1e-11."""
    out = []
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        os.chdir(folder)
        for name, run in AGENTS.items():
            usual = plain(run())
            others = (plain(partial(run, noise=seed)()) for seed in (1, 2, 3))
            out += [y for x in others for y in differences(usual, x, name, 1e-6)[:1]]
        os.chdir(HERE)
    return out


def main() -> None:
    if "--check" in sys.argv:
        print("\n".join(check()) or "no differences")
    elif "--robust" in sys.argv:
        print("\n".join(fragile()) or "all runs are robust")
    else:
        for kind, names in ENTRIES.items():
            data = {name: compute(kind, name) for name in names}
            (HERE / f"{kind}.json").write_text(dumps(data), "utf-8")
            print(f"{kind}: {len(data)} entries")


if __name__ == "__main__":
    main()
