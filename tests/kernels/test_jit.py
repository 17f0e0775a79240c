"""Kernels are cached where a directory is writable, and compiled again after every change."""

from __future__ import annotations

import os
import re
import resource
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from ucfh._kernels import _jit

DIGEST = "function.__qualname__ = "
"""The line that guards against stale code begins with it."""
RESULT = "from pair.first import twice; print(twice(1.0), sum(twice.stats.cache_hits.values()))"
MESSAGE = "ucfh: compiling kernels ({}, about 10 s)\n"
CACHED = MESSAGE.format("first run only")
NOT_CACHED = MESSAGE.format("no cache directory is writable: set NUMBA_CACHE_DIR")
TOLD = f"import ucfh._kernels; ucfh._kernels.telling = True; {RESULT}"


@pytest.fixture
def package(tmp_path: Path) -> Path:
    """A package of two kernels in two files, and of `ucfh._kernels._jit`."""
    folder = tmp_path / "pair"
    folder.mkdir()
    (folder / "__init__.py").touch()
    shutil.copy(_jit.__file__, folder)
    (folder / "second.py").write_text(
        "from pair._jit import njit\n@njit()\ndef times(x):\n    return 2 * x\n"
    )
    (folder / "first.py").write_text(
        "from pair._jit import njit\nfrom pair.second import times\n"
        "@njit()\ndef twice(x):\n    return times(x)\n"
    )
    return folder


def run(package: Path, code: str = RESULT, cache: str = "cache", **options: Any) -> tuple[str, str]:
    """Return stdout and stderr of a new process."""
    path = os.pathsep.join([str(package.parent), *sys.path])
    directory = str(package.parent / cache)
    done = subprocess.run(
        [sys.executable, "-B", "-c", code], check=True, capture_output=True, text=True,
        env={**os.environ, "PYTHONPATH": path, "NUMBA_CACHE_DIR": directory,
             "XDG_CACHE_HOME": directory}, **options,
    )  # fmt: skip
    return done.stdout.strip(), done.stderr


def triple(package: Path) -> None:
    """Change the kernel that the other one calls."""
    second = package / "second.py"
    second.write_text(second.read_text().replace("2", "3"))


def test_a_change_in_another_file_is_noticed(package: Path) -> None:
    assert run(package)[0] == "2.0 0"
    assert run(package)[0] == "2.0 1"
    triple(package)
    assert run(package)[0] == "3.0 0"
    assert run(package)[0] == "3.0 1"


def test_without_the_digest_stale_code_runs(package: Path) -> None:
    """Numba's own cache does not notice the change."""
    copy = package / "_jit.py"
    text = copy.read_text()
    assert text.count(DIGEST) == 1
    copy.write_text(re.sub(f" +{re.escape(DIGEST)}.*\n", "", text))
    assert run(package)[0] == "2.0 0"
    triple(package)
    assert run(package)[0] == "2.0 1"


def test_no_directory_is_writable(package: Path) -> None:
    """Each of the directories that numba tries is a file, or below one."""
    (package.parent / "file").touch()
    (package / "__pycache__").touch()
    for _ in range(2):
        assert run(package, TOLD, cache="file/cache") == ("2.0 0", NOT_CACHED)


def limit_files() -> None:
    """Let no file grow beyond some bytes."""
    resource.setrlimit(resource.RLIMIT_FSIZE, (64, 64))


def test_the_disk_is_full(package: Path) -> None:
    for _ in range(2):
        assert run(package, preexec_fn=limit_files) == ("2.0 0", "")


def test_a_message_is_printed_when_something_is_compiled(package: Path) -> None:
    assert run(package, TOLD) == ("2.0 0", CACHED)
    assert run(package, TOLD) == ("2.0 1", "")
    triple(package)
    assert run(package) == ("3.0 0", "")


def test_disabled_compilation_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ucfh", "problems", "chain"],
        capture_output=True, text=True, env={**os.environ, "NUMBA_DISABLE_JIT": "1"},
    )  # fmt: skip
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "ucfh: NUMBA_DISABLE_JIT is set, but ucfh runs compiled only. Fix: unset it\n"
    )
