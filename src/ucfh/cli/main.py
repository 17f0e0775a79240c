"""The command line: a table of commands. Results go to stdout, progress and errors to stderr."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperGroup

from ucfh import _kernels
from ucfh.exceptions import InputError, unknown

COMMANDS = (
    "learn", "certify", "audit", "act", "task", "ask", "tell", "serve", "token", "compare",
    "plan", "evaluate", "bounds", "problems", "agents", "verify",
)  # fmt: skip
"""Modules of `ucfh.cli`, each with a function of the same name: its options and its body.

One that has commands of its own lists them in PARTS.
"""

REMOVED = {
    "compile": "any command: kernels are compiled when they are first used",
    "study": "python -m evaluation, in the source repository",
    "report": "make report, in the source repository",
    "task upgrade": "ucfh task export with the version that made the store, then ucfh task import",
}
"""Commands of earlier versions, and their replacements."""


def _refuse_removed(name: str) -> None:
    if name in REMOVED:
        raise InputError(f"{name} was removed. Fix: run {REMOVED[name]}")


class PartCommands(TyperGroup):
    """Commands of a command, such as ``ucfh task``."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of that name."""
        if ctx is not None:
            _refuse_removed(f"{ctx.info_name} {cmd_name}")
        return super().get_command(ctx, cmd_name)


class LazyCommands(TyperGroup):
    """A group of commands that are imported on use."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ARG002
        """Return the names of all commands, in the order of the help."""
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ARG002
        """Return a command by its name."""
        _refuse_removed(cmd_name)
        if cmd_name not in COMMANDS:
            raise unknown("command", cmd_name, COMMANDS)
        module = import_module(f"ucfh.cli.{cmd_name}")
        alone = typer.Typer(cls=PartCommands, add_completion=False, rich_markup_mode=None)
        command, parts = getattr(module, cmd_name), getattr(module, "PARTS", {})
        if parts:
            alone.callback(context_settings=SETTINGS)(command)
        for name, part in (parts or {cmd_name: command}).items():
            alone.command(name, context_settings=SETTINGS)(part)
        return typer.main.get_command(alone)


SIGNALS = (signal.SIGINT, signal.SIGTERM)
SETTINGS = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

app = typer.Typer(
    name="ucfh",
    cls=LazyCommands,
    help="Learn a task that repeats and lasts a fixed number of steps, with a guarantee.",
    add_completion=False,
    rich_markup_mode=None,
    context_settings=SETTINGS,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        from ucfh import __version__

        print(f"ucfh {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        typer.Option("--version", help="print the version", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    del version  # its callback did all


def main(arguments: list[str] | None = None) -> None:
    """Run the command line; a user's mistake is one line on stderr and exit code 2."""
    given = sys.argv[1:] if arguments is None else arguments
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="replace")  # names in a script that the terminal lacks
    with _terminable() as received:
        try:
            _run(given or ["--help"])
        except KeyboardInterrupt as interrupt:
            kept = f"; {interrupt}" if interrupt.args else ""
            _fail(f"interrupted{kept}", 128 + (received or [signal.SIGINT])[0])


@contextmanager
def _terminable() -> Iterator[list[int]]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does; yield the numbers of such signals.

    While a kernel is compiled, the first signal waits: an exception raised there may be swallowed.
    """
    received: list[int] = []

    def interrupt(number: int, _: Any) -> None:
        received.append(number)
        if _kernels.compiling and len(received) == 1:
            _kernels.interrupted = True
        else:
            raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():  # it cannot handle signals
        yield received
        return
    # after nohup, or in a background job of a shell, Ctrl-C is ignored, and stays so
    numbers = [x for x in SIGNALS if signal.getsignal(x) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in numbers}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _run(arguments: list[str]) -> NoReturn:
    command = typer.main.get_command(app)
    try:
        # not command.main: it ends at Ctrl-C without a word
        with command.make_context("ucfh", arguments) as context:
            command.invoke(context)
        if sys.stdout is not None:
            sys.stdout.flush()
    except typer.Exit as end:
        sys.exit(end.exit_code)
    except InputError as error:
        _fail(str(error), 2)
    except MemoryError as error:
        _fail(f"the problem does not fit into memory ({error}): make it smaller", 2)
    except BrokenPipeError:  # the reader is gone, and flushing at exit would fail again
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
    except OSError as error:
        _fail(f"the system refused something: {error.strerror or error}", 2)
    except Exception as error:
        if not hasattr(error, "format_message"):
            raise
        # how the parser says that an option or a value is wrong
        where = getattr(getattr(error, "ctx", None), "command_path", "ucfh")
        _fail(f"{error.format_message()} (see: {where} --help)", 2)
    sys.exit(0)


def _fail(message: str, code: int) -> NoReturn:
    if sys.stderr is not None:
        from ucfh.cli.printing import printable

        print("ucfh: " + printable(" ".join(message.split())), file=sys.stderr)
    sys.exit(code)
