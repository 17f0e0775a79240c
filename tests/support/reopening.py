"""Programs that open one store several times in a process, and what they lose.

    status  two tasks of one store; ``ucfh task status`` in another process; kill -9
    visit   the same, with a process that only opens and closes the task
    shell   two tasks of one store, while a shell runs ``ucfh ask`` and ``ucfh tell``
    web     2 processes x 4 threads, each opens the task anew for every request

Every acknowledged call is written to a ledger before the next one. `trial` runs one program on a
new store and compares the ledgers with the store afterwards.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Thread
from typing import Any, NamedTuple

import ucfh
from support.settings import TESTS

DECLARED: dict[str, Any] = {
    "actions": ["a", "b"], "horizon": 2, "epsilon": 0.5, "planning": "off",
}  # fmt: skip
TASKS = ("calls", "mails")
THREADS = 4
REQUESTS = {"status": 0, "visit": 0, "shell": 3, "web": 60}
"""Episodes of the shell, and of each thread of the web application."""


class Trial(NamedTuple):
    """The result of a run.

    Attributes:
        acknowledged, lost: calls that returned, and those of them that the store does not hold.
        errors: messages of the exceptions that calls raised.
        damage: problems that `Task.check` finds in the store afterwards.

    """

    acknowledged: int
    lost: int
    errors: list[str]
    damage: list[str]

    @property
    def clean(self) -> bool:
        """Return whether nothing was lost, raised or damaged."""
        return not self.lost and not self.errors and not self.damage


class Ledger:
    """A file of acknowledged calls: (task, episode, kind), kind 0 for ask and 1 for tell."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)

    def note(self, *line: Any) -> None:
        os.write(self._file, f"{json.dumps(line)}\n".encode())


def command(*words: str) -> subprocess.CompletedProcess[str]:
    """Run ``ucfh`` as a shell does."""
    return subprocess.run(
        [sys.executable, "-m", "ucfh", *words], capture_output=True, text=True, check=False
    )


def visit(store: str) -> None:
    """Open and close a store in another process: the least that any command does."""
    code = f"import ucfh; ucfh.open_task({store!r}, 'calls', planning='off').close()"
    subprocess.run([sys.executable, "-c", code], check=True)


def serve_two(ledger: Ledger, first: int, last: int, tasks: Any) -> None:
    """Ask, and tell, in both tasks."""
    for k in range(first, last):
        for name, task in zip(TASKS, tasks, strict=True):
            decision = task.ask("s", f"{name}-{k}")
            ledger.note(name, f"{name}-{k}", 0)
            task.tell(decision, reward=1, done=True)
            ledger.note(name, f"{name}-{k}", 1)


def run_status(store: str, ledger: Ledger, look: Any = None) -> None:
    """Two tasks; another process looks at the store; further calls; kill -9."""
    tasks = [ucfh.open_task(store, name, **DECLARED) for name in TASKS]
    serve_two(ledger, 0, 1, tasks)
    (look or (lambda path: command("task", "status", path, "--task", "calls")))(store)
    try:
        serve_two(ledger, 1, 6, tasks)
    except ucfh.InputError as error:
        ledger.note("error", str(error))
    os.kill(os.getpid(), signal.SIGKILL)


def run_shell(store: str, ledger: Ledger, episodes: int) -> None:
    """Two tasks that go on until the shell has finished."""
    tasks = [ucfh.open_task(store, name, **DECLARED) for name in TASKS]
    serve_two(ledger, 0, 5, tasks)
    shell = Thread(target=_shell, args=(store, ledger, episodes))
    shell.start()
    k = 5
    while shell.is_alive():
        serve_two(ledger, k, k + 1, tasks)
        k += 1
        time.sleep(0.002)
    for task in tasks:
        task.close()


def _shell(store: str, ledger: Ledger, episodes: int) -> None:
    for k in range(episodes):
        name = f"shell-{k}"
        given = ("--episode", name, "--task", "calls")
        for kind, words in enumerate(
            (("ask", store, "s"), ("tell", store, "--step", "0", "--reward", "1", "--done"))
        ):
            done = command(*words, *given)
            if done.returncode == 0:
                ledger.note("calls", name, kind)
            else:
                ledger.note("error", done.stderr.strip()[:300])


def run_web(store: str, ledger: Ledger, requests: int) -> None:
    """Threads that open the task anew for every request."""

    def work(thread: int) -> None:
        for k in range(requests):
            name = f"{os.getpid()}-{thread}-{k}"
            try:
                with ucfh.open_task(store, "calls", **DECLARED) as task:
                    decision = task.ask("s", name)
                    ledger.note("calls", name, 0)
                with ucfh.open_task(store, "calls", **DECLARED) as task:
                    task.tell(decision, reward=1, done=True)
                    ledger.note("calls", name, 1)
            except ucfh.InputError as error:
                ledger.note("error", str(error))
                return

    threads = [Thread(target=work, args=(i,)) for i in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def held(store: str, ledgers: list[Path]) -> Trial:
    """Compare ledgers with a store."""
    lines = [json.loads(x) for path in ledgers for x in path.read_text().splitlines()]
    errors = [line[1] for line in lines if line[0] == "error"]
    acknowledged = {tuple(line) for line in lines if line[0] != "error"}
    there: set[tuple[str, str, int]] = set()
    damage = []
    for name in sorted({line[0] for line in acknowledged}):
        try:
            with ucfh.open_task(store, name, planning="off") as task:
                for x in task.decisions("all"):
                    there.add((name, x["episode"], 0))
                    if x["status"] == "told":
                        there.add((name, x["episode"], 1))
                damage += task.check()
        except Exception as error:  # a damaged store may lead to any
            damage.append(f"{type(error).__name__}: {error}")
    return Trial(len(acknowledged), len(acknowledged - there), errors, damage)


def trial(scenario: str, folder: Path, requests: int | None = None) -> Trial:
    """Run a program on a new store in a folder."""
    requests = REQUESTS[scenario] if requests is None else requests
    store = str(folder / "store.db")
    count = 2 if scenario == "web" else 1
    for name in TASKS[: 3 - count]:
        ucfh.open_task(store, name, **DECLARED).close()
    ledgers = [folder / f"ledger{i}" for i in range(count)]
    words = [sys.executable, "-m", "support.reopening", scenario, store, str(requests)]
    path = os.pathsep.join([str(TESTS), os.environ.get("PYTHONPATH", "")])
    children = [
        subprocess.Popen(
            [*words, str(x)], stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": path}
        )
        for x in ledgers
    ]
    said = [child.communicate()[1].decode().strip() for child in children]
    found = held(store, ledgers)
    return found._replace(errors=[*found.errors, *(x.splitlines()[-1] for x in said if x)])


def main(scenario: str, store: str, requests: str, path: str) -> None:
    """Run a program as a child process."""
    ledger = Ledger(path)
    if scenario == "status":
        run_status(store, ledger)
    elif scenario == "visit":
        run_status(store, ledger, visit)
    elif scenario == "shell":
        run_shell(store, ledger, int(requests))
    else:
        run_web(store, ledger, int(requests))


if __name__ == "__main__":
    main(*sys.argv[1:])
