"""UCFH: learn a task that repeats and lasts a fixed number of steps, with a guarantee.

Public names are listed in ``__init__.pyi`` and loaded on first use.
"""

import lazy_loader

__version__ = "0.14.0"

__getattr__, _, _names = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *_names]


def __dir__() -> list[str]:
    return sorted(__all__)
