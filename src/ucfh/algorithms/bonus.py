"""Agents that may change their policy after every episode, and agents that plan with a bonus:

    loop
        p^ = n(s,a,s') / n(s,a)
        plan back in time: Q_t = r + p^ V_{t+1} + bonus, V_t = max Q_t      (`ucfh._kernels.online`)
        follow the greedy policy for an episode, and count

An agent of this kind states the coefficients of its bonus as functions of n, and the other options
of its planning (`Rule`). The loop is compiled.
"""

from __future__ import annotations

import json
from abc import abstractmethod
from collections.abc import Iterable, Mapping
from time import perf_counter
from typing import Any

import numpy as np

from ucfh._kernels import online as kernels
from ucfh._kernels.episodes import promise
from ucfh._kernels.online import (
    BUDGET,
    CROWD,
    DEVIATE,
    DEVIATION,
    DISTANCE,
    FLAT,
    NO_CAP,
    RADIUS,
    SPREAD,
    Rule,
)
from ucfh._kernels.types import EnvironmentArrays, ProblemArrays, Record
from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.plugins import PluginError
from ucfh.algorithms.base import Agent, LoopResult
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_count, check_seed, check_unit, unknown, with_article
from ucfh.mdp import Problem
from ucfh.transitions import Rewards

TERMS = {
    "flat": FLAT,
    "deviation": DEVIATION,
    "spread": SPREAD,
    "distance": DISTANCE,
    "crowd": CROWD,
    "radius": RADIUS,
    "budget": BUDGET,
    "deviate": DEVIATE,
}
"""The coefficients of a bonus, as `ucfh._kernels.online` explains them."""

RECORD_SIZE = 4096
"""Policies recorded per call of a compiled loop."""

INITIAL_TABLE_SIZE = 1024
"""Initial size of the tables of coefficients by visits; doubled as needed."""


def check_scale(scale: float) -> float:
    """Return the factor of bonuses, radii or widths if it is positive; else raise."""
    if not 0 < scale < float("inf"):
        raise InputError(f"scale = {scale!r} must be a positive number: 1 changes nothing")
    return float(scale)


def check_bonus(bonus: Any, n: Floats) -> dict[str, Floats]:
    """Return the result of `BonusAgent.coefficients` for n (k,); raise unless it maps names of
    `TERMS` to numbers (k,)."""
    if not isinstance(bonus, Mapping):
        array = isinstance(bonus, np.ndarray)
        kind = "an array" if array else with_article(type(bonus).__name__)
        raise PluginError(f"coefficients returns {kind}: return a dict, such as {{'flat': 1 / n}}")
    for name, given in bonus.items():
        if name not in TERMS:
            raise PluginError(f"coefficients: {unknown('term', name, TERMS)}")
        values = np.asarray(given)
        if values.shape != n.shape:
            size = f"{values.size} number{'s' * (values.size != 1)}"
            raise PluginError(
                f"coefficients returns {size} for {name!r}, and n has {n.size}: return as many"
            )
        for i in np.flatnonzero(np.isnan(values))[:1]:
            raise PluginError(
                f"coefficients returns nan for {name!r} at n = {n[i]:g}: return a number"
            )
    return dict(bonus)


def known_rewards(problem: Problem, name: str) -> Rewards:
    """Return the known rewards; raise if they are unknown."""
    if problem.rewards is None:
        raise InputError(
            f"{name} needs known rewards: give them to the problem, or use ucfh, which learns them"
        )
    return problem.rewards


def problem_arrays(problem: Problem, rewards: Rewards) -> ProblemArrays:
    """Return a problem's table, rewards and start as the kernels take them."""
    table = problem.table
    return ProblemArrays(
        first=table.first,
        indptr=table.indptr,
        indices=table.indices,
        stride=table.stride,
        r=rewards.pair,
        extra=np.zeros((1, 0)) if rewards.successor is None else rewards.successor,
        start=np.zeros(0) if problem.initial is None else problem.initial,
    )


def confidence_set_terms(terms: Floats, names: Iterable[str]) -> Floats | None:
    """Return the terms of confidence sets (2, rows) of all terms (8, rows); None if none is used.

    Kernels compile the code of sets only where there are any.
    """
    return terms[BUDGET:] if any(TERMS[name] >= BUDGET for name in names) else None


