"""Random events of a task, and the counts of a task and of its log by name."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import ucfh
from oracles.in_flight import SlowFlight
from ucfh.sparse_counts import END, LOST, SHIFT, SparseCounts
from ucfh.tasks.agent import TaskAgent
from ucfh.tasks.config import Declaration
from ucfh.tasks.records import DecisionRecord, OutcomeRecord
from ucfh.tasks.task import Task


class RandomEvents:
    """Events of a task whose outcomes come in any order, drawn from a seed.

    States may have few actions, or none; episodes may end, be lost, or stay open permanently.

    Attributes:
        task: what is declared. have: by state, its actions, the end first.
        events: all of them. policy: the number with which episodes begin next.
        first: by episode, the number with which it began.

    """

    def __init__(
        self,
        seed: int,
        events: int | None = None,
        *,
        noisy: bool | None = None,
        accuracy: float = 0.1,
    ) -> None:
        rng = self.rng = np.random.default_rng(seed)
        self.H, self.A, self.S = (int(x) for x in rng.integers([1, 1, 1], [5, 4, 5]))
        masks = rng.random((self.S, self.A)) < rng.choice([0.3, 0.7, 1.0])
        masks[0, int(rng.integers(self.A))] = True  # somewhere there is something to do
        self.masks = masks
        self.have = [[], *(np.flatnonzero(mask).tolist() for mask in masks)]
        first = [int(x) for x in range(1, self.H) if rng.random() < 0.3]
        low, high = ((0.0, 1.0), (-2.0, 1.0), (-3.0, -1.0), (0.5, 4.0))[int(rng.integers(4))]
        span = max(high, 0.0) - min(low, 0.0)
        self.task = Declaration.make(
            "task", list(range(self.A)), self.H, accuracy * self.H * span, 0.2,
            rewards=(low, high), segments=first,
        )  # fmt: skip
        self.units = self.task.units
        self.grid = low + (high - low) * np.array([0.0, 0.25, 1.0])
        self.law = rng.dirichlet(np.full(self.S + 1, 0.5), (self.S + 1, self.A))
        self.pays = rng.integers(3, size=(self.S + 1, self.A, self.S + 1))
        self.noise = float(rng.choice([0, 0.5])) if noisy is None else 0.5 * noisy
        self.lossy = float(rng.choice([0, 0.1, 1.0], p=[0.4, 0.5, 0.1]))
        self.most_open = int(rng.choice([1, 3, 8]))
        self.latest_first = rng.random() < 0.5  # those that are open first stay so for long
        self.policy, self.events, self.first = (
            0,
            list[DecisionRecord | OutcomeRecord](),
            dict[int, int](),
        )
        self._open: dict[int, tuple[int, int, int]] = {}
        self._paused: dict[int, tuple[int, int]] = {}
        self.episodes = 0
        for _ in range(int(rng.choice([1, 10, 80])) if events is None else events):
            self.go_on()

    def action(self, episode: int, t: int, state: int) -> int:
        """Draw an event of any kind."""
        del episode, t
        return int(self.rng.choice(self.have[state]))

    def go_on(self) -> None:
        """One event more: a decision or an outcome."""
        rng = self.rng
        if self._paused and rng.random() < 0.7:
            episode = int(rng.choice([*self._paused]))
            self._decide(episode, *self._paused.pop(episode))
        elif self._open and (len(self._open) >= self.most_open or rng.random() < 0.5):
            self._tell([*self._open][-1] if self.latest_first else int(rng.choice([*self._open])))
        else:
            self.episodes += 1
            self.first[self.episodes] = self.policy
            starts = [s for s in range(1, self.S + 1) if self.have[s]]
            self._decide(self.episodes, 0, int(rng.choice(starts)))

    def _decide(self, episode: int, t: int, s: int) -> None:
        a = self.action(episode, t, s)
        self._open[episode] = t, s, a
        seq = len(self.events) + 1
        self.events.append(DecisionRecord(seq, episode, t, s, a, self.policy, self.first[episode]))

    def _tell(self, episode: int) -> None:
        rng, (t, s, a) = self.rng, self._open.pop(episode)
        after = int(rng.choice(self.S + 1, p=self.law[s, a]))
        level = rng.integers(3) if rng.random() < self.noise else self.pays[s, a, after]
        reward = float(self.grid[level])
        if rng.random() < self.lossy:
            reward, after = np.nan, LOST
        self.events.append(OutcomeRecord(len(self.events) + 1, episode, t, reward, after))
        if after not in (END, LOST) and t + 1 < self.H and self.have[after]:
            self._paused[episode] = t + 1, after

    def chunks(self) -> Iterator[list[DecisionRecord | OutcomeRecord]]:
        """The events again, in any portions."""
        at = 0
        while at < len(self.events):
            size = int(self.rng.choice([1, 2, 7, 100]))
            yield self.events[at : at + size]
            at += size

    def agent(self) -> TaskAgent:
        """An agent that has found all states."""
        out = TaskAgent(self.task)
        for mask in self.masks:
            out.add_state(None if mask.all() else mask)
        return out

    def slow(self, events: Sequence[Any] | None = None) -> SlowFlight:
        """The oracle, after all events or these."""
        given = self.events if events is None else events
        segments, units = list(self.task.segments), self.units
        return SlowFlight(self.H, segments, self.have, units.shift, units.span, given)


Counts = dict[tuple[str, str, int, str], tuple[int, float]]


def by_name(data: SparseCounts, states: list[str], actions: list[str]) -> Counts:
    """Return counts and rewards of each transition, by name."""
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
