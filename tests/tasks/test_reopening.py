"""A store that is opened several times in one process keeps SQLite's locks, and all its data.

The programs of `support.reopening` run at full length in `tests/slow/test_reopening.py`.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import ucfh
from support.reopening import trial
from ucfh.tasks import file_lock

SHOP: dict[str, Any] = {"actions": ["a", "b"], "horizon": 3, "epsilon": 0.5, "planning": "off"}


def posix_locks(path: Path) -> int:
    """How many POSIX locks this process holds on a file."""
    mine, node = str(os.getpid()), str(path.stat().st_ino)
    rows = [line.split() for line in Path("/proc/locks").read_text().splitlines()]
    return sum(
        row[1] == "POSIX" and row[4] == mine and row[5].split(":")[-1] == node for row in rows
    )


def open_again(path: Path) -> None:
    ucfh.open_task(path, "other", **SHOP)


def open_and_close(path: Path) -> None:
    ucfh.open_task(path, **SHOP).close()


def read_as_log(path: Path) -> None:
    alias = path.with_suffix(".csv")
    alias.symlink_to(path)
    with pytest.raises(ucfh.InputError, match="has open"):
        ucfh.read_log(alias)


def begin_with_itself(path: Path) -> None:
    alias = path.with_suffix(".json")
    os.link(path, alias)
    with ucfh.open_task(path, **SHOP) as task, pytest.raises(ucfh.InputError, match="has open"):
        task.warm_start(alias)


def export_over_itself(path: Path) -> None:
    alias = path.with_suffix(".csv")
    os.link(path, alias)
    with ucfh.open_task(path, **SHOP) as task, pytest.raises(ucfh.InputError, match="has open"):
        task.export(alias, force=True)


def open_after_failure(path: Path) -> None:
    with pytest.raises(ucfh.UnknownTask):
        ucfh.open_task(path, "missing", planning="off")


@pytest.mark.parametrize(
    "use",
    [
        open_again,
        open_and_close,
        read_as_log,
        begin_with_itself,
        export_over_itself,
        open_after_failure,
    ],
)
def test_locks_of_an_open_store_stay(use: Any, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    with ucfh.open_task(path, **SHOP) as task:
        assert posix_locks(path) > 0
        use(path)
        assert posix_locks(path) > 0
        task.ask("s", "e")
        assert posix_locks(path) > 0


def test_a_store_that_was_just_created_is_locked(tmp_path: Path) -> None:
    """The write-ahead log is there and in use from the first moment."""
    path = tmp_path / "shop.db"
    with ucfh.open_task(path, **SHOP):
        assert posix_locks(path) > 0
        assert Path(f"{path}-wal").exists()


@pytest.mark.slow
@pytest.mark.parametrize(("scenario", "requests"), [("visit", 0), ("shell", 1), ("web", 15)])
def test_nothing_is_lost(scenario: str, requests: int, tmp_path: Path) -> None:
    found = trial(scenario, tmp_path, requests)
    assert found.acknowledged >= 24
    assert found.clean, found


VISIT = "import sys, ucfh; ucfh.open_task(sys.argv[1], planning='off').close()"


@pytest.mark.parametrize("ending", [["-wal"], ["-wal", "-shm"], []])
def test_a_replaced_log_is_noticed(ending: list[str], tmp_path: Path) -> None:
    """If a program drops SQLite's locks, no call is acknowledged that others will not see."""
    path = tmp_path / "shop.db"
    task = ucfh.open_task(path, **SHOP)
    task.ask("s", "before")
    for end in ending:
        Path(f"{path}{end}").unlink()
    if not ending:
        path.open("rb").close()  # drops the locks of this process
        subprocess.run([sys.executable, "-c", VISIT, str(path)], check=True)
    with pytest.raises(ucfh.StoreError, match="removed or replaced"):
        task.ask("s", "after")
    with pytest.raises(ucfh.StoreError, match="removed or replaced"):
        task.store.check_ready()
    task.close()
    if not ending:
        with ucfh.open_task(path, **SHOP) as again:
            assert [x["episode"] for x in again.decisions()] == ["before"]
            assert again.check() == []


# rights


def test_only_the_owner_can_read_a_store(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        with ucfh.open_task(tmp_path / "shop.db", **SHOP) as task:
            task.ask("s", "e")
            found = {x.name: stat.S_IMODE(x.stat().st_mode) for x in tmp_path.iterdir()}
    finally:
        os.umask(before)
    assert found == dict.fromkeys(("shop.db", "shop.db-wal", "shop.db-shm", "shop.db-lock"), 0o600)


def test_rights_that_somebody_gave_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    ucfh.open_task(path, **SHOP).close()
    path.chmod(0o660)
    ucfh.open_task(path, **SHOP).close()
    assert stat.S_IMODE(path.stat().st_mode) == 0o660


def test_the_lock_file_of_others_is_not_removed(tmp_path: Path) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("notes")
    other = file_lock.FileLock(f"{path}-lock")
    with pytest.raises(ucfh.StoreError):
        ucfh.open_task(path, **SHOP)
    assert Path(other.path).exists()
    other.close()


def test_a_store_in_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ucfh.StoreError, match=":memory:"):
        ucfh.open_task(":memory:", **SHOP)
    assert list(tmp_path.iterdir()) == []
