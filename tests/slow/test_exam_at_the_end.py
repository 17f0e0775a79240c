"""Logs with an exam at the end, read as if all steps were alike: the bound would be false."""

from __future__ import annotations

from pathlib import Path

import ucfh
from helpers.exams import PASSED, STEPS, write_exams

LOGS, STUDENTS = 500, 1000


def test_no_false_bound_is_called_true(tmp_path: Path) -> None:
    """Pooled, `lower` exceeds what can be earned; then it is said that the assumptions fail."""
    path = tmp_path / "exam.csv"
    too_high, unnoticed, repaired_too_high, accused, certified = 0, 0, 0, 0, 0
    for seed in range(LOGS):
        write_exams(path, STUDENTS, seed)
        pooled = ucfh.certify(ucfh.read_log(path), epsilon=0.1, delta=0.1)
        too_high += pooled.lower > PASSED
        unnoticed += pooled.lower > PASSED and not pooled.refuted
        log = ucfh.read_log(path, segments=[STEPS - 1], max_return=PASSED)
        repaired = ucfh.certify(log, epsilon=0.1, delta=0.1)
        accused += bool(repaired.findings)
        repaired_too_high += repaired.lower > PASSED
        certified += repaired.certified
    print(
        f"{LOGS} logs of {STUDENTS} students: lower > {PASSED} in {too_high}, of these not refuted "
        f"{unnoticed}; with the exam as a segment: {repaired_too_high}, accused {accused}, "
        f"certified {certified}"
    )
    assert too_high > 0.9 * LOGS  # the danger is there
    assert unnoticed == 0
    assert repaired_too_high == 0
    # at alpha = .01, more than 15 of 500 have probability 3e-5
    assert accused <= 15
