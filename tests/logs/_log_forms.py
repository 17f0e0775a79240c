"""One log of episodes, written in every form that is read."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Sequence
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import pandas
import polars
import pyarrow
from hypothesis import strategies as st
from pyarrow import parquet

from oracles.slow_log import Form, Happened, Parts

CONTAINERS = (
    *("comma", "semicolon", "tab", "bar", "quoted", "crlf", "utf-16", "latin-1", "gz"),
    *("jsonl", "parquet", "pandas", "polars", "arrow", "reader"),
)
MARKS = {"semicolon": ";", "tab": "\t", "bar": "|"}
TEXTS = ["low", "né", "so, so", "x;y", "3"]
ACTIONS = ["go", "stay"]


@st.composite
def episodes(draw: st.DrawFn, form: Form, longest: int, blanks: bool = False) -> list[Happened]:
    """Episodes that may end early, stop short, or last as long as they can."""
    out = []
    for _ in range(draw(st.integers(1, 6))):
        length = draw(st.integers(1, longest))
        done = draw(st.booleans()) and length < longest
        steps: list[tuple[Parts, str, float | None]] = []
        for t in range(length):
            reward: float | None = draw(st.sampled_from([0.0, 0.5, 1.0, 0.25]))
            if blanks and t + 1 == length < longest and not done:
                reward = draw(st.sampled_from([reward, None]))
            steps.append((draw(states(form)), draw(st.sampled_from(ACTIONS)), reward))
        after = None if done else draw(states(form))
        out.append(Happened(steps, done, after))
    return out


def states(form: Form) -> st.SearchStrategy[Parts]:
    """Return a strategy of states: numbers where they are binned, else strings."""
    numbers = st.integers(-8, 8).map(lambda x: x / 2)
    return st.tuples(
        *(numbers if name in form.cuts else st.sampled_from(TEXTS) for name in form.names)
    )


def as_rows(log: Sequence[Happened], form: Form, times: str) -> list[dict[str, Any]]:
    """A row for each step, with columns of other names than ours."""
    rows = []
    for e, episode in enumerate(log):
        for t, (parts, action, reward) in enumerate(episode.steps):
            row: dict[str, Any] = {"who": f"id{e}", "note": "x"}
            if times != "none":
                row["when"] = time_of(times, e, t)
            row |= dict(zip(form.names, parts, strict=True))
            row |= {"did": action, "paid": reward}
            last = t + 1 == len(episode.steps)
            if form.shows_next:
                then = episode.after if last else episode.steps[t + 1][0]
                values = then or [None] * len(form.names)
                row |= {f"{name}2": x for name, x in zip(form.names, values, strict=True)}
            row["over"] = bool(last and episode.done)
            rows.append(row)
    return rows


def time_of(times: str, e: int, t: int) -> Any:
    """When a step was, as numbers from 0 or 1, or as dates."""
    if times == "dates":
        return (date(2024, 1, 30) + timedelta(days=e % 3 + t * (1 + e % 2))).isoformat()
    if times == "clock":
        return (datetime(2024, 2, 28, 23, 59, 30) + timedelta(seconds=20 * t)).isoformat(" ")
    return t + int(times)


def as_lines(log: Sequence[Happened], form: Form, first: int, H: int) -> list[dict[str, Any]]:
    """A row for each episode; form.shows_next: also with the state after the last step."""
    rows = []
    for e, episode in enumerate(log):
        row: dict[str, Any] = {"who": f"id{e}"}
        for t in range(H + form.shows_next):
            there = t < len(episode.steps)
            parts, action, reward = episode.steps[t] if there else ((None,) * 9, None, None)
            if t == len(episode.steps) and form.shows_next and episode.after is not None:
                parts = episode.after
            for name, part in zip(form.names, parts, strict=False):
                row[f"{name}_{t + first}"] = part
            if t < H:
                row |= {f"did{t + first}": action, f"paid.{t + first}": reward}
        row["over"] = episode.done
        rows.append(row)
    return rows


def columns_of(form: Form, times: str) -> dict[str, Any]:
    """Which column is what, as it is declared."""
    wide = form.whole
    state = [f"{name}_{{t}}" if wide else name for name in form.names]
    out: dict[str, Any] = {
        "episode": "who",
        "state": state if len(state) > 1 else state[0],
        "action": "did{t}" if wide else "did",
        "reward": "paid.{t}" if wide else "paid",
        "done": "over",
    }
    if not wide and form.shows_next:
        out["next_state"] = [f"{name}2" for name in form.names]
    return out | ({"t": "when"} if times != "none" and not wide else {})


def write_as(
    container: str, rows: list[dict[str, Any]], folder: Path
) -> tuple[Any, dict[str, Any]]:
    """The log in a container, and what has to be declared for that."""
    columns = list(rows[0])
    if container == "jsonl":
        path = folder / "log.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path, {}
    if container in ("parquet", "pandas", "polars", "arrow", "reader"):
        return _frame(
            container, {name: [row[name] for row in rows] for name in columns}, folder
        ), {}
    options: dict[str, Any] = {}
    if container == "semicolon":
        options["decimal"] = ","
        rows = [{k: str(x).replace(".", ",") if isinstance(x, float) else x for k, x in row.items()}
                for row in rows]  # fmt: skip
    text = io.StringIO()
    end = "\r\n" if container == "crlf" else "\n"
    style = "unix" if container == "quoted" else "excel"  # which quotes all, or what it must
    writer = csv.writer(text, style, delimiter=MARKS.get(container, ","), lineterminator=end)
    writer.writerow(columns)
    writer.writerows([row[name] for name in columns] for row in rows)
    encoding = container if container in ("utf-16", "latin-1") else "utf-8"
    if encoding != "utf-8":
        options["encoding"] = encoding
    path = folder / ("log.csv.gz" if container == "gz" else "log.csv")
    content = text.getvalue().encode(encoding)
    path.write_bytes(gzip.compress(content) if container == "gz" else content)
    return path, options


def _frame(container: str, columns: dict[str, list[Any]], folder: Path) -> Any:
    if container == "pandas":
        return pandas.DataFrame(columns)
    if container == "polars":
        return polars.DataFrame(columns)
    table = pyarrow.table(columns)
    if container == "reader":
        return table.to_reader(max_chunksize=2)
    if container == "arrow":
        return table
    path = folder / "log.parquet"
    parquet.write_table(table, path)
    return path
