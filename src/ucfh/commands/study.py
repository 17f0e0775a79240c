"""``ucfh study`` and ``ucfh report``."""

from __future__ import annotations

import sys
from textwrap import fill
from time import perf_counter
from typing import Any

from ucfh import __version__
from ucfh.commands.progress import Bar
from ucfh.commands.show import print_json
from ucfh.errors import InputError, check_count
from ucfh.experiments.runner import Progress, run
from ucfh.experiments.spec import STUDIES, read_study
from ucfh.experiments.store import Asked, Store
from ucfh.files import check_outputs, naming, write_text
from ucfh.interrupts import exit_code
from ucfh.report.html import page
from ucfh.report.section import Section, Table
from ucfh.report.studies import check_reading, section

INCOMPLETE = 1
"""The exit code of a study in which some job came to nothing."""

PAGE = "report.html"
SHOWN = 5
"""So many failures are named."""


def list_studies(json: bool) -> None:
    """The studies that there are."""
    found = [read_study(name) for name in STUDIES]
    if json:
        print_json({"studies": [{"name": x.name, "title": x.title} for x in found]})
        return
    for study in found:
        print(f"{study.name:>14}  {study.title}")
    print("\nrun one: ucfh study NAME [--quick]      all: ucfh study all")


def run_study(
    names: list[str],
    quick: bool,
    out: str,
    seed: int,
    workers: int | None,
    cluster: str | None,
    json: bool,
) -> int:
    """Do what is missing of some studies, tell what came out, and return the exit code."""
    started = perf_counter()
    if not 0 <= seed < 2**63:
        raise InputError(f"seed = {seed} must be at least 0 and less than 2^63: pass one that is")
    if workers is not None:
        check_count("workers", workers)
        if cluster is not None:
            raise InputError("--workers are processes here, --cluster has its own: leave one out")
    asked = [Asked(study, quick, seed) for study in _read(names)]
    with Store(out, write=True) as store:
        progress = _do(asked, store, workers, cluster)
        every = _sections(store)
        sections = [every[one.study.name] for one in asked]
        _write_figures(store, sections)
        path = store.folder / PAGE
        write_text(path, _page(store, list(every.values())), force=True)
    about = {"folder": out, "report": str(path), "jobs": progress.total, "done": progress.done}
    if json:
        failures = [{**job.arguments, "reason": why} for job, why in progress.failures]
        print_json(
            {
                **about,
                "failures": failures,
                "interrupted": progress.interrupted,
                "studies": [_as_dict(one) for one in sections],
                "seconds": perf_counter() - started,
                "version": __version__,
            }
        )
    else:
        for part in sections:
            _print(part)
        print(f"{'report':>12}  {path}")
    return _complain(progress)


def _do(asked: list[Asked], store: Store, workers: int | None, cluster: str | None) -> Progress:
    """Do what is missing, and show how far it is."""
    jobs = [job for one in asked for job in one.jobs()]
    # all studies advance together, so that time left is easy to tell
    jobs.sort(key=lambda job: job.replicate)
    for one in asked:
        store.note(one)
    with Bar() as bar:

        def report(now: Progress) -> None:
            ended = now.done + len(now.failures)
            bar.show(f"{ended} of {now.total} jobs", ended / now.total)

        return run(jobs, store, workers, cluster, report)


def _read(names: list[str]) -> list[Any]:
    """The studies of these names, each once, their readings checked."""
    wanted = [x for name in names for x in (STUDIES if name == "all" else [name])]
    found = [read_study(name) for name in dict.fromkeys(wanted)]
    for study, name in zip(found, dict.fromkeys(wanted), strict=True):
        with naming(name):
            check_reading(study)
    twice = {x.name for x in found if sum(y.name == x.name for y in found) > 1}
    if twice:
        raise InputError(f"two studies are called {min(twice)}: rename a file")
    return found


def _complain(progress: Progress) -> int:
    """Say what went wrong, on stderr; the exit code."""
    for job, why in progress.failures[:SHOWN]:
        given = ", ".join(f"{key} {value}" for key, value in job.arguments.items())
        print(f"ucfh: {job.measure} ({given}): {why}", file=sys.stderr)
    if len(progress.failures) > SHOWN:
        print(f"ucfh: and {len(progress.failures) - SHOWN} more jobs failed", file=sys.stderr)
    if progress.interrupted:
        print(
            f"ucfh: interrupted; {progress.done} of {progress.total} results are kept: run it "
            "again to go on",
            file=sys.stderr,
        )
        return exit_code()
    return INCOMPLETE if progress.failures else 0


def run_report(folder: str, html: str | None, force: bool, json: bool) -> None:
    """Write the page of results that are there."""
    check_outputs([(html, (".html",))], [], force)
    with Store(folder) as store:
        path = str(store.folder / PAGE) if html is None else html
        sections = list(_sections(store).values())
        write_text(path, _page(store, sections), force or html is None)
    if json:
        told = [_as_dict(one) for one in sections]
        print_json({"report": path, "studies": told, "version": __version__})
    else:
        print(f"{'report':>12}  {path}")


def _sections(store: Store) -> dict[str, Section]:
    """All studies of a folder: those of the package in their order, then others by name."""
    rank = {name: k for k, name in enumerate(STUDIES)}
    asked = sorted(store.asked(), key=lambda x: (rank.get(x.study.name, len(rank)), x.study.name))
    return {one.study.name: section(one, store) for one in asked}


def _page(store: Store, sections: list[Section]) -> str:
    """The report of all studies of a folder."""
    asked = store.asked()
    small = {one.study.name for one in asked if one.quick}
    wanted = {job.id for one in asked for job in one.jobs()}  # some are in two studies
    about = {
        **{key: value or "unknown" for key, value in store.made_with().items()},
        "seed": ", ".join(str(x) for x in sorted({one.root for one in asked})),
        "results": f"{len(store.done() & wanted):,} jobs",
        "computing time": f"{store.seconds() / 60:.1f} minutes of one core",
    }
    if small:
        about["quick versions"] = ", ".join(one.name for one in sections if one.name in small)
    return page(sections, about)


def _write_figures(store: Store, sections: list[Section]) -> None:
    for one in sections:
        for figure in one.figures:
            write_text(store.folder / f"{figure.name}.svg", figure.svg, force=True)


def _as_dict(one: Section) -> dict[str, Any]:
    return {
        "name": one.name,
        "title": one.title,
        "predicted": one.predicted,
        "seen": one.seen,
        "tables": [vars(table) for table in one.tables],
        "figures": [f"{figure.name}.svg" for figure in one.figures],
        "results": one.jobs,
        "missing": one.missing,
    }


def _print(one: Section) -> None:
    """A study for a person."""
    print(f"\n{one.title} ({one.name})\n")
    for text in one.seen:
        print(fill(text, 100) + "\n")
    for table in one.tables:
        _print_table(table)
    if one.missing:
        print(f"{one.missing} of {one.missing + one.jobs} results are missing.\n")


def _print_table(table: Table) -> None:
    print(fill(table.caption, 100))
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    for row in (table.columns, *table.rows):
        first, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        cells = [first, *(x.strip().rjust(w) for x, w in zip(others, widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())
    print()
