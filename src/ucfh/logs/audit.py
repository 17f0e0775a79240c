"""Assumption checks: tests of the assumptions of a certificate on its own data."""

from __future__ import annotations

from typing import Any

from ucfh._utils.defaults import ALPHA
from ucfh.auditing.report import AuditReport, report_of
from ucfh.auditing.segments import report_of_counts
from ucfh.counts import Counts, counts_of
from ucfh.exceptions import InputError
from ucfh.logs.reading import Log, read_log
from ucfh.logs.sources import is_source
from ucfh.problems import AnyProblem, as_problem


def audit(data: Any, problem: AnyProblem | None = None, alpha: float = ALPHA) -> AuditReport:
    """Test the assumptions of a certificate on its data.

    The tests are valid at all times: a growing log may be tested as often as wanted. Violations
    that they do not find may still exist: see docs/theory/audit.md for how much data it takes.

    Args:
        data: the path of a log, or a frame; or a `Log` that `ucfh.read_log` returned, if it needs
            options; or counts by step: `ucfh.Counts` over the table of a problem with segments, or
            an array (H, S, A, S).
        problem: the prior knowledge of the task; required for counts.
        alpha: the probability of a finding although all assumptions hold. It is not part of the
            delta of certificates.

    Returns:
        The tested assumptions and the findings.

    Raises:
        InputError: the data cannot be read, or ``problem`` does not fit them.

    >>> import ucfh
    >>> ucfh.write_log(ucfh.make("chain:n=3,horizon=3"), "chain.csv", 500)
    >>> ucfh.audit("chain.csv")
    AuditReport(no findings; 5 assumptions, 500 episodes)

    """
    if isinstance(data, Log):
        if problem is not None:
            raise InputError("a log that has been read has its problem: leave problem out here")
        return report_of(data.audit, alpha)
    if is_source(data):
        return report_of(read_log(data, problem).audit, alpha)
    if problem is None:
        raise InputError("counts need the problem they belong to: pass problem=ucfh.Problem(...)")
    problem = as_problem(problem)
    counts = data if isinstance(data, Counts) else counts_of(data, problem)
    counts.check(problem)
    return report_of_counts(counts, problem, alpha)