class EpisodeAgent(Agent):
    """An agent whose policy may change after every episode, with a compiled loop.

    Args:
        problem: the known part of the MDP: rewards and possible successors.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        episodes: K, the number of episodes, known in advance.
        scale: a factor of the bonus; 1 changes nothing.

    Attributes:
        counts: n(s, a) and n(s, a, s').
        V: (H+1, S) optimistic values.
        rows: (H, S) the pairs of the policy. followed: the pairs of the policy recorded last.
        by_segment: whether each step of an episode is counted separately.
        learned_arrays: names of the learned arrays other than the counts.

    """

    V: Floats
    by_segment = False
    learned_arrays: tuple[str, ...] = ("V", "rows", "followed")

    def __init__(
        self, problem: Problem, epsilon: float, delta: float, episodes: int, scale: float = 1.0
    ) -> None:
        self.problem = problem = problem.by_segment() if self.by_segment else problem
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.K, self.scale = check_count("episodes", episodes), check_scale(scale)
        self.S, self.A, self.H = problem.states, problem.actions, problem.horizon
        self.start = np.zeros(0) if problem.initial is None else problem.initial
        self.arrays = problem_arrays(problem, self.planned_rewards())
        self.counts = Counts.zero(problem)
        self.rows = np.zeros((self.H, self.S), np.int64)
        self.followed = np.full((self.H, self.S), -1)
        self._prepare()
        self._plan()

    def planned_rewards(self) -> Rewards:
        """Return the rewards to plan for."""
        return known_rewards(self.problem, self.name)

    @abstractmethod
    def _prepare(self) -> None:
        """Create the learned arrays other than the counts; called once, before the first plan."""

    @abstractmethod
    def _plan(self) -> None:
        """Plan: fill ``rows``, and pass the optimistic values to `_set_policy`."""

    @abstractmethod
    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        """Call the compiled loop; return the numbers of episodes and of recorded policies."""

    def _count(self, steps: Ints) -> None:
        """Count the entries (H,) of one episode."""
        np.add.at(self.counts.successors, steps, 1)
        np.add.at(self.counts.visits, self.problem.table.row_of_entry[steps], 1)

    def _update_derived(self) -> None:
        """Update the quantities derived from the counts."""

    def _refresh_policy(self) -> None:
        """Set the policy after the compiled loop, or after a state was restored."""
        self._set_policy(self.V[0])

    def _set_policy(self, V: Floats) -> None:
        """Set the policy to ``rows``, with optimistic values V (S,)."""
        self.policy = self.problem.table.policy_of(self.rows)
        self.optimistic = promise(self.start, V)

    def limits(self) -> Limits:
        """Return a limit of one episode, step by step."""
        return Limits(np.full(self.problem.table.rows, NEVER), episodes=1, steps=True)

    def observe(self, seen: Counts) -> bool:
        """Count, plan, and return whether the policy changed."""
        before = self.rows.copy()
        for steps in seen.steps:
            self._count(steps)
        self._update_derived()
        started = perf_counter()
        self._plan()
        self.planning_seconds += perf_counter() - started
        return self.done or not np.array_equal(before, self.rows)

    def follow(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int
    ) -> LoopResult:
        """Run that many episodes, or fewer if the policy becomes final."""
        started, walked = perf_counter(), 0
        parts = [Record(np.zeros(0, np.int64), np.zeros(0), np.zeros(0))]
        while walked < episodes and not self.done:
            record = Record(
                np.zeros(RECORD_SIZE, np.int64), np.zeros(RECORD_SIZE), np.zeros(RECORD_SIZE)
            )
            more, recorded = self._learn(rng, nature, episodes - walked, record)
            first, value, promised = record
            at = slice(0, recorded)
            parts.append(Record(first[at] + walked, value[at], promised[at]))
            walked += more
            self._update_derived()
            if more == 0 and recorded < RECORD_SIZE:
                break
        self.planning_seconds += perf_counter() - started
        self._refresh_policy()
        record = Record(*(np.concatenate(x) for x in zip(*parts, strict=True)))
        policy = self.policy if self.randomized else self.problem.table.policy_of(self.followed)
        return LoopResult(walked, record, policy)

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "episodes": self.K}

    def visits_of(self, row: int) -> int:
        """Return n of a state-action pair."""
        return int(self.counts.visits[row])

    def state(self) -> dict[str, Any]:
        """Return the counts and the learned arrays."""
        return {
            **self.counts.state("n"),
            **{x: getattr(self, x).copy() for x in self.learned_arrays},
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.counts.restore("n", state)
        for x in self.learned_arrays:
            getattr(self, x)[:] = state[x]
        self._update_derived()
        self._refresh_policy()


class SeededAgent(EpisodeAgent):
    """An agent that draws random numbers from its own generator, seeded by ``seed``."""

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        episodes: int,
        scale: float = 1.0,
        seed: int = 0,
    ) -> None:
        # independent of the environment, which has the same seed in a comparison
        self.seed = seed = check_seed(seed)
        self.generator = np.random.default_rng([seed, 1])
        super().__init__(problem, epsilon, delta, episodes, scale)

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "own_seed": self.seed}

    def state(self) -> dict[str, Any]:
        """Return the counts, the policy and the state of the generator."""
        generator = np.array(json.dumps(self.generator.bit_generator.state))
        return {**super().state(), "generator": generator}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        super().restore(state)
        self.generator.bit_generator.state = json.loads(str(state["generator"]))


