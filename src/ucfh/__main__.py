"""``python -m ucfh``, and the command ``ucfh``."""

import gc
import sys

from ucfh._utils import first_use, interrupts


def main() -> None:
    """Run the command line as a process of its own, which hears signals while it loads."""
    interrupts.listen()
    gc.set_threshold(100_000, 50)  # modules are no garbage: it would be looked for in vain
    first_use.before = _compile
    first_use.alone = not any("env:" in argument for argument in sys.argv)
    from ucfh.cli.main import main as run

    try:
        try:
            run()
        finally:
            _end_workers()
    finally:
        interrupts.ignore()


def _compile() -> None:
    """Say that something has to be compiled, and compile all that this command needs."""
    from ucfh.compilation import compile_for

    compile_for(sys.argv[1:])


def _end_workers() -> None:
    """End other processes, if there are any: Python would, when it hears no signal any more."""
    if "joblib" in sys.modules:
        from ucfh._utils.parallel import end_workers

        with interrupts.listening():
            interrupts.keep()
            end_workers()


if __name__ == "__main__":
    main()
