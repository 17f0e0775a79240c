"""The summary of a log that ``--check`` prints."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ucfh.cli.printing import join_lines, print_json, print_lines, print_table

if TYPE_CHECKING:
    from collections.abc import Mapping

    from ucfh.logs.reading import Log

MOST_NAMED = 8
"""The largest number of states or actions that are listed."""


def show_log(path: str, log: Log, json: bool) -> None:
    """Print the summary of a log."""
    if json:
        print_json(as_dict(path, log))
        return
    how = log.understood
    beside = "" if how.settings is None else f", with what {how.settings} says"
    reads = [f"{column} is {name}" for column, name in how.columns.items()]
    lines = {
        "log": f"{path}: {how.kind}{beside}",
        "columns": join_lines(reads),
        "t": how.t,
        "episodes": f"{log.episodes}, of {log.horizon} steps at most",
        "rows": f"{log.rows}, of which {log.counted} are counted",
        "states": _most(how.states),
        "actions": _most(how.actions),
        "rewards": _rewards(log),
    }
    if how.dropouts:
        lines["drop-outs"] = f"{how.dropouts} episodes stop short"
    print_lines(lines)
    if how.sample:
        print_lines({"example": "the first steps that count:"})
        headings = ("t", "state", "action", "reward", "next state")
        print_table(
            [{"header": name} for name in headings],
            [[str(t), s, a, f"{r:g}", after] for t, s, a, r, after in how.sample],
        )
    print_notes(log)
    print_lines({"assumed": join_lines(map(str, log.assumptions))})
    for issue in log.faults:
        print_lines({"fault": str(issue)})


def print_notes(log: Log) -> None:
    """Print the notes on a log, if there are any."""
    if log.notes:
        print_lines({"note": join_lines(log.notes)})


def as_dict(path: str, log: Log) -> dict[str, Any]:
    """Return the summary of a log as a JSON object."""
    from dataclasses import asdict

    return {
        "log": path,
        **asdict(log.understood),
        "episodes": log.episodes,
        "rows": log.rows,
        "counted": log.counted,
        "horizon": log.horizon,
        "truncated": log.truncated,
        "range": [log.units.low, log.units.high],
        "max_return": log.max_return,
        "notes": list(log.notes),
        "assumed": [x.text for x in log.assumptions],
        "faults": [str(fault) for fault in log.faults],
    }


def _most(rows: Mapping[str, int]) -> str:
    """Return the most frequent names with their numbers of rows."""
    some = ", ".join(f"{name} ({n:,})" for name, n in [*rows.items()][:MOST_NAMED])
    return f"{len(rows)}: {some}{', ...' if len(rows) > MOST_NAMED else ''}"


def _rewards(log: Log) -> str:
    """Return the ranges of logged and of possible rewards."""
    how = log.understood
    if how.rewards is None:
        return "none are read"
    least, most = how.rewards
    text = f"from {least:g} to {most:g} in the log; possible are {log.units}"
    if len(log.returns):
        text += f"; an episode was paid {log.returns.mean():.4g} on average and "
        text += f"{log.returns.max():g} at most"
    return text if log.max_return is None else f"{text}; possible are {log.max_return:g}"
