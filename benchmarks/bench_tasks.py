"""Live tasks: calls a second against Optuna's, and a store with a million steps.

A step is an outcome and the next decision; both are synchronised with the disk before the call
returns. What Optuna's storages commit, they synchronise, too.
"""

from __future__ import annotations

import json
import sqlite3
import subprocess
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from typing import Any

import numpy as np
from report import Report

import ucfh

HERE = Path(__file__).parent
PEERS = HERE.parent / ".venv-peers" / "bin" / "python"
STEPS, TURNS = 10_000, 3  # each takes some five seconds
TRIALS = {"sqlite": 300, "journal": 3000}
GOALS = {"sqlite": 50, "journal": 3}
SLOTS = 100
"""Episodes that are open at a time in the store with a million steps."""
TASKS: dict[str, dict[str, Any]] = {
    "12 states": {"S": 12, "A": 3, "H": 8, "C": 4},
    "500 states": {"S": 500, "A": 4, "H": 20, "C": 10},
}

OPENING = """
import json, sys
from time import perf_counter
began = perf_counter()
import ucfh
imported = perf_counter()
with ucfh.open_task(sys.argv[1]) as task:
    opened = perf_counter()
    task.ask("state 0", "the first")
    asked = perf_counter()
    print(json.dumps([opened - imported, asked - began]))
"""
REBUILDING = """
import json, sys
from time import perf_counter
import ucfh
with ucfh.open_task(sys.argv[1], planning="off") as task:
    task.planner.agent()
    began = perf_counter()
    task.planner.rebuild()
    rebuilt = perf_counter()
    assert task.check() == []
    print(json.dumps([rebuilt - began, perf_counter() - rebuilt]))
"""
ASKING = """
import json, sys, time
from time import perf_counter
import numpy as np
import ucfh
from ucfh.tasks import agent
path, planning, calls = sys.argv[1], sys.argv[2], int(sys.argv[3])
agent.GROWTH = 0.0  # planning goes on all the time
draw, seconds, decision = np.random.default_rng(0), {"ask": [], "tell": []}, None
with ucfh.open_task(path, planning=planning) as task:
    first = task.status()
    states, before = first.states, first.policy
    while planning == "background" and task.status().policy < before + 2:
        task.abandon(task.ask("state 0", f"{planning}, before {perf_counter()}").episode)
    before = task.status().policy
    for k in range(calls):
        time.sleep(draw.exponential(0.003))  # calls come at random moments
        state, began = f"state {draw.integers(states)}", perf_counter()
        if decision is None:
            decision, kind = task.ask(state, f"{planning} {k}"), "ask"
        else:
            decision, kind = task.tell(decision, reward=0.0, state=state, done=k % 2 == 0), "tell"
        seconds[kind].append(perf_counter() - began)
    policies = task.status().policy - before
shown = {kind: np.percentile(x, [50, 99, 100]).tolist() for kind, x in seconds.items()}
print(json.dumps([policies, shown]))
"""
CALLS = 4000


def run(code: str, *arguments: Any) -> Any:
    """What Python code prints as JSON, in a process of its own."""
    command = [sys.executable, "-c", code, *map(str, arguments)]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def tells(folder: str, turn: int) -> float:
    """Steps a second of episodes of ten steps, fifty of them open."""
    with ucfh.open_task(
        f"{folder}/steps{turn}.db", actions=["a", "b", "c", "d"], horizon=10, epsilon=0.1
    ) as task:
        open_: list[Any] = [task.ask("state", k) for k in range(50)]
        began, seconds, k = perf_counter(), 0.0, 50
        for i in range(STEPS):
            slot = i % 50
            if open_[slot] is None:
                paused = perf_counter()
                open_[slot] = task.ask("state", k)
                seconds += perf_counter() - paused
                k += 1
            open_[slot] = task.tell(open_[slot], reward=0.5, state="state")
        return STEPS / (perf_counter() - began - seconds)


def asks_and_tells(folder: str, turn: int) -> float:
    """Episodes a second of one step: ask, then tell."""
    with ucfh.open_task(
        f"{folder}/trials{turn}.db", actions=["a", "b", "c", "d"], horizon=1, epsilon=0.1
    ) as task:
        began = perf_counter()
        for k in range(STEPS):
            task.tell(task.ask("state", k), reward=0.5, done=True)
        return STEPS / (perf_counter() - began)


def commits(folder: str, turn: int) -> float:
    """Commits a second of SQLite alone, of one row in each of three tables."""
    connection = sqlite3.connect(f"{folder}/raw{turn}.db", isolation_level=None)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("PRAGMA synchronous=FULL")
    for name in "abc":
        connection.execute(f"CREATE TABLE {name} (i INTEGER PRIMARY KEY, text TEXT)")
    began = perf_counter()
    for i in range(STEPS):
        connection.execute("BEGIN IMMEDIATE")
        for name in "abc":
            connection.execute(f"INSERT INTO {name} VALUES (?, 'some text')", (i,))
        connection.execute("COMMIT")
    seconds = perf_counter() - began
    connection.close()
    return STEPS / seconds


