"""Policy files, .csv and .json; docs/howto/formats.md describes both formats.

Steps are numbered 0, 1, ..., or by the t of the log from which a policy was learned, as in 0, 4, 8.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from itertools import pairwise
from typing import Any

import numpy as np

from ucfh._utils import files
from ucfh._utils.arrays import Ints
from ucfh._utils.files import AnyPath, JsonObject, Labels, naming
from ucfh.exceptions import MIN_SIMILARITY, InputError, unknown
from ucfh.mdp import Problem
from ucfh.problems import AnyProblem, as_problem

FORMAT, VERSION = "ucfh-policy", 1
ENDINGS = (".csv", ".json")
COLUMNS = ("t", "state", "action")
MOST_NAMED = 5
"""Most missing entries named in an error."""
MOST_NEAR = 3
"""Most similar names suggested in an error."""

Named = Sequence[Sequence[tuple[str | int, str | int]]]
"""For each step, each state's name and action."""


def write_policy(policy: Any, problem: AnyProblem, path: AnyPath, force: bool = False) -> None:
    """Write a policy to a .csv or .json file.

    Args:
        policy: (H, S) the action at each step in each state, or (S,) one for every step.
        problem: the problem of the policy; its names label the states and actions.
        path: the file to write; its directory must exist.
        force: True overwrites an existing file.

    """
    files.check_ending(path, ENDINGS)
    known = as_problem(problem)
    pi = _check_policy(policy, known)
    states, actions = files.labels_of(known)
    named = [
        [(states.label(s), actions.label(a)) for s, a in enumerate(line)] for line in pi.tolist()
    ]
    write_named(named, path, force)


def write_named(
    named: Named, path: AnyPath, force: bool = False, times: range | None = None
) -> None:
    """Write a policy with names to a .csv or .json file.

    Args:
        named: the name and action of each state, for each step.
        path: the file.
        force: True overwrites an existing file.
        times: (H,) the t of each step; None: 0, 1, ...

    """
    write = _to_csv if files.check_ending(path, ENDINGS) == ".csv" else _to_json
    files.write_text(path, write(named, range(len(named)) if times is None else times), force)


def read_policy(path: AnyPath, problem: AnyProblem) -> Ints:
    """Read a policy (H, S) from a .csv or .json file.

    Raises:
        InputError: with the invalid line or entry, or if the policy does not fit the problem.

    """
    ending = files.check_ending(path, ENDINGS)
    known = as_problem(problem)
    text = files.read_text(path)
    with naming(path):
        return _from_csv(text, known) if ending == ".csv" else _from_json(text, known)


def _check_policy(policy: Any, problem: Problem) -> Ints:
    """Return a policy (H, S) with available actions; else raise."""
    try:
        pi = np.asarray(policy)
    except ValueError:
        raise InputError(
            "policy must be an array (H, S), or (S,): its lines differ in length"
        ) from None
    if pi.dtype.kind not in "iu":
        raise InputError(f"policy has type {pi.dtype}: it must hold integers, the actions")
    problem.table.rows_of(pi, problem.horizon)
    return np.broadcast_to(pi, (problem.horizon, problem.states)).astype(np.int64)


@dataclass(frozen=True, eq=False)
class NamedPolicy:
    """A policy with the names of its file.

    Attributes:
        steps: for each step, the action in each state; one entry for a stationary policy.
        times: (H,) the t of each step; None if the file has none.

    """

    steps: tuple[dict[str, str], ...]
    times: range | None

    def act(self, state: str, t: int | None = None) -> str:
        """Return the action in a state at step t, numbered as in the file."""
        step = 0
        times = self.times
        if times is not None and (t is not None or len(self.steps) > 1):
            first, last = times[0], times[-1]
            steps = f"{first} to {last}"
            if times.step > 1:
                steps = f"{first}, {times[1]}, ..., {last}" if len(times) > 1 else f"{first}"
            if t is None:
                raise InputError(f"the action depends on the step: pass --t, {steps}")
            if t not in times:
                where = "before the first" if t < first else "after the last"
                where = "between two steps" if first < t < last else f"{where} step"
                raise InputError(f"t = {t} is {where}: steps are {steps}")
            step = times.index(t) % len(self.steps)
        for name in (state, state.strip()):
            if name in self.steps[step]:
                return self.steps[step][name]
        raise self._unknown(state, step)

    def _unknown(self, state: str, step: int) -> InputError:
        """Return an error for a state without an action, with suggestions."""
        lower = {name.lower(): name for name in self.steps[step]}
        close = get_close_matches(state.strip().lower(), lower, MOST_NEAR, MIN_SIMILARITY)
        hint = f"did you mean {' or '.join(repr(lower[x]) for x in close)}? " if close else ""
        return InputError(
            f"the policy has no action for state {state!r}: {hint}A policy omits states after the "
            "end, and states without data; there any action may be taken, and the guarantee still "
            "holds"
        )


