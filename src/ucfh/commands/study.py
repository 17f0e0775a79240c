"""``ucfh study``."""

from __future__ import annotations

import sys
from textwrap import fill
from time import perf_counter
from typing import TYPE_CHECKING, Annotated

import typer

from ucfh.commands.options import AsJson, Cluster
from ucfh.commands.printing import print_json, print_lines
from ucfh.commands.progress import Bar
from ucfh.commands.report import PAGE, as_dict
from ucfh.errors import InputError

if TYPE_CHECKING:
    from ucfh.experiments.runner import Progress
    from ucfh.experiments.spec import Study
    from ucfh.experiments.store import Request, Store
    from ucfh.report.section import Section, TextTable

INCOMPLETE = 1
"""The exit code of a study in which some job failed."""

LEAST_WIDTH, MOST_WIDTH = 2.0, 20.0
"""Of figures for print, in inches."""

SHOWN = 5
"""How many failures are named."""


def study(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="NAME",
            help="names of studies, all, or your own .toml files; without any: list the studies",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="run a small version that takes a minute or two")
    ] = False,
    out: Annotated[str, typer.Option(help="folder for results, figures and report")] = "results",
    seed: Annotated[
        int, typer.Option(help="random seed from which the seeds of all jobs are derived")
    ] = 0,
    workers: Annotated[
        int | None,
        typer.Option(
            help="number of processes; default: one per core; same results", show_default=False
        ),
    ] = None,
    cluster: Cluster = None,
    width: Annotated[
        float,
        typer.Option(
            help="width in inches of the figures for print (.pdf): 3.3 fits one of two columns"
        ),
    ] = 5.5,
    json: AsJson = False,
) -> None:
    """Run studies of the paper's claims, and write a report and figures.

    Each states what the theory predicts and what was measured. Results are kept one by one: after
    Ctrl-C or a crash, the same command continues. Exit code 1 if a job failed: the others are kept.

    \b
    Examples:
      ucfh study
      ucfh study mistakes --quick
      ucfh study all --out results
      ucfh study peers --width 3.3
      ucfh study mine.toml --cluster tcp://10.0.0.1:8786
    """
    from ucfh import __version__
    from ucfh._support.files import write_text
    from ucfh._support.parallel import check_places
    from ucfh.experiments.store import Request, Store
    from ucfh.studies.readings import page_of, sections_of

    if not names:
        _list(json)
        return
    started = perf_counter()
    if not 0 <= seed < 2**63:
        raise InputError(f"seed = {seed} must be at least 0 and less than 2^63: pass one that is")
    if not LEAST_WIDTH <= width <= MOST_WIDTH:
        raise InputError(
            f"width = {width:g} is outside {LEAST_WIDTH:g} to {MOST_WIDTH:g} inches: pass one such "
            "as 3.3 or 5.5"
        )
    check_places(workers, cluster)
    requests = [Request(study, quick, seed) for study in _read(names)]
    with Store(out, write=True) as store:
        progress = _do(requests, store, workers, cluster)
        every = sections_of(store)
        sections = [every[one.study.name] for one in requests]
        _write_figures(store, sections, width)
        path = store.folder / PAGE
        write_text(path, page_of(store, list(every.values())), force=True)
    about = {"folder": out, "report": str(path), "jobs": progress.total, "done": progress.done}
    if json:
        failures = [{**job.arguments, "reason": why} for job, why in progress.failures]
        print_json(
            {
                **about,
                "failures": failures,
                "interrupted": progress.interrupted,
                "studies": [as_dict(one) for one in sections],
                "seconds": perf_counter() - started,
                "version": __version__,
            }
        )
    else:
        for part in sections:
            _print(part)
        print_lines({"report": str(path)})
    raise typer.Exit(_complain(progress))


def _list(json: bool) -> None:
    """The studies that there are."""
    from ucfh.studies.catalogue import STUDIES, read_study

    found = [read_study(name) for name in STUDIES]
    if json:
        print_json({"studies": [{"name": x.name, "title": x.title} for x in found]})
        return
    for study in found:
        print(f"{study.name:>14}  {study.title}")
    print("\nrun one: ucfh study NAME [--quick]      all: ucfh study all")


def _do(
    requests: list[Request], store: Store, workers: int | None, cluster: str | None
) -> Progress:
    """Do what is missing, and show how far it is."""
    from ucfh.experiments.runner import run_jobs

    jobs = [job for one in requests for job in one.jobs()]
    # all studies advance together, so that time left is easy to tell
    jobs.sort(key=lambda job: job.replicate)
    for one in requests:
        store.note(one)
    with Bar() as bar:

        def report(now: Progress) -> None:
            ended = now.done + len(now.failures)
            bar.show(f"{ended} of {now.total} jobs", ended / now.total)

        return run_jobs(jobs, store, workers, cluster, report)


def _read(names: list[str]) -> list[Study]:
    """The studies of these names, each once, their readings checked."""
    from ucfh._support.files import naming
    from ucfh.studies.catalogue import STUDIES, read_study
    from ucfh.studies.readings import check_reading

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
    from ucfh._support.interrupts import exit_code

    for job, why in progress.failures[:SHOWN]:
        given = ", ".join(f"{key} {value}" for key, value in job.arguments.items())
        print(f"ucfh: {job.measure} ({given}): {why}", file=sys.stderr)
    if len(progress.failures) > SHOWN:
        print(f"ucfh: and {len(progress.failures) - SHOWN} more jobs failed", file=sys.stderr)
    if progress.interrupted:
        print(
            f"ucfh: interrupted; {progress.done} of {progress.total} results are kept: run it "
            "again to continue",
            file=sys.stderr,
        )
        return exit_code()
    return INCOMPLETE if progress.failures else 0


def _write_figures(store: Store, sections: list[Section], width: float) -> None:
    """Each figure twice: for a screen and, so many inches wide, for print."""
    from ucfh._support.files import replacing, write_text

    for one in sections:
        for figure in one.figures:
            write_text(store.folder / f"{figure.name}.svg", figure.svg, force=True)
            with replacing(store.folder / f"{figure.name}.pdf", force=True) as temporary:
                temporary.write_bytes(figure.pdf(width))


def _print(one: Section) -> None:
    """A study for a person."""
    print(f"\n{one.title} ({one.name})\n")
    for text in one.seen:
        print(fill(text, 100) + "\n")
    for table in one.tables:
        _print_table(table)
    if one.missing:
        print(f"{one.missing} of {one.missing + one.jobs} results are missing.\n")


def _print_table(table: TextTable) -> None:
    print(fill(table.caption, 100))
    widths = [max(map(len, column)) for column in zip(table.columns, *table.rows, strict=True)]
    for row in (table.columns, *table.rows):
        first, *others = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        cells = [first, *(x.strip().rjust(w) for x, w in zip(others, widths[1:], strict=True))]
        print("  " + "  ".join(cells).rstrip())
    print()
