"""Planning over a fixed horizon: optimistic, robust, exact; and what a policy earns.

FixedHorizonEVI (the paper's appendix A) maximises over policies and over transition models whose
probabilities lie between lo and hi, independently at every step:

    V_{H+1} = 0,   Q_t(s,a) = r_t(s,a) + max { sum p V_{t+1} : lo <= p <= hi, sum p = 1 },
    V_t(s) = max_a Q_t(s,a),   pi_t(s) = argmax_a Q_t(s,a)

with the lowest action on ties, which are values that differ by no more than rounding. (The printed
pseudo-code forgets r_t.) Its robust counterpart takes the minimum over models: what is certain to
be earned whatever the model. With lo = hi both are exact backward induction.

The variance of an episode's reward satisfies a Bellman equation too (Lemma 4):

    Var_t = P_t Var_{t+1} + sigma^2_t,   sigma^2_t(s) = Var(r_t + V_{t+1}(s_{t+1}) | s_t = s)
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from ucfh import validation
from ucfh._kernels import evi, exact
from ucfh.errors import InputError, check_count
from ucfh.table import MAX_ROUNDING, Floats, Ints, Rewards, Table, build

PARALLEL_ENTRIES = 20_000
"""With fewer entries, to share out the states of a step takes longer than to plan them."""

_parallel_lock = threading.Lock()
_parallel_in: int | None = None
"""The process that has used numba's threads."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A policy and its values.

    Attributes:
        policy: (H, S) the action at each step in each state, in the smallest integer type.
        values: (H+1, S) the value from each step on; the last line is zero.
        transitions: p~, the model that was planned with, if asked for: (H, S, A, S), or
            (H, entries) over the rows of a compressed input.

    """

    policy: NDArray[Any]
    values: Floats
    transitions: Floats | None = None


def _blank(table: Table, horizon: int) -> tuple[Floats, NDArray[Any]]:
    """Zero values (H+1, S), and a policy (H, S) to be filled."""
    policy = np.zeros((horizon, table.states), np.min_scalar_type(table.actions - 1))
    return np.zeros((horizon + 1, table.states)), policy


def extended_value_iteration(
    table: Table,
    lo: Floats,
    hi: Floats,
    rewards: Rewards,
    horizon: int,
    optimistic: bool = True,
    return_model: bool = False,
    threads: int | None = 1,
) -> Plan:
    """FixedHorizonEVI over a table; lo, hi (entries,). p~ comes as (1 or H, entries)."""
    V, policy = _blank(table, horizon)
    sign = 1.0 if optimistic else -1.0
    bonus = rewards.successor
    _run_evi(
        threads,
        table.first,
        table.action,
        table.indptr,
        None if table.is_dense else table.indices,
        table.stride,
        lo,
        hi,
        rewards.pair,
        bonus,
        sign,
        V,
        policy,
    )
    if not return_model:
        return Plan(policy, V)
    model = np.zeros((horizon if table.stages == 1 else 1, table.entries))
    evi.write_model(
        table.indptr, table.indices, table.stride, table.pairs, lo, hi, bonus, sign, V, model
    )
    return Plan(policy, V, model)


def _run_evi(threads: int | None, *arguments: Any) -> None:
    """Plan on one thread or, where the problem is large and nobody else does so now, on several.

    numba's threads do not survive a fork, and some of its threading layers end the process when
    two callers use them at once; so the second caller and a forked child plan on one thread. The
    result is the same.
    """
    global _parallel_in
    entries = arguments[5].size
    several = threads if threads is not None else os.cpu_count() or 1
    if several > 1 and entries >= PARALLEL_ENTRIES and _parallel_lock.acquire(blocking=False):
        try:
            if _parallel_in in (None, os.getpid()):
                _parallel_in = os.getpid()
                several = min(several, int(numba.config.NUMBA_NUM_THREADS))  # type: ignore[attr-defined]
                numba.set_num_threads(several)
                kernel: Any = evi.extended_value_iteration_in_parallel
                kernel(*arguments, several)
                return
        finally:
            _parallel_lock.release()
    evi.extended_value_iteration(*arguments)


def start_value(
    table: Table, lo: Floats, hi: Floats, values: Floats, optimistic: bool = True
) -> float:
    """The best or worst mean of values (H+1, S) at the start, over the box of the start row."""
    at = table.entries_of(table.start)
    sign = 1.0 if optimistic else -1.0
    return float(evi.expectation(at.start, at.stop, table.indices, lo, hi, values[0], sign))


def mean_rewards(table: Table, p: Floats, rewards: Rewards) -> Floats:
    """(1 or H, R) r_t(s, a) + sum_s' p(s'|s, a) r_t(s, a, s')."""
    if rewards.successor is None:
        return rewards.pair
    by_row = np.add.reduceat(p * rewards.successor, table.indptr[:-1], axis=1)[:, :-1]
    return np.asarray(rewards.pair + by_row.reshape(-1, table.pairs), np.float64)


def backward_induction(table: Table, p: Floats, r: Floats, horizon: int) -> Plan:
    """Exact planning; p (entries,), r (1 or H, R) mean rewards."""
    V, policy = _blank(table, horizon)
    exact.backward_induction(
        table.first, table.action, table.indptr, table.indices, table.stride, p, r, V, policy
    )
    return Plan(policy, V)


def evaluate(table: Table, p: Floats, r: Floats, rows: Ints) -> Floats:
    """(H+1, S) V^pi for the policy that takes rows (H, S); r (1 or H, R) mean rewards."""
    V = np.zeros((len(rows) + 1, table.states))
    exact.evaluate(table.indptr, table.indices, table.stride, p, r, rows, V)
    return V


def occupancy(table: Table, p: Floats, rows: Ints) -> Floats:
    """(H, S) the probability of each state at each step, under the policy that takes rows."""
    d = np.zeros(rows.shape)
    exact.occupancy(table.indptr, table.indices, p, rows, d)
    return d


def return_variance(
    table: Table, p: Floats, rewards: Rewards, rows: Ints, noisy: bool = False
) -> float:
    """The variance of an episode's total reward under the policy that takes rows (H, S)."""
    V = evaluate(table, p, mean_rewards(table, p, rewards), rows)
    W = np.zeros_like(V)
    exact.variance(
        table.indptr,
        table.indices,
        table.stride,
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


def fixed_horizon_evi(
    lo: Any,
    hi: Any,
    rewards: Any,
    horizon: int,
    optimistic: bool = True,
    indptr: Any = None,
    indices: Any = None,
    threads: int | None = None,
    return_model: bool = False,
) -> Plan:
    """Optimistic (or robust) planning over an interval MDP.

    Args:
        lo, hi: bounds of the transition probabilities: (S, A, S) or (H, S, A, S), or flat over
            compressed rows s*A + a or (t*S + s)*A + a given by ``indptr`` and ``indices``.
        rewards: in [0, 1], NumPy-broadcast to (H, S, A); (1 or H, S, A, S) where they depend on
            the next state. S is the size of the state axis, so with compressed rows r(s) is
            (S, 1).
        horizon: H.
        optimistic: True for the best model between the bounds, False for the worst.
        indptr, indices: compressed rows, as in SciPy.
        threads: how many to use; None: all cores where that pays. The result is the same.
        return_model: whether to return p~ too.

    Returns:
        The policy (H, S), values (H+1, S), and p~ if asked for: (H, S, A, S), or (H, entries)
        for compressed rows that do not depend on t, or (entries,) for those that do.

    >>> import numpy as np
    >>> lo = np.array([[[0.2, 0.4]], [[0.0, 1.0]]])
    >>> hi = np.array([[[0.6, 0.8]], [[0.0, 1.0]]])
    >>> plan = fixed_horizon_evi(lo, hi, rewards=[[0.0], [1.0]], horizon=2)
    >>> plan.values[0]
    array([0.8, 2. ])
    >>> fixed_horizon_evi(lo, hi, [[0.0], [1.0]], horizon=2, optimistic=False).values[0]
    array([0.4, 2. ])

    """
    H = check_count("horizon", horizon)
    low, high = validation.as_numbers("lo", lo), validation.as_numbers("hi", hi)
    if low.shape != high.shape:
        raise InputError(f"lo has shape {low.shape} and hi {high.shape}: they must agree")
    either = np.where(low != 0, low, high)  # not zero where one of them is not
    entries: Any = either if indptr is None else (indptr, indices, either)
    S, A, stages, rows, successors, _ = validation.check_transitions(entries, rewards, H)
    if indptr is None:
        low, high = (bound.reshape(-1, S)[rows, successors] for bound in (low, high))
    start = np.zeros(1, np.int64)  # the table wants one; planning from every state has none
    table, source = build(S, np.ones((S, A), bool), stages, rows, successors, start)
    low, high = (np.where(source >= 0, bound[source], 1.0) for bound in (low, high))
    _check_bounds(table, low, high)
    told = Rewards(*validation.check_rewards(rewards, table, H, ()))
    if threads is not None:
        check_count("threads", threads)
    plan = extended_value_iteration(table, low, high, told, H, optimistic, return_model, threads)
    if plan.transitions is None:
        return plan
    if indptr is None:
        stack = [table.dense(line) for line in plan.transitions]
        return Plan(plan.policy, plan.values, np.stack(stack) if stages == 1 else stack[0])
    in_order = np.zeros((len(plan.transitions), len(rows)))
    body = len(source) - 1
    in_order[:, source[:body]] = plan.transitions[:, :body]
    return Plan(plan.policy, plan.values, in_order if stages == 1 else in_order[0])


def _check_bounds(table: Table, lo: Floats, hi: Floats) -> None:
    """Bounds are probabilities, in order, and leave room for a distribution in every row."""
    bad = np.flatnonzero(~((lo >= 0) & (lo <= hi) & (hi <= 1 + MAX_ROUNDING)))
    if bad.size:
        e = bad[0]
        raise InputError(
            f"the bounds of state {table.indices[e]} after "
            f"{table.name_of(int(table.row_of_entry[e]))} are [{lo[e]}, {hi[e]}]: "
            "they must satisfy 0 <= lo <= hi <= 1"
        )
    least, most = (np.add.reduceat(bound, table.indptr[:-1]) for bound in (lo, hi))
    off = np.flatnonzero((least > 1 + MAX_ROUNDING) | (most < 1 - MAX_ROUNDING))
    if off.size:
        row = int(off[0])
        raise InputError(
            f"no distribution lies between the bounds of {table.name_of(row)}: lo sums to "
            f"{least[row]:.12g} and hi to {most[row]:.12g}; 1 must lie between"
        )
