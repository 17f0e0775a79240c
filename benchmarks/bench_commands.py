"""How long a person waits: whole commands, kernels compiled before."""

from __future__ import annotations

import subprocess
import sys
from time import perf_counter

COMMANDS = [
    ["--help"],
    ["learn", "--help"],
    ["bounds", "--states=10", "--actions=2", "--horizon=10", "--epsilon=0.1", "--delta=0.05"],
    ["learn", "chain:n=3", "--epsilon=0.5", "--episodes=1000", "--json"],
    ["learn", "hard:n=10,actions=4,horizon=10,gap=0.25", "--epsilon=0.2", "--paper", "--json"],
]


def main() -> None:
    for arguments in COMMANDS:
        times = []
        for _ in range(6):
            started = perf_counter()
            command = [sys.executable, "-m", "ucfh", *arguments]
            subprocess.run(command, check=True, capture_output=True)
            times.append(perf_counter() - started)
        warm = sorted(times[1:])
        print(f"ucfh {' '.join(arguments)}: {warm[2]:.2f} s (best {warm[0]:.2f})", flush=True)


if __name__ == "__main__":
    main()
