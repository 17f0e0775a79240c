"""How functions are compiled, and where compiled code is kept: wherever it can be, or nowhere.

Numba fails where it finds no folder to keep compiled code in, where the disk is full, and where a
file of it is damaged. All of them only cost the time to compile anew.

Nor does it notice that a function, a class or a number has changed that compiled code has from
another file. Here, code is compiled anew if one of the files has changed that its own file imports
from, of the same package.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from contextlib import suppress
from functools import cache as remember
from multiprocessing import current_process
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import config
from numba.core.caching import FunctionCache
from numba.core.registry import cpu_target
from numba.core.types import unliteral

from ucfh._utils import first_use
from ucfh._utils.interrupts import held
from ucfh.exceptions import InputError

if config.DISABLE_JIT:  # type: ignore[attr-defined]
    # as plain Python they would take hours, and some cannot run: they add as one act among threads
    raise InputError("NUMBA_DISABLE_JIT is set, but ucfh runs compiled only: unset it")

Function = TypeVar("Function", bound=Callable[..., Any])

tested = numba.__version__.rpartition(".")[0] in ("0.68",)
"""Whether `emitting` and `lowering`, which rest on parts of numba that may change, were tested with
this version of it. With others, kernels are compiled as numba does it, to the same effect."""

_kernels: set[Any] = set()
_ours: dict[str, Any] = {}
if tested:
    from ucfh._kernels.emitting import shorten
    from ucfh._kernels.lowering import KernelCompiler, pass_groups

    shorten(_kernels)
    pass_groups(__name__.rpartition(".")[0])
    _ours["pipeline_class"] = KernelCompiler

# For a function that makes no array: without numba's reference counts, which would cost more than
# a short row does, for each array of each group.
uncounted: dict[str, Any] = {"cache": True, "nogil": True, "_nrt": False, "forceinline": False}

# For a function that only compiled ones call: it has no way in from Python, and is not kept.
inner: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}

# For one with one caller, or few: a call would pass seven numbers for each array.
folded: dict[str, Any] = {**uncounted, **inner, "forceinline": True}

_told = False


class _Cache(FunctionCache):
    """Compiled code of one function on disk."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        path, package = Path(function.__code__.co_filename), function.__module__.rpartition(".")[0]
        imported = [(x.name, x.stat().st_mtime, x.stat().st_size) for x in made_of(path, package)]
        self._cache_file._source_stamp = self._cache_file._source_stamp, imported

    def load_overload(self, signature: Any, context: Any) -> Any:
        """What was compiled before for these types; None if there is nothing, or it is damaged."""
        _start()
        found = self._read(signature, context)
        if found is None and first_use.begin():
            found = self._read(signature, context)
        return found

    def _read(self, signature: Any, context: Any) -> Any:
        try:
            return super().load_overload(signature, context)
        except Exception:  # a damaged file may raise anything
            with suppress(OSError), held():
                self.flush()  # or the damaged index would be read before the next one is written
            return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        """Keep what was compiled, if there is room."""
        try:
            with held():
                super().save_overload(signature, compiled)
        except OSError as error:
            _tell(error.strerror or str(error))


def njit(*, cache: bool = False, **options: Any) -> Callable[[Function], Function]:
    """``numba.njit``; with ``cache``, compiled code is kept for the next start if it can be.

    What Python calls and what other kernels call are compiled apart, each only if it is called,
    the latter as `inner`, and for the type of a number, whether it is a constant there or not.
    """

    def decorate(function: Function) -> Function:
        compiled = numba.njit(**{"no_cfunc_wrapper": True, **_ours, **options})(function)
        _kernels.add(compiled)
        if "fastmath" in options:  # kernels of few lines, which only kernels call
            return cast(Function, compiled)
        _twin(compiled, function, options)
        if cache and "no_cpython_wrapper" not in options:
            try:
                compiled._cache = _Cache(function)
            except (OSError, RuntimeError):
                _tell("no folder for it can be written")
        return cast(Function, compiled)

    return decorate


@remember
def _start() -> None:
    """Where this process is ours, let numba load what its first function needs, without SciPy.

    SciPy would take longer to load than all kernels, and is for linear algebra; there is none.
    """
    spared = "scipy.linalg"
    if not first_use.alone or spared in sys.modules:
        return
    sys.modules[spared] = None  # type: ignore[assignment]
    try:
        cpu_target.target_context.refresh()
    finally:
        del sys.modules[spared]


def _twin(compiled: Any, function: Callable[..., Any], options: dict[str, Any]) -> None:
    """Let other kernels call not this one but an inner one, made when it is needed."""

    @remember
    def twin() -> Any:
        made = numba.njit(**{**_ours, **options, **inner})(function)
        _kernels.add(made)
        return made

    def template(arguments: Any, by_name: Any) -> Any:
        by_name = {name: unliteral(x) for name, x in by_name.items()}
        return twin().get_call_template(tuple(map(unliteral, arguments)), by_name)

    compiled.get_call_template = template
    compiled.get_overload = lambda signature: twin().get_overload(signature)


@remember
def made_of(path: Path, package: str) -> list[Path]:
    """The files of its package that a file imports from, directly or by others of them."""
    found, due = [path], [path]
    while due:
        text = due.pop().read_text()
        for name in re.findall(rf"^ *from {re.escape(package)}\.(\w+) import", text, re.MULTILINE):
            other = path.with_name(f"{name}.py")
            if other not in found:
                found.append(other)
                due.append(other)
    return found[1:]


def _tell(reason: str) -> None:
    """Say once that nothing is kept; processes that were started for parallel work need not."""
    global _told
    if not _told and current_process().name == "MainProcess" and sys.stderr is not None:
        print(
            f"ucfh: compiled code cannot be kept ({reason}), so every start takes longer: set "
            "NUMBA_CACHE_DIR to a folder with room",
            file=sys.stderr,
        )
    _told = True
