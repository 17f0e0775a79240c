"""Learners that plan anew after every episode, by optimism in the form of a bonus.

    loop
        p^ = n(s,a,s') / n(s,a)
        plan back in time: Q_t = r + p^ V_{t+1} + bonus, V_t = max Q_t      (`ucfh._kernels.online`)
        follow the greedy policy for an episode, and count

A learner of this kind is a page: the coefficients of its bonus as functions of n, and what its
planning does besides (`Rule`). The loop is compiled.
"""

from __future__ import annotations

from abc import abstractmethod
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ucfh._kernels import online as kernels
from ucfh._kernels.online import CROWD, DEVIATION, DISTANCE, FLAT, RADIUS, SPREAD, Rule
from ucfh.agents.base import NEVER, Agent, Limits
from ucfh.counts import Counts
from ucfh.errors import InputError, check_count, check_unit
from ucfh.problem import Problem
from ucfh.table import Floats, Ints, Rewards

LINES = {
    "flat": FLAT,
    "deviation": DEVIATION,
    "spread": SPREAD,
    "distance": DISTANCE,
    "crowd": CROWD,
    "radius": RADIUS,
}
"""The coefficients of a bonus, as `ucfh._kernels.online` explains them."""

ROOM = 4096
"""Policies that are recorded in one go."""

FIRST_TABLE = 1024
"""So many visits the tables of coefficients reach at first; they are doubled as needed."""


class Record(NamedTuple):
    """Policies that were followed one after the other: (k,) each.

    first_episode is counted from the first of the episodes that were asked for.
    """

    first_episode: Ints
    value: Floats
    promised: Floats


def check_scale(scale: float) -> float:
    """The factor of all bonuses, radii or widths: positive, and 1 as published."""
    if not 0 < scale < float("inf"):
        raise InputError(f"scale = {scale!r} must be a positive number: 1 is as published")
    return float(scale)


def told_rewards(problem: Problem, name: str) -> Rewards:
    """The rewards, for learners that have to be told."""
    if problem.rewards is None:
        raise InputError(
            f"{name} is for known rewards: tell it, or take ucfh, which learns them too"
        )
    return problem.rewards


def sheet_of(problem: Problem, rewards: Rewards) -> kernels.Sheet:
    """A problem's table and rewards, as the kernels take them."""
    table = problem.table
    extra = np.zeros((1, 0)) if rewards.successor is None else rewards.successor
    return kernels.Sheet(
        table.first, table.indptr, table.indices, table.stride, rewards.pair, extra
    )


