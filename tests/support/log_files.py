"""Log files: random ones with errors, a slow reader, and small logs written by hand."""

from __future__ import annotations

import csv
import io
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import fsum
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pyarrow import parquet

from support.settings import many
from ucfh import Log, Problem, read_log
from ucfh._utils.files import labels_of

HARMLESS = ("cut", "long")
COLUMNS = ["episode", "t", "state", "action", "reward", "next_state", "done"]


@dataclass
class Slow:
    """Result of the slow reader, by label."""

    episodes: int = 0
    rows: int = 0
    counted: int = 0
    horizon: int = 0
    terminal: set[str] = field(default_factory=set)
    states: set[str] = field(default_factory=set)
    actions: set[str] = field(default_factory=set)
    start: Counter[str] = field(default_factory=Counter)
    moves: Counter[Any] = field(default_factory=Counter)  # by (t or 0, s, a, s')
    paid: dict[Any, list[float]] = field(default_factory=lambda: defaultdict(list))  # likewise
    faults: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    lost: int = 0
    spoilt: int = 0  # episodes that are left at a fault, or stop short
    # by ("step" or "state" or "action", label): of each of its rows, whether it is lost
    rows_of: dict[Any, list[bool]] = field(default_factory=lambda: defaultdict(list))

    @property
    def has_lost_its_point(self) -> bool:
        """Return whether too many are lost: of all, of one episode in a hundred, or of a part."""
        if self.lost > 0.005 * self.rows or self.spoilt > 0.01 * self.episodes:
            return True
        if {"start", "excluded", "range"} & set(self.faults):
            return True
        for (what, _), lost in self.rows_of.items():
            many = sum(lost) > max(5, 0.05 * len(lost))
            if many and not (what == "pair" and all(lost)):
                return True
            if what != "pair" and all(lost):
                return True
        return False


def rows_of(path: Path) -> list[tuple[int, dict[str, Any] | str]]:
    """Line and values of every row, or "line" or "cut" if it cannot be read."""
    if path.suffix == ".parquet":
        table = parquet.read_table(path).to_pylist()
        return [(i + 1, row) for i, row in enumerate(table)]
    content = path.read_bytes()
    if path.suffix == ".jsonl":
        return list(_json_rows(content))
    return list(_csv_rows(content))


def _json_rows(content: bytes) -> Iterator[tuple[int, dict[str, Any] | str]]:
    for i, line in enumerate(content.split(b"\n")):
        if not line.strip():
            continue
        try:
            row = json.loads(line)
            yield i + 1, row if isinstance(row, dict) else "line"
        except ValueError:
            yield i + 1, "cut" if i == content.count(b"\n") else "line"


def _csv_rows(content: bytes) -> Iterator[tuple[int, dict[str, Any] | str]]:
    whole, _, tail = content.rpartition(b"\n")
    lines = io.StringIO(whole.decode("utf-8-sig") + "\n", newline="")
    reader = csv.DictReader(lines, restkey="too many", strict=True)
    while True:
        try:
            row = next(reader, None)
        except csv.Error:
            yield reader.reader.line_num, "line"
            continue
        if row is None:
            break
        complete = "too many" not in row and None not in row.values()
        yield reader.reader.line_num, row if complete else "line"
    if tail:
        yield reader.reader.line_num + 1, "cut"


def text(value: Any) -> str:
    word = "" if value is None else str(value).strip()
    head, dot, zeros = word.partition(".")
    whole = head.removeprefix("-").isdecimal() and head.isascii()
    return head if dot and whole and not zeros.strip("0") else word


