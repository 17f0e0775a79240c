"""Work for tests of parallel processes, which import this and little else."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import numpy as np


def square(number: int) -> int:
    """Plain work."""
    return number * number


def kill(number: int) -> int:
    """Its process is killed, whenever the number is 3."""
    if number == 3:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


class Stumble:
    """Its process ends, once, when the number is 0; a file in a folder remembers."""

    def __init__(self, folder: Path) -> None:
        self.mark = folder / "stumbled"

    def __call__(self, number: int) -> int:
        if number == 0 and not self.mark.exists():
            self.mark.touch()
            os._exit(3)
        return number * number


def kind_of(array: np.ndarray[Any, Any]) -> str:
    """The class of an array, and whether it can be written."""
    return type(array).__name__ + " writeable" * array.flags.writeable


def fail(number: int) -> int:
    """Raise when the number is 2."""
    if number == 2:
        raise ZeroDivisionError("two")
    return number * number


def pass_gate(pipe: str) -> int:
    """Wait for a byte of a named pipe, which lets one pass; how many came: 0 if it was closed."""
    with open(pipe, "rb", buffering=0) as gate:
        return len(gate.read(1))
