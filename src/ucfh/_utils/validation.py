"""Validation of arguments: arrays in any accepted form become flat arrays over a table.

Every error names the invalid entry and the remedy.
"""

from __future__ import annotations

import numbers
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ucfh._utils.arrays import Bools, Floats, Ints
from ucfh._utils.memory import check_memory
from ucfh.exceptions import InputError, check_type

if TYPE_CHECKING:
    from ucfh.transitions import Table

MAX_ROUNDING = 1e-9
"""Largest error of a sum of probabilities that is renormalized."""


def as_numbers(name: str, values: Any) -> Floats:
    """Return ``values`` as floats; raise if they are not numbers."""
    if isinstance(values, np.ndarray) and values.dtype == np.float64:
        return values
    try:
        given = np.asarray(values)
        if np.iscomplexobj(given):
            raise InputError(f"{name} must be real numbers: they are complex")
        return np.asarray(given, np.float64)
    except InputError:
        raise
    except (TypeError, ValueError):
        raise InputError(f"{name} must be an array of numbers, its lines of one length") from None


def as_array(name: str, values: Any) -> NDArray[Any]:
    """Return ``values`` as an array; raise if they are not one."""
    try:
        return np.asarray(values)
    except ValueError:
        raise InputError(f"{name} must be an array: its lines differ in length") from None


def check_truth(name: str, value: bool) -> None:
    """Raise unless ``value`` is True or False: a string such as "no" would count as True."""
    check_type(name, value, bool | np.bool_, "True or False")


def check_available(available: Any, states: int, actions: int) -> Bools:
    """(S, A) the available actions of each state."""
    check_memory(f"a problem of {states} states and {actions} actions", 50 * states * actions)
    if available is None:
        return np.ones((states, actions), bool)
    mask = as_array("available", available)
    if mask.shape != (states, actions) or mask.dtype != bool:
        raise InputError(
            f"available has shape {mask.shape} and type {mask.dtype}: it must be boolean, "
            f"(S, A) = {(states, actions)}"
        )
    return np.asarray(mask, bool)


def check_states(name: str, given: Sequence[int], states: int) -> list[int]:
    """Return distinct states, ascending; raise for unknown ones."""
    if not isinstance(given, Iterable):
        raise InputError(f"{name} = {given!r} must be a list of states, such as [{states - 1}]")
    for s in given:
        if isinstance(s, bool) or not (isinstance(s, numbers.Real) and s in range(states)):
            raise InputError(f"{name} state {s} does not exist: states are 0 to {states - 1}")
    return sorted({int(s) for s in given})


def check_initial(initial: Any, states: int) -> Floats:
    """(S,) the start distribution, from a state or a distribution."""
    given = as_numbers("initial", initial)
    if given.ndim == 0:
        (s,) = check_states("initial", [initial], states)
        return np.asarray(np.arange(states) == s, np.float64)
    if given.shape != (states,):
        raise InputError(
            f"initial has shape {given.shape}: it must be a state or a distribution (S,) = "
            f"{(states,)}"
        )
    bad = np.flatnonzero(~(given >= 0))
    if bad.size:
        raise InputError(f"initial[{bad[0]}] = {given[bad[0]]}: probabilities must be at least 0")
    # summed and checked like the start row in `check_probabilities`, so that both agree
    start = given[given > 0]
    total = np.add.reduceat(start, [0])[0] if start.size else 0.0
    if abs(total - 1) > MAX_ROUNDING:
        raise InputError(f"initial sums to {total:.12g}: it must sum to 1 (divide by its sum)")
    return given / total if _is_off(total, start.size) else given.copy()


def check_names(kind: str, names: Sequence[str] | None, count: int) -> tuple[str, ...] | None:
    """Return ``count`` distinct labels; else raise."""
    if names is None:
        return None
    if not isinstance(names, Iterable):
        raise InputError(f"{kind}_names = {names!r} must be a list of {count} names")
    labels = tuple(str(name) for name in names)
    if len(labels) != count:
        raise InputError(f"{len(labels)} {kind} names for {count} {kind}s: give one for each")
    if len(set(labels)) != count:
        duplicate = next(name for name in labels if labels.count(name) > 1)
        raise InputError(f"{kind} name {duplicate!r} is given twice: names must differ")
    return labels


def check_rows(
    indptr: Any, indices: Any, states: int, actions: int, horizon: int
) -> tuple[int, Ints, NDArray[Any]]:
    """Return (segments, indptr, successor of each entry) of compressed rows."""
    ptr, idx = as_array("indptr", indptr), as_array("indices", indices)
    for name, array in (("indptr", ptr), ("indices", idx)):
        if array.ndim != 1 or array.dtype.kind not in "iu":
            raise InputError(f"{name} must be a 1-d array of integers")
    rows = len(ptr) - 1
    if rows not in (states * actions, horizon * states * actions):
        raise InputError(
            f"indptr describes {rows} rows: there must be S*A = {states * actions} "
            f"(rows s*A + a), or H*S*A = {horizon * states * actions} (rows (t*S + s)*A + a)"
        )
    ptr = ptr.astype(np.int64, copy=False)
    falls = bool((ptr[1:] < ptr[:-1]).any())
    if ptr[0] != 0 or ptr[-1] != len(idx) or falls:
        raise InputError(
            f"indptr must rise from 0 to len(indices) = {len(idx)}: it runs from {ptr[0]} to "
            f"{ptr[-1]}" + (" and falls in between" if falls else "")
        )
    return rows // (states * actions), ptr, idx


