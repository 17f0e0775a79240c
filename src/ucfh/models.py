"""MDPs in files: .json, for people, and .npz, for large models; docs/formats.md describes both.

Writing and reading back gives the same model to the last bit. So a row whose probabilities sum
to 1 up to the rounding of the sum itself is kept as it is read, not divided by its sum again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ucfh import files, validation
from ucfh.errors import InputError, unknown
from ucfh.files import AnyPath, Labels, Object, naming
from ucfh.problem import MDP, Problem
from ucfh.table import MAX_ROUNDING, Bools, Floats, Ints, Rewards, Table, build

FORMAT, VERSION = "ucfh-model", 1
ENDINGS = (".json", ".npz")
HEADER = ("format", "version", "horizon", "states", "actions")
EXTRAS = ("noise", "note", "terminal")
ARRAYS = (
    *("header", "first", "action", "indptr", "indices", "p", "initial"),
    *("reward", "reward_next"),
)


def write_model(mdp: MDP, path: AnyPath, force: bool = False) -> None:
    """Write an MDP to a file, by its ending .json or .npz.

    Args:
        mdp: the model.
        path: where to; its directory must exist.
        force: whether to overwrite a file that exists.

    """
    if files.check_ending(path, ENDINGS) == ".json":
        files.write_text(path, _to_json(mdp), force)
        return
    with files.replacing(path, force) as temporary, temporary.open("wb") as file:
        np.savez(file, **_to_arrays(mdp))


def read_model(path: AnyPath) -> MDP:
    """Read an MDP from a file, by its ending .json or .npz.

    Whatever else the file may hold is an `InputError` that names the entry at fault.
    """
    if files.check_ending(path, ENDINGS) == ".json":
        text = files.read_text(path)
        with naming(path):
            return _from_json(files.parse_json(text))
    arrays = _load(path)
    with naming(path):
        return _from_arrays(arrays)


@dataclass(frozen=True)
class _Header:
    """What files of both kinds say in the same words."""

    horizon: int
    states: Labels
    actions: Labels
    noise: str | None
    note: str
    terminal: frozenset[int]

    def pair(self, s: int, a: int, t: int | None = None) -> str:
        """A pair in words, for messages."""
        time = "" if t is None else f"t={t}, "
        return f"({time}{self.states.words(s)}, {self.actions.words(a)})"

    def after(self, table: Table, row: int) -> str:
        """Where the successors of a row of a table come, in words."""
        if row == table.start:
            return "at the start"
        t, s, a = table.pair_of(row)
        return f"after {self.pair(s, a, t if table.stages > 1 else None)}"


def _write_header(mdp: MDP) -> dict[str, Any]:
    labels = states, _ = files.labels_of(mdp.problem)
    S, A = (list(x.names) if x.names else x.count for x in labels)
    header: dict[str, Any] = dict(zip(HEADER, (FORMAT, VERSION, mdp.horizon, S, A), strict=True))
    if mdp.noise is not None:
        header["noise"] = mdp.noise
    if mdp.note:
        header["note"] = mdp.note
    if mdp.problem.terminal:
        header["terminal"] = [states.label(s) for s in mdp.problem.terminal]
    return header


def _read_header(found: Object) -> _Header:
    horizon = found["horizon"]
    if not files.is_count(horizon):
        raise InputError(f'"horizon" is {files.show(horizon)}: it must be a number of steps')
    states, actions = (_read_labels(kind, found[f"{kind}s"]) for kind in ("state", "action"))
    noise, note = found.get("noise"), found.get("note", "")
    if noise is not None and noise != "bernoulli":
        raise unknown(
            "noise", noise if isinstance(noise, str) else files.show(noise), ["bernoulli"]
        )
    if not isinstance(note, str):
        raise InputError(f'"note" is {files.show(note)}: it must be text')
    terminal = found.get("terminal", [])
    if not isinstance(terminal, list):
        raise InputError(f'"terminal" is {files.show(terminal)}: it must be a list of states')
    with naming("terminal"):
        ends = frozenset(states.find(s) for s in terminal)
    return _Header(horizon, states, actions, noise, note, ends)


def _read_labels(kind: str, given: Any) -> Labels:
    if files.is_count(given):
        return Labels(kind, None, given)
    if not isinstance(given, list) or not given or not all(isinstance(x, str) for x in given):
        raise InputError(
            f'"{kind}s" is {files.show(given)}: it must be how many there are, or a list of '
            "their names"
        )
    return Labels(kind, validation.check_names(kind, given, len(given)), len(given))


def _to_json(mdp: MDP) -> str:
    """One line for each key of the header and for each row of the transitions."""

    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    table, (states, _) = mdp.table, files.labels_of(mdp.problem)
    header = _write_header(mdp)
    start = table.indices[table.entries_of(table.start)].tolist()
    header["initial"] = _write_distribution(states, start, mdp.initial[start].tolist())
    lines = "".join(f"  {text(key)}: {text(value)},\n" for key, value in header.items())
    rows = ",\n".join(f"    {text(row)}" for row in _json_rows(mdp))
    return f'{{\n{lines}  "transitions": [\n{rows}\n  ]\n}}\n'


def _json_rows(mdp: MDP) -> Iterator[dict[str, Any]]:
    table, rewards = mdp.table, mdp.rewards
    states, actions = files.labels_of(mdp.problem)
    ends = set(mdp.problem.terminal)
    for row in range(table.start):
        t, s, a = table.pair_of(row)
        if s in ends:
            continue
        at = table.entries_of(row)
        following = table.indices[at].tolist()
        line: dict[str, Any] = {"t": t} if table.stages > 1 else {}
        line |= {"state": states.label(s), "action": actions.label(a)}
        line["next"] = _write_distribution(states, following, mdp.p[at].tolist())
        reward = _lines_at(table, rewards.pair, t)[:, row % table.pairs]
        line["reward"] = _write_reward(reward)
        if rewards.successor is not None:
            after = _lines_at(table, rewards.successor, t)[:, at]
            if after.any() or not reward.any():
                # a row of a file has rewards of one kind, so the two parts are added up
                total = after + reward[:, None] if reward.any() else after
                line["reward"] = {
                    str(states.label(s)): _write_reward(total[:, j])
                    for j, s in enumerate(following)
                }
        yield line


def _lines_at(table: Table, lines: Floats, t: int) -> Floats:
    """Those of (1 or H, n) rewards that a row has: its own where it is of one stage, else all."""
    return lines[min(t, len(lines) - 1)][None] if table.stages > 1 else lines


def _write_reward(r: Floats) -> Any:
    return float(r[0]) if len(r) == 1 else r.tolist()


def _write_distribution(states: Labels, following: list[int], p: list[float]) -> Any:
    """The label of a state that is certain, else an object of probabilities."""
    if p == [1.0]:
        return states.label(following[0])
    return {str(states.label(s)): x for s, x in zip(following, p, strict=True)}


def _read_distribution(states: Labels, given: Any) -> dict[int, float]:
    if not isinstance(given, Object):
        return {states.find(given): 1.0}
    return states.read_object(given, files.check_number)


@dataclass(frozen=True)
class _Row:
    """One of the transitions in a .json file; a reward is a list of one number, or of H."""

    t: int
    s: int
    a: int
    next: dict[int, float]
    reward: list[float]
    reward_next: dict[int, list[float]] | None


def _from_json(document: Any) -> MDP:
    files.check_format(document, FORMAT, VERSION)
    head = _read_header(files.check_keys(document, (*HEADER, "initial", "transitions"), EXTRAS))
    with naming("initial"):
        begin = _read_distribution(head.states, document["initial"])
    listed = document["transitions"]
    if not isinstance(listed, list):
        raise InputError(f'"transitions" is {files.show(listed)}: it must be a list of rows')
    staged = bool(listed) and isinstance(listed[0], dict) and "t" in listed[0]
    rows: list[_Row] = []
    try:
        for item in listed:
            rows.append(_read_row(head, item, staged))
    except InputError as error:
        raise InputError(f"transitions[{len(rows)}]: {error}") from None
    stages = head.horizon if staged else 1
    _check_rows(head, rows, stages)

    S, A = head.states.count, head.actions.count
    _check_size(head, len(rows))
    pair = np.array([row.s * A + row.a for row in rows], np.int64)
    stage = np.array([row.t for row in rows], np.int64)
    available = np.zeros((S, A), bool)
    available.flat[pair] = True
    initial = np.zeros(S)
    initial[list(begin)] = list(begin.values())
    table, source, p, initial = _build(
        head,
        stages,
        available,
        np.repeat(stage * (S * A) + pair, [len(row.next) for row in rows]),
        np.array([s for row in rows for s in row.next], np.int64),
        np.array([x for row in rows for x in row.next.values()], np.float64),
        initial,
    )

    place = np.searchsorted(table.state * A + table.action, pair)
    reward = np.zeros((max([stages, *(len(row.reward) for row in rows)]), table.pairs))
    for row, k in zip(rows, place, strict=True):
        reward[slice(row.t, row.t + 1) if stages > 1 else slice(None), k] = row.reward
    if stages > 1 and (reward == reward[0]).all():
        reward = reward[:1]
    after = _successor_rewards(rows, source) if any(row.reward_next for row in rows) else None
    return _model(head, table, p, initial, Rewards(reward, after))


def _read_row(head: _Header, item: Any, staged: bool) -> _Row:
    row = files.check_keys(item, ("state", "action", "next"), ("reward", "t"))
    s, a = head.states.find(row["state"]), head.actions.find(row["action"])
    if ("t" in row) != staged:
        raise InputError('give "t" in every row, or in none (the first row decides)')
    t = row.get("t", 0)
    if not files.is_whole(t) or not 0 <= t < head.horizon:
        raise InputError(f"t = {files.show(t)}: it must be a time step, 0 to {head.horizon - 1}")
    steps = 1 if staged else head.horizon
    with naming(head.pair(s, a, t if staged else None)):
        if s in head.terminal:
            raise InputError("its state is terminal: leave out the row, or take it off terminal")
        with naming("next"):
            following = _read_distribution(head.states, row["next"])
        with naming("reward"):
            given = row.get("reward", 0.0)
            if not isinstance(given, Object):
                return _Row(t, s, a, following, _read_reward(given, steps), None)
            after = head.states.read_object(given, lambda r: _read_reward(r, steps))
            for other in after:
                if other not in following:
                    raise InputError(
                        f"{head.states.words(other)} is not among next: add it there, with 0"
                    )
    return _Row(t, s, a, following, [0.0], after)


def _read_reward(given: Any, steps: int) -> list[float]:
    if not isinstance(given, list):
        return [files.check_number(given)]
    if len(given) != steps:
        raise InputError(
            f"{len(given)} numbers, but the row is for {steps} time step{'s'[: steps - 1]}: "
            "give one number for each, or a single one"
        )
    return [files.check_number(r) for r in given]


def _successor_rewards(rows: list[_Row], source: Ints) -> Floats:
    """(1 or H, entries) from rows, and the source of each entry among the successors of these."""
    given = [(row.reward_next or {}).get(s, [0.0]) for row in rows for s in row.next]
    lines = max(map(len, given))
    flat = np.zeros((lines, len(given)))
    for j, r in enumerate(given):
        flat[:, j] = r
    return np.where(source >= 0, flat[:, source], 0.0)


def _check_rows(head: _Header, rows: list[_Row], stages: int) -> None:
    """No row twice; one for each state and, with stages, for each pair at each time step."""
    seen: dict[tuple[int, int, int], int] = {}
    for i, row in enumerate(rows):
        key = row.t, row.s, row.a
        if key in seen:
            pair = head.pair(row.s, row.a, row.t if stages > 1 else None)
            raise InputError(
                f"transitions[{i}]: {pair} is given in transitions[{seen[key]}] too: leave one"
            )
        seen[key] = i
    have = {row.s for row in rows}.union(head.terminal)
    lacking = next((s for s in range(head.states.count) if s not in have), None)
    if lacking is not None:
        raise InputError(
            f"{head.states.words(lacking)} has no row: add one for each of its actions, or list "
            "it in terminal"
        )
    pairs = sorted({(row.s, row.a) for row in rows})
    for t in range(stages if pairs else 0):
        for s, a in pairs:
            if (t, s, a) not in seen:
                raise InputError(
                    f"no row for {head.pair(s, a, t)}: with t, list every pair at every time step"
                )


def _to_arrays(mdp: MDP) -> dict[str, Any]:
    table = mdp.table
    header = np.frombuffer(json.dumps(_write_header(mdp)).encode(), np.uint8)
    after = mdp.rewards.successor
    # never left out: an archive that lost it must not pass for a model without it
    after = np.zeros((0, table.entries)) if after is None else after
    numbers = (table.first, table.action, table.indptr, table.indices, mdp.p, mdp.initial)
    return dict(zip(ARRAYS, (header, *numbers, mdp.rewards.pair, after), strict=True))


def _load(path: AnyPath) -> Object:
    with files.open_bytes(path) as file:
        try:
            archive = np.load(file, allow_pickle=False)
            return Object((name, np.asarray(archive[name])) for name in archive.files)
        except Exception as error:  # a damaged archive raises whatever its layers raise
            raise InputError(f"{path}: damaged, or not an .npz file: write it again") from error


def _from_arrays(arrays: Object) -> MDP:
    files.check_keys(arrays, ARRAYS)
    with naming("header"):
        document = files.parse_json(_array(arrays, "header", np.uint8, None).tobytes())
        files.check_format(document, FORMAT, VERSION)
        head = _read_header(files.check_keys(document, HEADER, EXTRAS))
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
    _check_size(head, R)
    pair = np.repeat(np.arange(S), np.diff(first)) * A + action
    available = np.zeros((S, A), bool)
    available.flat[pair] = True
    body = int(indptr[-2])
    stage, k = np.divmod(np.repeat(np.arange(rows), np.diff(indptr[:-1])), R)
    given = _array(arrays, "p", np.float64, len(indices))
    table, _, p, initial = _build(
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
    reward = _rewards(arrays, "reward", R, 1, H)
    after = _rewards(arrays, "reward_next", len(p), 0, 1, H)
    ends = np.isin(table.state, [*head.terminal])
    if reward[:, ends].any() or after[:, :body][:, ends[k]].any():
        raise InputError('"reward" and "reward_next" must be 0 where the state is terminal')
    return _model(head, table, p, initial, Rewards(reward, after if len(after) else None))


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


def _rewards(arrays: Object, name: str, width: int, *lines: int) -> Floats:
    """An array (lines, width), where several numbers of lines are right."""
    found: Floats = _array(arrays, name, np.float64, None, width)
    if len(found) not in lines:
        wanted = " or ".join(map(str, lines))
        raise InputError(f'"{name}" has {len(found)} lines: it must have {wanted}')
    return found


def _check_size(head: _Header, pairs: int) -> None:
    """Refuse a number of actions that is out of all proportion: arrays are made of that size."""
    S, A = head.states.count, head.actions.count
    if 1000 * pairs + 1_000_000 < S * A:
        raise InputError(
            f'"actions" is {A}, with {S} states and only {pairs} rows: give the largest number '
            "of actions that a state has"
        )


def _build(
    head: _Header,
    stages: int,
    available: Bools,
    rows: Ints,
    indices: Ints,
    given: Floats,
    initial: Floats,
) -> tuple[Table, Ints, Floats, Floats]:
    """A table, the source of each of its entries among those given, p (entries,), initial (S,)."""
    start = np.flatnonzero(initial)
    if not start.size:
        raise InputError('"initial" sums to 0: it must sum to 1')
    table, source = build(
        head.states.count, available, stages, rows, indices, start, [*head.terminal]
    )
    p = np.ones(table.entries)
    p[source >= 0] = given[source[source >= 0]]
    at = table.entries_of(table.start)
    p[at] = initial[start]
    p = _check_probabilities(head, table, p)
    initial = np.zeros(table.states)
    initial[start] = p[at]
    # as MDP does, where the start row is made from a distribution that was divided before
    p[at] = validation.check_probabilities(table, p)[at]
    return table, source, p, initial


def _check_probabilities(head: _Header, table: Table, p: Floats) -> Floats:
    """(entries,) probabilities, divided by the sum of their row where it is off by too much."""
    bad = np.flatnonzero(~((p >= 0) & (p <= 1 + MAX_ROUNDING)))
    if bad.size:
        e = bad[0]
        where = head.after(table, int(table.row_of_entry[e]))
        raise InputError(
            f"the probability of {head.states.words(int(table.indices[e]))} {where} is "
            f"{p[e]:.12g}: it must be in [0, 1]"
        )
    total = np.add.reduceat(p, table.indptr[:-1])
    off = np.flatnonzero(np.abs(total - 1) > MAX_ROUNDING)
    if off.size:
        raise InputError(
            f"the probabilities {head.after(table, int(off[0]))} sum to "
            f"{total[off[0]]:.12g}: they must sum to 1 (divide the row by its sum)"
        )
    # n numbers that were divided by their sum are off by less than n units in the last place
    divide = np.where(np.abs(total - 1) > table.lengths * 2.0**-51, total, 1.0)
    return np.asarray(p / np.repeat(divide, table.lengths), np.float64)


def _model(head: _Header, table: Table, p: Floats, initial: Floats, rewards: Rewards) -> MDP:
    _check_rewards(head, table, rewards)
    problem = Problem._of(
        table=table,
        horizon=head.horizon,
        rewards=rewards,
        initial=initial,
        terminal=tuple(sorted(head.terminal)),
        state_names=head.states.names,
        action_names=head.actions.names,
    )
    return MDP._of(problem, p, head.noise, head.note)


def _check_rewards(head: _Header, table: Table, rewards: Rewards) -> None:
    """Each part, and the sum of both, is in [0, 1]."""
    reward, after = rewards.pair, rewards.successor
    bad = np.argwhere(~((reward >= 0) & (reward <= 1)))
    if bad.size:
        t, k = bad[0].tolist()
        time = t if len(reward) > 1 else None
        pair = head.pair(int(table.state[k]), int(table.action[k]), time)
        raise _outside(f"of {pair}", reward[t, k])
    if after is None:
        return
    after = after[:, : table.indptr[table.start]]
    stage, of_pair = np.divmod(table.row_of_entry[: after.shape[1]], table.pairs)
    own = (np.minimum(stage, len(reward) - 1)[None], of_pair)
    total = after + reward[own if table.stages > 1 else (slice(None), of_pair)]
    bad = np.argwhere(~((np.broadcast_to(after, total.shape) >= 0) & (total <= 1)))
    if bad.size:
        t, e = bad[0].tolist()
        where = head.after(table, int(table.row_of_entry[e]))
        time = f", t={t}" if len(total) > 1 else ""
        raise _outside(f"in {head.states.words(int(table.indices[e]))} {where}{time}", total[t, e])


def _outside(where: str, reward: float) -> InputError:
    return InputError(
        f"the reward {where} is {reward:.6g}: rewards must be in [0, 1]; divide all of them, and "
        "epsilon, by the same number"
    )
