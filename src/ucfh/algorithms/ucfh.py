"""UCFH, the paper's Algorithm 1: upper-confidence fixed-horizon episodic reinforcement learning.

    n(s,a) = v(s,a) = n(s,a,s') = 0
    loop
        p^(s'|s,a) = n(s,a,s') / n(s,a)
        M_k = all MDPs with p~_t(s'|s,a) in ConfidenceSet(p^(s'|s,a), n(s,a))
        M~_k, pi_k = FixedHorizonEVI(M_k)
        repeat SampleEpisode(pi_k), counting in v,
        until some (s,a) has v(s,a) >= max(m w_min, n(s,a)) and n(s,a) < S m H
        for one such pair: n += v, n(.,s') += v(.,s'), v = v(.,s') = 0

Which of several such pairs is updated is free: here the one of lowest index; the others keep
their v and their turn comes after one more episode each.
"""

from __future__ import annotations

from math import ceil
from typing import Any

import numpy as np

from ucfh._utils.arrays import Floats
from ucfh.algorithms.base import Agent
from ucfh.confidence.intervals import Box, choose_set
from ucfh.confidence.sets import ALWAYS
from ucfh.counts import NEVER, Counts, Limits, check_schedule
from ucfh.exceptions import InputError, check_type, check_unit
from ucfh.planning import PhasePlanner, start_value
from ucfh.problems import AnyProblem, as_problem
from ucfh.theory.constants import Variant, constants_of
from ucfh.transitions import Rewards

ANY_COUNTS = "use ucfh.CertifiedUCFH(problem, epsilon, delta), which takes any counts"
"""The remedy for counts that do not follow the schedule of the variant "corrected"."""


