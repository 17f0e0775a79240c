"""EPRL: the best path through a deterministic MDP, by elimination.

Tirinzoni, Al-Marjani, Kaufmann: Near Instance-Optimal PAC Reinforcement Learning for Deterministic
MDPs. NeurIPS 2022 (arXiv 2203.09251). Setting: known deterministic transitions, one first state,
and unknown rewards that may depend on the step. A policy is a path of H triples (t, s, a); N can be
reached. With n visits of a triple, r^ their mean reward and

    b = min( 1, sqrt(ln( N (n + 1)/delta )/(2 n)) ),      b = 1 and r^ = 0 without visits,

U and L of a path are the sums of r^ + b and of r^ - b along it. All triples are active at first.

    for k = 1, 2, ...
        until each active triple has k visits: follow a path through as many active triples with
        fewer as possible (maximum coverage); eliminated triples may be on it
        eliminate an active triple if all paths through it, and through active triples only, have
            U < max L, or if they have, from it on, U < L of some path from its state on
        stop if U - L <= eps for every active path, or one active path is left

Then the path of max L, over all paths, or the one that is left, is eps-optimal with probability
1 - delta.

Proof. Let the rewards x in [0, 1] of a triple have mean r. For each q, the product over visits of
(q/r)^x ((1-q)/(1-r))^(1-x) is a supermartingale that begins with 1, as E e^(c x) <= 1 - r + r e^c
for all c; so is its mean over q uniform on [0, 1]. After n visits the product is f(q)/f(r), with
f(q) = q^(n r^) (1-q)^(n - n r^), and f(q) >= f(r^) ((1-q)/(1-r^))^(n - n r^) for q >= r^,
f(q) >= f(r^) (q/r^)^(n r^) for q <= r^. So that mean is at least

    ( (1-r^)/(n - n r^ + 1) + r^/(n r^ + 1) ) f(r^)/f(r)  >=  e^(n KL(r^, r))/(n + 1).

By Ville's inequality n KL(r^, r) <= ln( N (n + 1)/delta ) for all n and all N triples at once, with
probability 1 - delta; and 2 (r^ - r)^2 <= KL(r^, r), so |r^ - r| <= b. Then U and L bound the value
of each path, and no triple of an optimal path is eliminated. If all active paths have U - L <= eps,
an optimal one has V* <= U <= L + eps <= max L + eps, and max L is at most the value of its own
path. If one active path is left, it is the optimal one, and is returned.

The abstract and the authors' code were read, the paper was not. The rules of sampling, elimination
and stopping are those of the code. Its radius there, sqrt(ln((n + 1)/delta)/(2 n)), is marked as
not supported by theory; a comment has e S A H (n + 1) in the logarithm: by the proof above,
N (n + 1) suffices. By the abstract, every algorithm needs at least 1/H^2 as many episodes, up to
logarithms (for Gaussian rewards, quoted from memory: Bernoulli rewards with means near 0 or 1 need
fewer). Another sampling rule of the code, the path with the largest U - L, is left out.

Here k grows by 2% rather than by 1, once it is 100. A path that covers the most triples does so
until one of them has k visits, since no other path covers more by then: so it is followed until
then, in bulk. Known rewards are not used. A scale multiplies b.
"""

from __future__ import annotations

from math import inf
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from ucfh._utils.arrays import Floats, Ints
from ucfh.algorithms.base import Agent
from ucfh.algorithms.bonus import check_scale
from ucfh.algorithms.phased import FULL, best_rows
from ucfh.counts import NEVER, Counts, Limits, due_after
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import Problem


class Paths(NamedTuple):
    """The best paths for given rewards.

    Attributes:
        Q: (H, R) value from each pair on.
        V: (H+1, S) value from each state on; -inf where no path is left.
        rows: (H, S) the pairs of these paths.

    """

    Q: Floats
    V: Floats
    rows: Ints


