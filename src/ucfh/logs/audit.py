"""Test what certificates assume, with the data that they are about."""

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
    """Test whether data refute what a certificate of them would assume.

    Args:
        data: the path of a log, or a frame; or a log that `ucfh.read_log` has read, if more than a
            path is needed to read it; or counts by step: `ucfh.Counts` over the table of a problem
            with segments, or an array (H, S, A, S).
        problem: what is known of the task; counts need it.
        alpha: the probability of a finding if all that is assumed is true. It is apart from the
            delta of certificates.

    The tests are valid however often one looks at a growing log. What they do not find may still be
    there: see docs/theory/audit.md for how much data it takes.

    >>> import ucfh
    >>> ucfh.write_log(ucfh.make("chain:n=3,horizon=3"), "chain.csv", 500)
    >>> ucfh.audit("chain.csv")
    AuditReport(nothing found; 5 assumptions, 500 episodes)

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
