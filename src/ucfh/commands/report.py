"""``ucfh report``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh.commands.options import AsJson, Force
from ucfh.commands.printing import print_json, print_lines

if TYPE_CHECKING:
    from ucfh.report.section import Section

PAGE = "report.html"


def report(
    folder: Annotated[str, typer.Argument(help="folder of results (see: ucfh study)")] = "results",
    html: Annotated[
        str | None,
        typer.Option(help="file to write; default: report.html in the folder"),
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Write an HTML report from a results folder.

    \b
    Examples:
      ucfh report
      ucfh report results --html evaluation.html
    """
    from ucfh import __version__
    from ucfh._support.files import check_outputs, write_text
    from ucfh.experiments.store import Store
    from ucfh.studies.readings import page_of, sections_of

    check_outputs([(html, (".html",))], [], force)
    with Store(folder) as store:
        path = str(store.folder / PAGE) if html is None else html
        sections = list(sections_of(store).values())
        write_text(path, page_of(store, sections), force or html is None)
    if json:
        found = [as_dict(one) for one in sections]
        print_json({"report": path, "studies": found, "version": __version__})
    else:
        print_lines({"report": path})


def as_dict(one: Section) -> dict[str, Any]:
    """A study for programs."""
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
