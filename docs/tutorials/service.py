"""Run a tutoring service on a live task: 200 simulated students at once, and a crash on the way.

    python docs/tutorials/service.py

The students are those of students.py: five sessions, an exercise in each, an exam at the end. A
student who gets on answers within a day or so, one who does not takes up to a week, and one who
stays away is silent: how late an outcome is known depends on what it is. In the middle the
service is killed and started again. At the end its certificate is compared with the truth.

What comes of an exercise is drawn from the seed, the student and the session alone, so it is the
same whether the service is killed or not. Days are simulated as well: the store takes the time from
`time.time`, which is replaced here, so that a year takes seconds and deadlines pass when they
should.
"""

from __future__ import annotations

import argparse
import heapq
import json
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from students import CHANCES, EXERCISES, LEVELS, SESSIONS, SOLVED, START, expected_points

import ucfh

AT_ONCE = 200
EPSILON = 10.0
DAY = 86400.0
DEADLINE = 10 * DAY
OPENING = 1_700_000_000.0  # when the service opens: simulated days in the past
SILENCE: dict[str, Any] = {"left": ("left", 0), "lost": "lost"}  # what a passed deadline means


def outcome(seed: int, student: int, t: int, level: str, exercise: str) -> tuple[str, float, float]:
    """What comes of an exercise: the level after it, the points, and after how many days."""
    draw = random.Random(f"{seed}/{student}/{t}/{exercise}")
    after = draw.choices([*LEVELS, ""], CHANCES[level, exercise])[0]
    if not after:  # one in ten comes back, too late
        return level, 0.0, draw.uniform(12, 20) if draw.random() < 0.1 else float("inf")
    points = 0.0
    if t == SESSIONS - 1:
        points = 5.0 * sum(draw.random() < SOLVED[after] for _ in range(20))
    gets_on = after == LEVELS[-1] or LEVELS.index(after) > LEVELS.index(level)
    return after, points, draw.uniform(0.5, 1.5) if gets_on else draw.uniform(2, 7)


