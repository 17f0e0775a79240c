"""Watch a task learn: a service with its page, and 200 simulated students who use it over HTTP.

    make serve                      installs what it needs, and runs this script
    python docs/tutorials/online.py

The students are those of service.py, but a day takes half a second, and `ucfh serve` answers them
over HTTP, in a process of its own, as it would answer yours. They come until the policy is
certified, which takes about two minutes; the page stays until Ctrl-C.
"""

from __future__ import annotations

import argparse
import heapq
import random
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import HTTPError
from urllib.request import urlopen

from service import AT_ONCE, DAY, DEADLINE, EPSILON, SILENCE, outcome
from students import EXERCISES, LEVELS, SESSIONS, START

import ucfh

LOOK = 0.05
"""Seconds between two looks at who has answered."""


class School:
    """The students: who answers when, over HTTP.

    Attributes:
        task: the live task, behind a service.
        day: how many seconds a day takes.
        answers: when each comes, of which student and session, and what it says.
        leaving: when students are gone who will not answer in time.

    """

    def __init__(self, task: ucfh.RemoteTask, day: float, seed: int) -> None:
        self.task, self.day, self.seed = task, day, seed
        self.answers: list[tuple[float, int, int, str, float]] = []
        self.leaving: list[float] = []
        self.begun, self.present = task.status().begun, 0

    def expect(self, decision: ucfh.Decision, now: float) -> None:
        """Let a student work on an exercise; the answer will come, or not."""
        student, t = int(decision.episode), decision.t
        after, points, days = outcome(self.seed, student, t, decision.state, decision.action)
        if days < float("inf"):
            heapq.heappush(self.answers, (now + days * self.day, student, t, after, points))
        if days * DAY > DEADLINE:
            heapq.heappush(self.leaving, now + self.day * DEADLINE / DAY)

    def serve(self, now: float) -> None:
        """Tell what has come, and let others begin in the places that are free: one request."""
        calls = []
        while self.answers and self.answers[0][0] <= now:
            _, student, t, after, points = heapq.heappop(self.answers)
            calls.append(self.task.telling((student, t), reward=points, state=after))
            self.present -= t == SESSIONS - 1
        while self.leaving and self.leaving[0] <= now:
            heapq.heappop(self.leaving)
            self.present -= 1
        for _ in range(AT_ONCE - self.present):
            self.begun, self.present = self.begun + 1, self.present + 1
            level = random.Random(f"{self.seed}/{self.begun}").choices(LEVELS, START)[0]
            calls.append(self.task.asking(level, self.begun))
        for answer in self.task.serve(calls) if calls else ():
            if isinstance(answer, ucfh.Decision):
                self.expect(answer, now)
            elif isinstance(answer, ucfh.TaskError):
                raise answer

    def run(self) -> ucfh.TaskStatus:
        """Go on until the policy is certified."""
        while not (status := self.task.status()).certified:
            for _ in range(round(1 / LOOK)):
                self.serve(time.monotonic())
                time.sleep(LOOK)
        return status


def wait_until_ready(url: str) -> None:
    """Let the first students come when the service can plan: the first time, it compiles code."""
    said = False
    while True:
        try:
            urlopen(f"{url}readyz", timeout=10).close()
            return
        except HTTPError as error:  # not ready yet
            error.close()
            if not said:
                print("compiling, once: up to half a minute ...", flush=True)
            said = True
            time.sleep(0.5)


def main() -> None:
    """Serve the school in a folder that is gone afterwards."""
    parser = argparse.ArgumentParser(description="Watch a task learn, on a page.")
    parser.add_argument("--port", type=int, default=8765, help="where to serve")
    parser.add_argument("--day", type=float, default=0.5, help="seconds that a day takes")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated students")
    given = parser.parse_args()
    with TemporaryDirectory() as folder:
        run(Path(folder), given.port, given.day, given.seed)


def run(folder: Path, port: int, day: float, seed: int) -> None:
    """Create the task, start the service, and let students use it."""
    store = folder / "course.db"
    ucfh.open_task(
        store,
        "course",
        actions=EXERCISES,
        horizon=SESSIONS,
        epsilon=EPSILON,
        rewards=(0, 100),
        max_return=100,
        segments=[SESSIONS - 1],
        timeout=day * DEADLINE / DAY,
        on_timeout=SILENCE["left"],
        planning="off",
    ).close()
    command = [sys.executable, "-m", "ucfh", "serve", str(store), "--port", str(port)]
    log = folder / "log.jsonl"
    with (
        log.open("w") as lines,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=lines, text=True) as service,
    ):
        assert service.stdout is not None
        url = service.stdout.readline().strip()
        if not url:
            raise SystemExit(log.read_text().strip())
        print(f"{url}  (Ctrl-C ends it)", flush=True)
        try:
            wait_until_ready(url)
            with ucfh.connect(url, task="course") as task:
                School(task, day, seed).run()
                print(task.status(), flush=True)
                service.wait()
        except KeyboardInterrupt:
            pass
        finally:
            service.terminate()


if __name__ == "__main__":
    try:
        main()
    except ucfh.InputError as error:
        raise SystemExit(f"online.py: {error}") from None
