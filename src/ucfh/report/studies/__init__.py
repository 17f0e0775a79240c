"""How the results of each kind of study are read: into paragraphs, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import NamedTuple

from ucfh.errors import InputError, unknown
from ucfh.experiments.jobs import made_with
from ucfh.experiments.spec import Study
from ucfh.experiments.store import Asked, Result, Store
from ucfh.files import naming
from ucfh.report.section import Figure, Section, Table

READINGS = {
    "mistakes": ("lifetime",),
    "scaling": ("lifetime",),
    "conditions": ("lifetime",),
    "peers": ("learner",),
    "certificates": ("certificate", "stopping"),
    "stationarity": ("lifetime", "certificate", "stationary"),
    "claims": ("claims",),
    "knownness": ("knownness",),
}
"""Modules of this package, each with a function ``read`` of results, and the measures it reads."""


class Reading(NamedTuple):
    """What results come to; ``seen`` has a sentence first that says it all."""

    seen: list[str]
    figures: list[Figure]
    tables: list[Table]


def check_reading(study: Study) -> None:
    """Raise unless there is such a reading, and it reads what the study measures."""
    with naming("reading"):
        if study.reading not in READINGS:
            raise unknown("reading", study.reading, READINGS)
        for job in study.jobs():
            if job.measure not in READINGS[study.reading]:
                fit = [name for name, measures in READINGS.items() if job.measure in measures]
                raise InputError(
                    f"{study.reading} does not read {job.measure}: write {' or '.join(fit)}"
                )


def read_results(name: str, results: Sequence[Result]) -> Reading:
    """Read results, at least one, as studies of that kind do."""
    reading: Reading = import_module(f"ucfh.report.studies.{name}").read(results)
    return reading


def section(asked: Asked, store: Store) -> Section:
    """A study as far as its results are there."""
    study, jobs = asked.study, asked.jobs()
    results = store.results(jobs)
    reading = Reading(["Nothing yet: no job has a result."], [], [])
    if results:
        try:
            reading = read_results(study.reading, results)
        except KeyError as error:
            if store.made_with().get("source") == made_with()["source"]:
                raise
            raise InputError(
                f"{store.folder} has results of another version, and {error} is not among them: "
                f"run the study {study.name} anew, in another folder (--out)"
            ) from None
    missing = len(jobs) - len(results)
    return Section(study.name, study.title, study.predicted, *reading, len(results), missing)
