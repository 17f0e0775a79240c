"""``ucfh compile``."""

from __future__ import annotations

from time import perf_counter
from typing import Annotated

import typer

from ucfh.exceptions import unknown


def compile(
    command: Annotated[
        list[str] | None,
        typer.Argument(help="commands, such as learn; default: all", show_default=False),
    ] = None,
) -> None:
    """Compile the code of commands ahead of their first run.

    Uses one process per core. Prints the number of compiled functions. Compiled code is kept for
    this user, this version and this kind of processor.

    \b
    Examples:
      ucfh compile
      ucfh compile learn certify
    """
    from ucfh._utils import first_use
    from ucfh._utils.threads import cores
    from ucfh.compilation import Notice, compile_all, kinds

    first_use.before = None
    begun, uses = perf_counter(), kinds()
    known = list(dict.fromkeys(use.partition("+")[0] for use in uses))
    for name in command or ():
        if name not in known:
            raise unknown("command that compiles", name, known)
    names = command or known
    wanted = [kind for use in uses if use.partition("+")[0] in names for kind in uses[use]]
    line = Notice()
    done = compile_all(list(dict.fromkeys(wanted)), cores(), line.show)
    line.end()
    functions = "function" if done.compiled == 1 else "functions"
    print(
        f"compiled {done.compiled} {functions} in {perf_counter() - begun:.1f} s; "
        f"compiled before: {done.before}"
    )
