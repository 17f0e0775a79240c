"""Models as the flat arrays of their transition table, for .npz files.

    header                      uint8, the header in JSON
    first, action               the R pairs (s, a); see `ucfh.transitions`
    indptr, indices             the entries of each row; the last row is the start
    p                           their probabilities; or lo and hi for intervals
    initial                     (S,) the start distribution, whose nonzero states are that row
    reward                      (1 or H, R) the reward of each pair
    reward_next                 (0, 1 or H, entries) added to it, by next state

All arrays are required, so that an archive with a missing one is rejected. The reader validates the
arrays and uses them without a copy. The start is in the file twice, as the last row of p and as
initial: the two must agree up to rounding, and each is kept.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh._utils import files, validation
from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.files import JsonObject, naming
from ucfh._utils.validation import MAX_ROUNDING
from ucfh.exceptions import InputError
from ucfh.io.building import Header, ModelContent, check_rows, check_size, read_header, write_header
from ucfh.transitions import Rewards, Table

ARRAYS = ("header", "first", "action", "indptr", "indices", "initial", "reward", "reward_next")
KNOWN, BOUNDS = ("p",), ("lo", "hi")


def to_arrays(content: ModelContent) -> dict[str, Any]:
    """Return the arrays of a model, by name."""
    table = content.table
    header = np.frombuffer(json.dumps(write_header(content.head)).encode(), np.uint8)
    after = content.rewards.successor
    after = np.zeros((0, table.entries)) if after is None else after
    numbers = (table.first, table.action, table.indptr, table.indices, content.initial)
    arrays = dict(zip(ARRAYS, (header, *numbers, content.rewards.pair, after), strict=True))
    if content.lo is content.hi:
        return arrays | {"p": content.lo}
    return arrays | {"lo": content.lo, "hi": content.hi}


def from_arrays(arrays: JsonObject) -> ModelContent:
    """Return the content of a file's arrays."""
    if files.RUN_FORMAT in str(arrays.get("head")):
        raise InputError("a saved run, not a model: pass the problem of the run")
    probabilities = BOUNDS if "p" not in arrays and ("lo" in arrays or "hi" in arrays) else KNOWN
    files.check_keys(arrays, (*ARRAYS, *probabilities))
    with naming("header"):
        head = read_header(files.parse_json(_array(arrays, "header", np.uint8, None).tobytes()))
    table = _read_table(arrays, head)
    initial = _read_start(arrays, table)
    given = [_array(arrays, name, np.float64, table.entries) for name in probabilities]
    lo, hi = check_rows(head, table, given[0], given[-1])
    start = table.entries_of(table.start)
    for name, bound in zip(probabilities, given, strict=True):
        if not np.abs(bound[start] - initial[table.indices[start]]).max() <= 2 * MAX_ROUNDING:
            raise InputError(f'the start in "{name}" disagrees with "initial"')
        if not (bound[_ending(table, head)] == 1).all():
            raise InputError(f'"{name}" must be 1 where the state is terminal')
    lo[start], hi[start] = given[0][start], given[-1][start]
    return ModelContent(head, table, lo, hi, initial, _read_rewards(arrays, head, table))


