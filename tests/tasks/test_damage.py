"""Damaged stores: every call ends, with an answer or with one line; `check` reports the damage.

More of them, at random, are in `tests/slow/test_damage.py`.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from random import Random
from typing import Any

import pytest

import ucfh
from support.command_line import run
from support.damaging import examine, fuzz, sound_store
from ucfh.tasks.sql_reading import with_checksum, without_checksum

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("sound") / "sound.db"
    sound_store(path)
    return path.read_bytes()


@pytest.fixture
def path(sound: bytes, tmp_path: Path) -> Path:
    path = tmp_path / "shop.db"
    path.write_bytes(sound)
    return path


def change(path: Path, *statements: str) -> None:
    with sqlite3.connect(path) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()


TASK = "task=(SELECT id FROM tasks WHERE name='calls')"
LAST = f"(SELECT max(seq) FROM events WHERE {TASK})"
DAMAGED = {
    "a decision is missing": f"DELETE FROM events WHERE {TASK} AND seq=1",
    "an event in the middle is missing": f"DELETE FROM events WHERE {TASK} AND seq=50",
    "the last events are missing": f"DELETE FROM events WHERE {TASK} AND seq>{LAST}-5",
    "all events but one are missing": f"DELETE FROM events WHERE {TASK} AND seq!=200",
    "an unknown state": f"UPDATE events SET state=77 WHERE {TASK} AND seq=40",
    "an unknown action": f"UPDATE events SET action=77 WHERE {TASK} AND kind=0 AND seq<9",
    "a step beyond the horizon": f"UPDATE events SET t=9 WHERE {TASK} AND seq=40",
    "a reward that is none": f"UPDATE events SET reward='x' WHERE {TASK} AND kind=1 AND seq<40",
    "a label that is not JSON": f"UPDATE states SET label='x' WHERE {TASK} AND number=1",
    "a state is missing": f"DELETE FROM states WHERE {TASK} AND number=1",
    "another epsilon": "UPDATE tasks SET declaration=replace(declaration, '0.5', '0.9')",
    "no declaration": "UPDATE tasks SET declaration='' WHERE name='calls'",
    "bytes for a text": "UPDATE tasks SET declaration=x'ff00' WHERE name='calls'",
    "a damaged snapshot": f"UPDATE snapshots SET blob=x'00' WHERE {TASK}",
}


@pytest.mark.parametrize("statement", DAMAGED.values(), ids=DAMAGED.keys())
def test_what_is_damaged_is_reported(
    statement: str, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    change(path, statement)
    found = examine(path, tmp_path, patience=10)
    assert found.wrong == []
    code, out, err = run(capsys, "task", "check", str(path), "--task", "calls")
    assert code == 1
    assert "check" in out
    assert all(len(line) < 500 for line in out.splitlines())
    assert err == ""


def test_a_changed_step_is_found(path: Path) -> None:
    """Also one whose outcome is not counted yet, as an earlier decision is open."""
    whole, draw = path.read_bytes(), Random(5)
    with ucfh.open_task(path, "calls", planning="off") as task:
        kept = task.store.snapshot(task.number)
        told = [x for x in task.decisions("told") if kept is not None and x["number"] < kept[0]]
    for step in draw.sample(told, 10):
        path.write_bytes(whole)
        here = f"{TASK} AND t={step['t']} AND kind=1 AND episode=(SELECT id FROM episodes e "
        here += f"WHERE e.task=events.task AND name='{step['episode']}')"
        column = draw.choice(["reward=reward/2+0.1", "state=(state+1)%4"])
        change(path, f"UPDATE events SET {column} WHERE {here}")
        with ucfh.open_task(path, "calls", planning="off") as task:
            assert task.check() != [], (step, column)


def test_bounds_are_not_those_of_another_declaration(path: Path) -> None:
    change(path, "UPDATE tasks SET declaration=replace(declaration, '0.1', '0.9')")
    with pytest.raises(ucfh.StoreError, match="is damaged"):
        ucfh.open_task(path, "calls", planning="off")


def test_events_that_vanished_are_not_numbered_again(path: Path) -> None:
    """An agent that has taken event 400 would pass over new ones with lower numbers."""
    change(path, f"DELETE FROM events WHERE {TASK} AND seq>{LAST}-5", "DELETE FROM waiting")
    with ucfh.open_task(path, "calls", planning="off") as task:
        task.ask("s1", "after")
        with pytest.raises(ucfh.StoreError, match="is damaged"):
            task.certificate()


def test_texts_are_sealed() -> None:
    for text in ('{"a": 1}', "{}", '{"ü": "\ud800"}'):
        kept = with_checksum(text)
        assert without_checksum(kept) == text
        for i in range(len(kept)):
            with pytest.raises(ValueError, match="checksum"):
                without_checksum(kept[:i] + "~" + kept[i + 1 :])


def test_random_damage(tmp_path: Path) -> None:
    found: list[Any] = fuzz(tmp_path, 12, seed=2, patience=10)
    assert [x.wrong for *_, x in found if x.wrong] == []
    for *_, right, x in found:
        if x.bounds is not None and not x.found and not x.refused:
            assert x.bounds == right
