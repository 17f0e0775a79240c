"""``python -m ucfh``, and the command ``ucfh``."""

from ucfh import _kernels


def main() -> None:
    """Run the command line as a process of its own."""
    _kernels.telling = True
    from ucfh.cli.main import main as run

    run()


if __name__ == "__main__":
    main()
