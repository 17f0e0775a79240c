"""A log without next states, read one row at a time: what followed is what the next row shows."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from math import isnan
from typing import Any

TORN = ("line", "repeat", "after", "t")
LATE = ("reward", "range")  # faults after which the state is still known


@dataclass
class SlowRows:
    """What is counted, and what is wrong, by the line; moves by (segment, s, a, s')."""

    horizon: int = 0
    moves: Counter[Any] = field(default_factory=Counter)
    starts: Counter[str] = field(default_factory=Counter)
    faults: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lost: int = 0
    spoilt: int = 0


def slow_derived(
    rows: list[dict[str, Any]], horizon: int | None = None, dropouts: str | None = None
) -> SlowRows:
    """Read rows, the first of which is line 2."""
    out, episodes = SlowRows(), _episodes(rows)
    times = [_time(row) for row in rows[:1000]]
    first = 1 if 1 in times and 0 not in times else 0
    counted: list[tuple[int, str, str, str]] = []
    waiting: list[tuple[int, str, str, int]] = []  # rows with which episodes stop, and their line
    seen: set[str] = set()
    for episode in episodes:
        faults = [
            _fault(rows, episode, i, first, horizon, str(episode[0][1]) in seen)
            for i in range(len(episode))
        ]
        seen.add(str(episode[0][1]))
        times = [_time(rows[at]) - first for at, _ in episode]
        torn = [i for i, kind in enumerate(faults) if kind in TORN or (kind and times[i] != i)]
        whole = torn[0] if torn else len(episode)
        out.horizon = max([out.horizon, *(due + 1 for due in range(whole))])
        out.faults["line"] += [at + 2 for i, (at, _) in enumerate(episode) if faults[i] == "line"]
        left = None
        for i, (at, _) in enumerate(episode):
            row, kind = rows[at], faults[i]
            s, a = _text(row["state"]), _text(row["action"])
            if left is None:
                if i == 0 and kind in (None, *LATE):
                    out.starts[s] += 1
                where, then = at, None
                if kind is None:
                    kind, then = _after(rows, episode, i, faults, first, horizon)
                    where = at + (kind is not None)
                if kind is not None:
                    left = kind
                    out.spoilt += kind != "long"
                    if kind != "line":
                        out.faults[kind].append(where + 2)
                elif then is None:
                    waiting.append((i, s, a, at))
                else:
                    counted.append((i, s, a, then))
            out.lost += left not in (None, "long") or kind == "line" or faults[i] == "line"
    out.horizon = H = horizon or out.horizon
    for i, s, a, at in waiting:
        if i + 1 == H:
            counted.append((i, s, a, "(end)"))
        elif at + 1 == len(rows):
            out.faults["cut"].append(at + 2)
        elif dropouts == "outcome":
            counted.append((i, s, a, "(left)"))
        elif dropouts is None:
            out.faults["short"].append(at + 2)
            out.spoilt += 1
            out.lost += 1
    for i, s, a, then in counted:
        out.moves[int(H > 1 and i == H - 1), s, a, then] += 1
    out.faults = {kind: sorted(lines) for kind, lines in out.faults.items() if lines}
    return out


def _episodes(rows: list[dict[str, Any]]) -> list[list[tuple[int, Any]]]:
    """Rows with the same id in a row, each with that; one that says none belongs to the last."""
    out: list[list[tuple[int, Any]]] = []
    before: Any = None
    for at, row in enumerate(rows):
        own = row["episode"] if row["episode"] not in (None, "") else before
        if not out or own != before:
            out.append([])
        out[-1].append((at, own))
        before = own
    return out


def _text(value: Any) -> str:
    word = "" if value is None else str(value).strip()
    head, dot, zeros = word.partition(".")
    whole = head.removeprefix("-").isdecimal() and head.isascii()
    return head if dot and whole and not zeros.strip("0") else word


def _time(row: dict[str, Any]) -> int:
    word = _text(row["t"])
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else -10


def _done(row: dict[str, Any]) -> str:
    return _text(row.get("done")).lower()


def _fault(
    rows: list[dict[str, Any]],
    episode: list[tuple[int, Any]],
    i: int,
    first: int,
    horizon: int | None,
    again: bool,
) -> str | None:
    """What is wrong with the i-th row of an episode, by itself and after the one before."""
    row, t = rows[episode[i][0]], _time(rows[episode[i][0]]) - first
    # the last row of an episode that ends early may lack its reward
    early = horizon is not None and i + 1 < horizon and i + 1 == len(episode)
    blank = early and not _text(row["reward"]) and _done(row) not in ("1", "true")
    try:
        reward = 0.0 if blank else float(row["reward"])
    except ValueError:
        reward = float("nan")
    odd = _done(row) not in ("", "0", "1", "false", "true")
    wrong = {
        "line": row["episode"] in (None, "") or odd or not _text(row["action"]),
        "repeat": again and i == 0,
        "after": i > 0 and _done(rows[episode[i - 1][0]]) in ("1", "true"),
        "long": horizon is not None and min(i, t) >= horizon,
        "t": t != i,
        "state": not _text(row["state"]),
        "reward": isnan(reward),
        "range": not 0 <= reward <= 1,
    }
    return next((kind for kind, is_so in wrong.items() if is_so), None)


def _after(
    rows: list[dict[str, Any]],
    episode: list[tuple[int, Any]],
    i: int,
    faults: list[str | None],
    first: int,
    horizon: int | None,
) -> tuple[str | None, str | None]:
    """The fault of the next row that hides what followed, or what did; (None, None): nothing."""
    if _done(rows[episode[i][0]]) in ("1", "true"):
        return None, "(end)"
    if i + 1 == horizon:
        return None, "(end)"
    if i + 1 == len(episode):
        return None, None
    following = rows[episode[i + 1][0]]
    said = following["episode"] not in (None, "")
    if said and _text(following["state"]) and _time(following) - first == i + 1:
        return None, _text(following["state"])
    return faults[i + 1], None
