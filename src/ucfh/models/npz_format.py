"""Models as flat arrays, for .npz files: those of the successor table, as they are in memory.

    header                      uint8, the header as a JSON text
    first, action               the pairs (s, a), R in number; see `ucfh.table`
    indptr, indices, p          the entries of each row; the last row is the start
    initial                     (S,) the start distribution, whose nonzero states are that row
    reward                      (1 or H, R) the reward of each pair
    reward_next                 (0, 1 or H, entries) added to it, by next state

All arrays are always there: an archive that lost one must not pass for a model without it. A
reader builds the table anew from the entries, as for any other model; where the arrays in the file
differ from it, the file is refused. The start is in the file twice, as the last row of p and as
initial: the two must agree up to rounding, and each is kept as it is.
"""

from __future__ import annotations

import json
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh import files
from ucfh.errors import InputError
from ucfh.files import AnyPath, Object, naming
from ucfh.models.building import build_mdp, build_transitions, check_size
from ucfh.models.header import Header, read_header, write_header
from ucfh.problem import MDP
from ucfh.table import MAX_ROUNDING, Floats, Ints, Rewards, Table

ARRAYS = (
    *("header", "first", "action", "indptr", "indices", "p", "initial"),
    *("reward", "reward_next"),
)


def to_arrays(mdp: MDP) -> dict[str, Any]:
    """The arrays that describe a model, by name."""
    table = mdp.table
    header = np.frombuffer(json.dumps(write_header(mdp)).encode(), np.uint8)
    after = mdp.rewards.successor
    after = np.zeros((0, table.entries)) if after is None else after
    numbers = (table.first, table.action, table.indptr, table.indices, mdp.p, mdp.initial)
    return dict(zip(ARRAYS, (header, *numbers, mdp.rewards.pair, after), strict=True))


def load_arrays(path: AnyPath) -> Object:
    """All arrays in a file, whatever they are; pickled objects are refused."""
    with files.open_bytes(path) as file:
        try:
            archive = np.load(file, allow_pickle=False)
            return Object((name, np.asarray(archive[name])) for name in archive.files)
        except Exception as error:  # a damaged archive raises whatever its layers raise
            raise InputError(f"{path}: damaged, or not an .npz file: write it again") from error


def from_arrays(arrays: Object) -> MDP:
    """The model that arrays describe."""
    files.check_keys(arrays, ARRAYS)
    with naming("header"):
        head = read_header(files.parse_json(_array(arrays, "header", np.uint8, None).tobytes()))
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
            f'"indptr" describes {rows + 1} rows: there must be {R}, or {H} times as many, and '
            "one for the start"
        )
    check_size(head, R)
    pair = np.repeat(np.arange(S), np.diff(first)) * A + action
    available = np.zeros((S, A), bool)
    available.flat[pair] = True
    body = int(indptr[-2])
    stage, k = np.divmod(np.repeat(np.arange(rows), np.diff(indptr[:-1])), R)
    given = _array(arrays, "p", np.float64, len(indices))
    table, _, p, initial = build_transitions(
        head,
        rows // R,
        available,
        stage * (S * A) + pair[k],
        indices[:body].astype(np.int64),
        given[:body],
        _array(arrays, "initial", np.float64, S),
    )
    for name in ("first", "action", "indptr", "indices"):
        if not np.array_equal(getattr(table, name), arrays[name]):
            raise InputError(
                f'"{name}" is out of order, or disagrees with "initial" or with terminal states'
            )
    if not np.abs(p - given).max() <= 2 * MAX_ROUNDING:
        raise InputError('"p" disagrees with "initial" or with terminal states')
    p[body:] = given[body:]
    return build_mdp(head, table, p, initial, _read_rewards(arrays, head, table))


def _read_rewards(arrays: Object, head: Header, table: Table) -> Rewards:
    reward = _lines(arrays, "reward", table.pairs, 1, head.horizon)
    after = _lines(arrays, "reward_next", table.entries, 0, 1, head.horizon)
    ends = np.isin(table.state, [*head.terminal])
    pair = table.row_of_entry[: table.indptr[table.start]] % table.pairs
    if reward[:, ends].any() or after[:, : len(pair)][:, ends[pair]].any():
        raise InputError('"reward" and "reward_next" must be 0 where the state is terminal')
    return Rewards(reward, after if len(after) else None)


def _array(arrays: Object, name: str, dtype: Any, *shape: int | None) -> NDArray[Any]:
    """One of the arrays; None in a shape is any length."""
    found: NDArray[Any] = arrays[name]
    wanted = [n if m is None else m for n, m in zip(found.shape, shape, strict=False)]
    if found.dtype != dtype or found.ndim != len(shape) or list(found.shape) != wanted:
        lengths = ", ".join("any" if m is None else str(m) for m in shape)
        raise InputError(
            f'"{name}" is {found.dtype} of shape {found.shape}: it must be {np.dtype(dtype)} of '
            f"shape ({lengths})"
        )
    return found


def _offsets(arrays: Object, name: str, end: int) -> Ints:
    """An array that rises from 0 to ``end``."""
    found: Ints = _array(arrays, name, np.int64, None)
    if len(found) < 2 or found[0] != 0 or found[-1] != end or (np.diff(found) < 0).any():
        raise InputError(f'"{name}" must rise from 0 to {end}')
    return found


def _lines(arrays: Object, name: str, width: int, *lines: int) -> Floats:
    """An array (lines, width), where several numbers of lines are right."""
    found: Floats = _array(arrays, name, np.float64, None, width)
    if len(found) not in lines:
        wanted = " or ".join(map(str, lines))
        raise InputError(f'"{name}" has {len(found)} lines: it must have {wanted}')
    return found
