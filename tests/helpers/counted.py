"""What a task and its log have counted, under the names of states and actions."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

import ucfh
from ucfh.sparse_counts import SHIFT, SparseCounts
from ucfh.tasks.task import Task

Counts = dict[tuple[str, str, int, str], tuple[int, float]]


def by_name(data: SparseCounts, states: list[str], actions: list[str]) -> Counts:
    """How often each next state followed, and what was paid, under names."""
    out: Counts = {}
    for key, c, paid in zip(data.key.tolist(), data.c.tolist(), data.paid.tolist(), strict=True):
        segment, s, a = data.pair_of(key >> SHIFT)
        name = states[key & (2**SHIFT - 1)]
        out[states[s + 1], actions[a], segment, name] = c, round(paid, 9)
    return out


def lost_by_name(data: SparseCounts, states: list[str], actions: list[str]) -> dict[Any, int]:
    data.make_room()
    out = {}
    for row in np.flatnonzero(data.lost).tolist():
        segment, s, a = data.pair_of(row)
        out[states[s + 1], actions[a], segment] = int(data.lost[row])
    return out


def of_task(task: Task) -> tuple[Counts, dict[Any, int], list[int]]:
    agent = task.planner.rebuild(task.planner.agent())
    data, names = agent.experience, ["(end)", *map(str, task.states.labels[1:])]
    actions = task.declaration.action_names
    starts = [int(data.started[s]) for s in np.argsort(names)]
    return by_name(data, names, actions), lost_by_name(data, names, actions), starts


def of_log(path: Path) -> tuple[Counts, dict[Any, int], list[int], ucfh.Log]:
    log = ucfh.read_log(path, strict=True)
    assert log.shown is not None
    data = log.shown.experience
    found = [str(log.states.label(s)) for s in range(log.states.count)]
    names, actions = ["", *found], [str(log.actions.label(a)) for a in range(log.actions.count)]
    starts = [int(data.started[s]) for s in np.argsort(names)]
    return by_name(data, names, actions), lost_by_name(data, names, actions), starts[1:], log
