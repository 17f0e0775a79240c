"""Clients of one store that are killed again and again, and what has to be true whatever happens.

A client is a worker with a ledger: a file to which it adds what it was told, synchronized with the
disk, before it goes on. It begins by reading that, so that a dead worker's successor
knows what the dead one knew and no more: it asks or tells again what may have been under way.
What comes of a decision is a function of it, so that telling it again is telling the same.

Processes are forked from one that has loaded all code, which makes them cheap:
``python -m support.crashing`` reads "start STORE LEDGER WORKER HOW" and "kill PID".
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
import traceback
from collections import Counter
from contextlib import closing
from math import inf
from pathlib import Path
from queue import Queue
from random import Random
from threading import Thread
from types import TracebackType
from typing import Any

import ucfh
from ucfh.tasks.errors import Conflict, EpisodeOver
from ucfh.tasks.opening import open_store
from ucfh.tasks.postgres import PostgresStore
from ucfh.tasks.sql_reading import SqlStore
from ucfh.tasks.sql_transaction import SqlTransaction
from ucfh.tasks.sqlite import SqliteStore
from ucfh.tasks.store import TaskStore, Transaction
from ucfh.tasks.task import Task

HORIZON, OPEN = 5, 20
DECLARED: dict[str, Any] = {
    "actions": ["wait", "call", "mail"], "horizon": HORIZON, "epsilon": 0.2, "rewards": (-1.0, 1.0)
}  # fmt: skip
LEASE = 0.5
TASK = 1
"""The number of the task."""


def start_of(episode: str) -> str:
    """The state in which an episode begins."""
    return f"s{Random(episode).randrange(4)}"


def outcome(episode: str, t: int, state: str, action: str) -> dict[str, Any]:
    """Return the outcome of a decision: always the same."""
    draw = Random(f"{episode} {t} {state} {action}")
    done = draw.random() < 0.1
    # states that are found late, by several clients at once
    after = f"s{draw.randrange(4)}" if draw.random() < 0.9 else f"rare{draw.randrange(400)}"
    reward = round(draw.uniform(-1, 1), 2) + 0.0  # no -0.0
    return {"reward": reward, "state": None if done else after, "done": done}


class Client:
    """A worker that goes on where its ledger ends."""

    def __init__(self, store: str, ledger: str, worker: int) -> None:
        self.worker, self.begun = worker, 0
        self.draw = Random(f"{worker} {time.time_ns()}")
        self.open: dict[str, dict[str, Any]] = {}  # the last decision of each episode
        self.telling: set[tuple[str, int]] = set()
        self.abandoning: set[str] = set()
        for line in read_ledger(ledger):
            self.learn(line)
        self.file = os.open(ledger, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.task = open_patiently(store)
        self.note({"kind": "opened"})

    def learn(self, line: dict[str, Any]) -> None:
        """Update the next call from a line of the ledger."""
        kind, episode = line["kind"], line.get("episode", "")
        if kind == "asking":
            self.begun += 1
            self.open[episode] = {}
        elif kind == "decided":
            self.open[episode] = line
        elif kind == "telling":
            self.telling.add((episode, line["t"]))
        elif kind == "abandoning":
            self.abandoning.add(episode)
        elif kind == "over":
            self.open.pop(episode)

    def note(self, line: dict[str, Any]) -> None:
        """Append a line to the ledger, durably."""
        os.write(self.file, f"{json.dumps(line)}\n".encode())
        os.fsync(self.file)
        self.learn(line)

    def run(self, calls: float = inf) -> None:
        """Take up what was open, then work, for ever unless told otherwise."""
        for episode in list(self.open):
            self.take_up(episode)
        while (calls := calls - 1) >= 0:
            if len(self.open) < OPEN:
                episode = f"worker {self.worker}, episode {self.begun}"
                self.note({"kind": "asking", "episode": episode})
                self.ask(episode)
            else:
                self.go_on(self.draw.choice(list(self.open)))

    def take_up(self, episode: str) -> None:
        """Ask again for the last decision that was known, which has to be the same."""
        known = self.open[episode]
        if not known:
            return self.ask(episode)
        if episode in self.abandoning:
            return self.abandon(episode)
        try:
            again = vars(self.task.ask(known["state"], episode))
        except (Conflict, EpisodeOver):
            again = None
        if again is None or again["t"] != known["t"]:  # it was told, without an answer
            assert (episode, known["t"]) in self.telling, (known, again)
            return self.tell(episode)
        assert known == {"kind": "decided", **again}, (known, again)
        return None

    def ask(self, episode: str) -> None:
        decision = self.task.ask(start_of(episode), episode)
        self.note({"kind": "decided", **vars(decision)})

    def go_on(self, episode: str) -> None:
        """Do one of the things that can be done with an open decision."""
        known, what = self.open[episode], self.draw.random()
        if what < 0.02:
            self.note({"kind": "abandoning", "episode": episode, "t": known["t"]})
            self.abandon(episode)
        elif what < 0.1:
            again = self.task.ask(known["state"], episode)
            assert known == {"kind": "decided", **vars(again)}, (known, again)
        else:
            self.note({"kind": "telling", "episode": episode, "t": known["t"]})
            self.tell(episode)

    def abandon(self, episode: str) -> None:
        self.task.abandon(episode, "lost interest")
        self.note({"kind": "lost", "episode": episode, "t": self.open[episode]["t"]})
        self.note({"kind": "over", "episode": episode})

    def tell(self, episode: str) -> None:
        known = self.open[episode]
        told = outcome(episode, known["t"], known["state"], known["action"])
        decision = self.task.tell((episode, known["t"]), **told)
        self.note({"kind": "told", "episode": episode, "t": known["t"], **told})
        if decision is None:
            self.note({"kind": "over", "episode": episode})
        else:
            self.note({"kind": "decided", **vars(decision)})


def open_patiently(store: str, seconds: float = 20.0) -> Task:
    """Open the task, again if its database is just started anew."""
    until = time.monotonic() + seconds
    while True:
        try:
            return ucfh.open_task(store, **DECLARED)
        except ucfh.StoreBusy:
            if time.monotonic() > until:
                raise
            time.sleep(0.1)


def read_ledger(path: str | Path) -> list[dict[str, Any]]:
    """All whole lines; what follows the last line break was never noted."""
    if not Path(path).exists():
        return []
    return [json.loads(line) for line in Path(path).read_text().split("\n")[:-1]]


def acknowledge_early() -> None:
    """A broken store: what is acknowledged is written a little later."""

    def transact(store: TaskStore, task: int, call: Any) -> Any:
        answers: Queue[Any] = Queue()

        def answered(tx: Transaction) -> None:
            answers.put(call(tx))
            time.sleep(0.005)

        Thread(target=rightly[type(store)], args=(store, task, answered)).start()
        return answers.get()

    rightly: dict[type, Any] = {kind: kind.transact for kind in (SqliteStore, PostgresStore)}
    for kind in (SqliteStore, PostgresStore):
        kind.transact = transact  # type: ignore[assignment, method-assign]


def answer_anew() -> None:
    """A broken server: asked again, it does not look up what it said before."""
    look_up = SqlTransaction.last

    def last(tx: SqlTransaction, name: str) -> Any:
        found = look_up(tx, name)
        return None if found is None else found._replace(action=0)

    SqlTransaction.last = last  # type: ignore[assignment, method-assign]


BROKEN = {"early": acknowledge_early, "anew": answer_anew}


def work(store: str, ledger: str, worker: int, how: str) -> None:
    """Be a client until killed; what goes wrong is the last line of the ledger."""
    from ucfh.tasks import planner

    planner.LEASE = LEASE
    try:
        client = Client(store, ledger, worker)
        if how in BROKEN:
            BROKEN[how]()
        client.run()
    except BaseException:
        with open(ledger, "a") as file:
            file.write(json.dumps({"kind": "wrong", "what": traceback.format_exc()}) + "\n")
        os._exit(1)


def warm_up() -> None:
    """Load and compile all that clients use, before any is forked."""
    from tempfile import TemporaryDirectory

    with TemporaryDirectory() as folder:
        task = ucfh.open_task(f"{folder}/warm.db", **DECLARED, planning="inline")
        for k in range(40):
            decision: Any = task.ask(start_of(str(k)), k)
            while decision is not None and k % 8:
                told = outcome(str(k), decision.t, decision.state, decision.action)
                decision = task.tell(decision, **told)
        task.close()


def main() -> None:
    warm_up()
    print("ready", flush=True)
    for line in sys.stdin:
        command, *words = json.loads(line)
        if command == "kill":
            os.kill(words[0], signal.SIGKILL)
            _, code = os.waitpid(words[0], 0)
            print(code, flush=True)
        elif (pid := os.fork()) == 0:
            os.close(0)
            work(*words)
        else:
            print(pid, flush=True)


class Clients:
    """Processes that work on one store, each with a ledger of its own, as a context.

    Attributes:
        store: the database. ledgers: a file for each worker.
        pids: the process that each worker is now.

    """

    def __init__(self, folder: Path, store: str, workers: int = 4, how: str = "right") -> None:
        self.store, self.how = store, how
        self.ledgers = [folder / f"worker{i}.jsonl" for i in range(workers)]
        self.pids: list[int] = []
        self._parent = subprocess.Popen(
            [sys.executable, "-m", "support.crashing"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        )

    def _say(self, *words: Any) -> str:
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        if words:
            self._parent.stdin.write(json.dumps(words) + "\n")
            self._parent.stdin.flush()
        return self._parent.stdout.readline()

    def __enter__(self) -> Clients:
        assert self._say() == "ready\n"
        for i in range(len(self.ledgers)):
            self.pids.append(self.start(i))
        return self

    def start(self, worker: int) -> int:
        """A process for a worker."""
        return int(self._say("start", self.store, str(self.ledgers[worker]), worker, self.how))

    def kill(self, worker: int) -> None:
        """End it at once, and wait until it is gone; it must not have ended by itself."""
        code, self.pids[worker] = int(self._say("kill", self.pids[worker])), 0
        assert code == signal.SIGKILL, read_ledger(self.ledgers[worker])[-1].get("what", code)

    def kill_often(self, times: int, draw: Random, pause: float) -> None:
        """Kill one after the other at random moments, and let another take its place."""
        for _ in range(times):
            time.sleep(draw.expovariate(1 / pause))
            worker = draw.randrange(len(self.pids))
            self.kill(worker)
            self.pids[worker] = self.start(worker)

    def progress(self) -> tuple[list[int], int, str]:
        """Return the sizes of the ledgers, the newest policy's number, and the planner."""
        with closing(open_store(self.store)) as store:
            number, lease = store.newest_number(TASK), store.lease(TASK)
        return [path.stat().st_size for path in self.ledgers], number, lease[0] if lease else ""

    def wait_for_progress(self, seconds: float) -> None:
        """Wait until all workers have gone on, and one that is alive has planned."""
        sizes, number, _ = self.progress()
        until = time.monotonic() + seconds
        while True:
            now, planned, holder = self.progress()
            by = holder.split(":")[1:2]
            ahead = all(a > b for a, b in zip(now, sizes, strict=True))
            if ahead and planned > number and by and int(by[0]) in self.pids:
                return
            assert time.monotonic() < until, (sizes, now, number, planned, holder, self.pids)
            time.sleep(0.05)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for pid in filter(None, self.pids):
            self._say("kill", pid)
        assert self._parent.stdin is not None
        assert self._parent.stdout is not None
        self._parent.stdin.close()
        self._parent.wait()
        self._parent.stdout.close()


