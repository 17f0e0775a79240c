"""Compilation of kernels: `numba.njit` with a cache on disk that notices every change.

Numba's cache compares only the file of a function with what was compiled, so a change in a file
that it imports from goes unnoticed. A digest of all kernel sources is therefore part of the
qualified name of every kernel, from which numba makes the name of its cache file.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

from ucfh import _kernels
from ucfh.exceptions import InputError

Function = TypeVar("Function", bound=Callable[..., Any])

if cast(Any, numba).config.DISABLE_JIT:  # plain Python would take hours, and has no `add_at`
    raise InputError("NUMBA_DISABLE_JIT is set, but ucfh runs compiled only. Fix: unset it")

SOURCES = sorted(Path(__file__).parent.glob("*.py"))
DIGEST = hashlib.blake2b(b"".join(x.read_bytes() for x in SOURCES), digest_size=6).hexdigest()


def njit(**options: Any) -> Callable[[Function], Function]:
    """Return a decorator that compiles a kernel on its first call, or loads it from the cache.

    Args:
        options: those of `numba.njit`, beside ``nogil`` and ``cache``.

    """

    def decorate(function: Function) -> Function:
        function.__qualname__ = f"{function.__qualname__}_{DIGEST}"
        # a wrapper for C takes time to compile, and nothing here calls one
        given = {"nogil": True, "no_cfunc_wrapper": True, **options}
        try:
            compiled = numba.njit(cache=options.get("inline") != "always", **given)(function)
        except RuntimeError:  # no cache directory is writable
            compiled = numba.njit(**given)(function)
        compile_now = compiled.compile

        def compile_and_tell(signature: Any) -> Any:
            folder = compiled.stats.cache_path
            if not folder or not any(Path(folder).glob(f"*.{function.__qualname__}-*.nbi")):
                _kernels.tell_compiling(cached=bool(folder))
            with _kernels.uninterrupted():
                try:
                    return compile_now(signature)
                except OSError:  # the disk is full: the kernel is compiled, but not in the cache
                    return compile_now(signature)

        compiled.compile = compile_and_tell
        return cast(Function, compiled)

    return decorate
