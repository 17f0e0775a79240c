"""Commands in a process of their own, which may be interrupted, and what they left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple


def finish(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    """Its exit code, stdout and stderr, at its end."""
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


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