def slow_read(
    path: Path,
    problem: Problem | None = None,
    states: Sequence[str] | None = None,
    actions: Sequence[str] | None = None,
    horizon: int | None = None,
    time_dependent: bool = False,
) -> Slow:
    """Read a log one row at a time, with one row of foresight.

    A row that is done and does not say where leads to "(end)".
    """
    out, rows = Slow(), rows_of(path)
    if problem is not None:
        horizon, time_dependent = problem.horizon, problem.table.segments > 1
        labels = labels_of(problem)
        states, actions = ([str(x.label(i)) for i in range(x.count)] for x in labels)
    allowed = _Allowed(problem, states, actions)
    times = [_time(row.get("t")) for _, row in rows[:1000] if isinstance(row, dict)]
    first = 1 if 1 in times and 0 not in times else 0

    def value(i: int, column: str) -> Any:
        row = rows[i][1] if i < len(rows) else ""
        return row.get(column) if isinstance(row, dict) else None

    def state(i: int, column: str) -> str:
        return allowed.state(value(i, column))

    # a row without an id belongs to the episode before it
    ids: list[Any] = []
    for i in range(len(rows)):
        own = value(i, "episode")
        ids.append(own if own not in (None, "") else ids[-1] if ids else None)
    seen: list[Any] = []
    ends: list[tuple[bool, int, str, int]] = []
    unfinished, ended = None, False
    left, due, over, torn = "", -1, False, False
    went_on: set[str] = set()
    going_on: set[tuple[str, str]] = set()  # pairs of rows that are not done
    ending: set[tuple[str, str, str]] = set()  # with their next_state, of those that are
    arrived: dict[bool, set[str]] = {True: set(), False: set()}  # by whether it was done
    for i, (line, row) in enumerate(rows):
        new = i == 0 or ids[i] != ids[i - 1]
        again = new and ids[i] in seen
        if new:
            seen.append(ids[i])
            left, due, over, torn = "", -1, False, False
            out.episodes += 1
        due += 1
        t = _time(value(i, "t")) - first
        s, following = state(i, "state"), state(i, "next_state")
        a = allowed.action(value(i, "action"))
        done = text(value(i, "done")).lower()
        if problem is None and done in ("1", "true") and not following:
            following = "(end)"
        if isinstance(row, dict):
            out.states |= {text(row.get(name)) for name in ("state", "next_state")} - {""}
            out.actions |= {text(row.get("action"))} - {""}
        try:
            reward = float(value(i, "reward"))
        except (TypeError, ValueError):
            reward = float("nan")
        if problem is not None and problem.rewards is not None:
            reward = 0.0
        ends_here = done in ("1", "true") or allowed.ends(following)
        is_next = (
            i + 1 < len(rows) and ids[i + 1] == ids[i] and _time(value(i + 1, "t")) - first == t + 1
        )
        unclear = value(i, "episode") in (None, "") or done not in ("", "0", "1", "false", "true")
        wrong: dict[str, bool] = {
            "cut": row == "cut",
            "line": row == "line" or unclear or not a,
            "repeat": again,
            "after": over or allowed.ends(s),
            "long": horizon is not None and min(t, due) >= horizon,
            "t": t != due,
            "state": s in ("", UNKNOWN),
            "start": new and not allowed.may_start(s),
            "action": not allowed.has(s, a),
            "reward": reward != reward,
            "range": not 0 <= reward <= 1,
            "next_state": following in ("", UNKNOWN),
            "excluded": not allowed.may_follow(t, s, a, following),
            "mismatch": is_next and not ends_here and state(i + 1, "state") not in ("", following),
        }
        kind = next((kind for kind, is_so in wrong.items() if is_so), None)
        late = ("action", "reward", "range", "next_state", "excluded", "mismatch")
        if new and kind in (None, *late):
            out.start[s] += 1
        if kind is not None and (not left or kind in ("line", "cut")):
            out.faults[kind].append(line)
        out.spoilt += not left and kind not in (None, *HARMLESS)
        left = left or kind or ""
        torn = torn or kind in ("line", "cut", "repeat", "after", "t") or t != due
        if not torn:
            out.horizon = max(out.horizon, t + 1)
        lost = left not in ("", *HARMLESS) or kind == "line"
        out.lost += lost
        readable = isinstance(row, dict)
        for what, label, is_there in (
            ("step", str(t + first), not torn),
            ("state", s, readable and s not in ("", UNKNOWN)),
            ("action", a, readable and a not in ("", UNKNOWN)),
        ):
            if is_there:
                out.rows_of[what, label].append(lost)
        if (lost or not left) and readable and not {s, a} & {"", UNKNOWN}:
            out.rows_of["pair", (s, a)].append(lost)
        went_on.add(s)
        if done not in ("1", "true"):
            arrived[False].add(following)
        elif not left and following != "(end)":
            arrived[True].add(following)
            ending.add((s, a, following))
        if done not in ("1", "true") and not {s, a} & {"", UNKNOWN}:
            going_on.add((s, a))
        if not left:
            ended = ended or following == "(end)"
            segment = t if time_dependent else 0
            out.moves[segment, s, a, following] += 1
            out.paid[segment, s, a, following].append(reward)
            out.counted += 1
            if done in ("1", "true") or (i + 1 < len(rows) and ids[i + 1] != ids[i]):
                ends.append((done in ("1", "true"), t + 1, following, line))
            elif i + 1 == len(rows):
                unfinished = t + 1, following, line
        over = ends_here
    out.rows = len(rows)
    out.horizon = horizon or out.horizon
    out.states = set(states) if states is not None else out.states
    out.actions = set(actions) if actions is not None else out.actions
    if problem is None:
        early = {s for said, length, s, _ in ends if said and length < out.horizon}
        by_time = {after for s, a, after in ending if (s, a) in going_on}
        always = arrived[True] - arrived[False] - by_time
        out.terminal = (early if arrived[True] & went_on else early | always) - went_on
    else:
        out.terminal = set(allowed.terminal)
    if ended:
        out.states, out.terminal = out.states | {"(end)"}, out.terminal | {"(end)"}
    for said, length, s, line in ends:
        if length < out.horizon and s not in out.terminal:
            out.faults["done" if said else "short"].append(line)
            out.spoilt += 1
    if unfinished and unfinished[0] < out.horizon and unfinished[1] not in out.terminal:
        out.faults["cut"].append(unfinished[2])
    return out


