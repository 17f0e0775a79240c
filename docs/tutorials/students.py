"""Write students.csv, the file of the tutorial: 3,000 simulated students of an evening course.

Each comes to five sessions, takes a quiz, and gets an exercise to do; then there is an exam, of 20
questions that give 5 points each. Some stay away. The file is as a school office might have it:
semicolons, decimal commas, dates, columns that nobody needs, points only where the exam was
taken, and one word spelt in several ways.

As it is simulated, the truth is known: `expected_points` computes what a way to choose exercises
earns on average.
"""

from __future__ import annotations

import csv
import random
from collections.abc import Callable
from datetime import date, timedelta

SESSIONS = 5
LEVELS = ("weak", "fair", "good")  # a quiz below 50, below 75, and up to 100
EXERCISES = ("review", "exercises", "project")
START = (0.5, 0.4, 0.1)
CHANCES = {  # of being weak, fair or good next time, and of leaving permanently
    ("weak", "review"): (0.30, 0.66, 0.00, 0.04),
    ("weak", "exercises"): (0.66, 0.24, 0.00, 0.10),
    ("weak", "project"): (0.60, 0.05, 0.00, 0.35),
    ("fair", "review"): (0.12, 0.74, 0.12, 0.02),
    ("fair", "exercises"): (0.06, 0.34, 0.58, 0.02),
    ("fair", "project"): (0.35, 0.35, 0.10, 0.20),
    ("good", "review"): (0.05, 0.35, 0.57, 0.03),
    ("good", "exercises"): (0.04, 0.26, 0.67, 0.03),
    ("good", "project"): (0.00, 0.10, 0.89, 0.01),
}
QUIZ = {"weak": (20, 99), "fair": (100, 149), "good": (150, 200)}  # in half points
SOLVED = {"weak": 0.2, "fair": 0.5, "good": 0.9}  # of the questions of the exam
LOGGED = (0.25, 0.25, 0.5)  # how often teachers chose each exercise
COLUMNS = ("Student no.", "Session", "Teacher", "Quiz", "Mood", "Exercise", "Exam", "Remarks")


def write(path: str, students: int = 3000, seed: int = 1) -> None:
    """Write the file."""
    draw = random.Random(seed)
    with open(path, "w", newline="", encoding="cp1252") as file:
        table = csv.writer(file, delimiter=";")
        table.writerow(COLUMNS)
        for number in range(1001, 1001 + students):
            table.writerows(_sessions(draw, number))


def _sessions(draw: random.Random, number: int) -> list[list[object]]:
    """The rows of one student."""
    rows: list[list[object]] = []
    level: str | None = draw.choices(LEVELS, START)[0]
    day = date(2023, 9, 4) + timedelta(days=7 * draw.randrange(100))
    teacher = draw.choice(["Aydin", "Müller", "Okafor"])
    for session in range(SESSIONS):
        assert level is not None
        exercise = draw.choices(EXERCISES, LOGGED)[0]
        quiz = f"{draw.randint(*QUIZ[level]) / 2:.1f}".replace(".", ",")
        level = draw.choices([*LEVELS, None], CHANCES[level, exercise])[0]
        points: object = ""
        if session == SESSIONS - 1 and level is not None:
            points = 5 * sum(draw.random() < SOLVED[level] for _ in range(20))
        spelt = draw.choice([exercise, exercise, exercise.capitalize(), f"{exercise} "])
        mood = draw.choice(["fine", "tired", "so-so"])
        remark = draw.choice(["", "", "", "late", "für Eltern; bitte anrufen"])
        rows.append([number, day, teacher, quiz, mood, spelt, points, remark])
        if level is None:
            break
        day += timedelta(days=7)
    return rows


def expected_points(share: Callable[[int, str, str], float]) -> float:
    """What is earned if ``share(session, level, exercise)`` is how often each exercise is chosen.

    >>> as_logged = dict(zip(EXERCISES, LOGGED))
    >>> round(expected_points(lambda session, level, exercise: as_logged[exercise]), 1)
    29.5
    """
    worth = [100 * SOLVED[level] for level in LEVELS] + [0.0]
    for session in reversed(range(SESSIONS)):
        worth = [
            sum(
                share(session, level, exercise)
                * sum(p * v for p, v in zip(CHANCES[level, exercise], worth, strict=True))
                for exercise in EXERCISES
            )
            for level in LEVELS
        ] + [0.0]
    return sum(p * v for p, v in zip(START, worth, strict=False))


if __name__ == "__main__":
    write("students.csv")
