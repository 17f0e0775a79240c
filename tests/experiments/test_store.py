"""Folders of results: what goes in comes out, and nothing that happens to a disk is passed over."""

from __future__ import annotations

import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from helpers.paths import TESTS
from helpers.study_measures import OWN, TEXT
from ucfh.errors import InputError
from ucfh.experiments import jobs
from ucfh.experiments.jobs import Job, Measurement, do, made_with
from ucfh.experiments.measures import MEASURES
from ucfh.experiments.spec import parse_study
from ucfh.experiments.store import FILE, Request, Store

GRID = TEXT + '[[grid]]\nmeasure = "good"\nreplicates = 3\nnumber = [1, 2]\n'


@pytest.fixture(autouse=True)
def _own_measures(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, measure in OWN.items():
        monkeypatch.setitem(MEASURES, name, measure)


def asked(text: str = GRID) -> Request:
    return Request(parse_study("mine", text, "mine.toml"), False, 5)


def rows(folder: Path) -> list[tuple[Any, ...]]:
    db = sqlite3.connect(folder / FILE)
    assert db.execute("pragma integrity_check").fetchone() == ("ok",)
    found = db.execute("select * from results order by job").fetchall()
    db.close()
    return found


@pytest.fixture
def full(tmp_path: Path) -> Path:
    """A folder with six results."""
    folder = tmp_path / "full"
    store = Store(folder, write=True)
    store.note(asked())
    for job in asked().jobs():
        store.add(job, do(job))
    store.close()
    return folder


def test_what_was_added_is_there(full: Path) -> None:
    store = Store(full)
    (one,) = store.asked()
    assert (one.study.text, one.quick, one.root) == (GRID, False, 5)
    wanted = one.jobs()
    assert store.done() == {job.id for job in wanted}
    found = store.results(wanted)
    assert [(x.arguments, x.replicate, x.values) for x in found] == [
        (dict(job.arguments), job.replicate, do(job).values) for job in wanted
    ]
    assert store.made_with() == made_with()
    assert 0.06 <= store.seconds() < 60
    assert store.results(asked(GRID.replace("[1, 2]", "[2, 3]")).jobs()) == [
        x for x in found if x.arguments["number"] == 2
    ]
    store.close()
    for row, job in zip(rows(full), sorted(wanted, key=lambda job: job.id), strict=True):
        assert row[:2] == (job.id, "good")
        assert json.loads(row[2]) == job.arguments
        assert row[3:5] == (job.replicate, job.seed)
        assert json.loads(row[5]).keys() >= {"ucfh", "commit", "python", "numpy", "numba"}
        assert json.loads(row[6]) == do(job).values


def test_a_job_is_kept_once(full: Path) -> None:
    before = rows(full)
    store = Store(full, write=True)
    job = asked().jobs()[0]
    store.add(job, Measurement({"number": -1}, made_with(), 1e6))  # the first one stays
    assert store.seconds() < 1e6
    store.note(asked())
    assert len(store.asked()) == 1
    store.close()
    assert rows(full) == before


def test_a_new_folder(tmp_path: Path) -> None:
    store = Store(tmp_path / "a" / "b", write=True)
    assert (store.done(), store.made_with(), store.seconds(), store.asked()) == (set(), {}, 0.0, [])
    store.close()


def forge(folder: Path, **changes: str) -> None:
    db = sqlite3.connect(folder / FILE)
    db.execute("update results set made_with = ?", [json.dumps({**made_with(), **changes})])
    db.commit()
    db.close()


@pytest.mark.parametrize("name", ["ucfh", "source", "python", "numpy", "numba"])
def test_other_versions_are_never_mixed(full: Path, name: str) -> None:
    forge(full, **{name: "0.0.1"})
    before = rows(full)
    with pytest.raises(InputError, match=f"has results of {name} 0.0.1, here .*--out"):
        Store(full, write=True)
    store = Store(full)  # to be read they may be
    assert len(store.results(asked().jobs())) == 6
    assert store.made_with()[name] == "0.0.1"
    store.close()
    assert rows(full) == before


def test_one_of_another_version_is_enough(full: Path) -> None:
    db = sqlite3.connect(full / FILE)
    db.execute(
        "update results set made_with = ? where job = (select max(job) from results)",
        [json.dumps({**made_with(), "numpy": "0.0.1"})],
    )
    db.commit()
    db.close()
    with pytest.raises(InputError, match=r"numpy 0.0.1"):
        Store(full, write=True)


def test_a_worker_of_another_version_is_refused(full: Path) -> None:
    before = rows(full)
    store = Store(full, write=True)
    (job,) = asked(TEXT + '[[grid]]\nmeasure = "good"\nnumber = 7\n').jobs()
    done = do(job)
    for name in ("ucfh", "source", "numpy"):
        other = done._replace(made_with={**made_with(), name: "0.0.1"})
        with pytest.raises(InputError, match=f"a worker has {name} 0.0.1, here .*: install"):
            store.add(job, other)
    store.close()
    assert rows(full) == before


def test_what_is_no_folder_of_results(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    (other / "thesis.tex").write_text("mine")
    with pytest.raises(InputError, match=r"other files \(thesis.tex\): pass a new folder"):
        Store(other, write=True)
    assert [path.name for path in other.iterdir()] == ["thesis.tex"]
    for folder in (other, tmp_path / "none"):
        with pytest.raises(InputError, match="run a study first"):
            Store(folder)
    assert not (tmp_path / "none").exists()
    for folder in (other / "thesis.tex", other / "thesis.tex" / "below"):
        with pytest.raises(InputError, match="cannot use the folder"):
            Store(folder, write=True)


def test_what_is_no_database_of_results(tmp_path: Path) -> None:
    path = tmp_path / FILE
    for content in (b"a text", b"SQLite format 3\0" + bytes(4096), bytes(5000)):
        path.write_bytes(content)
        for write in (False, True):
            with pytest.raises(InputError, match=re.escape(str(path))):
                Store(tmp_path, write=write)
        assert path.read_bytes() == content
    path.unlink()
    db = sqlite3.connect(path)
    db.execute("create table songs (name text)")
    db.commit()
    db.close()
    for write in (False, True):
        with pytest.raises(InputError, match="not a results file"):
            Store(tmp_path, write=write)
    path.unlink()
    path.mkdir()
    with pytest.raises(InputError, match="cannot open"):
        Store(tmp_path, write=True)


def test_a_later_format_is_refused(full: Path) -> None:
    db = sqlite3.connect(full / FILE)
    db.execute("pragma user_version = 2")
    db.close()
    for write in (False, True):
        with pytest.raises(InputError, match="not a results file that this version reads"):
            Store(full, write=write)


def test_an_empty_file_is_a_new_one(tmp_path: Path) -> None:
    """As a kill while it was made leaves it."""
    (tmp_path / FILE).touch()
    with pytest.raises(InputError, match=r"not a results file|run a study first"):
        Store(tmp_path)
    store = Store(tmp_path, write=True)
    for job in asked().jobs():
        store.add(job, do(job))
    store.close()
    assert len(rows(tmp_path)) == 6


def test_a_file_that_was_cut_is_never_taken_for_a_whole_one(full: Path, tmp_path: Path) -> None:
    whole = (full / FILE).read_bytes()  # one byte alone is an empty database to SQLite
    wanted = asked().jobs()
    cut = tmp_path / "cut"
    for length in [*range(2, len(whole), 977), *range(4096, len(whole), 4096), len(whole) - 1]:
        shutil.rmtree(cut, ignore_errors=True)
        cut.mkdir()
        (cut / FILE).write_bytes(whole[:length])
        for write in (False, True):
            with pytest.raises(InputError, match=r"damaged|not a results file"):  # noqa: PT012
                store = Store(cut, write=write)
                try:
                    store.done()
                    store.asked()
                    store.results(wanted)
                    store.seconds()
                finally:
                    store.close()


def test_errors_of_the_disk_are_told_and_nothing_is_lost(full: Path) -> None:
    before = rows(full)
    store = Store(full, write=True)
    pages = store._db.execute("pragma page_count").fetchone()[0]
    store._db.execute(f"pragma max_page_count = {pages}")  # a disk with no room left
    extra = asked(TEXT + '[[grid]]\nmeasure = "good"\nreplicates = 150\n').jobs()
    with pytest.raises(InputError, match=r"cannot write .*full; earlier results are kept"):  # noqa: PT012
        for job in extra:
            store.add(job, Measurement({"drawn": job.seed}, made_with(), 0.1))
    kept = rows(full)
    assert {row[0] for row in before} <= {row[0] for row in kept}
    assert len(kept) < 156
    store._db.execute(f"pragma max_page_count = {1000 * pages}")
    for job in extra:
        store.add(job, Measurement({"drawn": job.seed}, made_with(), 0.1))
    store.close()
    assert len(rows(full)) == 156


def test_a_folder_that_cannot_be_written(full: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = rows(full)
    store = Store(full, write=True)
    store._db.execute("pragma query_only = on")  # what a read-only disk answers
    job = asked().jobs()[0]
    with pytest.raises(InputError, match=r"cannot write .*readonly.*earlier results are kept"):
        store.add(job, do(job))
    with pytest.raises(InputError, match=r"cannot write .*readonly"):
        store.note(asked())
    store.close()
    assert rows(full) == before

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "mkdir", refuse)
    with pytest.raises(InputError, match=r"cannot use the folder .*: Permission denied"):
        Store(full / "below", write=True)


def test_a_transaction_that_fails_leaves_nothing(full: Path) -> None:
    """Neither a result without its time nor an open transaction that keeps others out."""
    store = Store(full, write=True)
    store._db.execute("drop table timings")
    (job,) = asked(TEXT + '[[grid]]\nmeasure = "good"\nnumber = 7\n').jobs()
    with pytest.raises(InputError, match="timings"):
        store.add(job, do(job))
    assert not store._db.in_transaction
    assert job.id not in store.done()
    store.close()


KILLED = """
import os, signal, sqlite3, sys

db = sqlite3.connect(sys.argv[1], isolation_level=None)
db.execute("pragma cache_size = 1")  # so that pages are written before the end
db.execute("begin immediate")
db.execute("update results set result = '{}', made_with = 'x'")
for k in range(200):
    db.execute("insert into timings values (?, 1.0)", ["x" * 3000 + str(k)])
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize("write", [False, True])
def test_a_transaction_that_was_killed_is_undone(full: Path, write: bool) -> None:
    before = rows(full)
    size = (full / FILE).stat().st_size
    subprocess.run([sys.executable, "-c", KILLED, str(full / FILE)], check=False)
    assert (full / FILE).stat().st_size > size  # it was in the middle of it
    store = Store(full, write=write)
    assert len(store.results(asked().jobs())) == 6
    store.close()
    assert rows(full) == before


def test_two_that_make_the_same_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create = Store._create

    def late(store: Store) -> None:
        with monkeypatch.context() as other:
            other.setattr(Store, "_create", create)
            Store(tmp_path, write=True).close()
        create(store)

    monkeypatch.setattr(Store, "_create", late)
    store = Store(tmp_path, write=True)
    assert store.done() == set()
    store.close()


WRITER = """
import sys
from helpers.study_measures import OWN
from test_store import asked, GRID
from ucfh.experiments.jobs import Measurement, made_with
from ucfh.experiments.measures import MEASURES
from ucfh.experiments.store import Store

MEASURES.update(OWN)
store = Store(sys.argv[1], write=True)
store.note(asked())
for job in asked(GRID.replace("3", "25")).jobs():
    store.add(job, Measurement({"drawn": job.seed}, made_with(), 0.1))
"""


@pytest.mark.verify
@pytest.mark.slow
def test_many_writers_at_once(tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{TESTS}{os.pathsep}{Path(__file__).parent}"}
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path / "all")],
            stderr=subprocess.PIPE, text=True, env=environment,
        )
        for _ in range(3)
    ]  # fmt: skip
    for writer in writers:
        assert (writer.communicate()[1], writer.returncode) == ("", 0)
    found = rows(tmp_path / "all")
    wanted = asked(GRID.replace("3", "25")).jobs()
    assert [row[0] for row in found] == sorted(job.id for job in wanted)
    assert [json.loads(row[6]) for row in found] == [
        {"drawn": job.seed} for job in sorted(wanted, key=lambda job: job.id)
    ]


def test_what_cannot_be_kept_is_a_failure() -> None:
    done = do(Job("odd", {}, 0, 0))
    assert done.values is None
    assert "JSON" in done.reason


def test_the_commit_is_that_of_the_source(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    commit = jobs._commit()
    assert re.fullmatch(r"([0-9a-f]{40}\+?)?", commit)
    monkeypatch.setenv("PATH", str(tmp_path))  # no git
    assert jobs._commit() == ""
