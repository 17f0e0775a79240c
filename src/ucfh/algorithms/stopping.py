"""Agents that stop once what they would return is known to be good enough.

    loop
        plan with the counts                                             (`ucfh.algorithms.bonus`)
        after every 2 % more episodes, stop if the loss is known to be at most epsilon
        follow the plan for an episode, and count

Bounds that hold at all times may be tested at any time: the stop comes about 2 % later at most than
if it were tested after every episode. A test that must fail is left out: before any row can have
the visits that a stop needs. Nor do such bounds depend on which policies were followed.
With schedule "growth", an agent also plans anew only when it tests, and follows one policy until
then, so that it runs in bulk: what it says when it stops holds with the same probability. Theorems
about how soon it stops are for a new plan in every episode, schedule "episode".

What the bounds rest on, for a row with k successors and p^ = c/n:

    KL(p^, p) <= beta(n)/n for all n at once, with probability 1 - delta',
    beta(n) = ln(1/delta') + (k-1) ln( e (1 + n/(k-1)) )

Let L(q) = prod_j q_j^c_j, the likelihood of what was seen. The mean of L(q)/L(p) over q uniform on
the simplex is a martingale of mean 1, and stays below 1/delta' with probability 1 - delta' (Ville).
It equals 1/(a m L(p)) with a = binom(n+k-1, k-1) and m = n!/prod_j c_j! <= 1/L(p^). So it is at
least L(p^)/(a L(p)) = exp( n KL(p^, p) )/a, and a <= (e (n+k-1)/(k-1))^(k-1).

Successors of a row, in the order of its visits, are independent draws, at whatever steps it was
visited: counts may be pooled over steps where transitions do not depend on them. beta grows with k,
so that S may stand for k where fewer states follow.
"""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_left
from math import log
from typing import Any

import numpy as np

from ucfh._kernels.groups import Nature, Record
from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.bonus import BonusAgent
from ucfh.counts import NEVER, UNLIMITED, Counts, Limits, due_after
from ucfh.exceptions import unknown
from ucfh.mdp import Problem


class Stopping(BonusAgent):
    """An agent that stops, and says what it has reached.

    ``gap_bound`` is how far from optimal its result is at most, when that was tested last; ``done``
    once it is at most epsilon.

    Args:
        problem, epsilon, delta, episodes, scale: as for any agent.
        schedule: when it plans: "episode", after every episode, or "growth", after 2 % more, so
            that it runs in bulk.

    Attributes:
        clock: (2,) the episodes seen, and those after which to test whether to stop.
        first_stop: after fewer episodes, no row can have the visits that a stop needs.

    """

    kept = (*BonusAgent.kept, "clock")
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
        if schedule == "growth":  # without a loop: see `limits`
            self.follow = None  # type: ignore[assignment, method-assign]
        super().__init__(problem, epsilon, delta, episodes, scale)

    @abstractmethod
    def gap_bound_now(self) -> float:
        """How far from optimal its result is at most, by the plan made last."""

    def least_gap(self, n: float) -> float:  # noqa: ARG002
        """What `gap_bound_now` is at least while no row has more than n visits, falling with n."""
        return 0.0

    def _conclude(self) -> None:
        """Take the policy that is its result, in ``rows`` and ``policy``; by default, the plan."""

    def _prepare(self) -> None:
        self.clock = np.array([0, 0])
        super()._prepare()
        visits = range(1, min(self.H * self.K, UNLIMITED))
        enough = bisect_left(visits, True, key=lambda n: self.least_gap(n) <= self.epsilon)
        self.first_stop = 1 + enough // self.H

    def limits(self) -> Limits:
        """One episode, step by step; or all until the next test."""
        if self.schedule == "episode":
            return super().limits()
        seen, test = self.clock
        return Limits(np.full(self.problem.table.rows, UNLIMITED), episodes=int(test - seen))

    def observe(self, seen: Counts) -> bool:
        """Count, step by step or in bulk; plan if it is time to."""
        if not seen.steps.size:
            self.counts.add(seen)
            self.clock[0] += seen.visits[-1]
        return super().observe(seen)

    def _count(self, steps: Ints) -> None:
        super()._count(steps)
        self.clock[0] += 1

    def _learn(
        self, rng: np.random.Generator, nature: Nature, episodes: int, record: Record
    ) -> tuple[int, int]:
        seen, test = self.clock
        walked, recorded = super()._learn(rng, nature, int(min(episodes, test - seen)), record)
        self.clock[0] += walked
        if self.clock[0] == test:
            self._look_up()
            self._plan()
        return walked, recorded

    def _plan(self) -> None:
        seen, test = self.clock
        self.done = bool(test == NEVER)
        if self.done or (self.follow is None and seen < test):
            self._promise(self.V[0])  # it keeps its policy, until the next test or for good
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
        """When it plans anew, or may stop: tests that must fail would cost more than the loop."""
        test = due_after(seen)
        while self.follow is not None and test < self.first_stop:
            test = due_after(test)
        return test

    # -- what it was made with, and what it knows --------------------------------------------------

    def settings(self) -> dict[str, Any]:
        """What it was made with."""
        return {**super().settings(), "schedule": self.schedule}

    def state(self) -> dict[str, Any]:
        """Counts, what else was learned, and what the last test found."""
        return {**super().state(), "gap_bound": self.gap_bound}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned."""
        super().restore(state)
        self.gap_bound = float(state["gap_bound"])


def mixture_rate(states: int, risk: float, n: Floats) -> Floats:
    """beta after n (k,) visits, for this many successors; risk is delta'."""
    more = max(states - 1, 1)
    return np.asarray((states - 1) * (1 + np.log1p(n / more)) - log(risk))
