"""Agents that stop once their policy is known to be epsilon-optimal.

    loop
        plan with the counts                                             (`ucfh.algorithms.bonus`)
        after every 2% more episodes, stop if the optimality gap is known to be at most epsilon
        follow the plan for an episode, and count

Confidence sequences may be tested at any time: the stop comes at most about 2% later than with a
test after every episode. Tests are skipped while they must fail: before any pair can have the
visits that a stop needs. Confidence sequences are valid for any policies followed. With
schedule "growth", an agent also replans only when it tests, and follows one policy until then, so
that it runs in bulk: its guarantee at the stop has the same probability. Theorems about the number
of episodes are for a new plan in every episode, schedule "episode".

The bounds use, for a pair with k successors and p^ = c/n:

    KL(p^, p) <= beta(n)/n for all n at once, with probability 1 - delta',
    beta(n) = ln(1/delta') + (k-1) ln( e (1 + n/(k-1)) )

Let L(q) = prod_j q_j^c_j, the likelihood of the data. The mean of L(q)/L(p) over q uniform on
the simplex is a martingale of mean 1, and stays below 1/delta' with probability 1 - delta' (Ville).
It equals 1/(a m L(p)) with a = binom(n+k-1, k-1) and m = n!/prod_j c_j! <= 1/L(p^). So it is at
least L(p^)/(a L(p)) = exp( n KL(p^, p) )/a, and a <= (e (n+k-1)/(k-1))^(k-1).

Successors of a pair, in the order of its visits, are independent draws, at any steps: counts may be
pooled over steps where transitions do not depend on them. beta grows with k, so that S may stand
for k where there are fewer successors.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from math import log
from typing import Any

import numpy as np

from ucfh._kernels.types import EnvironmentArrays, Record
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.bonus import BonusAgent
from ucfh.counts import NEVER, UNLIMITED, Counts, Limits, due_after
from ucfh.exceptions import unknown
from ucfh.mdp import Problem


class Stopping(BonusAgent):
    """An agent that stops with a bound of its optimality gap.

    ``gap_bound`` bounds the optimality gap of the policy at the last test; ``done`` once it is at
    most epsilon.

    Args:
        problem, epsilon, delta, episodes, scale: as for any agent.
        schedule: when to plan: "episode", after every episode, or "growth", after 2% more, so that
            the agent runs in bulk.

    Attributes:
        clock: (2,) the number of episodes so far, and at the next test of the stopping rule.
        first_stop: after fewer episodes, no pair can have the visits that a stop needs.

    """

    learned_arrays = (*BonusAgent.learned_arrays, "clock")
    stops = True

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        episodes: int,
        scale: float = 1.0,
        schedule: str = "episode",
    ) -> None:
        if schedule not in ("episode", "growth"):
            raise unknown("schedule", schedule, ("episode", "growth"))
        self.schedule = schedule
        if schedule == "growth":  # no compiled loop: see `limits`
            self.follow = None  # type: ignore[assignment, method-assign]
        super().__init__(problem, epsilon, delta, episodes, scale)

    @abstractmethod
    def gap_bound_now(self) -> float:
        """Return the bound of the optimality gap by the last plan."""

    def least_gap(self, n: float) -> float:  # noqa: ARG002
        """Return a lower bound of `gap_bound_now` while no pair has over n visits, falling in n."""
        return 0.0

    def _conclude(self) -> None:
        """Set ``rows`` and ``policy`` to the final policy; by default, the last plan."""

    def _prepare(self) -> None:
        self.clock = np.array([0, 0])
        super()._prepare()
        visits = range(1, min(self.H * self.K, UNLIMITED))
        enough = bisect_left(visits, True, key=lambda n: self.least_gap(n) <= self.epsilon)
        self.first_stop = 1 + enough // self.H

    def limits(self) -> Limits:
        """Return a limit of one episode, step by step; or of the episodes until the next test."""
        if self.schedule == "episode":
            return super().limits()
        seen, test = self.clock
        return Limits(np.full(self.problem.table.rows, UNLIMITED), episodes=int(test - seen))

    def observe(self, seen: Counts) -> bool:
        """Count, step by step or in bulk; plan if it is due."""
        if not seen.steps.size:
            self.counts.add(seen)
            self.clock[0] += seen.visits[-1]
        return super().observe(seen)

    def _count(self, steps: Ints) -> None:
        super()._count(steps)
        self.clock[0] += 1

    def _learn(
        self, rng: np.random.Generator, nature: EnvironmentArrays, episodes: int, record: Record
    ) -> tuple[int, int]:
        seen, test = self.clock
        walked, recorded = super()._learn(rng, nature, int(min(episodes, test - seen)), record)
        self.clock[0] += walked
        if self.clock[0] == test:
            self._update_derived()
            self._plan()
        return walked, recorded

    def _plan(self) -> None:
        seen, test = self.clock
        self.done = bool(test == NEVER)
        if self.done or (self.follow is None and seen < test):
            self._set_policy(self.V[0])  # the policy is unchanged until the next test, or final
            return
        super()._plan()
        if seen < test:
            return
        self.gap_bound = self.gap_bound_now()
        self.done = self.gap_bound <= self.epsilon
        self.clock[1] = NEVER if self.done else self._next_test(int(seen))
        if self.done:
            self._conclude()

    def _next_test(self, seen: int) -> int:
        """Return the number of episodes at the next plan and test, without tests that must fail."""
        test = due_after(seen)
        while self.follow is not None and test < self.first_stop:
            test = due_after(test)
        return test

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {**super().settings(), "schedule": self.schedule}

    def state(self) -> dict[str, Any]:
        """Return the counts, the learned arrays, and the gap bound of the last test."""
        return {**super().state(), "gap_bound": self.gap_bound}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        super().restore(state)
        self.gap_bound = float(state["gap_bound"])


def mixture_rate(states: int, risk: float, n: Floats) -> Floats:
    """Return beta (k,) after n (k,) visits, for this many successors; risk is delta'."""
    more = max(states - 1, 1)
    return np.asarray((states - 1) * (1 + np.log1p(n / more)) - log(risk))
