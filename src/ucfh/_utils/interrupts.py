"""What Ctrl-C and SIGTERM do to a command: one line, an exit code, and what was done is kept.

Where there is nothing to keep, a signal ends the process at once: an exception that is raised
during an import, a compilation or a shutdown would be swallowed there, or shown. Where there is
something, the signal waits until the command asks for it (`check`) or waits for other processes
(`awaited`), and is a KeyboardInterrupt then. A second signal ends the process wherever it is.

Where the package is called from Python, nothing changes: signals do what they always do.

It is loaded before everything else, so it imports little.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import contextmanager, suppress

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM)


class _State:
    """What this process knows of signals.

    Attributes:
        first: the first signal that came, or 0. waiting: whether it still has to be handled.
        kept: whether the command has something to keep. holds: how many files are being written.
        open: whether a signal may be raised nevertheless.
        wiped: the code that removes a progress bar from the terminal.

    """

    first = 0
    waiting = False
    kept = False
    holds = 0
    open = False
    wiped = ""


_now = _State()


def exit_code() -> int:
    """The exit code of a command that a signal ended, as shells have it: 130, or 143."""
    return 128 + (_now.first or signal.SIGINT)


def listen() -> None:
    """Handle signals from now on, except those that are to be ignored, as after nohup."""
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)


def ignore() -> None:
    """Ignore signals from now on: all is done, and Python cleans up."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)


@contextmanager
def listening() -> Iterator[None]:
    """Handle signals while a command runs."""
    before = [(number, signal.getsignal(number)) for number in SIGNALS]
    _now.kept = False
    try:
        listen()
    except ValueError:  # not the main thread, the only one that can handle signals
        yield
        return
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)
        code, waiting = exit_code(), _now.waiting
        _now.first, _now.waiting, _now.kept = 0, False, False
        if waiting:  # it came during the last piece of work
            _say()
            sys.exit(code)


def _hear(number: int, _: FrameType | None) -> None:
    if _now.first or not (_now.kept or _now.holds):
        leave(_now.first or number)
    _now.first, _now.waiting = number, True
    if _now.open:
        check()


def check() -> None:
    """Raise KeyboardInterrupt if a signal waits."""
    if _now.waiting:
        _now.waiting = False
        raise KeyboardInterrupt


def keep() -> None:
    """Let signals wait from now on: the command has something to keep."""
    _now.kept = True


@contextmanager
def deferring() -> Iterator[None]:
    """Let Ctrl-C wait until `check` asks for it, also where the package is called from Python.

    A second one is raised at once.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return

    def wait(_: int, __: FrameType | None) -> None:
        _now.waiting = True
        signal.signal(signal.SIGINT, signal.default_int_handler)

    try:
        signal.signal(signal.SIGINT, wait)
    except ValueError:  # not the main thread
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        _now.waiting = False


@contextmanager
def held() -> Iterator[None]:
    """Let a signal wait until a file is written."""
    _now.holds += 1
    try:
        yield
    finally:
        _now.holds -= 1
        if _now.waiting and not (_now.kept or _now.holds):
            leave(_now.first)


@contextmanager
def awaited() -> Iterator[None]:
    """Let a signal be raised at once, though there is something to keep: others do the work."""
    _now.open = True
    try:
        check()
        yield
    finally:
        _now.open = False


def wipe(code: str) -> None:
    """Write this before the last line: the code that removes a progress bar from the terminal."""
    _now.wiped = code


def leave(number: int) -> None:
    """End this process now, with one line; unfinished work is dropped."""
    # what was printed is kept, unless nobody reads it or it is being written at this moment
    with suppress(OSError, RuntimeError, ValueError):
        if sys.stdout is not None:
            sys.stdout.flush()
    _say()
    os._exit(128 + number)


def _say() -> None:
    with suppress(OSError):
        os.write(2, f"{_now.wiped}ucfh: interrupted\n".encode())
