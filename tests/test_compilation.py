"""Kernels that are compiled ahead, and what is said while they are."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from ucfh import make
from ucfh.compilation import kinds, read_types, use_of, write_type
from ucfh.io import write_model

LINE = "ucfh: compiling, once\n"


@pytest.mark.parametrize("use", kinds())
def test_types_are_read_as_they_were_written(use: str) -> None:
    for kind in kinds()[use]:
        assert " ".join(map(write_type, read_types(kind.arguments))) == kind.arguments


@pytest.mark.parametrize(
    ("line", "use"),
    [
        ("learn chain", "learn"),
        ("learn chain --paper", "learn+--paper"),
        ("learn env:Toy --epsilon 1", "learn+env:"),
        ("problems", None),
    ],
)
def test_a_command_line_is_a_use(line: str, use: str | None) -> None:
    assert use_of(line.split(), kinds()) == use


def environment(folder: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "NUMBA_CACHE_DIR": str(folder / "cache"), **more}


def ucfh(folder: Path, *arguments: str, **more: str) -> Any:
    return subprocess.run(
        [sys.executable, "-m", "ucfh", *arguments],
        capture_output=True, text=True, cwd=folder, env=environment(folder, **more),
    )  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_model(make("chain:n=3"), tmp_path / "model.json")
    return tmp_path


def value(done: Any) -> float:
    """What `ucfh plan --json` found."""
    return float(json.loads(done.stdout)["value"])


def kept(folder: Path) -> set[str]:
    return {path.name for path in (folder / "cache").rglob("*.nbc")}


@pytest.mark.slow
def test_it_is_said_once(folder: Path) -> None:
    """Where it compiles, on stderr; then no more, and nothing more is compiled."""
    first = ucfh(folder, "plan", "model.json", "--json")
    assert (first.returncode, first.stderr) == (0, LINE)
    files = kept(folder)
    second = ucfh(folder, "plan", "model.json", "--json")
    assert (value(second), second.stderr) == (value(first), "")
    assert kept(folder) == files
    assert "compiled 1 function " in ucfh(folder, "compile", "plan").stdout  # that of --robust
    assert "compiled 0 functions " in ucfh(folder, "compile", "plan").stdout
    files = kept(folder)
    # code for another processor is kept beside
    other = ucfh(folder, "plan", "model.json", "--json", NUMBA_CPU_NAME="generic")
    assert (value(other), other.stderr) == (value(first), LINE)
    assert kept(folder) > files
    assert ucfh(folder, "plan", "model.json", "--json").stderr == ""


@pytest.mark.slow
def test_two_at_once(folder: Path) -> None:
    command = [sys.executable, "-m", "ucfh", "plan", "model.json", "--json"]
    both = [
        subprocess.Popen(command, stdout=subprocess.PIPE, cwd=folder, env=environment(folder))
        for _ in range(2)
    ]
    said = [process.communicate()[0] for process in both]
    assert all(b'"value"' in text for text in said)
    assert [process.returncode for process in both] == [0, 0]
    assert ucfh(folder, "plan", "model.json", "--json").stderr == ""


@pytest.mark.slow
def test_ctrl_c_while_compiling(folder: Path) -> None:
    """One line, no process that goes on, and what is kept is whole."""
    process = subprocess.Popen(
        [sys.executable, "-m", "ucfh", "compile"],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(folder),
        start_new_session=True,
    )  # fmt: skip
    assert process.stderr is not None
    assert process.stderr.readline() == LINE
    time.sleep(2)
    process.send_signal(signal.SIGINT)
    _, said = process.communicate()
    assert (process.returncode, said) == (130, "ucfh: interrupted\n")
    for _ in range(50):  # its processes notice within a moment
        try:
            os.killpg(process.pid, 0)
        except ProcessLookupError:
            break
        time.sleep(0.1)
    else:
        pytest.fail("a process goes on")
    assert ucfh(folder, "plan", "model.json").returncode == 0


def test_what_is_not_a_command(folder: Path) -> None:
    done = ucfh(folder, "compile", "pla")
    assert done.returncode == 2
    assert done.stderr.startswith("ucfh: unknown command that compiles 'pla': did you mean 'plan'?")


OTHER = """
import sys, numba
numba.__version__ = "0.0.0"
from ucfh.cli.main import main
main(sys.argv[1:])
"""


def test_other_versions_of_numba_compile_in_their_own_way(folder: Path) -> None:
    """With the same result, if it takes longer."""
    ours = ucfh(folder, "plan", "model.json", "--json")
    other = subprocess.run(
        [sys.executable, "-c", OTHER, "plan", "model.json", "--json"],
        capture_output=True, text=True, cwd=folder,
        env=environment(folder, NUMBA_CACHE_DIR=str(folder / "other")),
    )  # fmt: skip
    assert value(other) == value(ours)


KINDS = Path(__file__).parent / "helpers" / "kinds.py"
ALL = [x if x == "learn" else pytest.param(x, marks=pytest.mark.verify) for x in kinds()]


@pytest.mark.parametrize("use", ALL)
def test_what_a_use_calls_is_written_down(use: str) -> None:
    """Else `make kinds` is due."""
    done = subprocess.run(
        [sys.executable, str(KINDS), use], check=True, capture_output=True, text=True
    )
    assert done.stdout.splitlines() == [" ".join((use, *call)) for call in kinds()[use]]
