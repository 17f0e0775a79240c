"""``ucfh certify``."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import Any, cast

from ucfh import __version__, policies
from ucfh.certificate import Certificate, certificate_of
from ucfh.commands.learn import NOT_CERTIFIED, certificate_lines
from ucfh.commands.progress import Bar
from ucfh.commands.show import print_json
from ucfh.errors import InputError, check_count
from ucfh.files import check_outputs
from ucfh.live.logs import Log, read_log
from ucfh.problems import make


def run_certify(
    log: str,
    *,
    problem: str | None,
    declared: dict[str, str | None],
    horizon: int | None,
    stage_dependent: bool,
    columns: list[str],
    epsilon: float,
    delta: float,
    hidden: list[str],
    encoding: str | None,
    strict: bool,
    accept_losses: bool,
    policy: str | None,
    force: bool,
    json: bool,
) -> int:
    """Certify what a log shows, print it, and return the exit code."""
    inputs = [path for path in (log, problem) if path is not None]
    check_outputs([(policy, policies.ENDINGS)], inputs, force)
    told = None
    if problem is not None:
        told = make(problem).problem.hiding(*cast(Any, hidden))
    elif hidden:
        raise InputError("--unknown is about --problem: without one nothing is told")
    with Bar() as bar:
        found = read_log(
            log,
            told,
            columns=_columns(columns),
            states=_names("--states", declared["states"]),
            actions=_names("--actions", declared["actions"]),
            horizon=horizon,
            stage_dependent=stage_dependent,
            encoding=encoding,
            strict=strict,
            accept_losses=accept_losses,
            progress=partial(bar.show, f"reading {log}"),
        )
    known = certificate_of(
        found.counts, found.problem, delta, epsilon, found.episodes, found.assumptions
    )
    more = more_episodes(known)
    if json:
        print_json(summary(log, found, known, more))
    else:
        print_certificate(log, found, known, more)
    if policy is not None:
        policies.write_policy(known.policy, found.problem, policy, force)
        if not json:
            print(f"{'policy':>12}  {policy}")
    return 0 if known.certified else NOT_CERTIFIED


def _columns(given: list[str]) -> dict[str, str]:
    """{column: its name in the file}, from texts such as state=s."""
    out = {}
    for text in given:
        column, equals, name = text.partition("=")
        if not equals:
            raise InputError(f"--columns {text} must say which: --columns state={text}")
        out[column] = name
    return out


def _names(option: str, given: str | None) -> list[str] | int | None:
    """Names with commas between them, or a number."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if len(names) == 1 and _is_number(names[0]):
        number = float(names[0])
        return check_count(option, int(number) if number.is_integer() else cast(Any, number))
    if not all(names):
        raise InputError(f"{option} {given!r} leaves a name out: write them with commas between")
    return names


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False


def more_episodes(known: Certificate) -> float | None:
    """About how many more episodes of the same kind it takes; None: no number of them will do.

    The bounds narrow like one over the root of the visits, if every pair that matters is visited.
    """
    if known.certified:
        return 0.0
    if known.episodes == 0 or any(x.visits == 0 and x.share > 0.05 for x in known.missing):
        return None
    assert known.epsilon is not None
    return known.episodes * ((known.gap / known.epsilon) ** 2 - 1)


def summary(log: str, found: Log, known: Certificate, more: float | None) -> dict[str, Any]:
    """A certificate in a few numbers, for programs."""
    return {
        "log": log,
        "rows": found.rows,
        "counted": found.counted,
        **known.as_dict(),
        "certified": known.certified,
        "more_episodes": more,
        "states": found.problem.states,
        "actions": found.problem.actions,
        "horizon": found.problem.horizon,
        "faults": [str(fault) for fault in found.faults],
        "version": __version__,
    }


def print_certificate(log: str, found: Log, known: Certificate, more: float | None) -> None:
    """A certificate for a person."""
    problem = found.problem
    lines = {
        "log": f"{log}: {found.episodes} episodes, {found.counted} of {found.rows} rows counted",
        "problem": f"{problem.states} states, {problem.actions} actions, {problem.horizon} steps",
        **certificate_lines(known, problem),
    }
    if not known.certified:
        lines["more"] = (
            "no number of episodes of this kind will do: some pairs are never visited"
            if more is None
            else f"about {more:.2g} more episodes of this kind for epsilon {known.epsilon:g}"
        )
    for fault in found.faults:
        lines[f"fault {len(lines)}"] = str(fault)
    for key, text in lines.items():
        print(f"{key.split()[0]:>12}  {text}")
    print(f"{'if':>12}  " + f"\n{'':>12}  ".join(known.assumed))
