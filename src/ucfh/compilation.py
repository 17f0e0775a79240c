"""Kernels compiled ahead, in as many processes as there are cores.

A kernel is compiled for the types of its arguments, which it has from its first call. Those calls
are written down, by use, in ``_kernels/kinds.txt`` (by ``make kinds``): so a command that finds its
kernels not compiled need not come to their calls one by one, and `ucfh compile` needs no calls. A
line is the use, the kernel and its types. A use is a command, or a command and how arguments of it
begin: ``learn``, ``learn+--paper``. ``float64[2]`` is an array of two axes; a group has its name and
its fields in parentheses. Were a line missing, its kernel would be compiled when it is called.

Kernels of one file go to one process: they have much in common. Processes are forks where that is
safe, as numba takes half a second to load. They end when this one does, however it ends.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread
from time import perf_counter
from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types

from ucfh._support import first_use
from ucfh._support.interrupts import SIGNALS, awaited, wipe

KINDS = Path(__file__).parent / "_kernels" / "kinds.txt"
PACKAGE = "ucfh._kernels"
CLEAR = "\r\x1b[2K"
"""What clears a line of a terminal."""
RANDOM = "random"
"""The type of a random generator, as it is written down."""


class Kind(NamedTuple):
    """A kernel, "walk.draw", and the types of its arguments, as they are written down."""

    kernel: str
    arguments: str


def kinds() -> dict[str, list[Kind]]:
    """What each use calls."""
    found: dict[str, list[Kind]] = {}
    for line in KINDS.read_text().splitlines():
        use, kernel, arguments = line.split(" ", 2)
        found.setdefault(use, []).append(Kind(kernel, arguments))
    return found


def use_of(arguments: list[str], uses: Iterable[str]) -> str | None:
    """Which of the uses a command line is, if any: the one that says most of it."""
    fits = [
        use
        for use in uses
        if (begins := use.split("+"))[0] == arguments[0]
        and all(any(x.startswith(begin) for x in arguments) for begin in begins[1:])
    ]
    return max(fits, key=lambda use: use.count("+"), default=None)


def called() -> set[Kind]:
    """What this process has called so far."""
    found: set[Kind] = set()
    for module in [x for x in sys.modules if x.startswith(f"{PACKAGE}.")]:
        for name, kernel in vars(sys.modules[module]).items():
            if getattr(kernel, "__module__", "") == module and hasattr(kernel, "signatures"):
                short = f"{module.removeprefix(PACKAGE + '.')}.{name}"
                found |= {Kind(short, " ".join(map(write_type, x))) for x in kernel.signatures}
    return found


def write_type(kind: Any) -> str:
    """A type as it is written down."""
    if isinstance(kind, types.BaseNamedTuple):
        fields = ",".join(map(write_type, kind.types))
        home = kind.instance_class.__module__.removeprefix(PACKAGE + ".")
        return f"{home}.{kind.instance_class.__name__}({fields})"
    if isinstance(kind, types.Array):
        if kind.layout != "C" or not kind.aligned:
            return f"{kind}".replace(" ", "")
        return f"{kind.dtype}[{kind.ndim}]" + ("" if kind.mutable else "r")
    return RANDOM if isinstance(kind, types.NumPyRandomGeneratorType) else str(kind)


def read_types(text: str) -> list[Any]:
    """Types that were written down, with blanks or commas between them."""
    found: list[list[Any]] = [[]]
    groups: list[str] = []
    for name, end in re.findall(r"([^ ,()]*)([ ,()]|$)", text):
        if end == "(":
            groups.append(name)
            found.append([])
            continue
        if name:
            found[-1].append(_read_type(name))
        if end == ")":
            module, _, group = groups.pop().rpartition(".")
            fields = found.pop()
            made = getattr(import_module(f"{PACKAGE}.{module}"), group)
            alike = fields and all(x == fields[0] for x in fields)
            found[-1].append(
                types.NamedUniTuple(fields[0], len(fields), made)
                if alike
                else types.NamedTuple(fields, made)
            )
    return found[0]


def _read_type(name: str) -> Any:
    if name == RANDOM:
        return numba.typeof(np.random.default_rng())
    if array := re.fullmatch(r"(\w+)\[(\d)\](r?)", name):
        dtype, axes, fixed = array.groups()
        return types.Array(getattr(types, dtype), int(axes), "C", readonly=bool(fixed))
    return getattr(types, name)


def cores() -> int:
    """How many processes can run at once."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


