"""All compiled code: arrays in, arrays out, no domain types.

Kernels take and return arrays in named tuples; those that several kernels share are in
`ucfh._kernels.types`. `ucfh._kernels._jit` compiles and caches them.

Attributes:
    telling: whether to print a message before the first kernel is compiled; the command line does.
    compiling: the number of nested compilations under way.
    interrupted: True if a signal came during a compilation, where an exception could be swallowed:
        the outermost compilation raises KeyboardInterrupt when it ends.

"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

telling = False
compiling = 0
interrupted = False


def tell_compiling(cached: bool) -> None:
    """Print once that kernels are compiled, and whether they are ``cached``, if `telling`."""
    global telling
    if telling and sys.stderr is not None:
        when = "first run only" if cached else "no cache directory is writable: set NUMBA_CACHE_DIR"
        print(f"ucfh: compiling kernels ({when}, about 10 s)", file=sys.stderr, flush=True)
    telling = False


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Mark a compilation as under way; raise KeyboardInterrupt after it if a signal came."""
    global compiling, interrupted
    compiling += 1
    try:
        yield
    finally:
        compiling -= 1
    if interrupted and not compiling:
        interrupted = False
        raise KeyboardInterrupt
