"""All benchmarks, one after the other; figures are for one machine, ratios travel better."""

from __future__ import annotations

import platform

import bench_commands
import bench_sampling
import bench_simulation


def main() -> None:
    print(f"{platform.processor() or platform.machine()}, Python {platform.python_version()}")
    for title, module in (
        ("commands", bench_commands),
        ("sampling", bench_sampling),
        ("simulation", bench_simulation),
    ):
        print(f"\n== {title}")
        module.main()


if __name__ == "__main__":
    main()
