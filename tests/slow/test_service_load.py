"""The service under load, killed and started again: no answer is lost, and none counts twice."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import time
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from threading import Thread
from typing import Any

import ucfh
from support.services import DECLARED

WORKERS, SECONDS, KILLS = 12, 30.0, 5


class Serving:
    """``ucfh serve`` at one port, as often as it is started."""

    def __init__(self, store: Path) -> None:
        self.store, self.port = store, 0
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-m", "ucfh", "serve", str(self.store), "--port", str(self.port)],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        assert self.process.stdout is not None
        self.output = self.process.stdout
        self.port = int(self.output.readline().strip().rstrip("/").rpartition(":")[2])

    def kill(self) -> None:
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()
        self.output.close()

    def end(self) -> int:
        self.process.send_signal(signal.SIGTERM)
        code: int = self.process.wait(60)
        self.output.close()
        return code


class Worker(Thread):
    """Asks and tells episodes, and repeats whatever was not answered.

    Attributes:
        decided: the action that was answered, by episode and step. paid: what was told there.

    """

    def __init__(self, serving: Serving, number: int, until: float) -> None:
        super().__init__()
        self.serving, self.number, self.until = serving, number, until
        self.draw, self.decided, self.paid = (
            random.Random(number),
            dict[Any, str](),
            dict[Any, float](),
        )
        self.problems: list[Any] = []

    def call(self, path: str, body: Any) -> Any:
        while True:
            connection = HTTPConnection("127.0.0.1", self.serving.port, timeout=30)
            try:
                head = {"Content-Type": "application/json"}
                connection.request("PUT", f"/v1/tasks/t/{path}", json.dumps(body), head)
                reply = connection.getresponse()
                found = json.loads(reply.read())
                if reply.status == 200:
                    return found
                if reply.status != 503:
                    self.problems.append(found)
            except (OSError, HTTPException):
                time.sleep(0.05)
            finally:
                connection.close()

    def run(self) -> None:
        count = 0
        while time.monotonic() < self.until and not self.problems:
            count += 1
            name = f"{self.number}-{count}"
            decision = self.call(f"episodes/{name}/steps/0", {"state": "s0"})
            while decision is not None:
                key = name, decision["t"]
                self.decided[key] = decision["action"]
                self.paid[key] = self.draw.choice([0.0, 0.5, 1.0])
                told = {"reward": self.paid[key], "state": f"s{self.draw.randrange(4)}"}
                decision = self.call(f"episodes/{name}/steps/{key[1]}/outcome", told)["next"]


def test_killed_under_load(tmp_path: Path) -> None:
    store = tmp_path / "t.db"
    ucfh.open_task(store, "t", **DECLARED, planning="off").close()
    serving, draw = Serving(store), random.Random(0)
    until = time.monotonic() + SECONDS
    workers = [Worker(serving, k, until) for k in range(WORKERS)]
    for worker in workers:
        worker.start()
    for _ in range(KILLS):
        time.sleep(SECONDS / (KILLS + 2) * (0.5 + draw.random()))
        serving.kill()
        serving.start()
    for worker in workers:
        worker.join()
    assert serving.end() == 0
    assert [problem for worker in workers for problem in worker.problems] == []
    decided = {key: action for worker in workers for key, action in worker.decided.items()}
    paid = {key: reward for worker in workers for key, reward in worker.paid.items()}
    with ucfh.open_task(store, "t", planning="off") as task:
        steps = task.decisions("all")
        print(f"{len(steps)} decisions, {KILLS} kills")
        assert {(x["episode"], x["t"]): x["action"] for x in steps} == decided
        assert {(x["episode"], x["t"]): x["reward"] for x in steps} == paid
        assert len(steps) == len(decided)
        assert task.check() == []
        task.export(tmp_path / "log.csv")
        own = task.certificate()
    assert ucfh.read_log(tmp_path / "log.csv").episodes == own.episodes