def _time(value: Any) -> int:
    word = text(value)
    return int(word) if word.isascii() and word.isdigit() and len(word) < 10 else -10


class _Allowed:
    """Labels that the problem or the declaration allows; by default all."""

    def __init__(
        self,
        problem: Problem | None,
        states: Sequence[str] | None,
        actions: Sequence[str] | None,
    ) -> None:
        self.problem, self.states, self.actions = problem, states, actions
        self.entries: set[Any] = set()
        self.terminal: list[str] = []
        if problem is not None and states is not None and actions is not None:
            table = problem.table
            self.terminal = [states[s] for s in problem.terminal]
            for row in range(table.rows):
                t, s, a = table.pair_of(row)
                where = (t, states[s], actions[a]) if s >= 0 else ("start",)
                for following in table.indices[table.entries_of(row)]:
                    self.entries.add((*where, states[following]))

    def state(self, value: Any) -> str:
        return _find(value, self.states)

    def action(self, value: Any) -> str:
        return _find(value, self.actions)

    def ends(self, s: str) -> bool:
        return s in self.terminal

    def may_start(self, s: str) -> bool:
        return self.problem is None or ("start", s) in self.entries

    def has(self, s: str, a: str) -> bool:
        known = a not in ("", UNKNOWN)
        return known and (self.problem is None or any(e[1:3] == (s, a) for e in self.entries))

    def may_follow(self, t: int, s: str, a: str, following: str) -> bool:
        if self.problem is None:
            return following not in ("", UNKNOWN)
        segment = t if self.problem.table.segments > 1 else 0
        return (segment, s, a, following) in self.entries


UNKNOWN = "nobody's name"


def _find(value: Any, names: Sequence[str] | None) -> str:
    word = text(value)
    if names is None or not word:
        return word
    for name in (str(value), str(value).strip(), word):
        if name in names:
            return name
    numbers = {str(i): name for i, name in enumerate(names)}
    return numbers.get(word, UNKNOWN)


