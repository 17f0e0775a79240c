"""FixedHorizonEVI over a table: once, or repeatedly as a learner's bounds change."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels import evi
from ucfh._support.arrays import Floats, Ints
from ucfh.planning.plan import Plan, blank
from ucfh.table import Rewards, Table

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

WORTH_SHARING = 2_000_000
"""With fewer entries times steps, starting threads takes longer than planning."""
BLOCKS = 4
"""The states of a step are divided into this many blocks per thread."""
ALL_IN_ORDER = np.zeros(0, np.int32)
"""The indices of rows that list all states in order."""
NO_BONUS = np.zeros((1, 0))
"""Rewards on the next state where there are none."""
ALL_ACTIONS = np.zeros(0, np.int64)
"""The actions of rows where every state has all of them."""
ALONE = (
    np.zeros(0, np.int32), np.zeros(0), np.zeros(0), np.zeros((0, 0)), np.zeros((0, 0)),
    np.zeros(0, np.int64),
)  # fmt: skip
"""What a single thread shares: nothing."""


def extended_value_iteration(
    table: Table,
    lo: Floats,
    hi: Floats,
    rewards: Rewards,
    horizon: int,
    optimistic: bool = True,
    threads: int | None = 1,
) -> Plan:
    """FixedHorizonEVI over a table; lo, hi (entries,). threads: None for all cores."""
    V, policy = blank(table.states, table.actions, horizon)
    pivot = np.zeros(table.pairs, np.int32)
    run(as_model(table, lo, hi, rewards, optimistic), V, policy, pivot, threads)
    return Plan(policy, V)


def as_model(
    table: Table, lo: Floats, hi: Floats, rewards: Rewards, optimistic: bool = True
) -> evi.Model:
    """What is planned for, as the kernels take it."""
    return (
        table.first,
        table.indptr,
        ALL_ACTIONS if table.pairs == table.states * table.actions else table.action,
        ALL_IN_ORDER if table.is_dense else table.indices,
        table.stride,
        lo,
        hi,
        rewards.pair,
        NO_BONUS if rewards.successor is None else rewards.successor,
        1.0 if optimistic else -1.0,
    )


@cache
def _pool(workers: int) -> ThreadPoolExecutor:
    """Threads that are kept: starting one takes longer than planning for a thousand states."""
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(workers, "ucfh-planner")


def run(
    model: evi.Model,
    V: Floats,
    policy: NDArray[Any],
    pivot: NDArray[np.int32],
    threads: int | None = 1,
) -> None:
    """`evi.sweep` over all steps, by several threads where they have enough to do."""
    H, S = policy.shape
    if threads == 1 or model[5].size * H < WORTH_SHARING:
        evi.sweep(H - 1, False, model, V, policy, pivot, ALONE)
        return
    workers = threads if threads is not None else os.cpu_count() or 1
    shared = (
        np.zeros(S, np.int32),
        np.full(len(pivot), np.inf),
        np.full(S, np.inf),
        np.zeros((2, S)),
        np.empty((H, min(S, BLOCKS * workers))),
        np.zeros(2 * evi.APART * H + 1, np.int64),
    )
    task = (model, V, policy, pivot, shared)
    helpers = [_pool(workers - 1).submit(evi.sweep, H - 1, True, *task) for _ in range(workers - 1)]
    evi.sweep(H - 1, False, *task)
    for helper in helpers:
        if not helper.cancel():  # one that never began is not waited for
            helper.result()


def start_value(
    table: Table, lo: Floats, hi: Floats, values: Floats, optimistic: bool = True
) -> float:
    """The best or worst mean of values (H+1, S) at the start, over the box of the start row."""
    at = table.entries_of(table.start)
    sign = 1.0 if optimistic else -1.0
    return float(evi.expectation(at.start, at.stop, table.indices, lo, hi, values[0], sign))


def optimistic_model(
    table: Table, lo: Floats, hi: Floats, rewards: Rewards, values: Floats
) -> Floats:
    """p~, the model between the bounds that attains values (H+1, S) of a plan: (H, entries).

    Where rows have stages, all lines are the same. The start is not in it.
    """
    H = len(values) - 1
    p = np.zeros((1 if table.stages > 1 else H, table.entries))
    evi.write_model(as_model(table, lo, hi, rewards), values, p)
    return np.broadcast_to(p, (H, table.entries))


class PhasePlanner:
    """FixedHorizonEVI(M_k), phase after phase.

    One phase of UCFH updates one pair, and so changes one row of M_k. What that cannot reach is
    not planned again: a state is, at step t, if it has the row, or if V_{t+1} changed in a
    state that may follow it. The value of a state is a function of V_{t+1} and of its rows alone
    (`ucfh._kernels.evi`), so the result is the same as planning everything again, to the bit.

    Args:
        table: the rows.
        horizon: H.
        optimistic: True for the best model between the bounds, False for the worst.

    Attributes:
        values: (H+1, S) of the last plan; the next one overwrites them.
        policy: (H, S) of the last plan; the next one overwrites it.

    """

    def __init__(self, table: Table, horizon: int, optimistic: bool = True) -> None:
        self.values, self.policy = blank(table.states, table.actions, horizon)
        self._table, self._optimistic = table, optimistic
        self._pivot = np.zeros(table.pairs, np.int32)
        self._before: tuple[Ints, NDArray[np.int32]] | None = None

    def plan(self, lo: Floats, hi: Floats, rewards: Rewards, changed: int | None = None) -> None:
        """Plan for bounds lo, hi (entries,).

        ``changed`` is the only row whose bounds or rewards differ from those of the last call;
        None: any may.
        """
        model = as_model(self._table, lo, hi, rewards, self._optimistic)
        plan: Any = (model, self.values, self.policy, self._pivot)
        if changed is None:
            run(*plan)
        elif changed != self._table.start:
            if self._before is None:
                self._before = _preceding(self._table)
            resweep: Any = evi.resweep
            resweep(changed, *self._before, *plan, ALONE)


def _preceding(table: Table) -> tuple[Ints, NDArray[np.int32]]:
    """The states that each state may follow, at some step: (S+1,) where they begin, and they."""
    body = int(table.indptr[table.start])
    state = table.state[table.row_of_entry[:body] % table.pairs]
    pair = np.unique(table.indices[:body].astype(np.int64) * table.states + state)
    following, state = np.divmod(pair, table.states)
    begin = np.searchsorted(following, np.arange(table.states + 1))
    return begin.astype(np.int64), state.astype(np.int32)
