"""The store in SQLite: files that are none, versions, locks, full disks, forks."""

from __future__ import annotations

import gc
import multiprocessing
import os
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import ucfh
from ucfh.tasks import file_lock
from ucfh.tasks.sql_schema import VERSION
from ucfh.tasks.sql_transaction import LAST, PAID, STEP
from ucfh.tasks.sqlite import SqliteStore
from ucfh.tasks.sqlite_schema import APPLICATION
from ucfh.tasks.task import Task

SHOP: dict[str, Any] = {"actions": ["a", "b"], "horizon": 3, "epsilon": 0.5, "planning": "off"}


def open_shop(path: Path) -> Task:
    return ucfh.open_task(path, **SHOP)


def set_pragma(path: Path, name: str, value: int) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute(f"PRAGMA {name}={value}")
    connection.close()


# files


def test_files_that_are_no_stores(tmp_path: Path) -> None:
    other, text, short = (tmp_path / name for name in ("other.db", "notes.txt", "short.txt"))
    text.write_text("notes of something else, longer than a header " * 10)
    short.write_text("notes")
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE mine (x)")
    connection.close()
    before = {path: path.read_bytes() for path in (other, text, short)}
    for path, why in (
        (text, "is not a store of tasks"),
        (short, "is not a store of tasks"),
        (other, "is a database of another program"),
        (tmp_path, "is not a file"),
        (tmp_path / "no" / "shop.db", "the folder .* does not exist"),
    ):
        with pytest.raises(ucfh.StoreError, match=why) as fault:
            open_shop(path)
        assert "\n" not in str(fault.value)
        assert fault.value.status == 500
    assert {path: path.read_bytes() for path in before} == before
    assert {path.name for path in tmp_path.iterdir()} == {path.name for path in before}


def test_a_store_is_not_made_by_looking_for_it(tmp_path: Path) -> None:
    with pytest.raises(ucfh.StoreError, match="does not exist"):
        ucfh.open_task(tmp_path / "shop.db", planning="off")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "empty.db").touch()
    with pytest.raises(ucfh.StoreError, match="is empty"):
        ucfh.open_task(tmp_path / "empty.db", planning="off")
    open_shop(tmp_path / "empty.db").close()