def assert_same(log: Log, slow: Slow) -> None:
    """The fast reader found what the slow one did, to the last bit, but for sums of rewards."""
    states, actions = labels_of(log.problem)
    table, counts = log.problem.table, log.counts
    assert (log.rows, log.episodes, log.counted) == (slow.rows, slow.episodes, slow.counted)
    assert {str(states.label(s)) for s in range(states.count)} == slow.states
    assert {str(actions.label(a)) for a in range(actions.count)} == slow.actions
    assert log.problem.horizon == slow.horizon
    assert {str(states.label(s)) for s in log.problem.terminal} == slow.terminal
    moves: Counter[Any] = Counter()
    sums, ends, learned = {}, {}, len(counts.rewards) > 0
    for row in range(table.start):
        t, s, a = table.pair_of(row)
        where = (t, str(states.label(s)), str(actions.label(a)))
        for e in range(*table.entries_of(row).indices(table.entries)):
            if counts.successors[e]:
                move = (*where, str(states.label(int(table.indices[e]))))
                moves[move] = int(counts.successors[e])
                if learned:
                    sums[move], ends[move] = counts.rewards[e], (counts.least[e], counts.most[e])
    assert moves == slow.moves
    if learned:
        assert ends == {move: (min(x), max(x)) for move, x in slow.paid.items()}
        assert sums == pytest.approx({move: fsum(x) for move, x in slow.paid.items()}, rel=1e-14)
    begin = table.entries_of(table.start)
    start = zip(table.indices[begin], counts.successors[begin], strict=True)
    assert Counter({str(states.label(int(s))): int(n) for s, n in start if n}) == slow.start
    np.testing.assert_array_equal(
        counts.visits, np.add.reduceat(counts.successors, table.indptr[:-1])
    )
    found = {fault.kind: (fault.count, fault.lines) for fault in log.faults}
    assert found == {
        kind: (len(lines), tuple(sorted(lines)[:3])) for kind, lines in slow.faults.items()
    }
    harmful = set(slow.faults) - {*HARMLESS}
    assert bool(harmful) == ("issues" in {x.code for x in log.assumptions})


