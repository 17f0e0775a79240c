"""How the results of each kind of study are read: into paragraphs, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from ucfh.errors import unknown
from ucfh.experiments.store import Asked, Result, Store
from ucfh.report.section import Figure, Section, Table

READINGS = (
    "mistakes", "scaling", "conditions", "peers", "certificates", "stationarity", "claims",
    "knownness",
)  # fmt: skip
"""Modules of this package, each with a function ``read`` of results, at least one."""


class Reading(NamedTuple):
    """What results come to; ``seen`` has a sentence first that says it all."""

    seen: list[str]
    figures: list[Figure]
    tables: list[Table]


def check_reading(name: str) -> None:
    """Raise unless there is such a reading."""
    if name not in READINGS:
        raise unknown("reading", name, READINGS)


def read_results(name: str, results: Sequence[Result]) -> Reading:
    """Read results as studies of that kind do."""
    check_reading(name)
    reading: Reading = import_module(f"ucfh.report.studies.{name}").read(results)
    return reading


def section(asked: Asked, store: Store) -> Section:
    """A study as far as its results are there."""
    study, jobs = asked.study, asked.jobs()
    results = store.results(jobs)
    reading = Reading(["Nothing yet: no job has a result."], [], [])
    if results:
        reading = read_results(study.reading, results)
    missing = len(jobs) - len(results)
    return Section(study.name, study.title, study.predicted, *reading, len(results), missing)
