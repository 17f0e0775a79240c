"""``ucfh certify``."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ucfh._support.defaults import DELTA
from ucfh.commands.options import (
    AcceptLosses,
    AsJson,
    Delta,
    Encoding,
    Epsilon,
    Force,
    MaxReturn,
    RewardLimits,
    Stages,
    read_range,
    read_stages,
)
from ucfh.commands.printing import NOT_CERTIFIED, certificate_lines, print_json, print_lines
from ucfh.commands.progress import Bar
from ucfh.errors import InputError, check_count

if TYPE_CHECKING:
    from ucfh.certificate import Certificate
    from ucfh.logs.reading import Log


def certify(
    log: Annotated[
        str,
        typer.Argument(metavar="LOG", help="a .csv, .jsonl or .parquet file", show_default=False),
    ],
    problem: Annotated[
        str | None,
        typer.Option(
            help="model file or named problem that the log is of; default: what the log shows"
        ),
    ] = None,
    states: Annotated[
        str | None,
        typer.Option(
            help="all states: names separated by commas, or how many there are; default: there may "
            "be others than the log shows"
        ),
    ] = None,
    actions: Annotated[
        str | None,
        typer.Option(help="all actions: names separated by commas, or how many there are"),
    ] = None,
    horizon: Annotated[
        int | None, typer.Option(help="steps in an episode; default: the longest in the log")
    ] = None,
    stage_dependent: Annotated[
        bool,
        typer.Option("--stage-dependent", help="let transitions and rewards depend on the step t"),
    ] = False,
    stages: Stages = None,
    rewards: RewardLimits = None,
    max_return: MaxReturn = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(help="your name for a column, such as state=s; repeatable"),
    ] = None,
    epsilon: Epsilon = 0.1,
    delta: Delta = DELTA,
    unknown: Annotated[
        list[str] | None,
        typer.Option(help="do not use from --problem: rewards, successors or initial; repeatable"),
    ] = None,
    encoding: Encoding = None,
    strict: Annotated[
        bool, typer.Option("--strict", help="refuse the log at its first fault")
    ] = False,
    accept_losses: AcceptLosses = False,
    policy: Annotated[str | None, typer.Option(help="write the policy: .csv or .json")] = None,
    force: Force = False,
    json: AsJson = False,
) -> None:
    """Report what a log proves about the best policy.

    The log may be collected by any policy. Prints a policy, what it earns at least, what any policy
    earns at most, and how far it may be from optimal; exit code 3 if that is more than epsilon.
    Rows that are lost because of their outcome void the bounds: a log that lost more than a few
    rows in a thousand, or all of one step, state or action, is refused.

    \b
    Examples:
      ucfh certify shop.csv --epsilon 0.2 --policy shop-policy.csv
      ucfh certify shop.csv --states door,browsing,paid,left --horizon 4 --json
      ucfh certify exam.csv --rewards 0,100 --max-return 100 --stages 9
      ucfh certify tutoring.csv --problem tutoring
    """
    from ucfh import policies
    from ucfh._support.files import check_outputs
    from ucfh.certificate import certificate_of_log
    from ucfh.logs.reading import read_log
    from ucfh.problems import make

    parts = read_stages(stages)
    inputs = [path for path in (log, problem) if path is not None]
    check_outputs([(policy, policies.ENDINGS)], inputs, force)
    told = None
    if problem is not None:
        told = make(problem).problem.hiding(*cast(Any, unknown or []))
    elif unknown:
        raise InputError("--unknown is about --problem: pass that too, or leave --unknown out")
    with Bar() as bar:
        found = read_log(
            log,
            told,
            columns=_columns(columns or []),
            states=_names("--states", states),
            actions=_names("--actions", actions),
            horizon=horizon,
            stage_dependent=stage_dependent or parts is True,
            stages=() if parts is True else parts or (),
            rewards=read_range(rewards),
            max_return=max_return,
            encoding=encoding,
            strict=strict,
            accept_losses=accept_losses,
            progress=partial(bar.show, f"reading {log}"),
        )
    known = certificate_of_log(found, delta, epsilon)
    more = more_episodes(known)
    if json:
        print_json(summary(log, found, known, more))
    else:
        print_certificate(log, found, known, more)
    if policy is not None:
        policies.write_named(_named(found, known), policy, force)
        if not json:
            print_lines({"policy": policy})
    raise typer.Exit(0 if known.certified else NOT_CERTIFIED)


def _named(found: Log, known: Certificate) -> list[list[tuple[str | int, str | int]]]:
    """For each step, each state's name and action."""
    return [
        [(found.states.label(s), found.actions.label(a)) for s, a in enumerate(line)]
        for line in known.policy.tolist()
    ]


def _columns(given: list[str]) -> dict[str, str]:
    """{column: its name in the file}, from texts such as state=s."""
    out = {}
    for text in given:
        column, equals, name = text.partition("=")
        if not equals:
            raise InputError(f"--columns {text} needs the name in the file: --columns {text}=NAME")
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
    from ucfh import __version__

    return {
        "log": log,
        "rows": found.rows,
        "counted": found.counted,
        **known.as_dict(),
        "certified": known.certified,
        "more_episodes": more,
        "states": found.states.count,
        "actions": found.actions.count,
        "horizon": found.horizon,
        "rewards": [found.units.low, found.units.high],
        "max_return": found.max_return,
        "faults": [str(fault) for fault in found.faults],
        "version": __version__,
    }


def _stages(found: Log) -> str:
    """What rows are counted apart by: "step", "stage" or nothing."""
    if found.shown is None:
        return "step" * (found.problem.table.stages > 1)
    return {found.horizon: "step", 1: ""}.get(found.shown.experience.P, "stage")


def print_certificate(log: str, found: Log, known: Certificate, more: float | None) -> None:
    """A certificate for a person."""
    lines = {
        "log": f"{log}: {found.episodes} episodes, {found.counted} of {found.rows} rows counted",
        "problem": f"{found.states.count} states{'' if found.closed else ' shown'}, "
        f"{found.actions.count} actions, {found.horizon} steps",
        **certificate_lines(known, found.states, found.actions, _stages(found)),
    }
    if not known.certified and known.contradiction is None:
        lines["more"] = (
            "no number of episodes of this kind is enough: some actions were never tried in states "
            "where they matter"
            if more is None
            else f"about {float(f'{more:.2g}'):,.0f} more episodes of this kind to reach epsilon "
            f"{known.epsilon:g}"
        )
    print_lines(lines)
    for fault in found.faults:
        print_lines({"fault": str(fault)})
    print_lines({"assumed": f"\n{'':>14}".join(known.assumed)})
