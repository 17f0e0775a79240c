"""The service under load from another process, beside the same calls without HTTP.

Episodes are simulated over K connections, as fast as they are answered; the best K is held for a
minute, alone and with pages that watch. Decisions are on disk before they are answered.

    python bench_service.py [STORE] [SECONDS]
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from time import perf_counter, sleep
from typing import Any
from urllib.error import URLError
from urllib.request import urlopen

from load_service import ACTIONS, HORIZON, STATES, World
from report import Report

import ucfh

HERE = Path(__file__).parent
SECONDS, SHORT = 60.0, 5.0
CONNECTIONS = (1, 8, 16, 32, 64, 128)
VIEWERS = 200
DECLARED: dict[str, Any] = {
    "actions": [f"action {a}" for a in range(ACTIONS)],
    "horizon": HORIZON,
    "epsilon": 0.2,
    "max_return": HORIZON,
}


class ServiceProcess:
    """``ucfh serve`` on a store, ready for requests."""

    def __init__(self, store: str, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "ucfh", "serve", store, "--port", "0", *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()
        while not self._ready():
            sleep(0.1)

    def _ready(self) -> bool:
        try:
            with urlopen(f"{self.url}readyz"):
                return True
        except URLError:
            return False

    def load(self, task: str, connections: int, seconds: float, viewers: int) -> dict[str, Any]:
        """Figures of some seconds of load; "cpu": the share of a core that the service used."""
        host, port = self.url.removeprefix("http://").rstrip("/").split(":")
        given = map(str, (host, port, task, connections, seconds, viewers))
        before = self._cpu()
        done = subprocess.run(
            [sys.executable, HERE / "load_service.py", *given],
            stdout=subprocess.PIPE,
            check=True,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        return {**found, "cpu": (self._cpu() - before) / seconds}

    def _cpu(self) -> float:
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(") ")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self) -> None:
        self._process.send_signal(signal.SIGTERM)
        assert self._process.wait(60) == 0


def in_process(store: str, name: str, seconds: float, together: int) -> float:
    """Decisions a second of the same episodes by `Task.serve`, some calls at a time."""
    world, draw, count, decisions = World(), Random(0), 0, 0
    with ucfh.open_task(store, name, **DECLARED, planning="off") as task:
        open_ones: list[tuple[Any, int]] = []
        began = perf_counter()
        while perf_counter() - began < seconds:
            calls, states = list[Any](), list[int]()
            for decision, state in open_ones:
                pair = state, int(decision.action[7:])
                following = draw.choice(world.following[pair])
                calls.append(
                    task.telling(decision, reward=world.paid[pair], state=f"state {following}")
                )
                states.append(following)
            for _ in range(together - len(open_ones)):
                state, count = draw.randrange(STATES), count + 1
                calls.append(task.asking(f"state {state}", f"own-{count}"))
                states.append(state)
            answers = task.serve(calls)
            open_ones = [(x, s) for x, s in zip(answers, states, strict=True) if x is not None]
            decisions += len(open_ones)
        return decisions / (perf_counter() - began)


def main(report: Report, store: str | None = None, seconds: float = SECONDS) -> None:
    report.say("## The service", "")
    with TemporaryDirectory() as folder:
        store = store or f"{folder}/tasks.db"
        for name in ("alone", "watched", "planned"):
            ucfh.open_task(store, name, **DECLARED, planning="off").close()
        one, many = (in_process(store, f"own {k}", SHORT, k) for k in (1, 32))
        report.say(
            f"Without HTTP: {one:,.0f} decisions a second one by one, {many:,.0f} with 32 calls a "
            "commit.",
            "",
        )
        service = ServiceProcess(store, "--no-planning")
        tried = {k: service.load("alone", k, SHORT, 0) for k in CONNECTIONS}
        best = max(tried, key=lambda k: float(tried[k]["decisions_per_second"]))
        lines = [(f"{k} connections, {SHORT:g} s", found) for k, found in tried.items()]
        lines.append(
            (f"{best} connections, {seconds:g} s", service.load("alone", best, seconds, 0))
        )
        watched = service.load("watched", best, seconds, VIEWERS)
        lines.append((f"the same, {VIEWERS} pages watch", watched))
        service.end()
        service = ServiceProcess(store)
        lines.append(("the same, and it plans", service.load("planned", best, seconds, 0)))
        service.end()
    report.say(
        "| over HTTP | decisions/s | p50 ms | p99 ms | longest ms | errors | views/s | cores |",
        "|---|---|---|---|---|---|---|---|",
    )
    for what, x in lines:
        figures = (
            f"{x['decisions_per_second']:,.0f}", f"{x['p50_ms']:.1f}", f"{x['p99_ms']:.1f}",
            f"{x['max_ms']:.0f}", str(x["errors"]), f"{x['views_per_second']:.0f}",
            f"{x['cpu']:.2f}",
        )  # fmt: skip
        report.say(f"| {what} | {' | '.join(figures)} |")
    report.say("")


if __name__ == "__main__":
    where = sys.argv[1] if len(sys.argv) > 1 else None
    main(Report(), where, float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)
