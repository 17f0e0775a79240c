"""Reveliotis and Bountourelis: learn node by node, from the end of an episode to its start.

Reveliotis, Bountourelis: Efficient PAC Learning for Episodic Tasks with Acyclic State Spaces.
Discrete Event Dynamic Systems 17 (2007). Setting: episodes, a graph of states without cycles and,
*given* for each state, a policy that reaches it with probability at least q. No model is kept:

    for each state, after all its possible successors
        reach it by its given policy, try each action n times, and continue with the fixed actions
        fix the action of the best mean return

The best action up to a difference Delta is selected as by Bechhofer's indifference zones, for
bounded returns. The number n is *derived* here (published: O~(S A H^4/(epsilon^2 q)) episodes in
total): with Delta = epsilon/H, R = H - t + 1 the largest return from step t on, N nodes,

    n_t = (R/Delta)^2 ln( (A - 1) N/delta ).

An action that is worse by Delta has the better mean of n with probability exp(-n Delta^2/R^2) at
most (Hoeffding, 2n independent returns): no such action is ever fixed, with probability 1 - delta.
So the loss is at most Delta in each of H layers. A node is tried in A n_t/q episodes, in
expectation.

Adapted to fixed horizons: a node is a reachable pair (t, s). These have no cycles in any problem,
and are the states where the problem's graph has none. Rewards are known, and count with their mean.
The policies that reach the nodes, and with them the nodes and q, are prior knowledge in this
setting: they are computed from the MDP, and nothing else is taken from it. So returns during
learning measure learning poorly: where the path to a state is also optimal, the agent begins with
an optimal policy.
"""

from __future__ import annotations

from math import ceil, log
from typing import Any

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.algorithms.base import Agent
from ucfh.algorithms.bonus import check_scale, known_rewards
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import MDP, Problem
from ucfh.planning import backward_induction

AT_ONCE = 2**16
"""Largest number of steps requested at a time."""


def reaching(mdp: MDP, t: int, s: int) -> tuple[Ints, float]:
    """Return the pairs (t, S) of the policy that maximizes P(s_t = s), and that probability.

    ``mdp`` has one segment per step (`MDP.by_segment`).
    """
    table = mdp.table
    if t == 0:
        return np.zeros((0, table.states), np.int64), float(mdp.initial[s])
    # the reward of the last step is the probability of s
    rewards = np.zeros((t, table.pairs))
    last = slice(int(table.indptr[(t - 1) * table.pairs]), int(table.indptr[t * table.pairs]))
    rows, hits = table.row_of_entry[last], table.indices[last] == s
    np.add.at(rewards[t - 1], rows[hits] % table.pairs, mdp.p[last][hits])
    plan = backward_induction(table, mdp.p, rewards, t)
    return table.rows_of(plan.policy, t), mdp.at_start(plan.values)


