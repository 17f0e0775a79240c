"""Agents that sample a generative model, plan once, and never change that policy.

A generative model returns a successor of any requested pair. The numbers of samples are fixed in
advance (`Agent.wants`); these agents do not learn from episodes.

**Kearns, Singh**: Finite-Sample Convergence Rates for Q-Learning and Indirect Algorithms. NIPS 11
(1998). Setting: discounted, known rewards; one call of the model gives a successor of every pair.

    phased Q-learning:  Q_{l+1}(s,a) = r + gamma (1/m) sum_i V_l(s'_i),  m fresh samples a phase
    indirect:           p^ from m samples of every pair; plan for p^

Published is m = O( (1/epsilon^2) (ln(N/delta) + ln ln(1/epsilon)) ), without constants and without
the powers of 1/(1 - gamma). The numbers here are *derived*, for an epsilon-optimal policy over a
fixed horizon with probability 1 - delta. The phases are the steps t = h..1, back in time, where
h = H - 1: after the last action nothing depends on the next state (h = H if rewards do). The next
value V_{t+1}(s') lies in [0, R_t], R_t = h + 1 - t. With L = ln(2 S A h/delta):

    phased:    m_t = R_t^2 L / (2 eta^2),  eta = epsilon/(2 h)
    indirect:  m   = h^2 L / (2 eta^2),    eta = epsilon/(h (h + 1))

By Hoeffding's inequality and a union over S A h, phased: V^_{t+1} is independent of the samples of
step t, so each backup errs by at most eta. So V*_1 <= V^_1 + h eta, and V^_1 <= V^pi_1 + h eta for
the policy pi that is greedy in Q^: the loss is at most 2 h eta = epsilon. Indirect: V^ depends on
the same samples, so take |(p^ - p) V*_{t+1}| <= eta, hence |Q^_t - Q*_t| <= (h + 1 - t) eta, and
V*_1 - V^pi_1 <= sum_t 2 |Q^_t - Q*_t| <= h (h + 1) eta = epsilon.

**Azar, Munos, Kappen**: Minimax PAC Bounds on the Sample Complexity of Reinforcement Learning with
a Generative Model. Machine Learning 91 (2013); model-based Q-value iteration. Setting: discounted,
known rewards, N = S A pairs, beta = 1/(1 - gamma); indirect too, but with

    c (beta^3 N/epsilon^2) ln(c0 N/delta)  samples in total, evenly over the pairs.

Theorem 1: |Q^ - Q*| <= epsilon with probability 1 - delta, for constants c, c0. The journal says
only that they exist; c = 68 and c0 = 12 are those of the authors' proof, quoted from memory.
Adapted: beta = H and planning over the horizon. A discounted problem has one V*, about which the
samples of each pair make a statement; a horizon has H of them, so that S A H events take part in
the union: m = 68 (H^3/epsilon^2) ln(12 S A H/delta) for every pair. The greedy policy is proved to
be epsilon-optimal as well for small epsilon only (Theorem 2); the number of "indirect" holds for
any epsilon.
"""

from __future__ import annotations

from abc import abstractmethod
from math import ceil, log
from time import perf_counter
from typing import Any

import numpy as np

from ucfh.algorithms.base import Agent
from ucfh.algorithms.bonus import check_scale, known_rewards
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import Problem
from ucfh.planning import backward_induction, mean_rewards

MOST = 2**62
"""The largest number of samples of a pair that 64-bit counts hold."""


