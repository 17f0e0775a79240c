"""How ``ucfh study`` and ``ucfh report`` are called."""

from __future__ import annotations

from typing import Annotated

import typer

from ucfh.commands.options import AsJson, Force


def study(
    names: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[NAME]...",
            help="studies, or your own .toml; all for all of them; default: list them",
            show_default=False,
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="a small version, in minutes: see how it works")
    ] = False,
    out: Annotated[str, typer.Option(help="the folder of results, figures and report")] = "results",
    seed: Annotated[int, typer.Option(help="from which those of all jobs are spawned")] = 0,
    workers: Annotated[
        int | None,
        typer.Option(help="processes; default: one a core; same results", show_default=False),
    ] = None,
    cluster: Annotated[
        str | None,
        typer.Option(
            help="the address of a Dask scheduler, such as tcp://host:8786, whose workers do it",
            show_default=False,
        ),
    ] = None,
    json: AsJson = False,
) -> None:
    """Run studies of the paper's claims, and write a report.

    Each says what the theory predicts and what was seen. Results are kept one by one: after Ctrl-C,
    or a crash, the same command goes on where it was. Exit code 1 if a job failed: the others are
    kept.

    \b
    Examples:
      ucfh study
      ucfh study mistakes --quick
      ucfh study all --out results
      ucfh study mine.toml --cluster tcp://10.0.0.1:8786
    """
    from ucfh.commands.study import list_studies, run_study

    if not names:
        list_studies(json)
        return
    raise typer.Exit(run_study(names, quick, out, seed, workers, cluster, json))


def report(
    folder: Annotated[str, typer.Argument(help="of results (see: ucfh study)")] = "results",
    html: Annotated[
        str | None,
        typer.Option(help="write the page here; default: report.html in the folder"),
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Write the report of results that are there, as one HTML file.

    \b
    Examples:
      ucfh report
      ucfh report results --html evaluation.html
    """
    from ucfh.commands.study import run_report

    run_report(folder, html, force, json)
