"""Kernels compiled ahead, in as many processes as there are cores.

A kernel is compiled for the types of its arguments, which it has from its first call. Those calls
are written down, by use, in ``_kernels/kinds.txt`` (by ``make kinds``): so a command that finds its
kernels not compiled need not come to their calls one by one, and `ucfh compile` needs no calls. A
line is the use, the kernel and its types. A use is a command, or a command and how arguments of it
begin: ``learn``, ``learn+--paper``. ``float64[2]`` is an array of two axes; a group has a name, and
its fields in parentheses. Were a line missing, its kernel would be compiled when it is called.

Kernels that call the same ones go to one process, which compiles those once. This process is one
of them; others are forks where that is safe, as numba takes half a second to load. They end when
this one ends, in whatever way.
"""

from __future__ import annotations

import multiprocessing
import os
import re
import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing.connection import Connection
from pathlib import Path
from threading import Thread, active_count
from time import perf_counter
from typing import Any, NamedTuple, cast

import numba
import numpy as np
from numba.core import types as numba_types
from numba.core.caching import FunctionCache

from ucfh._kernels.compiling import made_of
from ucfh._utils.interrupts import awaited, wipe
from ucfh._utils.threads import cores

types: Any = numba_types
KINDS = Path(__file__).parent / "_kernels" / "kinds.txt"
PACKAGE = "ucfh._kernels"
CLEAR = "\r\x1b[2K"
"""What clears a line of a terminal."""
MESSAGE = "ucfh: compiling, once"
SERVING = {"compiling", "emitting", "groups", "intrinsics", "lowering"}
"""Files without kernels that kernels import from."""
ROOM = 1 << 17
"""Values that Python makes room for before it compiles.

A compiler calls hundreds of functions deep. Python keeps their variables in blocks of 16 kB, which
it asks the system for and gives back with every call where one ends: up to a third of the time. A
function that claims to need so much gets a block as large, and those that it calls have the rest.
"""
RANDOM = "random"
"""The type of a random generator, as it is written down."""


class KernelCall(NamedTuple):
    """A kernel, "walk.draw", and the types of its arguments, as they are written down."""

    kernel: str
    arguments: str


def kinds() -> dict[str, list[KernelCall]]:
    """What each use calls."""
    found: dict[str, list[KernelCall]] = {}
    for line in KINDS.read_text().splitlines():
        use, kernel, arguments = line.split(" ", 2)
        found.setdefault(use, []).append(KernelCall(kernel, arguments))
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


def called() -> set[KernelCall]:
    """What this process has called so far."""
    found: set[KernelCall] = set()
    for module in [x for x in sys.modules if x.startswith(f"{PACKAGE}.")]:
        for name, kernel in vars(sys.modules[module]).items():
            kept = isinstance(getattr(kernel, "_cache", None), FunctionCache)
            if kept and kernel.__module__ == module:
                short = f"{module.removeprefix(PACKAGE + '.')}.{name}"
                found |= {
                    KernelCall(short, " ".join(map(write_type, x))) for x in kernel.signatures
                }
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
        return f"{_name_of(kind.dtype)}[{kind.ndim}]" + ("" if kind.mutable else "r")
    return RANDOM if isinstance(kind, types.NumPyRandomGeneratorType) else str(kind)


def _name_of(dtype: Any) -> str:
    """The name of a type of numbers, or where a record of them is defined."""
    if not isinstance(dtype, types.Record):
        return str(dtype)
    homes = [x for x in sys.modules if x.startswith(f"{PACKAGE}.")]
    found = ((home, *x) for home in homes for x in vars(sys.modules[home]).items())
    return next(
        f"{home.removeprefix(PACKAGE + '.')}.{name}"
        for home, name, x in found
        if isinstance(x, np.dtype) and numba.from_dtype(x) == dtype
    )


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
        return types.npy_rng
    if array := re.fullmatch(r"(?:(\w+)\.)?(\w+)\[(\d)\](r?)", name):
        home, dtype, axes, fixed = array.groups()
        record = home and numba.from_dtype(getattr(import_module(f"{PACKAGE}.{home}"), dtype))
        return types.Array(record or getattr(types, dtype), int(axes), "C", readonly=bool(fixed))
    return getattr(types, name)


class Compiled(NamedTuple):
    """What one process has done: kernels that it compiled, and that were compiled before."""

    compiled: int
    before: int


class _Part(NamedTuple):
    """Kernels that one process compiles, and how much that is."""

    calls: list[KernelCall]
    size: int


class _Tally:
    """What was done so far, of ``whole``; ``say`` is told the share."""

    def __init__(self, whole: int, say: Callable[[float], None] | None) -> None:
        self.compiled = Compiled(0, 0)
        self._whole, self._share, self._say = whole, 0.0, say

    def add(self, done: Compiled, size: float) -> None:
        """Add what was done."""
        self.compiled = Compiled(*map(sum, zip(self.compiled, done, strict=True)))
        self._share += size / self._whole
        if self._say is not None:
            self._say(self._share)

    def compile(self, part: _Part) -> None:
        """Compile a part in this process."""
        for call in part.calls:
            self.add(_compile([call]), part.size / len(part.calls))


