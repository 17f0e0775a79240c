"""UCFH with sets that hold at all times, or at doublings: it knows when to stop.

    loop
        plan over the sets: V* <= upper, V^pi >= lower for a policy pi
        stop if upper - lower <= epsilon (or if the difference is bounded by that directly)
        stop, uncertified, if bounds contradict each other: what was assumed is refuted
        follow the optimistic policy until the schedule says so, and count

Schedules: "growth" plans again after 2 % more episodes, with all counts; "doubling" when the
visits to some row have doubled, with the counts of that row; "paper" likewise, but for the first
time after m w_min visits. Sets that hold at doublings only (`ucfh.confidence.sets`) need one of the
latter.
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

ANY_COUNTS = "pass confidence='best' to CertifiedUCFH, which takes any counts"
"""What to do with counts that do not follow the schedule of a set that holds at doublings only."""


class CertifiedUCFH(Agent):
    """Learns until its policy is certified to be epsilon-optimal, with probability 1 - delta.

    Args:
        problem: what the agent is told.
        epsilon: the largest acceptable loss per episode, in (0, 1].
        delta: the probability that the certificate may be wrong, in (0, 1].
        confidence: how it bounds what it does not know: "tight" (`ucfh.confidence.known_states`),
            or a kind of set of `ucfh.confidence.sets`: "kt", "kt-ball", "kl-ball", "l1", "kl",
            "paper".
        schedule: when it plans again: "growth" after 2 % more episodes, "doubling" when the
            visits of a pair have doubled, "paper" as Algorithm 1 does; None: growth, if the sets
            allow it.
        stop: "certificate", or None to learn without end.
        variant: which constants the schedule "paper" takes: "paper" or "corrected".
        m: replaces the constant m of the schedule "paper" by a positive number; None: as printed.
        without: ideas of "tight" that are switched off, to measure their effect; see
            `ucfh.confidence.value_bounds.COMPONENTS`.

    Attributes (besides those of `Agent`):
        certificate: the policy, the bounds and what they depend on, at any time.

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
                f"set that holds always ({', '.join(ALWAYS)}, best)"
            )
        if stop not in (None, "certificate"):
            raise InputError(f"stop = {stop!r} must be 'certificate', or None to learn without end")
        if without and confidence != "tight":
            raise InputError("without needs confidence='best': leave it out")
        self.confidence, self.schedule, self.stop = confidence, schedule, stop
        self.without = tuple(without)
        self.constants = constants_of(problem, epsilon, delta, variant, m)
        self._enough = 1
        if schedule == "paper":
            self._enough = ceil(self.constants.m * self.constants.w_min)
        self.n, self.v = Counts.zero(problem), Counts.zero(problem)
        self.updates = np.zeros(problem.table.rows, np.int64)
        self.updated = problem.table.start
        if confidence == "tight":
            best = KnownStateBounds(problem, delta, self.without)
            self.beliefs: SetExploration | GapExploration = GapExploration(best, epsilon, self.n)
        else:
            self.beliefs = SetExploration(problem, delta, confidence)
        self._take_stock()

    @property
    def episodes(self) -> int:
        """How many episodes were counted."""
        return int(self.n.visits[-1] + self.v.visits[-1])

    @property
    def _due(self) -> int:
        """After how many episodes the schedule "growth" plans again."""
        return due_after(int(self.n.visits[-1]))

    def limits(self) -> Limits:
        """2 % more episodes; or as many visits to some row as it has already."""
        visits = np.full(self.problem.table.rows, UNLIMITED)
        if self.schedule == "growth":
            room = max(1, self._due - self.episodes)
            return Limits(visits, episodes=room, watch=self.beliefs.watch)
        room_of = np.maximum(np.maximum(self.n.visits, self._enough) - self.v.visits, 0)
        return Limits(
            np.where(self._learned, room_of, visits), drop_surplus=True, watch=self.beliefs.watch
        )

    @property
    def _learned(self) -> Bools:
        """(rows,) which rows are not known in advance."""
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
            Whether the model was updated.

        Raises:
            InputError: if such a set is given more visits of a row than `limits` allows.

        """
        check_type("seen", seen, Counts, "ucfh.Counts of the agent's problem")
        if self.confidence in AT_DOUBLINGS and seen.visits.shape == self.v.visits.shape:
            self.limits().check(seen, self.problem.table, ANY_COUNTS)
        self.v.add(seen)
        self.beliefs.score(self.v.scores)
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
        self.beliefs.learn(self.n, self.updates)
        self._take_stock()
        return True

    def _take_stock(self) -> None:
        """Find what is known so far, and whether it is enough."""
        beliefs = self.beliefs
        self.policy = self.problem.table.policy_of(beliefs.following)
        self.optimistic = beliefs.upper
        self.lower, self.gap_bound = beliefs.lower, beliefs.gap
        self.done = self.stop is not None and (
            beliefs.gap <= self.epsilon or beliefs.crossing is not None
        )
        if self.done:
            self.policy = self.problem.table.policy_of(beliefs.certified)

    @property
    def certificate(self) -> Certificate:  # type: ignore[override]
        """What is known so far: the policy, the bounds, and what keeps the gap wide."""
        beliefs, problem = self.beliefs, self.problem
        best = KnownStateBounds(problem, self.delta)
        b = best.bounds(self.n)
        by_difference = beliefs.by_difference if isinstance(beliefs, GapExploration) else False
        return Certificate(
            beliefs.upper,
            beliefs.lower,
            beliefs.gap,
            problem.table.policy_of(beliefs.certified),
            self.epsilon,
            self.delta,
            self.episodes,
            f"{self.confidence} sets, {self.schedule} schedule",
            assumptions(problem),
            uncertainty_sources(
                problem.table.pair_of, self.n.visits, best.attribute_gap(b, by_difference)
            ),
            contradiction(problem.state_names, beliefs.crossing, self.delta),
        )

    def settings(self) -> dict[str, Any]:
        """The arguments it was made with."""
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
        """n of a row."""
        return int(self.n.visits[row])

    def state(self) -> dict[str, Any]:
        """Counts, updates, and what else the beliefs keep."""
        own = {**self.n.state("n"), **self.v.state("v"), "updates": self.updates.copy()}
        return {**own, **self.beliefs.state()}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore what `state` returned, and plan.

        Raises:
            InputError: if the set holds at doublings only, and the state's counts are not of them.

        """
        if self.confidence in AT_DOUBLINGS:
            table = self.problem.table
            check_schedule(state, self._enough, self._learned, table, ANY_COUNTS)
        self.n.restore("n", state)
        self.v.restore("v", state)
        self.updates[:] = state["updates"]
        self.beliefs.restore(state, self.n, self.updates)
        self._take_stock()