def read_named(path: AnyPath) -> NamedPolicy:
    """Read a policy with its names from a .csv or .json file, for any problem."""
    ending = files.check_ending(path, ENDINGS)
    text = files.read_text(path)
    with naming(path):
        return _named_csv(text) if ending == ".csv" else _named_json(text)


def _named_csv(text: str) -> NamedPolicy:
    by_step, entries = _read_csv(text)
    steps: dict[int, dict[str, str]] = {}
    for place, t, state, action in entries:
        with naming(place):
            if by_step and not (t.isascii() and t.isdigit() and len(t) < 10):
                raise InputError(f"t {t!r} is not the number of a step: write 0, 1, 2, ...")
            step = steps.setdefault(int(t) if by_step else 0, {})
            if state in step:
                raise InputError(f"state {state!r} is given twice: keep only one")
            step[state] = action
    if not steps:
        raise InputError("it holds no actions: write a line for each state")
    times = _spaced(steps)
    for number in times:
        if number not in steps:
            raise InputError(f"no line has t = {number}: add a line for each state")
    return NamedPolicy(tuple(steps[t] for t in times), times if by_step else None)


def _spaced(given: Collection[int]) -> range:
    """Return the evenly spaced steps from the smallest to the largest given one."""
    ordered = sorted(given)
    unit = min((b - a for a, b in pairwise(ordered)), default=1)
    return range(ordered[0], ordered[-1] + 1, unit)


def _named_json(text: str) -> NamedPolicy:
    _, times, given = _json_steps(text)
    stationary = isinstance(given, JsonObject)
    steps: list[dict[str, str]] = []
    for t, step in enumerate([given] if stationary else given):
        with naming("policy" if stationary else f"policy[{t}]"):
            for s, a in files.check_object(step).items():
                if not isinstance(a, str) and not files.is_whole(a):
                    raise InputError(
                        f"state {s!r}: {files.show(a)} is not an action: give its name"
                    )
            steps.append({s: str(a) for s, a in step.items()})
    return NamedPolicy(tuple(steps), times)


def _to_csv(named: Named, times: range) -> str:
    out = io.StringIO()
    # a lone carriage return in a name would end the line, and csv does not quote it by itself
    odd = any("\r" in str(label) for line in named for pair in line for label in pair)
    writer = csv.writer(
        out, lineterminator="\n", quoting=csv.QUOTE_ALL if odd else csv.QUOTE_MINIMAL
    )
    writer.writerow(COLUMNS)
    writer.writerows((t, s, a) for t, line in zip(times, named, strict=True) for s, a in line)
    return out.getvalue()


def _from_csv(text: str, problem: Problem) -> Ints:
    states, actions = files.labels_of(problem)
    by_step, lines = _read_csv(text)
    entries, H = list(lines), problem.horizon
    given = {int(t) for _, t, _, _ in entries if t.isascii() and t.isdigit() and len(t) < 10}
    spaced = _spaced(given) if given else range(0)
    times = spaced if len(spaced) == len(given) == H else range(H)  # numbered as in its log
    pi = _blank(problem, not by_step)
    seen: dict[tuple[int, int], str] = {}
    for place, at, state, action in entries:
        with naming(place):
            t = _find_step(times, at) if by_step else 0
            s, a = states.find(state), actions.find(action)
            if (t, s) in seen:
                entry = _entry(states, pi, t, s)
                raise InputError(f"{entry} is on {seen[t, s]} too: keep only one")
            seen[t, s] = place
            pi[t, s] = _check_action(problem, actions, states, s, a)
    return _complete(problem, states, pi)