def check_csr(
    indptr: Any, indices: Any, states: int, actions: int, horizon: int
) -> tuple[int, Ints, Ints]:
    """Return (segments, rectangular row, successor) of each entry of compressed rows."""
    segments, ptr, idx = check_rows(indptr, indices, states, actions, horizon)
    return segments, np.repeat(np.arange(len(ptr) - 1), np.diff(ptr)), idx.astype(np.int64)


def check_successors(
    successors: Any, states: int, actions: int, horizon: int
) -> tuple[int, Ints, Ints]:
    """Return (segments, rectangular row, successor) of entries in a mask or (indptr, indices)."""
    if isinstance(successors, tuple) and len(successors) == 2:
        return check_csr(*successors, states, actions, horizon)
    mask = as_array("successors", successors)
    shapes = ((states, actions, states), (horizon, states, actions, states))
    if mask.dtype != bool or mask.shape not in shapes:
        raise InputError(
            f"successors must be (indptr, indices) or a boolean mask of shape {shapes[0]} or "
            f"{shapes[1]}: got {mask.dtype} of shape {mask.shape}"
        )
    rows, indices = np.nonzero(mask.reshape(-1, states))
    return (1 if mask.ndim == 3 else horizon), rows, indices


def shown_by(rewards: Any, rows: int, available: Any = None) -> tuple[int, int]:
    """Return (S, A) of compressed rows, from the shape of the rewards."""
    r = as_numbers("rewards", rewards)
    if r.ndim < 2 or 0 in r.shape:
        raise InputError(
            "with transitions as (indptr, indices, p), rewards must show the number of states: "
            f"r(s) is (S, 1), r(s, a) is (S, A); got shape {r.shape}"
        )
    S, A = (r.shape[-3], r.shape[-2]) if r.ndim == 4 else (r.shape[-2], r.shape[-1])
    if available is not None:
        mask = as_array("available", available)
        if mask.ndim == 0 or mask.size == 0:
            raise InputError(f"available has shape {mask.shape}: it must be boolean, (S, A)")
        A = mask.shape[-1]
    elif A == 1:
        A = max(1, rows // S)
    return S, A


def check_transitions(
    transitions: Any, rewards: Any, horizon: int, available: Any = None
) -> tuple[int, int, int, Ints, Ints, Floats]:
    """Return S, A, segments, and (rectangular row, successor, probability) of each entry."""
    if isinstance(transitions, tuple) and len(transitions) == 3:
        ptr = as_array("indptr", transitions[0])
        S, A = shown_by(rewards, ptr.size - 1, available)
        segments, rows, indices = check_csr(*transitions[:2], S, A, horizon)
        given = as_numbers("transitions", transitions[2])
        if given.shape != indices.shape:
            raise InputError(
                f"p has shape {given.shape} and indices {indices.shape}: give one probability for "
                "each index"
            )
        return S, A, segments, rows, indices, given
    p = as_numbers("transitions", transitions)
    if p.ndim not in (3, 4) or 0 in p.shape or p.shape[-3] != p.shape[-1]:
        raise InputError(
            f"transitions have shape {p.shape}: they must be (S, A, S), (H, S, A, S), or a "
            "tuple (indptr, indices, p)"
        )
    if p.ndim == 4 and p.shape[0] != horizon:
        raise InputError(
            f"transitions have {p.shape[0]} segments and the horizon is {horizon}: they must agree"
        )
    S, A = p.shape[-3], p.shape[-2]
    flat = p.reshape(-1, S)
    # a row of zeros keeps an entry, so that the error has its sum
    rows, indices = np.nonzero((flat != 0) | ((flat.sum(1) == 0)[:, None] & (np.arange(S) == 0)))
    return S, A, p.shape[0] if p.ndim == 4 else 1, rows, indices, flat[rows, indices]


def check_probabilities(
    table: Table,
    p: Floats,
    name_state: Callable[[int], str] = "state {}".format,
    name_after: Callable[[int], str] | None = None,
) -> Floats:
    """(entries,) probabilities, renormalized where sums are off by rounding.

    Args:
        table: the transition table.
        p: (entries,) probabilities.
        name_state: names a state in messages, such as "state 2".
        name_after: names the place of a row's successors, such as "after (s=0, a=1)".

    Raises:
        InputError: for the first invalid row.

    """
    after = name_after or (lambda row: f"after {table.name_of(row)}")
    bad = np.flatnonzero(~((p >= 0) & (p <= 1 + MAX_ROUNDING)))
    if bad.size:
        e = bad[0]
        raise InputError(
            f"the probability of {name_state(int(table.indices[e]))} "
            f"{after(int(table.row_of_entry[e]))} is {p[e]}: it must be in [0, 1]"
        )
    total = np.add.reduceat(p, table.indptr[:-1])
    off = np.flatnonzero(np.abs(total - 1) > MAX_ROUNDING)
    if off.size:
        raise InputError(
            f"the probabilities {after(int(off[0]))} sum to {total[off[0]]:.12g}: "
            "they must sum to 1 (divide the row by its sum)"
        )
    total = np.where(_is_off(total, table.lengths), total, 1.0)
    return np.asarray(p / np.repeat(total, table.lengths), np.float64)


def _is_off(total: Any, terms: Any) -> Any:
    """Return True if a sum of ``terms`` probabilities differs from 1 by more than its rounding.

    Only such rows are divided by their sum, so that validation is idempotent.
    """
    return np.abs(total - 1) > terms * 2.0**-51


def broadcast_rewards(rewards: Any, states: int, actions: int, horizon: int) -> Floats:
    """Return rewards as (1 or H, S, A), or (1 or H, S, A, S) if they depend on the next state."""
    r = as_numbers("rewards", rewards)
    S, A, H = states, actions, horizon
    shape = (r.shape[0] if r.ndim >= 3 else 1, S, A, S)[: 4 if r.ndim == 4 else 3]
    try:
        if r.ndim == 1 or r.ndim > 4 or shape[0] not in (1, H):
            raise ValueError
        return r.reshape(shape) if r.shape == (S, A) else np.broadcast_to(r, shape)
    except ValueError:
        raise InputError(
            f"rewards have shape {r.shape}: they must broadcast to (H, S, A) = {(H, S, A)}, so "
            f"r(s) is (S, 1) = {(S, 1)}, or have 4 axes (1 or H, S, A, S)"
        ) from None


def check_rewards(
    rewards: Any, table: Table, horizon: int, terminal: Sequence[int]
) -> tuple[Floats, Floats | None]:
    """Return pair rewards (1 or H, R), and successor rewards (1 or H, entries) or None."""
    r = broadcast_rewards(rewards, table.states, table.actions, horizon)
    segments = len(r)
    ends = np.isin(table.state, list(terminal))
    if r.ndim == 3:
        pair = np.where(ends, 0.0, r[:, table.state, table.action])
        check_range(pair, lambda t, k: place_of(t, table.state[k], table.action[k]))
        return pair, None
    body = int(table.indptr[table.start])
    segment, k = np.divmod(table.row_of_entry[:body], table.pairs)
    s, a, following = table.state[k], table.action[k], table.indices[:body]
    t: Any = np.arange(segments)[:, None]
    if table.segments > 1:
        t = np.minimum(segment, segments - 1)[None, :]
    successor = np.zeros((len(t), table.entries))
    successor[:, :body] = np.where(ends[k], 0.0, r[t, s, a, following])
    check_range(
        successor[:, :body],
        lambda line, e: place_of(
            segment[e] if table.segments > 1 else line, s[e], a[e], following[e]
        ),
    )
    return np.zeros((1, table.pairs)), successor


def place_of(*indices: int) -> str:
    """Name the place of a reward in the user's array, for messages."""
    names = zip(("t", "s", "a", "s'"), indices, strict=False)
    return f"at ({', '.join(f'{name}={i}' for name, i in names)})"


def check_range(r: Floats, name: Callable[[int, int], str], remedy: str | None = None) -> None:
    """Raise unless all rewards (lines, n) are in [0, 1].

    Args:
        r: (lines, n) rewards.
        name: names the place of (line, index), such as "at (t=0, s=1, a=2)".
        remedy: the remedy in messages; None: to rescale the array.

    """
    bad = np.argwhere(~((r >= 0) & (r <= 1)))
    if not bad.size:
        return
    i, j = bad[0].tolist()
    place, value = name(i, j), r[i, j]
    if not np.isfinite(r).all():
        raise InputError(f"the reward {place} is {value}: rewards must be numbers in [0, 1]")
    if remedy is not None:
        raise InputError(f"the reward {place} is {value:.6g}: rewards must be in [0, 1]; {remedy}")
    shift = _round_up(max(0.0, -float(r.min())))
    span = _round_up(shift + max(1.0, float(r.max())))
    shifted = f"(rewards + {shift:.6g})" if shift > 0 else "rewards"
    raise InputError(
        f"the reward {place} is {value:.6g}, outside [0, 1]: pass {shifted} / {span:.6g}, and "
        f"epsilon / {span:.6g}, which asks for the same accuracy"
    )


def _round_up(x: float) -> float:
    """Return the least number of six digits that is at least x >= 0."""
    y = float(f"{x:.6g}")
    return y if y >= x else float(f"{y * (1 + 1e-5):.6g}")