class Reveliotis(Agent):
    """The agent of Reveliotis and Bountourelis.

    Args:
        problem: the known part of the MDP: the rewards.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        scale: n_t is multiplied by its square; 1 changes nothing.
        mdp: the model from which policies that reach the nodes are computed.

    Attributes:
        reach: (H, S) probability of reaching each node with its policy; the least positive one is
            q. Nodes of probability zero are left out.
        order: (k, 2) the nodes (t, s) with more than one action, in the order of decisions.
        tried, total: (rows,) number of tries of each triple, and sum of the returns.
        fixed: (H, S) the pairs of the policy so far.

    """

    name = "reveliotis"
    reference = "Reveliotis, Bountourelis 2007"
    setting = "acyclic, and for each state a policy that reaches it; adapted: states (t, s)"
    guarantee = "policy within epsilon of optimal, with probability 1 - delta, once it is final"
    constants = "derived: n_t"

    def __init__(
        self,
        problem: Problem,
        epsilon: float,
        delta: float,
        scale: float = 1.0,
        mdp: MDP | None = None,
    ) -> None:
        if mdp is None:
            raise InputError(
                f"{self.name} needs a policy that reaches each state: pass mdp, from which these "
                "are computed, or use ucfh (or phased-q, for a generative model)"
            )
        rewards = known_rewards(problem, self.name)
        self.problem, self.mdp = problem.by_segment(), mdp.by_segment()
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.scale, self.optimistic = check_scale(scale), np.nan
        self.H, self.S, self.A = problem.horizon, problem.states, problem.actions
        self._rewards = (self.problem.rewards or rewards).by_entry(self.problem.table)
        nodes = list(np.ndindex(self.H, self.S))
        self.reach = np.array([reaching(self.mdp, *node)[1] for node in nodes])
        self.reach = self.reach.reshape(self.H, self.S)
        self.nodes = int((self.reach > 0).sum())
        undecided = (self.reach > 0) & (np.diff(problem.table.first) > 1)
        self.order: Ints = np.argwhere(undecided)[::-1]
        rows = self.problem.table.rows
        self.tried, self.total = np.zeros(rows, np.int64), np.zeros(rows)
        self._start()

    @property
    def q(self) -> float:
        """The least probability of reaching a node."""
        return float(self.reach[self.reach > 0].min())

    def required_tries(self, left: int, nodes: int) -> float:
        """Return n_t = (R/Delta)^2 ln( (A - 1) N/delta ) for R = left = H - t + 1 and N nodes."""
        if self.A == 1:
            return 0.0
        Delta = self.epsilon / self.H
        return (left / Delta) ** 2 * log((self.A - 1) * nodes / self.delta)

    def _tries(self, t: int) -> int:
        """Return n_t, scaled and rounded up; t from 0."""
        return max(1, ceil(self.scale**2 * self.required_tries(self.H - t, self.nodes)))

    def _rows_of(self, t: int, s: int) -> range:
        """Return the state-action pairs of a node."""
        table = self.problem.table
        return range(
            t * table.stride + int(table.first[s]), t * table.stride + int(table.first[s + 1])
        )

    def _start(self) -> None:
        """Fix the decided actions, and choose the first pair with missing tries."""
        steps = np.arange(self.H)[:, None]
        self.fixed = steps * self.problem.table.stride + self.problem.table.first[:-1]
        self._next_node = 0
        self._fix_decided()

    def _fix_decided(self) -> None:
        """Fix the actions of nodes with all tries, up to the first one without."""
        self._row = -1
        while self._next_node < len(self.order):
            t, s = map(int, self.order[self._next_node])
            rows = self._rows_of(t, s)
            missing = [row for row in rows if self.tried[row] < self._tries(t)]
            if missing:
                self._try_pair(t, s, missing[0])
                return
            mean = self.total[rows.start : rows.stop] / self.tried[rows.start : rows.stop]
            self.fixed[t, s] = rows[int(mean.argmax())]
            self._next_node += 1
        self.policy = self.problem.table.policy_of(self.fixed)

    def _try_pair(self, t: int, s: int, row: int) -> None:
        """Set the policy: reach the node, try this pair, and continue with the fixed actions."""
        self._row, rows = row, self.fixed.copy()
        rows[:t], _ = reaching(self.mdp, t, s)
        rows[t, s] = row
        self.policy = self.problem.table.policy_of(rows)

    def limits(self) -> Limits:
        """Return the missing tries of the current pair; complete steps are needed for returns."""
        visits = np.full(self.problem.table.rows, NEVER)
        if self._row < 0:
            return Limits(visits)
        t, s, _ = self.problem.table.pair_of(self._row)
        visits[self._row] = left = self._tries(t) - int(self.tried[self._row])
        likely = min(left / float(self.reach[t, s]), AT_ONCE // self.H)
        return Limits(visits, episodes=max(1, ceil(likely)), steps=True)

    def observe(self, seen: Counts) -> bool:
        """Add the returns from the current pair on; continue once it has n_t tries."""
        if self._row < 0 or not seen.steps.size:
            return False
        t = self._row // self.problem.table.pairs
        visited = self.problem.table.row_of_entry[seen.steps[:, t]] == self._row
        self.tried[self._row] += visited.sum()
        self.total[self._row] += self._rewards[seen.steps[visited, t:]].sum()
        if self.tried[self._row] < self._tries(t):
            return False
        self.updated = self._row
        self._fix_decided()
        return True

    def visits_of(self, row: int) -> int:
        """Return the number of tries of a triple."""
        return int(self.tried[row])

    def state(self) -> dict[str, Any]:
        """Return the tries and their returns, which determine the rest."""
        return {"tried": self.tried.copy(), "total": self.total.copy(), "updated": self.updated}

    def restore(self, state: dict[str, Any]) -> None:
        """Continue from the tries of `state`, and fix the decided actions."""
        self.tried[:], self.total[:] = state["tried"], state["total"]
        self.updated = int(state["updated"])
        self._start()
