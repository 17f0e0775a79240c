"""What the benchmarks say, printed as it comes and kept for BENCHMARKS.md."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from time import perf_counter


def best(f: Callable[[], object], repeats: int) -> float:
    """The least seconds that f took."""
    return best_of([f], repeats)[0]


def best_of(functions: Sequence[Callable[[], object]], repeats: int) -> list[float]:
    """The least seconds that each took, in turns: what disturbs one disturbs all."""
    least = [float("inf")] * len(functions)
    for _ in range(repeats):
        for i, f in enumerate(functions):
            started = perf_counter()
            f()
            least[i] = min(least[i], perf_counter() - started)
    return least


def machine() -> str:
    """Processor, cores and versions."""
    name = platform.machine()
    if Path("/proc/cpuinfo").exists():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        name = next((x.split(":")[1].strip() for x in lines if x.startswith("model name")), name)
    used = ", ".join(f"{package} {version(package)}" for package in ("numpy", "numba"))
    return f"{name}, {os.cpu_count()} cores; Python {platform.python_version()}, {used}"


class Report:
    """Lines of Markdown."""

    def __init__(self) -> None:
        self.lines: list[str] = []

    def say(self, *lines: str) -> None:
        """Print lines, and keep them."""
        for line in lines:
            print(line, flush=True)
        self.lines += lines

    def table(self, head: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
        """A table, with empty lines around it."""
        self.say("", "| " + " | ".join(head) + " |", "|---" * len(head) + "|")
        self.say(*("| " + " | ".join(row) + " |" for row in rows), "")

    def write(self, path: Path) -> None:
        """Keep it as a file."""
        path.write_text("\n".join(self.lines).rstrip() + "\n")