def _find_step(times: range, t: str) -> int:
    if times == range(len(times)):
        return Labels("time step", None, len(times)).find(t)
    try:
        return times.index(int(t))
    except ValueError:
        raise InputError(f"t {t!r} is not the number of a step: write {times[0]}, ...") from None


def _read_csv(text: str) -> tuple[bool, Iterator[tuple[str, str, str, str]]]:
    """Return True if there is a column t, and the entries: line, t or "", state, action."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    lines = _csv_lines(reader)
    columns = _read_columns(next(lines, []))

    def entries() -> Iterator[tuple[str, str, str, str]]:
        for fields in lines:
            place = f"line {reader.line_num}"
            if len(fields) != len(columns):
                raise InputError(f"{place}: {len(fields)} values in {len(columns)} columns")
            line = dict(zip(columns, fields, strict=True))
            yield place, line.get("t", "").strip(), line["state"], line["action"]

    return "t" in columns, entries()


def _csv_lines(reader: Any) -> Iterator[list[str]]:
    """Yield the lines that are not blank."""
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


def _to_json(named: Named, times: range) -> str:
    """Return JSON with one line for each time step."""
    steps = ",\n".join(
        f"    {json.dumps({str(s): a for s, a in line}, ensure_ascii=False)}" for line in named
    )
    counted = f'  "first": {times.start},\n' if times.start else ""
    counted += f'  "step": {times.step},\n' if times.step > 1 else ""
    return (
        f'{{\n  "format": "{FORMAT}",\n  "version": {VERSION},\n  "horizon": {len(named)},\n'
        f'{counted}  "policy": [\n{steps}\n  ]\n}}\n'
    )


def _json_steps(text: str, horizon: int | None = None) -> tuple[int, range, Any]:
    """Return H, the t of each step, and an object of actions for each step, or for all.

    If ``horizon`` is given, H must equal it.
    """
    document = files.check_format(files.parse_json(text), FORMAT, VERSION)
    files.check_keys(document, ("format", "version", "horizon", "policy"), ("first", "step"))
    H, first, given = document["horizon"], document.get("first", 0), document["policy"]
    unit = document.get("step", 1)
    if not files.is_count(H) or horizon not in (None, H):
        remedy = "it must be the number of steps"
        if horizon is not None:
            remedy = f"but that of the problem is {horizon}: pass a policy for this horizon"
        raise InputError(f'"horizon" is {files.show(H)}, {remedy}')
    if not files.is_whole(first) or first < 0:
        raise InputError(f'"first" is {files.show(first)}: it must be the t of the first step')
    if not files.is_count(unit):
        raise InputError(f'"step" is {files.show(unit)}: it must be the increment of t per step')
    if not isinstance(given, JsonObject) and not (isinstance(given, list) and len(given) == H):
        shown = f"a list of {len(given)}" if isinstance(given, list) else files.show(given)
        raise InputError(
            f'"policy" is {shown}: it must be a list of {H} objects, one for each time step, or '
            "one object for all of them"
        )
    return H, range(first, first + H * unit, unit), given


def _from_json(text: str, problem: Problem) -> Ints:
    states, actions = files.labels_of(problem)
    _, _, given = _json_steps(text, problem.horizon)
    stationary = isinstance(given, JsonObject)
    pi = _blank(problem, stationary)
    for t, step in enumerate([given] if stationary else given):
        with naming("policy" if stationary else f"policy[{t}]"):
            for s, a in states.read_object(step, actions.find).items():
                pi[t, s] = _check_action(problem, actions, states, s, a)
    return _complete(problem, states, pi)


def _blank(problem: Problem, stationary: bool) -> Ints:
    """(1 or H, S) an empty policy, -1 in every entry."""
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
    """Return (H, S) a policy with an action for every state at every step; else raise."""
    ends = list(problem.terminal)
    pi[:, ends] = 0  # the only action of a terminal state: files may leave it out
    missing = np.argwhere(pi < 0).tolist()
    if missing:
        names = ", ".join(_entry(states, pi, t, s) for t, s in missing[:MOST_NAMED])
        more = f" and {len(missing) - MOST_NAMED} more" if len(missing) > MOST_NAMED else ""
        raise InputError(f"no action for {names}{more}: add a line for each")
    return np.repeat(pi, problem.horizon // len(pi), axis=0)
