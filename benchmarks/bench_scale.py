"""What limits a service: commits, open episodes, tasks, planning; each at two sizes or more.

    PYTHONPATH=tests python benchmarks/bench_scale.py

docs/howto/scale.md says what follows from it. Seconds are the least of several turns, or the
processor's, so that other work on the machine matters little.
"""

from __future__ import annotations

import json
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from threading import Thread
from time import perf_counter, process_time, sleep
from typing import Any
from urllib.request import urlopen

from report import Report, machine

import ucfh
from support.stores import Server
from ucfh.tasks.config import Declaration
from ucfh.tasks.opening import open_store, open_task

GROUPS = (1, 10, 100, 500)
TURNS = 30
OPEN = (100_000, 1_000_000)
TASKS = (1_000, 10_000)
STEPS = (10_000, 100_000)
SIZES = ((12, 3, 8), (100, 4, 10), (500, 4, 20))
"""States, actions and steps of tasks."""
SUCCESSORS = 5
CONNECTIONS = (1, 8, 64, 256)
VIEWERS = (0, 100, 400)
WATCHED = 8.0
"""Seconds."""
DECLARED: dict[str, Any] = {"actions": ["a", "b", "c"], "horizon": 8, "epsilon": 0.4}
STATES = [f"state {s}" for s in range(12)]


