"""``ucfh certify``."""

from __future__ import annotations

from typing import Annotated, Any, cast

import typer

from ucfh._utils.defaults import DELTA
from ucfh.cli.log_options import LogProblem, LogReading, reads_a_log
from ucfh.cli.log_report import OutputFiles, show_answer
from ucfh.cli.log_summary import show_log
from ucfh.cli.options import AsJson, Delta, Epsilon, Force
from ucfh.cli.printing import NOT_CERTIFIED
from ucfh.exceptions import InputError


@reads_a_log
def certify(
    log: LogReading,
    problem: LogProblem = None,
    unknown: Annotated[
        list[str] | None,
        typer.Option(help="do not use from --problem: rewards, successors or initial; repeatable"),
    ] = None,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    check: Annotated[
        bool, typer.Option("--check", help="only explain how the log is understood")
    ] = False,
    policy: Annotated[str | None, typer.Option(help="write the policy: .csv or .json")] = None,
    html: Annotated[
        str | None,
        typer.Option(help="write a page that explains the answer to anybody: .html"),
    ] = None,
    plot: Annotated[
        str | None, typer.Option(help="draw the bounds and the policy: .png, .svg or .pdf")
    ] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Report what a log proves about the best policy.

    The log may be collected by any policy. Prints a policy, what it earns at least, what any policy
    earns at most, and how far it may be from optimal; exit code 3 if that is more than epsilon.
    Rows that are lost because of their outcome void the bounds: a log that lost more than a few
    rows in a thousand, or all of one step, state or action, is refused.

    \b
    Examples:
      ucfh certify shop.csv --check
      ucfh certify shop.csv --epsilon 0.2 --policy shop-policy.csv --html shop.html
      ucfh certify shop.csv --states door,browsing,paid,left --horizon 4 --json
      ucfh certify exam.csv --rewards 0,100 --max-return 100 --segments 9
      ucfh certify tutoring.csv --problem tutoring
    """
    from ucfh.certification import certificate_from_log
    from ucfh.problems import make
    from ucfh.reporting.log_report import answer_of

    files = OutputFiles(policy, html, plot, force)
    files.check([path for path in (log.path, problem) if path is not None])
    told = None
    if problem is not None:
        told = make(problem).problem.hiding(*cast(Any, unknown or []))
    elif unknown:
        raise InputError("--unknown is about --problem: pass that too, or leave --unknown out")
    found = log.read(told, force)
    if check:
        show_log(log.path, found, json)
        return
    known = certificate_from_log(found, delta, epsilon)
    show_answer(answer_of(log.path, found, known), files, json)
    raise typer.Exit(0 if known.certified else NOT_CERTIFIED)