def write(rows: list[dict[str, Any]], path: Path, quote: bool = False, end: str = "\n") -> Path:
    """A log of these rows, by the ending of the path."""
    columns = list(dict.fromkeys(key for row in rows for key in row)) or COLUMNS
    if path.suffix == ".parquet":
        lists = {
            name: [None if row[name] in ("", None) else str(row[name]) for row in rows]
            for name in columns
        }
        fields = [(name, pyarrow.string()) for name in columns]
        parquet.write_table(pyarrow.table(lists, schema=pyarrow.schema(fields)), path)
    elif path.suffix == ".jsonl":
        path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), "utf-8")
    else:
        with open(path, "w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file, "unix" if quote else "excel", lineterminator=end)
            writer.writerow(columns)
            writer.writerows(row.values() for row in rows)
    return path


STATES = ["0", "1", "home", "x,y", 'q"t', "ζ", "two\nlines", "u\x1f, v"]
ACTIONS = ["go", "0", "stay, a while"]
JUNK = [
    "",
    " ",
    "zzz",
    "-1",
    "1.5",
    "nan",
    "inf",
    "0",
    "1",
    "2",
    "3.0",
    "1e3",
    "true",
    "home",
    "go",
]


@st.composite
def logs(draw: st.DrawFn) -> list[dict[str, Any]]:
    """Rows of some episodes that follow a random table, with random faults."""
    states = draw(st.lists(st.sampled_from(STATES), min_size=1, max_size=4, unique=True))
    actions = draw(st.lists(st.sampled_from(ACTIONS), min_size=1, max_size=2, unique=True))
    horizon, first = draw(st.integers(1, 4)), draw(st.sampled_from([0, 0, 1]))
    ends = draw(st.sampled_from([None, None, "end"]))
    says_done = ends is not None or draw(st.booleans())
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    names = draw(st.sampled_from(["{}", "ep-{}"]))
    rows: list[dict[str, Any]] = []
    for e in range(draw(st.integers(0, 8))):
        s = states[rng.integers(len(states))]
        for t in range(horizon):
            following = states[rng.integers(len(states))]
            if ends is not None and rng.random() < 0.2:
                following = ends
            row = [names.format(e), t + first, s, actions[rng.integers(len(actions))]]
            row += [rng.choice([0, 1, 0.1, rng.random()]).item(), following]
            done = following == ends or (t + 1 == horizon and rng.random() < 0.3)
            row += [str(done).lower()] * says_done
            rows.append(dict(zip(COLUMNS, row, strict=False)))
            s = following
            if s == ends:
                break
    for _ in range(draw(st.integers(0, 4))):
        if rows:
            _damage(rows, draw)
    return rows


def _damage(rows: list[dict[str, Any]], draw: st.DrawFn) -> None:
    i = draw(st.integers(0, len(rows) - 1))
    what = draw(st.sampled_from(["change", "change", "change", "drop", "double", "swap", "copy"]))
    if what == "change":
        rows[i] = rows[i] | {draw(st.sampled_from(list(rows[i]))): draw(st.sampled_from(JUNK))}
    elif what == "drop":
        del rows[i]
    elif what == "double":
        rows.insert(i, dict(rows[i]))
    elif what == "swap":
        j = draw(st.integers(0, len(rows) - 1))
        rows[i], rows[j] = rows[j], rows[i]
    else:
        column, j = draw(st.sampled_from(list(rows[i]))), draw(st.integers(0, len(rows) - 1))
        rows[i] = rows[i] | {column: rows[j][column]}


@st.composite
def problems(draw: st.DrawFn) -> Problem:
    """Problems that fit some of the logs, and some of whose parts do not."""
    states = draw(st.permutations([*STATES[:4], "end"]))
    actions = draw(st.permutations(ACTIONS))
    S, A, H = len(states), len(actions), draw(st.integers(1, 4))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    segments = draw(st.sampled_from([1, H]))
    mask = rng.random((segments, S, A, S)) < draw(st.sampled_from([0.8, 1.0]))
    mask[..., 0] = True
    available = rng.random((S, A)) < draw(st.sampled_from([0.8, 1.0]))
    available[:, 0] = True
    initial = np.where(rng.random(S) < 0.8, 1.0, 0.0)
    initial[0] = 1
    return Problem(
        S,
        A,
        H,
        rewards=draw(st.sampled_from([None, np.zeros((S, A))])),
        successors=mask if segments > 1 else mask[0],
        initial=draw(st.sampled_from([None, initial / initial.sum()])),
        available=available,
        terminal=draw(st.sampled_from([[], [states.index("end")]])),
        state_names=draw(st.sampled_from([states, None])),
        action_names=draw(st.sampled_from([actions, None])),
    )


HEAD = "episode,t,state,action,reward,next_state,done\n"
TOLD = Problem(
    3,
    2,
    2,
    initial=0,
    available=[[True, True], [True, False], [True, True]],
    successors=np.array([[[1, 1, 0], [0, 0, 1]], [[0, 1, 1], [1, 1, 1]], [[0, 0, 1]] * 2], bool),
    terminal=[2],
    state_names=["a", "b", "end"],
    action_names=["x", "y"],
)


FUZZ = settings(
    deadline=None,
    max_examples=many(60, 150),
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def read(text: str | bytes, tmp_path: Path, *args: Any, **options: Any) -> Log:
    """The log in a .csv file with the usual columns."""
    path = tmp_path / "log.csv"
    path.write_bytes(text if isinstance(text, bytes) else (HEAD + text).encode())
    return read_log(path, *args, **{"accept_losses": True, **options})


GOOD = "0,0,a,x,0.5,b,\n0,1,b,x,1,b,\n"


def assumed(log: Log) -> dict[str, str]:
    """Return the assumptions of a log, the sentence by the code."""
    return {x.code: x.text for x in log.assumptions}