def _read_table(arrays: JsonObject, head: Header) -> Table:
    """Return the transition table, if the arrays are valid."""
    S, A, H = head.states.count, head.actions.count, head.horizon
    action = _array(arrays, "action", np.int64, None)
    R = len(action)
    first = _offsets(arrays, "first", R)
    indices = _array(arrays, "indices", np.int32, None)
    indptr = _offsets(arrays, "indptr", len(indices))
    rows = len(indptr) - 2
    if len(first) != S + 1 or not (np.diff(first) > 0).all():
        raise InputError(f'"first" must have {S + 1} numbers, each larger than the one before')
    if not ((action >= 0) & (action < A)).all():
        raise InputError(f'"action" must be between 0 and {A - 1}')
    if rows not in (R, H * R):
        raise InputError(
            f'"indptr" describes {rows + 1} rows: there must be {R}, or {H} times that many, and '
            "one for the start"
        )
    check_size(head, R)
    table = Table(S, A, rows // R, first, action, indptr, indices)
    if not _ascends(action, first):
        raise InputError('"action" is out of order: it must ascend within each state')
    empty = np.flatnonzero(table.lengths == 0)
    if empty.size:
        raise InputError(f"there is no successor {head.after(table, int(empty[0]))}: give one")
    outside = np.flatnonzero((indices < 0) | (indices >= S))
    if outside.size:
        row = int(np.searchsorted(indptr, outside[0], side="right")) - 1
        raise InputError(
            f"successor {indices[outside[0]]} {head.after(table, row)} is not a state: states "
            f"are 0 to {S - 1}"
        )
    if not _ascends(indices, indptr):
        raise InputError('"indices" is out of order: it must ascend within each row')
    ends = [*head.terminal]
    loops = _ending(table, head)
    if not (
        (np.diff(first)[ends] == 1).all()
        and (action[first[ends]] == 0).all()
        and np.array_equal(table.lengths[_ending_rows(table, head)], np.ones(len(loops)))
        and np.array_equal(indices[loops], np.tile(ends, table.segments))
    ):
        raise InputError("a terminal state must have one pair, action 0, that stays there")
    return table


def _ending_rows(table: Table, head: Header) -> Ints:
    """Return the table row of each terminal state, in every segment."""
    rows = np.arange(table.segments)[:, None] * table.pairs + table.first[[*head.terminal]]
    return np.asarray(rows.ravel(), np.int64)


def _ending(table: Table, head: Header) -> Ints:
    """Return the first, and only, entry of each terminal row."""
    return table.indptr[_ending_rows(table, head)]


def _ascends(values: NDArray[Any], offsets: Ints) -> bool:
    """Return True if values rise strictly between successive offsets."""
    rises = np.diff(values) > 0
    rises[offsets[1:-1] - 1] = True
    return bool(rises.all())


def _read_start(arrays: JsonObject, table: Table) -> Floats:
    given = _array(arrays, "initial", np.float64, table.states)
    initial = validation.check_initial(given, table.states)
    at = table.entries_of(table.start)
    if not np.array_equal(np.flatnonzero(initial), table.indices[at]):
        raise InputError('the last row of "indices" disagrees with "initial"')
    return initial


def _read_rewards(arrays: JsonObject, head: Header, table: Table) -> Rewards:
    reward = _lines(arrays, "reward", table.pairs, 1, head.horizon)
    after = _lines(arrays, "reward_next", table.entries, 0, 1, head.horizon)
    pair = table.first[[*head.terminal]]
    if reward[:, pair].any() or after[:, _ending(table, head)].any():
        raise InputError('"reward" and "reward_next" must be 0 where the state is terminal')
    return Rewards(reward, after if len(after) else None)


def _array(arrays: JsonObject, name: str, dtype: Any, *shape: int | None) -> NDArray[Any]:
    """Return an array after checks of type and shape; None in a shape is any length."""
    array: NDArray[Any] = arrays[name]
    expected = [n if m is None else m for n, m in zip(array.shape, shape, strict=False)]
    if array.dtype != dtype or array.ndim != len(shape) or list(array.shape) != expected:
        lengths = ", ".join("any" if m is None else str(m) for m in shape)
        raise InputError(
            f'"{name}" is {array.dtype} of shape {array.shape}: it must be {np.dtype(dtype)} of '
            f"shape ({lengths})"
        )
    return array


def _offsets(arrays: JsonObject, name: str, end: int) -> Ints:
    """Return an array that rises from 0 to ``end``; else raise."""
    array: Ints = _array(arrays, name, np.int64, None)
    if len(array) < 2 or array[0] != 0 or array[-1] != end or (np.diff(array) < 0).any():
        raise InputError(f'"{name}" must rise from 0 to {end}')
    return array


def _lines(arrays: JsonObject, name: str, width: int, *lines: int) -> Floats:
    """Return an array (lines, width) with one of the given numbers of lines; else raise."""
    array: Floats = _array(arrays, name, np.float64, None, width)
    if len(array) not in lines:
        expected = " or ".join(map(str, lines))
        raise InputError(f'"{name}" has {len(array)} lines: it must have {expected}')
    return array