def memory() -> float:
    """The most memory that this process had, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def least(call: Callable[[], object], turns: int = TURNS) -> tuple[float, float]:
    """Milliseconds that a call takes, and of these the processor's: the least of several turns."""
    walls, cpus = [], []
    for _ in range(turns):
        began, cpu = perf_counter(), process_time()
        call()
        walls.append(1e3 * (perf_counter() - began))
        cpus.append(1e3 * (process_time() - cpu))
    return min(walls), sorted(cpus)[turns // 4]


class Episodes:
    """Names of episodes that nobody had before, and of those that are open."""

    def __init__(self, task: Any, first: int = 0) -> None:
        self.task, self.begun, self.told, self.draw = task, first, first, Random(0)

    def ask(self, count: int) -> None:
        """Let episodes begin, in one transaction."""
        names = range(self.begun, self.begun + count)
        self.begun += count
        self.task.serve([self.task.asking(self.draw.choice(STATES), k) for k in names])

    def tell(self, count: int) -> None:
        """Tell the first step of the oldest ones, in one transaction."""
        names = range(self.told, self.told + count)
        self.told += count
        state = self.draw.choice(STATES)
        answers = self.task.serve(
            [self.task.telling((k, 0), reward=0.5, state=state) for k in names]
        )
        assert all(isinstance(x, ucfh.Decision) for x in answers)


def groups(store: str) -> list[dict[str, Any]]:
    """Milliseconds of a transaction by the number of its calls."""
    with open_task(store, "groups", **DECLARED, planning="off") as task:
        episodes = Episodes(task)
        episodes.ask(500)
        found = []
        for size in GROUPS:
            ask = least(lambda size=size: episodes.ask(size))  # type: ignore[misc]
            tell = least(lambda size=size: episodes.tell(size))  # type: ignore[misc]
            found.append({"calls": size, "ask": ask, "tell": tell})
        return found


def open_episodes(store: str, count: int) -> dict[str, Any]:
    """A task with that many open episodes: how long calls and looks take."""
    with open_task(store, "open", **DECLARED, timeout=30 * 86400, planning="off") as task:
        episodes, began = Episodes(task), perf_counter()
        while episodes.begun < count:
            episodes.ask(1000)
        filled = perf_counter() - began
        found = {
            "filled": filled,
            "ask 1": least(lambda: episodes.ask(1)),
            "ask 100": least(lambda: episodes.ask(100)),
            "tell 1": least(lambda: episodes.tell(1)),
            "tell 100": least(lambda: episodes.tell(100)),
            "status": least(task.status, 5),
            "view": least(task.view, 5),
            "100 oldest": least(lambda: task.decisions("open", limit=100), 5),
            "heads": least(task.store.progress, 5),
            "expire": least(task.expire, 5),
            "memory": memory(),
        }
        began = perf_counter()
        task.planner.step()
        found["first plan"] = perf_counter() - began
        found["memory with its agent"] = memory()
        return found


def many_tasks(store: str, count: int) -> dict[str, Any]:
    """A store with that many tasks, each with a few episodes."""
    opened, draw = open_store(store, create=True), Random(0)
    began = perf_counter()
    for k in range(count):
        made = Declaration.make(f"task {k}", **DECLARED)
        opened.create(made.name, made.to_json(), made.first_states)
    created = perf_counter() - began
    before = memory()
    kept = [open_task(opened, f"task {k}", planning="off") for k in range(1000)]

    def call() -> None:
        task = draw.choice(kept)
        task.serve([task.asking("x", draw.random().hex())])

    def first_call() -> None:
        with open_task(opened, f"task {draw.randrange(1000, count)}", planning="off") as task:
            task.ask("x", draw.random().hex())

    found = {
        "created": created,
        "ask": least(call),
        "open, ask, close": least(first_call) if count > 1000 else None,
        "heads": least(opened.progress, 5),
        "memory of 1,000 open": memory() - before,
    }
    opened.close()
    return found


def planning(store: str, sizes: list[int], steps: int) -> dict[str, Any]:
    """Seconds of the processor for a plan of a task with S states, A actions, H steps."""
    S, A, H = sizes
    draw, slots = Random(0), 500
    after = [[draw.sample(range(S), min(S, SUCCESSORS)) for _ in range(A)] for _ in range(S)]
    pays = [[draw.random() for _ in range(A)] for _ in range(S)]
    declared: dict[str, Any] = {
        "actions": list(range(A)),
        "horizon": H,
        "epsilon": 0.05 * H,
        "max_return": H,
    }
    with open_task(store, "plan", **declared, planning="off") as task:
        begun, told, following = 0, 0, list[Any]()
        while told < steps:
            calls = list[Any]()
            for decision in following:
                s, a = decision.state, draw.randrange(A)
                reward, state = float(draw.random() < pays[s][a]), draw.choice(after[s][a])
                calls.append(task.telling(decision, reward=reward, state=state))
            told += len(calls)
            for _ in range(slots - len(calls)):
                calls.append(task.asking(draw.randrange(S), begun))
                begun += 1
            following = [x for x in task.serve(calls) if x is not None]
        began = process_time()
        agent = task.planner.agent()
        read = process_time() - began
        planned = min(_seconds(agent.plan) for _ in range(3))
        known = _seconds(lambda: agent.certificate(*task._names(agent.experience.states)))
        return {"read": read, "plan": planned, "report": known, "memory": memory()}


def _seconds(call: Callable[[], object]) -> float:
    began = process_time()
    call()
    return process_time() - began


class Serving:
    """A service on a store, and the processor's time that it takes."""

    def __init__(self, store: str, *options: str) -> None:
        command = [sys.executable, "-m", "ucfh", "serve", store, "--port", "0", *options]
        self._process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._process.stdout is not None
        self.url = self._process.stdout.readline().strip()

    def seconds(self) -> float:
        """The processor's time so far."""
        fields = Path(f"/proc/{self._process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def groups(self) -> tuple[float, float]:
        """Calls that were written so far, and in how many groups."""
        with urlopen(f"{self.url}metrics") as response:
            text = response.read().decode()
        found = dict(re.findall(r"^ucfh_group_calls_(sum|count) (\S+)$", text, re.MULTILINE))
        return float(found["sum"]), float(found["count"])

    def stop(self) -> None:
        """Stop it."""
        self._process.terminate()
        self._process.wait()


def load(service: Serving, connections: int, seconds: float, viewers: int) -> dict[str, float]:
    """What is served, and the processor's time of the service a request, in milliseconds."""
    host, port = service.url.removeprefix("http://").strip("/").split(":")
    given = [host, port, "load", str(connections), str(seconds), str(viewers)]
    began, (calls, written) = service.seconds(), service.groups()
    script = Path(__file__).with_name("load_service.py")
    done = subprocess.run([sys.executable, script, *given], check=True, capture_output=True)
    found: dict[str, float] = json.loads(done.stdout)
    requests = found["requests_per_second"] * seconds
    cpu, (now, then) = service.seconds() - began, service.groups()
    return {**found, "cpu_ms": 1e3 * cpu / requests, "together": (now - calls) / (then - written)}


def requests(store: str) -> dict[str, Any]:
    """Requests by the number of connections; calls in batches; and what viewers cost."""
    declared = {**DECLARED, "actions": [f"action {a}" for a in range(3)]}
    open_task(store, "load", **declared, planning="off").close()
    service = Serving(store, "--no-planning")
    try:
        found: dict[str, Any] = {"alone": [load(service, k, 6.0, 0) for k in CONNECTIONS]}
        with ucfh.connect(service.url, task="load") as task:
            names, began = 0, service.seconds()
            for _ in range(50):
                task.serve([task.asking("state 1", f"b{names + k}") for k in range(100)])
                names += 100
            found["batch"] = 1e3 * (service.seconds() - began) / names
            found["watched"] = []
            for viewers in VIEWERS:
                seconds, sent = watched(service, task, viewers)
                found["watched"].append([viewers, seconds, sent])
        return found
    finally:
        service.stop()


def watched(service: Serving, task: ucfh.RemoteTask, viewers: int) -> tuple[float, float]:
    """The processor's time a second while pages watch a task that changes; views a second."""
    host, port = service.url.removeprefix("http://").strip("/").split(":")
    chosen, sent, going = selectors.DefaultSelector(), [0], True
    for _ in range(viewers):
        page = socket.create_connection((host, int(port)))
        page.sendall(b"GET /v1/tasks/load/events HTTP/1.1\r\nHost: localhost\r\n\r\n")
        chosen.register(page, selectors.EVENT_READ)

    def read() -> None:
        while going:
            for key, _ in chosen.select(0.1):
                sent[0] += key.fileobj.recv(1 << 20).count(b"event: view")  # type: ignore[union-attr]

    thread = Thread(target=read)
    thread.start()
    sleep(1)
    began, cpu, views, k = perf_counter(), service.seconds(), sent[0], 0
    while perf_counter() - began < WATCHED:
        task.abandon(task.ask("state 1", f"v{viewers}-{(k := k + 1)}").episode)
        sleep(0.1)
    took, cpu, views = perf_counter() - began, service.seconds() - cpu, sent[0] - views
    going = False
    thread.join()
    for key in list(chosen.get_map().values()):
        key.fileobj.close()  # type: ignore[union-attr]
    return cpu / took, views / took


def apart(name: str, *given: Any) -> Any:
    """What a function here finds, in a process of its own, as memory is counted by process."""
    code = (
        f"import json, sys, bench_scale as b; print(json.dumps(b.{name}(*json.loads(sys.argv[1]))))"
    )
    command = [sys.executable, "-c", code, json.dumps(given)]
    done = subprocess.run(command, cwd=Path(__file__).parent, check=True, capture_output=True)
    return json.loads(done.stdout)


def shown(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"{value[0]:.2f} ({value[1]:.2f})"
    return "" if value is None else f"{value:.1f}"


def main(report: Report) -> None:
    """Print all tables."""
    report.say(f"By {machine()}.", "")
    with TemporaryDirectory() as folder:
        server = Server({})
        try:
            places = {"SQLite": f"{folder}/service.db", "PostgreSQL": server.address()}
            print_groups(report, {name: apart("groups", at) for name, at in places.items()})
            for name, at in places.items():
                print_requests(report, name, apart("requests", at))
        finally:
            server.remove()
        for title, name, sizes in (
            ("open episodes", "open_episodes", OPEN),
            ("tasks", "many_tasks", TASKS),
        ):
            columns = {size: apart(name, f"{folder}/{name}{size}.db", size) for size in sizes}
            report.say(f"A store with many {title}: milliseconds; memory in MiB, filling in s.")
            keys = list(columns[sizes[0]])
            rows = [[key, *(shown(columns[size][key]) for size in sizes)] for key in keys]
            report.table(["", *(f"{size:,}" for size in sizes)], rows)
        print_planning(report, folder)


def print_groups(report: Report, found: dict[str, Any]) -> None:
    report.say("Milliseconds of a transaction (of these the processor's, of this process).")
    rows = [
        [f"{x['calls']}, {name}", shown(x["ask"]), shown(x["tell"])]
        for name, listed in found.items()
        for x in listed
    ]
    report.table(["calls", "ask", "tell"], rows)


def print_requests(report: Report, name: str, found: dict[str, Any]) -> None:
    report.say(f"Requests of one service, {name}, without planning.")
    head = ["connections", "requests a second", "calls a commit", "processor, ms", "p50, ms"]
    keys = ["requests_per_second", "together", "cpu_ms", "p50_ms", "p99_ms", "errors"]
    rows = [
        [str(k), *(f"{x[key]:.3g}" for key in keys)]
        for k, x in zip(CONNECTIONS, found["alone"], strict=True)
    ]
    report.table([*head, "p99, ms", "errors"], rows)
    report.say(f"A call in a batch of 100: {found['batch']:.3f} ms of the processor.")
    rows = [[f"{x:.0f}", f"{y:.3f}", f"{z:.0f}"] for x, y, z in found["watched"]]
    report.table(["pages that watch", "processor, s a second", "views a second"], rows)


def print_planning(report: Report, folder: str) -> None:
    report.say("Seconds of the processor: read all events, a plan, a report; memory in MiB.")
    rows = []
    for size in SIZES:
        for steps in STEPS:
            found = apart("planning", f"{folder}/{size[0]}-{steps}.db", size, steps)
            figures = [f"{found[key]:.3f}" for key in ("read", "plan", "report")]
            name = "{} states, {} actions, {} steps".format(*size)
            rows.append([name, f"{steps:,}", *figures, f"{found['memory']:.0f}"])
    report.table(["task", "outcomes", "read", "plan", "report", "memory"], rows)


if __name__ == "__main__":
    main(Report())
