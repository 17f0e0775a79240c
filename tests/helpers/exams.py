"""Logs of students whose exam comes at the end, as a school has them."""

from __future__ import annotations

from pathlib import Path

import numpy as np

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
