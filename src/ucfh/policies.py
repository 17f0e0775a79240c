"""Policies in files: .csv, for spreadsheets, and .json; docs/howto/formats.md describes both."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ucfh._support import files
from ucfh._support.arrays import Ints
from ucfh._support.files import AnyPath, Labels, Object, naming
from ucfh.errors import InputError, unknown
from ucfh.problem import MDP, Problem, as_problem

FORMAT, VERSION = "ucfh-policy", 1
ENDINGS = (".csv", ".json")
COLUMNS = ("t", "state", "action")
MOST_NAMED = 5
"""How many of the missing entries an error names."""


def write_policy(policy: Any, problem: Problem | MDP, path: AnyPath, force: bool = False) -> None:
    """Write a policy to a file, by its ending .csv or .json.

    Args:
        policy: (H, S) the action at each step in each state, or (S,) one for every step.
        problem: what the policy is for; its names label the states and actions.
        path: the file to write; its directory must exist.
        force: whether to overwrite an existing file.

    """
    files.check_ending(path, ENDINGS)
    told = as_problem(problem)
    pi = _check_policy(policy, told)
    states, actions = files.labels_of(told)
    named = [
        [(states.label(s), actions.label(a)) for s, a in enumerate(line)] for line in pi.tolist()
    ]
    write_named(named, path, force)


def write_named(
    named: Sequence[Sequence[tuple[str | int, str | int]]], path: AnyPath, force: bool = False
) -> None:
    """Write a policy to a file, by its ending: for each step, each state's name and action."""
    ending = files.check_ending(path, ENDINGS)
    files.write_text(path, _to_csv(named) if ending == ".csv" else _to_json(named), force)


def read_policy(path: AnyPath, problem: Problem | MDP) -> Ints:
    """(H, S) the policy in a file, by its ending .csv or .json.

    Anything else in the file, and a policy that does not fit the problem, is an
    `InputError` that names the line or entry at fault.
    """
    ending = files.check_ending(path, ENDINGS)
    told = as_problem(problem)
    text = files.read_text(path)
    with naming(path):
        return _from_csv(text, told) if ending == ".csv" else _from_json(text, told)


def _check_policy(policy: Any, problem: Problem) -> Ints:
    """(H, S) a policy that takes only actions that the states have."""
    try:
        pi = np.asarray(policy)
    except ValueError:
        raise InputError(
            "policy must be an array (H, S), or (S,): its lines differ in length"
        ) from None
    if pi.dtype.kind not in "iu":
        raise InputError(f"policy has type {pi.dtype}: it must hold whole numbers, the actions")
    problem.table.rows_of(pi, problem.horizon)
    return np.broadcast_to(pi, (problem.horizon, problem.states)).astype(np.int64)


def _to_csv(named: Sequence[Sequence[tuple[str | int, str | int]]]) -> str:
    out = io.StringIO()
    # a lone carriage return in a name would end the line, and csv does not quote it by itself
    odd = any("\r" in str(label) for line in named for pair in line for label in pair)
    writer = csv.writer(
        out, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    )
    writer.writerow(COLUMNS)
    writer.writerows((t, s, a) for t, line in enumerate(named) for s, a in line)
    return out.getvalue()


def _from_csv(text: str, problem: Problem) -> Ints:
    states, actions = files.labels_of(problem)
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines = _csv_lines(reader)
    columns = _read_columns(next(lines, []))
    times = Labels("time step", None, problem.horizon) if "t" in columns else None
    pi = _blank(problem, stationary=times is None)
    seen = np.zeros(pi.shape, np.int64)
    for fields in lines:
        with naming(f"line {reader.line_num}"):
            if len(fields) != len(columns):
                raise InputError(f"{len(fields)} values in {len(columns)} columns")
            line = dict(zip(columns, fields, strict=True))
            t = times.find(line["t"]) if times else 0
            s, a = states.find(line["state"]), actions.find(line["action"])
            if seen[t, s]:
                entry = _entry(states, pi, t, s)
                raise InputError(f"{entry} is on line {seen[t, s]} too: keep only one")
            seen[t, s] = reader.line_num
            pi[t, s] = _check_action(problem, actions, states, s, a)
    return _complete(problem, states, pi)


