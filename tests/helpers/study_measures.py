"""Measures for tests of studies, good and bad, which worker processes can import."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from math import nan
from pathlib import Path
from typing import Any

from ucfh.cli import main
from ucfh.experiments import jobs, runner
from ucfh.experiments.measures import MEASURES, Values
from ucfh.experiments.store import Result
from ucfh.report.section import Reading
from ucfh.studies import readings

TEXT = """
title = "A study"
predicted = "Something."
reading = "claims"
"""


def good(number: int = 0, *, seed: int) -> Values:
    """Takes a hundredth of a second."""
    time.sleep(0.01)
    return {"number": number, "drawn": seed % 1000}


def deadly(number: int, *, seed: int) -> Values:
    """Its process is killed, whenever the number is 2."""
    if number == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return good(number, seed=seed)


def faulty(number: int) -> Values:
    """Raises in two lines when the number is 1, until there is a file "mended" in $UCFH_MARKS."""
    if number == 1 and not (Path(os.environ["UCFH_MARKS"]) / "mended").exists():
        raise RuntimeError("no\n way")
    return {"number": number}


def deep(number: int) -> Values:
    """Fails, whatever the number."""
    raise ArithmeticError(f"{number} is too deep")


def steady(number: int, *, seed: int) -> Values:
    """Takes a twentieth of a second; from the number 50 on, until $UCFH_MARKS has a file "open"."""
    time.sleep(0.05)
    while number >= 50 and not (Path(os.environ["UCFH_MARKS"]) / "open").exists():
        time.sleep(0.01)
    return {"drawn": seed % 1000}


def odd() -> Values:
    """Returns what JSON has no word for."""
    return {"value": nan}


def endless(number: int, *, seed: int) -> Values:
    """Goes on for a minute from the number 4 on, and leaves a file in $UCFH_MARKS."""
    if number >= 4:
        (Path(os.environ["UCFH_MARKS"]) / "endless").touch()
        time.sleep(60)
    return good(number, seed=seed)


def interrupting(number: int, *, seed: int) -> Values:
    """Sends a signal of this number, from 1 on, to the process that started its own, and waits."""
    if number:
        os.kill(os.getppid(), number)
        time.sleep(60)
    return good(number, seed=seed)


OWN: dict[str, Any] = {
    x.__name__: x for x in (good, deadly, faulty, deep, steady, odd, endless, interrupting)
}


def do(job: jobs.Job) -> jobs.Measurement:
    """Do a job of theirs; whoever imports it knows the measures."""
    MEASURES.update(OWN)
    return jobs.do(job)


def other_version(job: jobs.Job) -> jobs.Measurement:
    """Do a job as if it were done with another version."""
    done = do(job)
    return done._replace(made_with={**done.made_with, "ucfh": "9.9.9"})


def read(name: str, results: Sequence[Result]) -> Reading:  # noqa: ARG001
    """Say how many there are: these tests are not about how results are read."""
    return Reading([f"{len(results)} results."], [], [])


def command() -> None:
    """``ucfh`` with these measures, in a process of its own."""
    MEASURES.update(OWN)
    setattr(runner, "do", do)  # noqa: B010
    readings.read_results = read
    readings.READINGS["claims"] = tuple(MEASURES)
    main(sys.argv[1:])


if __name__ == "__main__":
    from helpers import study_measures  # under the name by which workers import it

    study_measures.command()
