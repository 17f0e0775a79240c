"""``ucfh audit``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from ucfh._utils.defaults import ALPHA
from ucfh.cli.log_options import LogProblem, LogReading, reads_a_log
from ucfh.cli.log_summary import print_notes
from ucfh.cli.options import AsJson, Force
from ucfh.cli.printing import NOT_CERTIFIED, print_json, print_lines

if TYPE_CHECKING:
    from ucfh.auditing.report import AuditReport
    from ucfh.logs.reading import Log


@reads_a_log
def audit(
    log: LogReading,
    problem: LogProblem = None,
    alpha: Annotated[
        float, typer.Option(help="probability of a finding although all assumptions are true")
    ] = ALPHA,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Test the assumptions of a certificate on a log.

    Prints each testable assumption and the evidence against it; for refuted assumptions, also the
    place, the size and a remedy. Exit code 3 if an assumption is refuted. The tests stay valid
    however often a growing log is tested.

    \b
    Examples:
      ucfh audit shop.csv
      ucfh audit exam.csv --rewards 0,100 --segments 9 --json
    """
    from ucfh.auditing.report import report_of
    from ucfh.problems import make

    data = log.read(None if problem is None else make(problem).problem, force)
    report = report_of(data.audit, alpha)
    if json:
        print_json(summary(log.path, data, report))
    else:
        print_report(log.path, data, report)
    if report.findings:
        raise typer.Exit(NOT_CERTIFIED)


def summary(path: str, log: Log, report: AuditReport) -> dict[str, Any]:
    """Return an audit report as a JSON object."""
    from ucfh import __version__

    tested = {**report.as_dict(), "episodes": log.episodes}
    return {"log": path, **tested, "version": __version__}


def print_report(path: str, log: Log, report: AuditReport) -> None:
    """Print an audit report as text."""
    verdict = f"{len(report.findings)} of {len(report.tested)} assumptions are refuted"
    if not report.findings:
        verdict = "nothing was found"
    print_lines(
        {
            "log": f"{path}: {log.episodes} episodes, {report.steps} steps tested",
            "verdict": f"{verdict} (false alarms have probability {report.alpha:g} at most)",
        }
    )
    print_notes(log)
    if report.stopped is not None:
        print_lines(
            {
                "": f"only the first {report.stopped} steps are tested: after them, the log has "
                "more different cases than the tests can keep apart"
            }
        )
    refuted = {x.name for x in report.findings}
    for test in report.tested:
        strength = f"E = {test.e_value:.3g}; refuted from {test.threshold:,.0f} on"
        if test.e_value <= 1:
            strength = "no evidence against it"
        what = "REFUTED" if test.name in refuted else "not refuted"
        print_lines({test.name: f"{what}: {test.assumption} ({strength})"})
    for finding in report.findings:
        print_lines(
            {
                "found": f"{finding.where}:",
                "": f"{finding.effect};\n{'':>14}{finding.meaning}",
                "remedy": finding.remedy,
            }
        )
