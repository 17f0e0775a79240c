"""The power fails at random moments: what was acknowledged is there, and the store can be opened.

Simulated: see `slow._power`. Synchronized writes are there, of others a random part. A store that
does not synchronize its commits must be found out.
"""

from __future__ import annotations

import shutil
import sqlite3
from pathlib import Path
from random import Random

import pytest

import ucfh
from slow._power import Change, Disk, compiled, traced
from support.crashing import DECLARED, faults_of

CUTS, AMID, CHECKED = 400, 100, 25
WORK = """
import sys
from support.crashing import Client

folder, synchronous = sys.argv[1:]
for _ in range(3):
    client = Client(f"{folder}/store.db", f"{folder}/worker0.jsonl", 0)
    client.task.store.connection.execute(f"PRAGMA synchronous={synchronous}")
    client.run(400)
    client.task.close()
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library that traces changes of files."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("needs a C compiler, to trace what is written: there is no cc, nor gcc")
    return compiled(compiler, tmp_path_factory.mktemp("library"))


def cut_often(
    trace: list[Change], folder: Path, draw: Random, check: bool
) -> tuple[list[str], int, int]:
    """Return faults after power cuts, the number of cuts, and the number amid a checkpoint."""
    folder.mkdir()
    store, ledger, disk = folder / "store.db", folder / "worker0.jsonl", Disk()
    direct = [i for i, change in enumerate(trace) if change.name == store.name]
    made = next(i for i, x in enumerate(trace) if x.name == ledger.name and x.data)
    moments = {*range(made), *draw.sample(range(len(trace)), CUTS), *draw.sample(direct, AMID)}
    amid, cuts, wrong = 0, 0, []
    for moment, change in enumerate(trace):
        disk.take(change)
        if change.name == ledger.name and change.data:
            with ledger.open("ab") as file:
                file.write(change.data)
        if moment not in moments:
            continue
        cuts += 1
        for path in folder.glob("store.db*"):
            path.unlink()
        files = {x: data for x, data in disk.left_by(draw).items() if x.startswith("store.db")}
        for name, data in files.items():
            if not name.endswith("-shm"):
                (folder / name).write_bytes(data)
        amid += store.name in disk.names and disk.doubtful[disk.names[store.name]] != []
        try:
            # a client that has opened it once opens it again without declaring anything
            declared = {} if ledger.exists() and ledger.stat().st_size else DECLARED
            with ucfh.open_task(store, planning="off", **declared) as task:
                found = task.check() if check and cuts % CHECKED == 0 else []
            found += faults_of(str(store), [ledger])
        except (ucfh.InputError, AssertionError, sqlite3.DatabaseError) as error:
            found = [str(error)]
        wrong += [f"cut {moment}: {what}" for what in found[:1]]
    return wrong, cuts, amid


def test_power_cuts(library: Path, tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    trace = traced(WORK, tmp_path / "work", library, "FULL")
    wrong, cuts, amid = cut_often(trace, tmp_path / "cut", Random(1), check=True)
    assert wrong == []
    assert amid >= AMID // 2
    print(
        f"{cuts} power cuts in {len(trace)} changes, {amid} of them amid a checkpoint: all "
        "that was acknowledged is there"
    )


@pytest.mark.parametrize("synchronous", ["OFF", "NORMAL"])
def test_commits_that_are_not_synchronised_are_found(
    synchronous: str, library: Path, tmp_path: Path
) -> None:
    (tmp_path / "work").mkdir()
    trace = traced(WORK, tmp_path / "work", library, synchronous)
    wrong, cuts, _ = cut_often(trace, tmp_path / "cut", Random(1), check=False)
    assert wrong
    print(f"synchronous={synchronous}: {len(wrong)} of {cuts} power cuts lose something")
