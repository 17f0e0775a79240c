"""``python -m ucfh``."""

from ucfh.cli import main

if __name__ == "__main__":
    main()
