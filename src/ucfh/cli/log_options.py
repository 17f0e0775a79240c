"""The options of all commands that read a log.

A command decorated with `reads_a_log` takes a `LogReading` as its first argument; on the command
line it has the argument LOG and all options of `_declared` instead.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial, wraps
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer

from ucfh.cli.options import (
    AcceptLosses,
    Encoding,
    MaxReturn,
    RewardLimits,
    Segments,
    read_range,
    read_segments,
)
from ucfh.exceptions import InputError, check_count

if TYPE_CHECKING:
    from ucfh.logs.reading import Log
    from ucfh.mdp import Problem

LogPath = Annotated[
    str,
    typer.Argument(
        metavar="LOG",
        help="a .csv, .jsonl or .parquet file, or minari:ID; what LOG.toml says is used",
        show_default=False,
    ),
]
LogProblem = Annotated[
    str | None,
    typer.Option(
        help="model file or named problem that the log is of; default: what the log shows"
    ),
]
Strict = Annotated[bool, typer.Option("--strict", help="refuse the log at its first fault")]
Remember = Annotated[
    bool, typer.Option("--remember", help="write how the log is to be read to LOG.toml")
]


def _declared(
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="your name for a column, as in state=mood; state=level+mood if it is made of two; "
            "state=mood_{t} if a line is an episode; repeatable"
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
    terminal: Annotated[
        str | None,
        typer.Option(
            help="the states in which the task is over, separated by commas, if the log has no "
            "column done"
        ),
    ] = None,
    horizon: Annotated[
        int | None,
        typer.Option(
            help="steps that count in an episode: later ones are left out; default: the longest "
            "in the log"
        ),
    ] = None,
    time_dependent: Annotated[
        bool,
        typer.Option("--time-dependent", help="let transitions and rewards depend on the step t"),
    ] = False,
    segments: Segments = None,
    rewards: RewardLimits = None,
    blank_reward: Annotated[
        float | None, typer.Option(help="what a blank reward means, such as 0; default: a fault")
    ] = None,
    max_return: MaxReturn = None,
    bins: Annotated[
        list[str] | None,
        typer.Option(
            help="cut a number that is part of the state, as in score=40,70; or into quarters as "
            "the first 500 episodes show them, which then do not count: score=quantiles:4:500; "
            "repeatable"
        ),
    ] = None,
    dropouts: Annotated[
        str | None,
        typer.Option(
            help="what it means that an episode stops short: outcome (who leaves is paid nothing "
            "more), lost (what followed may be anything) or random (it has nothing to do with what "
            "would have followed)"
        ),
    ] = None,
    ignore_case: Annotated[
        bool, typer.Option("--ignore-case", help="take names for one that differ only in case")
    ] = False,
    decimal: Annotated[
        str | None, typer.Option(help="what stands before decimals: . or , (default: .)")
    ] = None,
    encoding: Encoding = None,
    accept_losses: AcceptLosses = False,
) -> dict[str, Any]:
    """Return the declared options as arguments of `ucfh.read_log`."""
    parts = read_segments(segments)
    given = {
        "columns": _once("--columns", map(_column, columns)) if columns else None,
        "states": _names("--states", states),
        "actions": _names("--actions", actions),
        "terminal": None if terminal is None else _list("--terminal", terminal),
        "horizon": horizon,
        "time_dependent": time_dependent or parts is True or None,
        "segments": parts if isinstance(parts, list) else None,
        "rewards": None if rewards is None else read_range(rewards),
        "blank_reward": blank_reward,
        "max_return": max_return,
        "bins": _once("--bins", map(_cut, bins)) if bins else None,
        "dropouts": dropouts,
        "ignore_case": ignore_case or None,
        "decimal": decimal,
        "encoding": encoding,
        "accept_losses": accept_losses or None,
    }
    return {name: value for name, value in given.items() if value is not None}


@dataclass(frozen=True)
class LogReading:
    """A log and its options.

    Attributes:
        path: the path of the log.
        given: the declared options, as arguments of `ucfh.read_log`.
        strict: whether to raise at the first issue.
        remember: whether to write the options to the settings file.

    """

    path: str
    given: dict[str, Any]
    strict: bool
    remember: bool

    def read(self, problem: Problem | None = None, force: bool = False) -> Log:
        """Read the log with a progress bar; ``force``: whether to overwrite the settings file."""
        from ucfh._utils.files import refuse_existing
        from ucfh.cli.progress import ProgressBar
        from ucfh.logs.reading import read_log
        from ucfh.logs.settings import combine, read_settings, settings_path, write_settings
        from ucfh.logs.sources import is_file

        if self.remember and not is_file(self.path):
            raise InputError("--remember writes a file beside another one: leave it out")
        if self.remember:
            refuse_existing(settings_path(self.path), force)
        with ProgressBar() as bar:
            show = partial(bar.show, f"reading {self.path}")
            found = read_log(self.path, problem, **self.given, strict=self.strict, progress=show)
        if self.remember:
            before = read_settings(self.path)
            write_settings(self.path, combine(before, self.given), force)
        return found


def reads_a_log(command: Callable[..., None]) -> Callable[..., None]:
    """Decorate a command that takes a `LogReading` with the argument LOG and its options."""
    own = list(inspect.signature(command, eval_str=True).parameters.values())[1:]
    options = list(inspect.signature(_declared, eval_str=True).parameters.values())

    @wraps(command)
    def with_options(log: str, strict: bool, remember: bool, **given: Any) -> None:
        declared = _declared(**{option.name: given.pop(option.name) for option in options})
        command(LogReading(log, declared, strict, remember), **given)

    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [
        inspect.Parameter("log", kind, annotation=LogPath),
        *own[: -len(LAST)],
        *options,
        inspect.Parameter("strict", kind, default=False, annotation=Strict),
        inspect.Parameter("remember", kind, default=False, annotation=Remember),
        *own[-len(LAST) :],
    ]
    assert tuple(option.name for option in own[-len(LAST) :]) == LAST
    signature = inspect.Signature([x.replace(kind=kind) for x in parameters])
    with_options.__signature__ = signature  # type: ignore[attr-defined]
    with_options.__annotations__ = {x.name: x.annotation for x in parameters}
    return with_options


LAST = ("force", "json")
"""The last options in the help of every command that reads a log."""


def _once(option: str, pairs: Iterable[tuple[str, Any]]) -> dict[str, Any]:
    """Return pairs as a dictionary, or raise if a name is repeated."""
    out: dict[str, Any] = {}
    for name, value in pairs:
        if name in out:
            raise InputError(
                f"{option} {name}=... is given twice: keep one (a state of two columns is "
                "--columns state=a+b)"
            )
        out[name] = value
    return out


def _column(text: str) -> tuple[str, str | list[str]]:
    """Parse a log column and its source columns, such as state=s."""
    column, equals, name = text.partition("=")
    if not equals or not name:
        raise InputError(f"--columns {text} needs the name in the file: --columns {column}=NAME")
    parts = name.split("+") if column in ("state", "next_state") else [name]
    return column, parts if len(parts) > 1 else name


def _cut(text: str) -> tuple[str, Any]:
    """Parse a column and its bins, such as score=40,70 or score=quantiles:4:500."""
    column, _, how = text.partition("=")
    word, *numbers = how.split(":")
    try:
        if word == "quantiles":
            number, episodes = map(int, numbers)
            return column, {"quantiles": number, "episodes": episodes}
        return column, [float(x) for x in how.split(",")]
    except ValueError:
        raise InputError(
            f"--bins {text} must name a column and edges, such as score=40,70, or "
            "score=quantiles:4:500"
        ) from None


def _names(option: str, given: str | None) -> list[str] | int | None:
    """Parse names separated by commas, or their number."""
    if given is None:
        return None
    names = [name.strip() for name in given.split(",")]
    if len(names) == 1 and _is_number(names[0]):
        number = float(names[0])
        return check_count(option, int(number) if number.is_integer() else cast(Any, number))
    return _list(option, given)


def _list(option: str, given: str) -> list[str]:
    """Parse names separated by commas."""
    names = [name.strip() for name in given.split(",")]
    if not all(names):
        raise InputError(f"{option} {given!r} leaves a name out: write them with commas between")
    return names


def _is_number(text: str) -> bool:
    with suppress(ValueError):
        float(text)
        return True
    return False