class Generative(Agent):
    """An agent that plans once, for the empirical p^ of its samples.

    Args:
        problem: the known part of the MDP: rewards and possible successors.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        scale: a factor of the widths: m is multiplied by its square; 1 changes nothing.

    Attributes:
        h: number of steps whose next state matters: H - 1, or H if rewards depend on it.
        counts: the samples.

    """

    def __init__(self, problem: Problem, epsilon: float, delta: float, scale: float = 1.0) -> None:
        self.rewards = known_rewards(problem, self.name)
        self.problem = problem
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.scale = check_scale(scale)
        self.S, self.A, self.H = problem.states, problem.actions, problem.horizon
        self.h = self.H - (self.rewards.successor is None)
        self.counts = Counts.zero(problem)
        self.wants = self._sample_sizes()
        self._plan()

    @abstractmethod
    def required_samples(self, ahead: int) -> float:
        """Return the samples needed of a pair whose next value is at most R_t = ahead >= 1."""

    def _sample_sizes(self) -> Any:
        """Return the samples to request (rows,), a maximum over steps where pairs are pooled."""
        table = self.problem.table
        sizes = [self.scale**2 * self.required_samples(self.h - t) for t in range(self.h)]
        if max(sizes, default=0) > MOST:
            raise InputError(
                f"epsilon = {self.epsilon:g} needs {max(sizes):.3g} samples of a pair, more "
                "than 64-bit counts hold: pass a larger epsilon"
            )
        each = [max(1, ceil(x)) for x in sizes] + [0] * (self.H - self.h)
        if table.segments == 1:
            each = [max(each)]
        return np.append(np.repeat(np.array(each, np.int64), table.pairs), 0)

    def _plan(self) -> None:
        """Plan by backward induction for p^, which is zero without samples."""
        started = perf_counter()
        table, n = self.problem.table, self.counts
        p = n.successors / np.maximum(n.visits, 1)[table.row_of_entry]
        plan = backward_induction(table, p, mean_rewards(table, p, self.rewards), self.H)
        self.policy = plan.policy
        self.optimistic = self.problem.optimistic_start_value(plan.values[0])
        self.planning_seconds += perf_counter() - started

    def study(self, seen: Counts) -> None:
        """Take the samples, and plan."""
        self.counts.add(seen)
        self.wants = None
        self._plan()

    def limits(self) -> Limits:
        """Return no limits: the policy never changes."""
        return Limits(np.full(self.problem.table.rows, NEVER))

    def observe(self, seen: Counts) -> bool:  # noqa: ARG002
        """Ignore episodes; raise if the samples are missing."""
        if self.wants is not None:
            raise InputError(
                f"{self.name} needs a generative model, and there is none here: run it with "
                "simulate, or use ucfh, which learns from episodes"
            )
        return False

    def visits_of(self, row: int) -> int:
        """Return the number of samples of a pair."""
        return int(self.counts.visits[row])

    def state(self) -> dict[str, Any]:
        """Return the samples, and whether they are complete."""
        return {**self.counts.state("n"), "studied": self.wants is None}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the samples of `state`, and plan."""
        self.counts.restore("n", state)
        self.wants = None if state["studied"] else self._sample_sizes()
        self.samples = sum(self.counts.visits.tolist())
        self._plan()


class PhasedQLearning(Generative):
    """Kearns and Singh's phased Q-learning: fresh samples for every step."""

    name = "phased-q"
    reference = "Kearns, Singh 1998"
    setting = "generative model, discounted; adapted: phases are the steps, m derived"
    guarantee = "policy within epsilon of optimal, with probability 1 - delta"
    constants = "derived: m_t"

    def __init__(self, problem: Problem, epsilon: float, delta: float, scale: float = 1.0) -> None:
        super().__init__(problem.by_segment(), epsilon, delta, scale)

    def required_samples(self, ahead: int) -> float:
        """Return m_t = R_t^2 L / (2 eta^2), eta = epsilon/(2 h)."""
        eta = self.epsilon / (2 * self.h)
        return ahead**2 / (2 * eta**2) * log(2 * self.S * self.A * self.h / self.delta)


class Indirect(Generative):
    """Kearns and Singh's indirect algorithm: plan for p^."""

    name = "indirect"
    reference = "Kearns, Singh 1998"
    setting = "generative model, discounted; adapted: planning over the horizon, m derived"
    guarantee = "policy within epsilon of optimal, with probability 1 - delta"
    constants = "derived: m"

    def required_samples(self, ahead: int) -> float:  # noqa: ARG002
        """Return m = h^2 L / (2 eta^2), eta = epsilon/(h (h + 1))."""
        h = self.h
        eta = self.epsilon / (h * (h + 1))
        return h**2 / (2 * eta**2) * log(2 * self.S * self.A * h / self.delta)


class Azar(Generative):
    """Model-based Q-value iteration of Azar, Munos and Kappen."""

    name = "azar"
    reference = "Azar, Munos, Kappen 2013, Theorem 1"
    setting = "generative model, discounted; adapted: 1/(1-gamma) = H, planning over the horizon"
    guarantee = "Q within epsilon of Q*, with probability 1 - delta, if its constants are right"
    constants = "unverified: 68 and 12; derived: H in the logarithm"

    def required_samples(self, ahead: int) -> float:  # noqa: ARG002
        """Return m = 68 (H^3/epsilon^2) ln(12 S A H/delta)."""
        log_term = log(12 * self.S * self.A * self.H / self.delta)
        return 68 * self.H**3 / self.epsilon**2 * log_term