class Online(Agent):
    """A learner that plans with a bonus after every episode.

    Args:
        problem: what it is told: the rewards, and which states may follow.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        episodes: how many it is told that there will be, K.
        scale: shrinks the bonus; 1 as published.

    Attributes:
        counts: n(s, a) and n(s, a, s').
        V, L: (H+1, S) its bounds of V*, and of the value of its policy where it keeps those.

    """

    rule = Rule()
    enough = -np.inf
    """It stops planning when it promises itself no more than this."""

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, scale: float = 1.0
    ) -> None:
        rewards = told_rewards(problem, self.name)
        self.problem = problem
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.K, self.scale = check_count("episodes", episodes), check_scale(scale)
        self.S, self.A, self.H = problem.states, problem.actions, problem.horizon
        self.sheet = sheet_of(problem, self.planned_rewards(rewards))
        self.counts = Counts.zero(problem)
        self.terms = np.zeros((len(LINES), problem.table.rows))
        self.which = np.array([LINES[x] for x in self.coefficients(np.ones(1))], np.int64)
        self.tables = np.zeros((len(self.which), 0))
        self.N = np.zeros((self.H + 1, self.S) if self.crowding(np.ones(1)).size else (0, 0), int)
        self.G = np.zeros(self.N.shape)
        self.Q = np.full((self.H, problem.table.pairs), float(self.H))
        self.V, self.L = np.zeros((self.H + 1, self.S)), np.zeros((self.H + 1, self.S))
        self.rows = np.zeros((self.H, self.S), np.int64)
        self.followed = np.full((self.H, self.S), -1)
        self._tabulate(FIRST_TABLE)
        self._look_up()
        self._plan()

    @abstractmethod
    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Those of the bonus after n (k,) visits, n >= 1, by their names in `LINES`; scaled."""

    def crowding(self, visits: Floats) -> Floats:  # noqa: ARG002
        """G after so many visits (k,) of a state at a step, at least 1; empty: none."""
        return np.zeros(0)

    def planned_rewards(self, rewards: Rewards) -> Rewards:
        """What it plans for."""
        return rewards

    def _tabulate(self, size: int) -> None:
        """Tables of coefficients for fewer than ``size`` visits; 0 visits count as 1."""
        n = np.maximum(np.arange(size), 1.0)
        self.tables = np.array([*self.coefficients(n).values()], float).reshape(-1, size)
        self.crowd_table = self.crowding(n)
        if self.crowd_table.size:
            self.crowd_table[0] = self.crowding(np.zeros(1))[0]

    def _look_up(self) -> None:
        """Coefficients of all rows, from their counts."""
        n = self.counts.visits
        while n.max() >= self.tables.shape[1]:
            self._tabulate(2 * self.tables.shape[1])
        self.terms[self.which] = self.tables[:, n]
        if self.N.size:
            self.G[:] = self.crowd_table[np.minimum(self.N, len(self.crowd_table) - 1)]

    def _plan(self) -> None:
        """Optimistic planning, from the counts."""
        started = perf_counter()
        kernels.plan(
            self.sheet, self.rule, self.terms, self.counts.successors, self.counts.visits,
            self.G, self.Q, self.V, self.L, self.rows,
        )  # fmt: skip
        self.planning_seconds += perf_counter() - started
        self._take_stock()

    def _take_stock(self) -> None:
        self.policy = self.problem.table.policy_of(self.rows)
        start = self.problem.initial
        self.optimistic = float(self.V[0].max() if start is None else start @ self.V[0])

    def limits(self) -> Limits:
        """One episode, step by step."""
        return Limits(np.full(self.problem.table.rows, NEVER), episodes=1, steps=True)

    def observe(self, seen: Counts) -> bool:
        """Count an episode, and plan."""
        counts, table = self.counts, self.problem.table
        row = table.row_of_entry[seen.steps]
        for i, t in np.ndindex(seen.steps.shape):
            if self.N.size:
                self.N[t + 1, table.indices[seen.steps[i, t]]] += 1
            if counts.visits[row[i, t]] < self.rule.most:
                counts.visits[row[i, t]] += 1
                counts.successors[seen.steps[i, t]] += 1
        before = self.rows.copy()
        self._look_up()
        self._plan()
        return not np.array_equal(before, self.rows)

    def follow(
        self, rng: np.random.Generator, nature: kernels.Nature, episodes: int
    ) -> tuple[int, Record]:
        """Run so many episodes in one go: how many were run before it settled, and a record."""
        started, parts, walked = perf_counter(), [], 0
        while walked < episodes:
            first, value, promised = np.zeros(ROOM, np.int64), np.zeros(ROOM), np.zeros(ROOM)
            more, recorded = kernels.learn(
                rng, episodes - walked, self.enough, nature, self.sheet, self.rule, self.which,
                self.tables, self.terms, self.crowd_table, self.counts.successors,
                self.counts.visits, self.N, self.G, self.Q, self.V, self.L, self.rows,
                self.followed, first, value, promised,
            )  # fmt: skip
            at = slice(0, recorded)
            parts.append(Record(first[at] + walked, value[at], promised[at]))
            walked += more
            self._look_up()
            if more == 0 and recorded < ROOM:
                break
        self.planning_seconds += perf_counter() - started
        self._plan()
        return walked, Record(*(np.concatenate(x) for x in zip(*parts, strict=True)))

    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {
            "agent": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "episodes": self.K,
            "scale": self.scale,
        }

    def visits_of(self, row: int) -> int:
        """n of a row."""
        return int(self.counts.visits[row])

    def state(self) -> dict[str, Any]:
        """Counts, and what the last planning found."""
        kept = {x: getattr(self, x).copy() for x in ("N", "Q", "V", "L", "rows", "followed")}
        return {**self.counts.state("n"), **kept}

    def restore(self, state: dict[str, Any]) -> None:
        """Take back what `state` gave."""
        self.counts.restore("n", state)
        for x in ("N", "Q", "V", "L", "rows", "followed"):
            getattr(self, x)[:] = state[x]
        self._look_up()
        self._take_stock()
