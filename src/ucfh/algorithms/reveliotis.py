"""Learning node by node, from the end of an episode to its start.

Reveliotis, Bountourelis: Efficient PAC Learning for Episodic Tasks with Acyclic State Spaces.
Discrete Event Dynamic Systems 17 (2007). Setting: episodes, a graph of states without cycles and,
*given* for each state, a policy that reaches it with probability at least q. No model is kept:

    for each state, those that can follow it first
        reach it by its given policy, try each action n times, and continue as fixed so far
        fix the action of the best mean return

Which action is best up to a difference Delta is decided as by Bechhofer's indifference zones, for
bounded returns. The number n is *derived* here (published: O~(S A H^4/(epsilon^2 q)) episodes in
all): with Delta = epsilon/H, R = H - t + 1 what can be earned from step t on, N nodes,

    n_t = (R/Delta)^2 ln( (A - 1) N/delta ).

An action that is worse by Delta has the better mean of n with probability exp(-n Delta^2/R^2) at
most (Hoeffding, 2n independent returns): no such action is ever fixed, with probability 1 - delta.
So at most Delta is lost in each of H layers. A node is tried in A n_t/q episodes, in expectation.

Adapted to fixed horizons: a node is a pair (t, s) that can be reached. These have no cycles,
whatever the problem, and where its own graph has none they are its states. Rewards are told, and
count with their mean. The policies that reach the nodes, and with them the nodes and q, are given
knowledge in this setting: they are computed from the MDP, and nothing else is taken from it. So
what it earns while it learns says little about learning: where the way to a state is also the best
way to earn rewards, it begins with an optimal policy.
"""

from __future__ import annotations

from math import ceil, log
from typing import Any

import numpy as np

from ucfh._utils.arrays import Ints
from ucfh.algorithms.base import Agent
from ucfh.algorithms.bonus import check_scale, told_rewards
from ucfh.counts import NEVER, Counts, Limits
from ucfh.exceptions import InputError, check_unit
from ucfh.mdp import MDP, Problem
from ucfh.planning import backward_induction

AT_ONCE = 2**16
"""At most this many steps are asked for at a time."""


def reaching(mdp: MDP, t: int, s: int) -> tuple[Ints, float]:
    """The policy that is most likely in state s at step t: rows (t, S), and its probability.

    ``mdp`` has rows for each step (`MDP.by_segment`).
    """
    table = mdp.table
    if t == 0:
        return np.zeros((0, table.states), np.int64), float(mdp.initial[s])
    # to be in s is what the last step pays for
    pays = np.zeros((t, table.pairs))
    last = slice(int(table.indptr[(t - 1) * table.pairs]), int(table.indptr[t * table.pairs]))
    rows, hits = table.row_of_entry[last], table.indices[last] == s
    np.add.at(pays[t - 1], rows[hits] % table.pairs, mdp.p[last][hits])
    plan = backward_induction(table, mdp.p, pays, t)
    return table.rows_of(plan.policy, t), mdp.at_start(plan.values)


