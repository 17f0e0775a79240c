"""Where figures are drawn: on paper of their own, which needs no display."""

from __future__ import annotations

import os
from typing import Any

from ucfh.errors import InputError

CHOSEN = "MPLBACKEND"
"""The variable by which a user chooses where pyplot shows windows. Nothing is shown here."""


def load_matplotlib() -> Any:
    """The package matplotlib, whatever window system it is told to use."""
    chosen = os.environ.pop(CHOSEN, None)
    try:
        import matplotlib
    except (ImportError, ValueError, OSError) as error:
        reason = " ".join(str(error).split())
        raise InputError(
            f"cannot draw: matplotlib does not load ({reason}); install it anew: "
            "pip install --force-reinstall matplotlib"
        ) from None
    finally:
        if chosen is not None:
            os.environ[CHOSEN] = chosen
    return matplotlib


def new_figure(width: float, height: float) -> Any:
    """An empty figure of matplotlib, in inches, laid out with "constrained".

    It is not made by pyplot, which would ask for a window system and keep it in memory.
    """
    load_matplotlib()
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")
