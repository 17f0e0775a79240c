"""``python -m ucfh``, and the command ``ucfh``."""

import sys

from ucfh import interrupts


def main() -> None:
    """Run the command line as a process of its own, which hears signals while it loads."""
    interrupts.listen()
    from ucfh.cli import main as run

    try:
        run()
    finally:
        if "joblib" in sys.modules:
            from ucfh.parallel import end_workers

            with interrupts.held():
                end_workers()
        interrupts.ignore()


if __name__ == "__main__":
    main()