class Reveliotis(Agent):
    """Learns the actions of each step from those of the next ones.

    Args:
        problem: what it is told: the rewards.
        epsilon, delta: accuracy and failure probability, both in (0, 1].
        scale: n_t is multiplied by its square; 1 changes nothing.
        mdp: the model from which policies that reach the nodes are computed.

    Attributes:
        reach: (H, S) the probability that each node is reached, if its policy is followed; the
            least that is not zero is q. Nodes of zero are left out.
        order: (k, 2) the nodes (t, s) where something has to be decided, as they are visited.
        tried, total: (rows,) how often each row was tried, and the sum of the returns.
        fixed: (H, S) the rows that its policy takes so far.

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
        told = told_rewards(problem, self.name)
        self.problem, self.mdp = problem.by_segment(), mdp.by_segment()
        self.epsilon, self.delta = check_unit("epsilon", epsilon), check_unit("delta", delta)
        self.scale, self.optimistic = check_scale(scale), np.nan
        self.H, self.S, self.A = problem.horizon, problem.states, problem.actions
        self._pays = (self.problem.rewards or told).by_entry(self.problem.table)
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
        """Every node is reached with at least this probability."""
        return float(self.reach[self.reach > 0].min())

    def need(self, left: int, nodes: int) -> float:
        """n_t = (R/Delta)^2 ln( (A - 1) N/delta ) for R = left = H - t + 1 and N nodes."""
        if self.A == 1:
            return 0.0
        Delta = self.epsilon / self.H
        return (left / Delta) ** 2 * log((self.A - 1) * nodes / self.delta)

    def _tries(self, t: int) -> int:
        """n_t, scaled, as a whole number; t from 0."""
        return max(1, ceil(self.scale**2 * self.need(self.H - t, self.nodes)))

    def _rows_of(self, t: int, s: int) -> range:
        """The rows of a node."""
        table = self.problem.table
        return range(
            t * table.stride + int(table.first[s]), t * table.stride + int(table.first[s + 1])
        )

    def _start(self) -> None:
        """Fix what the tries have decided, and turn to the first row that lacks some."""
        steps = np.arange(self.H)[:, None]
        self.fixed = steps * self.problem.table.stride + self.problem.table.first[:-1]
        self._place = 0
        self._go_on()

    def _go_on(self) -> None:
        """Fix the actions of the nodes that are done, up to one that is not."""
        self._row = -1
        while self._place < len(self.order):
            t, s = map(int, self.order[self._place])
            rows = self._rows_of(t, s)
            lacking = [row for row in rows if self.tried[row] < self._tries(t)]
            if lacking:
                self._turn_to(t, s, lacking[0])
                return
            mean = self.total[rows.start : rows.stop] / self.tried[rows.start : rows.stop]
            self.fixed[t, s] = rows[int(mean.argmax())]
            self._place += 1
        self.policy = self.problem.table.policy_of(self.fixed)

    def _turn_to(self, t: int, s: int, row: int) -> None:
        """Reach a node by its policy, take this row there, and continue as fixed."""
        self._row, rows = row, self.fixed.copy()
        rows[:t], _ = reaching(self.mdp, t, s)
        rows[t, s] = row
        self.policy = self.problem.table.policy_of(rows)

    def limits(self) -> Limits:
        """Until the row at hand has been tried n_t times, with all that followed."""
        visits = np.full(self.problem.table.rows, NEVER)
        if self._row < 0:
            return Limits(visits)
        t, s, _ = self.problem.table.pair_of(self._row)
        visits[self._row] = left = self._tries(t) - int(self.tried[self._row])
        likely = min(left / float(self.reach[t, s]), AT_ONCE // self.H)
        return Limits(visits, episodes=max(1, ceil(likely)), steps=True)

    def observe(self, seen: Counts) -> bool:
        """Add the returns of the episodes that passed the node."""
        if self._row < 0 or not seen.steps.size:
            return False
        t = self._row // self.problem.table.pairs
        passed = self.problem.table.row_of_entry[seen.steps[:, t]] == self._row
        self.tried[self._row] += passed.sum()
        self.total[self._row] += self._pays[seen.steps[passed, t:]].sum()
        if self.tried[self._row] < self._tries(t):
            return False
        self.updated = self._row
        self._go_on()
        return True

    def visits_of(self, row: int) -> int:
        """How often a row was tried."""
        return int(self.tried[row])

    def state(self) -> dict[str, Any]:
        """The tries and their returns; all else follows from them."""
        return {"tried": self.tried.copy(), "total": self.total.copy(), "updated": self.updated}

    def restore(self, state: dict[str, Any]) -> None:
        """Restore the tries, and fix what they have decided."""
        self.tried[:], self.total[:] = state["tried"], state["total"]
        self.updated = int(state["updated"])
        self._start()
