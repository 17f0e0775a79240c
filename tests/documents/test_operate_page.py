"""Run the service in production: commands, metrics and examples of the page work."""

from __future__ import annotations

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import ucfh
from support.command_line import run
from support.services import near_service, run_command
from support.settings import DOCS

PAGE = (DOCS / "howto" / "operate.md").read_text()
EXAMPLES = DOCS / "examples"


def test_a_backup_of_a_store_in_use_holds_all_that_was_acknowledged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """And can be put in its place."""
    store, backup = tmp_path / "tasks.db", tmp_path / "backup.db"
    ucfh.open_task(store, actions=["a", "b"], horizon=2, epsilon=0.5, planning="off").close()
    (statement,) = re.findall(r'sqlite3 tasks.db "(.*)"', PAGE)
    with near_service(store) as url, ucfh.connect(url) as task:
        decisions = [task.ask("x", k) for k in range(20)]
        with closing(sqlite3.connect(store)) as connection:
            connection.execute(statement.replace("backup.db", str(backup)))
        for decision in decisions:
            task.tell(decision, reward=1, done=True)
    code, _, err = run(capsys, "task", "check", str(backup))
    assert (code, err) == (0, "")
    for ending in ("-wal", "-shm"):
        Path(f"{store}{ending}").unlink(missing_ok=True)
    backup.replace(store)
    with near_service(store) as url, ucfh.connect(url) as task:
        assert [x["episode"] for x in task.decisions("open")] == [str(k) for k in range(20)]
        assert task.tell(decisions[0], reward=1, done=True) is None


def test_the_figures_that_are_watched_exist(tmp_path: Path) -> None:
    store = tmp_path / "tasks.db"
    with ucfh.open_task(store, actions=["a"], horizon=1, epsilon=0.5, planning="inline") as task:
        task.tell(task.ask("x", "e"), reward=1, done=True)
    with near_service(store) as url:
        found = run_command(f"curl {url}/metrics", {})
    known = set(re.findall(r"^# TYPE (\w+)", found, re.MULTILINE))
    known |= {f"{name}_bucket" for name in known}
    named = set(re.findall(r"ucfh_\w+", PAGE + (EXAMPLES / "alerts.yml").read_text()))
    assert len(named) > 8
    assert named <= known


def test_examples_start_what_there_is(capsys: pytest.CaptureFixture[str]) -> None:
    unit = (EXAMPLES / "ucfh.service").read_text()
    image = (EXAMPLES / "Containerfile").read_text()
    (started,) = re.findall(r"^ExecStart=/opt/ucfh/bin/ucfh (.*)$", unit, re.MULTILINE)
    (contained,) = re.findall(r"^CMD \[(.*)\]$", image, re.MULTILINE)
    _, out, _ = run(capsys, "serve", "--help")
    options = set(re.findall(r"--[a-z-]+", out))
    for given in (started, contained):
        assert set(re.findall(r"--[a-z-]+", given)) <= options
    assert started.startswith("serve ")


def test_what_the_image_runs(tmp_path: Path) -> None:
    """To compile, and to see whether it is healthy."""
    image = (EXAMPLES / "Containerfile").read_text()
    compiling, healthy = re.findall(r'\["python", "-c", "(.*)"\]', image)
    exec(compiling, {})
    with near_service(tmp_path / "tasks.db") as url:
        exec(healthy.replace("http://127.0.0.1:8765", url))
