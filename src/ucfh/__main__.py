"""``python -m ucfh``, and the command ``ucfh``."""

import sys

from ucfh._utils import first_use


def main() -> None:
    """Run the command line as a process of its own."""
    first_use.before = _compile
    first_use.alone = not any("env:" in argument for argument in sys.argv)
    from ucfh.cli.main import main as run

    run()


def _compile() -> None:
    """Say that something has to be compiled, and compile all that this command needs."""
    from ucfh.compilation import compile_for

    compile_for(sys.argv[1:])


if __name__ == "__main__":
    main()
