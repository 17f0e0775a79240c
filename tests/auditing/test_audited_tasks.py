"""Logs made by stepping tasks: a violation is found, and nothing once it is repaired.

The longer ones are in tests/slow/test_audit.py.
"""

from __future__ import annotations

from pathlib import Path

import ucfh
from support.audits import audited, drifting_calls, grid, simulated
from ucfh.auditing.report import AuditReport, report_of


def names(report: AuditReport) -> list[str]:
    return [finding.name for finding in report.findings]


def test_an_exam_at_the_end(tmp_path: Path) -> None:
    """Rewards are paid in the last step alone. With steps pooled, that is found after 150 students;
    with the exam as a segment of its own, or all steps apart, nothing is.
    """
    log = simulated([ucfh.make("tutoring")], 150, tmp_path)
    report = report_of(audited(log))
    assert names(report) == ["step"]
    assert report.e_values["reward by step"] > 1e3
    assert report.e_values["next state by step"] < 10
    finding = report.findings[0]
    assert "at t = 9, a reward of " in finding.effect
    assert "--segments 9" in finding.remedy
    assert names(report_of(audited(log, segments=(9,)))) == []
    assert names(report_of(audited(log, segments=True))) == []


def test_a_drifting_call_centre(tmp_path: Path) -> None:
    """Of 6,000 calls, fewer and fewer have a simple fault: from 30 % to 5 %."""
    report = report_of(audited(drifting_calls(0.25, 6000, tmp_path)))
    assert names(report) == ["drift"]
    assert report.findings[0].where.endswith("in state '0'")  # the greeting
    assert "from about episode " in report.findings[0].effect
    assert names(report_of(audited(drifting_calls(0.0, 6000, tmp_path)))) == []


def test_the_partial_view_of_a_grid() -> None:
    """In a large empty room most views look alike, so that what follows depends on earlier ones;
    the same walks with the whole grid in sight are clean.
    """
    report = report_of(audited(grid("MiniGrid-Empty-16x16-v0", 80)))
    assert set(names(report)) == {"memory", "step"}
    assert names(report_of(audited(grid("MiniGrid-Empty-16x16-v0", 80, full=True)))) == []