class EPRL(Agent):
    """EPRL with maximum coverage.

    Args:
        problem: the known part of the MDP: the successor of each pair, and the first state.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        scale: a factor of the radius b; 1 changes nothing.

    Attributes:
        counts: visits and rewards of each triple (t, s, a).
        active: (H, R) mask of triples that may be on an optimal path.
        unknown: (H, R) mask of the N triples that can be reached and have an unknown reward; only
            terminal states are known to have none.
        target: k, the visits of each active triple before the next elimination.
        lower: max L at the last elimination. gap_bound: the largest U - L then.

    """

    name = "eprl"
    reference = "Tirinzoni, Al-Marjani, Kaufmann 2022"
    setting = "known deterministic transitions; unknown rewards, by step"
    guarantee = "eps-optimal when it stops; O~(H^2) times the fewest episodes, for Gaussian rewards"
    constants = "from code: the rules; derived: the radius"
    stops = True

    def __init__(self, problem: Problem, epsilon: float, delta: float, scale: float = 1.0) -> None:
        self.problem = hidden = problem.by_segment().hiding("rewards")
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.scale, self.H, table = check_scale(scale), problem.horizon, hidden.table
        for row in np.flatnonzero(table.lengths > 1)[:1]:
            raise InputError(
                f"{self.name} needs a problem in which every action has one successor, and "
                f"{table.name_of(row)} may lead to {table.lengths[row]} states: use certified-ucfh"
            )
        self.first_state = int(table.indices[-1])
        self.successor = table.indices[:-1].reshape(self.H, table.pairs).astype(np.int64)
        self.counts = Counts.zero(hidden)
        self.active = np.isfinite(self._best_to(np.zeros(self.successor.shape)))
        self.unknown = self.active & hidden.reward_unknown.reshape(self.successor.shape)
        self.N, self.target = int(self.unknown.sum()), 1
        self._begin_phase()

    def _best_from(self, x: Floats) -> Paths:
        """Compute the best paths from each pair and state on, for rewards x (H, R)."""
        table = self.problem.table
        Q, V = np.empty_like(x), np.zeros((self.H + 1, table.states))
        for t in range(self.H - 1, -1, -1):
            Q[t] = x[t] + V[t + 1, self.successor[t]]
            V[t] = np.maximum.reduceat(Q[t], table.first[:-1])
        return Paths(Q, V, best_rows(table, Q) + table.stride * np.arange(self.H)[:, None])

    def _best_to(self, x: Floats) -> Floats:
        """Compute the largest sum of x (H, R) on a path before each pair (H, R); -inf: no path."""
        table = self.problem.table
        F = np.full((self.H + 1, table.states), -inf)
        F[0, self.first_state] = 0.0
        for t in range(self.H):
            np.maximum.at(F[t + 1], self.successor[t], F[t, table.state] + x[t])
        return F[:-1, table.state]

    def path(self, rows: Ints) -> Ints:
        """Return the triples (H,) of an episode that follows the policy rows (H, S)."""
        s, passed = self.first_state, np.zeros(self.H, np.int64)
        for t in range(self.H):
            passed[t] = rows[t, s]
            s = int(self.problem.table.indices[passed[t]])
        return passed

    def radius(self, n: Any) -> Any:
        """Return b after n visits."""
        n = np.asarray(n, float)
        b = np.sqrt(np.log(max(1, self.N) * (n + 1) / self.delta) / (2 * np.maximum(n, 1)))
        return np.where(n > 0, np.minimum(1.0, self.scale * b), 1.0)

    @property
    def visits(self) -> Ints:
        """(H, R) n of each triple."""
        return self.counts.visits[:-1].reshape(self.successor.shape)

    def _begin_phase(self) -> None:
        """Begin a phase: eliminate triples, and stop or choose the next path."""
        n = self.visits
        mean = self.counts.rewards[:-1].reshape(n.shape) / np.maximum(n, 1)
        b = np.where(self.unknown, self.radius(n), 0.0)
        lower = self._best_from(mean - b)
        self.lower = float(lower.V[0, self.first_state])
        self._eliminate(mean + b, lower.V)
        upper = self._best_from(np.where(self.active, mean + b, -inf))
        self.optimistic = float(upper.V[0, self.first_state])
        width = self._best_from(np.where(self.active, 2 * b, -inf))
        self.gap_bound = float(width.V[0, self.first_state])
        if one_left := self.active.sum() == self.H:
            self.gap_bound = 0.0
        if self.gap_bound <= self.epsilon:
            self.done, self.rows = True, upper.rows if one_left else lower.rows
            self.policy = self.problem.table.policy_of(self.rows)
        else:
            fewest = int(n[self.active & self.unknown].min())
            self.target = due_after(fewest)
            self._cover()

    def _eliminate(self, upper_rewards: Floats, lower: Floats) -> None:
        """Eliminate active triples, given r^ + b (H, R) and lower bounds of V (H+1, S)."""
        state = self.problem.table.state
        x = np.where(self.active, upper_rewards, -inf)
        self.active &= lower[:-1, state] <= self._best_from(x).Q
        x = np.where(self.active, upper_rewards, -inf)
        self.active &= self.lower <= self._best_to(x) + self._best_from(x).Q

    @property
    def missing(self) -> Ints:
        """(H, R) visits missing to ``target`` at active triples; not positive elsewhere."""
        return np.where(self.active & self.unknown, self.target - self.visits, 0)

    def _cover(self) -> None:
        """Choose a path through as many active triples with missing visits as possible."""
        self.rows = self._best_from((self.missing > 0).astype(float)).rows
        self.policy = self.problem.table.policy_of(self.rows)

    def limits(self) -> Limits:
        """Return the missing visits on the path; all triples are counted."""
        if self.done:
            return Limits(np.full(self.problem.table.rows, NEVER))
        visits = np.full(self.problem.table.rows, FULL)
        on_path = self.path(self.rows)
        missing = self.missing.ravel()[on_path]
        visits[on_path] = np.where(missing > 0, missing, FULL)
        return Limits(visits)

    def observe(self, seen: Counts) -> bool:
        """Count; choose another path once a triple has its visits, or begin the next phase."""
        on_path = self.path(self.rows)
        was_missing = self.missing.ravel()[on_path] > 0
        self.counts.add(seen)
        if self.done or (self.missing.ravel()[on_path] > 0)[was_missing].all():
            return False
        started = perf_counter()
        if (self.missing > 0).any():
            self._cover()
        else:
            self._begin_phase()
        self.planning_seconds += perf_counter() - started
        return True

    def visits_of(self, row: int) -> int:
        """Return n of a state-action pair."""
        return int(self.counts.visits[row])

    def state(self) -> dict[str, Any]:
        """Return the counts, and the results of the last elimination."""
        bounds = np.array([self.lower, self.optimistic, self.gap_bound])
        return {
            **self.counts.state("n"),
            "active": self.active.copy(),
            "rows": self.rows.copy(),
            "target": self.target,
            "bounds": bounds,
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the result of `state`."""
        self.counts.restore("n", state)
        self.active[:], self.target = state["active"], int(state["target"])
        self.rows = np.array(state["rows"], np.int64)
        self.lower, self.optimistic, self.gap_bound = (float(x) for x in state["bounds"])
        self.done = self.gap_bound <= self.epsilon
        self.policy = self.problem.table.policy_of(self.rows)