def test_a_creation_that_was_cut_off_is_taken_up(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")  # the file is there, and has no tables
    connection.close()
    with open_shop(path) as task:
        task.ask("s", "e")


def test_a_damaged_store_is_said_to_be(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with open_shop(path) as task:
        for e in range(200):
            task.ask("s", f"e{e}")
    whole = path.read_bytes()
    path.write_bytes(whole[:4096] + bytes(4096) * (len(whole) // 4096 - 1))
    with pytest.raises(ucfh.StoreError, match="is damaged"), open_shop(path) as task:
        task.ask("s", "e")


def test_a_new_store_has_the_settings_it_needs(tmp_path: Path) -> None:
    with open_shop(tmp_path / "shop.db") as task:
        assert isinstance(task.store, SqliteStore)
        for connection in (task.store.connection, task.store.reader):
            found = [
                connection.execute(f"PRAGMA {name}").fetchone()[0]
                for name in ("journal_mode", "synchronous", "application_id", "user_version")
            ]
            assert found == ["wal", 2, APPLICATION, VERSION]


# versions


def test_a_store_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    open_shop(path).close()
    for version in (2, VERSION + 1):
        set_pragma(path, "user_version", version)
        with pytest.raises(ucfh.StoreError) as caught:
            open_shop(path)
        said = str(caught.value)
        assert said.startswith(f"{path} has tables of version {version}, and this version of ucfh")
        assert "Fix: export its log with the version of ucfh that made it" in said
        assert "\n" not in said


# locks


def test_a_lock_that_another_process_holds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_lock, "PATIENCE", 0.05)
    path = tmp_path / "shop.db"
    with open_shop(path) as task:
        other = file_lock.FileLock(f"{path}-lock")
        other.acquire("me")
        with pytest.raises(ucfh.StoreBusy, match=r"shop.db is locked by another process"):
            task.ask("s", "e")
        with pytest.raises(ucfh.StoreBusy):
            open_shop(path)
        assert task.status().begun == 0
        other.close()
        assert task.ask("s", "e").t == 0


def test_the_same_key_again_is_harmless_after_a_busy_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restart or a lock of the database: the call fails as a whole, and can be repeated."""
    monkeypatch.setattr(file_lock, "PATIENCE", 0.05)
    with open_shop(tmp_path / "shop.db") as task:
        first = task.ask("s", "v1")
        other = sqlite3.connect(tmp_path / "shop.db", isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(ucfh.StoreBusy, match="locked by another process") as busy:
            task.tell(first, reward=0, state="t")
        assert busy.value.status == 503
        assert task.status().outcomes == 0  # reading goes on
        other.execute("COMMIT")
        other.close()
        second = task.tell(first, reward=0, state="t")
        assert second == task.tell(first, reward=0, state="t")


def test_closing_waits_for_the_lock_or_leaves_the_file_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(file_lock, "PATIENCE", 0.05)
    path = tmp_path / "shop.db"
    task = open_shop(path)
    task.ask("s", "e")
    other = file_lock.FileLock(f"{path}-lock")
    other.acquire("me")
    task.close()
    assert Path(f"{path}-wal").stat().st_size > 0  # it was not emptied without the lock
    other.close()
    with open_shop(path) as again:
        assert again.ask("s", "e").t == 0


def test_what_is_closed_is_closed(tmp_path: Path) -> None:
    task = open_shop(tmp_path / "shop.db")
    task.close()
    task.close()
    with pytest.raises(ucfh.StoreError, match="was closed: open the task again"):
        task.ask("s", "e")
    with pytest.raises(ucfh.StoreError, match="was closed"):
        task.status()


def test_what_is_forgotten_is_closed(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    task = open_shop(path)
    task.ask("s", "e")
    assert Path(f"{path}-wal").exists()
    del task
    gc.collect()
    assert not Path(f"{path}-wal").exists()


def test_closing_while_others_ask(tmp_path: Path) -> None:
    """They get an error of one line, or an answer that is kept."""
    task, answers, errors = open_shop(tmp_path / "shop.db"), [], []

    def work(k: int) -> None:
        for e in range(1000):
            try:
                answers.append(task.ask("s", f"{k}-{e}"))
            except ucfh.StoreError as error:
                errors.append(str(error))
                return

    threads = [threading.Thread(target=work, args=(k,)) for k in range(3)]
    for thread in threads:
        thread.start()
    while len(answers) < 20:
        time.sleep(0.001)
    task.close()
    for thread in threads:
        thread.join()
    assert len(errors) == 3
    with open_shop(tmp_path / "shop.db") as again:
        assert again.status().begun == len(answers)


# disks


@contextmanager
def as_nobody() -> Iterator[None]:
    """Without the right of an administrator to write anywhere."""
    if os.geteuid() != 0:
        yield
        return
    os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(0)


@pytest.fixture
def readable() -> Iterator[Path]:
    """A store that everybody may read and nobody may write."""
    folder = Path(tempfile.mkdtemp())
    with open_shop(folder / "shop.db") as task:
        task.ask("s", "e")
    yield folder / "shop.db"
    folder.chmod(0o755)
    shutil.rmtree(folder)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="another system of rights")
@pytest.mark.parametrize("locked", ["folder", "file"])
def test_a_store_that_is_read_only(readable: Path, locked: str) -> None:
    Path(f"{readable}-lock").chmod(0o666)
    readable.chmod(0o444)
    readable.parent.chmod(0o555 if locked == "folder" else 0o777)
    with (
        as_nobody(),
        pytest.raises(ucfh.StoreError, match=r"make .*writable") as fault,
        open_shop(readable) as task,
    ):
        task.ask("s", "e2")
    assert "\n" not in str(fault.value)


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="another system of rights")
def test_a_folder_where_nothing_can_be_made(readable: Path) -> None:
    readable.parent.chmod(0o555)
    with as_nobody(), pytest.raises(ucfh.StoreError, match=r"cannot write .*new\.db-lock"):
        open_shop(readable.parent / "new.db")


def fill(task: Task) -> Callable[[], object]:
    """Let its disk be full; the way to free it."""
    assert isinstance(task.store, SqliteStore)
    run = task.store.connection.execute
    pages = run("PRAGMA page_count").fetchone()[0]
    run(f"PRAGMA max_page_count={pages}")
    return lambda: run("PRAGMA max_page_count=1000000")


def go_on(task: Task, first: int, done: list[int]) -> None:
    """Episodes with new states, until something stops them."""
    for e in range(first, first + 1000):
        task.tell(task.ask(f"s{e}", f"e{e}"), reward=0, state=f"t{e}")
        done.append(e)


def test_a_full_disk_rolls_back_and_says_so(tmp_path: Path) -> None:
    with open_shop(tmp_path / "shop.db") as task:
        free = fill(task)
        done: list[int] = []
        with pytest.raises(ucfh.StoreFull, match="disk is full, and nothing was written") as full:
            go_on(task, 0, done)
        assert full.value.status == 507
        count = len(done)
        assert count > 0
        status = task.status()  # reading goes on
        assert status.outcomes == count
        assert status.decisions in (2 * count, 2 * count + 1)
        assert task.check() == []
        with pytest.raises(ucfh.StoreFull):  # and again, with states that were not written
            go_on(task, count, done)
        count = len(done)
        free()
        last = task.tell(task.ask(f"s{count}", f"e{count}"), reward=0, state=f"t{count}")
        assert last is not None
        assert task.status().outcomes == count + 1
        assert task.check() == []


# processes


def ask_in_child(task: Task, answers: Any) -> None:
    try:
        task.ask("s", "child")
        answers.put("asked")
    except ucfh.StoreError as error:
        answers.put(str(error))
    task.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_fork_does_not_share_a_connection(tmp_path: Path) -> None:
    fork = multiprocessing.get_context("fork")
    with open_shop(tmp_path / "shop.db") as task:
        task.ask("s", "parent")
        answers = fork.Queue()
        child = fork.Process(target=ask_in_child, args=(task, answers))
        child.start()
        assert "opened before this process was forked" in answers.get(timeout=30)
        child.join()
        assert task.ask("s", "parent").t == 0
        task.tell(("parent", 0), reward=0, state="s")
        assert task.check() == []


def hold_on(answers: Any) -> None:
    answers.get(timeout=30)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no forks here")
def test_a_lock_is_not_kept_by_a_fork(tmp_path: Path) -> None:
    """A child that lives on must not hold what its parent held when it died."""
    fork = multiprocessing.get_context("fork")
    lock = file_lock.FileLock(str(tmp_path / "lock"))
    lock.acquire("parent")
    answers = fork.Queue()
    child = fork.Process(target=hold_on, args=(answers,))
    child.start()
    lock.close()  # as the system does when a process dies
    other = file_lock.FileLock(str(tmp_path / "lock"))
    for _ in range(1000):  # until the child has run
        try:
            other.acquire("other")
            break
        except ucfh.StoreBusy:
            continue
    answers.put("go")
    child.join()
    assert child.exitcode == 0


def create(path: str, answers: Any) -> None:
    with open_shop(Path(path)) as task:
        answers.put(task.ask("s", f"e{os.getpid()}").t)


def test_two_that_create_a_store_at_once(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    answers = spawn.Queue()
    path = str(tmp_path / "shop.db")
    children = [spawn.Process(target=create, args=(path, answers)) for _ in range(3)]
    for child in children:
        child.start()
    assert [answers.get(timeout=60) for _ in children] == [0, 0, 0]
    for child in children:
        child.join()
    with open_shop(tmp_path / "shop.db") as task:
        assert task.store.tasks() == ["task"]
        assert task.status().begun == 3
        assert task.check() == []


@pytest.mark.parametrize("query", [LAST, STEP, PAID])
def test_one_episode_is_read_without_all_others(tmp_path: Path, query: str) -> None:
    """Each call makes these queries: their time must not grow with the task."""
    path = tmp_path / "t.db"
    ucfh.open_task(path, actions=["a"], horizon=2, epsilon=0.5, planning="off").close()
    found = sqlite3.connect(path)
    given = (1, "e", 0)[: 3 if "?3" in query else 2]
    plan = [row[3] for row in found.execute(f"EXPLAIN QUERY PLAN {query}", given)]
    found.close()
    assert any("events" in x and "episode=?" in x for x in plan)
