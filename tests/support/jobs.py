"""Work for tests of parallel processes, which import this and little else."""

from __future__ import annotations

import os
import signal
from pathlib import Path


def square(number: int) -> int:
    """Plain work."""
    return number * number


def kill(number: int) -> int:
    """Its process is killed, whenever the number is 3."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


def stumble(number: int) -> int:
    """Its process ends, once, when the number is 0; a file in $UCFH_MARKS remembers."""
    mark = Path(os.environ["UCFH_MARKS"]) / "stumbled"
    if number == 0 and not mark.exists():
        mark.touch()
        os._exit(3)
    return number * number


def fail(number: int) -> int:
    """Raise when the number is 2."""
    if number == 2:
        raise ZeroDivisionError("two")
    return number * number


def pass_gate(pipe: str) -> int:
    """Wait for a byte of a named pipe, which lets one pass; how many came: 0 if it was closed."""
    with open(pipe, "rb", buffering=0) as gate:
        return len(gate.read(1))


def deaf_to(number: int) -> bool:
    """Return whether this process ignores a signal."""
    return number in signal.pthread_sigmask(signal.SIG_BLOCK, ())