def compile_all(
    wanted: list[KernelCall], workers: int, say: Callable[[float], None] | None = None
) -> Compiled:
    """Compile kernels here and in other processes, unless it was done; say which share is done.

    This process compiles, too: a fork copies most of what numba has loaded as soon as it uses it.
    """
    parts = _parts(wanted)
    tally = _Tally(sum(part.size for part in parts), say)
    given: list[list[_Part]] = [[] for _ in range(min(workers, len(parts)))]
    for part in parts:
        min(given, key=lambda some: sum(x.size for x in some)).append(part)
    mine, others = given[0], [part for some in given[1:] for part in some]
    # if somebody kills them, who calls a kernel compiles it
    with suppress(BrokenProcessPool), _processes(max(1, len(given) - 1)) as pool:
        under_way = {pool.submit(_compile, part.calls): part for part in others}
        for part in mine:
            tally.compile(part)
        with awaited():
            for done in as_completed(under_way):
                tally.add(done.result(), under_way[done].size)
    return tally.compiled


@contextmanager
def _processes(number: int) -> Iterator[ProcessPoolExecutor]:
    """Processes that end when this one ends; they start when there is something to do."""
    # what numba loads for its first function, each fork has then
    cast(Any, numba.njit(lambda: None)).compile(())
    fork = sys.platform == "linux" and active_count() == 1
    context: Any = multiprocessing.get_context("fork" if fork else "spawn")
    alive, ours = multiprocessing.Pipe(duplex=False)
    with ProcessPoolExecutor(number, context, _end_with, (alive, ours if fork else None)) as pool:
        try:
            yield pool
        except BaseException:
            ours.close()  # so that they end
            raise


def _parts(wanted: list[KernelCall]) -> list[_Part]:
    """Kernels by who compiles them, the largest part first."""
    files = {call.kernel.partition(".")[0]: _size(call) for call in wanted}
    parts = [
        _Part(
            [call for call in wanted if call.kernel.partition(".")[0] in names],
            sum(files[name] for name in names),
        )
        for names in _together(list(files))
    ]
    return sorted(parts, key=lambda part: -part.size)


def _together(names: list[str]) -> list[list[str]]:
    """Files of kernels in groups that have no kernels in common."""
    groups: list[tuple[set[str], list[str]]] = []
    for name in names:
        path = KINDS.with_name(f"{name}.py")
        uses = {name} | {x.stem for x in made_of(path, PACKAGE)} - SERVING
        apart = [group for group in groups if not group[0] & uses]
        common = [group for group in groups if group[0] & uses]
        mine = [x for _, members in common for x in members]
        groups = [*apart, (uses.union(*(used for used, _ in common)), [*mine, name])]
    return [members for _, members in groups]


def _size(call: KernelCall) -> int:
    """How much there is to compile in the file of a kernel, in bytes of Python's code."""
    kernels = vars(import_module(f"{PACKAGE}.{call.kernel.partition('.')[0]}")).values()
    return sum(len(x.py_func.__code__.co_code) for x in kernels if hasattr(x, "py_func"))


class Notice:
    """One line on stderr: that something is compiled and, on a terminal, how far it is.

    Where another bar stands on the terminal, which redirects stderr, the line stands above it.
    """

    def __init__(self) -> None:
        self._watched = sys.stderr is not None and sys.stderr is sys.__stderr__
        self._watched = self._watched and sys.stderr.isatty()
        self._begun = perf_counter()
        if sys.stderr is not None:
            print(MESSAGE, end="" if self._watched else "\n", file=sys.stderr)
            sys.stderr.flush()
        if self._watched:
            wipe(CLEAR)

    def show(self, share: float) -> None:
        """Show which share is done."""
        if self._watched:
            left = (perf_counter() - self._begun) * (1.0 / share - 1.0)
            text = f"{MESSAGE}: {100 * share:.0f} %, about {left:.0f} s left"
            print(f"{CLEAR}{text}", end="", file=sys.stderr, flush=True)

    def end(self) -> None:
        """Remove it from the terminal."""
        if self._watched:
            print(CLEAR, end="", file=sys.stderr, flush=True)
            wipe("")


def compile_for(arguments: list[str]) -> None:
    """Compile what a command line needs, for the first time, all at once."""
    uses = kinds()
    use = use_of(arguments, uses)
    if use is None:
        if sys.stderr is not None:
            print(MESSAGE, file=sys.stderr, flush=True)
        return
    line = Notice()
    try:
        compile_all(uses[use], cores(), line.show)
    finally:
        line.end()


def _compile(calls: list[KernelCall]) -> Compiled:
    """Compile kernels, one after the other."""
    compiled, before = 0, 0
    for kernel, arguments in calls:
        name, _, function = kernel.partition(".")
        made = getattr(import_module(f"{PACKAGE}.{name}"), function)
        found = sum(made.stats.cache_hits.values())
        made.compile(tuple(read_types(arguments)))
        known = sum(made.stats.cache_hits.values()) > found
        compiled, before = compiled + (not known), before + known
    return Compiled(compiled, before)


_compile.__code__ = _compile.__code__.replace(co_stacksize=ROOM)


def _end_with(alive: Connection, parents: Connection | None) -> None:
    """End this process when its parent says so or is gone; Ctrl-C is for the parent."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    if parents is not None:
        parents.close()

    def watch() -> None:
        alive.poll(None)
        os._exit(1)

    Thread(target=watch, daemon=True).start()
