"""Models in JSON: one line for each key and for each row of transitions.

Besides the header a document has ``initial``, a state or an object of probabilities, and
``transitions``, a list of rows in any order. A row is one action of one state:

    {"state": "home", "action": "go", "next": {"work": 0.8, "home": 0.2}, "reward": 0.1}

``next`` is a state or an object of probabilities, each of them a number or an interval [lo, hi].
``reward``, 0 by default, is a number, a list of H, or an object of these by next state. ``t`` is
in every row, or in none: with it, a row and its reward are for that time step alone, and every
pair is listed for every time step.

Rewards that are the same at every time step are stored once. A row has rewards of one kind; for a
model with rewards of both pairs and next states, the two are added up.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ucfh._utils import files
from ucfh._utils.arrays import Floats, Ints
from ucfh._utils.files import JsonObject, Labels, naming
from ucfh.exceptions import InputError
from ucfh.io.building import (
    Header,
    ModelContent,
    build_transitions,
    check_rows,
    check_size,
    read_header,
    start_of,
    write_header,
)
from ucfh.transitions import Rewards, Table

BoundPair = tuple[float, float]
"""Bounds of a probability; equal if it is known."""


def to_json(content: ModelContent) -> str:
    """Return a model as a JSON document."""

    def text(value: Any) -> str:
        return json.dumps(value, ensure_ascii=False)

    table, states = content.table, content.head.states
    header = write_header(content.head)
    start = table.indices[table.entries_of(table.start)].tolist()
    known = content.initial[start].tolist()
    header["initial"] = _write_distribution(states, start, known, known)
    lines = "".join(f"  {text(key)}: {text(value)},\n" for key, value in header.items())
    rows = ",\n".join(f"    {text(row)}" for row in _write_rows(content))
    return f'{{\n{lines}  "transitions": [\n{rows}\n  ]\n}}\n'


def _write_rows(content: ModelContent) -> Iterator[dict[str, Any]]:
    table, rewards = content.table, content.rewards
    states, actions = content.head.states, content.head.actions
    for row in range(table.start):
        t, s, a = table.pair_of(row)
        if s in content.head.terminal:
            continue
        at = table.entries_of(row)
        following = table.indices[at].tolist()
        line: dict[str, Any] = {"t": t} if table.segments > 1 else {}
        line |= {"state": states.label(s), "action": actions.label(a)}
        bounds = content.lo[at].tolist(), content.hi[at].tolist()
        line["next"] = _write_distribution(states, following, *bounds)
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
    """Select the rewards (1 or H, n) of a row: those of step t with segments, else all."""
    return lines[min(t, len(lines) - 1)][None] if table.segments > 1 else lines


def _write_reward(r: Floats) -> Any:
    return float(r[0]) if len(r) == 1 else r.tolist()


def _write_distribution(
    states: Labels, following: list[int], lo: list[float], hi: list[float]
) -> Any:
    """Return the label of a certain state, else an object of probabilities and intervals."""
    if lo == hi == [1.0]:
        return states.label(following[0])
    entries = zip(following, lo, hi, strict=True)
    return {str(states.label(s)): x if x == y else [x, y] for s, x, y in entries}


def _read_distribution(
    states: Labels, given: Any, read: Callable[[Any], BoundPair]
) -> dict[int, BoundPair]:
    if not isinstance(given, JsonObject):
        return {states.find(given): (1.0, 1.0)}
    return states.read_object(given, read)


def _read_probability(given: Any) -> BoundPair:
    x = files.check_number(given)
    return x, x


def _read_bounds(given: Any) -> BoundPair:
    if not isinstance(given, list):
        return _read_probability(given)
    if len(given) != 2:
        raise InputError(f"a list of {len(given)}: give a probability, or an interval [lo, hi]")
    lo, hi = map(files.check_number, given)
    if not 0 <= lo <= hi <= 1:
        raise InputError(f"[{lo}, {hi}] is not an interval: it must satisfy 0 <= lo <= hi <= 1")
    return lo, hi


@dataclass(frozen=True)
class _Row:
    """A row of transitions; a reward is a list of one number, or of H."""

    t: int
    s: int
    a: int
    next: dict[int, BoundPair]
    reward: list[float]
    reward_next: dict[int, list[float]] | None


def from_json(document: Any) -> ModelContent:
    """Return the content of a parsed document."""
    head = read_header(document, "initial", "transitions")
    with naming("initial"):
        begin = _read_distribution(head.states, document["initial"], _read_probability)
    rows, segments = _read_rows(head, document["transitions"])
    S, A = head.states.count, head.actions.count
    check_size(head, len(rows))
    pair = np.array([row.s * A + row.a for row in rows], np.int64)
    segment = np.array([row.t for row in rows], np.int64)
    available = np.zeros((S, A), bool)
    available.flat[pair] = True
    initial = np.zeros(S)
    initial[list(begin)] = [p for p, _ in begin.values()]
    bounds = np.array([x for row in rows for x in row.next.values()], np.float64).reshape(-1, 2)
    table, source, lo, hi = build_transitions(
        head,
        segments,
        available,
        np.repeat(segment * (S * A) + pair, [len(row.next) for row in rows]),
        np.array([s for row in rows for s in row.next], np.int64),
        bounds[:, 0],
        bounds[:, 1],
        initial,
    )
    lo, hi = check_rows(head, table, lo, hi)
    reward = _pair_rewards(rows, np.searchsorted(table.state * A + table.action, pair), table)
    after = _successor_rewards(rows, source) if any(row.reward_next for row in rows) else None
    return ModelContent(head, table, lo, hi, start_of(table, lo), Rewards(reward, after))


def _read_rows(head: Header, listed: Any) -> tuple[list[_Row], int]:
    """Read a complete list of rows without duplicates; return it and the number of segments."""
    if not isinstance(listed, list):
        raise InputError(f'"transitions" is {files.show(listed)}: it must be a list of rows')
    segmented = bool(listed) and isinstance(listed[0], dict) and "t" in listed[0]
    rows: list[_Row] = []
    try:
        for item in listed:
            rows.append(_read_row(head, item, segmented))
    except InputError as error:
        raise InputError(f"transitions[{len(rows)}]: {error}") from None
    segments = head.horizon if segmented else 1
    _check_rows(head, rows, segments)
    return rows, segments


def _read_row(head: Header, item: Any, segmented: bool) -> _Row:
    row = files.check_keys(item, ("state", "action", "next"), ("reward", "t"))
    s, a = head.states.find(row["state"]), head.actions.find(row["action"])
    if ("t" in row) != segmented:
        raise InputError('give "t" in every row, or in none (the first row decides)')
    t = row.get("t", 0)
    if not files.is_whole(t) or not 0 <= t < head.horizon:
        raise InputError(f"t = {files.show(t)}: it must be a time step, 0 to {head.horizon - 1}")
    steps = 1 if segmented else head.horizon
    with naming(head.pair(s, a, t if segmented else None)):
        if s in head.terminal:
            raise InputError("its state is terminal: leave out the row, or the state in terminal")
        with naming("next"):
            following = _read_distribution(head.states, row["next"], _read_bounds)
        with naming("reward"):
            given = row.get("reward", 0.0)
            if not isinstance(given, JsonObject):
                return _Row(t, s, a, following, _read_reward(given, steps), None)
            after = head.states.read_object(given, lambda r: _read_reward(r, steps))
            for other in after:
                if other not in following:
                    raise InputError(
                        f"{head.states.words(other)} is not in next: add it there, with "
                        "probability 0"
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


def _check_rows(head: Header, rows: list[_Row], segments: int) -> None:
    """Raise unless rows are unique, for all states and, with segments, all pairs and steps."""
    seen: dict[tuple[int, int, int], int] = {}
    for i, row in enumerate(rows):
        key = row.t, row.s, row.a
        if key in seen:
            pair = head.pair(row.s, row.a, row.t if segments > 1 else None)
            raise InputError(
                f"transitions[{i}]: {pair} is given in transitions[{seen[key]}] too: keep only one"
            )
        seen[key] = i
    have = {row.s for row in rows}.union(head.terminal)
    missing = next((s for s in range(head.states.count) if s not in have), None)
    if missing is not None:
        raise InputError(
            f"{head.states.words(missing)} has no row: add one for each of its actions, or list "
            "it in terminal"
        )
    pairs = sorted({(row.s, row.a) for row in rows})
    for t in range(segments if pairs else 0):
        for s, a in pairs:
            if (t, s, a) not in seen:
                raise InputError(
                    f"no row for {head.pair(s, a, t)}: with t, list every pair at every time step"
                )


def _pair_rewards(rows: list[_Row], place: Ints, table: Table) -> Floats:
    """(1 or H, R) pair rewards, from rows and the index in the table of the pair of each."""
    segments = table.segments
    reward = np.zeros((max([segments, *(len(row.reward) for row in rows)]), table.pairs))
    for row, k in zip(rows, place, strict=True):
        reward[slice(row.t, row.t + 1) if segments > 1 else slice(None), k] = row.reward
    if segments > 1 and (reward == reward[0]).all():
        reward = reward[:1]
    return reward


def _successor_rewards(rows: list[_Row], source: Ints) -> Floats:
    """(1 or H, entries) successor rewards, from rows and the index of each entry among theirs."""
    given = [(row.reward_next or {}).get(s, [0.0]) for row in rows for s in row.next]
    lines = max(map(len, given))
    flat = np.zeros((lines, len(given)))
    for j, r in enumerate(given):
        flat[:, j] = r
    return np.where(source >= 0, flat[:, source], 0.0)