class Done(NamedTuple):
    """What one process has done: kernels that it compiled, and that were compiled before."""

    compiled: int
    before: int


def compile_all(
    wanted: list[Kind], workers: int, say: Callable[[float], None] | None = None
) -> Done:
    """Compile kernels in other processes, unless it was done; say which share is done."""
    files: dict[str, list[Kind]] = {}
    for kind in wanted:
        files.setdefault(kind.kernel.partition(".")[0], []).append(kind)
    sizes = {name: _size(name) for name in files}
    parts = [files[name] for name in sorted(files, key=lambda name: -sizes[name])]
    numba.njit(lambda: None)()  # what numba loads for its first function, each fork has then
    fork = sys.platform == "linux"
    context: Any = multiprocessing.get_context("fork" if fork else "spawn")
    alive, ours = multiprocessing.Pipe(duplex=False)
    compiled, before, share, whole = 0, 0, 0, sum(sizes.values())
    with context.Pool(workers, _end_with, (alive, ours if fork else None)) as pool, awaited():
        for name, done in pool.imap_unordered(_compile_part, parts):
            compiled, before = compiled + done.compiled, before + done.before
            share += sizes[name]
            if say is not None:
                say(share / whole)
    return Done(compiled, before)


def _size(name: str) -> int:
    """How much there is to compile in a file of kernels, in bytes of Python's code."""
    kernels = vars(import_module(f"{PACKAGE}.{name}")).values()
    return sum(len(x.py_func.__code__.co_code) for x in kernels if hasattr(x, "py_func"))


class Line:
    """One line on stderr: that something is compiled and, on a terminal, how far it is."""

    def __init__(self) -> None:
        self._watched = sys.stderr is not None and sys.stderr.isatty()
        self._begun = perf_counter()
        if sys.stderr is not None:
            print("ucfh: compiling, once", end="" if self._watched else "\n", file=sys.stderr)
            sys.stderr.flush()
        if self._watched:
            wipe(CLEAR)

    def show(self, share: float) -> None:
        """Say that so much is done."""
        if self._watched:
            left = (perf_counter() - self._begun) * (1.0 / share - 1.0)
            text = f"ucfh: compiling, once: {100 * share:.0f} %, about {left:.0f} s left"
            print(f"{CLEAR}{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove it from the terminal."""
        if self._watched:
            print(CLEAR, end="", file=sys.stderr, flush=True)
            wipe("")


def compile_for(arguments: list[str]) -> None:
    """Compile what a command line needs, for the first time: all at once if that is faster."""
    line, uses = Line(), kinds()
    use = use_of(arguments, uses)
    if use is not None and cores() > 1:
        compile_all(uses[use], cores(), line.show)
    line.end()


def _compile_part(part: list[Kind]) -> tuple[str, Done]:
    """Compile kernels of one file."""
    compiled, before = 0, 0
    for kernel, arguments in part:
        name, _, function = kernel.partition(".")
        made = getattr(import_module(f"{PACKAGE}.{name}"), function)
        made.compile(tuple(read_types(arguments)))
        compiled += bool(made.stats.cache_misses)
        before += bool(made.stats.cache_hits)
    return name, Done(compiled, before)


def _end_with(alive: Connection, parents: Connection | None) -> None:
    """End this process when its parent is gone; signals are for the parent."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    if parents is not None:
        parents.close()
    first_use.before = None

    def watch() -> None:
        alive.poll(None)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
