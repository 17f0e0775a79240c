"""All benchmarks, one after the other; figures are for one machine, ratios travel better.

Those of the planner, of agents, of starting and of live tasks go to BENCHMARKS.md too.
"""

from __future__ import annotations

from pathlib import Path

import bench_agents
import bench_bounds
import bench_commands
import bench_planning
import bench_replanning
import bench_sampling
import bench_service
import bench_simulation
import bench_start
import bench_tasks
from report import Report, machine


def main() -> None:
    report = Report()
    report.say("# Benchmarks", "", f"By `make bench` on {machine()}.", "")
    for module in (
        bench_planning, bench_replanning, bench_bounds, bench_agents, bench_start, bench_tasks,
        bench_service,
    ):  # fmt: skip
        module.main(report)
    report.write(Path(__file__).parents[1] / "BENCHMARKS.md")
    for title, other in (
        ("commands", bench_commands.main),
        ("sampling", lambda: bench_sampling.main(1_000_000)),
        ("simulation", bench_simulation.main),
    ):
        print(f"\n== {title}")
        other()


if __name__ == "__main__":
    main()