class UCFH(Agent):
    """UCFH, Algorithm 1 of the paper.

    With variant="corrected", at most ``episode_bound`` episodes are worse than epsilon, with
    probability at least 1 - delta (Proposition 11 of `docs/theory/errata.md`). With the default,
    variant="paper", ``episode_bound`` is the published number, for which the published proof has
    gaps: it is not proved.

    Args:
        problem: the known part of the MDP. Unknown rewards, an unknown start and transitions that
            depend on t are learned under the same guarantee: their confidence bounds take part
            in the union bound, and the constants grow accordingly (see
            `ucfh.theory.constants.constants_of`).
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        variant: "paper" as published (with max(1, log log H) in m), or "corrected", for which the
            theorem is proved; it drops a pair's visits beyond max(m w_min, n), so that n is not
            random.
        confidence: the confidence set, "paper" or "kl" (inside the former, same guarantee), or, to
            measure their effect, "paper" less a condition, such as "without-bernstein".
        m: a positive number that replaces the constant m, for tests and experiments. No guarantee
            then: ``episode_bound`` is None.
        stop: None: the agent never stops by itself. `ucfh.CertifiedUCFH` does, and takes other
            confidence sets and schedules.

    Attributes (in addition to those of `Agent`):
        constants: w_min, U_max, delta_1, m, cut-off (of the class: their provenance).
        n, v: counts in the model, and since the last update of each pair.

    >>> from ucfh import make
    >>> agent = UCFH(make("chain:n=5").problem, epsilon=0.5, delta=0.1)
    >>> agent
    UCFH(epsilon=0.5, delta=0.1, variant='paper', confidence='paper', m=None; mistakes at most:
    1.93e+12)
    >>> agent.optimistic  # no data yet: four steps to the right, and a reward of 1 there
    1.05

    """

    name = "ucfh"
    reference = "Dann, Brunskill 2015, Algorithm 1"
    setting = "fixed horizon; stationary or time-dependent; rewards known or not"
    guarantee = (
        "at most O~(S C A H^2/eps^2 ln(1/delta)) episodes are worse than eps "
        "(proved for the variant corrected)"
    )
    constants: Any = (  # hidden in instances by the numbers themselves
        "published: m (except max(1, log log H)), w_min, the sets; derived: the variant corrected"
    )
    box: Box

    def __init__(
        self,
        problem: AnyProblem,
        epsilon: float,
        delta: float,
        *,
        variant: Variant = "paper",
        confidence: str = "paper",
        m: float | None = None,
        stop: None = None,
    ) -> None:
        if stop is not None:
            raise InputError(
                f"UCFH never stops by itself: for stop={stop!r} use ucfh.CertifiedUCFH(problem, "
                "epsilon, delta)"
            )
        if confidence in (*ALWAYS, "l1", "tight"):
            raise InputError(
                f"UCFH has the confidence sets 'paper' and 'kl': for {confidence!r} use "
                "ucfh.CertifiedUCFH(problem, epsilon, delta, confidence=...)"
            )
        self.problem = problem = as_problem(problem)
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.confidence_set = choose_set(confidence)
        self.constants = constants_of(problem, epsilon, delta, variant, m)
        self.episode_bound = self.constants.episode_bound if m is None else None
        self.update_bound = self.constants.u_max
        self._confidence = confidence
        self._min_visits = ceil(self.constants.m * self.constants.w_min)
        self._cutoff = ceil(self.constants.cutoff)
        if 2 * self._cutoff + problem.horizon * problem.table.rows > NEVER:
            fits = 1.1 * epsilon * (self._cutoff / 2**62) ** 0.5
            remedy = f"pass at least {fits:.2g}" if fits <= 1 else "the problem is too large"
            raise InputError(
                f"epsilon = {epsilon:g} needs {self.constants.cutoff:.3g} visits to a pair, "
                f"more than 64-bit counts hold: {remedy}"
            )
        self.n, self.v = Counts.zero(problem), Counts.zero(problem)
        # an unknown start is learned like a state-action pair
        self._learned = np.ones(problem.table.rows, bool)
        self._learned[problem.table.start] = problem.initial is None
        self._planner = PhasePlanner(problem.table, problem.horizon)
        self._bound_all()
        self._plan()

    def _plan(self, updated: int | None = None) -> None:
        """Compute pi_k, and its value in the best MDP of M_k.

        ``updated`` is the only pair in which M_k differs from M_{k-1}; None: any may.
        """
        problem, box = self.problem, self.box
        rewards = problem.rewards
        if rewards is None:
            rewards = Rewards(box.reward_hi[:-1].reshape(-1, problem.table.pairs))
        self._planner.plan(box.lo, box.hi, rewards, updated)
        self.policy = self._planner.policy.copy()
        self.optimistic = start_value(problem.table, box.lo, box.hi, self._planner.values)

    @property
    def optimistic_values(self) -> Floats:
        """(H+1, S) V~ of the last plan."""
        return self._planner.values.copy()

    def limits(self) -> Limits:
        """Let v(s,a) grow to max(m w_min, n(s,a)), if n(s,a) < S m H."""
        n, v = self.n.visits, self.v.visits
        room = np.maximum(np.maximum(self._min_visits, n) - v, 0)
        active = self._learned & (n < self._cutoff)
        drop = not self.constants.printed
        return Limits(np.where(active, room, NEVER), drop_surplus=drop)

    def observe(self, seen: Counts) -> bool:
        """Count in v; update the model for one pair with enough visits.

        Args:
            seen: visits since the last call. The variant "corrected" needs counts that
                respect `limits`: visits beyond them must be dropped.

        Returns:
            Whether a pair was updated.

        Raises:
            InputError: if the variant "corrected" is given more visits of a pair than `limits`
                allows.

        """
        check_type("seen", seen, Counts, "ucfh.Counts of the agent's problem")
        if not self.constants.printed and seen.visits.shape == self.v.visits.shape:
            self.limits().check(seen, self.problem.table, ANY_COUNTS)
        self.v.add(seen)
        due = np.flatnonzero(self.limits().visits == 0)
        if not due.size:
            return False
        self._update(int(due[0]))
        self._plan(self.updated)
        return True

    def _update(self, row: int) -> None:
        """Update the model statistics and the confidence set of one pair."""
        self.v.move_row(row, self.problem.table, to=self.n)
        self._bound(row)
        self.updated = row

    def _bound_all(self) -> None:
        """Compute the confidence sets of all pairs: M_k; without visits, all of [0, 1]."""
        problem, table = self.problem, self.problem.table
        trivial = [(np.zeros(size), np.ones(size)) for size in (table.entries, table.rows)]
        self.box = Box(*trivial[0], *trivial[1])
        if problem.initial is not None:
            start = table.entries_of(table.start)
            self.box.lo[start] = self.box.hi[start] = problem.initial[table.indices[start]]
        for row in np.flatnonzero(self.n.visits):
            self._bound(int(row))

    def _bound(self, row: int) -> None:
        """Compute the confidence set of one pair from its n."""
        n, delta_1, box = self.n.visits[row], self.constants.delta_1, self.box
        entries = self.problem.table.entries_of(row)
        p_hat = self.n.successors[entries] / n
        box.lo[entries], box.hi[entries] = self.confidence_set(p_hat, n, delta_1)
        if self.problem.rewards is None:
            r_hat = min(1.0, self.n.rewards[entries].sum() / n)
            box.reward_lo[row], box.reward_hi[row] = self.confidence_set(r_hat, n, delta_1)

    def settings(self) -> dict[str, Any]:
        """Return the constructor arguments by name."""
        return {
            "agent": "ucfh",
            "epsilon": self.epsilon,
            "delta": self.delta,
            "variant": self.constants.variant,
            "confidence": self._confidence,
            "m": self.constants.m_given,
        }

    def visits_of(self, row: int) -> int:
        """Return n of a state-action pair."""
        return int(self.n.visits[row])

    def state(self) -> dict[str, Any]:
        """Return copies of the counts n and v, which determine the rest."""
        return {**self.n.state("n"), **self.v.state("v"), "updated": self.updated}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the counts of `state`, and plan.

        Raises:
            InputError: if the variant is "corrected" and the counts do not follow its schedule.

        """
        if not self.constants.printed:
            table = self.problem.table
            check_schedule(state, self._min_visits, self._learned, table, ANY_COUNTS)
        self.n.restore("n", state)
        self.v.restore("v", state)
        self.updated = int(state["updated"])
        self._bound_all()
        self._plan()