class BonusAgent(EpisodeAgent):
    """An agent that plans with a bonus.

    Attributes:
        V, L: (H+1, S) optimistic values, and lower bounds where `Rule` asks for them.
        by_step: whether the formulas hold where transitions depend on the step.

    """

    rule = Rule()
    by_step = False
    learned_arrays: tuple[str, ...] = ("N", "Q", "V", "L", "rows", "followed")

    @abstractmethod
    def coefficients(self, n: Floats) -> dict[str, Floats]:
        """Return the coefficients of the bonus.

        Args:
            n: (k,) visits; at least 1, or at least 0 if the rule has no cap for pairs without.

        Returns:
            The coefficients (k,) after n visits, scaled, by name in `TERMS`.

        """

    def max_visits(self) -> int:
        """Return the number of visits to a pair that are counted."""
        return self.rule.most

    def crowding(self, visits: Floats) -> Floats:  # noqa: ARG002
        """Return G (k,) after that many visits (k,) to a state at a step; empty: no such term."""
        return np.zeros(0)

    def _prepare(self) -> None:
        table = self.problem.table
        if table.segments > 1 and not self.by_step:
            raise InputError(
                f"{self.name} is for transitions that do not depend on the step: use ubev or ucfh"
            )
        self.rule = self.rule._replace(most=self.max_visits())
        self.terms = np.zeros((len(TERMS), table.rows))
        self.N = np.zeros((self.H + 1, self.S) if self.crowding(np.ones(1)).size else (0, 0), int)
        self.G = np.zeros(self.N.shape)
        self.Q = np.full((self.H, table.pairs), float(self.H))
        self.V, self.L = np.zeros((self.H + 1, self.S)), np.zeros((self.H + 1, self.S))
        self.value_arrays = kernels.Outlook(self.Q, self.V, self.L, self.rows)
        self._tabulate(INITIAL_TABLE_SIZE)
        self._update_derived()

    def _tabulate(self, size: int) -> None:
        """Tabulate coefficients for fewer than ``size`` visits; 0 count as 1 if there is a cap."""
        n = np.maximum(np.arange(size), 0.0 if self.rule.cap == NO_CAP else 1.0)
        bonus = check_bonus(self.coefficients(n), n)
        self.which = np.array([TERMS[x] for x in bonus], np.int64)
        self.set_terms = confidence_set_terms(self.terms, bonus)
        self.tables = np.array([*bonus.values()], float).reshape(-1, size)
        self.crowd_table = self.crowding(np.arange(size, dtype=float))

    def _update_derived(self) -> None:
        if self.follow is None:  # no compiled loop needs tables, which would be as long as n
            n = np.maximum(self.counts.visits, 0.0 if self.rule.cap == NO_CAP else 1.0)
            self.terms[self.which] = [*self.coefficients(n).values()]
            return
        most = max(self.counts.visits.max(), self.N.max(initial=0))
        while most >= self.tables.shape[1]:
            self._tabulate(2 * self.tables.shape[1])
        self.terms[self.which] = self.tables[:, self.counts.visits]
        if self.N.size:
            self.G[:] = self.crowd_table[self.N]

    def _plan(self) -> None:
        kernels.plan(
            self.arrays,
            self.rule,
            self.terms,
            self.set_terms,
            self.counts.arrays,
            self.G,
            self.value_arrays,
        )
        self._set_policy(self.V[0])

    def _refresh_policy(self) -> None:
        self._plan()

    def _count(self, steps: Ints) -> None:
        table, counts = self.problem.table, self.counts
        for t, e in enumerate(steps):
            row = table.row_of_entry[e]
            if self.N.size:
                self.N[t + 1, table.indices[e]] += 1
            if counts.visits[row] < self.rule.most:
                counts.visits[row] += 1
                counts.successors[e] += 1

    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        bonus = kernels.Bonus(
            which=self.which,
            tables=self.tables,
            terms=self.terms,
            crowding=self.crowd_table,
            N=self.N,
            G=self.G,
        )
        return kernels.learn(
            rng, episodes, nature, self.arrays, self.rule, bonus, self.set_terms,
            self.counts.arrays, self.value_arrays, self.followed, record,
        )  # fmt: skip
