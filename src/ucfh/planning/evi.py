"""FixedHorizonEVI on arrays of bounds."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ucfh._kernels import bounds, evi
from ucfh._kernels.row_values import Model
from ucfh._utils import validation
from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.memory import check_memory
from ucfh._utils.validation import MAX_ROUNDING
from ucfh.exceptions import InputError, check_count
from ucfh.planning.optimistic import ALL_ACTIONS, ALL_IN_ORDER, NO_BONUS, run
from ucfh.planning.plan import Plan, blank

SPARSE = 3
"""A dense input with fewer than one positive entry in this many is converted to sparse rows."""


class _Rows(NamedTuple):
    """Rows (t*S + s)*A + a of entries.

    indptr (rows+1,); indices (entries,), empty if every row lists all states in order; lo, hi
    (entries,).
    """

    states: int
    actions: int
    segments: int
    indptr: Ints
    indices: NDArray[np.int32]
    lo: Floats
    hi: Floats

    def name_of(self, row: int) -> str:
        """Return the name of a row, for messages: "(s=0, a=1)"."""
        t, pair = divmod(row, self.states * self.actions)
        s, a = divmod(pair, self.actions)
        return f"(t={t}, s={s}, a={a})" if self.segments > 1 else f"(s={s}, a={a})"


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
    """Return the optimistic (or robust) plan of an interval MDP.

    Arrays of doubles, and of 32-bit indices, are not copied.

    Args:
        lo, hi: bounds of the transition probabilities: (S, A, S) or (H, S, A, S), or flat over
            compressed rows s*A + a or (t*S + s)*A + a given by ``indptr`` and ``indices``.
        rewards: in [0, 1], NumPy-broadcast to (H, S, A); (1 or H, S, A, S) where they depend on
            the next state. S is the size of the state axis, so with compressed rows r(s) is
            (S, 1).
        horizon: H.
        optimistic: True for the best model between the bounds, False for the worst.
        indptr, indices: compressed rows, as in SciPy.
        threads: the number of threads; None: all cores where that is faster. The result is the
            same.
        return_model: whether to return p~, the optimistic (or robust) model.

    Returns:
        The policy (H, S), values (H+1, S), and p~ if asked for: (H, S, A, S), or (H, entries)
        for compressed rows that do not depend on t, or (entries,) for those that do.

    Raises:
        InputError: if shapes do not agree, or no distribution lies between the bounds of a row.

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
    validation.check_truth("optimistic", optimistic)
    if threads is not None:
        check_count("threads", threads)
    low, high = validation.as_numbers("lo", lo), validation.as_numbers("hi", hi)
    if low.shape != high.shape:
        raise InputError(f"lo has shape {low.shape} and hi {high.shape}: they must agree")
    if indptr is None:
        rows = _dense(low, high, H)
    else:
        rows = _compressed(low, high, indptr, indices, rewards, H)
    positive = _check(rows, indices)
    r = validation.broadcast_rewards(rewards, rows.states, rows.actions, H)
    # rewards on impossible next states are ignored, even if they are nan
    if indptr is None and positive * (SPARSE if r.ndim == 3 else 1) < rows.lo.size:
        rows = _without_zeros(rows)
    pair, bonus = _rewards(r, rows)

    pairs, lines = rows.states * rows.actions, H if rows.segments == 1 else 1
    stride = pairs if rows.segments > 1 else 0
    if return_model:
        check_memory("p~", 8 * lines * rows.lo.size)
    V, policy = blank(rows.states, rows.actions, H)
    model = Model(
        first=np.arange(0, pairs + 1, rows.actions),
        indptr=rows.indptr,
        action=ALL_ACTIONS,
        indices=rows.indices,
        stride=stride,
        lo=rows.lo,
        r=pair,
        bonus=bonus,
        sign=1.0 if optimistic else -1.0,
    )
    out = evi.SweepArrays(V, policy, np.zeros(pairs, np.int32))
    run(model, rows.hi, out, rows.actions, threads)
    if not return_model:
        return Plan(policy, V)
    p = np.zeros((lines, rows.lo.size))
    evi.write_model(model, rows.hi, V, p)
    if indptr is None:
        return Plan(policy, V, _as_dense(p, rows, H))
    return Plan(policy, V, p if rows.segments == 1 else p[0])


def _dense(lo: Floats, hi: Floats, horizon: int) -> _Rows:
    """Return the rows of bounds (S, A, S) or (H, S, A, S)."""
    shape = lo.shape
    if len(shape) not in (3, 4) or 0 in shape or shape[-3] != shape[-1]:
        raise InputError(
            f"lo and hi have shape {shape}: they must be (S, A, S), (H, S, A, S), or flat, with "
            "indptr and indices"
        )
    if len(shape) == 4 and shape[0] != horizon:
        raise InputError(
            f"lo and hi have {shape[0]} segments and the horizon is {horizon}: they must agree"
        )
    S, A = shape[-1], shape[-2]
    begin = np.arange(0, lo.size + 1, S)
    return _Rows(
        S, A, shape[0] if len(shape) == 4 else 1, begin, ALL_IN_ORDER, lo.ravel(), hi.ravel()
    )


