"""FixedHorizonEVI over a table: once, or repeatedly as an agent's bounds change."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels import evi
from ucfh._kernels.interval import expectation
from ucfh._kernels.intrinsics import APART
from ucfh._kernels.row_values import Model
from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.threads import cores, in_threads
from ucfh.planning.plan import Plan, blank
from ucfh.transitions import Rewards, Table

MIN_PARALLEL = 2_000_000
"""With fewer entries times steps, starting threads takes longer than planning."""
BLOCKS = 4
"""The states of a step are divided into this many blocks per thread."""
ALL_IN_ORDER = np.zeros(0, np.int32)
"""The indices of rows that list all states in order."""
NO_BONUS = np.zeros((1, 0))
"""Rewards on the next state where there are none."""
ALL_ACTIONS = np.zeros(0, np.int64)
"""The actions of rows where every state has all of them."""


def extended_value_iteration(
    table: Table,
    lo: Floats,
    hi: Floats,
    rewards: Rewards,
    horizon: int,
    optimistic: bool = True,
    threads: int | None = 1,
) -> Plan:
    """Return the plan of FixedHorizonEVI over a table.

    Args:
        table: the rows.
        lo, hi: (entries,) bounds of the transition probabilities.
        rewards: mean rewards.
        horizon: H.
        optimistic: True for the best model between the bounds, False for the worst.
        threads: the number of threads; None for all cores.

    """
    V, policy = blank(table.states, table.actions, horizon)
    pivot = np.zeros(table.pairs, np.int32)
    model = as_model(table, lo, rewards, optimistic)
    run(model, hi, evi.SweepArrays(V, policy, pivot), table.actions, threads)
    return Plan(policy, V)


def as_model(table: Table, lo: Floats, rewards: Rewards, optimistic: bool = True) -> Model:
    """Return the arrays of a planning problem without hi, for the kernels."""
    bonus = NO_BONUS if rewards.successor is None else rewards.successor
    sign = 1.0 if optimistic else -1.0
    return Model(*table.short_arrays, lo, rewards.pair, bonus, sign)


def run(
    model: Model,
    hi: Floats | None,
    out: evi.SweepArrays,
    actions: int,
    threads: int | None = 1,
    last: int | None = None,
) -> None:
    """Fill V and policy from step ``last`` down to 0, in parallel if the problem is large."""
    H, S = out.policy.shape
    t = H - 1 if last is None else last
    if threads == 1 or model.lo.size * H < MIN_PARALLEL:
        evi.sweep(t, False, actions, *model, hi, *out, None)
        return
    workers = threads or cores()
    shared = evi.Shared(
        np.zeros(S, np.int32),
        np.empty(len(out.pivot) + S),
        np.empty((2, S)),
        np.empty((H, min(S, BLOCKS * workers))),
        np.zeros(3 * APART * H + 1, np.int64),
    )
    np.multiply(out.V[t + 1], model.sign, out=shared.Z[(t + 1) % 2])
    in_threads(workers, lambda k: evi.sweep(t, k > 0, actions, *model, hi, *out, shared))


def start_value(
    table: Table, lo: Floats, hi: Floats, values: Floats, optimistic: bool = True
) -> float:
    """Return the largest or least mean of values[0] at the start, over the box of the start row.

    lo, hi: (entries,); values: (H+1, S).
    """
    sign = 1.0 if optimistic else -1.0
    return float(expectation(table.start, table.arrays, lo, hi, values[0], sign))


def optimistic_model(
    table: Table, lo: Floats, hi: Floats, rewards: Rewards, values: Floats
) -> Floats:
    """Return (H, entries) p~, the model between the bounds that attains values (H+1, S) of a plan.

    If rows have segments, p~ does not depend on the first axis. Entries of the start are 0.
    """
    H = len(values) - 1
    p = np.zeros((1 if table.segments > 1 else H, table.entries))
    evi.write_model(as_model(table, lo, rewards), hi, values, p)
    return np.broadcast_to(p, (H, table.entries))


class PhasePlanner:
    """Incremental FixedHorizonEVI(M_k), phase after phase.

    One phase of UCFH updates one pair, and so changes one row of M_k. A state is planned again at
    step t only if it has the row, or if V_{t+1} changed in one of its successors. The value of a
    state is a function of V_{t+1} and of its rows alone (`ucfh._kernels.interval`), so the result
    is bitwise the same as planning all states again.

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
        self._out = evi.SweepArrays(self.values, self.policy, np.zeros(table.pairs, np.int32))
        self._before: tuple[Ints, NDArray[np.int32]] | None = None

    def plan(self, lo: Floats, hi: Floats, rewards: Rewards, changed: int | None = None) -> None:
        """Update `values` and `policy` for bounds lo, hi (entries,).

        ``changed`` is the only row whose bounds or rewards differ from those of the last call;
        None: any may differ.
        """
        model = as_model(self._table, lo, rewards, self._optimistic)
        if changed is None:
            run(model, hi, self._out, self._table.actions)
        elif changed != self._table.start:
            if self._before is None:
                self._before = _preceding(self._table)
            actions = self._table.actions
            last = evi.resweep(changed, *self._before, actions, model, hi, self._out)
            if last >= 0:
                run(model, hi, self._out, actions, last=last)


def _preceding(table: Table) -> tuple[Ints, NDArray[np.int32]]:
    """Return the predecessors of each state at any step, as indptr (S+1,) and indices."""
    body = int(table.indptr[table.start])
    state = table.state[table.row_of_entry[:body] % table.pairs]
    pair = np.unique(table.indices[:body].astype(np.int64) * table.states + state)
    following, state = np.divmod(pair, table.states)
    begin = np.searchsorted(following, np.arange(table.states + 1))
    return begin.astype(np.int64), state.astype(np.int32)
