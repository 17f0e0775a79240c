"""Logs with an exam at the end, read as if all steps were alike: the bound would be false."""

from __future__ import annotations

from pathlib import Path

import numpy as np

import ucfh

STEPS, TOP, PASSED = 6, 5, 0.9
"""Sessions of an episode, the highest level, and what an exam pays that is passed: the most."""


def write_exams(path: Path, students: int, seed: int) -> None:
    """Write a log: "slow" lifts a student by one level, "fast" at times to the top; then an exam.

    Only the last session pays: 0.9 if the student is at the top then. Most are taught slowly, so
    they are at the top mostly when the exam comes.
    """
    rng = np.random.default_rng(seed)
    level = np.zeros(students, np.int64)
    steps = []
    for t in range(STEPS):
        fast = rng.random(students) < 0.1
        up = rng.random(students) < np.where(fast, 0.6, 0.95)
        after = np.where(up, np.where(fast, TOP, np.minimum(level + 1, TOP)), level)
        reward = np.where((t == STEPS - 1) & (after == TOP), PASSED, 0.0)
        steps.append([x.tolist() for x in (level, fast, reward, after)])
        level = after
    with path.open("w") as file:
        file.write("episode,t,state,action,reward,next_state\n")
        for student in range(students):
            for t, columns in enumerate(steps):
                s, quick, paid, s1 = (x[student] for x in columns)
                how = "fast" if quick else "slow"
                file.write(f"{student},{t},level {s},{how},{paid:g},level {s1}\n")


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
