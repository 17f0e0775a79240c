"""Planning and policy evaluation with known transition probabilities.

The variance of an episode's return satisfies a Bellman equation (Lemma 4):

    Var_t = P_t Var_{t+1} + sigma^2_t,   sigma^2_t(s) = Var(r_t + V_{t+1}(s_{t+1}) | s_t = s)
"""

from __future__ import annotations

import numpy as np

from ucfh._kernels import exact as kernels
from ucfh._kernels.evi import SweepArrays
from ucfh._utils.arrays import Floats, Ints
from ucfh.planning.optimistic import as_model, run
from ucfh.planning.plan import Plan, blank
from ucfh.transitions import Rewards, Table


def mean_rewards(table: Table, p: Floats, rewards: Rewards) -> Floats:
    """Return (1 or H, R) r_t(s, a) + sum_s' p(s'|s, a) r_t(s, a, s')."""
    if rewards.successor is None:
        return rewards.pair
    by_row = np.add.reduceat(p * rewards.successor, table.indptr[:-1], axis=1)[:, :-1]
    return np.asarray(rewards.pair + by_row.reshape(-1, table.pairs), np.float64)


def backward_induction(table: Table, p: Floats, r: Floats, horizon: int) -> Plan:
    """Return an optimal plan for p (entries,) and mean rewards r (1 or H, R)."""
    V, policy = blank(table.states, table.actions, horizon)
    no_pivot = np.zeros(table.pairs, np.int32)
    out = SweepArrays(V, policy, no_pivot)
    run(as_model(table, p, Rewards(r)), None, out, table.actions, threads=None)
    return Plan(policy, V)


def evaluate(table: Table, p: Floats, r: Floats, rows: Ints) -> Floats:
    """Return (H+1, S) V^pi for the policy with rows (H, S); r (1 or H, R) mean rewards."""
    V = np.zeros((len(rows) + 1, table.states))
    kernels.evaluate(table.indptr, table.indices, table.stride, p, r, rows, V)
    return V


def occupancy(table: Table, p: Floats, rows: Ints) -> Floats:
    """Return (H, S) the probability of each state at each step, under the policy with rows."""
    d = np.zeros(rows.shape)
    kernels.occupancy(table.indptr, table.indices, p, rows, d)
    return d


def return_variance(
    table: Table, p: Floats, rewards: Rewards, rows: Ints, noisy: bool = False
) -> float:
    """Return the variance of an episode's return under the policy with rows (H, S).

    ``noisy``: rewards are Bernoulli variables with the given means, and not deterministic.
    """
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
