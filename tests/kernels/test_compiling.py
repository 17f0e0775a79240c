"""Compiled code is kept where it can be, and does without where it cannot."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from llvmlite.binding import Linkage  # type: ignore[import-untyped]
from numba.core import caching, config

from ucfh._kernels import compiling
from ucfh._kernels.sampling import multinomial

Capture = pytest.CaptureFixture[str]


def double(x: float) -> float:
    return 2 * x


def compiled() -> Any:
    """As at a new start."""
    return compiling.njit(cache=True)(double)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The only place for compiled code; nothing was said yet."""
    monkeypatch.setattr(config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [caching.UserProvidedCacheLocator])
    monkeypatch.setattr(compiling, "_told", False)
    return tmp_path


def files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.rglob("*") if path.is_file())


def said(reason: str) -> str:
    return (
        f"ucfh: compiled code cannot be kept ({reason}), so every start takes longer: set "
        "NUMBA_CACHE_DIR to a folder with room\n"
    )


def test_compiled_code_is_kept(folder: Path, capsys: Capture) -> None:
    first, second = compiled(), compiled()
    assert first(2.0) == second(2.0) == 4.0
    assert sum(second.stats.cache_hits.values()) == 1
    assert {path.suffix for path in files(folder)} == {".nbi", ".nbc"}
    assert capsys.readouterr().err == ""


def first_of() -> tuple[float, int]:
    """What a new start finds for the field a of a group, and how much of it was kept."""
    for name in [name for name in sys.modules if name.startswith("pair")]:
        del sys.modules[name]
    importlib.invalidate_caches()
    kernel, group = importlib.import_module("pair.kernel"), importlib.import_module("pair.group")
    found = kernel.first(group.Pair(a=1.0, b=2.0))
    return found, sum(kernel.first.stats.cache_hits.values())


def test_what_another_file_says_is_noticed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fields of one type, exchanged, and a helper that a helper calls."""
    monkeypatch.syspath_prepend(folder)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    pair = folder / "pair"
    pair.mkdir()
    (pair / "__init__.py").touch()
    group = "from typing import NamedTuple\nclass Pair(NamedTuple):\n    {}: float\n    {}: float\n"
    number = "OFF = {}\n"
    (pair / "group.py").write_text(group.format("a", "b"))
    (pair / "number.py").write_text(number.format("0.0"))
    (pair / "helper.py").write_text(
        "from ucfh._kernels.compiling import njit\nfrom pair.number import OFF\n"
        "@njit(cache=True)\ndef shifted(x):\n    return x + OFF\n"
    )
    (pair / "kernel.py").write_text(
        "from ucfh._kernels.compiling import njit\nfrom pair.group import Pair\n"
        "from pair.helper import shifted\n"
        "@njit(cache=True)\ndef first(pair):\n    return shifted(pair.a)\n"
    )
    assert first_of() == (1.0, 0)
    assert first_of() == (1.0, 1)
    (pair / "group.py").write_text(group.format("b", "a"))
    assert first_of() == (1.0, 0)
    (pair / "number.py").write_text(number.format("10.0"))
    assert first_of() == (11.0, 0)
    assert first_of() == (11.0, 1)


def test_no_folder_can_be_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    (folder / "file").touch()
    monkeypatch.setattr(config, "CACHE_DIR", str(folder / "file" / "below"))
    for _ in range(2):
        assert compiled()(2.0) == 4.0
    assert capsys.readouterr().err == said("no folder for it can be written")


@pytest.fixture
def full() -> Iterator[None]:
    """No file can grow beyond some bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, hard))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.usefixtures("full")
def test_no_room(folder: Path, capsys: Capture) -> None:
    for _ in range(2):
        assert compiled()(2.0) == 4.0
    assert capsys.readouterr().err == said("File too large")
    assert files(folder) == []


@pytest.mark.usefixtures("full")
def test_started_processes_leave_it_to_the_first(
    monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr(multiprocessing.current_process(), "_name", "LokyProcess-1")
    assert compiled()(2.0) == 4.0
    assert capsys.readouterr().err == ""


@pytest.mark.slow
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "other"])
def test_damaged_files_are_replaced(
    folder: Path, suffix: str, damage: str, capsys: Capture
) -> None:
    assert compiled()(2.0) == 4.0
    (path,) = (path for path in files(folder) if path.suffix == suffix)
    whole = path.read_bytes()
    path.write_bytes(
        {"empty": b"", "cut": whole[:-9], "zeros": bytes(len(whole)), "other": b"no pickle"}[damage]
    )
    again, after = compiled(), compiled()
    assert again(2.0) == 4.0
    assert sum(again.stats.cache_hits.values()) == 0
    assert after(2.0) == 4.0
    assert sum(after.stats.cache_hits.values()) == 1
    assert capsys.readouterr().err == ""


@pytest.mark.slow
def test_without_a_compiler_it_says_so() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ucfh", "problems", "chain"],
        capture_output=True, text=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "ucfh: NUMBA_DISABLE_JIT is set, but ucfh runs compiled only: unset it\n"
    )


def test_what_a_kernel_consists_of_has_no_name_outside() -> None:
    """The compiler may have changed how it is called: another kernel's call would crash."""
    out, fresh = np.zeros(2, np.int64), compiling.njit()(multinomial.py_func)  # type: ignore[attr-defined]
    fresh(np.random.default_rng(0), 10, np.array([0.5, 0.5]), out)
    assert out.sum() == 10
    (kernel,) = fresh.overloads.values()
    defined = {
        x.name
        for x in kernel.library._final_module.functions
        if not x.is_declaration and x.linkage != Linkage.private
    }
    own = kernel.fndesc
    assert defined == {own.llvm_func_name, own.llvm_cpython_wrapper_name}
