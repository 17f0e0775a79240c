"""Commands in a process of their own, which may be interrupted or killed, and what they left."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Sequence
from math import inf
from pathlib import Path
from typing import Any, NamedTuple

from helpers.paths import TESTS
from ucfh.experiments.store import FILE

OWN = ("-m", "helpers.study_measures")
"""``ucfh`` with the measures of that module; ``("-m", "ucfh")`` is the real one."""


def start(arguments: Sequence[str], program: Sequence[str] = OWN) -> subprocess.Popen[str]:
    """A study in a session of its own, as from a terminal."""
    path = str(TESTS) + os.pathsep + os.environ.get("PYTHONPATH", "")
    return subprocess.Popen(
        [sys.executable, *program, "study", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, stdout and stderr, at its end."""
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def results(folder: Path) -> list[tuple[Any, ...]]:
    """The table of results, sorted by job, of a database that is in order."""
    db = sqlite3.connect(folder / FILE)
    assert db.execute("pragma integrity_check").fetchall() == [("ok",)]
    found = db.execute("select * from results order by job").fetchall()
    times = db.execute("select job from timings order by job").fetchall()
    db.close()
    assert [row[:1] for row in found] == times
    assert len(set(times)) == len(times)
    return found


def of_session(session: int) -> list[int]:
    """Processes of a session that are alive."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, _, _, its, *_ = (entry / "stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue  # it ended
        if int(its) == session and state != "Z":
            found.append(int(entry.name))
    return found


def listens(pid: int) -> bool:
    """Whether a process has a handler of SIGTERM, which Python by itself has not."""
    try:
        status = Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return False  # it ended
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1)


class Interruption(NamedTuple):
    """What a signal did to a command.

    Attributes:
        code, out, err: how it ended. late: whether it had ended before.
        seconds: from the signal to the end of its last process.
        left: temporary files of any kind.

    """

    code: int
    out: str
    err: str
    late: bool
    seconds: float
    left: list[str]

    @property
    def said(self) -> str:
        """What it said, but that it compiles."""
        return self.err.removeprefix("ucfh: compiling, once\n")

    def is_clean(self, number: int) -> bool:
        """Whether it ended with one line and the exit code of the signal, and left nothing."""
        one = self.said.startswith("ucfh: ") and self.said.count("\n") == 1
        return self.code == 128 + number and one and not self.left

    def is_finished(self) -> bool:
        """Whether the command was done, or as good as done, when the signal came."""
        return self.code == 0 and self.said == "" and not self.left


def interrupt(
    arguments: Sequence[str], folder: Path, cache: Path, after: float, number: int
) -> Interruption:
    """Start a command in a folder of its own, and send it a signal after some seconds.

    Ctrl-C reaches all of its processes, as from a terminal; SIGTERM the first one, as from kill.
    While Python itself starts, in the first hundredths of a second, nobody can listen yet: a signal
    that would come then comes as soon as somebody does.
    """
    temporary = folder / "temporary"
    temporary.mkdir(parents=True)
    places = {"NUMBA_CACHE_DIR": cache, "TMPDIR": temporary, "JOBLIB_TEMP_FOLDER": temporary}
    process = subprocess.Popen(
        [sys.executable, "-m", "ucfh", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True,
        cwd=folder, env={**os.environ, **{name: str(path) for name, path in places.items()}},
    )  # fmt: skip
    late = True
    try:
        process.wait(after)
    except subprocess.TimeoutExpired:
        while process.poll() is None and not listens(process.pid):
            time.sleep(0.001)
        late = process.poll() is not None
    if not late:
        (os.killpg if number == signal.SIGINT else os.kill)(process.pid, number)
    sent = time.perf_counter()
    code, out, err = finish(process)
    while of_session(process.pid):
        assert time.perf_counter() - sent < 60, "a process outlives the one that started it"
        time.sleep(0.02)
    left = [*temporary.iterdir(), *folder.glob(".*"), *cache.rglob("*.tmp.*")]
    names = [path.name for path in left]
    return Interruption(code, out, err, late, time.perf_counter() - sent, names)


class Kills(NamedTuple):
    """What was done to a study.

    Attributes:
        moments: seconds after its start, of each kill.
        kept: how many results there were after it.
        orphans: seconds until its last process had ended.

    """

    moments: list[float]
    kept: list[int]
    orphans: list[float]


def kill_often(
    arguments: Sequence[str],
    folder: Path,
    kills: int,
    jobs: int,
    seed: int,
    program: Sequence[str] = OWN,
) -> Kills:
    """Start a study of so many jobs again and again, and kill -9 it at random moments.

    Every third time that is within two seconds of its start, else soon after some more results, but
    always so early that enough jobs are left for the other kills. All of its processes are killed,
    or the first one alone: the others have to notice.
    """
    draw = random.Random(seed)
    done = Kills([], [], [])
    for k in range(kills):
        most = count(folder) + jobs // (kills + 1)
        process = start([*arguments, "--out", str(folder)], program)
        began = time.perf_counter()
        at_once = k % 3 == 1
        moment = began + draw.uniform(0.0, 2.0) if at_once else inf
        enough = most if at_once else draw.randint(count(folder), most)
        while count(folder) < enough and time.perf_counter() < moment and process.poll() is None:
            time.sleep(0.005)
        if not at_once:
            time.sleep(draw.uniform(0.0, 0.1))
        assert process.poll() is None, "it ended before it was killed"
        draw.choice([os.kill, os.killpg])(process.pid, signal.SIGKILL)
        killed = time.perf_counter()
        process.communicate()  # which waits for all that write to the same pipes
        while of_session(process.pid):
            assert time.perf_counter() - killed < 20, "a process outlives the one that started it"
            time.sleep(0.05)
        done.moments.append(killed - began)
        done.orphans.append(time.perf_counter() - killed)
        done.kept.append(count(folder))
    return done


def count(folder: Path) -> int:
    """How many results there are, also while they are written."""
    if not (folder / FILE).exists():
        return 0
    db = sqlite3.connect(folder / FILE, timeout=30)
    try:
        return int(db.execute("select count(*) from results").fetchone()[0])
    except sqlite3.OperationalError as error:
        if "no such table" not in str(error):  # it is being made
            raise
        return 0
    finally:
        db.close()