def _csv_lines(reader: Any) -> Iterator[list[str]]:
    """The lines that are not blank."""
    try:
        yield from filter(None, reader)
    except csv.Error as error:
        raise InputError(f"line {reader.line_num}: not CSV, or cut short ({error})") from None


def _read_columns(fields: list[str]) -> list[str]:
    columns = [field.strip() for field in fields]
    with naming("the first line must name the columns, such as t,state,action"):
        for name in columns:
            if name not in COLUMNS:
                raise unknown("column", name, COLUMNS)
            if columns.count(name) > 1:
                raise InputError(f"{name} is given twice: keep only one")
        for name in ("state", "action"):
            if name not in columns:
                raise InputError(f"{name} is missing: add it")
    return columns


def _to_json(named: Sequence[Sequence[tuple[str | int, str | int]]]) -> str:
    """One line for each time step."""
    steps = ",\n".join(
        f"    {json.dumps({str(s): a for s, a in line}, ensure_ascii=False)}" for line in named
    )
    return (
        f'{{\n  "format": "{FORMAT}",\n  "version": {VERSION},\n  "horizon": {len(named)},\n'
        f'  "policy": [\n{steps}\n  ]\n}}\n'
    )


def _from_json(text: str, problem: Problem) -> Ints:
    states, actions = files.labels_of(problem)
    document = files.check_format(files.parse_json(text), FORMAT, VERSION)
    files.check_keys(document, ("format", "version", "horizon", "policy"))
    H, given = document["horizon"], document["policy"]
    if not files.is_whole(H) or problem.horizon != H:
        raise InputError(
            f'"horizon" is {files.show(H)}, but that of the problem is {problem.horizon}: pass a '
            "policy for this horizon"
        )
    stationary = isinstance(given, Object)
    if not stationary and not (isinstance(given, list) and len(given) == H):
        found = f"a list of {len(given)}" if isinstance(given, list) else files.show(given)
        raise InputError(
            f'"policy" is {found}: it must be a list of {H} objects, one for each time step, or '
            "one object for all of them"
        )
    pi = _blank(problem, stationary)
    for t, step in enumerate([given] if stationary else given):
        with naming("policy" if stationary else f"policy[{t}]"):
            for s, a in states.read_object(step, actions.find).items():
                pi[t, s] = _check_action(problem, actions, states, s, a)
    return _complete(problem, states, pi)


def _blank(problem: Problem, stationary: bool) -> Ints:
    """(1 or H, S) a policy to be filled, -1 in every entry."""
    return np.full((1 if stationary else problem.horizon, problem.states), -1, np.int64)


def _check_action(problem: Problem, actions: Labels, states: Labels, s: int, a: int) -> int:
    have = problem.table.available[s]
    if not have[a]:
        known = ", ".join(repr(actions.label(b)) for b in np.flatnonzero(have).tolist())
        raise InputError(f"{states.words(s)} does not have {actions.words(a)}: it has only {known}")
    return a


def _entry(states: Labels, pi: Ints, t: int, s: int) -> str:
    time = f"t={t}, " if len(pi) > 1 else ""
    return f"({time}{states.words(s)})"


def _complete(problem: Problem, states: Labels, pi: Ints) -> Ints:
    """(H, S) from a policy that has an action for every state at every step."""
    ends = list(problem.terminal)
    pi[:, ends] = 0  # the only action there, and the episode is over: files may leave it out
    missing = np.argwhere(pi < 0).tolist()
    if missing:
        names = ", ".join(_entry(states, pi, t, s) for t, s in missing[:MOST_NAMED])
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise InputError(f"no action for {names}{more}: add a line for each")
    return np.repeat(pi, problem.horizon // len(pi), axis=0)
