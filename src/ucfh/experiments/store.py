"""Results in one file, an SQLite database; each result is stored completely or not at all.

A folder of results holds ``results.sqlite`` and what is made from it. Every result has its job
(measure, arguments, replicate, seed) and what it was made with (versions, commit). A folder takes
results of one version only: another version may compute something else under the same name.

    results    job, measure, arguments, replicate, seed, made_with, result     same job, same row
    timings    job, seconds                                                    differ in every run
    studies    name, spec, quick, root                                         what was requested
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ucfh._support.files import AnyPath
from ucfh.errors import InputError
from ucfh.experiments.jobs import Job, Measurement, made_with
from ucfh.experiments.spec import Study, parse_study

FILE = "results.sqlite"
FORMAT = 1
"""Version of the tables; kept as the database's user_version."""

MARK = 0x75636668
"""The database's application_id: "ucfh"."""

TABLES = """
create table if not exists results (
    job text primary key, measure text not null, arguments text not null,
    replicate integer not null, seed integer, made_with text not null, result text not null
) without rowid;
create table if not exists timings (job text primary key, seconds real not null) without rowid;
create table if not exists studies (
    name text primary key, spec text not null, quick integer not null, root integer not null
);
"""


class Result(NamedTuple):
    """A result, as a study reads it."""

    label: str
    arguments: dict[str, Any]
    replicate: int
    values: dict[str, Any]


class Request(NamedTuple):
    """A study that was requested."""

    study: Study
    quick: bool
    root: int

    def jobs(self) -> list[Job]:
        """Its jobs."""
        return self.study.jobs(self.root, self.quick)


