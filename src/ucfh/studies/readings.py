"""How the results of each kind of study are read: into paragraphs, tables and figures."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module

from ucfh._support.files import naming
from ucfh.errors import InputError, unknown
from ucfh.experiments.jobs import made_with
from ucfh.experiments.spec import Study
from ucfh.experiments.store import Request, Result, Store
from ucfh.report.html import page
from ucfh.report.section import Reading, Section
from ucfh.studies.catalogue import STUDIES

READINGS = {
    "mistakes": ("lifetime",),
    "scaling": ("lifetime",),
    "conditions": ("lifetime",),
    "peers": ("learner",),
    "certificates": ("certificate",),
    "league": ("stopping", "floor"),
    "stationarity": ("lifetime", "certificate", "stationary"),
    "claims": ("claims",),
    "knownness": ("knownness",),
}
"""Folders of this package, whose ``reading.py`` has a function ``read``, and what that reads."""


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
    reading: Reading = import_module(f"ucfh.studies.{name}.reading").read(results)
    return reading


def section(asked: Request, store: Store) -> Section:
    """A study, from the results that exist."""
    study, jobs = asked.study, asked.jobs()
    results = store.results(jobs)
    reading = Reading(["No job has a result yet."], [], [])
    if results:
        try:
            reading = read_results(study.reading, results)
        except KeyError as error:
            if store.made_with().get("source") == made_with()["source"]:
                raise
            raise InputError(
                f"{store.folder} has results of another version, without {error}: run the study "
                f"{study.name} again, in another folder (--out)"
            ) from None
    missing = len(jobs) - len(results)
    return Section(study.name, study.title, study.predicted, *reading, len(results), missing)


def sections_of(store: Store) -> dict[str, Section]:
    """All studies of a folder: those of the package in their order, then others by name."""
    rank = {name: k for k, name in enumerate(STUDIES)}
    asked = sorted(store.asked(), key=lambda x: (rank.get(x.study.name, len(rank)), x.study.name))
    return {one.study.name: section(one, store) for one in asked}


def page_of(store: Store, sections: list[Section]) -> str:
    """The report of all studies of a folder."""
    asked = store.asked()
    small = {one.study.name for one in asked if one.quick}
    wanted = {job.id for one in asked for job in one.jobs()}  # some are in two studies
    about = {
        **{key: value or "unknown" for key, value in store.made_with().items()},
        "seed": ", ".join(str(x) for x in sorted({one.root for one in asked})),
        "results": f"{len(store.done() & wanted):,} jobs",
        "computing time": f"{store.seconds() / 60:.1f} minutes on one core",
    }
    if small:
        about["quick versions"] = ", ".join(one.name for one in sections if one.name in small)
    return page(sections, about)
