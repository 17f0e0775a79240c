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
    columns = []
    for t in range(STEPS):
        fast = rng.random(students) < 0.1
        up = rng.random(students) < np.where(fast, 0.6, 0.95)
        after = np.where(up, np.where(fast, TOP, np.minimum(level + 1, TOP)), level)
        reward = np.where((t == STEPS - 1) & (after == TOP), PASSED, 0.0)
        columns.append((np.full(students, t), level, fast, reward, after))
        level = after
    t, level, fast, reward, after = (np.stack(x, 1).ravel() for x in zip(*columns, strict=True))
    episode = np.repeat(np.arange(students), STEPS)
    with path.open("w") as file:
        file.write("episode,t,state,action,reward,next_state\n")
        for i, e in enumerate(episode.tolist()):
            how = "fast" if fast[i] else "slow"
            file.write(f"{e},{t[i]},level {level[i]},{how},{reward[i]:g},level {after[i]}\n")