class Store:
    """A folder of results.

    Args:
        folder: where; made if it does not exist and ``write`` is set.
        write: whether results will be added; refused if it has results of another version.

    """

    def __init__(self, folder: AnyPath, write: bool = False) -> None:
        self.folder = Path(folder)
        self.path = self.folder / FILE
        if write:
            self._make_folder()
        elif not self.path.is_file():
            raise InputError(f"{folder} holds no {FILE}: run a study first (ucfh study --out)")
        with self._saying("open"):
            # readers too may find a transaction that was killed half-way, and undo it
            mode = "rwc" if write else "rw"
            uri = f"{self.path.absolute().as_uri()}?mode={mode}"
            # one result, one transaction
            self._db = sqlite3.connect(uri, uri=True, isolation_level=None, timeout=30)
        try:
            with self._saying("open"):
                self._db.execute("pragma synchronous = full")
                if write and not self._one("select count(*) from sqlite_master"):
                    self._create()
                self._check_format()
            if write:
                self._check_version()
        except InputError:
            self.close()
            raise

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _make_folder(self) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            others = [path for path in self.folder.iterdir() if not path.name.startswith(FILE)]
        except OSError as error:
            raise InputError(f"cannot use the folder {self.folder}: {error.strerror}") from None
        if others and not self.path.exists():
            raise InputError(
                f"the folder {self.folder} holds other files ({others[0].name}): pass a new folder"
            )

    def _create(self) -> None:
        """The tables, all or none; another process may have been faster."""
        self._db.executescript(
            f"begin exclusive; {TABLES} pragma application_id = {MARK}; "
            f"pragma user_version = {FORMAT}; commit;"
        )

    def _check_format(self) -> None:
        found = self._one("pragma application_id"), self._one("pragma user_version")
        if found != (MARK, FORMAT):
            raise InputError(
                f"{self.path} is not a results file that this version reads: pass another folder"
            )
        # a truncated file can look complete for a long time
        faults = self._one("pragma quick_check")
        if self.path.stat().st_size % self._one("pragma page_size"):
            faults = "it is truncated"
        if faults != "ok":
            raise sqlite3.DatabaseError(faults.splitlines()[0])

    def _check_version(self) -> None:
        for (text,) in self._db.execute("select distinct made_with from results"):
            found = json.loads(text)
            remedy = (
                f"they were made with ucfh {found.get('ucfh') or 'unknown'}, and cannot be mixed "
                "with new ones; pass another folder (--out)"
            )
            _check_same(found, f"{self.folder} has results of", remedy)

    def _one(self, query: str) -> Any:
        return self._db.execute(query).fetchone()[0]

    @contextmanager
    def _saying(self, what: str) -> Iterator[None]:
        """Turn errors of the database into a line that says what to do."""
        try:
            yield
        except sqlite3.OperationalError as error:
            raise InputError(
                f"cannot {what} {self.path}: {error}; earlier results are kept: fix this, and "
                "run again to continue"
            ) from None
        except sqlite3.DatabaseError as error:
            raise InputError(
                f"{self.path} is damaged or not a database ({error}): move it away and run again"
            ) from None

    def note(self, asked: Request) -> None:
        """Record that a study was requested, and how."""
        row = (asked.study.name, asked.study.text, asked.quick, asked.root)
        with self._saying("write"):
            self._db.execute("insert or replace into studies values (?, ?, ?, ?)", row)

    def asked(self) -> list[Request]:
        """The studies that were requested, each as it was requested last."""
        with self._saying("read"):
            rows = self._db.execute("select name, spec, quick, root from studies").fetchall()
        return [
            Request(parse_study(name, text, f"{self.path}, {name}"), bool(quick), root)
            for name, text, quick, root in rows
        ]

    def add(self, job: Job, done: Measurement) -> None:
        """Store a result: when this returns, it is on the disk."""
        _check_same(
            done.made_with, "a worker has", "install the same version there, and restart it"
        )
        texts = [json.dumps(x, sort_keys=True) for x in (job.arguments, done.made_with)]
        result = json.dumps(done.values, sort_keys=True, allow_nan=False)
        row = (job.id, job.measure, texts[0], job.replicate, job.seed, texts[1], result)
        with self._saying("write"):
            try:
                self._db.execute("begin immediate")
                self._db.execute("insert or ignore into results values (?, ?, ?, ?, ?, ?, ?)", row)
                timing = (job.id, done.seconds)
                self._db.execute("insert or ignore into timings values (?, ?)", timing)
                self._db.execute("commit")
            except sqlite3.Error:
                if self._db.in_transaction:
                    self._db.execute("rollback")
                raise

    def done(self) -> set[str]:
        """The ids of jobs that have a result."""
        with self._saying("read"):
            return {job for (job,) in self._db.execute("select job from results")}

    def results(self, jobs: Iterable[Job]) -> list[Result]:
        """The results of those jobs that have one, in the order of the jobs."""
        with self._saying("read"):
            rows = dict(self._db.execute("select job, result from results").fetchall())
        return [
            Result(job.label, dict(job.arguments), job.replicate, json.loads(rows[job.id]))
            for job in jobs
            if job.id in rows
        ]

    def made_with(self) -> dict[str, str]:
        """What the results were made with; several commits may share a source. Empty if none."""
        with self._saying("read"):
            rows = self._db.execute("select distinct made_with from results").fetchall()
        found: dict[str, list[str]] = {}
        for name, value in (item for (text,) in rows for item in json.loads(text).items()):
            if value not in found.setdefault(name, []):
                found[name].append(value)
        return {name: ", ".join(values) for name, values in found.items()}

    def seconds(self) -> float:
        """How long all jobs took, added up over processes."""
        with self._saying("read"):
            return float(self._one("select coalesce(sum(seconds), 0) from timings"))

    def close(self) -> None:
        """Close the file."""
        self._db.close()


def _check_same(found: dict[str, str], whose: str, remedy: str) -> None:
    """Refuse what was made with other versions than those here.

    The commit is shown but not compared: ``source`` says whether the code differs.
    """
    for name, value in made_with().items():
        if name != "commit" and found.get(name) != value:
            there = found.get(name) or "unknown"
            raise InputError(f"{whose} {name} {there}, here it is {value or 'unknown'}: {remedy}")