EVENTS = """SELECT e.name, v.kind, v.t, s.label, v.state, v.action, v.policy, v.reward
    FROM events v LEFT JOIN episodes e ON e.task=v.task AND e.id=v.episode
    LEFT JOIN states s ON s.task=v.task AND s.number=v.state
    WHERE v.task=?1 ORDER BY v.seq"""


def events_of(store: str) -> list[dict[str, Any]]:
    """All events as the tables have them, in the words of a ledger."""
    with closing(open_store(store)) as opened:
        assert isinstance(opened, SqlStore)
        assert opened.damage() == []
        rows = opened.query(EVENTS, (TASK,))
    out = []
    for name, kind, t, label, state, action, policy, reward in rows:
        key = {"episode": name, "t": t}
        where = None if label is None else json.loads(label)
        if kind == 0:
            a = DECLARED["actions"][action]
            out.append({"kind": "decided", **key, "state": where, "action": a, "policy": policy})
        elif state == -1:
            out.append({"kind": "lost", **key})
        else:
            ended = {"reward": reward, "state": where, "done": state == 0}
            out.append({"kind": "told", **key, **ended})
    return out


def faults_of(store: str, ledgers: list[Path]) -> list[str]:
    """Return entries of the ledgers that the store lacks or has twice, and events without a reason.

    Clients may be at work meanwhile.
    """
    lines = [line for path in ledgers for line in read_ledger(path)]
    rows = events_of(store)
    later = [line for path in ledgers for line in read_ledger(path)]
    found = [line["what"] for line in later if line["kind"] == "wrong"]
    keys = Counter((x["episode"], x["t"], x["kind"] == "decided") for x in rows)
    found += [f"{key} is there {n} times" for key, n in keys.items() if n > 1]
    there = {json.dumps(row, sort_keys=True) for row in rows}
    tried = {(x["kind"], x["episode"], x.get("t", 0)) for x in later if x["kind"] in WHY}
    for line in lines:
        if line["kind"] in REASONS and json.dumps(line, sort_keys=True) not in there:
            found.append(f"acknowledged, and not there: {line}")
    for row in rows:
        why = [x if x != "asking" or row["t"] == 0 else "telling" for x in REASONS[row["kind"]]]
        before = row["t"] - (row["kind"] == "decided" and row["t"] > 0)
        if not any((x, row["episode"], before) in tried for x in why):
            found.append(f"there, and nobody tried to: {row}")
    return found


REASONS = {"decided": ["asking"], "told": ["telling"], "lost": ["abandoning"]}
WHY = {"asking", "telling", "abandoning"}

if __name__ == "__main__":
    main()