def optuna(folder: str, kind: str, turn: int) -> float:
    """Trials a second: ask, then tell."""
    where = Path(folder) / f"optuna-{kind}-{turn}"
    where.mkdir()
    command = [str(PEERS), str(HERE / "peers/ask_tell.py"), str(where), kind, str(TRIALS[kind])]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def compare(report: Report) -> None:
    """Calls a second, in turns."""
    found: dict[str, list[float]] = {}
    with TemporaryDirectory() as folder:
        for turn in range(TURNS):
            for name, value in {
                "a step": tells(folder, turn),
                "ask and tell": asks_and_tells(folder, turn),
                "SQLite": commits(folder, turn),
                "sqlite": optuna(folder, "sqlite", turn),
                "journal": optuna(folder, "journal", turn),
            }.items():
                found.setdefault(name, []).append(value)
    best = {name: max(values) for name, values in found.items()}
    report.say(
        "## Live tasks",
        "",
        "Calls a second, the best of three turns, all synchronised with the disk; planning goes on "
        f"beside ours. SQLite alone: {best['SQLite']:.0f} commits a second of three rows.",
    )
    rows = []
    for what, ours in (
        ("tell, with the next decision: one commit", "a step"),
        ("ask, then tell, episodes of one step: two commits", "ask and tell"),
    ):
        ratios = [f"{best[ours] / best[kind]:.0f} (goal {GOALS[kind]})" for kind in GOALS]
        rows.append([what, f"{best[ours]:.0f}", *ratios])
    theirs = [f"Optuna's ask and tell, {kind}: {best[kind]:.0f}" for kind in GOALS]
    report.table(["ucfh", "a second", *(f"{x}; ucfh / Optuna" for x in theirs)], rows)


def events(S: int, A: int, H: int, C: int, steps: int) -> list[tuple[Any, ...]]:
    """Rows (seq, kind, episode, t, state, action, policy, reward) of episodes that overlap."""
    rng = np.random.default_rng(0)
    after, pays = rng.integers(0, S, (S, A, C)), rng.random((S, A))
    out: list[tuple[Any, ...]] = []
    slot, begun = np.arange(SLOTS), SLOTS
    episode, t, s = slot + 1, np.zeros(SLOTS, int), rng.integers(0, S, SLOTS)
    seq = 0
    for _ in range(steps // SLOTS):
        a = rng.integers(0, A, SLOTS)
        for kind in (0, 1):
            if kind == 0:
                columns = episode, t, s + 1, a
                for e, at, state, action in zip(*(x.tolist() for x in columns), strict=True):
                    out.append((seq := seq + 1, 0, e, at, state, action, 0, None))
            else:
                paid = (rng.random(SLOTS) < pays[s, a]).astype(float)
                then = after[s, a, rng.integers(0, C, SLOTS)]
                done = rng.random(SLOTS) < 0.02
                columns = episode, t, np.where(done, 0, then + 1), paid
                for e, at, state, reward in zip(*(x.tolist() for x in columns), strict=True):
                    out.append((seq := seq + 1, 1, e, at, state, None, None, reward))
        over = done | (t == H - 1)
        count = int(over.sum())
        episode = episode.copy()
        episode[over] = begun + 1 + np.arange(count)
        begun += count
        t, s = np.where(over, 0, t + 1), np.where(over, rng.integers(0, S, SLOTS), then)
    return out


def fill(path: str, S: int, A: int, H: int, C: int, steps: int) -> None:
    """Make a store with that many steps."""
    rows = events(S, A, H, C, steps)
    with ucfh.open_task(
        path,
        actions=[f"action {a}" for a in range(A)],
        horizon=H,
        epsilon=0.1 * H,
        max_return=H,
        planning="off",
    ):
        pass
    connection = sqlite3.connect(path)
    labels = ((1, s + 1, f'"state {s}"', None) for s in range(S))
    connection.executemany("INSERT INTO states VALUES (?,?,?,?)", labels)
    first = ((1, x[2], f"episode {x[2]}", 0, 0.0) for x in rows if x[1] == 0 and x[3] == 0)
    connection.executemany("INSERT INTO episodes VALUES (?,?,?,?,?)", first)
    connection.executemany(
        "INSERT INTO events VALUES (?,?,?,?,?,?,?,?,?,?,?)",
        ((1, *row, 0.0, None) for row in rows),
    )
    last = {row[2]: row for row in rows}
    going = [x for x in last.values() if x[4] > 0 and x[3] < H - 1]
    connection.executemany(
        "INSERT INTO waiting VALUES (1,?,?,1,?,NULL)", ((x[2], x[3], x[0]) for x in going)
    )
    connection.commit()
    connection.close()
    with ucfh.open_task(path, planning="inline") as task:
        task.ask("state 0", "plans")
        assert task.status().policy == 1


def large(report: Report, steps: int = 1_000_000) -> None:
    """A store with many steps."""
    rows = []
    for name, sizes in TASKS.items():
        with TemporaryDirectory() as folder:
            path = f"{folder}/large.db"
            fill(path, **sizes, steps=steps)
            run(OPENING, path)
            opened, whole = run(OPENING, path)
            rebuilt, checked = run(REBUILDING, path)
            _, alone = run(ASKING, path, "off", CALLS)
            policies, seconds = run(ASKING, path, "background", CALLS)
            size = Path(path).stat().st_size / 2**20
        shown = [
            " / ".join(f"{1e3 * x:.1f}" for x in found)
            for found in (seconds["ask"], seconds["tell"], alone["ask"])
        ]
        rows.append([
            f"{name}, {size:.0f} MiB",
            f"{opened:.2f} s (goal 1); {whole:.2f} s",
            f"{rebuilt:.1f} s (goal 20); {checked:.1f} s",
            *shown,
            str(policies),
        ])  # fmt: skip
    report.say(
        f"A store with {steps} steps, {SLOTS} episodes of which are open. Milliseconds of ask and "
        "tell, p50 / p99 / longest, at random moments while planning goes on all the time (goal: "
        "p99 of ask below 5).",
    )
    report.table(
        [
            "task",
            "open it; with import and the first ask",
            "make its counts anew; check all",
            "ask",
            "tell",
            "ask, without planning",
            "policies made meanwhile",
        ],
        rows,
    )


def main(report: Report) -> None:
    compare(report)
    large(report)


if __name__ == "__main__":
    main(Report())
