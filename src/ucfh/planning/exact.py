"""Planning with known transition probabilities, and what a policy earns.

The variance of an episode's reward satisfies a Bellman equation too (Lemma 4):

    Var_t = P_t Var_{t+1} + sigma^2_t,   sigma^2_t(s) = Var(r_t + V_{t+1}(s_{t+1}) | s_t = s)
"""

from __future__ import annotations

import numpy as np

from ucfh._kernels import exact as kernels
from ucfh._kernels.evi import Swept
from ucfh._utils.arrays import Floats, Ints
from ucfh.planning.optimistic import as_model, run
from ucfh.planning.plan import Plan, blank
from ucfh.transitions import Rewards, Table


def mean_rewards(table: Table, p: Floats, rewards: Rewards) -> Floats:
    """(1 or H, R) r_t(s, a) + sum_s' p(s'|s, a) r_t(s, a, s')."""
    if rewards.successor is None:
        return rewards.pair
    by_row = np.add.reduceat(p * rewards.successor, table.indptr[:-1], axis=1)[:, :-1]
    return np.asarray(rewards.pair + by_row.reshape(-1, table.pairs), np.float64)


def backward_induction(table: Table, p: Floats, r: Floats, horizon: int) -> Plan:
    """Exact planning; p (entries,), r (1 or H, R) mean rewards."""
    V, policy = blank(table.states, table.actions, horizon)
    no_pivot = np.zeros(table.pairs, np.int32)
    out = Swept(V, policy, no_pivot)
    run(as_model(table, p, Rewards(r)), None, out, table.actions, threads=None)
    return Plan(policy, V)


def evaluate(table: Table, p: Floats, r: Floats, rows: Ints) -> Floats:
    """(H+1, S) V^pi for the policy that takes rows (H, S); r (1 or H, R) mean rewards."""
    V = np.zeros((len(rows) + 1, table.states))
    kernels.evaluate(table.indptr, table.indices, table.stride, p, r, rows, V)
    return V


def occupancy(table: Table, p: Floats, rows: Ints) -> Floats:
    """(H, S) the probability of each state at each step, under the policy that takes rows."""
    d = np.zeros(rows.shape)
    kernels.occupancy(table.indptr, table.indices, p, rows, d)
    return d


def return_variance(
    table: Table, p: Floats, rewards: Rewards, rows: Ints, noisy: bool = False
) -> float:
    """The variance of an episode's total reward under the policy that takes rows (H, S)."""
    V = evaluate(table, p, mean_rewards(table, p, rewards), rows)
    W = np.zeros_like(V)
    kernels.variance(
        table.arrays,
        p,
        rewards.pair,
        rewards.successor,
        noisy,
        rows,
        V,
        W,
    )
    at = table.entries_of(table.start)
    p0, s = p[at], table.indices[at]
    mean = p0 @ V[0, s]
    return float(p0 @ (W[0, s] + (V[0, s] - mean) ** 2))