class Service:
    """The service, and the world around it: a clock, and answers that are on their way.

    Attributes:
        task: the live task. now: the time, in seconds.
        answers: when each comes, of which student and session, and what it says.

    """

    def __init__(self, store: str, silence: str, seed: int) -> None:
        self.now, self.seed = OPENING, seed
        time.time = lambda: self.now
        self.task = ucfh.open_task(
            store,
            "course",
            actions=EXERCISES,
            horizon=SESSIONS,
            epsilon=EPSILON,
            rewards=(0, 100),
            max_return=100,
            segments=[SESSIONS - 1],
            timeout=DEADLINE,
            on_timeout=SILENCE[silence],
            planning="inline",
        )
        self.answers: list[tuple[float, int, int, str, float]] = []
        for step in self.task.decisions("all"):  # there are some if it was killed
            self.now = max(self.now, step["asked"], step["told"] or 0)
            if step["status"] == "open" or step["note"] == "expired":
                self.expect(
                    step["episode"], step["t"], step["state"], step["action"], step["asked"]
                )
        self.answers = [x for x in self.answers if x[0] > self.now]
        heapq.heapify(self.answers)
        self.now += 60  # a minute later the right to plan, which the killed one had, is free
        self.task.planner.step()  # it may have been killed while it planned
        self.now -= 60

    def expect(self, student: str, t: int, level: str, exercise: str, asked: float) -> None:
        """Let the world work on a decision; its answer will come, or not."""
        after, points, days = outcome(self.seed, int(student), t, level, exercise)
        if days < float("inf"):
            heapq.heappush(self.answers, (asked + days * DAY, int(student), t, after, points))

    def admit(self) -> None:
        """Let students begin as long as there are places."""
        status = self.task.status()
        for student in range(status.begun + 1, status.begun + 1 + AT_ONCE - status.open):
            level = random.Random(f"{self.seed}/{student}").choices(LEVELS, START)[0]
            decision = self.task.ask(level, episode=str(student))
            self.expect(decision.episode, decision.t, level, decision.action, self.now)

    def run(self, students: int) -> None:
        """Serve until the policy is certified, or so many have begun; report every night."""
        night = OPENING + DAY * (1 + (self.now - OPENING) // DAY)
        self.admit()
        while True:
            if self.answers and self.answers[0][0] < night:
                self.now, student, t, after, points = heapq.heappop(self.answers)
                decision = self.task.tell((str(student), t), reward=points, state=after)
                if decision is not None:
                    self.expect(decision.episode, decision.t, after, decision.action, self.now)
                elif t == SESSIONS - 1:
                    self.admit()
                continue
            self.now, night = night, night + DAY
            self.task.expire()
            self.admit()
            status = self.task.status()
            newest = self.task.store.newest_policy(self.task.number)
            held = 0 if newest is None else newest.summary["waiting"]
            day = round((self.now - OPENING) / DAY)
            print(json.dumps({"day": day, "held": held, **vars(status)}), flush=True)
            if status.certified or status.begun >= students:
                return


def run_service(given: argparse.Namespace, kill_at: float) -> tuple[list[dict[str, Any]], bool]:
    """Run the service in a process of its own; its reports, and whether it was killed."""
    options = ["--store", given.store, "--silence", given.silence, "--seed", str(given.seed)]
    command = [sys.executable, __file__, "--serve", *options, "--students", str(given.students)]
    reports: list[dict[str, Any]] = []
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as service:
        assert service.stdout is not None
        for line in service.stdout:
            reports.append(json.loads(line))
            if reports[-1]["begun"] >= kill_at:
                service.kill()  # SIGKILL: it cannot save anything, nor say goodbye
                return reports, True
    if service.returncode:
        raise SystemExit(service.returncode)
    return reports, False


def best_points() -> float:
    """What the best policy earns."""
    worth = {level: 100 * SOLVED[level] for level in LEVELS} | {"": 0.0}
    for _ in range(SESSIONS):
        chances = {level: [CHANCES[level, exercise] for exercise in EXERCISES] for level in LEVELS}
        worth = {
            level: max(
                sum(p * v for p, v in zip(line, worth.values(), strict=True))
                for line in chances[level]
            )
            for level in LEVELS
        } | {"": 0.0}
    return sum(p * worth[level] for p, level in zip(START, LEVELS, strict=True))


def show(given: argparse.Namespace, killed: dict[str, Any] | None, days: int) -> None:
    """Print what the service did, and what its certificate says against the truth."""
    with ucfh.open_task(given.store, "course", planning="off") as task:
        known, policy, status = task.certificate(), task.policy(), task.status()
        silent = sum(step["note"] == "expired" for step in task.decisions("all"))
        faults = task.check()
    earns = expected_points(lambda t, level, exercise: float(policy.act(t, level) == exercise))
    rows = {
        "students": f"{status.begun} in {days} days, {AT_ONCE} at once",
        "outcomes": f"{status.outcomes + status.lost - silent} told, {silent} silent until the "
        f"deadline ({given.silence})",
        "too late": f"{status.late} of the silent answered after the deadline: kept, not counted",
    }
    if killed is not None:
        rows["killed"] = (
            f"on day {killed['day']}, with {killed['waiting']} decisions open; started again"
        )
        rows["checked"] = "; ".join(faults) or "nothing is missing, nothing is doubled"
    verdict = "certified" if known.certified else "not certified"
    rows |= {
        "result": f"{verdict}: within {known.gap:.1f} points of the best policy",
        "this policy": f"earns {known.lower:.1f} at least; in truth {earns:.1f}",
        "any policy": f"earns {known.upper:.1f} at most; in truth {best_points():.1f}",
    }
    for name, text in rows.items():
        print(f"{name:>12}  {text}")


def label(axes: Any, x: float, y: float, text: str, colour: str, left: bool = False) -> None:
    """Write a text just above a point that is its right end, or its left one."""
    axes.annotate(
        text, (x, y), (4 if left else -2, 4), textcoords="offset points", color=colour,
        ha="left" if left else "right", va="bottom",
    )  # fmt: skip


def draw(path: str, reports: list[dict[str, Any]], killed: dict[str, Any] | None) -> None:
    """Draw the bounds over the students that began, with the truth and the crash."""
    import matplotlib

    matplotlib.use("agg")
    from matplotlib import pyplot

    blue, orange, grey = "#0072B2", "#D55E00", "#555555"  # distinct for any colour vision
    begun, upper, lower, held, waiting = (
        [x[name] for x in reports] for name in ("begun", "upper", "lower", "held", "waiting")
    )
    figure, (top, bottom) = pyplot.subplots(
        2, sharex=True, figsize=(8, 5.5), height_ratios=(3, 1), layout="constrained"
    )
    top.fill_between(begun, lower, upper, color=grey, alpha=0.12, lw=0)
    top.plot(begun, upper, color=blue, lw=2)
    top.plot(begun, lower, color=orange, lw=2, ls="--")
    top.axhline(best_points(), color="black", lw=1.2, ls=":")
    end = begun[-1]
    label(top, begun[0], best_points(), "the best policy earns this, in truth", "black", left=True)
    label(top, end, upper[-1], "no policy earns more", blue)
    label(top, end, lower[-1] - 9, "this policy earns at least", orange)
    top.set(ylabel="points of a student", ylim=(0, 105))
    top.set_title(f"What is certified, with {AT_ONCE} students at once", loc="left")
    bottom.plot(begun, held, color=grey, lw=1.5)
    bottom.plot(begun, waiting, color=grey, lw=1.5, ls="--")
    text = "not counted yet: open, or after an open one"
    label(bottom, begun[0], waiting[-1], text, grey, left=True)
    label(bottom, end, 0, "open", grey)
    bottom.set(xlabel="students that have begun", ylabel="decisions", ylim=(0, None), xlim=(0, end))
    if killed is not None:
        for axes in (top, bottom):
            axes.axvline(killed["begun"], color="black", lw=1)
        label(top, killed["begun"], 0, "killed, and started again", "black", left=True)
    for axes in (top, bottom):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)
    print(f"{'figure':>12}  {path}")


def main() -> None:
    """Run the service, kill it in the middle, run it again, and show what came of it."""
    parser = argparse.ArgumentParser(description="Run a tutoring service on a live task.")
    parser.add_argument("--students", type=int, default=20_000, help="end after so many")
    parser.add_argument(
        "--kill-at", type=float, default=2000, help="kill it after so many; 0: never"
    )
    parser.add_argument("--silence", choices=SILENCE, default="left", help="what silence means")
    parser.add_argument("--seed", type=int, default=1, help="of the simulated students")
    parser.add_argument("--store", default="course.db", help="file of the task, which is new")
    parser.add_argument("--plot", default="service.png", help="file of the figure")
    parser.add_argument("--serve", action="store_true", help="only serve: used by the script")
    given = parser.parse_args()
    if given.serve:
        warnings.simplefilter("ignore", ucfh.LateOutcomeWarning)  # they are kept as faults
        Service(given.store, given.silence, given.seed).run(given.students)
        return
    if Path(given.store).exists():
        raise SystemExit(f"{given.store} exists: remove it, or pass another --store")
    reports, was_killed = run_service(given, given.kill_at or float("inf"))
    killed = reports[-1] if was_killed else None
    if was_killed:
        reports += run_service(given, float("inf"))[0]
    show(given, killed, reports[-1]["day"])
    draw(given.plot, reports, killed)


if __name__ == "__main__":
    main()