def _compressed(
    lo: Floats, hi: Floats, indptr: Any, indices: Any, rewards: Any, horizon: int
) -> _Rows:
    """Return the rows of flat bounds."""
    S, A = validation.shown_by(rewards, len(indptr) - 1)
    segments, begin, idx = validation.check_rows(indptr, indices, S, A, horizon)
    if lo.shape != idx.shape:
        raise InputError(
            f"lo and hi have shape {lo.shape} and indices {idx.shape}: they must agree"
        )
    # numbers that 32 bits cannot hold are not states, nor are the clipped ones
    small = idx if idx.dtype == np.int32 else np.clip(idx, -1, S).astype(np.int32)
    flat = (np.ascontiguousarray(array) for array in (small, lo, hi))
    return _Rows(S, A, segments, begin, *flat)


def _check(rows: _Rows, indices: Any) -> int:
    """Return the number of entries that may be positive; raise `InputError` for an invalid row."""
    error, row, e, positive = bounds.first_fault(
        rows.indptr, rows.indices, rows.lo, rows.hi, rows.states, MAX_ROUNDING
    )
    if error == bounds.SOUND:
        return int(positive)
    name, at = rows.name_of(row), slice(int(rows.indptr[row]), int(rows.indptr[row + 1]))
    successor = e - at.start if indices is None else np.asarray(indices)[e]
    if error == bounds.EMPTY:
        raise InputError(f"{name} has no successor: give it at least one")
    if error == bounds.OUTSIDE:
        raise InputError(
            f"successor {successor} of {name} is not a state: states are 0 to {rows.states - 1}"
        )
    if error == bounds.TWICE:
        raise InputError(f"{name} lists successor {successor} twice: merge the two")
    if error == bounds.DISORDER:
        raise InputError(
            f"the bounds of state {successor} after {name} are [{rows.lo[e]}, {rows.hi[e]}]: "
            "they must satisfy 0 <= lo <= hi <= 1"
        )
    raise InputError(
        f"no distribution lies between the bounds of {name}: lo sums to "
        f"{rows.lo[at].sum():.12g} and hi to {rows.hi[at].sum():.12g}; 1 must lie between them"
    )


def _without_zeros(rows: _Rows) -> _Rows:
    """Return the rows with the entries of positive hi only."""
    row, following = np.nonzero(rows.hi.reshape(-1, rows.states))
    begin = np.searchsorted(row, np.arange(len(rows.indptr)))
    at = row * rows.states + following
    return rows._replace(
        indptr=begin, indices=following.astype(np.int32), lo=rows.lo[at], hi=rows.hi[at]
    )


def _rewards(r: Floats, rows: _Rows) -> tuple[Floats, Floats]:
    """Return rewards (1 or H, S, A) or (1 or H, S, A, S) over the rows or their entries."""
    S, A = rows.states, rows.actions
    if r.ndim == 3:
        flat = r.reshape(len(r), S * A)
    else:
        by_row = np.broadcast_to(r, (max(rows.segments, len(r)), S, A, S)).reshape(-1, S * A, S)
        if rows.segments > 1:
            by_row = by_row.reshape(1, -1, S)
        row, following = _row_of_entry(rows)
        flat = by_row[:, row, following]
    if not flat.flags.carray:  # kernels are compiled anew for each kind of array
        flat = flat.copy()
    if not bounds.all_between(flat, 0.0, 1.0):
        validation.check_range(flat, lambda line, i: _position(line, i, r.ndim, rows))
    return (flat, NO_BONUS) if r.ndim == 3 else (np.zeros((1, S * A)), flat)


def _position(line: int, i: int, axes: int, rows: _Rows) -> str:
    """Return the position in the input array of the i-th reward of a line, for messages."""
    if axes == 3:
        return validation.place_of(line, *divmod(i, rows.actions))
    row, following = _row_of_entry(rows)
    t, pair = divmod(int(row[i]), rows.states * rows.actions)
    return validation.place_of(line + t, *divmod(pair, rows.actions), int(following[i]))


def _row_of_entry(rows: _Rows) -> tuple[Ints, NDArray[Any]]:
    """Return (entries,) the row and the successor of each entry."""
    row = np.repeat(np.arange(len(rows.indptr) - 1), np.diff(rows.indptr))
    if not rows.indices.size:
        return row, np.tile(np.arange(rows.states), len(rows.indptr) - 1)
    return row, rows.indices


def _as_dense(p: Floats, rows: _Rows, horizon: int) -> Floats:
    """Return p~ (1 or H, entries) of a dense input as (H, S, A, S)."""
    shape = (horizon, rows.states, rows.actions, rows.states)
    if not rows.indices.size:
        return p.reshape(shape)
    row, following = _row_of_entry(rows)
    out = np.zeros((len(p), len(rows.indptr) - 1, rows.states))
    out[:, row, following] = p
    return out.reshape(shape)
