"""UCFH with confidence sequences, or sets that hold at doublings: stops with a certificate.

    loop
        plan over the sets: V* <= upper, V^pi >= lower for a policy pi
        stop if upper - lower <= epsilon (or if the difference is bounded by that directly)
        stop, uncertified, if bounds contradict each other: the assumptions are refuted
        follow the optimistic policy until the schedule says so, and count

Schedules: "growth" replans after 2% more episodes, with all counts; "doubling" when the visits to
some pair have doubled, with the counts of that pair; "paper" likewise, but for the first time after
m w_min visits. Sets that hold at doublings only (`ucfh.confidence.sets`) need "doubling" or
"paper".
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ucfh._utils.arrays import Bools
from ucfh.algorithms.base import Agent
from ucfh.algorithms.exploration import GapExploration, SetExploration
from ucfh.certificate import Certificate, assumptions, contradiction, uncertainty_sources
from ucfh.confidence.known_states import KnownStateBounds
from ucfh.confidence.sets import ALWAYS, AT_DOUBLINGS
from ucfh.counts import UNLIMITED, Counts, Limits, check_schedule, due_after
from ucfh.exceptions import InputError, check_type, check_unit, unknown
from ucfh.problems import AnyProblem, as_problem
from ucfh.rewards import DEFAULT
from ucfh.theory.constants import Variant, constants_of

ANY_COUNTS = "pass confidence='tight' to CertifiedUCFH, which takes any counts"
"""The remedy for counts that do not follow the schedule of a set that holds at doublings only."""


class CertifiedUCFH(Agent):
    """An agent that stops once its policy is certified epsilon-optimal, with probability 1 - delta.

    Args:
        problem: the known part of the MDP.
        epsilon: the largest acceptable loss per episode, in (0, 1].
        delta: the probability that the certificate may be wrong, in (0, 1].
        confidence: the confidence bounds: "tight" (`ucfh.confidence.known_states`), or a kind of
            set of `ucfh.confidence.sets`: "kt", "kt-ball", "kl-ball", "l1", "kl", "paper".
        schedule: when to replan: "growth" after 2% more episodes, "doubling" when the visits of a
            pair have doubled, "paper" as Algorithm 1 does; None: "growth" if the sets allow it,
            else "doubling".
        stop: "certificate", or None to learn without end.
        variant: constants of the schedule "paper": "paper" or "corrected".
        m: replaces the constant m of the schedule "paper" by a positive number; None: as published.
        without: components of "tight" to switch off, to measure their effect; see
            `ucfh.confidence.value_bounds.COMPONENTS`.

    Attributes (in addition to those of `Agent`):
        certificate: the policy, its bounds and their assumptions, at any time.

    >>> from ucfh import make, simulate
    >>> mdp = make("chain:n=5")
    >>> run = simulate(mdp, CertifiedUCFH(mdp.problem, epsilon=0.5, delta=0.1))
    >>> run.certificate.certified, run.gap <= 0.5
    (True, True)

    """

    name = "certified-ucfh"
    reference = "UCFH's optimism, with bounds that hold at all times"
    setting = "fixed horizon; stationary or time-dependent; rewards known or not"
    guarantee = "when it stops, its policy is within eps of optimal with probability 1 - delta"
    constants: Any = "derived: those of the sets; chosen: when to plan again"

    def __init__(
        self,
        problem: AnyProblem,
        epsilon: float,
        delta: float,
        *,
        confidence: str = "tight",
        schedule: str | None = None,
        stop: str | None = "certificate",
        variant: Variant = "paper",
        m: float | None = None,
        without: tuple[str, ...] = (),
    ) -> None:
        self.problem = problem = as_problem(problem)
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        DEFAULT.scaled_accuracy(self.epsilon, self.problem.horizon)
        always = confidence == "tight" or confidence in ALWAYS
        if not always and confidence not in AT_DOUBLINGS:
            raise unknown("confidence set", confidence, (*AT_DOUBLINGS, *ALWAYS, "tight"))
        schedule = schedule or ("growth" if always else "doubling")
        if schedule not in ("growth", "doubling", "paper"):
            raise unknown("schedule", schedule, ("growth", "doubling", "paper"))
        if schedule != "paper" and (m is not None or variant != "paper"):
            raise InputError("m and variant belong to schedule='paper': leave them out")
        if schedule == "growth" and not always:
            raise InputError(
                f"the set {confidence!r} holds at doublings only: pass schedule='doubling', or a "
                f"set that holds always ({', '.join(ALWAYS)}, tight)"
            )
        if stop not in (None, "certificate"):
            raise InputError(f"stop = {stop!r} must be 'certificate', or None to learn without end")
        if without and confidence != "tight":
            raise InputError("without needs confidence='tight': leave it out")
        self.confidence, self.schedule, self.stop = confidence, schedule, stop
        self.without = tuple(without)
        self.constants = constants_of(problem, epsilon, delta, variant, m)
        self._min_visits = 1
        if schedule == "paper":
            self._min_visits = ceil(self.constants.m * self.constants.w_min)
        self.n, self.v = Counts.zero(problem), Counts.zero(problem)
        self.updates = np.zeros(problem.table.rows, np.int64)
        self.updated = problem.table.start
        if confidence == "tight":
            best = KnownStateBounds(problem, delta, self.without)
            exploration: SetExploration | GapExploration = GapExploration(best, epsilon, self.n)
        else:
            exploration = SetExploration(problem, delta, confidence)
        self.exploration = exploration
        self._take_bounds()

    @property
    def episodes(self) -> int:
        """The number of episodes counted."""
        return int(self.n.visits[-1] + self.v.visits[-1])

    @property
    def _due(self) -> int:
        """The number of episodes after which the schedule "growth" replans."""
        return due_after(int(self.n.visits[-1]))

    def limits(self) -> Limits:
        """Return the episodes until 2% more, or the visits until some pair has twice as many."""
        visits = np.full(self.problem.table.rows, UNLIMITED)
        if self.schedule == "growth":
            episodes_left = max(1, self._due - self.episodes)
            return Limits(visits, episodes=episodes_left, watch=self.exploration.scoring_rule)
        visits_left = np.maximum(np.maximum(self.n.visits, self._min_visits) - self.v.visits, 0)
        return Limits(
            np.where(self._learned, visits_left, visits),
            drop_surplus=True,
            watch=self.exploration.scoring_rule,
        )

    @property
    def _learned(self) -> Bools:
        """(rows,) mask of pairs whose transition or reward is unknown; last: the start."""
        learned = self.problem.table.lengths > 1
        learned[:-1] |= self.problem.reward_unknown
        learned[-1] &= self.problem.initial is None
        return np.asarray(learned, bool)

    def observe(self, seen: Counts) -> bool:
        """Count visits; update the model if the schedule says so.

        Args:
            seen: visits since the last call. Sets that hold at doublings only need
                counts that respect `limits`: visits beyond them must be dropped.

        Returns:
            True if the model was updated.

        Raises:
            InputError: if the sets hold at doublings only, and a pair has more visits than
                `limits` allows.

        """
        check_type("seen", seen, Counts, "ucfh.Counts of the agent's problem")
        if self.confidence in AT_DOUBLINGS and seen.visits.shape == self.v.visits.shape:
            self.limits().check(seen, self.problem.table, ANY_COUNTS)
        self.v.add(seen)
        self.exploration.score(self.v.scores)
        self.v.scores = np.zeros(0)
        if self.schedule == "growth":
            if self.episodes < self._due:
                return False
            due = np.flatnonzero(self.v.visits)
        else:
            due = np.flatnonzero(self.limits().visits == 0)
            if not due.size:
                return False
        if len(due) == int((self.v.visits > 0).sum()):
            self.n.add(self.v)
            self.v = Counts.zero(self.problem)
        else:
            for row in due:
                self.v.move_row(int(row), self.problem.table, to=self.n)
        self.updates[due] += 1
        self.exploration.learn(self.n, self.updates)
        self._take_bounds()
        return True

    def _take_bounds(self) -> None:
        """Take policy and bounds from the exploration; decide whether to stop."""
        exploration = self.exploration
        self.policy = self.problem.table.policy_of(exploration.following)
        self.optimistic = exploration.upper
        self.lower, self.gap_bound = exploration.lower, exploration.gap
        self.done = self.stop is not None and (
            exploration.gap <= self.epsilon or exploration.contradiction is not None
        )
        if self.done:
            self.policy = self.problem.table.policy_of(exploration.certified)

    @property
    def certificate(self) -> Certificate:  # type: ignore[override]
        """The current certificate: policy, bounds, and the largest sources of uncertainty."""
        exploration, problem = self.exploration, self.problem
        best = KnownStateBounds(problem, self.delta)
        b = best.bounds(self.n)
        by_difference = isinstance(exploration, GapExploration) and exploration.by_difference
        return Certificate(
            exploration.upper,
            exploration.lower,
            exploration.gap,
            problem.table.policy_of(exploration.certified),
            self.epsilon,
            self.delta,
            self.episodes,
            f"{self.confidence} sets, {self.schedule} schedule",
            assumptions(problem),
            uncertainty_sources(
                problem.table.pair_of, self.n.visits, best.attribute_gap(b, by_difference)
            ),
            contradiction(problem.state_names, exploration.contradiction, self.delta),
        )

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {
            "agent": self.name,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "confidence": self.confidence,
            "schedule": self.schedule,
            "stop": self.stop,
            "variant": self.constants.variant,
            "m": self.constants.m_given,
            "without": list(self.without),
        }

    def __repr__(self) -> str:
        settings = self.settings()
        shown = ", ".join(
            f"{key}={settings[key]!r}" for key in ("epsilon", "delta", "confidence", "schedule")
        )
        promise = (
            f"stops once its policy is certified within {self.epsilon:g} of optimal"
            if self.stop
            else "never stops; its certificate holds at all times"
        )
        return f"CertifiedUCFH({shown}; {promise}, with probability {1 - self.delta:g})"

    def visits_of(self, row: int) -> int:
        """Return n of a state-action pair."""
        return int(self.n.visits[row])

    def state(self) -> dict[str, Any]:
        """Return counts, updates, and the state of the exploration."""
        own = {**self.n.state("n"), **self.v.state("v"), "updates": self.updates.copy()}
        return {**own, **self.exploration.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`, and plan.

        Raises:
            InputError: if the set holds at doublings only, and the state's counts are not of them.

        """
        if self.confidence in AT_DOUBLINGS:
            table = self.problem.table
            check_schedule(state, self._min_visits, self._learned, table, ANY_COUNTS)
        self.n.restore("n", state)
        self.v.restore("v", state)
        self.updates[:] = state["updates"]
        self.exploration.restore(state, self.n, self.updates)
        self._take_bounds()
