"""Answers to be shown: logs of three kinds, and what they prove."""

from __future__ import annotations

import csv
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ucfh import Log, read_log
from ucfh.auditing.report import ASSUMPTIONS, AssumptionCheck, Finding
from ucfh.certification import certificate_from_log
from ucfh.reporting.log_report import LogReport, answer_of

CHANCES = {
    ("cold", "wait"): {"cold": 0.9, "left": 0.1},
    ("cold", "mail"): {"cold": 0.6, "warm": 0.35, "left": 0.05},
    ("cold", "call"): {"cold": 0.3, "warm": 0.5, "left": 0.2},
    ("warm", "wait"): {"warm": 0.6, "cold": 0.3, "renewed": 0.1},
    ("warm", "mail"): {"warm": 0.7, "cold": 0.1, "renewed": 0.2},
    ("warm", "call"): {"warm": 0.2, "renewed": 0.7, "left": 0.1},
}
"""The customers of the tutorial: what follows, and how likely."""

COLUMNS = {
    "episode": "customer", "t": "week", "state": "mood", "action": "contact", "reward": "euros",
    "next_state": "mood_after", "done": "closed",
}  # fmt: skip

FINDING = Finding(
    name="memory",
    assumption="the outcome depends on the state and the action alone, not on earlier steps",
    where="after action 'call' in state 'warm'",
    effect="if the step before had action 'call', state 'left' follows more often (31% of 402) "
    "than otherwise (8% of 810)",
    meaning="the bounds pool these cases, so they may be invalid: the policy is not certified",
    remedy="make the previous action a part of the state",
    e_value=5.3e9,
    episodes=1200,
)
TESTED = (
    AssumptionCheck("memory", FINDING.assumption, FINDING.e_value, 500.0),
    AssumptionCheck("drift", ASSUMPTIONS["drift"], 0.31, 500.0),
    AssumptionCheck("start", ASSUMPTIONS["start"], 41.0, 500.0),
)


def write_renewals(path: Path, customers: int, faults: bool = False, first: int = 0) -> Path:
    """The log of the tutorial; some of its rows are damaged, if asked for."""
    draw, damage = random.Random(0), random.Random(1)
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(COLUMNS.values())
        for customer in range(customers):
            mood, week = "cold", 0
            while mood in ("cold", "warm") and week < 4:
                contact = draw.choice(["wait", "mail", "call"])
                odds = CHANCES[mood, contact]
                after = draw.choices(list(odds), list(odds.values()))[0]
                euros = "80" if after == "renewed" else "0"
                closed = int(after in ("renewed", "left"))
                if faults and damage.random() < 0.05:
                    euros = "eighty"
                shown = "lukewarm" if faults and damage.random() < 0.02 else after
                table.writerow([customer, week + first, mood, contact, euros, shown, closed])
                mood, week = after, week + 1
    return path


def write_lessons(path: Path, students: int, states: int, horizon: int) -> Path:
    """A log with many states and steps, counted from 1."""
    rng = np.random.default_rng(3)
    following = rng.integers(0, states, (states, 4, 3))
    pays = rng.random((states, 4)) ** 4
    actions = ["explain", "exercise", "review the previous lesson", "quiz"]
    names = [f"topic {s // 10 + 1}, level {s % 10}" for s in range(states)]
    with open(path, "w", newline="", encoding="utf-8") as file:
        table = csv.writer(file)
        table.writerow(["student_id", "t", "state", "action", "reward", "next_state"])
        for student in range(students):
            s = int(rng.integers(0, 8))
            for t in range(horizon):
                a = int(rng.integers(4))
                after = int(following[s, a, rng.integers(3)])
                paid = int(rng.random() < pays[s, a])
                table.writerow([student, t + 1, names[s], actions[a], paid, names[after]])
                s = after
    return path


def answer_of_log(log: Log, name: str, epsilon: float, **changes: Any) -> LogReport:
    """What a log proves, changed as one likes."""
    return answer_of(name, log, replace(certificate_from_log(log, 0.1, epsilon), **changes))


def small_answer(folder: Path) -> LogReport:
    """Of the tutorial's log: certified, and better than before."""
    path = write_renewals(folder / "renewals.csv", 4000)
    log = read_log(path, columns=COLUMNS, rewards=(0, 80), max_return=80)
    return answer_of_log(log, str(path), 10.0)


def faulty_answer(folder: Path) -> LogReport:
    """Of a short log with faults: not certified, and no improvement can be promised."""
    path = write_renewals(folder / "faulty.csv", 300, faults=True)
    log = read_log(path, columns=COLUMNS, rewards=(0, 80), max_return=80, accept_losses=True)
    return answer_of_log(log, str(path), 8.0)


def large_answer(folder: Path, students: int = 3000) -> LogReport:
    """Of a log with 150 states and 20 steps."""
    path = write_lessons(folder / "lessons.csv", students, 150, 20)
    return answer_of_log(read_log(path, columns={"episode": "student_id"}), str(path), 1.0)


def refuted_answer(folder: Path) -> LogReport:
    """Of a log that refutes what is assumed."""
    known = small_answer(folder)
    return replace(known, known=replace(known.known, findings=(FINDING,)), tested=TESTED)
